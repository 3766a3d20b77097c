"""A person's yes before a call is sent: which tool, as its server describes it, and with what input.

What a server says of its own tools counts where somebody trusts the server: it is on this machine, or was named. Of any
other, a tool is taken for what MCP takes it for when nothing is said: destructive.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ..model.errors import Declined
from ..model.run import Source
from ..text.addresses import is_loopback
from ..wires.mcp.tools import annotations_of

Confirm = Callable[[dict[str, Any], dict[str, Any]], bool]
"""Asked with a tool, as the server lists it, and the input that would be sent."""
AsyncConfirm = Callable[[dict[str, Any], dict[str, Any]], bool | Awaitable[bool]]
UNTRUSTED_HINTS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
"""MCP's defaults, in the place of whatever an untrusted server says of a tool."""


def is_on_this_machine(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")


def is_named(url: str, trusted: Sequence[str]) -> bool:
    """Whether an address is one of those, or below one of them."""
    scheme, host, path = _place(url)
    return any((scheme, host) == each[:2] and f"{path}/".startswith(f"{each[2]}/") for each in map(_place, trusted))


def _place(url: str) -> tuple[str, tuple[str | None, int | None], str]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname, port), parts.path.rstrip("/")


def find_listed(tools: Sequence[dict[str, Any]], reference: str) -> dict[str, Any] | None:
    """The tool that is meant: by its name, or by its id, with or without a version."""
    id, _, version = reference.partition("@")
    wanted = f"{version}.0.0" if version and "." not in version else version
    for listed in tools:
        name, _, number = reference_of(listed).partition("@")
        if id in (name, listed["name"]) and wanted in ("", number):
            return listed
    return None


def reference_of(tool: Mapping[str, Any]) -> str:
    """`Toolkit.Tool@1.2.3`, whichever wire lists it; of a tool that is not toolyard's, its name."""
    if "id" in tool:
        return str(tool["id"])
    meta = tool.get("_meta") or {}
    return f"{meta['toolyard/id']}@{meta['toolyard/version']}" if "toolyard/id" in meta else str(tool["name"])


def shown(tools: Sequence[dict[str, Any]], reference: str, *, is_trusted: bool) -> dict[str, Any]:
    """What a person is shown of a tool; of one that is not listed, its name."""
    listed = find_listed(tools, reference) or {"name": reference}
    return listed if is_trusted else {**listed, "annotations": UNTRUSTED_HINTS}


def hints_of(listed: dict[str, Any], sources: Sequence[Source]) -> dict[str, Any]:
    """The hints of a file's tool, which the wire that lists it has no place for."""
    tools = [tool for source in sources for tool in source.tools if tool.reference == listed.get("id")]
    return {"annotations": annotations_of(tools[0])} if tools else {}


def declined(reference: str) -> Declined:
    return Declined(f"{reference} was not called: it was not confirmed")
