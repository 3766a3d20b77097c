"""Calls, requests and those who work on them, for the suite."""

from typing import Any, TypeVar

from msgspec import Raw

from toolyard import Toolkit
from toolyard.model.call import CallTool, Outcome
from toolyard.model.caller import Caller
from toolyard.model.channel import QuietChannel
from toolyard.model.errors import ToolError
from toolyard.model.lifecycle import State
from toolyard.model.record import CallKey, Ending, NewCall, Ran
from toolyard.model.run import Run
from toolyard.model.session import Session, SessionTool
from toolyard.model.writes import DIRECT, Answer, Claimant, HandBack, HeartbeatWrite
from toolyard.store.contract import Store
from toolyard.store.values import Begun, ClaimFilter

T = TypeVar("T")
REFERENCE = "Kit.Tool@1.0.0"
LARGE = b'"' + b"x" * (256 * 1024) + b'"'
"""Too large for a row."""

EXTRA = b'{"content":[{"type":"text","text":"fifteen"}],"meta":{"seen":1}}'
DONE = Ending(State.COMPLETE, "success", 1.5, value=b"15", extra=EXTRA)
FAILED = Ending(State.ERROR, "tool_failed", 2.5, error=b'{"message":"no"}')
RETRY = Ending(State.ERROR, "tool_failed", 2.5, error=b'{"message":"later"}', releases_key=True)
UNKNOWN = Ending(State.ERROR, "outcome_unknown", 0.0, error=b'{"message":"who knows"}', effects="unknown")

ADA = Claimant("default", "ada")
SECOND = Claimant("default", "ada", worker="second")
BOB = Claimant("default", "bob")
STRANGER = Claimant("other", "ada")
WORKER = Claimant("default", "robot", worker="w1", serves=frozenset({REFERENCE}))
OTHER_WORKER = Claimant("default", "robot", worker="w2", serves=frozenset({REFERENCE}))
SHARER = Claimant("default", "rogue", worker="w1", serves=frozenset({REFERENCE}))
"""Another caller's, who makes the same offer."""
HEIR = Claimant("default", "heir", worker="w1", serves=frozenset({f"{REFERENCE} heir first"}))
"""Another caller's, who has taken the tool's name."""
ANEW = Claimant("default", "robot", worker="w1", serves=frozenset({f"{REFERENCE} robot second"}))
"""WORKER, who has come to offer something else by the tool's name."""


def there(value: T | None) -> T:
    assert value is not None
    return value


# --- calls ---------------------------------------------------------------------------------------

KEY = CallKey("default", "ada", "oxp", "call-1")


def call(call_id: str = "call-1", **changes: Any) -> NewCall:
    """One that a node runs, with a key."""
    given: dict[str, Any] = {
        "key": CallKey("default", "ada", "oxp", call_id),
        "keyed": True,
        "wire": "oxp",
        "tool": "Kit.Tool",
        "reference": REFERENCE,
        "input": b'{"a":1}',
        "fingerprint": b"fingerprint",
        "on_lost": "rerun",
    }
    return NewCall(**given | changes)


def worker_call(call_id: str = "call-1", **changes: Any) -> NewCall:
    """One that waits for a worker. Its offer is its tool's reference, for short, as it is in what WORKER serves."""
    offer = changes.get("reference", REFERENCE)
    return call(call_id, **{"queue": "worker", "session": DIRECT, "offer": offer} | changes)


async def name(store: Store, begun: Begun) -> str:
    """What a call is called by those who work on it."""
    return there(there(await store.row(begun.seq)).request)


def request(call_id: str = "r", session: str = "s", **changes: Any) -> NewCall:
    """A tool use of a session that brought the tool."""
    given = {
        "key": CallKey("default", "ada", session, call_id),
        "wire": "lifecycle",
        "tool": "look_up",
        "reference": "look_up",
        "queue": "session",
        "session": session,
    }
    return call(call_id, **given | changes)


kit = Toolkit("Kit", version="1.0.0")


@kit.tool
def tool(a: int) -> int:
    """A tool."""
    return a


def ran(call_id: str, outcome: int | ToolError, input: dict[str, Any] | None = None) -> Ran:
    """A call without a key that has run."""
    made = kit.tools[0]
    run = Run(made, call_id, Caller("default", "ada", "user"), input or {"a": 1}, QuietChannel(), trace_id="trace")
    command = CallTool("Kit.Tool", run.input, wire="oxp", family="oxp")
    command.keep_input()
    if isinstance(outcome, ToolError):
        return command, run, Outcome(call_id, 2.5, error=outcome)
    return command, run, Outcome(call_id, 1.5, Raw(str(outcome).encode()))


# --- sessions and their requests -----------------------------------------------------------------


def session(id: str = "s", **changes: Any) -> Session:
    given: dict[str, Any] = {
        "tenant": "default",
        "subject": "ada",
        "tools": [SessionTool("look_up", "Looks up.", {"type": "object"})],
        "metadata": {"about": "weather"},
    }
    return Session(id, **given | changes)


async def in_session(store: Store, *requests: NewCall, id: str = "s") -> list[Begun]:
    """The requests of one message in a session that was not there before."""
    await store.create_session(session(id))
    return await store.add_turn(id, requests)


# --- writes about requests -----------------------------------------------------------------------


def beat(
    who: Claimant = ADA, attempt: int | None = None, request: str = "r", session: str = "s", **others: Any
) -> HeartbeatWrite:
    return HeartbeatWrite(session, request, who, attempt, **others)


def answer(
    who: Claimant = ADA,
    attempt: int | None = None,
    ending: Ending = DONE,
    digest: bytes = b"body",
    request: str = "r",
    session: str = "s",
) -> Answer:
    return Answer(session, request, who, ending, digest, attempt)


def hand_back(who: Claimant = ADA, attempt: int | None = None, request: str = "r", session: str = "s") -> HandBack:
    return HandBack(session, request, who, attempt)


def wanted(who: Claimant = ADA, *tools: str, limit: int = 100, **others: Any) -> ClaimFilter:
    return ClaimFilter(who, tools, limit=limit, **others)
