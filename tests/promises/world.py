"""What was done, and what was seen of it, from outside: people, their calls, what tools did, and what everybody heard.

It is written down by the rules and by the tools, and read by the oracle. Nothing in it is taken from the server's
insides, and nothing in it says how the server works.
"""

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct

from . import canaries
from .clock import ManualClock

OPEN = ("PENDING", "PROCESSING")
"""The states of calls that have not ended."""
Kind = Literal["success", "failure", "running", "waiting", "accepted", "refused", "asked"]
"""How a call was answered: with its result, with a failure, that it still runs, that a person has to agree, that it was
taken, that it was not made, or with a question."""
ANY = "*"
"""Of a listener: it may know what is any user's of its caller."""


class Person(Struct, frozen=True):
    """Somebody with credentials; programs, mostly."""

    tenant: str
    subject: str
    scope: str = ""
    is_limited: bool = False

    def __repr__(self) -> str:
        """By the name that it has here, so that a walk that hypothesis prints can be taken again."""
        return self.subject.upper()


ADA = Person("acme", "ada")
BEN = Person("acme", "ben", is_limited=True)
MALLORY = Person("acme", "mallory")
"""Offers tools as a worker, and nobody trusts her."""
TRUSTY = Person("acme", "trusty")
"""Offers tools as a worker, and an operator trusts it, where the settings name anybody."""
EVE = Person("evil", "eve")
BOSS = Person("acme", "boss", scope="approve")
PROBER = Person("acme", "prober")
"""Calls now and then to see whether anybody answers."""
CALLERS = (ADA, BEN, MALLORY, EVE)
USERS = ("uma", "vic")


@dataclass(frozen=True)
class Listener:
    """Who hears a reply. `user`: for whom they asked; `operator` may know what is private, and no secrets."""

    person: Person | None
    user: str | None = ANY
    is_operator: bool = False
    knows: frozenset[str] = frozenset()
    """Private values that they have from elsewhere: whoever has a link may see what it is about."""
    secrets: frozenset[str] = frozenset()
    """The names of secrets that are meant for them."""

    def __str__(self) -> str:
        if self.person is None:
            return "an operator" if self.is_operator else "somebody"
        for_whom = "" if self.user in (ANY, None) else f" for {self.user}"
        return f"{self.person.tenant}/{self.person.subject}{for_whom}"


OPERATOR = Listener(None, is_operator=True)


@dataclass(eq=False)
class Heard:
    """A reply, as far as it has come."""

    to: Listener
    request: str
    elapsed: float = 0.0
    """When it was asked for."""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Something of the body has come."""
    done: asyncio.Event = field(default_factory=asyncio.Event)
    searched: int = -1
    """How much of it the oracle has looked at."""

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def events(self) -> list[Any]:
        """Of a stream."""
        lines = [line for line in self.body.split(b"\n") if line.startswith(b"data:")]
        return [json.loads(line[5:]) for line in lines if line[5:].strip()]


@dataclass(frozen=True)
class Told:
    """What an answer says, in no wire's words."""

    kind: Kind
    call_id: str | None = None
    value: Any = None
    can_retry: bool = False
    link: str | None = None
    code: str | None = None
    state: str | None = None
    is_limit: bool = False
    message: str = ""


@dataclass(eq=False)
class Sent:
    """One call, as somebody made it; the same call again is another of these."""

    person: Person
    user: str | None
    tool: str
    wire: str
    input: dict[str, Any]
    key: str | None
    at: float
    elapsed: float
    heard: Heard
    call_id: str | None = None
    told: Told | None = None
    ended_at: float | None = None
    """When it ended, as far as the ledger showed it once it was acknowledged: or it had not, and this is when."""
    is_erased: bool = False
    """Somebody had the calls of its user erased since."""
    is_gone: bool = False
    """It was kept as long as it had to be."""
    is_forgotten: bool = False
    """The ledger went back to a copy that need not have it, or not as it was answered."""

    @property
    def mark(self) -> str:
        return str(self.input["mark"])

    @property
    def family(self) -> str:
        """Two calls with one key are one within a family."""
        return family_of(self.wire)

    @property
    def keyed(self) -> tuple[Any, ...] | None:
        return None if self.key is None else (self.person.tenant, self.person.subject, self.family, self.key)

    @property
    def print(self) -> str:
        """What makes it this call and no other."""
        return exact([self.tool, self.user, self.input])

    def __repr__(self) -> str:
        who = f"{self.person.subject}{'' if self.user is None else ' for ' + self.user}"
        return f"{who}: {self.tool} {self.input} over {self.wire}, key {self.key}"


