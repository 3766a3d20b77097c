"""The pages on which a person lets a tool use an account of theirs: each function returns one page as HTML."""

from html import escape

from ...trust.requirements.challenges import Challenged
from ..pages.forms import Browser, Forms
from ..pages.layout import alert, page, paragraph, shown, table

TITLE = "Connect an account"
ISSUER, ANEW = "issuer", "anew"
"""Fields of the form: at which issuer a person signs in, and whether they sign in again though they already have."""


def not_set_up(provider: str, base_url: str) -> str:
    """That this server cannot connect accounts at the provider."""
    return page(
        "Authorization",
        f"<p>A tool asks for access to an account at <b>{escape(provider[:100])}</b>.</p>"
        "<p>No provider is set up on this server for that, so the authorization cannot be completed here. "
        "The caller can pass a token of its own in <code>context.authorization</code>, and whoever runs the server can "
        "set up the provider.</p>",
        base_url,
    )


def ask(
    forms: Forms,
    browser: Browser,
    action: str,
    asked: Challenged,
    scopes: tuple[str, ...],
    base_url: str,
    problem: str = "",
) -> str:
    """Who asks for what, and a field for the code that shows that the caller sent this person."""
    wrong = " aria-invalid='true' autofocus" if problem else ""
    code = (
        "<label for='code'>The code that you were shown with the link</label>"
        "<input type='text' id='code' name='code' required maxlength='16' size='12' spellcheck='false' "
        f"autocapitalize='characters' aria-describedby='why'{wrong}>"
    )
    body = (
        (alert(problem) if problem else "")
        + _what(asked, scopes)
        + forms.form(browser, action, code, f"Continue to {asked.provider}")
        + "<p class='note' id='why'>The code shows that it was you who had the tool called. If somebody else sent you "
        "this link and the code, close this page: the account that you connect would be used on their behalf.</p>"
    )
    return page(TITLE, body, base_url)


def sign_in(
    forms: Forms, browser: Browser, action: str, asked: Challenged, scopes: tuple[str, ...], base_url: str,
    issuers: tuple[str, ...], problem: str = "",
) -> str:  # fmt: skip
    """Who asks for what, and a button for each issuer at which the person can show that they are meant."""
    buttons = "".join(_button(issuer, f"Sign in as {asked.user} at {issuer}") for issuer in issuers)
    body = (
        (alert(problem) if problem else "")
        + _what(asked, scopes)
        + forms.form(browser, action, buttons)
        + paragraph(f"Then you are sent on to {asked.provider}.")
        + "<p class='note'>Signing in shows that the tool was called for you. "
        f"If you are not {shown(asked.user)}, close this page: the link works for nobody else.</p>"
    )
    return page(TITLE, body, base_url)


def somebody_else(forms: Forms, browser: Browser, action: str, issuer: str, base_url: str) -> str:
    """For a person who signed in and is not meant. The page does not say who is."""
    again = f"<input type='hidden' name='{ANEW}' value='yes'>" + _button(issuer, "Sign in as another person")
    body = (
        alert(f"You signed in at {issuer}, and this link was made for somebody else. Nothing was connected.")
        + paragraph(
            "If you have another name there, and it is the one that the tool was called for, sign in with that."
        )
        + forms.form(browser, action, again)
        + "<p class='note'>If the tool was not called for you, close this page.</p>"
    )
    return page("This link is for somebody else", body, base_url)


def _what(asked: Challenged, scopes: tuple[str, ...]) -> str:
    rows = [
        ("Tool", asked.tool),
        ("Account at", asked.provider),
        ("What it may do", ", ".join(scopes) or "what the provider gives without being asked"),
        ("On behalf of", asked.user),
        ("Asked by", asked.subject if asked.tenant == "default" else f"{asked.subject} of {asked.tenant}"),
    ]
    return paragraph(f"A tool on this server asks to use an account of yours at {asked.provider}.") + table(rows)


def _button(issuer: str, text: str) -> str:
    return f"<button type='submit' name='{ISSUER}' value='{escape(issuer)}'>{shown(text)}</button>"


def go(to: str, what_for: str, address: str, base_url: str) -> str:
    """Leads on to a provider or issuer. It is no redirect, because the content security policy of the form would have
    to name every address on the way."""
    href = escape(address)
    return page(
        TITLE,
        f"<p>You are sent to {escape(to)}, which asks {escape(what_for)}.</p>"
        f"<p><a class='button' rel='noreferrer' href='{href}'>Continue to {escape(to)}</a></p>",
        base_url,
        f"<meta http-equiv='refresh' content='0; url={href}'>",
    )


def done(asked: Challenged, account: str, base_url: str) -> str:
    """That the account is connected."""
    whose = f"The account {account} at {asked.provider}" if account else f"Your account at {asked.provider}"
    return page(
        "Connected",
        paragraph(f"{whose} is connected. {asked.tool} can be called now, on behalf of {asked.user}.")
        + paragraph("You can close this page."),
        base_url,
    )


def settled(base_url: str) -> str:
    """For somebody who opens the link again, after the account was connected."""
    return page("Connected", paragraph("This is done already. You can close this page."), base_url)


def failed(reason: str, base_url: str, again: str = "") -> str:
    """Why nothing was connected. `again` is the address at which the person can try once more."""
    link = f"<p><a class='button' href='{escape(again)}'>Try again</a></p>" if again else ""
    return page("Not connected", alert(reason) + link, base_url)
