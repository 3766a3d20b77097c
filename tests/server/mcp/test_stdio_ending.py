"""How `toolyard stdio` ends: what runs may end within `grace_s`, and then the process ends, always."""

import os
import select
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from .piped import DEADLINE_S, Piped, piping
from .schemas import MODERN
from .stage import Stage
from .talking import text_of

End = Callable[[Piped], None]


def close_input(piped: Piped) -> None:
    assert piped.process.stdin is not None
    piped.process.stdin.close()


def terminate(piped: Piped) -> None:
    piped.process.send_signal(signal.SIGTERM)


def interrupt(piped: Piped) -> None:
    piped.process.send_signal(signal.SIGINT)


WAYS = [close_input, terminate, interrupt]


@pytest.mark.parametrize("end", WAYS)
def test_what_runs_may_end_and_is_answered(tmp_path: Path, stage: Stage, name: str, end: End) -> None:
    with piping(tmp_path, stage) as piped:
        piped.initialize("2025-11-25")
        id = piped.call("Play_Act", {"name": name}, meta={"progressToken": "t"})
        visit = stage.visit(name)
        end(piped)
        visit.tell("progress", 1)
        assert piped.hear()["params"]["progress"] == 1
        visit.hear()
        visit.ends()
        assert text_of(piped.result_of(id)) == "done"
        assert piped.hear() is None
        assert piped.process.wait(DEADLINE_S) == 0
        assert "Traceback" not in piped.errors()


@pytest.mark.parametrize("end", [close_input, terminate])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Kit_HoldsOn", {"how": "waits"}),
        ("Kit_HoldsOn", {"how": "deaf"}),
        ("Kit_HoldsOn", {"how": "loop"}),
        ("Kit_HoldsOn", {"how": "executor"}),
        ("Kit_HoldsAThread", {}),
    ],
)
def test_what_takes_longer_is_left_behind(
    tmp_path: Path, stage: Stage, end: End, tool: str, arguments: dict[str, str]
) -> None:
    with piping(tmp_path, stage, grace_s="0.5") as piped:
        piped.initialize("2025-11-25")
        piped.call(tool, arguments, meta={"progressToken": "t"})
        assert piped.hear()["method"] == "notifications/progress"
        end(piped)
        assert piped.process.wait(DEADLINE_S) in (0, 1)


def test_who_is_stopped_is_told_and_so_is_the_client(tmp_path: Path, stage: Stage, name: str) -> None:
    with piping(tmp_path, stage, grace_s="0.5") as piped:
        piped.initialize("2025-11-25")
        id = piped.call("Play_Act", {"name": name})
        visit = stage.visit(name)
        terminate(piped)
        assert visit.hear() == "stopped"
        said = piped.hear()
        assert (said["id"], said["error"]["code"]) == (id, -32603)
        assert piped.process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("first", WAYS)
