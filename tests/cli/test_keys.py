"""`toolyard keys`: through the server that has the ledger, and on a ledger that nobody has; and what servers make of
the keys."""

import http.client
import json
import re
import time
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from tests.unpacked import everything_in
from toolyard import Client

from .operated import Yard, until, yard
from .processes import DEADLINE_S, Ended, Served, serving, toolyard

__all__ = ["yard"]

SOON_S = 1.0
"""In which a key that was revoked is refused."""
EVERYWHERE = ("--host", "0.0.0.0")
USE = (
    "Shown this once. Send it as 'OXP-API-Key: KEY' or 'Authorization: Bearer KEY', or export TOOLYARD_KEY=KEY\n"
    "From now on every caller of servers on this ledger needs a key\n"
)
REFUSAL = (
    "toolyard: 0.0.0.0 can be reached from other machines, and no authentication is set; make an API key first: "
    "toolyard keys new NAME\n"
)


def new(yard: Yard, *arguments: str, **variables: str) -> str:
    """A new key."""
    ended = yard.toolyard("keys", "new", *arguments, **variables)
    assert (ended.code, ended.err) == (0, USE)
    assert re.fullmatch(r"ty_[0-9A-Za-z]{32,}\n", ended.out)
    return ended.out.strip()


def listed(yard: Yard, **variables: str) -> dict[str, dict[str, Any]]:
    keys: list[dict[str, Any]] = yard.json("keys", "list", "--json", **variables)
    return {key["name"]: key for key in keys}


