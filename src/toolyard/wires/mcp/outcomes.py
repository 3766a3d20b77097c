"""Outcomes of calls as MCP's results, for each revision with what it knows.

The text of a result is for models, and goes out as the server's `ModelText` has it. `structuredContent` is for
programs, and goes out byte for byte. Results are put together from bytes that are JSON already: a value is encoded
once, when the tool returns it. A result that came from another MCP server (`ResultExtra`) goes out as it came: its
blocks, its value and its `_meta`.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import UNSET

from ...model.call import Outcome, decode_extra
from ...model.errors import Busy, InvalidInput, MissingRequirements, Problem, ToolError, ToolyardError
from ...model.json_value import decode, decode_as
from ...model.tool import Tool
from ..model_text import ESCAPED, HIDDEN, PREVIEW, WRAPPED, ModelText, ShownText
from .params import RELATED_TASK, SERVER_INFO, SUBSCRIPTION
from .revisions import Revision

OWN_PREFIX, OWN_NAMES = "toolyard/", (SERVER_INFO, RELATED_TASK, SUBSCRIPTION)
"""What this server alone says in `_meta`. By another server it would be about that one, or a pretence."""
AS_IT_IS = ModelText()
_encode = msgspec.json.Encoder().encode
_BEFORE, _AFTER = "toolyard://calls/", "/content"


def content_uri(call_id: str) -> str:
    """The URI under which `resources/read` has all of a call's result."""
    return f"{_BEFORE}{quote(call_id, safe='')}{_AFTER}"


def call_of(uri: str) -> str | None:
    """The id of the call whose result has this URI; None for any other URI."""
    if not (uri.startswith(_BEFORE) and uri.endswith(_AFTER)):
        return None
    return unquote(uri[len(_BEFORE) : -len(_AFTER)])


def text_and_kind(value: bytes) -> tuple[str, str]:
    """A value as text, and that text's media type. A string is its own text; any other value is its JSON."""
    if value.startswith(b'"'):
        return decode_as(value, str), "text/plain"
    return value.decode(), "application/json"


def encode_outcome(
    tool: Tool | None, outcome: Outcome, revision: Revision, policy: ModelText = AS_IT_IS, *, is_kept: bool = True
) -> bytes:
    """The result of a call. Where the tool is gone meanwhile (None) it has text alone. `is_kept`: whether all of a
    result that is too long can be read elsewhere."""
    if outcome.extra is not None:
        return _RichOutcome(tool, outcome, revision, policy, is_kept).encode()
    if outcome.error is not None:
        return encode_failure(outcome.error, revision, policy)
    value = bytes(outcome.value or b"null")
    notes: dict[str, Any] = {}
    if tool is not None and tool.returns_content:
        blocks = [block(each, revision) for each in blocks_of(decode(value))]
        if not policy.lets_through(value):
            blocks, notes = _ResultText(policy, outcome, value, is_kept, revision).of_blocks(blocks)
        return _finished(_encode(blocks), b"", revision, notes)
    if policy.lets_through(value):
        return encode_plain(tool, value, revision)
    blocks, notes = _ResultText(policy, outcome, value, is_kept, revision).of_value()
    content = _encode(blocks)
    if tool is None or tool.output_schema is None or not revision.titles:
        return _finished(content, b"", revision, notes)
    if _is_wrapped(tool.output_schema, revision):
        value = b'{"result":%b}' % value
        if PREVIEW in notes:
            notes[PREVIEW]["wrapped"] = True
    return _finished(content, b',"structuredContent":%b' % value, revision, notes)


