"""The table, for the terminal and for `results.md`, and what it was measured on."""

import platform
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.contenders import PEERS, QUEUES, SERVER, VENVS, versions
from bench.measure import Effort, Sample, ratios

COLUMNS = ("work", "contender", "figure", "p50 / p99 ms", "ratio", "middle half", "bar", "")
OWN_PACKAGES = ("toolyard", *SERVER, "msgspec", "jsonschema-rs", "pydantic", "apsw", "asyncpg")
BUSY_LIMIT = 0.95


@dataclass(frozen=True)
class Bar:
    """What has to be reached: at least (`>=`) or at most (`<=`)."""

    sense: str
    limit: float
    unit: str = ""

    def met_by(self, value: float) -> bool:
        return value >= self.limit if self.sense == ">=" else value <= self.limit

    def __str__(self) -> str:
        return f"{self.sense} {self.limit:g}{self.unit}"


@dataclass(frozen=True)
class Row:
    work: str
    contender: str
    figure: str
    latency: str = ""
    ratio: str = ""
    spread: str = ""
    bar: str = ""
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        verdict = {True: "met", False: "MISSED", None: ""}[self.met]
        return (
            self.work,
            self.contender,
            self.figure,
            self.latency,
            self.ratio,
            self.spread,
            self.bar,
            verdict,
        )


def missing(work: str, contender: str, why: str, bar: Bar | None = None) -> Row:
    """Somebody who could not be measured; with a bar to reach that is a miss."""
    return Row(work, contender, why, bar=str(bar or ""), met=False if bar else None)


def rate_row(work: str, name: str, samples: list[Sample], base: list[Sample] | None, bar: Bar | None) -> Row:
    median = statistics.median(sample.rps for sample in samples)
    limited = statistics.median(sample.busy for sample in samples) > BUSY_LIMIT
    p50 = statistics.median(sample.p50_ms for sample in samples)
    p99 = statistics.median(sample.p99_ms for sample in samples)
    figure, latency = f"{median:,.0f}/s" + (" *" if limited else ""), f"{p50:.2f} / {p99:.2f}"
    if base is None:
        return Row(work, name, figure, latency)
    pairs = ratios(samples, base)
    ratio = statistics.median(pairs)
    met = bar.met_by(ratio) if bar else None
    return Row(work, name, figure, latency, f"{ratio:.3f}", middle_half(pairs, "{:.3f}"), str(bar or ""), met)


def pairs_row(work: str, name: str, rates: list[float], base: list[float] | None, bar: Bar | None) -> Row:
    """Rates of one run a round, each against the same round's of another."""
    figure = f"{statistics.median(rates):,.0f}/s"
    if base is None:
        return Row(work, name, figure, spread=middle_half(rates, "{:,.0f}"))
    pairs = [ours / theirs for ours, theirs in zip(rates, base, strict=True)]
    ratio = statistics.median(pairs)
    met = bar.met_by(ratio) if bar else None
    return Row(work, name, figure, "", f"{ratio:.3f}", middle_half(pairs, "{:.3f}"), str(bar or ""), met)


def value_row(work: str, name: str, values: list[float], pattern: str, unit: str, bar: Bar | None) -> Row:
    """A plain quantity, such as seconds or megabytes."""
    median = statistics.median(values)
    met = bar.met_by(median) if bar else None
    figure, spread = f"{pattern.format(median)}{unit}", middle_half(values, pattern)
    return Row(work, name, figure, spread=spread, bar=str(bar or ""), met=met)


def middle_half(values: list[float], pattern: str) -> str:
    """The quartiles: between them lies half of what was seen."""
    if len(values) < 3:
        return ""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{pattern.format(low)} - {pattern.format(high)}"


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
    for peer in (*PEERS, *QUEUES):
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
        f"- {effort.rounds} interleaved rounds ({effort.peer_rounds} among peers) of {effort.seconds:g} s,"
        f" 64 connections, server on one core, load on another; {effort.starts} cold starts"
        f" ({effort.peer_starts} of each peer); {noise}",
        "",
        table(rows),
        "",
    ]
    return "\n".join(lines)
