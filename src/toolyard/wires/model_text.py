"""Text on its way to a model: hidden characters are spelled out or flagged, and what is too long is cut.

`ModelText` is a server's policy, `ShownText` is one text as the model gets it, with notes of what was done to it. What
programs read, `value` and `structuredContent`, is never touched. A JSON text that is cut stays JSON (`cut_json`): open
objects and lists are closed, and a member whose value is cut off is left out.
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
ESCAPED, HIDDEN, PREVIEW, WRAPPED = "toolyard/escaped", "toolyard/hidden", "toolyard/preview", "toolyard/wrapped"
"""The names of the notes in `_meta`."""
MOST_BYTES = 256 * 2**10
_encode = msgspec.json.Encoder().encode


class ShownText(Struct, frozen=True):
    """One text as a model gets it, with what was done to it."""

    text: str
    is_escaped: bool = False
    hidden: tuple[str, ...] = ()
    """The kinds of hidden characters in it, where they are flagged and left as they are."""
    size: int = 0
    """The bytes of the whole text, where this is only its first part; 0 where it is whole."""
    shown: int = 0
    """The bytes of the part that is shown, before hidden characters in it were spelled out."""
    is_json: bool = False

    def notes(self) -> dict[str, Any]:
        """What was done to the text, for the `_meta` beside it."""
        notes: dict[str, Any] = {ESCAPED: True} if self.is_escaped else {}
        return notes | {HIDDEN: list(self.hidden)} if self.hidden else notes

    def with_end(self, where: str = "") -> str:
        """The text; where it was cut, with a sentence that says so, and `where` the rest is. JSON is still JSON."""
        if not self.size:
            return self.text
        if self.is_json:
            sentence = f"This is the first part of the value: {self.shown} of {self.size} bytes.{where and ' '}{where}"
            return _encode({PREVIEW: sentence, "value": Raw(self.text.encode())}).decode()
        return f"{self.text}\n\n[These are the first {self.shown} of {self.size} bytes.{where and ' '}{where}]"


class ModelText(Struct, frozen=True):
    """A server's policy for text that models read: what becomes of hidden characters, and how long a text may be."""

    safe_text: SafeText = "off"
    most_bytes: int = MOST_BYTES

    def lets_through(self, value: bytes) -> bool:
        """Whether a result, as JSON, is surely plain and short, and so goes out as it is. Most results are."""
        return len(value) <= self.most_bytes and (self.safe_text == "off" or not may_be_hidden_in(value))

    def may_cut(self, value: Raw) -> bool:
        """Whether a result may turn out too long for a model, and so has to be kept where the rest can be read."""
        if len(value) > self.most_bytes:
            return True
        # Spelled out, a byte becomes at most six: \u007f for DELETE.
        if self.safe_text != "escape" or len(value) * 6 <= self.most_bytes:
            return False
        return is_hidden_in(bytes(value))

    def text(self, text: str, *, is_json: bool = False, most: int | None = None) -> ShownText:
        """A text as a model gets it. `is_json`: the text is JSON, and has to be JSON afterwards, with the same meaning
        unless it is cut."""
        most = self.most_bytes if most is None else most
        size = len(text) if text.isascii() else len(_bytes(text))
        first = text if size <= most else _first(text, most, is_json=is_json)
        is_escaped, shown = False, first
        hidden: tuple[str, ...] = ()
        if self.safe_text != "off" and has_hidden(first):
            if self.safe_text == "escape":
                is_escaped, (first, shown) = True, _spelled(first, most, is_json=is_json)
            else:
                hidden = tuple(kinds_of(first))
        is_whole = first is text  # by identity: whatever cuts a text makes another one
        return ShownText(
            shown, is_escaped, hidden, 0 if is_whole else size, 0 if is_whole else len(_bytes(first)), is_json
        )

    def throughout(self, value: Any, notes: dict[str, Any]) -> Any:
        """A JSON value with every text in it made safe. What was done to the texts is added to `notes`."""
        if isinstance(value, str):
            shown = self.text(value)
            notes |= shown.notes()
            return shown.with_end()
        if isinstance(value, dict):
            return {self.line(name): self.throughout(below, notes) for name, below in value.items()}
        return value

    def line(self, text: str) -> str:
        """A text made safe where the protocol has no room for notes beside it."""
        return self.text(text).with_end()

    def error(self, error: ToolyardError) -> ToolyardError:
        """The error with its texts for models made safe. `developer_message` is not for models."""
        texts = {"message": self.line(error.message)}
        if isinstance(error, ToolError) and error.additional_prompt_content is not None:
            texts["additional_prompt_content"] = self.line(error.additional_prompt_content)
        # Most errors are plain: those are returned themselves, without a copy.
        changed: dict[str, Any] = {name: text for name, text in texts.items() if text != getattr(error, name)}
        if isinstance(error, InvalidInput):
            problems = tuple(map(self._problem, error.problems))
            changed |= {"problems": problems} if problems != error.problems else {}
        return _like(error, changed) if changed else error

    def outcome(self, outcome: Outcome) -> Outcome:
        """The outcome with its error made safe. A value is for programs, and stays as it is."""
        if outcome.error is None:
            return outcome
        error = self.error(outcome.error)
        return outcome if error is outcome.error else replace(outcome, error=error)

    def record(self, call: CallRecord) -> CallRecord:
        """A call of the ledger with the texts of its error and its progress made safe."""
        changed = {}
        for name in ("error", "progress"):
            encoded: bytes | None = getattr(call, name)
            if encoded is not None and not self.lets_through(encoded):
                changed[name] = _encode(self._members(decode(encoded)))
        return replace(call, **changed) if changed else call

    def _members(self, members: dict[str, Any]) -> dict[str, Any]:
        texts = {name: self.line(members[name]) for name in _TEXTS if isinstance(members.get(name), str)}
        return members | texts

    def _problem(self, problem: Problem) -> Problem:
        return replace(problem, sentence=self.line(problem.sentence))


