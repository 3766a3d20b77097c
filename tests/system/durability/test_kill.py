"""`kill -9`, and what is left of it: nothing that was acknowledged is lost, nothing is silently run twice."""

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from toolyard import Client, ServerError, ToolError

from .serving import Server, calling


def test_a_call_that_was_lost_ends_as_unknown_and_is_not_run_again(server: Server) -> None:
    with calling(server, "Marks.Once", "c"):
        server.wait_for_marks(1)
        server.kill()
    server.start()
    with Client(server.url) as client:
        for _ in range(2):
            with pytest.raises(ToolError, match="whether it was done is not known") as ended:
                client.call("Marks.Once", {"text": "c"}, call_id="c")
            assert ended.value.can_retry is False
    assert server.call("c")["code"] == "outcome_unknown"
    assert server.marked() == 1


def test_a_lost_call_of_a_harmless_tool_is_run_again_with_its_secrets(server: Server) -> None:
    with calling(server, "Marks.Again", "c", secrets={"KEY": "canary-7f3a"}):
        server.wait_for_marks(1)
        server.kill()
    for file in filter(Path.is_file, server.folder.glob("toolyard.db*")):
        assert b"canary-7f3a" not in file.read_bytes(), "secrets are sealed"
    server.start()
    ended = server.call("c")
    assert (ended["state"], ended["attempt"], ended["value"]) == ("COMPLETE", 2, ["c", "[secret KEY]"])
    assert server.marked() == 2


def test_a_call_that_kills_the_server_is_given_up(server: Server) -> None:
    with calling(server, "Marks.Poison", "c"):
        server.process.wait()
    for _ in range(2):
        with suppress(RuntimeError):
            server.start()
        server.process.wait()
    server.start()
    ended = server.call("c")
    assert (ended["state"], ended["code"], ended["attempt"]) == ("ERROR", "abandoned", 3)
    assert server.marked() == 3


def test_everything_acknowledged_survives_and_nothing_runs_twice(server: Server) -> None:
    """Clients call with keys while the server is killed again and again, and retry until they are told."""
    told: dict[str, Any] = {}
    stop = threading.Event()

    def client(number: int) -> None:
        with Client(server.url, retries=0) as yard:
            for count in range(10_000):
                key = f"{number}-{count}"
                while key not in told and not (stop.is_set() and key not in told):
                    try:
                        told[key] = yard.call("Marks.Quick", {"text": key}, call_id=key)
                    except ToolError as error:
                        told[key] = error.message
                    except ServerError:
                        time.sleep(0.02)
                if stop.is_set():
                    return

    clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for each in clients:
        each.start()
    for _ in range(3):
        before = len(told)
        deadline = time.monotonic() + 30
        while len(told) < before + 50:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        server.kill()
        server.start()
    stop.set()
    for each in clients:
        each.join()
    marks = server.marks.read_text().split()
    assert len(marks) == len(set(marks)), "an effect happened twice"
    with Client(server.url) as yard:
        for key, answer in list(told.items()):
            try:
                now: Any = yard.call("Marks.Quick", {"text": key}, call_id=key)
            except ToolError as error:
                now = error.message
            assert now == answer, "what was acknowledged has changed"
    assert len(told) >= 150