@dataclass(eq=False)
class Run:
    """A tool's function, once."""

    id: str
    tool: str
    mark: str
    input: str
    """As it came to the tool, before that did anything with it."""
    tenant: str
    subject: str
    user: str | None
    at: float
    elapsed: float
    ended: Literal["", "done", "retry", "lost", "forgotten"] = ""
    """Forgotten: the ledger went back to a copy of before its call was known, and may have it made once more."""
    is_past: bool = False
    """The ledger went back to a copy of before it."""


@dataclass(eq=False)
class Approval:
    """A call that waits for a person: its link, and its code."""

    id: str
    url: str
    code: str
    mark: str
    made_at: float


@dataclass(eq=False)
class Challenge:
    """A link at which somebody connects an account, and how often it was tried with a wrong code."""

    text: str
    code: str
    wrong: int = 0
    is_passed_at: int | None = None
    """After how many wrong codes the right one led on."""


@dataclass(eq=False)
class Claim:
    """Work that a worker was given."""

    person: Person
    worker: str
    session: str
    request: str
    attempt: int
    tool: str
    input: dict[str, Any]
    run: str = field(default_factory=canaries.private)
    """What it would answer."""
    given: list[str] = field(default_factory=list)
    """Secrets and tokens that came with it."""
    accepted: bool = False
    newest_at_answer: int = 0
    """The highest attempt that anybody had been given when it was accepted."""
    is_past: bool = False
    """The ledger went back to a copy in which it was not answered: what it says from then on is too late."""


@dataclass(eq=False)
class Copied:
    """What was so when a copy of the ledger was made, and is so again when the ledger goes back to it."""

    answered: set[Sent]
    """What had been answered in a way that is in the ledger before it is said."""
    waiting: set[str]
    """Marks of calls that had not ended: whatever was done with them since is not done again."""
    ended: set[Run]
    runs: int
    accepted: set[Claim]
    approved: set[str]
    erased: set[str]
    sessions: list[tuple[Person, str]]
    codes: dict[Challenge, tuple[int, int | None]]
    tallies: int


