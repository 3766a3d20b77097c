"""How text goes out that models read: with hidden characters spelled out or flagged, and no more of it than a model can
take in. What programs read, `value` and `structuredContent`, is never touched.

The first part of a JSON text, as JSON: what was begun is closed, and what was only named is left out.
"""

import re
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..model.call import Outcome
from ..model.errors import InvalidInput, Problem, ToolError, ToolyardError
from ..model.json_value import decode
from ..model.record import CallRecord
from ..text.hidden import escaped, escaped_json, has_hidden, is_hidden_in, kinds_of, may_be_hidden_in

SafeText = Literal["escape", "flag", "off"]
ESCAPED, HIDDEN, PREVIEW = "toolyard/escaped", "toolyard/hidden", "toolyard/preview"
MOST_BYTES = 256 * 2**10
_encode = msgspec.json.Encoder().encode


class ShownText(Struct, frozen=True):
    """A text as a model gets it."""

    text: str
    is_escaped: bool = False
    hidden: tuple[str, ...] = ()
    """What is hidden in it, where that is told and nothing is done about it."""
    size: int = 0
    """How many bytes there are in all, where this is the first part of them."""
    shown: int = 0
    is_json: bool = False

    def notes(self) -> dict[str, Any]:
        """What was done to it, for whoever hands it to the model."""
        made: dict[str, Any] = {ESCAPED: True} if self.is_escaped else {}
        return made | {HIDDEN: list(self.hidden)} if self.hidden else made

    def with_end(self, where: str = "") -> str:
        """The text; where it was cut it says so, and where the rest is. What was JSON is still JSON then."""
        if not self.size:
            return self.text
        if self.is_json:
            said = f"This is the first part of the value: {self.shown} of {self.size} bytes.{where and ' '}{where}"
            return _encode({PREVIEW: said, "value": Raw(self.text.encode())}).decode()
        return f"{self.text}\n\n[These are the first {self.shown} of {self.size} bytes.{where and ' '}{where}]"


class ModelText(Struct, frozen=True):
    """The way of one server."""

    safe_text: SafeText = "off"
    most_bytes: int = MOST_BYTES

    def lets_through(self, value: bytes) -> bool:
        """Whether the text of a result, which is JSON, needs no look: most need none."""
        return len(value) <= self.most_bytes and (self.safe_text == "off" or not may_be_hidden_in(value))

    def may_cut(self, value: Raw) -> bool:
        """Whether a result may be too long for a model, and so has to be kept elsewhere. Spelled out, a character takes
        up to six times its room."""
        if len(value) > self.most_bytes:
            return True
        if self.safe_text != "escape" or len(value) * 6 <= self.most_bytes:
            return False
        return is_hidden_in(bytes(value))

    def text(self, text: str, *, is_json: bool = False, most: int | None = None) -> ShownText:
        """A text that a model reads. `is_json`: it is JSON afterwards, too, and the same if it is not cut."""
        most = self.most_bytes if most is None else most
        size = len(text) if text.isascii() else len(_bytes(text))
        first = text if size <= most else _first(text, most, is_json=is_json)
        is_escaped, said = False, first
        hidden: tuple[str, ...] = ()
        if self.safe_text != "off" and has_hidden(first):
            if self.safe_text == "escape":
                is_escaped, (first, said) = True, _spelled(first, most, is_json=is_json)
            else:
                hidden = tuple(kinds_of(first))
        is_whole = first is text
        return ShownText(
            said, is_escaped, hidden, 0 if is_whole else size, 0 if is_whole else len(_bytes(first)), is_json
        )

    def throughout(self, said: Any, notes: dict[str, Any]) -> Any:
        """Every text in an object. What was done to them goes into `notes`."""
        if isinstance(said, str):
            told = self.text(said)
            notes |= told.notes()
            return told.with_end()
        if isinstance(said, dict):
            return {self.line(name): self.throughout(below, notes) for name, below in said.items()}
        return said

    def line(self, text: str) -> str:
        """A text for which nothing can be told beside it."""
        return self.text(text).with_end()

    def error(self, error: ToolyardError) -> ToolyardError:
        """What an error says to a model. `developer_message` is not for one."""
        said = {"message": self.line(error.message)}
        if isinstance(error, ToolError) and error.additional_prompt_content is not None:
            said["additional_prompt_content"] = self.line(error.additional_prompt_content)
        changed: dict[str, Any] = {name: text for name, text in said.items() if text != getattr(error, name)}
        if isinstance(error, InvalidInput):
            problems = tuple(map(self._problem, error.problems))
            changed |= {"problems": problems} if problems != error.problems else {}
        return _like(error, changed) if changed else error

    def outcome(self, outcome: Outcome) -> Outcome:
        """A call that failed. What it returned otherwise is not text."""
        if outcome.error is None:
            return outcome
        error = self.error(outcome.error)
        return outcome if error is outcome.error else replace(outcome, error=error)

    def record(self, call: CallRecord) -> CallRecord:
        """A call of the ledger: what its error and its progress say."""
        changed = {}
        for name in ("error", "progress"):
            said: bytes | None = getattr(call, name)
            if said is not None and not self.lets_through(said):
                changed[name] = _encode(self._members(decode(said)))
        return replace(call, **changed) if changed else call

    def _members(self, said: dict[str, Any]) -> dict[str, Any]:
        texts = {name: self.line(said[name]) for name in _SAID if isinstance(said.get(name), str)}
        return said | texts

    def _problem(self, problem: Problem) -> Problem:
        return replace(problem, sentence=self.line(problem.sentence))


