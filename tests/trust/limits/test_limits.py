"""Limits, on a clock that the test owns: what is let in, when a refused call may come back, and what nodes know of each
other."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolyard import Toolkit
from toolyard.model.asset import Asset
from toolyard.model.caller import Caller
from toolyard.model.clock import Clock
from toolyard.model.errors import LimitReached
from toolyard.model.tool import Tool
from toolyard.store.contract import Store
from toolyard.trust.access.access import Access, CallerPattern
from toolyard.trust.access.identity import Identity
from toolyard.trust.limits import credential_failures as failures_module
from toolyard.trust.limits import limits as limits_module
from toolyard.trust.limits.backoff import FREE, LONGEST_S, Backoff
from toolyard.trust.limits.credential_failures import CredentialFailures
from toolyard.trust.limits.limits import DEFAULTS, Limit, Limiter, network_of, read_limits
from toolyard.trust.limits.usage_sharing import UsageSharing

kit = Toolkit("Kit", version="1.0.0")
START = 1_000_000.0


@kit.tool
async def one() -> None:
    """One."""


@kit.tool(tags=["mail"])
async def two() -> None:
    """Another."""


ONE, TWO = kit.tools


class Yard:
    """A limiter, its clock, and callers as its access rules make them."""

    def __init__(self, *limits: Limit) -> None:
        self.now = START
        self.limiter = Limiter(limits, lambda: self.now)
        self._access = Access((), [limit.who for limit in limits])

    def caller(self, subject: str = "a", address: str = "", **more: Any) -> Caller:
        made = self._access.caller(Identity(more.pop("tenant", "default"), subject, **more))
        return replace(made, address=address)

    def let_in(self, tool: Tool = ONE, caller: Caller | None = None, times: int = 1) -> int:
        """How many of so many."""
        there = caller or self.caller()
        return sum(self.refused(tool, there) is None for _ in range(times))

    def refused(self, tool: Tool = ONE, caller: Caller | None = None) -> LimitReached | None:
        try:
            self.limiter.admit(tool, caller or self.caller()).end()
        except LimitReached as refused:
            return refused
        return None

    def wait(self, ms: int) -> None:
        self.now = (round(self.now * 1000) + ms) / 1000


def a_minute(most: int, **more: Any) -> Limit:
    return Limit("some", calls_per_minute=most, **more)


# -- calls a minute --------------------------------------------------------------------------------


def test_a_minutes_calls_may_come_at_once_and_come_back_one_by_one() -> None:
    yard = Yard(a_minute(6))
    assert yard.let_in(times=10) == 6
    yard.wait(10_000)
    assert yard.let_in(times=10) == 1
    yard.wait(25_000)
    assert yard.let_in(times=10) == 2
    yard.wait(600_000)
    assert yard.let_in(times=10) == 6


def test_one_a_minute_is_one_a_minute() -> None:
    yard = Yard(a_minute(1))
    assert yard.let_in(times=3) == 1
    yard.wait(59_999)
    assert yard.let_in() == 0
    yard.wait(1)
    assert yard.let_in(times=3) == 1


Steps = st.lists(st.tuples(st.integers(0, 90_000), st.integers(1, 20)), min_size=1, max_size=12)


@given(most=st.integers(1, 90), steps=Steps)
def test_who_comes_back_when_told_is_let_in_and_a_millisecond_before_is_not(
    most: int, steps: list[tuple[int, int]]
) -> None:
    yard = Yard(a_minute(most))
    for pause_ms, calls in steps:
        yard.wait(pause_ms)
        yard.let_in(times=calls * most // 5 + 1)
        refused = yard.refused()
        if refused is None:
            continue
        assert 0 < refused.retry_after_ms <= 60_000
        yard.wait(refused.retry_after_ms - 1)
        assert yard.refused() is not None
        yard.wait(1)
        assert yard.refused() is None


@given(most=st.integers(1, 50), steps=Steps)
def test_in_any_stretch_of_time_no_more_than_a_minutes_worth_beyond_its_share(
    most: int, steps: list[tuple[int, int]]
) -> None:
    yard, taken = Yard(a_minute(most)), []
    for pause_ms, calls in steps:
        yard.wait(pause_ms)
        taken += [round(yard.now * 1000)] * yard.let_in(times=calls)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            assert (last - first + 1) <= most + most * (taken[last] - taken[first]) / 60_000 + 1e-6


@given(most=st.integers(1, 50), steps=Steps)
def test_nobody_is_refused_who_stays_below(most: int, steps: list[tuple[int, int]]) -> None:
    """Refused is only who has used a whole minute's worth."""
    yard, level = Yard(a_minute(most)), float(most)
    for pause_ms, calls in steps:
        yard.wait(pause_ms)
        level = min(most, level + most * pause_ms / 60_000)
        taken = yard.let_in(times=calls)
        assert taken >= min(calls, int(level + 1e-6))
        level -= taken


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    yard = Yard(a_minute(2))
    assert yard.let_in(times=3) == 2
    yard.wait(-3_600_000)
    assert yard.let_in() == 0
    yard.wait(3_600_000 + 30_000)
    assert yard.let_in(times=2) == 1


