"""Short walks through the machine, each to a place where two capabilities meet and a promise was once broken.

They take the machine's own rules, and the same oracle looks after every step; what it finds by chance it finds here
for certain.
"""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pytest

from toolyard.store import write_behind

from .conftest import NewLedger
from .machine import Machine
from .tools import GITHUB, HELD
from .world import ADA, BEN, EVE, MALLORY, TRUSTY


class Walk:
    """Takes the machine's rules, and has the oracle look after each."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def __getattr__(self, name: str) -> Callable[..., Any]:
        step = getattr(self.machine, name)

        def take(**values: Any) -> Any:
            done = step(**values)
            self.machine.the_promises_hold()
            return done

        return take


class Start(Protocol):
    def __call__(self, audit: str = "on", trusts: bool = False) -> Any: ...


@pytest.fixture
def walk(new_ledger: NewLedger) -> Start:
    class Here(Machine):
        def new_ledger(self) -> Any:
            return new_ledger()

    @contextmanager
    def start(audit: str = "on", trusts: bool = False) -> Iterator[Walk]:
        machine = Here()
        machine.set_up(audit=audit, trusts=trusts)
        try:
            yield Walk(machine)
        except BaseException:
            machine.is_broken = True
            raise
        finally:
            machine.teardown()

    return start


@pytest.mark.parametrize("wire", ["oxp", "mcp-new", "mcp-old"])
def test_the_same_call_at_once_waits_for_one_yes(walk: Start, wire: str) -> None:
    with walk() as taken:
        taken.call_the_same_at_once(wire=wire)
        taken.somebody_decides()
        taken.call_the_same_again(wire=wire)


# -- who may know what -----------------------------------------------------------------------------


@pytest.mark.parametrize("trusts", [False, True])
@pytest.mark.parametrize(("tool", "needs"), [("Fax.Steal", "FAX_KEY"), ("Sms.Steal", HELD)])
def test_a_strangers_worker_is_given_no_held_secret(walk: Start, tool: str, needs: str, trusts: bool) -> None:
    with walk(trusts=trusts) as taken:
        taken.offer(person=MALLORY, tool=tool, needs=needs)
        taken.call_a_workers_tool(person=MALLORY, tool=tool)
        taken.claim(person=MALLORY)
        taken.a_worker_says()


@pytest.mark.parametrize(("who", "trusts"), [(MALLORY, False), (ADA, False), (MALLORY, True)])
def test_a_strangers_worker_is_given_no_users_token(walk: Start, who: Any, trusts: bool) -> None:
    with walk(trusts=trusts) as taken:
        taken.somebody_connects_an_account(user="uma")
        taken.offer(person=MALLORY, tool="Job.Do", needs=GITHUB)
        taken.call_a_workers_tool(person=who, tool="Job.Do", user="uma", key="a")
        taken.claim(person=MALLORY)


def test_a_worker_whose_key_is_revoked_meanwhile_is_given_nothing(walk: Start) -> None:
    with walk(trusts=True) as taken:
        taken.offer(person=TRUSTY, tool="Fax.Steal", needs="FAX_KEY")
        taken.a_key_is_revoked_during_a_claim(tool="Fax.Steal")
        taken.claim(person=TRUSTY)
        taken.a_worker_says()
        (claim,) = taken.machine.world.claims
        assert claim.accepted, "what the other was not given was left for this one"


@pytest.mark.parametrize("is_claimed", [False, True])
def test_who_takes_the_name_of_a_tool_whose_worker_left_gets_new_calls_only(walk: Start, is_claimed: bool) -> None:
    with walk() as taken:
        taken.offer(person=MALLORY, tool="Job.Do", needs="FAX_KEY")
        taken.call_a_workers_tool(tool="Job.Do", key="done", brings=True)
        taken.claim(person=MALLORY)
        taken.a_worker_says()
        taken.call_a_workers_tool(tool="Job.Do", key="a", brings=True)
        if is_claimed:
            taken.claim(person=MALLORY)
        taken.a_worker_leaves(person=MALLORY)
        taken.offer(person=TRUSTY, tool="Job.Do", needs="FAX_KEY")
        taken.claim(person=TRUSTY)
        for state in ("PENDING", "PROCESSING", "COMPLETE"):
            taken.a_worker_looks_around(person=TRUSTY, state=state)
        for how in ("beat", "release", "answer"):
            taken.a_worker_meddles(person=TRUSTY, how=how)
        taken.call_a_workers_tool(tool="Job.Do", key="b", brings=True)
        taken.claim(person=TRUSTY)
        taken.a_worker_says()
        assert [claim.person for claim in taken.machine.world.claims] == [MALLORY] * (1 + is_claimed) + [TRUSTY]


def test_a_trusted_worker_is_given_what_is_meant_for_it(walk: Start) -> None:
    """Else the walks before would prove nothing."""
    with walk(trusts=True) as taken:
        taken.offer(person=TRUSTY, tool="Fax.Steal", needs="FAX_KEY")
        taken.call_a_workers_tool(tool="Fax.Steal", key="a")
        taken.claim(person=TRUSTY)
        taken.a_worker_says()
        (claim,) = taken.machine.world.claims
        assert claim.accepted


def test_what_a_worker_was_given_is_scrubbed_although_its_tool_needs_it_no_longer(walk: Start) -> None:
    """It says its token to another node, or to one that started anew, after its tool was offered otherwise."""
    with walk(trusts=True) as taken:
        taken.somebody_connects_an_account(user="uma")
        taken.offer(person=TRUSTY, tool="Job.Do", needs=GITHUB)
        taken.call_a_workers_tool(tool="Job.Do", user="uma", key="a")
        taken.claim(person=TRUSTY)
        taken.offer(person=TRUSTY, tool="Job.Do")
        taken.a_server_starts_again(node=1)
        taken.a_worker_says(node=1)
        (claim,) = taken.machine.world.claims
        assert claim.given
        assert claim.accepted


@pytest.mark.parametrize("wire", ["mcp-new", "mcp-old", "oxp"])
def test_a_running_call_is_joined_by_no_other_user(walk: Start, wire: str) -> None:
    with walk() as taken:
        taken.call_slowly(wire=wire, key="a", user="uma")
        taken.call_almost_the_same(user="vic")
        taken.let_it_end()


@pytest.mark.parametrize("wire", ["mcp-new", "mcp-old"])
def test_a_running_call_is_joined_by_no_other_input(walk: Start, wire: str) -> None:
    with walk() as taken:
        taken.call_slowly(wire=wire, key="a", flag=1)
        taken.call_almost_the_same(flag=True)
        taken.let_it_end()


# -- what came is what is recorded -------------------------------------------------------------------


@pytest.mark.parametrize(("wire", "key"), [("oxp", None), ("oxp", "a"), ("mcp-new", None), ("mcp-old-task", "a")])
@pytest.mark.parametrize("how", ["secret", "object", "cycle", "empty"])
def test_a_tool_that_changes_its_input_changes_nothing_else(walk: Start, wire: str, key: Any, how: str) -> None:
    with walk() as taken:
        taken.call_what_changes_its_input(wire=wire, how=how, key=key)
        taken.call(key="b")


# -- what cannot be served is not stored -------------------------------------------------------------


@pytest.mark.parametrize("how", ["chain", "twice", "clash"])
def test_a_hostile_definition_hurts_nobody_else(walk: Start, how: str) -> None:
    with walk() as taken:
        taken.offer_something_hostile(person=EVE, how=how)
        taken.offer(person=MALLORY, tool="Job.Do")
        taken.a_server_starts_again()
        taken.call_a_workers_tool(tool="Job.Do", key="a")


# -- a number, link or code never comes to mean another call -----------------------------------------


def test_an_old_link_and_code_are_about_no_other_call(walk: Start) -> None:
    with walk() as taken:
        taken.call_another(tool="Desk.Pay", person=ADA, key="a")
        taken.somebody_decides(how="reject")
        taken.time_passes(seconds=140.0)
        for number in range(4):
            taken.call_another(tool="Desk.Pay", person=EVE, key=f"e{number}")
            taken.somebody_decides(how="look", index=len(taken.machine.world.approvals))
            taken.somebody_decides(how="code", index=len(taken.machine.world.approvals) - 1)


def test_what_waited_is_answered_with_no_other_calls_result(walk: Start) -> None:
    with walk() as taken:
        taken.call_another(tool="Desk.Pay", person=ADA)
        taken.somebody_decides(how="reject")
        taken.time_passes(seconds=140.0)
        for number in range(4):
            taken.call(person=EVE, key=f"e{number}")
        taken.call_the_same_again(index=4)


def test_a_challenge_spelled_otherwise_is_the_same(walk: Start) -> None:
    with walk() as taken:
        taken.call_with_an_account(user="vic")
        for spelling in range(8):
            taken.somebody_types_a_code(spelling=spelling)
        taken.somebody_types_a_code(spelling=0, is_right=True)
        taken.somebody_types_a_code(spelling=3, is_right=True)


def test_a_challenge_can_be_passed(walk: Start) -> None:
    """Else the walk before would prove nothing."""
    with walk() as taken:
        taken.call_with_an_account(user="vic")
        taken.somebody_types_a_code()
        taken.somebody_types_a_code(is_right=True)
        (challenge,) = taken.machine.world.challenges
        assert (challenge.wrong, challenge.is_passed_at) == (1, 1)


# -- one key, one execution; acknowledged is durable -------------------------------------------------


def test_who_stands_in_line_is_told_nothing_that_is_not_so(walk: Start) -> None:
    with walk() as taken:
        taken.call_slowly(tool="Desk.Single", key="a")
        taken.call_slowly(tool="Desk.Single", key="b")
        taken.a_server_starts_again()


@pytest.mark.parametrize("wire", ["oxp", "draft"])
def test_who_calls_while_nobody_can_write_is_told_nothing_that_is_not_so(walk: Start, wire: str) -> None:
    with walk() as taken:
        taken.the_ledger_is_locked_for_a_moment(wire=wire)


@pytest.mark.parametrize("wire", ["oxp", "mcp-new"])
def test_a_key_lives_as_long_as_its_call(walk: Start, wire: str) -> None:
    with walk() as taken:
        taken.call_another(tool="Desk.Pay", wire=wire, key="a")
        taken.somebody_decides(how="look")
        taken.time_passes(seconds=1100.0)
        taken.call_the_same_again()
        for _ in range(2):
            taken.somebody_decides(how="operator")


@pytest.mark.parametrize("wire", ["oxp", "mcp-new", "mcp-old"])
def test_what_is_known_is_replayed_whatever_a_validator_says(walk: Start, wire: str) -> None:
    with walk() as taken:
        taken.call_another(tool="Desk.Picky", wire=wire, key="a")
        taken.call_the_same_again()
        taken.the_author_breaks_the_validator()
        taken.call_the_same_again()


@pytest.mark.parametrize("tool", ["Desk.Wait", "Desk.Again"])
def test_what_ran_when_the_server_stopped_is_run_again_only_where_that_is_right(walk: Start, tool: str) -> None:
    with walk() as taken:
        taken.call_slowly(tool=tool, key="a")
        taken.a_server_starts_again()
        taken.call_the_same_again()
        taken.let_it_end()
        taken.call_the_same_again()


@pytest.mark.parametrize("trusts", [True])
def test_a_worker_that_comes_too_late_loses(walk: Start, trusts: bool) -> None:
    with walk(trusts=trusts) as taken:
        taken.offer(person=TRUSTY, tool="Job.Do")
        taken.call_a_workers_tool(tool="Job.Do", key="a")
        taken.claim(person=TRUSTY, worker="w")
        taken.time_passes(seconds=40.0)
        taken.offer(person=TRUSTY, tool="Job.Do")
        taken.claim(person=TRUSTY, worker="v")
        taken.a_worker_says(index=1)
        taken.a_worker_says(index=0)
        first, second = taken.machine.world.claims
        assert (first.accepted, second.accepted) == (False, True)


# -- audit, limits, health -----------------------------------------------------------------------------


@pytest.mark.parametrize("wire", ["oxp", "draft", "mcp-new-tasks"])
def test_a_slow_call_is_in_a_strict_audit_log_before_it_is_answered(walk: Start, wire: str) -> None:
    with walk(audit="strict") as taken:
        taken.call_slowly(wire=wire)
        taken.call_slowly(wire=wire, key="a")


def test_a_clock_that_is_set_back_locks_nobody_out(walk: Start) -> None:
    with walk() as taken:
        for _ in range(4):
            taken.call(person=BEN)
        taken.the_clock_is_set_back()
        taken.time_passes(seconds=140.0)
        taken.call(person=BEN)


def test_health_is_true_when_nothing_can_be_written(walk: Start, kind: str) -> None:
    with walk() as taken:
        taken.call(key="a")
        taken.machine.is_troubled = True
        with full_disk() if kind == "sqlite" else locked(taken.machine):
            taken.machine.the_promises_hold()
            if kind == "sqlite":  # there it can still be read
                taken.look_at_calls(how="list")
        taken.call(key="b")


@contextmanager
def full_disk() -> Iterator[None]:
    """No file can grow, or be written to beyond its first bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def locked(machine: Machine) -> Iterator[None]:
    """Somebody has the table."""
    ledger = machine.on.ledger
    machine.on.run(ledger.block())
    try:
        yield
    finally:
        machine.on.run(ledger.unblock())


