"""A running call's way out to whoever waits for it: progress, log lines, questions that only a client can answer."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ..text.scrubber import Scrubber
from .call import Outcome

Asks = Literal["form", "url", "sampling", "roots"]
"""What a question may want of a client: a person's answer in a form, their visit to an address, its model's answer, the
folders it works in."""


class Question(Struct, frozen=True, omit_defaults=True):
    """Something only the client or its person can answer. `name` tells a call's questions apart, and is the same when
    the call is run again."""

    name: str
    kind: Asks = "form"
    message: str = ""
    schema: Mapping[str, Any] = {}
    """Of a form's answer."""
    url: str = ""
    request: Mapping[str, Any] = {}
    """What the client's model is to be asked, as MCP has it."""

    def wants(self, answer: Any) -> str | None:
        """What such a question is answered with, if this is not it."""
        if not isinstance(answer, dict):
            return "be an object"
        if self.kind in ("form", "url"):
            if answer.get("action") not in ("accept", "decline", "cancel"):
                return "have an 'action' that is accept, decline or cancel"
            if self.kind == "form" and answer["action"] == "accept" and not isinstance(answer.get("content"), dict):
                return "have a 'content' object"
        elif self.kind == "roots" and not _are_roots(answer.get("roots")):
            return "have a list of 'roots', each with a 'uri'"
        elif self.kind == "sampling" and not _are_blocks(answer.get("content")):
            return "have a 'content' that is a block, or a list of blocks, each with a 'type'"
        elif self.kind == "sampling" and not all(isinstance(answer.get(name, ""), str) for name in ("role", "model")):
            return "have texts as 'role' and 'model'"
        return None


def scrub_question(scrubber: Scrubber, question: Question) -> Question:
    """The question without what its call was given in confidence."""
    return replace(
        question,
        name=scrubber.text(question.name),
        message=scrubber.text(question.message),
        schema=scrubber.value(question.schema),
        url=scrubber.text(question.url),
        request=scrubber.value(question.request),
    )


def _are_roots(roots: Any) -> bool:
    return isinstance(roots, list) and all(
        isinstance(each, dict) and isinstance(each.get("uri"), str) for each in roots
    )


def _are_blocks(content: Any) -> bool:
    """What a model said: one block of it, or several."""
    blocks = content if isinstance(content, list) else [content]
    return all(
        isinstance(block, dict)
        and isinstance(block.get("type"), str)
        and (block["type"] != "text" or isinstance(block.get("text"), str))
        for block in blocks
    )


class Audience(Protocol):
    """Whoever waits for an answer: it may leave, and it may lose the right to one."""

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Calls it, on the loop, should whoever waits go away before an answer."""
        ...

    def when_expired(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls it, on the loop and perhaps now, when the credentials of whoever waits end; then, whatever the answer
        would have been, it is refused. Returns what to call when nobody needs that any more: what is answered after
        that is answered whole."""
        ...


class Channel(Audience, Protocol):
    """A running call's way out to whoever waits for it. Every method may be called from any thread, but `put`."""

    cancelled: bool

    def progress(self, done: float, total: float | None, message: str | None) -> None: ...

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None: ...

    def can_ask(self, kind: Asks) -> bool:
        """Whether there is somebody who can be asked that."""
        ...

    def put(self, question: Question, seq: int) -> None:
        """Puts a question of the call with that number to whoever waits. On the loop. Its answer is found in the
        ledger."""
        ...

    def takes_long(self, record: Callable[[], None]) -> None:
        """The call did not end at once; `record` has it put in the ledger. On the loop."""
        ...

    def is_recorded(self, seq: int) -> None:
        """The call is in the ledger, under that number. On the loop."""
        ...

    def joins(self) -> None:
        """Whoever waits did not begin the call: others may be told of it, too. On the loop."""
        ...

    def answer(self, outcome: Outcome) -> None:
        """Tells whoever waits something now, while the call goes on: where to ask for its result."""
        ...


def tellable(text: Any) -> str:
    """As text that can be sent: a file's name, say, may have characters in it that are none."""
    return str(text).encode(errors="replace").decode()


def nothing() -> None:
    """What there is to do to forget what was never watched."""


class QuietChannel:
    """For a wire that answers once and streams nothing, and for calls that nobody waits for."""

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Nobody is listening."""

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Nobody is listening; the engine has logged it already."""

    def can_ask(self, kind: Asks) -> bool:
        return False

    def put(self, question: Question, seq: int) -> None:
        """Nobody is listening."""

    def takes_long(self, record: Callable[[], None]) -> None:
        """Nobody is listening."""

    def is_recorded(self, seq: int) -> None:
        """Nobody is listening."""

    def joins(self) -> None:
        """Nobody is listening."""

    def answer(self, outcome: Outcome) -> None:
        """Nobody is listening."""

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Nobody can go."""

    def when_expired(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Nobody has credentials."""
        return nothing


class LedgerChannel(QuietChannel):
    """For a call whose client is not there now, and will look for its questions in the ledger."""

    __slots__ = ()

    def can_ask(self, kind: Asks) -> bool:
        return True
