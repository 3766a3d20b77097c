"""The official MCP conformance suite: each revision is run once, each scenario is a test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from .mcp_suite import CHECKS, Verdict, guarded, is_installed, run_revision, scenarios, serving

SCENARIOS = [(revision, scenario) for revision in CHECKS if is_installed() for scenario in scenarios(revision)]
Verdicts = Callable[[str], dict[str, Verdict]]


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verdicts]:
    """Of a revision, by scenario. The server is started, and a revision is run, when the first test needs it."""
    known: dict[str, dict[str, Verdict]] = {}
    with ExitStack() as servers:
        urls: list[str] = []

        def verdicts_of(revision: str) -> dict[str, Verdict]:
            if not urls:
                urls.append(servers.enter_context(serving(tmp_path_factory.mktemp("mcp-fixture"))))
            if revision not in known:
                found = run_revision(urls[0], revision, tmp_path_factory.mktemp(f"mcp-{revision}"))
                known[revision] = {verdict.scenario: verdict for verdict in found}
            return known[revision]

        yield verdicts_of


def test_the_suite_is_installed() -> None:
    assert is_installed(), "'make .venv/npm.ok' installs it"


@pytest.mark.parametrize(("revision", "scenario"), SCENARIOS)
def test_the_server_passes_the_scenario(revision: str, scenario: str, verdicts: Verdicts) -> None:
    verdict = verdicts(revision)[scenario]
    assert not verdict.failures, "\n".join([str(verdict), *verdict.failures])


@pytest.mark.parametrize("revision", CHECKS)
def test_no_scenario_of_a_revision_gives_up_half_way(revision: str, verdicts: Verdicts) -> None:
    passed = {scenario: verdict.passed for scenario, verdict in verdicts(revision).items()}
    assert sum(passed.values()) == CHECKS[revision], passed


@pytest.mark.parametrize("revision", CHECKS)
def test_nothing_is_lost_with_authentication_on(revision: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The key is added on the way: the suite has none to give."""
    folder = tmp_path_factory.mktemp(f"mcp-guarded-{revision}")
    with guarded(folder) as url:
        verdicts = run_revision(url, revision, folder)
    assert not [failure for verdict in verdicts for failure in verdict.failures]
    assert sum(verdict.passed for verdict in verdicts) == CHECKS[revision]