@pytest.mark.parametrize("by_ms", [-3_600_000, -90_000, -1, 3_600_000])
def test_a_ledger_whose_clock_is_set_changes_nothing_for_callers(by_ms: int) -> None:
    yard = Yard(a_minute(2))
    assert yard.let_in(times=3) == 2
    yard.limiter.ahead_ms += by_ms
    assert yard.let_in() == 0
    yard.wait(30_000)
    assert yard.let_in(times=2) == 1
    yard.limiter.hear([])
    yard.wait(180_000)
    assert yard.let_in(times=3) == 2
    yard.wait(180_000)
    yard.limiter.drop_idle()
    assert len(yard.limiter) == 0


def test_a_node_that_stood_still_while_it_asked_keeps_what_it_knew_of_the_ledgers_clock() -> None:
    now = [100.0]

    class StandsStill:
        shared = True

        async def share_usage(self, news: object) -> tuple[float, list[Any]]:
            now[0] += 3600.0
            return 1_000_000.0, []

    limiter = Limiter((), lambda: now[0])
    sharing = UsageSharing(limiter, cast("Store", StandsStill()), Clock(now=lambda: 500.0, monotonic=lambda: now[0]))
    asyncio.run(sharing.once())
    assert limiter.ahead_ms == 400_000


# -- at once ---------------------------------------------------------------------------------------


def test_so_many_run_at_once_and_an_end_counts_once() -> None:
    yard = Yard(Limit("few", at_once=2))
    first, _ = (yard.limiter.admit(ONE, yard.caller()) for _ in range(2))
    refused = yard.refused()
    assert refused is not None
    assert "2 at once" in str(refused.developer_message)
    first.end()
    first.end()
    third = yard.limiter.admit(ONE, yard.caller())
    assert yard.refused() is not None
    third.end()
    assert yard.refused() is None


def test_what_is_taken_back_was_never_used() -> None:
    yard = Yard(a_minute(1, at_once=1))
    for _ in range(5):
        yard.limiter.admit(ONE, yard.caller()).take_back()
    assert yard.let_in(times=2) == 1
    admitted_before_the_turn = Yard(a_minute(1))
    admitted = admitted_before_the_turn.limiter.admit(ONE, admitted_before_the_turn.caller())
    admitted_before_the_turn.wait(61_000)
    assert admitted_before_the_turn.refused() is None
    admitted.take_back()
    (used,) = admitted_before_the_turn.limiter.news()
    assert (used.used, used.before, used.running) == (1, 0, 0)


# -- whose, and of what ----------------------------------------------------------------------------


def test_each_caller_tenant_address_or_tool_has_its_own() -> None:
    def pairs(per: str) -> list[bool]:
        """Whether a second call of somewhat else is let in after the first has used all."""
        others: list[Callable[[Yard], tuple[Tool, Caller]]] = [
            lambda yard: (ONE, yard.caller("b", "1.1.1.1")),
            lambda yard: (ONE, yard.caller("a", "1.1.1.1", tenant="other")),
            lambda yard: (ONE, yard.caller("a", "2.2.2.2")),
            lambda yard: (TWO, yard.caller("a", "1.1.1.1")),
        ]
        seen = []
        for other in others:
            yard = Yard(a_minute(1, per=(per,)))
            assert yard.let_in(ONE, yard.caller("a", "1.1.1.1"))
            seen.append(bool(yard.let_in(*other(yard))))
        return seen

    assert pairs("caller") == [True, True, False, False]
    assert pairs("tenant") == [False, True, False, False]
    assert pairs("address") == [False, False, True, False]
    assert pairs("tool") == [False, False, False, True]


