"""`toolyard calls erase`: what calls made for a user said and got is gone, from the file too, with a server and without
one; and a ledger of rows and blocks is listed as one."""

import json
from urllib.request import Request, urlopen

from tests.unpacked import everything_in

from .operated import Yard, yard
from .processes import Served

__all__ = ["yard"]
CANARY = "canary-of-uma-5d21"


def call(served: Served, text: str, user: str, **more: str) -> None:
    """Without a key unless one is given: then the call is a line in a block, and else a row."""
    body = {"tool_id": "Kit.Quick", "input": {"text": text}, "context": {"user_id": user}, **more}
    request = Request(f"{served.address}/tools/call", json.dumps(body).encode(), {"content-type": "application/json"})
    with urlopen(request, timeout=30) as reply:
        assert json.load(reply)["value"] == text


def test_a_users_calls_are_erased_and_nobody_elses(yard: Yard) -> None:
    with yard.serving() as served:
        for user, text in (("vic", "of-vic"), ("uma", CANARY), ("uma", CANARY * 600)):
            call(served, text, user)
        call(served, CANARY, "uma", call_id="keyed")
        call(served, "of-vic", "vic", call_id="another")
        assert len(yard.json("calls", "--json")) == 5
        refused = yard.toolyard("calls", "erase", "--user", "uma")
        assert (refused.code, refused.out) == (1, "")
        assert "nothing was erased; say --yes" in refused.err
        assert yard.toolyard("calls", "erase", "--user", "uma", "--tenant", "acme", "--yes").out.startswith("0 calls")
        erased = yard.toolyard("calls", "erase", "--user", "uma", "--yes")
        assert (erased.code, erased.out) == (0, "3 calls made for uma are erased\n")
        left = yard.json("calls", "--json")
        assert [each["tool"] for each in left] == ["Kit.Quick@1.0.0"] * 2
        assert "another" in [each["callId"] for each in left]
    assert CANARY.encode() not in everything_in(yard.ledger), "what is removed is overwritten"
    assert yard.toolyard("calls", "erase", "--user", "vic", "--yes").out == "2 calls made for vic are erased\n"
    assert yard.json("calls", "--json") == []
    entries = yard.toolyard("audit", "tail", "-n", "50").out
    assert entries.count("/v1/admin/erasures") == 3, "who erased is in the log, and so are the calls that were made"
    assert yard.toolyard("audit", "verify").code == 0
