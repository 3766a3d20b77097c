"""The nine promises, held against everything that was done and seen. It knows nothing of the server's code.

Each check takes what was seen and gives what contradicts its promise, in sentences. All of them are asked after every
step; some, which are about the end, once more when everything has had its time.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from . import canaries
from .ledgers import Rows, text_of
from .world import OPEN, Heard, Run, Sent, World, exact

MOST_WRONG_CODES = 5
WORKED_OFF_S = 130.0
"""After so long nothing can be left of what a caller used: a minute, and one more on other nodes."""
RETENTION_S, KEY_TTL_S = 100.0, 1000.0
OWN = ("Desk.Note", "Desk.Look", "Desk.Picky", "Desk.Wait", "Desk.Again", "Desk.Mutate", "Sms.Send")
"""Tools that are always there, and need nothing that could be taken away."""
RERUN = ("Desk.Again",)
"""Tools whose authors say that a lost run may simply be made again."""
ONCE = "Fax.Steal"
"""A worker's tool of which that is not said."""


@dataclass
class Seen:
    """What can be seen at one moment. `health` is that of each node; `is_answering`: whether a call was answered when
    the node said that it was well."""

    world: World
    calls: list[dict[str, Any]]
    rows: Rows
    files: dict[str, bytes]
    log: list[str]
    health: list[int]
    is_answering: list[bool]
    audited: set[str] | None
    """The ids of calls in the audit log, where only what is in it may be answered."""
    is_quiet: bool = False
    """Whether nothing runs any more, and there was time to write down what ran."""
    is_over: bool = False
    """Whether everything has had its time."""


@dataclass
class Memory:
    """What the oracle remembers from one look to the next."""

    numbers: dict[Any, tuple[Any, ...]] = field(default_factory=dict)
    read: int = 0
    """Lines of the log."""


Check = Callable[[Seen, Memory], Iterator[str]]


# -- 1: acknowledged is durable --------------------------------------------------------------------


def acknowledged_is_kept(seen: Seen, memory: Memory) -> Iterator[str]:
    """Whoever was told that a call was taken, or runs, or waits, or with a key how it ended, finds it in the ledger
    until it is old."""
    there = {(*_named(call), exact(call.get("input"))): call for call in seen.calls}
    now = seen.world.clock.now
    for sent in seen.world.sent:
        told = sent.told
        if told is None or told.kind in ("refused", "asked"):
            continue
        is_promised = told.kind in ("running", "accepted") or (sent.key is not None and told.kind != "failure")
        if sent.call_id is None or not is_promised or sent.is_gone or sent.is_erased or sent.is_forgotten:
            continue
        call = there.get((sent.person.tenant, sent.person.subject, sent.call_id, exact(sent.input)))
        if call is not None:
            sent.ended_at = call.get("finishedAt", now)
        elif sent.ended_at is None:
            yield f"({sent}) was answered {told.kind}, and the ledger does not have {sent.call_id}"
        # By the latest time that there was: it may have gone just before the clock was set back.
        elif seen.world.clock.latest - sent.ended_at < RETENTION_S:
            yield f"({sent}) was in the ledger, and is gone before its time"
        else:
            sent.is_gone = True


# -- 2 and 4: one key, one execution; none twice in silence ----------------------------------------


def one_key_one_execution(seen: Seen, memory: Memory) -> Iterator[str]:
    for which, calls in _by_key(seen.world).items():
        # By the time that has really passed: a clock that is set back does not bring back what it was past already.
        first = min(sent.elapsed for sent in calls)
        runs = [run for run in seen.world.runs if run.mark in {sent.mark for sent in calls} and _is_whose(run, calls)]
        for one, other in pairwise(runs):
            is_released = one.ended in ("retry", "forgotten") or (one.ended == "lost" and one.tool in RERUN)
            is_soon = other.elapsed - one.elapsed < RETENTION_S or other.elapsed - first < KEY_TTL_S
            if not is_released and is_soon:
                yield f"the key {which} was executed twice: {one} and {other}"


def a_lost_run_is_not_made_again(seen: Seen, memory: Memory) -> Iterator[str]:
    """Without a key, too: one call, one run, unless its author said otherwise."""
    runs = defaultdict[tuple[str, str, str], list[Run]](list)
    sent = defaultdict[str, int](int)
    for each in seen.world.sent:
        sent[each.mark] += 1
    for run in seen.world.runs:
        runs[run.mark, run.subject, run.tenant].append(run)
    for those in runs.values():
        may_run = sent[those[0].mark] + sum(run.ended == "lost" and run.tool in RERUN for run in those)
        may_run += sum(run.ended == "forgotten" for run in those)
        if len(those) > max(1, may_run):
            yield f"{those[0].tool} ran {len(those)} times with {those[0].mark}, and was called {sent[those[0].mark]}"


