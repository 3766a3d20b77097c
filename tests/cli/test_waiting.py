"""`toolyard call` that waits for a person while the server is started anew. Time stands in for itself."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from toolyard.cli.support import waiting_for_people
from toolyard.client.transport import NotVerified, Unreachable
from toolyard.model.call import Outcome
from toolyard.model.errors import Busy, Challenge, Missing, MissingRequirements, ToolError

GONE = Unreachable("No answer from http://a; is the server running?")
BUSY = Busy("Starting", retry_after_ms=10)
ASKED = MissingRequirements(
    "Pay waits", Missing((Challenge("1", "http://a/1", "http://a/1/status"),), approval=True), developer_message=""
)
DONE = Outcome("k", 1.0)


class Server:
    """Answers with what it is told to, one after another."""

    def __init__(self, calls: list[Any], statuses: list[Any]) -> None:
        self._calls, self._statuses = iter(calls), iter(statuses)

    def outcome(self, *_: object, **__: object) -> Any:
        return _next(self._calls)

    def challenge_status(self, challenge: Challenge) -> Any:
        return _next(self._statuses)


def _next(answers: Iterator[Any]) -> Any:
    answer = next(answers)
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(pauses))
    return pauses


def wait(server: Any) -> Outcome:
    return waiting_for_people.outcome_of(server, "Pay", {}, {"call_id": "k"})


def test_a_server_that_comes_back_is_asked_again(slept: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    server = Server([ASKED, GONE, BUSY, DONE], ["pending", GONE, GONE, BUSY, "pending", "completed"])
    assert wait(server) is DONE
    assert slept == [1, 1, 2, 4, 1, 1, 0.01], "longer each time, and from the beginning once it was there"
    said = capsys.readouterr().err
    assert said.count("No answer from http://a; trying again") == 2
    assert said.count("waiting for approval: http://a/1") == 1


def test_one_that_stays_away_is_given_up_with_the_id_to_come_back_with(
    slept: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Unreachable):
        wait(Server([ASKED], ["pending", *[GONE] * 1000]))
    assert (
        waiting_for_people.GIVE_UP_S
        < sum(slept)
        < waiting_for_people.GIVE_UP_S + 2 * waiting_for_people.LONGEST_PAUSE_S
    )
    assert max(slept) == waiting_for_people.LONGEST_PAUSE_S
    assert "Not waited for any longer; look for it with: toolyard show k\n" in capsys.readouterr().err


def test_one_that_was_never_there_is_not_waited_for(slept: list[float]) -> None:
    with pytest.raises(Unreachable):
        wait(Server([GONE], []))
    assert slept == []


# --- calls that are made again -------------------------------------------------------------------


def test_whoever_waits_for_a_limit_is_told_for_how_long(slept: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    assert wait(Server([Busy("Too many calls", retry_after_ms=20_000), DONE], [])) is DONE
    assert slept == [20]
    assert capsys.readouterr().err == "Too many calls; trying again in 20 s\n"


def test_a_person_is_waited_for_no_less_than_the_server_says(slept: list[float]) -> None:
    patience = Busy("Starting", retry_after_ms=10_000)
    assert wait(Server([ASKED, DONE], [patience, "completed"])) is DONE
    assert slept == [10]


def test_a_wrong_argument_is_not_sent_again(slept: list[float]) -> None:
    said: dict[str, Any] = {"can_retry": True, "retry_after_ms": 5}
    wrong = Outcome("k", 1.0, error=ToolError("No such door", additional_prompt_content="ids: 42", **said))
    assert wait(Server([wrong], [])) is wrong
    assert slept == []
    later = Outcome("k", 1.0, error=ToolError("Not now", **said))
    assert wait(Server([later, DONE], [])) is DONE
    assert slept == [0.005]


def test_a_certificate_does_not_get_better_by_waiting(slept: list[float]) -> None:
    with pytest.raises(NotVerified):
        wait(Server([ASKED], [NotVerified("The certificate of https://a is not trusted")]))
    assert slept == []