def answer(served: Served, **headers: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """To somebody who wants to see the tools."""
    found = re.fullmatch(r"http://(.+):(\d+)", served.address)
    assert found is not None
    connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=DEADLINE_S)
    try:
        connection.request("GET", "/tools", headers={name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        return reply.status, sorted(reply.getheaders()), reply.read()
    finally:
        connection.close()


def status(served: Served, key: str | None = None) -> int:
    return answer(served, **({} if key is None else {"oxp_api_key": key}))[0]


def refused_within(served: Served, key: str) -> float:
    """How long it took."""
    start = time.monotonic()
    until(lambda: status(served, key) == 401)
    return time.monotonic() - start


# --- from nothing to a safe server ---------------------------------------------------------------


def test_the_way_from_a_refusal_to_a_server_for_others(yard: Yard) -> None:
    assert yard.toolyard("serve", "tools.py", *EVERYWHERE, "--port", "0") == Ended(2, "", REFUSAL)
    assert not yard.ledger.exists(), "it was only asked for"
    key = new(yard, "agent")
    with serving("tools.py", *EVERYWHERE, folder=yard.folder) as served:
        assert '"authorization: Bearer $KEY"' in "\n".join(served.said)
        assert status(served) == 401
        assert status(served, key) == 200
        with Client(served.address, key=key) as client:
            assert client.call("Kit.Quick", {"text": "a"}, call_id="one") == "a"
        assert yard.json("show", "one")["caller"] == "agent"
        called = yard.toolyard("call", "Kit.Quick", "text=b", TOOLYARD_KEY=key, TOOLYARD_SERVER=served.address)
        assert called == Ended(0, "b\n", "")
        last = time.time()
        assert status(served, key) == 200
        assert served.end(SIGTERM) == 0
    assert listed(yard)["agent"]["lastUsedAt"] >= last, "it is written at the end, too"


def test_once_there_was_a_key_nobody_is_let_in_without(yard: Yard) -> None:
    key = new(yard, "agent")
    assert yard.toolyard("keys", "revoke", "agent") == Ended(0, "agent is revoked\n", "")
    with yard.serving() as served:
        assert (status(served), status(served, key)) == (401, 401)
        assert b"asks for credentials" in _page(served)


def _page(served: Served) -> bytes:
    found = re.fullmatch(r"http://(.+):(\d+)", served.address)
    assert found is not None
    connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=DEADLINE_S)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read()
    finally:
        connection.close()


def test_a_reloading_server_is_refused_as_well(yard: Yard) -> None:
    ended = yard.toolyard("serve", "tools.py", *EVERYWHERE, "--port", "0", "--reload")
    assert ended == Ended(2, "", REFUSAL)


def test_a_ledger_that_is_gone_by_the_time_it_is_served_makes_no_open_server(yard: Yard) -> None:
    """As under --reload, whose parent asked long ago."""
    (yard.folder / "tools.py").write_text(
        "from pathlib import Path\nfrom toolyard import Toolkit\nPath('toolyard.db').unlink()\n"
        'kit = Toolkit("Kit")\n@kit.tool\ndef ping() -> str:\n    "Pings."\n    return "pong"\n',
        encoding="utf-8",
    )
    new(yard, "agent")
    assert yard.toolyard("serve", "tools.py", *EVERYWHERE, "--port", "0") == Ended(2, "", REFUSAL)


# --- while a server has the ledger ---------------------------------------------------------------


def test_a_server_hears_of_keys_at_once(yard: Yard) -> None:
    with yard.serving() as served:
        assert status(served) == 200
        first = new(yard, "first")
        assert (status(served), status(served, first)) == (401, 200)
        second = new(yard, "second", "--allow", "Kit.*", "--tenant", "acme", "--subject", "ada")
        assert yard.toolyard("keys", "revoke", "first").code == 0
        assert (status(served, first), status(served, second)) == (401, 200)
        assert {name: key["state"] for name, key in listed(yard).items()} == {"first": "revoked", "second": "live"}
        with Client(served.address, key=second) as client:
            client.call("Kit.Quick", {"text": "a"}, call_id="of-second")
        call = yard.json("show", "of-second")
        assert (call["tenant"], call["caller"]) == ("acme", "ada")
        assert served.end(SIGTERM) == 0
    with yard.serving() as served:
        assert (status(served, first), status(served, second)) == (401, 200)


def test_a_key_expires_while_it_is_used(yard: Yard) -> None:
    with yard.serving() as served:
        key = new(yard, "short", "--expires", "5s")
        assert status(served, key) == 200
        assert refused_within(served, key) < 6
        assert listed(yard)["short"]["state"] == "expired"
        assert served.end(SIGTERM) == 0
    again = new(yard, "short")
    with yard.serving() as served:
        assert (status(served, key), status(served, again)) == (401, 200)


def test_what_is_no_key_any_more_looks_like_what_never_was_one(yard: Yard) -> None:
    revoked, expired = new(yard, "revoked"), new(yard, "expired", "--expires", "1s")
    yard.toolyard("keys", "revoke", "revoked")
    until(lambda: listed(yard)["expired"]["state"] == "expired")
    with yard.serving() as served:
        wrong = (revoked, expired, "ty_" + "0" * 40, "ty_", "nonsense", revoked + "x", revoked[:-1])
        for header, scheme in (("oxp_api_key", ""), ("otc_api_key", ""), ("authorization", "Bearer ")):
            answers = [answer(served, **{header: scheme + each}) for each in wrong]
            assert answers == [answers[0]] * len(wrong)
            assert answers[0][0] == 401


def test_keys_of_the_settings_are_good_beside_those_of_the_ledger(yard: Yard) -> None:
    given = "ty_given_0123456789abcdef"
    with yard.serving(TOOLYARD_API_KEYS=f"ops:{given}") as served:
        made = new(yard, "agent")
        assert (status(served, made), status(served, given), status(served)) == (200, 200, 401)
        yard.toolyard("keys", "revoke", "agent")
        assert (status(served, made), status(served, given)) == (401, 200)


def test_every_node_on_one_database_hears_of_keys(yard: Yard, postgres_url: str) -> None:
    where = {"TOOLYARD_STORE": postgres_url}
    assert yard.toolyard("serve", "tools.py", *EVERYWHERE, "--port", "0", **where) == Ended(2, "", REFUSAL)
    key = new(yard, "agent", **where)
    with (
        serving("tools.py", *EVERYWHERE, folder=yard.folder, variables=where) as one,
        yard.serving(**where) as two,
    ):
        assert [status(node, key) for node in (one, two)] == [200, 200]
        assert [status(node) for node in (one, two)] == [401, 401]
        assert yard.toolyard("keys", "revoke", "agent", "--store", postgres_url).code == 0
        assert refused_within(one, key) + refused_within(two, key) < SOON_S
        assert listed(yard, **where)["agent"]["state"] == "revoked"


# --- what is shown -------------------------------------------------------------------------------


@pytest.mark.parametrize("is_served", [True, False], ids=["through the server", "in the ledger"])
def test_a_list_shows_everything_but_the_key(yard: Yard, is_served: bool) -> None:
    def look() -> None:
        first = new(
            yard, "ci", "--allow", "Kit.*", "--allow", "Other.Tool", "--scope", "calls:read", "--expires", "30d"
        )
        made = yard.toolyard("keys", "new", "plain", "--subject", "ada", "--tenant", "acme", "--json")
        second = json.loads(made.out)["key"]
        assert (made.code, made.err) == (0, USE)
        yard.toolyard("keys", "revoke", "plain")
        shown, told = yard.toolyard("keys", "list"), yard.toolyard("keys", "list", "--json")
        heading, ci, plain = (re.split(r" {2,}", line) for line in shown.out.splitlines())
        assert heading == [
            "NAME", "SUBJECT", "TENANT", "ALLOW", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "STATE",
        ]  # fmt: skip
        day = r"\d{4}-\d\d-\d\d \d\d:\d\d"
        assert ci[:5] == ["ci", "ci", "default", "Kit.*, Other.Tool", "calls:read"]
        assert re.fullmatch(f"{day} {day} - live", " ".join(ci[5:]))
        assert plain[:5] == ["plain", "ada", "acme", "-", "-"]
        assert re.fullmatch(f"{day} - - revoked", " ".join(plain[5:]))
        month = json.loads(told.out)[0]["expiresAt"] - json.loads(told.out)[0]["createdAt"]
        assert abs(month - 30 * 86400) < DEADLINE_S
        ledgers = b"".join(everything_in(path) for path in yard.folder.glob("toolyard.db*") if path.is_file())
        assert b"Kit.*" in ledgers
        for secret in (first, second, first[3:], second[3:]):
            assert secret not in shown.out + told.out
            assert secret.encode() not in ledgers
        assert "digest" not in told.out

    if is_served:
        with yard.serving() as served:
            look()
            served.end(SIGTERM)
            assert "ty_" not in "\n".join(served.said)
    else:
        look()


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["new", "a b"], "NAME must be 1 to 64 letters, digits, '_', '.' or '-', got 'a b'"),
        (["revoke", "a/b"], "NAME must be 1 to 64 letters, digits, '_', '.' or '-', got 'a/b'"),
        (
            ["new", "a", "--allow", "Kit"],
            "--allow must be a tool's id, with * where anything may stand (Calculator.Add, ",
        ),
        (["new", "a", "--scope", "x y"], "--scope must be one word, such as calls:read, "),
        (["new", "a", "--expires", "0d"], "--expires must be at least 1s and at most 36500d, got '0d'"),
        (["new", "a", "--expires", "soon"], "--expires must be a time such as 30d, 12h, 10m or 45s, got 'soon'"),
        (["new", "a", "--store", "sqlite::memory:"], "a ledger in memory is gone before anybody could use it; "),
        (["list"], "there is no ledger here; API keys are in the ledger: run this where the server runs, "),
        (["list", "--store", "sqlite:none.db"], "there is no ledger at sqlite:none.db"),
        (["revoke", "a"], "there is no ledger here; "),
    ],
)
def test_what_cannot_be_done_ends_with_2_and_one_sentence(
    here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = here("keys", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"toolyard: {sentence}")
    assert list(tmp_path.iterdir()) == [], "nothing was made"


@pytest.mark.parametrize("verb", [["new", "a"], ["list"], ["revoke", "a"]])
def test_a_server_elsewhere_is_not_meant(tmp_path: Path, verb: list[str]) -> None:
    ended = toolyard("keys", *verb, folder=tmp_path, variables={"TOOLYARD_SERVER": "http://127.0.0.1:1"})
    assert (ended.code, ended.out) == (2, "")
    assert "(not with TOOLYARD_SERVER, which is http://127.0.0.1:1)" in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_served", [True, False], ids=["through the server", "in the ledger"])
def test_names_that_are_taken_or_unknown_are_refused(yard: Yard, is_served: bool) -> None:
    def refuse() -> None:
        new(yard, "agent")
        taken = yard.toolyard("keys", "new", "agent")
        sentence = "There is a key named agent already; revoke it, or choose another name\n"
        assert taken == Ended(1, "", sentence)
        unknown = yard.toolyard("keys", "revoke", "nobody")
        assert unknown == Ended(1, "", "There is no key named nobody that could be revoked\n")
        subject = yard.toolyard("keys", "new", "other", "--subject", "")
        assert (subject.code, subject.out) == (1, "")
        assert "subject: Must be a string of 1 to 256 characters" in subject.err
        assert list(listed(yard)) == ["agent"]

    if is_served:
        with yard.serving():
            refuse()
    else:
        refuse()


def test_the_routes_are_the_operators_alone(yard: Yard) -> None:
    key = new(yard, "agent")
    with yard.serving() as served:
        headers = {"authorization": f"Bearer {key}"}
        wanted = {"name": "mine"}
        for method, path, body in (
            ("GET", "/v1/admin/keys", None),
            ("POST", "/v1/admin/keys", wanted),
            ("POST", "/v1/admin/keys/agent/revoke", None),
        ):
            for given in ({}, headers):
                assert "redentials" in served.request(method, path, body, given)["message"]
        token = json.loads(yard.admin.read_text())["token"]
        past = {"name": "past", "expiresAt": time.time() - 1, "allow": ["Kit"], "more": 1}
        told = served.request("POST", "/v1/admin/keys", past, {"authorization": f"Bearer {token}"})
        assert set(told["parameter_errors"]) == {"allow[0]", "more"}
        past = {"name": "past", "expiresAt": time.time() - 1}
        told = served.request("POST", "/v1/admin/keys", past, {"authorization": f"Bearer {token}"})
        assert told["parameter_errors"] == {"expiresAt": "Must be in the future"}
        assert list(listed(yard)) == ["agent"]
        assert listed(yard)["agent"]["state"] == "live"
