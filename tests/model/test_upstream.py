"""What an operator writes down about an upstream: what cannot be is refused, and what may be a secret is not shown."""

import re
from typing import Any

import msgspec
import pytest

from toolyard.model.upstream import SecretName, Upstream, refuse_alike

AT = "https://tools.example.com/mcp"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "either mcp, an address, or command"),
        ({"mcp": AT, "command": ("npx",)}, "either mcp, an address, or command"),
        ({"mcp": "tools.example.com"}, "without credentials in it, got 'tools.example.com'"),
        (
            {"mcp": "https://ada:canary@tools.example.com/mcp"},
            "in it, got '…@tools.example.com/mcp'",
        ),
        ({"mcp": AT, "env": {"A": "b"}}, "env and cwd are for a command"),
        ({"command": ("npx",), "headers": {"a": "b"}}, "auth and headers are for a server at an address"),
        ({"mcp": AT, "headers": {"Host": "b"}}, "headers: 'Host' cannot be set here"),
        ({"mcp": AT, "headers": {"Mcp-Name": "b"}}, "headers: 'Mcp-Name' cannot be set here"),
        ({"mcp": AT, "headers": {"a": "canary\n"}}, "headers: the value of a must be plain text on one line"),
        ({"mcp": "http://tools.example.com/mcp?k=canary", "auth": SecretName("K")}, "a secret is sent only over https"),
        ({"mcp": "http://a.example/", "headers": {"authorization": "canary"}}, "a secret is sent only over https"),
        ({"mcp": "http://a.example/", "headers": {"Cookie": "canary"}}, "a secret is sent only over https"),
        ({"mcp": AT, "auth": SecretName("K"), "headers": {"Authorization": "canary"}}, "leave one of them out"),
        ({"command": ("",)}, "command must be a list of texts"),
        ({"command": ("npx",), "env": {"A=B": "canary"}}, "env: 'A=B' cannot be a variable"),
        ({"mcp": AT, "timeout_s": 0}, "timeout_s must be more than 0"),
        ({"mcp": AT, "concurrency": 0}, "concurrency must be 1 to 10000"),
    ],
)
def test_what_cannot_be_is_refused_without_its_secrets(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        Upstream("Hub", **given)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("name", ["", "brave-search", "a" * 49, "a.b"])
def test_a_name_has_letters_digits_and_underscores(name: str) -> None:
    with pytest.raises(ValueError, match="name must have 1 to 48 letters"):
        Upstream(name, mcp=AT)


@pytest.mark.parametrize("address", [AT, "http://127.0.0.1:8000/mcp"])
def test_authorization_may_stand_among_the_headers_where_nobody_reads_it_on_its_way(address: str) -> None:
    made = Upstream("Hub", mcp=address, headers={"Authorization": "Bearer canary-1", "x-team": "blue"})
    assert made.headers["Authorization"] == "Bearer canary-1"
    assert made.written_values == {"Authorization": "canary-1"}


def test_what_may_be_a_secret_is_not_shown() -> None:
    remote = Upstream("Hub", mcp=f"{AT}?key=canary", headers={"Authorization": "canary", "x": "canary"})
    program = Upstream("Files", command=("npx", "--token", "canary"), env={"TOKEN": "canary"})
    for each in (remote, program):
        assert "canary" not in f"{each!r} {each} {each.place}"
    assert (remote.place, program.place) == (f"{AT}?…", "npx …")
    assert (program.kind, remote.kind) == ("stdio", "http")


@pytest.mark.parametrize(
    ("name", "value", "is_hidden"),
    [
        ("GITHUB_TOKEN", "abc", True),
        ("API_KEY", "12345", True),
        ("DB_PASS", "tiger", True),
        ("DATABASE", "postgresql://ada:pw@db/tools", True),
        ("THING", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", True),
        ("LOG_LEVEL", "warning", False),
        ("AUTHOR", "Ada Lovelace", False),
        ("MODEL", "large-2026-08-06", False),
        ("WORKSPACE", "3f2b8c1e-7a61-4a0e-9f0e-2f9f3f1f6a11", False),
        ("MEMORY_FILE", "/home/ada/memory.json", False),
        ("SITE", "https://example.com/a", False),
    ],
)
def test_values_that_may_be_secrets_are_told_from_plain_ones(name: str, value: str, is_hidden: bool) -> None:
    found = Upstream("Hub", command=("npx",), env={name: value}).written_values
    assert found == ({name: value} if is_hidden else {})


def test_the_secrets_that_it_is_given_are_named() -> None:
    made = Upstream("Hub", mcp=AT, auth=SecretName("A"), headers={"x": SecretName("B"), "y": SecretName("A")})
    assert made.secrets == ("A", "B")
    assert made.written_values == {}


def test_a_table_of_the_settings_is_one() -> None:
    table = {"name": "Hub", "command": ["npx", "-y"], "env": {"TOKEN": {"secret": "HUB"}}}
    assert msgspec.convert(table, Upstream) == Upstream("Hub", command=("npx", "-y"), env={"TOKEN": SecretName("HUB")})


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("Hub", "hub"), "two upstreams are called hub"),
        (("Hub", "Hub_Two"), "tools of the upstreams Hub and Hub_Two could get the same names"),
        (("Hub_Two", "hub"), "could get the same names"),
    ],
)
def test_names_that_could_become_one_are_refused(names: tuple[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        refuse_alike(tuple(Upstream(name, mcp=AT) for name in names))


def test_one_upstream_alone_has_its_own_names() -> None:
    bare = [Upstream(name, mcp=AT, names="as they are") for name in ("A", "B")]
    refuse_alike((bare[0], Upstream("B", mcp=AT)))
    with pytest.raises(ValueError, match="A and B have it"):
        refuse_alike(tuple(bare))