class World:
    """One example's."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.owners: dict[str, tuple[Person, str | None]] = {}
        """Of private values: whose they are, and for which of their users."""
        self.shared: dict[str, set[Person]] = defaultdict(set)
        """Who else may know one: those who had offered the tool as workers when it was called. Who comes to have the
        tool's name later may not."""
        self.secrets: dict[str, tuple[bytes, ...]] = {}
        """By name: what they look like."""
        self.sent: list[Sent] = []
        self.heard: list[Heard] = []
        self.runs: list[Run] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.is_open = False
        self.began: dict[str, asyncio.Event] = {}
        self.inputs: dict[str, str] = {}
        """By mark: what came, exactly."""
        self.erased: set[str] = set()
        """Marks of calls that had ended when somebody had them erased."""
        self.approvals: dict[tuple[str, str], Approval] = {}
        """By link and mark: one of each, if all is well."""
        self.approved: set[str] = set()
        """Marks of calls that somebody agreed to."""
        self.challenges: list[Challenge] = []
        self.claims: list[Claim] = []
        self.newest: dict[tuple[str, str], int] = {}
        """By session and request: the highest attempt that was given out."""
        self.offers: dict[str, set[Person]] = defaultdict(set)
        """Who offers a tool as a worker."""
        self.sessions: list[tuple[Person, str]] = []
        self.brought: dict[str, set[Person]] = {}
        """By the name of a secret that a caller brought: those who had offered the tool that it was for, by then."""
        self.meddled: list[str] = []
        """What somebody said of what another had claimed, and was heard."""
        self.tallies: list[str] = []
        """Marks that tools in child processes have left."""
        self.forgotten_tallies: set[int] = set()
        """Which of them the ledger need not know."""
        self.revoked: list[str] = []
        """API keys that let nobody in any more."""
        self.copied: Copied | None = None
        """Of the copy that the ledger can go back to."""
        self.is_picky = False
        """Whether an author's validator raises now."""
        self.troubles: list[str] = []
        """What went wrong in a way that no reply shows: a server that does not start or stop."""

    # -- values ------------------------------------------------------------------------------------

    def new_mark(self, person: Person, user: str | None, *others: Person) -> str:
        mark = canaries.private()
        self.owners[mark] = (person, user)
        self.shared[mark] |= set(others)
        return mark

    def new_secret(self, name: str) -> str:
        value = canaries.secret()
        self.secrets[name] = canaries.forms(value)
        return value

    # -- what tools do -----------------------------------------------------------------------------

    def ran(self, tool: str, caller: Any, input: dict[str, Any]) -> Run:
        """A tool's function begins."""
        mark = str(input["mark"])
        run = Run(
            canaries.private(), tool, mark, exact(input), caller.tenant, caller.subject, caller.user_id,
            self.clock.now, self.clock.elapsed,
        )  # fmt: skip
        if mark in self.owners:
            self.owners[run.id] = (self.owners[mark][0], caller.user_id)
            self.shared[run.id] = self.shared[mark]
        if caller.subject != PROBER.subject:
            self.runs.append(run)
        self.begin(mark).set()
        return run

    def gate(self, mark: str) -> asyncio.Event:
        """Is set when a run with that mark may end."""
        gate = self.gates.setdefault(mark, asyncio.Event())
        if self.is_open:
            gate.set()
        return gate

    def open_gates(self) -> None:
        """Whatever runs ends, and so does what begins later."""
        self.is_open = True
        for gate in self.gates.values():
            gate.set()

    def begin(self, mark: str) -> asyncio.Event:
        """Is set when a run with that mark has begun."""
        return self.began.setdefault(mark, asyncio.Event())

    def lose_runs(self) -> None:
        """Whatever runs now may be lost: its server has gone, or is thought to have."""
        for run in self.runs:
            if run.ended == "":
                run.ended = "lost"

    # -- copies of the ledger ----------------------------------------------------------------------

    def what_a_copy_has(self, open_calls: set[str]) -> Copied:
        """At least, if it is made now, when calls with these marks have not ended. What has no key is written behind,
        and may be missing."""
        final = ("success", "failure")
        answered = {
            sent for sent in self.sent if sent.told is not None and (sent.key or sent.told.kind not in final)
        }  # fmt: skip
        marks = {sent.mark for sent in answered if sent.told is not None and sent.told.kind in final}
        may_run_again = {run.mark for run in self.runs if run.ended == "retry"}  # its end may be in the copy just so
        return Copied(
            answered, open_calls - may_run_again, {run for run in self.runs if run.mark in marks}, len(self.runs),
            {claim for claim in self.claims if claim.accepted}, set(self.approved), set(self.erased),
            list(self.sessions), {each: (each.wrong, each.is_passed_at) for each in self.challenges},
            len(self.tallies),
        )  # fmt: skip

    def go_back(self, to: Copied) -> None:
        """To when a copy was made: what was done since then is unknown, and what was so before is so."""
        for sent in self.sent:
            sent.is_forgotten = sent.is_forgotten or sent not in to.answered
        for run in self.runs[: to.runs]:
            if run not in to.ended and run.ended != "forgotten":
                run.ended = "lost"
        for run in self.runs[to.runs :]:
            run.ended, run.is_past = "lost" if run.mark in to.waiting else "forgotten", True
        for claim in self.claims:
            claim.accepted = claim in to.accepted
            claim.is_past = not claim.accepted
        self.approved, self.erased, self.sessions = set(to.approved), set(to.erased), list(to.sessions)
        for challenge in self.challenges:
            challenge.wrong, challenge.is_passed_at = to.codes.get(challenge, (0, None))
        since = range(to.tallies, len(self.tallies))
        self.forgotten_tallies |= {at for at in since if self.tallies[at] not in to.waiting}

    # -- what the oracle asks ----------------------------------------------------------------------

    def may_know(self, listener: Listener, value: str) -> bool:
        if listener.is_operator or value in listener.knows or value not in self.owners:
            return True
        person, user = self.owners[value]
        if listener.person is None:
            return False
        if listener.person in self.shared[value]:
            return True
        is_theirs = (person.tenant, person.subject) == (listener.person.tenant, listener.person.subject)
        return is_theirs and (listener.user == ANY or user is None or user == listener.user)


def family_of(wire: str) -> str:
    return "oxp" if wire == "otc" else wire.partition("-")[0]


def exact(value: Any) -> str:
    """JSON in one form, as RFC 8785 has it: true and 1 differ, 1.0 and 1 do not, nor does the order of members."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