def test_calls_under_way_outlive_the_node_that_drains(walk: Start) -> None:
    """One that waits for nobody, one that waits for a person, one that waits for a worker, and one that runs."""
    with walk() as on:
        on.offer(person=MALLORY)
        on.call(key="a")
        on.call_what_asks()
        on.call_a_workers_tool()
        on.call_slowly(tool="Desk.Again", key="b")
        for node in (0, 1):
            on.a_node_drains_and_is_replaced(node=node, key="c")
        on.call_the_same_again()
        on.claim(person=MALLORY)
        on.let_it_end()


# -- copies, and other programs ------------------------------------------------------------------------


def test_a_copy_of_the_ledger_has_all_that_was_promised(walk: Start) -> None:
    with walk() as on:
        on.call(key="a")
        on.call_what_asks()
        on.somebody_copies_the_ledger()
        on.the_ledger_goes_back_to_its_copy()
        on.call_the_same_again()
        on.time_passes()
        on.the_ledger_goes_back_to_its_copy()
        on.somebody_copies_the_ledger()
        on.the_ledger_goes_back_to_its_copy()


def test_what_was_done_since_a_copy_is_unknown_and_what_was_so_before_is_so(walk: Start) -> None:
    with walk(audit="strict", trusts=True) as on:
        on.offer(person=TRUSTY, tool="Job.Do")
        on.a_key_is_revoked_during_a_claim(tool="Job.Do")
        on.call(key="a")
        on.call_slowly(tool="Desk.Wait", key="b")
        on.call_slowly(tool="Desk.Again", key="c")
        on.call_another(tool="Desk.Pay", key="d")
        on.call_a_workers_tool(tool="Job.Do", key="e")
        on.somebody_copies_the_ledger()
        on.let_it_end()
        on.let_it_end()
        on.somebody_decides()
        on.claim(person=TRUSTY)
        on.a_worker_says()
        on.call(key="f")
        on.a_key_is_revoked_during_a_claim(tool="Job.Do")
        on.the_ledger_goes_back_to_its_copy()
        for index in range(len(on.machine.world.sent)):
            on.call_the_same_again(index=index)
        on.somebody_decides()
        on.claim(person=TRUSTY)
        on.a_worker_says()