def test_what_is_named_together_counts_together() -> None:
    yard = Yard(a_minute(1, per=("caller", "tool")))
    assert yard.let_in(ONE)
    assert yard.let_in(TWO)
    assert yard.let_in(ONE, yard.caller("b"))
    assert not yard.let_in(ONE)


def test_a_limit_is_about_whom_and_what_it_says() -> None:
    yard = Yard(a_minute(1, who=CallerPattern(key=("ci",)), tools=("#mail",)))
    assert yard.let_in(TWO, yard.caller("x", key="ci"), times=3) == 1
    assert yard.let_in(ONE, yard.caller("x", key="ci"), times=3) == 3
    assert yard.let_in(TWO, yard.caller("x", key="other"), times=3) == 3


def test_every_limit_must_allow_and_a_refusal_uses_up_none() -> None:
    yard = Yard(Limit("all", calls_per_minute=10), Limit("one", tools=("Kit.One",), calls_per_minute=1))
    assert yard.let_in(ONE, times=50) == 1
    assert yard.let_in(TWO, times=50) == 9


def test_a_refusal_names_the_limit_that_takes_longest() -> None:
    yard = Yard(Limit("quick", calls_per_minute=60), Limit("slow", calls_per_minute=1))
    yard.let_in(times=100)
    refused = yard.refused()
    assert refused is not None
    assert (refused.retry_after_ms, refused.developer_message) == (60_000, "slow: 1 calls a minute per caller")
    assert refused.message == "Too many calls; try again in 60 s"


def test_an_address_that_is_not_known_is_not_limited() -> None:
    yard = Yard(a_minute(1, per=("address",)))
    assert yard.let_in(times=5) == 5


def test_an_ipv6_network_is_one_address() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8:0:0:ffff::2") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:10.0.0.1") == network_of("10.0.0.1") == "10.0.0.1"
    assert network_of("not an address: really") == "not an address: really"


# -- memory ----------------------------------------------------------------------------------------


def test_what_decides_nothing_any_more_is_dropped() -> None:
    yard = Yard(a_minute(10, at_once=5))
    for number in range(100):
        yard.let_in(caller=yard.caller(f"{number}"))
    running = yard.limiter.admit(ONE, yard.caller("busy"))
    yard.limiter.drop_idle()
    assert len(yard.limiter) == 101
    yard.wait(180_000)
    yard.limiter.drop_idle()
    assert len(yard.limiter) == 1
    running.end()
    yard.limiter.drop_idle()
    assert len(yard.limiter) == 0


def test_there_are_never_more_counts_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "MOST_METERS", 50)
    yard = Yard(a_minute(2, per=("address",)))
    kept = [yard.limiter.admit(ONE, yard.caller(address=f"9.9.9.{number}")) for number in range(5)]
    for number in range(500):
        yard.let_in(caller=yard.caller(address=f"10.0.{number // 250}.{number % 250}"))
        assert len(yard.limiter) <= 50
    for admitted in kept:
        admitted.end()


# -- nodes -----------------------------------------------------------------------------------------


class Nodes:
    """Two limiters that hear of each other when the test says so."""

    def __init__(self, *limits: Limit) -> None:
        self.a, self.b = Yard(*limits), Yard(*limits)
        self._said: dict[int, dict[bytes, Any]] = {0: {}, 1: {}}

    def wait(self, ms: int) -> None:
        self.a.wait(ms)
        self.b.wait(ms)

    def exchange(self) -> None:
        for number, yard in enumerate((self.a, self.b)):
            self._said[number].update({use.name: use for use in yard.limiter.news()})
        self.a.limiter.hear(self._said[1].values())
        self.b.limiter.hear(self._said[0].values())

    def die(self) -> None:
        """The first one."""
        self._said[0] = {}