def a_process_runs_once_for_a_key(seen: Seen, memory: Memory) -> Iterator[str]:
    known = [mark for at, mark in enumerate(seen.world.tallies) if at not in seen.world.forgotten_tallies]
    for mark in {sent.mark for sent in seen.world.sent if sent.key is not None}:
        if known.count(mark) > 1:
            yield f"{mark} was executed {known.count(mark)} times in a process"


def one_call_one_outcome(seen: Seen, memory: Memory) -> Iterator[str]:
    """Whoever makes the same call with the same key is told the same."""
    for which, calls in _by_key(seen.world).items():
        calls = [sent for sent in calls if not sent.is_forgotten]
        said = [sent for sent in calls if sent.told is not None and sent.told.kind == "success"]
        for one, other in pairwise(said):
            if other.elapsed - one.elapsed < RETENTION_S and exact(one.told.value) != exact(other.told.value):  # type: ignore[union-attr]
                yield f"the key {which} was answered {one.told} and then {other.told}"
        for sent in calls:
            told = sent.told
            if told is None or told.kind not in ("failure", "refused") or told.can_retry or told.is_limit:
                continue
            if sent.tool not in OWN:
                continue
            kept = [one for one in said if not one.is_erased]
            before = [one for one in kept if one.elapsed <= sent.elapsed and 0 <= sent.at - one.at < RETENTION_S]
            if before and seen.world.sent.index(before[0]) < seen.world.sent.index(sent):
                yield f"the key {which} was answered {before[0].told}, and then: {told}"


# -- 3: a late worker never wins -------------------------------------------------------------------


def a_late_worker_never_wins(seen: Seen, memory: Memory) -> Iterator[str]:
    answered = defaultdict[tuple[str, str], set[str]](set)
    given = defaultdict[tuple[str, str, int], list[str]](list)
    for claim in seen.world.claims:
        given[claim.session, claim.request, claim.attempt].append(f"{claim.person.subject}/{claim.worker}")
        if claim.accepted:
            answered[claim.session, claim.request].add(claim.run)
            if claim.is_past:
                yield f"attempt {claim.attempt} of {claim.request} was taken after the ledger went back"
            if claim.attempt < claim.newest_at_answer:
                yield f"attempt {claim.attempt} of {claim.request} was taken when there was {claim.newest_at_answer}"
    for which, runs in answered.items():
        if len(runs) > 1:
            yield f"{which} was answered by {len(runs)} attempts, and both were taken"
    for (_, request, attempt), those in given.items():
        if len(those) > 1:
            yield f"attempt {attempt} of {request} was given to {' and '.join(those)}"


def a_worker_is_not_given_again_what_may_have_been_done(seen: Seen, memory: Memory) -> Iterator[str]:
    """Whatever the ledger has forgotten of it."""
    given = defaultdict[tuple[str, str], int](int)
    for claim in seen.world.claims:
        if claim.tool == ONCE:
            given[claim.session, claim.request] += 1
    for which, times in given.items():
        if times > 1:
            yield f"{which} was given to workers {times} times"


def nobody_speaks_for_another_worker(seen: Seen, memory: Memory) -> Iterator[str]:
    yield from seen.world.meddled


# -- 5: every call ends ----------------------------------------------------------------------------


def every_call_ends(seen: Seen, memory: Memory) -> Iterator[str]:
    if seen.is_over:
        for call in seen.calls:
            if call["state"] in OPEN:
                yield f"a call never ended: {call}"
        for sent in seen.world.sent:
            if sent.told is None:
                yield f"({sent}) was never answered"


# -- 6: callers are walls --------------------------------------------------------------------------


def nobody_hears_what_is_anothers(seen: Seen, memory: Memory) -> Iterator[str]:
    """Not another caller, and not whoever asks for another user."""
    for heard in _news(seen.world):
        strange = [each for each in canaries.privates_in(heard.body) if not seen.world.may_know(heard.to, each)]
        for each in strange:
            person, user = seen.world.owners[each]
            whose = f"{person.tenant}/{person.subject}" + (f" for {user}" if user else "")
            yield f"{heard.to} asked {heard.request} and was told what is {whose}'s ({each}): {heard.body[:300]!r}"