def encode_plain(tool: Tool | None, value: bytes, revision: Revision) -> bytes:
    """The result of a call whose value is no content, and goes to the model as it is: most results are such."""
    schema = None if tool is None else tool.output_schema
    # A tool that returns nothing: no content, rather than the text "null".
    if value == b"null" and tool is not None and schema is None:
        return _finished(b"[]", b"", revision)
    # A string is its own text as JSON; numbers, true, false and null need no escapes.
    first = value[:1]
    text = value if first == b'"' else _encode(value.decode()) if first in b"{[" else b'"%b"' % value
    if schema is None or not revision.titles:
        return _finished(b'[{"type":"text","text":%b}]' % text, b"", revision)
    if revision.is_modern:
        return b'{"resultType":"complete","content":[{"type":"text","text":%b}],"structuredContent":%b,%b}' % (
            text, value, revision.meta,
        )  # fmt: skip
    shape = _WRAPPED if _is_wrapped(schema, revision) else _BARE
    return shape % (text, value)


_BARE = b'{"content":[{"type":"text","text":%b}],"structuredContent":%b}'
_WRAPPED = b'{"content":[{"type":"text","text":%b}],"structuredContent":{"result":%b}}'


def _is_wrapped(schema: Mapping[str, Any], revision: Revision) -> bool:
    """Up to 2025-11-25 structured content must be an object: any other value is wrapped, as the listed schema says."""
    return not revision.is_modern and schema.get("type") != "object"


def encode_failure(error: ToolyardError, revision: Revision, policy: ModelText = AS_IT_IS) -> bytes:
    """The result of a call that failed, or was refused for a reason that a model can do something about."""
    text = policy.text(sentence_of(error))
    content = _encode([{"type": "text", "text": text.with_end()}])
    flags = _error_flags(error)
    return _finished(
        content, b',"isError":true', revision, {"toolyard/error": flags, **text.notes()} if flags else text.notes()
    )


class _RichOutcome:
    """Encodes a result that has more than a value, or a failure that has more than a message."""

    def __init__(
        self, tool: Tool | None, outcome: Outcome, revision: Revision, policy: ModelText, is_kept: bool
    ) -> None:
        self._tool, self._outcome, self._revision = tool, outcome, revision
        self._policy, self._is_kept = policy, is_kept
        extra = decode_extra(outcome.extra or b"{}")
        self._value, self._is_content = bytes(outcome.value or b"null"), extra.is_content
        self._content: list[Any] | None = None if extra.content is UNSET else decode(extra.content)
        self._meta: dict[str, Any] = {} if extra.meta is UNSET else decode(extra.meta)
        self._notes: dict[str, Any] = {}

    def encode(self) -> bytes:
        error = self._outcome.error
        content = _encode(self._of_value() if error is None else self._of_failure(error))
        more = self._structured() if error is None else b',"isError":true'
        theirs = {name: said for name, said in self._meta.items() if not _is_own(name)}
        return _finished(content, more, self._revision, theirs | self._notes)

    def _of_failure(self, error: ToolError) -> list[dict[str, Any]]:
        if flags := _error_flags(error):
            self._notes["toolyard/error"] = flags
        if self._content is not None:
            return self._blocks(self._content)
        text = self._policy.text(sentence_of(error))
        self._notes |= text.notes()
        return [{"type": "text", "text": text.with_end()}]

    def _of_value(self) -> list[dict[str, Any]]:
        tool = self._tool
        if self._content is not None:
            return self._blocks(self._content)
        if self._is_content or (tool is not None and tool.returns_content):
            return self._blocks(blocks_of(decode(self._value)))
        if self._value == b"null" and tool is not None and tool.output_schema is None:
            return []
        blocks, notes = self._text().of_value()
        self._notes |= notes
        return blocks

    def _blocks(self, given: list[Any]) -> list[dict[str, Any]]:
        blocks = [block(each, self._revision) for each in given]
        if all(map(self._policy.lets_through, (self._value, bytes(self._outcome.extra or b"")))):
            return blocks
        blocks, notes = self._text().of_blocks(blocks)
        self._notes |= notes
        return blocks

    def _text(self) -> "_ResultText":
        return _ResultText(self._policy, self._outcome, self._value, self._is_kept, self._revision)

    def _structured(self) -> bytes:
        """The member `structuredContent`, where the value is structured. What is listed with a schema goes out as it is
        listed, wrapped or not; of any other value an object goes out as it is."""
        tool, revision = self._tool, self._revision
        schema = None if tool is None or tool.returns_content else tool.output_schema
        is_structured = schema is not None or self._content is not None
        if not is_structured or self._is_content or not revision.titles:
            return b""
        if schema is not None:
            is_wrapped = _is_wrapped(schema, revision)
        else:
            is_wrapped = not revision.is_modern and not self._value.startswith(b"{")
        value = b'{"result":%b}' % self._value if is_wrapped else self._value
        # With content of its own beside it, a client cannot tell by the text.
        if self._content is not None and not revision.is_modern and value.startswith(b'{"result":'):
            self._notes[WRAPPED] = is_wrapped
        if is_wrapped and PREVIEW in self._notes:
            self._notes[PREVIEW]["wrapped"] = True
        return b',"structuredContent":%b' % value