_SAID = ("message", "additional_prompt_content")


def _like(error: ToolyardError, changed: dict[str, Any]) -> ToolyardError:
    """The same error, saying something else. The first one is left as it is: the ledger keeps what was said."""
    made: ToolyardError = type(error).__new__(type(error))
    made.__dict__ |= error.__dict__ | changed
    made.args = (made.message,)
    return made


def _first(text: str, most: int, *, is_json: bool) -> str:
    """As much of it as has so many bytes."""
    first = _bytes(text)[:most].decode(errors="ignore")
    return cut_json(first) if is_json else first


def _spelled(text: str, most: int, *, is_json: bool) -> tuple[str, str]:
    """As much of a text as may be shown once it is spelled out, which takes more room; and that, spelled out."""
    spell: Callable[[str], str] = escaped_json if is_json else escaped
    said, room = spell(text), len(_bytes(text))
    while (size := len(said.encode())) > most and room:
        room = min(room * most // size, room - 1)
        text = _first(text, room, is_json=is_json)
        said = spell(text)
    return text, said


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def content_path(call: CallRecord) -> str:
    """Where all of a call's result is, in the lifecycle API."""
    path = f"/v1/calls/{quote(call.key.call_id, safe='')}/content"
    return f"{path}?session={quote(call.session, safe='')}" if call.session is not None else path


_tokens = re.compile(r'"(?:[^"\\]++|\\.)*+"|"|[\[\]{},:]|[^\s\[\]{},:"]+').finditer
_begun_text = re.compile(r'\s*("(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)').match
_half_a_pair = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
_CLOSERS = {"{": "}", "[": "]"}


def cut_json(start: str) -> str:
    """`start` is what a longer text begins with. `{"a": [1, 2, 3` becomes `{"a": [1, 2]}`: the 3 may be a 30."""
    closers, is_name, at = "", False, 0
    safe, closing = 0, ""
    """As far as all that was begun can be closed, and by what."""
    for token in _tokens(start):
        if token[0] == '"':  # a text that does not end here
            break
        said, at = token[0], token.end()
        if said in _CLOSERS:
            closers, is_name = _CLOSERS[said] + closers, said == "{"
        elif said in ("}", "]"):
            closers, is_name = closers[1:], False
        elif said == "," or said == ":":
            is_name = said == "," and closers.startswith("}")
            continue
        elif is_name or (at == len(start) and not said.startswith('"')):
            continue
        safe, closing = at, closers
    if not is_name and (text := _begun_text(start, at)):
        return start[:at] + _half_a_pair.sub("", text[0]) + '"' + closers
    return start[:safe] + closing or "null"
