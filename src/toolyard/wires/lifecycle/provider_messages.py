"""Messages in the formats of the models' providers, Anthropic and OpenAI: tool uses are read from an assistant's
message, and results are written into the next one.

What a model got wrong is never refused here: it becomes a tool use with a problem, so that the model is told.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

from ...model.call import LONGEST_TOOL_NAME
from ...model.errors import ToolError
from ...model.json_bounds import JsonBounds
from ...model.json_value import decode, decode_as
from ...model.lifecycle import State
from ...model.record import CallRecord
from ...model.session import ToolUse
from ..json_body import ID, Members, one_of, parse, text
from ..model_text import ModelText, ShownText, content_path

DEEPEST = 64
"""How deep OpenAI's arguments may be nested: more would break whoever walks through them later."""
_BOUNDS = JsonBounds()
AS_IT_IS = ModelText()
Format = Literal["anthropic", "openai"]
_encode = msgspec.json.Encoder(order="sorted").encode
_plain = msgspec.json.Encoder().encode


def decode_message(body: bytes) -> list[ToolUse]:
    """The tool uses of an assistant's message, in order, each once. Other members and blocks are ignored."""
    members = parse(body)
    members.one("role", one_of("assistant"))
    uses: dict[str, ToolUse] = {}
    for each, use in [*_anthropic(members), *_openai(members)]:
        # The same block twice is harmless; the same id with another tool or input would lose one of the two.
        known = uses.setdefault(use.id, use) if use.id else use
        if known is not use and _content(known) != _content(use):
            each.refuse("id", "Stands for another tool use already")
    members.check()
    return list(uses.values())


def _name(value: Any) -> str:
    """A model may make one up, and is told that there is no such tool; but it is kept, and so it is short."""
    if len(text(value)) > LONGEST_TOOL_NAME:
        raise ValueError(f"Must have at most {LONGEST_TOOL_NAME} characters")
    return str(value)


def _anthropic(members: Members) -> list[tuple[Members, ToolUse]]:
    """The `tool_use` blocks of Anthropic's `content`."""
    # OpenAI's message may have no content beside its tool calls; Anthropic's must have some.
    if members.maybe("content", _is_plain, "tool_calls" in members):
        return []
    uses = []
    for block in members.all_below("content"):
        if block.one("type", text) == "tool_use":
            id, name = block.one("id", ID), block.one("name", _name)
            uses.append((block, _use(id, name, block.one("input", lambda input: input))))
    return uses


def _openai(members: Members) -> list[tuple[Members, ToolUse]]:
    """OpenAI's `tool_calls`, of functions, and of custom tools, which take text."""
    if members.maybe("tool_calls", lambda calls: calls, None) is None:
        return []
    uses = []
    for call in members.all_below("tool_calls"):
        kind = call.maybe("type", one_of("function", "custom"), "function")
        id, called = call.one("id", ID), call.below(kind or "function")
        name, written = called.one("name", _name), called.one("input" if kind == "custom" else "arguments", text)
        uses.append((call, _use(id, name, *_read(written or "", kind or ""))))
    return uses


def _use(id: str, name: str, input: Any, raw: str | None = None, problem: str | None = None) -> ToolUse:
    if problem is None and not isinstance(input, dict):
        raw, problem = msgspec.json.encode(input).decode(), "The input must be a JSON object"
    return ToolUse(id, name, {}, raw, problem) if problem else ToolUse(id, name, input)


def _read(written: str, kind: str) -> tuple[Any, str | None, str | None]:
    """Reads what a model wrote as arguments: the input, or else the text and what is wrong with it."""
    if kind == "custom":
        return {}, written, "The tool takes a JSON object, not text"
    if excess := _BOUNDS.excess_of_size(written.encode()):
        return {}, written, f"The arguments are more than can be read: {excess.bound}"
    try:
        input = decode(written) if written.strip() else {}  # no arguments at all are often sent as ""
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return {}, written, f"The arguments are not valid JSON: {error}"
    if not isinstance(input, dict):
        return {}, written, "The arguments must be a JSON object"
    return (input, None, None) if _is_shallow(input) else ({}, written, "The arguments are nested too deeply")


def _is_shallow(input: Any) -> bool:
    """Whether arguments are not nested too deeply. They come as JSON within a string, so that the limits on the body
    do not see what is in them."""
    level = [input]
    for _ in range(DEEPEST):
        level = [below for value in level for below in _below(value)]
    return not level