def test_an_old_link_is_about_no_other_call_after_the_ledger_went_back(walk: Start) -> None:
    with walk() as on:
        on.call(key="a")
        on.somebody_copies_the_ledger()
        on.call_another(tool="Desk.Pay", person=ADA, key="b")
        on.somebody_decides(how="look")
        on.the_ledger_goes_back_to_its_copy()
        on.call_another(tool="Desk.Pay", person=EVE, key="b")
        for how in ("operator", "code"):
            on.somebody_decides(how=how, index=1)


def test_what_was_erased_before_a_copy_does_not_come_back(walk: Start) -> None:
    with walk() as on:
        on.call(user="uma", key="a")
        on.somebody_erases_calls(user="uma")
        on.somebody_copies_the_ledger()
        on.call(user="vic", key="b")
        on.somebody_erases_calls(user="vic")
        on.the_ledger_goes_back_to_its_copy()
        on.call_the_same_again()


def test_calls_under_way_outlive_an_upgrade_of_one_node_after_the_other(walk: Start) -> None:
    with walk() as on:
        on.offer(person=MALLORY)
        on.call(key="a")
        on.call_what_asks()
        on.call_a_workers_tool()
        on.call_slowly(tool="Desk.Again", key="b")
        on.call_another(tool="Desk.Pay", key="c")
        on.somebody_copies_the_ledger()
        on.a_node_is_upgraded(node=0)
        for node in (1, 0):  # of this release, and of the next
            on.call(key=f"d{node}", node=node)
            on.call_the_same_again(node=1 - node)
            on.call_slowly(key=f"e{node}", node=node)
        on.claim(person=MALLORY, node=1)
        on.a_worker_says(node=0)
        on.somebody_decides(node=1)
        on.a_server_starts_again(node=1)
        on.call_the_same_again(index=3, node=1)
        on.the_ledger_goes_back_to_its_copy()
        on.call_the_same_again(index=1)


