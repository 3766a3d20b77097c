"""The operator's verbs with a server that speaks https."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ..server.certificates import DAY, Signed, signed
from .operated import Yard, until, yard
from .processes import Ended

__all__ = ["yard"]


def own(folder: Path) -> Signed:
    return signed(folder)


def for_another_address(folder: Path) -> Signed:
    return signed(folder, address="192.0.2.1")


def expired(folder: Path) -> Signed:
    return signed(folder, begins=-2 * DAY)


def of_an_authority(folder: Path) -> Signed:
    return signed(folder, "leaf", signed(folder, "authority", is_authority=True))


@pytest.mark.parametrize("make", [own, for_another_address, expired, of_an_authority])
def test_they_reach_it_whatever_its_certificate(make: Callable[[Path], Signed], yard: Yard) -> None:
    with yard.serving(**make(yard.folder).variables) as served:
        assert json.loads(yard.admin.read_bytes())["address"].startswith("https://127.0.0.1:")
        made = yard.toolyard("keys", "new", "agent")
        assert (made.code, made.out[:3]) == (0, "ty_")
        assert [key["name"] for key in yard.json("keys", "list", "--json")] == ["agent"]
        assert yard.toolyard("calls") == Ended(0, "CALL  STATE  CODE  TOOL  ATTEMPT  AGE\n", "")
        until(lambda: "admin  unix  POST /v1/admin/keys" in yard.toolyard("audit", "tail").out)
        assert yard.toolyard("explain", "Kit.Quick", "--key", "agent").out.startswith("agent may call")
        assert served.end() == 0


def test_a_certificate_that_is_replaced_on_disk_locks_nobody_out(yard: Yard) -> None:
    with yard.serving(**signed(yard.folder).variables):
        signed(yard.folder)
        assert yard.toolyard("calls").code == 0


def test_without_its_certificate_it_does_not_start(yard: Yard) -> None:
    said = "toolyard: tls_key is set and tls_cert is not; set both for https, or neither\n"
    assert yard.toolyard("serve", "tools.py", TOOLYARD_TLS_KEY="a.key") == Ended(2, "", said)


def test_a_call_and_a_list_trust_the_ca_they_are_told_of(yard: Yard) -> None:
    authority = signed(yard.folder, "authority", is_authority=True)
    with yard.serving(**signed(yard.folder, "leaf", authority).variables):
        address = json.loads(yard.admin.read_bytes())["address"]
        for verb, out in ((("call", "Kit.Quick", "text=hi"), ""), (("list",), "Kit.Quick")):
            there = (*verb, "--server", address)
            refused = yard.toolyard(*there)
            assert (refused.code, refused.out, "running?" in refused.err) == (1, "", False)
            assert refused.err.startswith(f"The certificate of {address} is not trusted")
            for told in ({"TOOLYARD_CA": str(authority.cert_file)}, {"SSL_CERT_FILE": str(authority.cert_file)}):
                assert yard.toolyard(*there, **told).code == 0
            ended = yard.toolyard(*there, "--ca", str(authority.cert_file))
            assert (ended.code, out in ended.out) == (0, True)
        assert yard.toolyard("call", "Kit.Quick", "--server", address, "--ca", "nowhere.pem").code == 2