def test_a_second_wish_is_not_made_to_wait(tmp_path: Path, stage: Stage, name: str, first: End) -> None:
    with piping(tmp_path, stage, grace_s="60") as piped:
        listening = piped.send("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert piped.hear()["method"] == "notifications/subscriptions/acknowledged"
        piped.call("Play_Act", {"name": name})
        visit = stage.visit(name)
        first(piped)
        piped.result_of(listening)  # which ends when the first is heard
        terminate(piped)
        assert visit.hear() == "stopped"
        assert piped.process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("end", [close_input, terminate])
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_question_that_is_open_is_given_up(tmp_path: Path, stage: Stage, name: str, revision: str, end: End) -> None:
    with piping(tmp_path, stage, grace_s="60") as piped:
        if revision == MODERN:
            piped.capabilities = {"elicitation": {"form": {}}}
        else:
            piped.initialize(revision, elicitation={})
        piped.call("Play_Act", {"name": name})
        visit = stage.visit(name)
        visit.tell("ask", "who")
        assert "who" in str(piped.hear())
        end(piped)
        assert piped.process.wait(DEADLINE_S) == 0
        assert visit.hear() == "stopped"


@pytest.mark.parametrize("end", [close_input, terminate])
def test_a_client_that_does_not_read_does_not_hold_it(tmp_path: Path, stage: Stage, name: str, end: End) -> None:
    with piping(tmp_path, stage, grace_s="0.5", is_reading=False) as piped:
        piped.call("Kit_Large", {"size": 2_000_000})
        piped.call("Play_Act", {"name": name})
        stage.visit(name).ends()
        end(piped)
        assert piped.process.wait(DEADLINE_S) in (0, 1)


def test_a_client_that_reads_late_gets_everything_in_order(tmp_path: Path, stage: Stage) -> None:
    with piping(tmp_path, stage, is_reading=False, max_output_bytes="4000000") as piped:
        large = piped.call("Kit_Large", {"size": 2_000_000})
        small = [piped.call("Kit_Add", {"a": each}) for each in range(200)]
        close_input(piped)
        piped.read()
        assert len(text_of(piped.result_of(large))) == 2_000_000
        assert [text_of(piped.result_of(id)) for id in small] == [str(each + 1) for each in range(200)]
        assert piped.process.wait(DEADLINE_S) == 0


ENOUGH = 600


def fill(piped: Piped) -> tuple[list[str], bytes]:
    """Has a large result made that nobody reads, and, once it is, sends requests until no more are read: their ids, and
    what is still to be sent of the last one."""
    piped.call("Kit_Large", {"size": 10_000_000})
    assert piped.process.stdin is not None
    assert piped.process.stdout is not None
    comes = select.poll()
    comes.register(piped.process.stdout.fileno(), select.POLLIN)
    assert comes.poll(DEADLINE_S * 1000)
    input = piped.process.stdin.fileno()
    os.set_blocking(input, False)
    has_room, ids, rest = select.poll(), list[str](), b""
    has_room.register(input, select.POLLOUT)
    while len(ids) < ENOUGH and has_room.poll(2000):  # a machine that is slower than that fails nothing
        if not rest:
            ids.append(f"ping {len(ids)}")
            rest = b'{"jsonrpc":"2.0","id":"%b","method":"ping"%b}\n' % (ids[-1].encode(), b" " * 60_000)
        rest = rest[os.write(input, rest) :]
    os.set_blocking(input, True)
    return ids, rest


def test_no_more_is_read_than_there_is_room_for_and_nothing_is_lost(tmp_path: Path, stage: Stage) -> None:
    with piping(tmp_path, stage, is_reading=False, max_output_bytes="20000000") as piped:
        ids, rest = fill(piped)
        assert len(ids) < ENOUGH
        piped.read()
        piped.write(rest)
        close_input(piped)
        heard = [message["id"] for message in iter(piped.hear, None)]
        assert [id for id in heard if id in ids] == ids


def test_the_end_of_input_is_seen_also_where_no_more_is_read(tmp_path: Path, stage: Stage) -> None:
    with piping(tmp_path, stage, grace_s="0.5", is_reading=False, max_output_bytes="20000000") as piped:
        ids, _ = fill(piped)
        assert len(ids) < ENOUGH
        close_input(piped)
        assert piped.process.wait(DEADLINE_S) in (0, 1)


def test_a_call_is_cancelled_among_many_that_run(tmp_path: Path, stage: Stage, name: str) -> None:
    with piping(tmp_path, stage) as piped:
        ids = [piped.call("Play_Act", {"name": f"{name}-{number}"}) for number in range(40)]
        visits = [stage.visit(f"{name}-{number}") for number in range(40)]
        piped.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ids[20]}})
        assert visits[20].hear() == "stopped"


def test_a_client_that_is_gone_takes_its_calls_with_it(tmp_path: Path, stage: Stage, name: str) -> None:
    with piping(tmp_path, stage, grace_s="60", is_reading=False) as piped:
        piped.call("Play_Act", {"name": name})
        visit = stage.visit(name)
        assert piped.process.stdout is not None
        piped.process.stdout.close()
        close_input(piped)
        assert visit.hear() == "stopped"
        assert piped.process.wait(DEADLINE_S) == 0
