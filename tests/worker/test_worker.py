"""Real workers and a real server: who runs what, what is lost, and what is not."""

import signal
from pathlib import Path

import pytest

from toolyard import ToolError, ToolyardError

from ..cli.processes import DEADLINE_S, READY
from .conftest import Calling
from .processes import Yard, employing, until, working, yard
from .stage import Stage


def test_a_call_over_oxp_runs_on_the_worker(server: Yard, stage: Stage, calling: Calling) -> None:
    with working(server, stage, "--name", "w") as worker:
        assert f"worker w offers {len(server.listed()) - 1} tools to {server.url}" in worker.said[0]
        called = calling("Stage.Once", "a")
        visit = stage.visit()
        assert visit.pid == worker.process.pid
        visit.go_on("hello")
        assert called.result(DEADLINE_S) == "hello"


def test_the_servers_own_tools_stay_its_own(server: Yard, stage: Stage) -> None:
    with working(server, stage), server.client() as client:
        assert client.call("Own.Here") == "here"


def test_two_workers_serve_one_tool(server: Yard, stage: Stage, calling: Calling) -> None:
    with working(server, stage, "--concurrency", "1"), working(server, stage, "--concurrency", "1"):
        called = [calling("Stage.Once", "a"), calling("Stage.Once", "b")]
        visits = [stage.visit(), stage.visit()]
        assert len({visit.pid for visit in visits}) == 2
        for visit in visits:
            visit.go_on(visit.name)
        assert [call.result(DEADLINE_S) for call in called] == ["a", "b"]


def test_a_worker_takes_no_more_than_it_has_room_for(server: Yard, stage: Stage, calling: Calling) -> None:
    with working(server, stage, "--concurrency", "2"):
        called = [calling("Stage.Once", "a"), calling("Stage.Again", "b"), calling("Stage.Far", "c")]
        first, second = stage.visit(), stage.visit()
        until(lambda: server.states() == ["PENDING", "PROCESSING", "PROCESSING"])
        first.go_on()
        third = stage.visit()
        assert {first.name, second.name, third.name} == set("abc")
        for visit in (second, third):
            visit.go_on()
        assert [call.result(DEADLINE_S) for call in called] == ["done"] * 3


def test_a_tool_with_a_limit_of_its_own_does_not_hold_up_the_others(
    server: Yard, stage: Stage, calling: Calling
) -> None:
    with working(server, stage):
        waiting = [calling("Stage.Alone", "a"), calling("Stage.Alone", "b")]
        alone = stage.visit()
        called = calling("Stage.Once", "c")
        other = stage.visit()
        assert other.name == "c", "the second one of the limited tool has to wait"
        other.go_on()
        assert called.result(DEADLINE_S) == "done"
        alone.go_on()
        stage.visit().go_on()
        assert [call.result(DEADLINE_S) for call in waiting] == ["done"] * 2


# --- what is lost ---------------------------------------------------------------------------------


def test_what_a_killed_worker_left_another_finishes(server: Yard, stage: Stage, calling: Calling) -> None:
    with working(server, stage) as first:
        called = calling("Stage.Again", "a")
        assert stage.visit().pid == first.process.pid
        with working(server, stage) as second:
            first.kill()
            visit = stage.visit()
            assert visit.pid == second.process.pid
            visit.go_on("by the second")
            assert called.result(DEADLINE_S) == "by the second"
    assert server.get("/v1/calls/a")["attempt"] == 2


def test_what_must_not_run_twice_ends_as_unknown(server: Yard, stage: Stage, calling: Calling) -> None:
    with working(server, stage) as first:
        called = calling("Stage.Once", "a")
        stage.visit()
        with working(server, stage):
            first.kill()
            with pytest.raises(ToolError, match="whether it was done is not known"):
                called.result(DEADLINE_S)
    assert server.get("/v1/calls/a")["attempt"] == 1
    assert stage.is_empty()


@pytest.mark.parametrize("tool", ["Stage.Again", "Stage.Block"])
def test_work_that_takes_longer_than_the_lease_keeps_it(
    server: Yard, stage: Stage, calling: Calling, tool: str
) -> None:
    """In a thread, and where it keeps the event loop to itself."""
    with working(server, stage):
        called = calling(tool, "a")
        visit = stage.visit()
        began = server.last_seen()
        until(lambda: server.last_seen() > began + 1.5 * server.lease_s)
        visit.go_on()
        assert called.result(DEADLINE_S) == "done"
    assert server.get("/v1/calls/a")["attempt"] == 1


@pytest.mark.parametrize(
    ("tool", "says"),
    [("Stage.Look", "saw it"), ("Stage.Stare", "saw it"), ("Stage.Feel", "felt it"), ("Stage.Die", "")],
)
def test_a_cancel_reaches_the_tool(server: Yard, stage: Stage, calling: Calling, tool: str, says: str) -> None:
    """One that looks, one that looks and keeps the event loop to itself, one that is stopped where it waits, and one
    that is killed with its process."""
    with working(server, stage) as worker:
        called = calling(tool, "a")
        visit = stage.visit()
        server.post("/v1/calls/a/cancel")
        assert visit.says() == says
        worker.hear("(call a) was given up: cancelled")
        with pytest.raises(ToolError, match="cancelled"):
            called.result(DEADLINE_S)