@pytest.mark.parametrize("key", [None, "a"])
def test_what_was_agreed_to_after_the_copy_is_not_done_again(walk: Start, key: str | None) -> None:
    with walk() as on:
        on.call_another(tool="Desk.Pay", key=key)
        on.a_copy_of_the_ledger_takes_its_place(since="decided")
        assert len(on.machine.world.runs) == 1, "it was done, and then forgotten"
        on.somebody_decides()
        on.call_the_same_again()
        on.somebody_decides()
        assert len(on.machine.world.runs) == 1


@pytest.mark.parametrize("tool", ["Fax.Steal", "Job.Do"])
def test_what_a_worker_did_after_the_copy_is_done_again_only_where_it_may_be(walk: Start, tool: str) -> None:
    with walk() as on:
        on.offer(person=MALLORY, tool=tool)
        on.call_a_workers_tool(tool=tool, key="a")
        on.a_copy_of_the_ledger_takes_its_place(since="worked")
        on.offer(person=MALLORY, tool=tool)
        on.claim(person=MALLORY)
        claims = on.machine.world.claims
        assert len(claims) == (1 if tool == "Fax.Steal" else 2)
        on.a_worker_says(index=len(claims) - 1)
        on.a_worker_says(index=0)
        assert [claim.accepted for claim in claims] == ([False] if tool == "Fax.Steal" else [False, True])


def test_a_call_after_an_erasure_is_kept_however_late_it_is_written(
    walk: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_behind, "FLUSH_S", 0.5)
    with walk() as taken:
        taken.call(person=ADA, user="uma", node=1)
        taken.somebody_erases_calls(user="uma", node=1)
        taken.call(person=ADA, user="uma", node=0)
