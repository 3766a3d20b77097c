"""Whatever happens in whatever order, all the promises hold: the machine, as long as a run of all tests may take.

`make soak` runs it for longer, with other seeds. A failure prints how to make it happen again.
"""

from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.stateful import run_state_machine_as_test

from .conftest import NewLedger
from .machine import Machine

EXAMPLES = {"sqlite": 20, "postgres": 8}
SETTINGS = settings(
    stateful_step_count=25,
    deadline=None,
    database=None,
    print_blob=True,
    derandomize=True,
    phases={Phase.generate, Phase.shrink},
    verbosity=Verbosity.normal,
    suppress_health_check=list(HealthCheck),
)


def test_whatever_happens_the_promises_hold(kind: str, new_ledger: NewLedger) -> None:
    class Here(Machine):
        def new_ledger(self) -> Any:
            return new_ledger()

    run_state_machine_as_test(Here, settings=settings(SETTINGS, max_examples=EXAMPLES[kind]))