_TEXTS = ("message", "additional_prompt_content")
"""The members of an error or a progress that models read."""


def _like(error: ToolyardError, changed: dict[str, Any]) -> ToolyardError:
    """A copy of an error with other texts. The error itself is left as it is: the ledger records it, too."""
    # Not through its constructor: each class of error has other parameters.
    copied: ToolyardError = type(error).__new__(type(error))
    copied.__dict__ |= error.__dict__ | changed
    copied.args = (copied.message,)
    return copied


def _first(text: str, most: int, *, is_json: bool) -> str:
    """The first part of a text, of at most so many bytes and without half a character."""
    first = _bytes(text)[:most].decode(errors="ignore")
    return cut_json(first) if is_json else first


def _spelled(text: str, most: int, *, is_json: bool) -> tuple[str, str]:
    """The first part of a text that has at most so many bytes once it is spelled out, and that part spelled out."""
    spell: Callable[[str], str] = escaped_json if is_json else escaped
    spelled, room = spell(text), len(_bytes(text))
    # How much a part grows is known once it is spelled out: guess by the growth so far until it fits.
    while (size := len(spelled.encode())) > most and room:
        room = min(room * most // size, room - 1)
        text = _first(text, room, is_json=is_json)
        spelled = spell(text)
    return text, spelled


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def content_path(call: CallRecord) -> str:
    """The path in the lifecycle API at which all of a call's result can be read."""
    path = f"/v1/calls/{quote(call.key.call_id, safe='')}/content"
    return f"{path}?session={quote(call.session, safe='')}" if call.session is not None else path


# -- cutting JSON -----------------------------------------------------------------------------------

# Possessive quantifiers, so that a long text that does not end is not tried again from each of its characters.
_tokens = re.compile(r'"(?:[^"\\]++|\\.)*+"|"|[\[\]{},:]|[^\s\[\]{},:"]+').finditer
_begun_text = re.compile(r'\s*("(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)').match
_half_a_pair = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
_CLOSERS = {"{": "}", "[": "]"}


def cut_json(start: str) -> str:
    """The start of a longer JSON text, made into JSON by itself: `{"a": [1, 2, 3` becomes `{"a": [1, 2]}`, because the
    3 may be the beginning of 30. A string that is cut off is kept as far as it goes."""
    # `closers` closes all that is open here; `is_name` says that the next string is a member's name.
    closers, is_name, at = "", False, 0
    # How far `start` can be kept and closed, and by what.
    safe, closing = 0, ""
    for token in _tokens(start):
        if token[0] == '"':  # a string that is cut off
            break
        text, at = token[0], token.end()
        if text in _CLOSERS:
            closers, is_name = _CLOSERS[text] + closers, text == "{"
        elif text in ("}", "]"):
            closers, is_name = closers[1:], False
        elif text == "," or text == ":":
            is_name = text == "," and closers.startswith("}")
            continue
        elif is_name or (at == len(start) and not text.startswith('"')):
            continue  # a name alone is no member yet, and a number at the very end may go on
        safe, closing = at, closers
    if not is_name and (begun := _begun_text(start, at)):
        return start[:at] + _half_a_pair.sub("", begun[0]) + '"' + closers
    return start[:safe] + closing or "null"
