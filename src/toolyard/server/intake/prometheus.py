"""The counters in Prometheus' text format. Loaded when `/metrics` is first asked for.

Of several processes that serve together, calls are added up. What is about a process itself, its memory and its
garbage, is told of each, with the label `process`: a sum of those would fall whenever one is started again, and
Prometheus takes a counter that falls for one that begins anew.
"""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from .metrics import BUCKETS, Metrics
from .process_counts import ProcessCounts, added_up

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


class ProcessesCollector(Collector):
    """What Prometheus' own collectors tell of this process, told of each process of a group."""

    def __init__(self, processes: Sequence[ProcessCounts]) -> None:
        self._processes = processes

    def collect(self) -> Iterator[Metric]:
        told: dict[str, Metric] = {}
        for process in self._processes:
            for metric in (*_of_system(process), *_of_garbage(process)):
                family = told.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                for sample in metric.samples:
                    labels = {**sample.labels, "process": str(process.number)}
                    family.add_sample(sample.name, labels, sample.value)
        yield from told.values()


def _of_system(process: ProcessCounts) -> Iterable[Metric]:
    """Nothing for a process that has just died."""
    return ProcessCollector(pid=lambda: process.pid, registry=None).collect()


def _of_garbage(process: ProcessCounts) -> Iterator[Metric]:
    """By the names that `GCCollector` has for them."""
    names = {
        "python_gc_objects_collected": "Objects collected during gc",
        "python_gc_objects_uncollectable": "Uncollectable objects found during GC",
        "python_gc_collections": "Number of times this generation was collected",
    }
    for place, (name, meaning) in enumerate(names.items()):
        family = CounterMetricFamily(name, meaning, labels=["generation"])
        for generation, counts in enumerate(process.collected):
            family.add_metric([str(generation)], counts[place])
        yield family


def render(metrics: Metrics, tools: int, processes: Sequence[ProcessCounts] = ()) -> bytes:
    """Everything, as text. `processes` are all of a group, with this one; none for a process that serves alone."""
    registry = CollectorRegistry()
    if not processes:
        registry.register(CallCollector(metrics, tools))
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        return generate_latest(registry)
    total = added_up(each.calls for each in processes)
    total.running = sum(each.running for each in processes)
    registry.register(CallCollector(total, tools))
    registry.register(ProcessesCollector(processes))
    return generate_latest(registry)
