"""A person's yes before a call is sent: which tool, as its server describes it, and with what input."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ..model.errors import Declined

Confirm = Callable[[dict[str, Any], dict[str, Any]], bool]
"""Asked with a tool, as the server lists it, and the input that would be sent."""
AsyncConfirm = Callable[[dict[str, Any], dict[str, Any]], bool | Awaitable[bool]]


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


def shown(tools: Sequence[dict[str, Any]], reference: str) -> dict[str, Any]:
    """What a person is shown of a tool; of one that is not listed, its name."""
    return find_listed(tools, reference) or {"name": reference}


def declined(reference: str) -> Declined:
    return Declined(f"{reference} was not called: it was not confirmed")
