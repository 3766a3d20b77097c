"""The channel from a running call to the client that waits for it: progress, log lines, questions.

The engine and the runners only know the protocol `Channel`. A wire that streams implements it; one that answers once
uses `QuietChannel`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ..text.scrubber import Scrubber
from .call import Outcome

Asks = Literal["form", "url", "sampling", "roots"]
"""The kinds of questions, named as MCP names them: a person fills in a form, a person opens a URL, the client's model
answers (sampling), the client lists the folders it works in (roots)."""


class Question(Struct, frozen=True, omit_defaults=True):
    """A question that a running tool puts to its client, for its model or its person to answer. `name` tells a call's
    questions apart, and is the same when the call is run again, so that an answer is found again."""

    name: str
    kind: Asks = "form"
    message: str = ""
    schema: Mapping[str, Any] = {}
    """The JSON Schema of a form's answer."""
    url: str = ""
    request: Mapping[str, Any] = {}
    """The parameters of MCP's `sampling/createMessage`, where the client's model is asked."""

    def wants(self, answer: Any) -> str | None:
        """What an answer to this question must do, as the end of a sentence that begins "it must", where the given
        answer does not; None where it fits."""
        # An answer comes from the client as JSON and may be anything. The shapes are those of MCP's ElicitResult,
        # ListRootsResult and CreateMessageResult. The engine holds a form's content against `schema` afterwards.
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
    """The question without the secrets and tokens that its call was given."""
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
    """Whether this is what a model said: one content block, or a list of them."""
    blocks = content if isinstance(content, list) else [content]
    return all(
        isinstance(block, dict)
        and isinstance(block.get("type"), str)
        and (block["type"] != "text" or isinstance(block.get("text"), str))
        for block in blocks
    )


class Audience(Protocol):
    """Whoever waits for an answer: a client that may leave, and may lose the right to an answer."""

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Has `callback` called, on the event loop, should the client go away before it was answered."""
        ...

    def when_expired(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Has `callback` called, on the event loop and perhaps now, when the client's credentials end; then, whatever
        the answer would have been, the client is refused. Returns what to call when nobody needs that any more: what is
        answered after that is answered whole."""
        ...


class Channel(Audience, Protocol):
    """What a running call can tell the client that waits for it. A method may be called from any thread, unless it says
    that it is called on the event loop."""

    cancelled: bool
    """Whether the tool should stop, because its result is not wanted any more. The engine and the runners set it, and
    the tool may look at it."""

    def progress(self, done: float, total: float | None, message: str | None) -> None: ...

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None: ...

    def can_ask(self, kind: Asks) -> bool:
        """Whether the client can be asked a question of this kind."""
        ...

    def put(self, question: Question, seq: int) -> None:
        """Sends the client a question of the call that the ledger has under that number. The answer does not come back
        this way: it is written to the ledger, and found there. Called on the event loop."""
        ...

    def takes_long(self, record: Callable[[], None]) -> None:
        """Notes that the call did not end at once; `record` puts it into the ledger, should the client need to come
        back for it. Called on the event loop."""
        ...

    def on_recorded(self, seq: int) -> None:
        """Notes that the call is in the ledger now, under that number. Called on the event loop."""
        ...

    def joins(self) -> None:
        """Notes that this client did not begin the call but joined it, and so is one of several. Called on the event
        loop."""
        ...

    def answer(self, outcome: Outcome) -> None:
        """Answers the client now, while the call goes on: with where to ask for its result."""
        ...

    def when_answered(self, callback: Callable[[], None]) -> None:
        """Has `callback` called, on the event loop, once the call's request is over; now, where nobody waits for an
        answer. Called on the event loop."""
        ...


def tellable(text: Any) -> str:
    """A text that can be encoded as UTF-8: a file's name, say, may have lone surrogates in it."""
    return str(text).encode(errors="replace").decode()


def nothing() -> None:
    """What there is to do to forget what was never watched."""


class QuietChannel:
    """The channel of a wire that answers once and streams nothing, and of calls that no client waits for."""

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

    def on_recorded(self, seq: int) -> None:
        """Nobody is listening."""

    def joins(self) -> None:
        """Nobody is listening."""

    def answer(self, outcome: Outcome) -> None:
        """Nobody is listening."""

    def when_answered(self, callback: Callable[[], None]) -> None:
        """Nobody is to be answered."""
        callback()

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Nobody can go."""

    def when_expired(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Nobody has credentials."""
        return nothing


class LedgerChannel(QuietChannel):
    """The channel of a call whose client is not connected now, and will come back to find its questions in the ledger:
    so anything may be asked, and nothing is sent."""

    __slots__ = ()

    def can_ask(self, kind: Asks) -> bool:
        return True
