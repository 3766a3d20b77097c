"""The lifecycle as a whole: anything in any order, on every store."""

import asyncio
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.text.soak import FACTOR

from .ledgers import ManualClock, Opening
from .machine import Machine

EXAMPLES = {"sqlite": 20, "postgres": 6}
SETTINGS = settings(
    stateful_step_count=50,
    deadline=None,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def test_whatever_happens_the_promises_hold(
    kind: str, make_store: Opening, clock: ManualClock, runner: asyncio.Runner
) -> None:
    class Here(Machine):
        def __init__(self) -> None:
            super().__init__(make_store, clock, runner)

    run_state_machine_as_test(Here, settings=settings(SETTINGS, max_examples=EXAMPLES[kind] * FACTOR))


@pytest.mark.parametrize("seed", range(2 * FACTOR))
def test_whatever_happens_for_long_the_promises_hold(
    make_store: Opening, clock: ManualClock, runner: asyncio.Runner, seed: int
) -> None:
    machine, random = Machine(make_store, clock, runner), Random(seed)
    for _ in range(150):
        machine.anything(random)
    machine.teardown()