def _is_own(name: str) -> bool:
    return name.startswith(OWN_PREFIX) or name in OWN_NAMES


def _finished(content: bytes, more: bytes, revision: Revision, notes: Mapping[str, Any] | None = None) -> bytes:
    """A result with its `_meta`: the notes, and in the newer era the server's name. Both eras' usual case, no notes, is
    put together without an encoder."""
    if not notes:
        return _result(content, more, revision.meta if revision.is_modern else b"", revision)
    meta = {**notes, **(revision.server_info if revision.is_modern else {})}
    return _result(content, more, b'"_meta":' + _encode(meta), revision)


def _result(content: bytes, more: bytes, meta: bytes, revision: Revision) -> bytes:
    if revision.is_modern:
        return b'{"resultType":"complete","content":%b%b,%b}' % (content, more, meta)
    return b'{"content":%b%b%b}' % (content, more, b"," + meta if meta else b"")


def _error_flags(error: ToolyardError) -> dict[str, Any]:
    """What a program should know of an error, in `_meta`: whether to retry, when, and why it failed."""
    flags = {"can_retry": getattr(error, "can_retry", None), "retry_after_ms": getattr(error, "retry_after_ms", None)}
    if isinstance(error, ToolError) and error.code != ToolError.code:
        flags["code"] = error.code
    elif isinstance(error, Busy):
        flags |= {"code": "busy", "can_retry": True}
    if isinstance(error, ToolError) and error.additional_prompt_content is not None:
        flags["has_prompt_content"] = True
    return {name: value for name, value in flags.items() if value is not None}


def sentence_of(error: ToolyardError) -> str:
    """The text of an error that a model should read. `developer_message` is never in it."""
    if isinstance(error, InvalidInput):
        return "\n".join(["The arguments do not fit:", *map(_line, error.problems)])
    if isinstance(error, MissingRequirements):
        return str(error)
    more = getattr(error, "additional_prompt_content", None)
    return f"{error.message}\n{more}" if more else error.message


def _line(problem: Problem) -> str:
    got = "" if problem.missing or problem.got is None else f" (got {_short(problem.got)})"
    return f"- {problem.path or 'arguments'}: {problem.sentence}{got}"


def _short(value: Any) -> str:
    try:
        text = _encode(value).decode()
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


# --- content -------------------------------------------------------------------------------------


def blocks_of(value: Any) -> list[Any]:
    """The blocks of a result that is content: one or several."""
    return value if isinstance(value, list) else [value]


def block(value: Any, revision: Revision) -> dict[str, Any]:
    """A block as that revision has it. A value that is no block becomes text, and so does a resource link where the
    revision has none."""
    if not is_block(value):
        return {"type": "text", "text": value if isinstance(value, str) else _encode(value).decode()}
    if value["type"] == "resource_link" and not revision.titles:
        return {"type": "text", "text": f"{value.get('name', 'resource')}: {value['uri']}"}
    return dict(value)


