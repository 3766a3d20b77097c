"""A ledger goes back to a copy in which calls waited: for a worker, for a yes, in a session. What became of them since
is not known to it, so none of them runs again by itself, and nobody who had one since then is heard."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGTERM
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from ..postgres import Server, do_as_told
from .operated import Yard, until, yard
from .processes import DEADLINE_S, Ended, Served, serving

__all__ = ["yard"]

PAYING = '''
from toolyard import Toolkit

pay = Toolkit("Pay", version="1.0.0")


@pay.tool(approval="always")
def refund(cents: int) -> int:
    """Pays a customer back."""
    with open("marks", "a") as marks:
        marks.write(f"{cents}\\n")
    return cents
'''
OFFER = {"version": "1.0.0", "description": "d", "input_schema": {"type": "object"}, "output_schema": {}}
OFFERS = {"tools": [{"id": "Far.Send", **OFFER}, {"id": "Far.Look", "on_lost": "rerun", **OFFER}]}
HURRIED = {"TOOLYARD_SYNC_WAIT_S": "0.05"}


class Copying(Protocol):
    """A folder whose ledger is copied and brought back. `settings` are the server's."""

    yard: Yard
    settings: dict[str, str]

    def back_up(self) -> None: ...
    def go_back(self) -> Ended: ...


class FileCopying:
    """By toolyard's verbs."""

    def __init__(self, yard: Yard) -> None:
        self.yard, self.settings = yard, HURRIED

    def back_up(self) -> None:
        assert self.yard.toolyard("backup", "copy.db").code == 0

    def go_back(self) -> Ended:
        return self.yard.toolyard("restore", "copy.db")


class DatabaseCopying:
    """By those of PostgreSQL, which toolyard's verbs name."""

    def __init__(self, yard: Yard, url: str) -> None:
        self.yard = yard
        self.settings = HURRIED | {"TOOLYARD_STORE": url, "TOOLYARD_SECRET_KEY": "ab" * 32}

    def back_up(self) -> None:
        assert self._do_as_told("backup") == []

    def go_back(self) -> Ended:
        return self.yard.toolyard(*self._do_as_told("restore"), **self.settings)

    def _do_as_told(self, verb: str) -> list[str]:
        return do_as_told(self.yard.toolyard(verb, "monday.dump", **self.settings).err, self.yard.folder)


@pytest.fixture(params=["sqlite", "postgres"])
def copying(request: pytest.FixtureRequest, yard: Yard) -> Iterator[Copying]:
    (yard.folder / "tools.py").write_text(PAYING)
    if request.param == "sqlite":
        yield FileCopying(yard)
        return
    server: Server = request.getfixturevalue("postgres_server")
    database = server.create()
    yield DatabaseCopying(yard, server.url_of(database))
    for each in (database, *server.moved_aside(database)):
        server.drop(each)


@contextmanager
def served_by(copying: Copying) -> Any:
    with serving("tools.py", folder=copying.yard.folder, variables=copying.settings) as served:
        served.request("PUT", "/v1/workers/w", OFFERS)
        yield served
        assert served.end(SIGTERM) == 0


def call(served: Served, tool: str, call_id: str) -> Any:
    return served.request("POST", "/tools/call", {"tool_id": tool, "call_id": call_id, "input": {"cents": 5}})


def claims(served: Served) -> list[Any]:
    given = served.request("POST", "/v1/tools/claim", {"wait": 0, "limit": 9}, {"Toolyard-Worker": "w"})
    return list(given["claims"])


def answer(served: Served, claim: Any, attempt: int) -> str:
    """Why it was refused; nothing where it was taken."""
    address = f"{served.address}/v1/tools/response/{claim['sessionId']}/{claim['requestId']}"
    says = {"content-type": "application/json", "Toolyard-Worker": "w", "Toolyard-Attempt": str(attempt)}
    body = json.dumps({"response": {"state": "COMPLETE", "value": "done"}}).encode()
    try:
        with urlopen(Request(address, body, says), timeout=DEADLINE_S) as reply:
            return str(reply.read().decode())
    except HTTPError as error:
        return str(json.loads(error.read())["reason"])


def use(served: Served, session: str) -> None:
    block = {"type": "tool_use", "id": "u", "name": "Far_Send", "input": {"cents": 5}}
    served.request("POST", f"/v1/sessions/{session}/messages", {"role": "assistant", "content": [block]})


def code_of(copying: Copying, call_id: str) -> str:
    found: str = copying.yard.json("show", call_id, **copying.settings)["code"]
    return found


def test_what_waited_at_the_copy_runs_no_more_by_itself(copying: Copying) -> None:
    yard, verb = copying.yard, copying.yard.toolyard
    with served_by(copying) as served:
        session = served.request("POST", "/v1/sessions", {})["sessionId"]
        use(served, session)
        for tool, call_id in (("Far.Send", "send"), ("Far.Look", "look"), ("Pay.Refund", "refund")):
            call(served, tool, call_id)
    copying.back_up()
    with served_by(copying) as served:
        given = claims(served)
        assert len(given) == 3
        assert {answer(served, claim, 1) for claim in given} == {""}
        verb("approve", verb("approvals", **copying.settings).out.split()[0], **copying.settings)
        until(lambda: yard.marks() == ["5"])
        assert call(served, "Far.Send", "send")["value"] == "done"
    back = copying.go_back()
    assert (back.code, "3 calls had not ended, and may have since: outcome_unknown now" in back.out) == (0, True), back
    assert "1 call had not ended, and will go on" in back.out
    with served_by(copying) as served:
        (look,) = claims(served)
        assert look["requestId"].startswith("look~")
        assert look["attempt"] > 1000, "nobody can have had this one"
        assert answer(served, look, 1) == "stale_attempt"
        assert answer(served, look, look["attempt"]) == ""
        assert verb("approvals", **copying.settings).out == "Nothing waits for approval\n"
        assert [code_of(copying, each) for each in ("send", "refund", "u")] == ["outcome_unknown"] * 3
        for tool, call_id in (("Far.Send", "send"), ("Pay.Refund", "refund")):
            said = call(served, tool, call_id)["error"]
            assert (said["can_retry"], "went back to a copy" in said["message"]) == (False, True)
        assert verb("resolve", "send", "--done", '"done"', **copying.settings).code == 0
        assert call(served, "Far.Send", "send")["value"] == "done"
        assert claims(served) == []
    assert yard.marks() == ["5"], "it was paid once"
