"""The table, for the terminal and for `results.md`, and what it was measured on."""

import operator
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from bench.contenders import MCP_PEERS, PEERS, QUEUES, SERVER, VENVS, versions
from bench.measure import Effort, Sample, ratios

COLUMNS = ("work", "contender", "cpu us", "min", "x floor", "figure", "ratio", "p50 / p99 ms", "bar", "stretch")
OWN_PACKAGES = ("toolyard", *SERVER, "msgspec", "jsonschema-rs", "pydantic", "apsw", "asyncpg")
BUSY_LIMIT = 0.95
SENSES: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge, ">": operator.gt}


class Of(Enum):
    """What a goal is about: a column of the table."""

    CPU = "cpu "
    """CPU time a call, against the first contender's."""
    RATIO = "ratio "
    """The figure, against the first contender's."""
    FIGURE = ""


@dataclass(frozen=True)
class Goal:
    """What is to be reached: a number on that side of the limit."""

    of: Of
    sense: str
    limit: float
    unit: str = ""

    def is_reached(self, seen: Mapping[Of, float]) -> bool:
        return SENSES[self.sense](seen[self.of], self.limit)

    def __str__(self) -> str:
        return f"{self.of.value}{self.sense} {self.limit:,g}{self.unit}"


@dataclass(frozen=True)
class Bar:
    """What has to be reached, one of the goals being enough, and what one would like to reach."""

    goals: tuple[Goal, ...]
    stretch: Goal | None = None

    def is_met(self, seen: Mapping[Of, float]) -> bool:
        return any(goal.is_reached(seen) for goal in self.goals)

    def texts(self, seen: Mapping[Of, float] | None) -> tuple[str, str]:
        """The two cells; without figures nothing is reached."""
        bar = " or ".join(map(str, self.goals)) + (": met" if seen and self.is_met(seen) else ": MISSED")
        if self.stretch is None:
            return bar, ""
        return bar, f"{self.stretch}" + (": met" if seen and self.stretch.is_reached(seen) else ": missed")


def bar(of: Of, sense: str, limit: float, *, stretch: float | None = None, unit: str = "") -> Bar:
    """With one goal, and perhaps a stretch of the same kind."""
    further = None if stretch is None else Goal(of, sense, stretch, unit)
    return Bar((Goal(of, sense, limit, unit),), further)


@dataclass(frozen=True)
class Row:
    work: str
    contender: str
    figure: str
    cpu: str = ""
    least: str = ""
    times: str = ""
    ratio: str = ""
    latency: str = ""
    bar: Bar | None = None
    seen: Mapping[Of, float] | None = None
    """What the bar is judged by. None: there is no figure, and a bar is missed."""

    is_broken: bool = False
    """A scenario that ended before its time."""

    @property
    def is_miss(self) -> bool:
        if self.is_broken:
            return True
        return self.bar is not None and (self.seen is None or not self.bar.is_met(self.seen))

    def cells(self) -> tuple[str, ...]:
        judged = self.bar.texts(self.seen) if self.bar else ("", "")
        columns = self.cpu, self.least, self.times, self.figure, self.ratio, self.latency
        return (self.work, self.contender, *columns, *judged)


def load_row(work: str, name: str, samples: list[Sample], base: list[Sample] | None, bar: Bar | None) -> Row:
    """A server under load, and how it compares to another in the same rounds."""
    cpus = [sample.cpu_us for sample in samples]
    cpu, rate = statistics.median(cpus), statistics.median(sample.rps for sample in samples)
    limited = statistics.median(sample.busy for sample in samples) > BUSY_LIMIT
    p50 = statistics.median(sample.p50_ms for sample in samples)
    p99 = statistics.median(sample.p99_ms for sample in samples)
    plain = Row(
        work, name, f"{rate:,.0f}/s" + (" *" if limited else ""), f"{cpu:.1f}", f"{min(cpus):.1f}",
        latency=f"{p50:.2f} / {p99:.2f}", bar=bar, seen={Of.FIGURE: rate},
    )  # fmt: skip
    if base is None:
        return plain
    base_cpu = statistics.median(sample.cpu_us for sample in base)
    rates = ratios(samples, base)
    ratio = statistics.median(rates)
    times = [one / base_cpu for one in cpus]
    seen = {Of.CPU: cpu / base_cpu, Of.RATIO: ratio, Of.FIGURE: rate}
    return replace(
        plain, times=spread(cpu / base_cpu, times, "{:.2f}"), ratio=spread(ratio, rates, "{:.2f}"), seen=seen
    )


def figure_row(
    work: str,
    name: str,
    values: list[float],
    pattern: str,
    bar: Bar | None = None,
    base: list[float] | None = None,
) -> Row:
    """A plain quantity, such as seconds, megabytes or jobs a second, one a round; and against another's in the same
    rounds."""
    median = statistics.median(values)
    number, unit = pattern.split("}")
    figure = spread(median, values, number + "}", unit)
    if base is None:
        return Row(work, name, figure, bar=bar, seen={Of.FIGURE: median})
    each = [ours / theirs for ours, theirs in zip(values, base, strict=True)]
    ratio = statistics.median(each)
    seen = {Of.FIGURE: median, Of.RATIO: ratio}
    return Row(work, name, figure, ratio=spread(ratio, each, "{:.2f}"), bar=bar, seen=seen)


def spread(median: float, values: list[float], pattern: str, unit: str = "") -> str:
    """With the quartiles: between them lies half of what was seen."""
    if len(values) < 3:
        return pattern.format(median) + unit
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{pattern.format(median)}{unit} ({pattern.format(low)}-{pattern.format(high)})"


def table(rows: Sequence[Row]) -> str:
    """Markdown that is also straight to look at in a terminal."""
    cells = [COLUMNS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    if any(row.figure.endswith("*") for row in rows):
        lines.append("\n\\* the load generator was the limit; the server may be faster")
    return "\n".join(lines)


def cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")


def stolen() -> tuple[int, int]:
    """CPU time so far, and how much of it a hypervisor gave to somebody else: the noise one cannot see."""
    fields = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields), fields[7]


def noise(before: tuple[int, int]) -> str:
    total, steal = (now - then for now, then in zip(stolen(), before, strict=True))
    return f"a hypervisor took {100 * steal / max(total, 1):.1f}% of the CPU time meanwhile"


def environment() -> Iterable[str]:
    yield f"- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {cpu_model()}, Linux {platform.release().split('-')[0]}"
    own = versions(sys.executable, OWN_PACKAGES)
    yield f"- Python {platform.python_version()}; " + listed(own)
    for peer in (*PEERS, *MCP_PEERS, *QUEUES):
        if (VENVS / peer.name / "installed.txt").exists():
            yield f"- {peer.name}: " + listed(versions(peer.python, peer.packages))


def listed(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())


def document(rows: Sequence[Row], effort: Effort, noise: str) -> str:
    lines = [
        "# Results",
        "",
        "Written by `make bench`; README.md says how to read it.",
        "",
        *environment(),
        f"- {effort.rounds} interleaved rounds ({effort.loose_rounds} where a bar is loose, {effort.peer_rounds} among"
        f" peers) of {effort.seconds:g} s, {effort.connections} connections, server on one core, load on another;"
        f" {effort.starts} cold starts ({effort.peer_starts} of each peer); {noise}",
        "",
        table(rows),
        "",
    ]
    return "\n".join(lines)
