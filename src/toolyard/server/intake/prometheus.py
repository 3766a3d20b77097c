"""The counters in Prometheus' text format. Loaded when `/metrics` is first asked for."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from .metrics import BUCKETS, Metrics

LABELS = ["wire", "tool"]
Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class CallCollector(Collector):
    """Turns the counters into Prometheus' families, as they are at the moment of the request."""

    def __init__(self, metrics: Metrics, tools: int) -> None:
        self._metrics, self._tools = metrics, tools

    def collect(self) -> Iterator[Family]:
        calls = CounterMetricFamily("toolyard_calls", "Calls, by how they ended.", labels=[*LABELS, "outcome"])
        errors = CounterMetricFamily("toolyard_call_errors", "Calls that did not succeed.", labels=[*LABELS, "error"])
        durations = HistogramMetricFamily("toolyard_call_duration_seconds", "How long calls took.", labels=LABELS)
        for (wire, tool, outcome), series in self._metrics.calls.items():
            calls.add_metric([wire, tool, outcome], series.count)
            if outcome != "success":
                errors.add_metric([wire, tool, outcome], series.count)
        for labels, buckets, total in self._durations():
            durations.add_metric(labels, buckets, total)
        yield from (calls, errors, durations)
        yield GaugeMetricFamily("toolyard_calls_running", "Calls running now.", value=self._metrics.running)
        yield GaugeMetricFamily("toolyard_tools", "Tools in the catalogue.", value=self._tools)

    def _durations(self) -> Iterator[tuple[list[str], list[tuple[str, float]], float]]:
        """One histogram for each wire and tool, whatever the outcome."""
        merged: dict[tuple[str, str], tuple[list[int], float]] = {}
        for (wire, tool, _), series in self._metrics.calls.items():
            counts, total = merged.get((wire, tool), ([0] * len(series.buckets), 0.0))
            merged[wire, tool] = (
                [a + b for a, b in zip(counts, series.buckets, strict=True)],
                total + series.total_s,
            )
        bounds = [*map(str, BUCKETS), "+Inf"]
        for labels, (counts, total) in merged.items():
            running, cumulative = 0, []
            for bound, count in zip(bounds, counts, strict=True):
                running += count
                cumulative.append((bound, float(running)))
            yield list(labels), cumulative, total


def render(metrics: Metrics, tools: int) -> bytes:
    """Everything, as text."""
    registry = CollectorRegistry()
    registry.register(CallCollector(metrics, tools))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return generate_latest(registry)