def each_answer_is_its_own(seen: Seen, memory: Memory) -> Iterator[str]:
    """A result is that of a run with this input, for this caller and this user."""
    runs = {run.id: run for run in seen.world.runs}
    for sent in seen.world.sent:
        value = sent.told.value if sent.told is not None else None
        run = runs.get(value.get("run", "")) if isinstance(value, dict) else None
        if run is None:
            continue
        ran = (run.tool, run.tenant, run.subject, run.user, run.input)
        asked = (sent.tool, sent.person.tenant, sent.person.subject, sent.user, exact(sent.input))
        if ran != asked:
            yield f"({sent}) was answered with the result of {run}"


# -- 7: secrets leave no trace ---------------------------------------------------------------------


def secrets_leave_no_trace(seen: Seen, memory: Memory) -> Iterator[str]:
    secrets = seen.world.secrets
    for heard in _news(seen.world):
        for name in canaries.secrets_in(heard.body, secrets):
            if name not in heard.to.secrets:
                yield f"{heard.to} asked {heard.request} and was told {name}: {heard.body[:300]!r}"
    lines, memory.read = seen.log[memory.read :], len(seen.log)
    places = {f"table {table}": text for table, text in text_of(seen.rows).items()} | seen.files
    places["log"] = "\n".join(lines).encode()
    for place, text in places.items():
        if canaries.PREFIX in text or place == "log":
            for name in canaries.secrets_in(text, secrets):
                yield f"{name} is in {place}"
        else:
            for name in canaries.secrets_in(text, secrets):
                yield f"{name} is in {place}, in another spelling"


# -- 8: what came is what is recorded; a number never comes to mean another call ---------------------


def what_came_is_recorded(seen: Seen, memory: Memory) -> Iterator[str]:
    """The input of each call is one that somebody sent so, with that id if they know it."""
    came = defaultdict[Any, set[str]](set)
    for sent in seen.world.sent:
        came[sent.mark].add(exact(sent.input))
        came[sent.person.tenant, sent.person.subject, sent.call_id or sent.key].add(exact(sent.input))
    for call in seen.calls:
        if "input" not in call:
            continue
        recorded, mark = exact(call["input"]), str(call["input"].get("mark"))
        wanted = came.get(_named(call)) or came.get(mark) or set()
        if recorded not in wanted:
            yield f"{recorded} is recorded for {_named(call)}, and what came is {' or '.join(wanted) or 'nothing'}"


def everything_that_ran_is_recorded(seen: Seen, memory: Memory) -> Iterator[str]:
    """Also a call without a key. One that was made again is as old as when it was made first."""
    if seen.is_quiet:
        recorded = {exact(call["input"]) for call in seen.calls if "input" in call}
        first: dict[str, float] = {}
        for sent in seen.world.sent:
            told = sent.told
            if sent.is_erased or sent.is_forgotten:
                continue
            is_recent = seen.world.clock.elapsed - first.setdefault(exact(sent.input), sent.elapsed) < RETENTION_S
            if told is not None and told.kind == "success" and is_recent and exact(sent.input) not in recorded:
                yield f"({sent}) was answered {told.kind}, and is not in the ledger"


def what_is_erased_is_gone(seen: Seen, memory: Memory) -> Iterator[str]:
    """Unless the same was sent once more since. What is in the audit log stays there."""
    if seen.is_quiet:
        sent_since = {sent.mark for sent in seen.world.sent if not sent.is_erased}
        for table, text in text_of(seen.rows).items():
            for mark in seen.world.erased - sent_since if table != "audit" else ():
                if mark.encode() in text:
                    yield f"{mark} was erased, and is in table {table}"


def no_number_twice(seen: Seen, memory: Memory) -> Iterator[str]:
    for row in seen.rows.get("calls", ()):
        identity = tuple(row.get(name) for name in ("tenant", "subject", "family", "call_id", "created_at"))
        before = memory.numbers.setdefault(row["seq"], identity)
        if before != identity:
            yield f"the number {row['seq']} was {before} and is {identity}"
    links = defaultdict[str, set[str]](set)
    for approval in seen.world.approvals.values():
        links[approval.id].add(approval.mark)
    for id, marks in links.items():
        if len(marks) > 1:
            yield f"the link {id} has meant {len(marks)} calls"


def nothing_runs_without_its_yes(seen: Seen, memory: Memory) -> Iterator[str]:
    """A yes is for one call: not for another that has its number now."""
    for run in seen.world.runs:
        if run.tool == "Desk.Pay" and run.mark not in seen.world.approved and not run.is_past:
            yield f"nobody agreed to {run}"


