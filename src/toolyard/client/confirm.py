"""Confirmation by a person before a call is sent: what they are shown of the tool, and whose hints they see.

A server's hints about its own tools count where the server is trusted: it is on this machine, or somebody named it. At
any other server a tool is shown with MCP's defaults, as destructive.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ..model.errors import Declined
from ..model.run import Source
from ..text.addresses import is_loopback
from ..wires.mcp.tools import annotations_of

Confirm = Callable[[dict[str, Any], dict[str, Any]], bool]
"""Gets a tool, as the server lists it, and the input that would be sent; returns whether to send it."""
AsyncConfirm = Callable[[dict[str, Any], dict[str, Any]], bool | Awaitable[bool]]
UNTRUSTED_HINTS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
"""MCP's defaults, which replace whatever an untrusted server says of a tool."""


def is_on_this_machine(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")


def is_named(url: str, trusted: Sequence[str]) -> bool:
    """Whether a URL is one of those that somebody named as trusted, or below one of them."""
    scheme, host, path = _parts(url)
    # With the slash, so that /tools does not cover /tools-of-others.
    return any((scheme, host) == each[:2] and f"{path}/".startswith(f"{each[2]}/") for each in map(_parts, trusted))


def _parts(url: str) -> tuple[str, tuple[str | None, int | None], str]:
    """Scheme, host with port, and path of a URL, in one spelling: https://a and https://a:443/ are the same."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname, port), parts.path.rstrip("/")


def find_listed(tools: Sequence[dict[str, Any]], reference: str) -> dict[str, Any] | None:
    """The listed tool that a reference means: by its name, or by its id, with or without a version."""
    id, _, version = reference.partition("@")
    wanted = f"{version}.0.0" if version and "." not in version else version  # @1 means 1.0.0, and not the newest 1.x
    for listed in tools:
        name, _, number = reference_of(listed).partition("@")
        if id in (name, listed["name"]) and wanted in ("", number):
            return listed
    return None


def reference_of(tool: Mapping[str, Any]) -> str:
    """A listed tool's reference (`Toolkit.Tool@1.2.3`), whichever wire lists it; its name, where it has no such id."""
    if "id" in tool:
        return str(tool["id"])
    meta = tool.get("_meta") or {}
    return f"{meta['toolyard/id']}@{meta['toolyard/version']}" if "toolyard/id" in meta else str(tool["name"])


def shown(tools: Sequence[dict[str, Any]], reference: str, *, is_trusted: bool) -> dict[str, Any]:
    """What a person is shown of a tool: all that is listed of it, or only its name where it is not listed."""
    listed = find_listed(tools, reference) or {"name": reference}
    return listed if is_trusted else {**listed, "annotations": UNTRUSTED_HINTS}


def hints_of(listed: dict[str, Any], sources: Sequence[Source]) -> dict[str, Any]:
    """The hints of a tool that was loaded from a file, as MCP's annotations: OXP's list has no member for them."""
    tools = [tool for source in sources for tool in source.tools if tool.reference == listed.get("id")]
    return {"annotations": annotations_of(tools[0])} if tools else {}


def declined(reference: str) -> Declined:
    return Declined(f"{reference} was not called: it was not confirmed")
