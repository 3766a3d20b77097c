"""Whatever happens in whatever order, all the promises hold: the machine, for as long as a run of all tests may take.

`make soak` runs it for longer, with other seeds. A failure prints how to make it happen again.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from .conftest import NewLedger
from .machine import Machine
from .wandering import wander

EXAMPLES = {"sqlite": 8, "postgres": 3}
STEPS = {"sqlite": 80, "postgres": 50}
SETTINGS = settings(
    stateful_step_count=20,
    deadline=None,
    database=None,
    print_blob=True,
    derandomize=True,
    phases={Phase.generate, Phase.shrink},
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def machine(new_ledger: NewLedger) -> type[Machine]:
    class Here(Machine):
        def new_ledger(self) -> Any:
            return new_ledger()

    return Here


def test_whatever_happens_the_promises_hold(kind: str, machine: type[Machine]) -> None:
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=EXAMPLES[kind]))


@pytest.mark.parametrize("number", [1, 2])
def test_whatever_happens_for_long_the_promises_hold(kind: str, machine: type[Machine], number: int) -> None:
    wander(machine, number, STEPS[kind])