def test_what_is_used_at_one_node_is_used_at_the_other() -> None:
    nodes = Nodes(a_minute(10))
    assert nodes.a.let_in(times=10) == 10
    nodes.exchange()
    assert nodes.b.let_in(times=10) == 0
    nodes.exchange()
    nodes.wait(6_000)
    assert nodes.b.let_in(times=10) == 1
    nodes.exchange()
    assert nodes.a.let_in(times=10) == 0


@given(most=st.integers(1, 30), steps=st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 9), st.integers(0, 9))))
def test_together_nodes_are_off_by_at_most_what_came_within_an_exchange(
    most: int, steps: list[tuple[int, int, int]]
) -> None:
    nodes, total, elapsed_ms, largest = Nodes(a_minute(most)), 0, 0, 0
    for pause_ms, at_a, at_b in steps:
        nodes.wait(pause_ms)
        nodes.exchange()
        elapsed_ms += pause_ms
        taken = nodes.a.let_in(times=at_a), nodes.b.let_in(times=at_b)
        total += sum(taken)
        largest = max(largest, min(taken))
    assert total <= most + most * elapsed_ms / 60_000 + 2 * largest + 1e-6


@pytest.mark.parametrize("by_ms", [-3_600_000, 3_600_000])
def test_nodes_still_know_of_each_other_after_their_ledgers_clock_was_set(by_ms: int) -> None:
    nodes = Nodes(a_minute(10))
    nodes.a.let_in(times=5)
    nodes.exchange()
    for yard in (nodes.a, nodes.b):
        yard.limiter.ahead_ms += by_ms
    nodes.wait(60_000)
    nodes.exchange()
    assert nodes.a.let_in(times=10) == 10
    nodes.exchange()
    assert nodes.b.let_in(times=10) == 0
    nodes.wait(60_000)
    nodes.exchange()
    assert nodes.b.let_in(times=10) == 10


def test_a_node_that_comes_later_knows_what_was_used() -> None:
    nodes = Nodes(a_minute(10, at_once=3))
    assert nodes.a.let_in(times=10) == 10
    nodes.exchange()
    late = Yard(a_minute(10, at_once=3))
    late.limiter.hear(nodes._said[0].values())
    assert late.let_in(times=10) == 0


def test_what_runs_at_one_node_counts_at_the_other_until_that_one_is_gone() -> None:
    nodes = Nodes(Limit("few", at_once=2))
    for _ in range(2):
        nodes.a.limiter.admit(ONE, nodes.a.caller())
    nodes.exchange()
    assert nodes.b.let_in() == 0
    nodes.wait(3_600_000)
    nodes.exchange()
    assert nodes.b.let_in() == 0, "they still run"
    nodes.die()
    nodes.exchange()
    assert nodes.b.let_in() == 1


def test_news_that_nobody_heard_are_said_again() -> None:
    yard = Yard(a_minute(5))
    yard.let_in()
    assert len(yard.limiter.news()) == 1
    assert yard.limiter.news() == []
    yard.limiter.say_again()
    assert len(yard.limiter.news()) == 1


# -- patience --------------------------------------------------------------------------------------


def test_who_keeps_being_refused_is_answered_later_and_later() -> None:
    patience = Backoff()
    pauses = [patience.pause_s("a") for _ in range(20)]
    assert pauses[:FREE] == [0.0] * FREE
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_S
    assert patience.pause_s("b") == 0.0


def test_who_waits_as_told_is_never_held_back() -> None:
    patience = Backoff()
    for _ in range(100):
        assert patience.pause_s("a") == 0.0
        patience.let_in("a")


def sent(credential: str) -> dict[bytes, bytes]:
    return {b"authorization": f"Bearer {credential}".encode()}


def guessed(failures: CredentialFailures, address: str, times: int = 3) -> None:
    for number in range(times):
        failures.refuse(address, sent(f"wrong {number}"))
        failures.note(address, sent(f"wrong {number}"))


def test_credentials_cannot_be_guessed_at_full_speed() -> None:
    now = START
    failures = CredentialFailures(3, lambda: now)
    guessed(failures, "1.1.1.1")
    with pytest.raises(LimitReached) as refused:
        failures.refuse("1.1.1.1", sent("right"))
    failures.refuse("2.2.2.2", sent("right"))
    now += refused.value.retry_after_ms / 1000
    failures.refuse("1.1.1.1", sent("right"))


