"""`toolyard connections`: through the server that has the ledger, and in a ledger that nobody has."""

import json
from pathlib import Path

from ...cli.processes import Ended, toolyard
from .serving import Served, served, settings


def connections(server: Served, *arguments: str) -> Ended:
    return toolyard("connections", *arguments, folder=server.folder, variables=server.settings)


def test_accounts_are_listed_and_disconnected(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        for user in ("ada", "bob"):
            assert server.go(server.challenge(user), user).status == 200
        listed = connections(server).out.splitlines()
        assert listed[0].split() == ["PROVIDER", "USER", "TENANT", "ACCOUNT", "SCOPES", "SINCE"]
        assert [line.split()[:4] for line in listed[1:]] == [
            ["idp", "ada", "default", "ada@example.com"], ["idp", "bob", "default", "bob@example.com"],
        ]  # fmt: skip
        assert "mail.read" in listed[1]
        assert len(connections(server, "--user", "bob").out.splitlines()) == 2
        assert len(connections(server, "--tenant", "other").out.splitlines()) == 1
        (ada, _) = json.loads(connections(server, "--json").out)
        assert set(ada) == {"provider", "user", "tenant", "account", "scopes", "connectedAt"}

        ended = connections(server, "disconnect", "idp", "--user", "ada")
        assert (ended.code, ended.out, ended.err) == (
            0, "ada's account at idp (ada@example.com) is disconnected\n", "",
        )  # fmt: skip
        assert server.provider.said("revoked") == 1
        assert server.challenge("ada").code
        assert server.call("bob")
        again = connections(server, "disconnect", "idp", "--user", "ada")
        assert again.code == 1
        assert "The user ada of the tenant default has no account at idp connected here" in again.err
        log = toolyard("audit", "export", folder=tmp_path, variables=server.settings).out
        assert "disconnected idp" in log
        assert "POST /v1/admin/connections/disconnect" in log
    gone = settings(server.provider.issuer)
    assert len(toolyard("connections", folder=tmp_path, variables=gone).out.splitlines()) == 2
    ended = toolyard("connections", "disconnect", "idp", "--user", "bob", folder=tmp_path, variables=gone)
    assert (ended.code, "bob's account" in ended.out) == (0, True)
    assert "idp did not take the tokens back" in ended.err
    assert len(toolyard("connections", folder=tmp_path).out.splitlines()) == 1


def test_where_there_is_no_ledger_it_says_so(tmp_path: Path) -> None:
    ended = toolyard("connections", folder=tmp_path)
    assert (ended.code, "there is no ledger here" in ended.err) == (2, True)