def test_progress_goes_along(server: Yard, stage: Stage, calling: Calling) -> None:
    with working(server, stage):
        called = calling("Stage.Far", "a")
        visit = stage.visit()
        told = until(lambda: server.get("/v1/calls/a").get("progress"))
        assert told == {"done": 2, "total": 3, "message": "soon"}
        visit.go_on()
        assert called.result(DEADLINE_S) == "done"


# --- the server goes away -------------------------------------------------------------------------


def test_a_result_outlives_the_server(tmp_path: Path, stage: Stage) -> None:
    """The server dies while the tool runs, the tool ends while there is no server, and the next one gets the result."""
    with yard(tmp_path) as server, working(server, stage) as worker:
        with server.calling("Stage.Once", "a") as called:
            visit = stage.visit()
            server.kill()
            assert isinstance(called.exception(DEADLINE_S), ToolyardError)
        visit.go_on("late, but there")
        worker.hear("trying again until it answers")
        server.start()
        worker.hear("answers again")
        ended = server.get("/v1/calls/a?wait=30")
        assert (ended["state"], ended["value"], ended["attempt"]) == ("COMPLETE", "late, but there", 1)


def test_a_server_that_forgot_the_worker_is_told_again(server: Yard, stage: Stage, calling: Calling) -> None:
    with working(server, stage, "--name", "w") as worker:
        server.kill()
        server.forget()
        server.start()
        worker.hear("w is registered again")
        called = calling("Stage.Once", "a")
        stage.visit().go_on()
        assert called.result(DEADLINE_S) == "done"


def test_a_worker_waits_for_its_server(tmp_path: Path, stage: Stage) -> None:
    server = Yard(tmp_path, {})
    with employing(server, stage) as worker:
        heard = worker.hear("trying again until it answers")
        assert f"No answer from {server.url}" in heard[-1]
        server.start()
        try:
            said = worker.hear(READY)
            assert not any("trying again" in line for line in said), "it says so once"
        finally:
            server.kill()


# --- leaving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop_ends_what_it_has_begun(
    server: Yard, stage: Stage, calling: Calling, number: signal.Signals
) -> None:
    with working(server, stage, "--name", "w") as worker:
        called = calling("Stage.Once", "a")
        visit = stage.visit()
        worker.tell(number)
        worker.hear("takes no more")
        calling("Stage.Once", "b")
        until(lambda: server.states() == ["PENDING", "PROCESSING"])
        visit.go_on()
        assert called.result(DEADLINE_S) == "done"
        worker.hear("w leaves: 1 call done")
        assert worker.process.wait(DEADLINE_S) == 0
    assert stage.is_empty()


def test_what_does_not_end_in_time_is_handed_back(tmp_path: Path, stage: Stage) -> None:
    """At once: these leases do not run out while anybody waits."""
    with (
        yard(tmp_path, {"TOOLYARD_LEASE_S": "3600"}) as server,
        working(server, stage, "--grace", "0") as first,
        server.calling("Stage.Again", "a") as called,
    ):
        stage.visit()
        with working(server, stage):
            assert first.end() == 0
            stage.visit().go_on("by the second")
            assert called.result(DEADLINE_S) == "by the second"


def test_a_second_signal_ends_it_at_once(server: Yard, stage: Stage, calling: Calling) -> None:
    with working(server, stage) as worker:
        calling("Stage.Once", "a")
        stage.visit()
        worker.tell(signal.SIGTERM)
        worker.hear("takes no more")
        assert worker.end(signal.SIGTERM) == -signal.SIGTERM


def test_the_tools_are_gone_with_the_worker(tmp_path: Path, stage: Stage) -> None:
    with yard(tmp_path, {"TOOLYARD_LEASE_S": "3600"}) as server, working(server, stage) as worker:
        assert "Stage.Add" in server.listed()
        worker.end()
        assert server.listed() == {"Own.Here"}


def test_the_tools_are_gone_some_time_after_a_worker_was_killed(server: Yard, stage: Stage) -> None:
    with working(server, stage) as worker:
        assert "Stage.Add" in server.listed()
        worker.kill()
        until(lambda: server.listed() == {"Own.Here"})


def test_a_worker_that_leaves_takes_no_call_with_it(tmp_path: Path, stage: Stage) -> None:
    """Nothing is given to a claim whose worker has gone."""
    with yard(tmp_path, {"TOOLYARD_LEASE_S": "3600"}) as server, working(server, stage) as first:
        assert first.end() == 0
        with working(server, stage), server.calling("Stage.Once", "a") as called:
            stage.visit().go_on()
            assert called.result(DEADLINE_S) == "done"