def test_what_was_good_from_an_address_is_still_looked_at_there() -> None:
    failures = CredentialFailures(3, lambda: START)
    assert not failures.is_watchful, "as long as nobody guesses nobody is remembered"
    guessed(failures, "1.1.1.1", times=1)
    assert failures.is_watchful
    failures.let_in("1.1.1.1", sent("right"))
    failures.let_in("2.2.2.2", sent("good elsewhere"))
    guessed(failures, "1.1.1.1", times=2)
    failures.refuse("1.1.1.1", sent("right"))
    for other in ("good elsewhere", "guessed"):
        with pytest.raises(LimitReached):
            failures.refuse("1.1.1.1", sent(other))
    with pytest.raises(LimitReached):
        failures.refuse("1.1.1.1", {})
    failures.note("1.1.1.1", sent("right"))
    with pytest.raises(LimitReached):
        failures.refuse("1.1.1.1", sent("right"))


def test_only_so_many_good_ones_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures_module, "MOST_KNOWN", 2)
    failures = CredentialFailures(3, lambda: START)
    for number in range(3):
        failures.let_in("1.1.1.1", sent(f"right {number}"))
    guessed(failures, "1.1.1.1")
    with pytest.raises(LimitReached):
        failures.refuse("1.1.1.1", sent("right 0"))
    for number in (1, 2):
        failures.refuse("1.1.1.1", sent(f"right {number}"))


def test_what_runs_elsewhere_counts_by_the_minute_and_not_at_once() -> None:
    yard, use = Yard(Limit("all", calls_per_minute=3, at_once=1)), Asset("sessions", "find")
    yard.limiter.admit(ONE, yard.caller())
    first, _ = (yard.limiter.count(use, yard.caller()) for _ in range(2))
    with pytest.raises(LimitReached):
        yard.limiter.count(use, yard.caller())
    first.take_back()
    yard.limiter.count(use, yard.caller())
    named = Yard(Limit("kit", tools=("Kit.*",), calls_per_minute=1))
    for _ in range(5):
        named.limiter.count(use, named.caller())


# -- as they are written ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({}, "limits[1] must have calls_per_minute, at_once or both"),
        ({"at_once": 0}, "limits[1].at_once must be a whole number from 1 to 1000000"),
        ({"at_once": True}, "limits[1].at_once must be a whole number"),
        ({"calls_per_minute": 1.5}, "limits[1].calls_per_minute must be a whole number"),
        (
            {"at_once": 1, "per": "planet"},
            "limits[1].per must be one or some of caller, tenant, address, tool, got 'planet'",
        ),
        ({"at_once": 1, "per": []}, "limits[1].per must be one or some of"),
        ({"at_once": 1, "rate": 1}, "limits[1] has no 'rate'"),
        ({"at_once": 1, "tools": "a b"}, "limits[1].tools: 'a b' is not a pattern"),
        ({"at_once": 1, "who": {"name": "x"}}, "limits[1].who has no 'name'"),
        ({"at_once": 1, "name": ""}, "limits[1].name must be text"),
    ],
)
def test_a_limit_that_cannot_be_is_refused_with_a_sentence(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("[", r"\[").replace("]", r"\]")):
        read_limits([table])


def test_a_limit_is_read() -> None:
    table = {"name": "mail", "who": {"tenant": "acme"}, "tools": ["Mail.*"], "per": ["tenant", "tool"], "at_once": 3}
    assert read_limits([table]) == [
        Limit("mail", ("tenant", "tool"), CallerPattern(tenant=("acme",)), ("Mail.*",), at_once=3),
    ]
    with pytest.raises(ValueError, match="two limits called 'a'"):
        read_limits([{"name": "a", "at_once": 1}] * 2)


def test_the_defaults_let_in_what_they_say() -> None:
    yard = Yard(*DEFAULTS)
    assert yard.let_in(caller=yard.caller("a", "1.1.1.1"), times=2000) == 600
    assert yard.let_in(caller=yard.caller("b", "1.1.1.1"), times=2000) == 600
    assert yard.let_in(caller=yard.caller("c", "1.1.1.1"), times=2000) == 0
    assert yard.let_in(caller=yard.caller("c", "2.2.2.2"), times=2000) == 600
