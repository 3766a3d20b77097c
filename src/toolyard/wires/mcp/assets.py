"""Prompts, resources and completions of other servers, as MCP's results: what stands in them is passed on as it is,
but for what is between two servers alone, and for text that models read.
"""

import sys
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from ...model.json_value import decode, decode_as
from ...text.hidden import may_be_hidden_in
from ..model_text import ESCAPED, HIDDEN, ModelText
from .outcomes import block
from .params import passed_on
from .revisions import Revision

Kind = Literal["prompts", "resources"]


class AssetList(Struct, frozen=True):
    """One of MCP's lists of what is no tool: what it is of, where the entries stand in the result, and what names
    one."""

    kind: Kind
    member: str
    key: str


ASSET_LISTS = {
    "prompts/list": AssetList("prompts", "prompts", "name"),
    "resources/list": AssetList("resources", "resources", "uri"),
    "resources/templates/list": AssetList("resources", "resourceTemplates", "uriTemplate"),
}
"""By their methods."""
_RESULTS = {"prompts/get": "messages", "resources/read": "contents", "completion/complete": "completion"}
"""Where the result of each method has what was asked for."""
_CACHED = frozenset({"resources/read"})
"""The methods whose results say in the newer era for how long they are good."""
_TEXTS = ("name", "title", "description")
_encode = msgspec.json.Encoder().encode


class _Completed(Struct):
    """What a completion has at least."""

    values: list[str]


class NoAsset(ValueError):
    """What a server answered with is no result of the method that it was asked for. The text says what it is."""


def known_to(revision: Revision, definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """A definition as that revision has it: without members that it does not know."""
    if revision.icons:
        return definition
    left_out = ("icons",) if revision.titles else ("icons", "title")
    return {name: value for name, value in definition.items() if name not in left_out}


def members_of(method: str, result: Raw) -> dict[str, Raw]:
    """What another server answered with, member by member. Raises NoAsset."""
    try:
        members = decode_as(result, dict[str, Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NoAsset(f"answered {method} with what is no object") from None
    member = _RESULTS[method]
    try:
        decode_as(members.get(member, Raw(b"null")), _Completed if member == "completion" else list[dict[str, Raw]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NoAsset(f"answered {method} without {member}, or with what cannot be that") from None
    return members


def encode_asset(method: str, members: Mapping[str, Raw], revision: Revision, policy: ModelText) -> bytes:
    """The result of `prompts/get`, `resources/read` or `completion/complete` for a client of this revision. Text for
    models is made safe: `_meta` says what was done to it."""
    notes: dict[str, Any] = {}
    made: dict[str, Any] = {
        name: value for name, value in members.items() if name not in ("resultType", "ttlMs", "cacheScope", "_meta")
    }
    for name in ("description", _RESULTS[method]):
        if name in made and policy.safe_text != "off" and may_be_hidden_in(bytes(made[name])):
            made[name] = _safe(decode(made[name]), name, policy, notes)
    if method == "prompts/get" and not revision.titles:
        messages = made["messages"]
        made["messages"] = [
            _older(each, revision) for each in (decode(messages) if type(messages) is Raw else messages)
        ]
    meta = passed_on(decode(members["_meta"])) if "_meta" in members else {}
    if revision.is_modern:
        cached = {"ttlMs": _ttl(members), "cacheScope": "private"} if method in _CACHED else {}
        return _encode({"resultType": "complete", **made, **cached, "_meta": {**meta, **notes, **revision.server_info}})
    return _encode({**made, "_meta": {**meta, **notes}} if meta or notes else made)


def _older(message: Mapping[str, Any], revision: Revision) -> dict[str, Any]:
    """A message without blocks that the revision does not know."""
    return {**message, "content": block(message.get("content"), revision)}


def _ttl(members: Mapping[str, Raw]) -> int:
    """For how long what was read is good: for as long as whoever has it says, and else not at all."""
    try:
        said = decode(members["ttlMs"]) if "ttlMs" in members else 0
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = 0
    return said if isinstance(said, int) and not isinstance(said, bool) and said >= 0 else 0


def _safe(value: Any, member: str, policy: ModelText, notes: dict[str, Any]) -> Any:
    """A member of a result with its text made safe. None of it is cut: whoever reads it asked for all of it."""
    tell = _Teller(policy, notes)
    if member == "description":
        return tell.text(value)
    if member == "completion":
        return {**value, "values": [tell.text(each) for each in value.get("values") or ()]}
    if member == "contents":
        return [tell.resource(each) for each in value]
    return [
        {**each, "content": tell.content(each.get("content"))} if isinstance(each, dict) else each for each in value
    ]


class _Teller:
    """Makes texts of one result safe, and notes what was done."""

    def __init__(self, policy: ModelText, notes: dict[str, Any]) -> None:
        self._policy, self._notes = policy, notes

    def text(self, text: Any, *, is_json: bool = False) -> Any:
        if not isinstance(text, str):
            return text
        shown = self._policy.text(text, is_json=is_json, most=sys.maxsize)
        if shown.is_escaped:
            self._notes[ESCAPED] = True
        if shown.hidden:
            self._notes[HIDDEN] = sorted({*self._notes.get(HIDDEN, ()), *shown.hidden})
        return shown.text

    def content(self, content: Any) -> Any:
        """Of a message: a block, or several."""
        if isinstance(content, list):
            return list(map(self.content, content))
        if not isinstance(content, dict):
            return content
        if content.get("type") == "resource":
            return {**content, "resource": self.resource(content.get("resource"))}
        names = ("text",) if content.get("type") == "text" else _TEXTS
        return {**content, **{name: self.text(content[name]) for name in names if name in content}}

    def resource(self, resource: Any) -> Any:
        """A page of an application (`ui://`) is for the program that shows it, and stays as it is."""
        if not isinstance(resource, dict) or _is_page(resource):
            return resource
        is_json = resource.get("mimeType") == "application/json"
        return {**resource, "text": self.text(resource["text"], is_json=is_json)} if "text" in resource else resource


def _is_page(resource: Mapping[str, Any]) -> bool:
    uri, kind = resource.get("uri"), resource.get("mimeType")
    return isinstance(uri, str) and uri.startswith("ui://") and isinstance(kind, str) and kind.startswith("text/html")
