"""A short flood, without a look at the clock: whoever behaves is served, whatever others do."""

from pathlib import Path

from .flood import Plan, run


def test_a_caller_that_behaves_is_served_beside_those_that_do_not(tmp_path: Path) -> None:
    plan = Plan(seconds=1.0, flooding=16, idle=300, slow=30)
    report = run(tmp_path, plan)
    assert min(len(times.took) for times in (report.alone, report.flooded, report.idle, report.slow)) > 10
    assert report.answered["200"] < 700, "a minute's worth, and what came back of it"
    assert report.answered["400"] > 0
    assert report.answered["400"] < 16 * 20, "who is refused all the time is answered late"
    assert (report.idle_connections, report.slow_connections) == (300, 30)
