"""The order of a call's steps: what CONTRIBUTING says is what a real call does, on its way through a real server.

The list is read from the page, so that neither can change without the other. Each step is watched at the part that does
it, whatever calls that part; author's code (a validator, the tool) is watched by being there.
"""

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from toolyard import Toolkit, secret
from toolyard.engine.engine import Engine
from toolyard.runners import attempt
from toolyard.server.app.compose import Yard
from toolyard.server.http.admission import Admission
from toolyard.server.http.shell import Shell
from toolyard.server.intake.witness import Witness
from toolyard.server.oxp import handlers
from toolyard.store.sqlite.store import SqliteStore
from toolyard.store.write_behind import WriteBehind
from toolyard.trust.limits.limits import Limiter
from toolyard.trust.requirements.requirements import RequirementResolver
from toolyard.wires.oxp import oxp

from ..scene import Answer, Scene, settings

PAGE = Path(__file__).parents[3] / "CONTRIBUTING.md"
KEY, FETCHED = "known key? replay or join", "fetched what it needs"
PARTS: list[tuple[str, Any, str]] = [
    ("authentication", Admission, "admit"),
    ("wire decodes", handlers, "decode_call"),
    ("ready", Witness, "refuse_without_room"),
    ("resolve", Engine, "resolve"),
    (KEY, SqliteStore, "find"),
    (FETCHED, RequirementResolver, "fill"),
    ("limits", Limiter, "admit"),
    ("requirements", RequirementResolver, "check"),
    ("record", SqliteStore, "begin"),
    ("check output", attempt, "to_json"),
    ("record", SqliteStore, "finish"),
    ("record", WriteBehind, "add"),
    ("audit entry", Witness, "called"),
    ("wire encodes", type(oxp.FLAT), "encode_outcome"),
]
"""Which part does a step. `ready`, `audit entry` and what is fetched count only where the page names them."""
LIMITS = [{"name": "calls", "per": "caller", "calls_per_minute": 100}]
seen: list[str] = []
kit = Toolkit("Kit", version="1.0.0")


def _checked(number: int) -> int:
    seen.append("check input")
    return number


@kit.tool(requires=secret("PIN"))
async def double(number: Annotated[int, AfterValidator(_checked)]) -> int:
    """Doubles a number."""
    seen.append("run")
    return 2 * number


def documented() -> list[str]:
    """The steps, in the order of the page: `a -> b: c, d -> e` are a, c, d and e."""
    block = re.search(r"A call goes one way:\s+```text\n(.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None, f"{PAGE.name} has no list of steps"
    stages = " ".join(block[1].split()).split(" -> ")
    return [step.strip() for stage in stages for step in stage.rpartition(": ")[2].split(", ")]


def watch(patch: pytest.MonkeyPatch, step: str, part: Any, name: str) -> None:
    real = getattr(part, name)

    @functools.wraps(real)
    def noted(*args: Any, **more: Any) -> Any:
        seen.append(step)
        return real(*args, **more)

    patch.setattr(part, name, noted)


def watch_the_shell(patch: pytest.MonkeyPatch) -> None:
    """It is there before everything else, and after."""
    real = Shell.respond

    async def noted(*args: Any, **more: Any) -> Any:
        seen.append("shell")
        reply = await real(*args, **more)
        seen.append("shell")
        return reply

    patch.setattr(Shell, "respond", noted)


@pytest.fixture(autouse=True)
def _watched(monkeypatch: pytest.MonkeyPatch) -> None:
    for step, part, name in PARTS:
        watch(monkeypatch, step, part, name)
    watch_the_shell(monkeypatch)


async def call(made: Scene, **more: Any) -> list[str]:
    """The steps of one call, one after another."""
    body = {"tool_id": "Kit.Double", "input": {"number": 21}, "context": {"secrets": [{"id": "PIN", "value": "1"}]}}
    seen.clear()
    answer: Answer = await made.send("owner", "POST", "/tools/call", body | more)
    assert answer.json["value"] == 42, answer.body
    return list(seen)


def play(scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def played() -> None:
        yard = Yard([kit], settings(audit="strict", limits=LIMITS, store="sqlite::memory:"))
        async with Scene(yard) as made:
            await scene(made)

    asyncio.run(played())


def named(steps: list[str]) -> list[str]:
    """Those that the page names."""
    return [step for step in steps if step in documented()]


def without(*gone: str) -> list[str]:
    """The page's steps but these: a step that stands there twice is named as often as it is missing."""
    left = documented()
    for step in gone:
        left.remove(step)
    return left


def test_every_step_of_the_page_is_watched() -> None:
    assert set(documented()) <= {step for step, _, _ in PARTS} | {"shell", "check input", "run"}


def test_a_new_key_goes_through_every_step_in_the_order_of_the_page() -> None:
    async def scene(made: Scene) -> None:
        assert named(await call(made, call_id="c")) == documented()

    play(scene)


def test_without_a_key_nothing_is_looked_for_and_the_call_is_recorded_once_it_has_run() -> None:
    async def scene(made: Scene) -> None:
        assert named(await call(made)) == without(KEY, "record")

    play(scene)


def test_a_known_key_is_answered_before_anything_is_checked_fetched_or_run() -> None:
    async def scene(made: Scene) -> None:
        await call(made, call_id="c")
        again = await call(made, call_id="c")
        between = ["limits", "check input", "requirements", "record", "run", "check output", "record"]
        assert named(again) == without(*between)
        assert FETCHED not in again

    play(scene)
