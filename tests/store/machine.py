"""A ledger in which everything happens in any order, beside what is expected of it.

Two who claim for one session's owner, two workers, one node after another, and somebody whom nothing is for. Any write
may be made and not acknowledged; then it is made again, as whoever got no answer would, and has its effect once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from copy import deepcopy
from itertools import count, product
from random import Random
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from toolyard.model.errors import KeyConflict
from toolyard.model.lifecycle import State
from toolyard.model.record import CallKey, CallRecord, Ending, NewCall
from toolyard.model.session import Session
from toolyard.model.writes import DIRECT, Answer, Claimant, HandBack, HeartbeatWrite
from toolyard.store.contract import Store
from toolyard.store.values import ClaimFilter, Filter, StoreDown

from .calls import DONE, FAILED, RETRY, UNKNOWN
from .expected import Expected
from .ledgers import ManualClock, Opening

T = TypeVar("T")
MANY = 1000
TOTALS_S = (70.0, 300.0)
BODIES = {b"1": DONE, b"2": replace(DONE, value=b"16"), b"3": FAILED, b"4": RETRY}
"""What is answered, by its digest."""
_examples = count(1)

which = st.integers(0, 9)
people = st.sampled_from(["first", "second", "w1", "w2", "sharer"])
attempts = st.sampled_from(["none", "none", "current", "current", "before", "after"])
bodies = st.sampled_from(sorted(BODIES))
unsure = st.sampled_from([False, False, True])
steps_s = st.sampled_from([1.0, 5.0, 10.0, 20.0, 30.0])


class Unsure:
    """A store whose next write can be made to break off after it was made."""

    def __init__(self, store: Store) -> None:
        self.store, self.breaks = store, False

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        made = getattr(self.store, name)

        async def and_break(*values: Any) -> Any:
            done = await made(*values)
            if self.breaks:
                self.breaks = False
                raise StoreDown("the connection broke", retry_after_ms=1)
            return done

        return and_break


class Machine(RuleBasedStateMachine):
    """All examples share a ledger; each has a tenant of its own."""

    def __init__(self, make_store: Opening, clock: ManualClock, runner: asyncio.Runner) -> None:
        super().__init__()
        self.clock, self.make_store, self._run = clock, make_store, runner.run
        number = next(_examples)
        self.tenant, self.reference, self.session = f"tenant-{number}", f"Kit{number}.Tool@1.0.0", f"session-{number}"
        self.mark = str(number)
        self.nodes = 0
        serves = frozenset({self.reference})
        self.people = {
            "first": Claimant(self.tenant, "ada", "first"),
            "second": Claimant(self.tenant, "ada", "second"),
            "w1": Claimant(self.tenant, "robot", "w1", serves),
            "w2": Claimant(self.tenant, "robot", "w2", serves),
            "sharer": Claimant(self.tenant, "rogue", "w1", serves),
        }
        self.calls: list[Expected] = []
        self.keys: dict[str, Expected] = {}
        self.rows: dict[int, CallRecord] = {}
        self.resolved: set[int] = set()
        self.turn = 0
        self.may_cancel = False
        """Now and then, so that not everything is cancelled at once."""
        self.node = ""
        self.store = Unsure(self.opened())
        self.run(self.store.create_session(Session(self.session, self.tenant, "ada", [], {})))
        self.add_turn(["a", "b"], b"1", TOTALS_S[1], unsure=False)
        for queue, on_lost in product(("node", "worker"), ("rerun", "unknown")):
            self.begin(f"{on_lost}-", b"1", queue, unsure=False, on_lost=on_lost, total_s=TOTALS_S[1], run_s=None)

    def run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self._run(wait())

    def opened(self) -> Store:
        self.nodes += 1
        self.node = f"node-{self.mark}-{self.nodes}"
        return self.run(self.make_store(self.node))

    @property
    def now(self) -> float:
        return self.clock.now

    def pick(self, index: int, *queues: str) -> Expected:
        """One of them; those that still live come first."""
        there = sorted((call for call in self.calls if call.queue in queues), key=lambda call: call.is_over)
        return there[index % len(there)]

    def written(self, unsure: bool, write: Callable[[], Awaitable[T]], expect: Callable[[], Any]) -> tuple[T, Any]:
        """What the store says of a write, and what it should. A write that was not acknowledged is made again: what
        was expected happened then, and the second time nothing more."""
        self.store.breaks = unsure
        try:
            done = self.run(write())
        except StoreDown:
            expect()
            before = deepcopy(self.calls)
            done, expected = self.run(write()), expect()
            assert self.calls == before, "a write made twice has its effect once"
            return done, expected
        return done, expect()

    # -- calls begin ------------------------------------------------------------------------------

    def new(self, call_id: str, queue: Any, fingerprint: bytes, **limits: Any) -> NewCall:
        in_session = queue == "session"
        key = CallKey(self.tenant, "ada", self.session if in_session else queue, f"{call_id}-{self.mark}")
        session = self.session if in_session else DIRECT if queue == "worker" else None
        return NewCall(
            key, True, "oxp", "look_up", "look_up" if in_session else self.reference, b"{}", fingerprint,
            queue=queue, session=session, offer=self.reference if queue == "worker" else None, **limits,
        )  # fmt: skip

    def has_begun(self, new: NewCall, row: CallRecord) -> Expected:
        call = Expected(
            row.seq,
            new.queue,
            new.session,
            row.request or "",
            new.fingerprint,
            new.on_lost,
            new.run_s,
            self.now + (new.total_s or 0.0),
        )
        if new.queue == "node":
            call.is_claimed(self.node, self.now)
        self.calls.append(call)
        self.keys[new.key.family + new.key.call_id] = call
        return call

    @rule(
        ids=st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True),
        fingerprint=st.sampled_from([b"1", b"1", b"2"]),
        queue=st.sampled_from(["node", "worker", "session"]),
        on_lost=st.sampled_from(["rerun", "unknown"]),
        total_s=st.sampled_from(TOTALS_S),
        run_s=st.sampled_from([None, 40.0]),
        unsure=unsure,
    )
    def something_is_to_do(
        self, ids: list[str], fingerprint: bytes, queue: str, total_s: float, unsure: bool, **others: Any
    ) -> None:
        if queue == "session":
            self.add_turn(ids, fingerprint, total_s, unsure)
        else:
            self.begin(ids[0], fingerprint, queue, unsure, total_s=total_s, **others)

    def begin(self, call_id: str, fingerprint: bytes, queue: str, unsure: bool, **limits: Any) -> None:
        new = self.new(call_id, queue, fingerprint, **limits)
        known = self.keys.get(new.key.family + new.key.call_id)
        self.store.breaks = unsure
        try:
            begun = self.run(self.store.begin(new))
        except StoreDown:
            begun = self.run(self.store.begin(new))
            assert begun.seq == 0, "the second time it was there"
        seq = begun.seq or begun.known.seq
        if known is not None:
            assert (begun.seq, begun.known.seq, begun.known.fingerprint) == (0, known.seq, known.fingerprint)
        else:
            assert seq not in {call.seq for call in self.calls}
            self.has_begun(new, self.run(self.store.row(seq)))

    def add_turn(self, ids: list[str], fingerprint: bytes, total_s: float, unsure: bool) -> None:
        uses = [self.new(id, "session", fingerprint, on_lost="rerun", total_s=total_s, run_s=50.0) for id in ids]
        known = [self.keys.get(use.key.family + use.key.call_id) for use in uses]
        self.store.breaks = unsure
        try:
            try:
                begun = self.run(self.store.add_turn(self.session, uses))
            except StoreDown:
                begun = self.run(self.store.add_turn(self.session, uses))
                assert {each.seq for each in begun} == {0}, "the second time they were there"
        except KeyConflict:
            self.store.breaks = False
            assert any(call is not None and call.fingerprint != fingerprint for call in known)
            return
        assert all(call is None or call.fingerprint == fingerprint for call in known)
        is_open = any(call.session == self.session and not call.is_over for call in self.calls)
        self.turn += None in known and not is_open
        for use, call, each in zip(uses, known, begun, strict=True):
            row = self.run(self.store.row(each.seq or each.known.seq))
            if call is None:
                self.has_begun(use, row)
                assert row.turn == self.turn
            else:
                assert row.seq == call.seq

    # -- those who work on requests ---------------------------------------------------------------

    def attempt(self, call: Expected, choice: str) -> Any:
        return {"none": None, "current": call.attempt, "before": call.attempt - 1, "after": call.attempt + 1}[choice]

    @rule(name=people, limit=st.integers(1, 3), unsure=unsure)
    def claim(self, name: str, limit: int, unsure: bool) -> None:
        """A claim that was not acknowledged is not found again: what it took is held until its lease is over."""
        self.expire()
        who = self.people[name]
        queue = "worker" if who.serves else "session"

        def take() -> list[int]:
            free = [call for call in self.calls if call.queue == queue and call.state is State.PENDING][:limit]
            for call in free:
                call.is_claimed(who.holder, self.now)
            return [call.seq for call in free]

        self.store.breaks = unsure
        try:
            given = self.run(self.store.claim(ClaimFilter(who, limit=limit)))
        except StoreDown:
            take()
            given = self.run(self.store.claim(ClaimFilter(who, limit=limit)))
        assert [row.seq for row in given] == take()

    @rule(
        what=st.sampled_from(["beat", "beat", "answer", "leave"]),
        name=people,
        index=which,
        choice=attempts,
        body=bodies,
        moves=st.booleans(),
        unsure=unsure,
    )
    def somebody_says(
        self, what: str, name: str, index: int, choice: str, body: bytes, moves: bool, unsure: bool
    ) -> None:
        who = self.people[name]
        call = self.pick(index, "worker" if who.serves else "session")
        attempt, ending, named = self.attempt(call, choice), BODIES[body], (call.session or "", call.request, who)
        was_over = call.is_over
        if what == "beat":
            beat = HeartbeatWrite(*named, attempt, progress=b"1" if moves else None)
            (done,), expected = self.written(
                unsure, lambda: self.store.beat([beat]), lambda: call.beats(who, attempt, moves, self.now)
            )
        elif what == "leave":
            done, expected = self.written(
                unsure,
                lambda: self.store.leave(HandBack(*named, attempt)),
                lambda: call.is_left(who, attempt, self.now),
            )
        else:
            done, expected = self.written(
                unsure,
                lambda: self.store.answer(Answer(*named, ending, body, attempt)),
                lambda: call.is_answered(who, attempt, (ending.code, ending.value), body, self.now),
            )
            if not was_over and expected is None and ending.releases_key and call.queue == "worker":
                self.releases(call)
        assert (done.reason, done.attempt) == (expected, call.attempt)

    @precondition(lambda self: self.may_cancel)
    @rule(index=which, queue=st.sampled_from(["node", "session", "worker"]), unsure=unsure)
    def cancel(self, index: int, queue: str, unsure: bool) -> None:
        self.may_cancel = False
        call = self.pick(index, queue)
        done, expected = self.written(unsure, lambda: self.store.cancel(call.seq), lambda: call.is_cancelled(self.now))
        assert (done.reason, done.standing.attempt) == (expected, call.attempt)

    def releases(self, call: Expected) -> None:
        self.keys = {key: held for key, held in self.keys.items() if held is not call}

    # -- nodes ------------------------------------------------------------------------------------

    @rule(
        what=st.sampled_from(["finish", "hand back", "restart", "restart", "give up"]),
        index=which,
        choice=attempts,
        body=bodies,
        unsure=unsure,
    )
    def the_node_does(self, what: str, index: int, choice: str, body: bytes, unsure: bool) -> None:
        call, node = self.pick(index, "node"), self.node
        if call.deadline <= self.now:
            return  # whether a node that is late by a moment is heard is the store's matter
        attempt = self.attempt(call, choice.replace("none", "current"))
        if what == "finish":
            self.finish(call, attempt or 0, BODIES[body], unsure)
        elif what == "hand back":
            self.written(
                unsure, lambda: self.store.hand_back(call.seq, attempt), lambda: call.is_handed_back(node, attempt)
            )
        elif what == "restart":
            number, expected = self.written(
                unsure,
                lambda: self.store.restart(call.seq, attempt),
                lambda: call.is_restarted(node, attempt, self.now),
            )
            assert number == expected
        else:
            ended, expected = self.written(
                unsure,
                lambda: self.store.give_up(call.seq, attempt, UNKNOWN),
                lambda: call.is_given_up(node, attempt, UNKNOWN.code),
            )
            assert ended is expected

    def finish(self, call: Expected, attempt: int, ending: Ending, unsure: bool) -> None:
        def expect() -> bool:
            won = call.is_finished(self.node, attempt, ending.code, ending.value)
            if won and ending.releases_key:
                self.releases(call)
            return won

        done, won = self.written(unsure, lambda: self.store.finish(call.seq, attempt, ending), expect)
        assert (done is None) is won
        if done is not None:
            assert call.agrees_with(done), "who loses is given the row"

    @precondition(lambda self: any(call.holder == self.node for call in self.calls))
    @rule()
    def another_node(self) -> None:
        """The server stops, and starts again as another."""
        self.run(self.make_store.close(self.store.store))
        self.store = Unsure(self.opened())

    @invariant()
    def what_nobody_runs_is_lost(self) -> None:
        lost = [row.seq for row in self.run(self.store.unstarted(MANY)) if row.key.tenant == self.tenant]
        assert lost == [call.seq for call in self.calls if call.is_adrift(self.node)]

    @precondition(lambda self: any(call.code == UNKNOWN.code for call in self.calls))
    @rule(index=which, ending=st.sampled_from([DONE, FAILED]), unsure=unsure)
    def resolve(self, index: int, ending: Ending, unsure: bool) -> None:
        unknown = [call for call in self.calls if call.code == UNKNOWN.code]
        call = unknown[index % len(unknown)]

        def expect() -> bool:
            if call.code != UNKNOWN.code:
                return False
            call.ends(ending.code, ending.value)
            self.resolved.add(call.seq)
            return True

        row, settled = self.written(unsure, lambda: self.store.resolve(call.seq, ending), expect)
        assert (row is not None) is settled

    @precondition(lambda self: any(call.code == UNKNOWN.code and call.deadline > self.now for call in self.calls))
    @rule(index=which)
    def run_once_more(self, index: int) -> None:
        unknown = [call for call in self.calls if call.code == UNKNOWN.code and call.deadline > self.now]
        call = unknown[index % len(unknown)]
        self.resolved.add(call.seq)
        row = self.run(self.store.resolve(call.seq, None))
        assert (row.state, row.attempt, row.code) == (State.PENDING, call.attempt, None)
        call.code, call.digest, call.value = None, None, None
        call.is_given_back()
        if call.queue == "node":
            assert self.run(self.store.restart(call.seq, call.attempt)) == call.attempt + 1
            call.is_claimed(self.node, self.now)

    # -- time -------------------------------------------------------------------------------------

    @rule(seconds=steps_s, notices=st.booleans())
    def time_passes(self, seconds: float, notices: bool) -> None:
        self.run(self.clock.advance(seconds))
        self.may_cancel = True
        if notices:
            self.expire()

    def expire(self) -> None:
        while self.run(self.store.expire(MANY)):
            pass
        for call in self.calls:
            call.time_passes(self.now)

    # -- what is always so ------------------------------------------------------------------------

    @invariant()
    def the_ledger_says_what_is_expected(self) -> None:
        rows = {row.seq: row for row in self.run(self.store.listed(Filter(self.tenant, limit=MANY)))}
        assert set(rows) == {call.seq for call in self.calls}
        for call in self.calls:
            assert call.agrees_with(rows[call.seq]), (call, rows[call.seq])
        for seq, row in rows.items():
            self.is_a_step(self.rows.get(seq), row)
        self.rows = rows
        self.resolved.clear()

    def is_a_step(self, before: CallRecord | None, after: CallRecord) -> None:
        """From what was seen last to what is seen now, whatever was expected."""
        if before is None:
            return
        assert after.attempt >= before.attempt
        assert after.losses >= before.losses
        if before.finished_at is not None and after.seq not in self.resolved:
            assert after == before, "an outcome never changes"

    @invariant()
    def the_session_tells_what_happened(self) -> None:
        session = self.run(self.store.session(self.tenant, "ada", self.session))
        mine = [call for call in self.calls if call.session == self.session]
        assert (session.open, session.turn) == (sum(not call.is_over for call in mine), self.turn)
        events = self.run(self.store.events(self.session, 0, MANY))
        assert [event.number for event in events] == list(range(1, session.revision + 1))
        last: dict[str, tuple[str, int]] = {}
        status = "ready"
        for event in events:
            said = msgspec.json.decode(event.data)
            if event.kind == "session":
                assert said["status"] != status
                status = said["status"]
                continue
            now, before = (said["state"], said["attempt"]), last.get(said["requestId"])
            assert now != before
            assert before is None or now[1] >= before[1]
            last[said["requestId"]] = now
        assert status == session.status
        assert last == {call.request: (call.state, call.attempt) for call in mine}

    def somebody_else_sees_nothing(self, call: Expected) -> None:
        row = self.rows[call.seq]
        heir = Claimant(self.tenant, "heir", "w1", frozenset({f"{self.reference} of another"}))
        for other in (Claimant(self.tenant, "bob"), Claimant("other", "ada"), Claimant("other", "robot", "w1"), heir):
            whose, id = (other.tenant, other.subject), row.key.call_id
            assert self.run(self.store.get(*whose, id)) is None
            assert self.run(self.store.find(CallKey(*whose, row.key.family, id))) is None
            assert self.run(self.store.session(*whose, self.session)) is None
            assert self.run(self.store.listed(Filter(*whose))) == []
            assert self.run(self.store.claim(ClaimFilter(other, limit=MANY))) == []
            assert self.run(self.store.requests(ClaimFilter(other, limit=MANY, state=None))) == []
            if call.session is not None:
                named = (call.session, call.request)
                assert self.run(self.store.request(other, *named)) is None
                assert (
                    self.run(
                        self.store.beat([HeartbeatWrite(*named, other), HeartbeatWrite(*named, other, call.attempt)])
                    )
                    == [None] * 2
                )
                assert self.run(self.store.answer(Answer(*named, other, DONE, b"1", call.attempt))) is None
                assert self.run(self.store.leave(HandBack(*named, other, call.attempt))) is None

    # -- all of it, evenly --------------------------------------------------------------------------

    def anything(self, random: Random) -> None:
        """One of the rules with values of its own, each as likely as the next: hypothesis finds the shortest way to a
        failure, but goes the same ways often."""
        one = random.choice
        index, unsure = random.randrange(10), random.random() < 0.3
        choice, body = one(["none", "none", "current", "current", "before", "after"]), one(sorted(BODIES))
        what = one(["new", "claim", "say", "say", "say", "say", "node", "node", "time", "settle"])
        if what == "new":
            ids = random.sample("abcdefghijkl", random.randrange(1, 4))
            limits = {"on_lost": one(["rerun", "unknown"]), "run_s": one([None, 40.0])}
            queue = one(["node", "worker", "session"])
            self.something_is_to_do(ids, one([b"1", b"1", b"2"]), queue, one(TOTALS_S), unsure, **limits)
        elif what == "claim":
            self.claim(one(sorted(self.people)), random.randrange(1, 4), unsure)
        elif what == "say":
            says = one(["beat", "beat", "answer", "leave"])
            self.somebody_says(says, one(sorted(self.people)), index, choice, body, one([False, True]), unsure)
        elif what == "node":
            does = one(["finish", "hand back", "restart", "restart", "give up"])
            self.the_node_does(does, index, choice, body, unsure)
        elif what == "time":
            self.time_passes(one([1.0, 5.0, 10.0, 20.0, 30.0]), one([False, True]))
        else:
            self.settles(random, index, unsure)
        self.the_ledger_says_what_is_expected()
        self.the_session_tells_what_happened()
        self.what_nobody_runs_is_lost()

    def settles(self, random: Random, index: int, unsure: bool) -> None:
        unknown = [call for call in self.calls if call.code == UNKNOWN.code]
        what = random.choice(["cancel", "another node", "resolve", "once more"])
        if what == "cancel":
            self.cancel(index, random.choice(["node", "session", "worker"]), unsure)
        elif what == "another node":
            self.another_node()
        elif what == "resolve" and unknown:
            self.resolve(index, random.choice([DONE, FAILED]), unsure)
        elif what == "once more" and any(call.deadline > self.now for call in unknown):
            self.run_once_more(index)

    def teardown(self) -> None:
        """Every call ends: nothing is needed for it but time."""
        self.store.breaks = False
        try:
            self.run(self.clock.advance(max(TOTALS_S)))
            self.expire()
            assert all(call.is_over for call in self.calls)
            self.the_ledger_says_what_is_expected()
            self.the_session_tells_what_happened()
            for call in self.calls[::4]:
                self.somebody_else_sees_nothing(call)
        finally:
            self.run(self.make_store.close_all())
