"""Schemas of strangers: what they may cost, in a real child process."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolyard.model.errors import Busy
from toolyard.runners import sandbox as module
from toolyard.runners.sandbox import KEPT_BYTES, MOST_OF_ONE, Sandbox

ME, YOU = ("acme", "me"), ("acme", "you")
SIMPLE = {"type": "object", "properties": {"a": {"type": "integer"}}}
ANCHORED = {"$ref": "#a", "$defs": {"a": {"$anchor": "a", "type": "integer"}}}
"""What only the child looks at."""
WAYS = {
    "anyOf": [
        {"type": "object", "required": ["b"], "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "required": ["c"], "properties": {"a": {"$ref": "#"}}},
    ]
}
"""Cheap for flat values, and twice as dear with each level."""


def unevaluated(levels: int) -> dict[str, Any]:
    """Each level is evaluated again for the one above it."""
    schema: dict[str, Any] = {"properties": {"z": True}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": {"type": "integer"}}
    return schema


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def run(play: Callable[[Sandbox], Awaitable[None]]) -> None:
    async def scene() -> None:
        made = Sandbox()
        try:
            await play(made)
        finally:
            await made.close()

    asyncio.run(scene())


def sentences(problems: tuple[Any, ...]) -> list[tuple[str, str]]:
    return [(problem.path, problem.sentence) for problem in problems]


def test_what_is_plain_needs_no_child() -> None:
    async def play(made: Sandbox) -> None:
        await made.prove(SIMPLE, ME)
        assert await made.check(SIMPLE, {"a": 1}, ME) == ()
        assert sentences(await made.check(SIMPLE, {"a": "x"}, ME)) == [("a", "Must be a whole number")]
        assert await made.check({"pattern": "^[a-z]+$"}, "abc", ME) == ()
        assert not made._children

    run(play)


def test_the_child_says_the_same_as_the_server_would() -> None:
    async def play(made: Sandbox) -> None:
        await made.prove(ANCHORED, ME)
        assert await made.check(ANCHORED, 1, ME) == ()
        assert sentences(await made.check(ANCHORED, "x", ME)) == [("", "Must be a whole number")]
        assert await made.check(SIMPLE, {"a": 1, "b": list(range(100_000))}, ME) == ()
        assert len(made._children) == 1

    run(play)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (WAYS, nested(60)),
        (unevaluated(45), {"a": 1}),
        ({"items": {"pattern": "(?:a|b)*a(?:a|b){500}c"}}, ["ab" * 500_000 + "é"] * 8),
    ],
    ids=["two ways back", "evaluated again", "a pattern"],
)
def test_a_check_that_takes_too_long_is_ended(schema: dict[str, Any], value: Any) -> None:
    async def play(made: Sandbox) -> None:
        await made.prove(schema, ME)
        ((_, sentence),) = sentences(await made.check(schema, value, ME))
        assert "takes more than a second" in sentence or "Does not fit" in sentence
        assert await made.check(ANCHORED, 1, ME) == ()

    run(play)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{number}": {"pattern": rf"\p{{L}}{{140}}{number}"} for number in range(1000)}},
        {"pattern": r"\w" * 10_000},
        {
            "$ref": "#/$defs/s0",
            "$defs": {
                f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2, "unevaluatedProperties": False}
                for n in range(60)
            }
            | {"s60": {}},
        },
    ],
    ids=["patterns", "a long pattern", "unevaluated"],
)
def test_a_schema_that_takes_too_long_to_compile_is_refused_and_that_is_remembered(schema: dict[str, Any]) -> None:
    async def play(made: Sandbox) -> None:
        with pytest.raises(ValueError, match="takes more than a second"):
            await made.prove(schema, ME)
        with pytest.raises(ValueError, match="takes more than a second"):
            await made.prove(schema, YOU)
        assert not made._children

    run(play)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "nonsense"}, "nonsense"),
        ({"pattern": "^(?=a)"}, "regex"),
        ({"$ref": "https://a.example/schema"}, "a.example"),
        ({"$schema": "https://a.example/meta"}, "not supported"),
        ({"enum": [0] * 60_000}, "parts"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_the_reason(schema: dict[str, Any], reason: str) -> None:
    async def play(made: Sandbox) -> None:
        with pytest.raises(ValueError, match=reason):
            await made.prove(schema, ME)
        ((_, sentence),) = sentences(await made.check(schema, 1, ME))
        assert reason in sentence

    run(play)


def test_a_child_that_others_wore_out_is_replaced() -> None:
    async def play(made: Sandbox) -> None:
        await made.prove(ANCHORED, ME)
        (child,) = made._children
        child._process.kill()
        child._process.wait()
        assert await made.check(ANCHORED, 1, YOU) == ()

    run(play)


def test_who_goes_away_leaves_no_half_answer() -> None:
    async def play(made: Sandbox) -> None:
        asking = asyncio.create_task(made.check(WAYS, nested(60), ME))
        while not made.is_busy:
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        assert await made.check(ANCHORED, 1, ME) == ()

    run(play)


def test_callers_take_turns_and_one_has_no_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOMENT_S", 60)  # at one child

    async def play(made: Sandbox) -> None:
        ended: list[str] = []

        async def ask(whose: tuple[str, str], number: int) -> None:
            await made.check({**ANCHORED, "title": str(number)}, 1, whose)
            ended.append(whose[1])

        mine = [asyncio.create_task(ask(ME, number)) for number in range(MOST_OF_ONE)]
        while sum(made._waiting.values()) < MOST_OF_ONE:
            await asyncio.sleep(0)
        with pytest.raises(Busy):
            await made.check(ANCHORED, 1, ME)
        await asyncio.gather(*mine, ask(YOU, 0))
        assert ended.index("you") <= 2

    run(play)


def test_who_waits_behind_anothers_check_has_a_child_of_its_own() -> None:
    async def play(made: Sandbox) -> None:
        await made.prove(ANCHORED, ME)
        (child,) = made._children
        child._process.send_signal(signal.SIGSTOP)
        costly = asyncio.create_task(made.check(ANCHORED, 1, ME))
        more = asyncio.create_task(made.check(ANCHORED, 2, ME))
        await asyncio.sleep(0)
        async with asyncio.timeout(14):  # less than a check may take
            assert await made.check(ANCHORED, 1, YOU) == ()
            assert await made.check(ANCHORED, 1, YOU) == ()
        assert (costly.done(), more.done(), len(made._children)) == (False, False, 2)
        child._process.send_signal(signal.SIGCONT)
        assert (await costly, len(await more)) == ((), 0)

    run(play)


def test_who_waits_but_a_moment_needs_no_second_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOMENT_S", 60)

    async def play(made: Sandbox) -> None:
        await made.prove(ANCHORED, ME)
        answers = await asyncio.gather(*(made.check(ANCHORED, 1, ("acme", f"{number}")) for number in range(6)))
        assert answers == [()] * 6
        assert len(made._children) == 1

    run(play)


def test_there_are_never_more_than_two_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOMENT_S", 0)

    async def play(made: Sandbox) -> None:
        await made.prove(ANCHORED, ME)
        (child,) = made._children
        child._process.send_signal(signal.SIGSTOP)
        callers = [("acme", f"{number}") for number in range(6)]
        checks = [asyncio.create_task(made.check(ANCHORED, 1, caller)) for caller in callers]
        await asyncio.wait(checks, return_when=asyncio.FIRST_COMPLETED)
        (other,) = made._children - {child}
        other._process.send_signal(signal.SIGSTOP)
        checks += [asyncio.create_task(made.check(ANCHORED, 1, caller)) for caller in callers]
        for _ in range(100):  # many times the moment
            await asyncio.sleep(0)
        assert made._children == {child, other}
        for stopped in (child, other):
            stopped._process.send_signal(signal.SIGCONT)
        assert await asyncio.gather(*checks) == [()] * 12
        assert made._children == {child, other}

    run(play)


def test_what_is_kept_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 10 * module.PATTERN_BYTES)

    async def play(made: Sandbox) -> None:
        for number in range(30):
            await made.prove({"pattern": f"^[a-z]{number}$"}, ME)
        assert made._kept <= 10 * module.PATTERN_BYTES
        assert made._kept == sum(known.size for known in made._known.values())
        assert len(made._known) < 10

    run(play)
    assert KEPT_BYTES <= 64 * 2**20
