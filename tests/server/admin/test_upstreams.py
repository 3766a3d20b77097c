"""`/v1/admin/upstreams`: how upstreams fare and what they list, from a server that runs and from a ledger alone."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.operated import ADA, CALLERS
from tests.cli.processes import Served, send, serving
from tests.upstream.waiting import until
from toolyard.model.upstream import Upstream
from toolyard.operator.ledger_transport import LedgerTransport
from toolyard.server.settings.table import exactly
from toolyard.wires.admin import upstreams as wire
from toolyard.wires.contract import Request
from toolyard.wires.lifecycle.calls import LIFECYCLE

BAZAAR = str(Path(__file__).parents[2] / "upstream" / "bazaar.py")
STALL: dict[str, Any] = {"name": "Stall", "command": [sys.executable, BAZAAR, "2025-11-25"]}
GONE: dict[str, Any] = {"name": "Gone", "command": ["nothing-of-that-name", "--token", "canary"]}


def address_of(table: dict[str, Any]) -> str:
    return Upstream(table["name"], command=tuple(table["command"])).address


class Operator:
    """The operator of a server with two upstreams, one of which is not there."""

    def __init__(self, folder: Path, served: Served) -> None:
        self.folder, self.served = folder, served
        self._token = json.loads((folder / "toolyard.db.admin").read_text())["token"]

    def get(self, path: str, token: str | None = None) -> Any:
        headers = {"authorization": f"Bearer {token or self._token}"}
        return send("GET", f"{self.served.address}{path}", "", headers)

    def statuses(self) -> dict[str, wire.UpstreamStatus]:
        return {each.name: each for each in wire.decode_statuses(self.get(wire.PATH))}


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    folder = tmp_path_factory.mktemp("operator")
    variables = {"TOOLYARD_UPSTREAMS": json.dumps([STALL, GONE]), **CALLERS}
    with serving(folder=folder, variables=variables) as served:
        made = Operator(folder, served)
        until(lambda: made.statuses()["Stall"].state == "up" and made.statuses()["Gone"].state == "down")
        yield made


def test_each_is_told_with_how_it_fares(operator: Operator) -> None:
    stall, gone = operator.statuses()["Stall"], operator.statuses()["Gone"]
    assert (stall.kind, stall.era, stall.state, stall.trouble) == ("stdio", "2025-11-25", "up", "")
    assert stall.tools > 5
    assert stall.since is not None
    assert (gone.era, gone.tools, gone.state) == (None, 0, "down")
    assert gone.trouble == "cannot be started: there is no program 'nothing-of-that-name'"
    assert gone.place == "nothing-of-that-name …", "without its arguments"
    assert "canary" not in str(operator.get(wire.PATH))


def test_calls_are_counted(operator: Operator) -> None:
    before = operator.statuses()["Stall"]
    for tool, input in (("Stall.sum", {"a": 1, "b": 2}), ("Stall.fail", {})):
        body = json.dumps({"tool_id": tool, "input": input})
        headers = {"authorization": f"Bearer {ADA}", "content-type": "application/json"}
        send("POST", f"{operator.served.address}/tools/call", body, headers)
    after = operator.statuses()["Stall"]
    assert (after.calls - before.calls, after.errors - before.errors) == (2, 1)
    assert after.p50_ms is not None
    assert after.p99_ms is not None
    assert 0 < after.p50_ms <= after.p99_ms


def test_what_one_lists_now_is_told(operator: Operator) -> None:
    answer = wire.decode_answer(operator.get(f"{wire.PATH}/Stall/listing"))
    assert answer.listing is not None
    assert answer.listing["revision"] == "2025-11-25"
    assert "echo" in [tool["name"] for tool in answer.listing["tools"]]
    gone = wire.decode_answer(operator.get(f"{wire.PATH}/Gone/listing"))
    assert (gone.listing, gone.trouble.endswith("; start it by hand to see what it does")) == (None, True)


def test_one_that_is_elsewhere_is_another(operator: Operator) -> None:
    right, other = address_of(STALL), address_of(GONE)
    assert operator.get(f"{wire.PATH}/Stall/listing?address={right}")["listing"]
    for path in (f"Stall/listing?address={other}", "Nobody/listing"):
        assert "no upstream" in operator.get(f"{wire.PATH}/{path}")["message"]


def test_only_the_operator_is_told(operator: Operator) -> None:
    for path in (wire.PATH, f"{wire.PATH}/Stall/listing"):
        assert "credentials are not valid" in operator.get(path, ADA)["message"]


def test_without_a_server_the_settings_and_the_ledger_tell(tmp_path: Path) -> None:
    settings = exactly(store=f"sqlite:{tmp_path / 'toolyard.db'}", secret_key="7" * 64, upstreams=[STALL, GONE])
    transport = LedgerTransport(settings)
    try:
        stall, gone = wire.decode_statuses(LIFECYCLE.decode(transport.send(wire.encode_list())))
        assert [(each.name, each.state, each.since) for each in (stall, gone)] == [
            ("Stall", "idle", None),
            ("Gone", "idle", None),
        ]
        reply = transport.send(wire.encode_ask("Stall", address_of(STALL)))
        answer = wire.decode_answer(LIFECYCLE.decode(reply))
        assert answer.listing is not None
        assert transport.send(Request("GET", f"{wire.PATH}/Nobody/listing")).status == 404
    finally:
        transport.close()
