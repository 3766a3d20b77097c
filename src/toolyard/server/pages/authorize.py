"""The pages on which a person lets a tool use an account of theirs."""

from html import escape

from .layout import page


def not_set_up(provider: str, base_url: str) -> str:
    return page(
        "Authorization",
        f"<p>A tool asks for access to an account at <b>{escape(provider[:100])}</b>.</p>"
        "<p>No provider is set up on this server for that, so the authorization cannot be completed here. "
        "The caller can pass a token of its own in <code>context.authorization</code>, and whoever runs the server can "
        "set up the provider.</p>",
        base_url,
    )