def is_block(value: Any) -> bool:
    """Whether a value is a block, with the texts that one of its kind must have."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    if not isinstance(kind, str) or kind not in _TEXTS:
        return False
    holder = value.get("resource") if kind == "resource" else value
    return isinstance(holder, Mapping) and all(isinstance(holder.get(name), str) for name in _TEXTS[kind])


_TEXTS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": ("uri",),
    "resource_link": ("uri",),
}
"""The kinds of blocks, and which of their members are texts that must be there."""


# --- text that needs a look ----------------------------------------------------------------------


class _ResultText:
    """Makes the text blocks of one result that is long or may have hidden characters, and notes what was done."""

    def __init__(self, policy: ModelText, outcome: Outcome, value: bytes, is_kept: bool, revision: Revision) -> None:
        self._policy, self._outcome, self._value, self._revision = policy, outcome, value, revision
        self._is_kept, self._left = is_kept, policy.most_bytes
        self._notes: dict[str, Any] = {}
        self._is_cut, self._size, self._shown = False, 0, 0

    def of_value(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The blocks and notes of a plain value: its text and, where that was cut, a link to all of it."""
        text, kind = text_and_kind(self._value)
        shown = self._policy.text(text, is_json=kind != "text/plain")
        self._note(shown)
        if not shown.size:
            return [{"type": "text", "text": shown.text}], self._notes
        link = self._link(shown.size, shown.shown, kind)
        return [{"type": "text", "text": shown.with_end(self._where())}, *link], self._notes

    def of_blocks(self, blocks: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The blocks and notes of a result that is content. Texts share the room that one text has; pictures and other
        blocks stay as they are."""
        shown = [each for each in map(self._block, blocks) if each is not None]
        if self._is_cut:
            end = ShownText("", size=self._size, shown=self._shown).with_end(self._where()).lstrip()
            shown += [{"type": "text", "text": end}, *self._link(self._size, self._shown, "application/json")]
        return shown, self._notes

    def _block(self, block: dict[str, Any]) -> dict[str, Any] | None:
        if block["type"] == "text":
            text = self._some(block["text"])
            return None if text is None else {**block, "text": text}
        if block["type"] == "resource" and isinstance(block["resource"].get("text"), str):
            text = self._some(block["resource"]["text"])
            return None if text is None else {**block, "resource": {**block["resource"], "text": text}}
        named: dict[str, Any] = {
            name: self._name(block[name])
            for name in ("name", "title", "description")
            if isinstance(block.get(name), str)
        }
        return {**block, **named} if block["type"] == "resource_link" else block

    def _some(self, text: str) -> str | None:
        """As much of a text as there is still room for; None where there is none."""
        size = len(text.encode())
        self._size += size
        if self._is_cut:
            return None
        shown = self._policy.text(text, most=self._left)
        self._note(shown)
        self._is_cut = bool(shown.size)
        self._shown += shown.shown if shown.size else size
        self._left -= len(shown.text.encode())
        return shown.text or (None if text else "")

    def _name(self, text: str) -> str:
        shown = self._policy.text(text)
        self._note(shown)
        return shown.text

    def _note(self, shown: ShownText) -> None:
        if shown.is_escaped:
            self._notes[ESCAPED] = True
        if shown.hidden:
            self._notes[HIDDEN] = sorted({*self._notes.get(HIDDEN, ()), *shown.hidden})

    def _where(self) -> str:
        if self._outcome.error is not None:
            return ""
        uri = content_uri(self._outcome.call_id)
        return f"Read the resource {uri} for all of it." if self._is_kept else "The rest was not kept."

    def _link(self, size: int, shown: int, kind: str) -> list[dict[str, Any]]:
        self._notes[PREVIEW] = {"bytes": size, "shown": shown}
        if not self._is_kept or self._outcome.error is not None:
            return []
        uri = content_uri(self._outcome.call_id)
        self._notes[PREVIEW] |= {"uri": uri}
        link = {"type": "resource_link", "uri": uri, "name": "All of the result", "mimeType": kind, "size": size}
        return [block(link, self._revision)]