def few_codes_can_be_tried(seen: Seen, memory: Memory) -> Iterator[str]:
    """However a challenge's link is spelled, it is that one challenge."""
    for challenge in seen.world.challenges:
        if challenge.wrong > MOST_WRONG_CODES:
            yield f"{challenge.wrong} wrong codes were tried for one challenge"
        if challenge.is_passed_at is not None and challenge.is_passed_at >= MOST_WRONG_CODES:
            yield f"a challenge was passed after {challenge.is_passed_at} wrong codes"


# -- 9: one bad thing never stops the others; health tells the truth --------------------------------


def nothing_breaks(seen: Seen, memory: Memory) -> Iterator[str]:
    yield from seen.world.troubles
    for heard in _news(seen.world):
        if heard.status >= 500 and heard.status != 503:
            yield f"{heard.to} asked {heard.request} and was told {heard.status} {heard.body[:300]!r}"


def health_is_true(seen: Seen, memory: Memory) -> Iterator[str]:
    for node, (status, is_answering) in enumerate(zip(seen.health, seen.is_answering, strict=True)):
        if status == 200 and not is_answering:
            yield f"node {node} says that it is well, and takes no calls"


def nobody_is_locked_out(seen: Seen, memory: Memory) -> Iterator[str]:
    """Who has asked for nothing for so long has nothing left to wait for, whatever the clock was set to."""
    asked = [heard for heard in seen.world.heard if heard.to.person is not None and heard.to.person.is_limited]
    for sent in seen.world.sent:
        if sent.person.is_limited and sent.told is not None and sent.told.is_limit:
            others = [heard.elapsed for heard in asked if heard is not sent.heard and heard.elapsed <= sent.elapsed]
            quiet = sent.elapsed - max(others, default=-WORKED_OFF_S)
            if quiet >= WORKED_OFF_S:
                yield f"({sent}) was refused after {quiet:g} s in which it asked for nothing: {sent.told.message}"


def strict_audit_has_what_was_answered(seen: Seen, memory: Memory) -> Iterator[str]:
    if seen.audited is not None:
        for sent in seen.world.sent:
            is_answered = sent.told is not None and sent.told.kind in ("success", "running")
            if is_answered and not sent.is_forgotten and sent.call_id and sent.call_id not in seen.audited:
                yield f"({sent}) was answered, and the audit log does not have {sent.call_id}: {sent.told}"


PROMISES: dict[str, Check] = {
    check.__name__.replace("_", " "): check
    for check in (
        acknowledged_is_kept, one_key_one_execution, a_lost_run_is_not_made_again,
        a_process_runs_once_for_a_key, one_call_one_outcome,
        a_late_worker_never_wins, a_worker_is_not_given_again_what_may_have_been_done, nobody_speaks_for_another_worker,
        every_call_ends, nobody_hears_what_is_anothers, each_answer_is_its_own,
        secrets_leave_no_trace, what_came_is_recorded, everything_that_ran_is_recorded,
        what_is_erased_is_gone, no_number_twice,
        nothing_runs_without_its_yes, few_codes_can_be_tried, nothing_breaks, health_is_true, nobody_is_locked_out,
        strict_audit_has_what_was_answered,
    )
}  # fmt: skip


class BrokenPromise(AssertionError):
    """`promises` are those that were broken."""

    def __init__(self, found: dict[str, list[str]]) -> None:
        lines = [f"{promise}:\n  " + "\n  ".join(sentences[:5]) for promise, sentences in found.items()]
        super().__init__("\n".join(lines))
        self.promises = set(found)


class Oracle:
    """One for an example."""

    def __init__(self) -> None:
        self._memory = Memory()

    def judge(self, seen: Seen) -> None:
        """Raises BrokenPromise."""
        found = {name: list(check(seen, self._memory)) for name, check in PROMISES.items()}
        for heard in seen.world.heard:
            heard.searched = len(heard.body) if heard.done.is_set() else -1
        if broken := {name: sentences for name, sentences in found.items() if sentences}:
            raise BrokenPromise(broken)


def _named(call: dict[str, Any]) -> tuple[str, str, str]:
    return call.get("tenant", "default"), call["caller"], call["callId"]


def _by_key(world: World) -> dict[Any, list[Sent]]:
    """Calls that are one: made with the same key, and alike."""
    found = defaultdict[Any, list[Sent]](list)
    for sent in world.sent:
        if sent.key is not None:
            found[*(sent.keyed or ()), sent.print].append(sent)
    return found


def _is_whose(run: Run, calls: list[Sent]) -> bool:
    asked = (calls[0].person.tenant, calls[0].person.subject, calls[0].user, exact(calls[0].input))
    return (run.tenant, run.subject, run.user, run.input) == asked


def _news(world: World) -> list[Heard]:
    return [heard for heard in world.heard if heard.body and len(heard.body) > heard.searched]