def _below(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _is_plain(content: Any) -> bool:
    """Whether a message's content is text or nothing, and so has no blocks."""
    return content is None or isinstance(content, str)


def _content(use: ToolUse) -> bytes:
    """All of a tool use but its id, for comparison."""
    return _encode([use.name, use.input, use.raw])


# -- results ----------------------------------------------------------------------------------------


def encode_results(format: Format, calls: Sequence[CallRecord], policy: ModelText = AS_IT_IS) -> dict[str, Any]:
    """One result for each call, in order: `message` for Anthropic, `messages` for OpenAI. What was done to the texts is
    in `notes` beside them, by request."""
    texts = [policy.text(_text_of(call), is_json=_is_json(call), most=_most(call)) for call in calls]
    notes = {call.request: note for call, text in zip(calls, texts, strict=True) if (note := _note(call, text))}
    ends = [text.with_end(_where(call)) for call, text in zip(calls, texts, strict=True)]
    return FORMATS[format](calls, ends) | ({"notes": notes} if notes else {})


class ResultsStream:
    """The same, one result after another, for those that are too many to be in memory at once."""

    def __init__(self, format: Format, telling: ModelText = AS_IT_IS) -> None:
        self._format, self._telling = format, telling
        self._notes: dict[str, Any] = {}
        self._is_first = True

    @property
    def head(self) -> bytes:
        around = b'"message":{"role":"user","content":[' if self._format == "anthropic" else b'"messages":['
        return b'{"status":"ready",' + around

    def encode(self, call: CallRecord) -> bytes:
        made = encode_results(self._format, [call], self._telling)
        self._notes |= made.get("notes", {})
        (item,) = made["message"]["content"] if self._format == "anthropic" else made["messages"]
        comma, self._is_first = b"" if self._is_first else b",", False
        return comma + _plain(item)

    def tail(self) -> bytes:
        """What was done to the texts is known at the end."""
        notes = b',"notes":' + _plain(self._notes) if self._notes else b""
        return (b"]}" if self._format == "anthropic" else b"]") + notes + b"}"


def _most(call: CallRecord) -> int | None:
    """How many bytes of a result the model gets; None: what the server's policy says. A result that a client or worker
    submitted goes to the model whole: whoever made it decides how long it is."""
    return None if call.queue == "node" or call.state is State.ERROR else sys.maxsize


def _note(call: CallRecord, text: ShownText) -> dict[str, Any]:
    note: dict[str, Any] = {"escaped": True} if text.is_escaped else {}
    if text.hidden:
        note["hidden"] = list(text.hidden)
    if text.size:
        note["preview"] = {"bytes": text.size, "shown": text.shown}
        if call.state is State.COMPLETE:
            note["preview"]["content"] = content_path(call)
    return note


def _where(call: CallRecord) -> str:
    return f"All of it is at {content_path(call)}." if call.state is State.COMPLETE else ""


def _is_json(call: CallRecord) -> bool:
    """Whether the model reads a call's result as JSON. A tool's own string is read as text; what a client submitted for
    a session is an object, and always JSON."""
    is_text = call.queue != "session" and (call.value or b"").startswith(b'"')
    return call.state is State.COMPLETE and not is_text


def _anthropic_results(calls: Sequence[CallRecord], texts: Sequence[str]) -> dict[str, Any]:
    content = [
        {
            "type": "tool_result",
            "tool_use_id": call.request,
            "content": text,
            "is_error": call.state is State.ERROR,
        }
        for call, text in zip(calls, texts, strict=True)
    ]
    return {"message": {"role": "user", "content": content}}


def _openai_results(calls: Sequence[CallRecord], texts: Sequence[str]) -> dict[str, Any]:
    answered = zip(calls, texts, strict=True)
    return {
        "messages": [{"role": "tool", "tool_call_id": call.request, "content": text} for call, text in answered],
    }


def _text_of(call: CallRecord) -> str:
    """The text of a call's result or error that the model reads."""
    if call.state is State.ERROR:
        error = ToolError.from_members(decode(call.error or b"{}"))
        return "\n".join(filter(None, [error.message, error.additional_prompt_content]))
    value = call.value or b"null"
    return value.decode() if _is_json(call) else decode_as(value, str)


FORMATS: dict[Format, Callable[[Sequence[CallRecord], Sequence[str]], dict[str, Any]]] = {
    "anthropic": _anthropic_results,
    "openai": _openai_results,
}
