"""The table of counters has a bound, whatever workers offer."""

from toolyard.server.intake import metrics
from toolyard.server.intake.metrics import Metrics


def test_tools_beyond_a_number_are_counted_without_a_name() -> None:
    counted = Metrics()
    for number in range(metrics.MOST_SERIES + 100):
        counted.record("oxp", f"Far.Tool{number}", "success", 0.1)
    assert len(counted.calls) == metrics.MOST_SERIES + 1
    assert counted.calls["oxp", "", "success"].count == 100
    counted.record("oxp", "Far.Tool1", "success", 0.1)
    assert counted.calls["oxp", "Far.Tool1", "success"].count == 2, "those that have one keep it"
