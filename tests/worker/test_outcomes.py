"""What a caller gets of a call that ran on a worker: the same as of one that ran in the server."""

from collections.abc import Iterator
from typing import Any

import pytest

from toolyard import Client, InvalidInput, MissingRequirements, ToolError

from .processes import Working, Yard, working, yard
from .stage import stage


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with yard(tmp_path_factory.mktemp("outcomes"), {"TOOLYARD_MAX_BODY_BYTES": "20000"}) as made:
        yield made


@pytest.fixture(scope="module")
def worker(server: Yard) -> Iterator[Working]:
    with stage() as nobody, working(server, nobody) as made:
        yield made


@pytest.fixture
def client(server: Yard, worker: Working) -> Iterator[Client]:
    with server.client() as made:
        yield made


def test_a_tool_on_the_loop(client: Client) -> None:
    assert client.call("Stage.Add", {"a": 1, "b": 2}) == 3


def test_typed_arguments_and_results(client: Client) -> None:
    assert client.call("Stage.After", {"day": {"date": "2026-01-30"}, "days": 2}) == {"date": "2026-02-01"}


def test_input_that_breaks_the_schema_does_not_get_to_the_worker(client: Client) -> None:
    with pytest.raises(InvalidInput) as refused:
        client.call("Stage.After", {"day": {"date": "soon"}})
    assert [problem.path for problem in refused.value.problems] == ["day.date"]


def test_input_that_the_authors_validator_refuses(client: Client) -> None:
    with pytest.raises(ToolError, match=r"Some input parameters are invalid: day\.date: Must be a workday"):
        client.call("Stage.After", {"day": {"date": "2026-01-31"}})


def test_a_tool_that_fails_on_purpose_says_everything_it_has_to_say(client: Client) -> None:
    with pytest.raises(ToolError) as failed:
        client.call("Stage.Fail")
    assert failed.value.members() == {
        "message": "It is closed",
        "developer_message": "on Sundays",
        "can_retry": True,
        "retry_after_ms": 7,
        "additional_prompt_content": "try Monday",
    }


def test_what_a_tool_raises_by_mistake_is_in_the_workers_log_alone(client: Client, worker: Working) -> None:
    with pytest.raises(ToolError) as failed:
        client.call("Stage.Crash")
    assert failed.value.members() == {"message": "Stage.Crash failed unexpectedly", "can_retry": False}
    worker.hear("RuntimeError: the password is hunter2")


@pytest.mark.parametrize(
    ("tool", "logged"),
    [("Stage.Lie", "breaks the output schema at the result"), ("Stage.Endless", "the number at all is not finite")],
)
def test_a_result_that_cannot_be_used(client: Client, worker: Working, tool: str, logged: str) -> None:
    with pytest.raises(ToolError, match="failed unexpectedly"):
        client.call(tool)
    worker.hear(logged)


def test_a_result_that_is_too_large_for_the_server(client: Client, worker: Working) -> None:
    assert len(client.call("Stage.LongText", {"size": 10_000})) == 10_000
    with pytest.raises(ToolError, match=r"Stage\.LongText failed unexpectedly"):
        client.call("Stage.LongText", {"size": 30_000})
    worker.hear("was refused")


def test_a_tool_that_takes_longer_than_it_may(client: Client) -> None:
    with pytest.raises(ToolError, match=r"was not done in time|took longer than 0\.05 seconds"):
        client.call("Stage.Slow")


def test_context_resources_and_hooks(client: Client) -> None:
    with pytest.raises(MissingRequirements):
        client.call("Stage.Needs")
    passed: Any = {"secrets": {"KEY": "k"}, "tokens": {"google": "t"}, "user_id": "ada"}
    given = client.call("Stage.Needs", **passed, call_id="c", trace_id="trace")
    assert given[:4] == ["k", "t", "ada", "c"]
    assert given[5:] == ["local", "trace"], "who calls, and in which trace"
    again = client.call("Stage.Needs", **passed)
    assert again[4] == given[4] + 1, "the hook counts in what the lifespan made"


def test_dependencies_are_of_the_workers_own_lifespan(client: Client) -> None:
    first, second = client.call("Stage.Depends"), client.call("Stage.Depends")
    assert second == [first[0] + 1, first[1] + 1], "made anew for each call, and cleaned up after it"
