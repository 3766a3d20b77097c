"""The files in which desktop clients keep their MCP servers, as upstreams."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from toolyard.model.errors import SetupError
from toolyard.model.upstream import Upstream
from toolyard.runners.desktop_file import has_servers, upstream_name, upstreams_in
from toolyard.runners.loader import load

Read = Callable[..., list[Upstream]]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def read(tmp_path: Path, said: list[str]) -> Read:
    """Reads a file with these servers, with these variables set."""

    def reading(servers: Any, only: str = "", member: str = "mcpServers", **variables: str) -> list[Upstream]:
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({member: servers}), encoding="utf-8")
        return upstreams_in(path, only, said.append, variables)

    return reading


def refused(read: Read, servers: Mapping[str, Any], **variables: str) -> str:
    with pytest.raises(SetupError) as error:
        read(servers, **variables)
    assert "mcp.json: " in str(error.value)
    assert "canary" not in str(error.value)
    return str(error.value).partition("mcp.json: ")[2]


CLAUDE_DESKTOP = {
    "filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv/files"]},
    "github": {"command": "docker", "args": ["run", "-i"], "env": {"GITHUB_TOKEN": "ghp_canary"}},
}


def test_a_program_is_read_as_claude_desktop_has_it(read: Read) -> None:
    files, github = read(CLAUDE_DESKTOP)
    assert files.command == ("npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/files")
    assert (github.name, github.kind, github.env) == ("github", "stdio", {"GITHUB_TOKEN": "ghp_canary"})


def test_an_address_is_read_as_cursor_and_claude_code_have_it(read: Read) -> None:
    hub, other = read(
        {
            "hub": {"url": "https://hub.example/mcp", "headers": {"Authorization": "Bearer ${env:HUB}"}},
            "other": {"type": "http", "url": "${BASE:-https://other.example}/mcp", "headers": {"x": "${X:-}"}},
        },
        HUB="canary",
    )
    assert (hub.mcp, hub.headers) == ("https://hub.example/mcp", {"Authorization": "Bearer canary"})
    assert (other.mcp, other.headers) == ("https://other.example/mcp", {"x": ""})


def test_vs_codes_file_is_read_with_its_comments(tmp_path: Path) -> None:
    folder = tmp_path / ".vscode"
    folder.mkdir()
    path = folder / "mcp.json"
    (tmp_path / "its.env").write_text("# for it\nexport A=\"one two\"\nB=2 # two\n\nC='3'\n")
    path.write_text(
        """{
          // What the agent may use.
          "inputs": [],
          "servers": {
            "memory": {
              "type": "stdio", "command": "${workspaceFolder}/bin/memory", "args": ["http://a//b", "/*"],
              "envFile": "${workspaceFolder}/its.env", "env": {"C": "4"}, "cwd": "data", /* here */
            },
          },
        }"""
    )
    (memory,) = upstreams_in(path, "", pytest.fail)
    assert memory.command == (f"{tmp_path}/bin/memory", "http://a//b", "/*")
    assert memory.env == {"A": "one two", "B": "2", "C": "4"}
    assert memory.cwd == str(tmp_path / "data")


@pytest.mark.parametrize(
    "entry",
    [
        {"httpUrl": "https://a.example/mcp"},
        {"serverUrl": "https://a.example/mcp"},
        {"type": "streamable-http", "url": "https://a.example/mcp"},
        {"type": "streamableHttp", "url": "https://a.example/mcp", "autoApprove": ["x"], "disabled": False},
    ],
)
def test_other_clients_words_for_an_address_are_known(read: Read, entry: Any) -> None:
    assert [each.mcp for each in read({"a": entry})] == ["https://a.example/mcp"]


def test_tools_that_a_file_includes_are_those_that_are_offered(read: Read, said: list[str]) -> None:
    (made,) = read({"a": {"command": "a", "includeTools": ["one", "two"], "timeout": 3000, "trust": True}})
    assert (made.tools, made.trusted) == (("one", "two"), False)
    assert [each.partition("mcp.json: ")[2] for each in said] == [
        "a: timeout is not read; [[upstreams]] has timeout_s for that"
    ]


def test_what_is_disabled_is_left_out_with_a_word(read: Read, said: list[str]) -> None:
    servers = {"a": {"command": "a"}, "b": {"command": "b", "disabled": True}, "c": {"url": "x", "enabled": False}}
    assert [each.name for each in read(servers)] == ["a"]
    assert [each.partition("mcp.json: ")[2] for each in said] == [
        "b is left out: it is disabled",
        "c is left out: it is disabled",
    ]


def test_a_file_that_would_start_itself_does_not(read: Read, said: list[str], tmp_path: Path) -> None:
    servers = {"yard": {"command": "toolyard", "args": ["stdio", str(tmp_path / "mcp.json")]}, "a": {"command": "a"}}
    assert [each.name for each in read(servers)] == ["a"]
    assert "yard is left out: it serves this very file" in said[0]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"type": "sse", "url": "https://a.example/sse"}, "has the type 'sse', which cannot be served; MCP has"),
        ({"type": "ws", "url": "wss://a.example"}, "has the type 'ws', which cannot be served"),
        ({"url": "wss://canary@a.example"}, "mcp must be an http or https address"),
        ({"url": "https://ada:canary@a.example"}, "mcp must be an http or https address without credentials"),
        ({}, "must have either a command or a url"),
        ({"command": "a", "url": "https://a.example"}, "must have either a command or a url"),
        ({"command": ["a"]}, "must have command, as text"),
        ({"command": "a", "args": "b"}, "must have args as a list of texts"),
        ({"command": "a", "env": ["canary"]}, "must have env as an object"),
        ({"command": "a", "env": {"A": ["canary"]}}, "must have env.A as text"),
        ({"command": "a", "env": {"A": "${NOT_SET}"}}, "needs the variable NOT_SET, which is not set"),
        ({"command": "a", "env": {"A": "${env:NOT_SET}"}}, "needs the variable NOT_SET, which is not set"),
        ({"command": "${EMPTY}"}, "needs the variable EMPTY, which is not set"),
        ({"command": "a", "env": {"A": "${input:hub-key}"}}, "keep it with toolyard secrets set HUB_KEY, and name it"),
        ({"command": "a", "args": ["${file:x}"]}, "has ${file:x}, which is known to no environment"),
        ({"command": "a", "envFile": "nowhere.env"}, "nowhere.env, which cannot be read"),
        ({"command": "a", "disabledTools": ["b"]}, "has disabledTools, which cannot be kept to; name the tools"),
        ({"url": "http://a.example/", "headers": {"Authorization": "canary"}}, "a secret is sent only over https"),
        ("text", "is no object"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_sentence(read: Read, entry: Any, why: str) -> None:
    sentence = refused(read, {"the-hub": entry}, EMPTY="")
    assert sentence.startswith("the-hub: ")
    assert why in sentence
    assert "\n" not in sentence


def test_names_that_become_one_are_refused(read: Read) -> None:
    servers = {"brave-search": {"command": "a"}, "brave_search": {"command": "b"}}
    assert refused(read, servers) == "two upstreams are called brave_search; give one of them another name"


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("brave-search", "brave_search"),
        ("GitHub MCP", "GitHub_MCP"),
        ("@org/server.v2", "org_server_v2"),
        ("日本", "server_cf2abf0c"),
        ("a" * 60, f"{'a' * 39}_11ee391211c6256460b6ed375957fadd8061cafbb31daf967db875aebd5aaad4"[:48]),
    ],
)
def test_a_name_becomes_an_id_whatever_else_is_there(name: str, made: str) -> None:
    assert upstream_name(name) == made
    assert Upstream(made, command=("a",)).name == made


def test_one_server_of_a_file_may_be_named(read: Read) -> None:
    assert [each.name for each in read(CLAUDE_DESKTOP, only="github")] == ["github"]
    with pytest.raises(SetupError, match="has no server 'hub'; it has filesystem, github"):
        read(CLAUDE_DESKTOP, only="hub")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "has no servers; a desktop client's file has mcpServers, or servers"),
        ("[]", "has no servers"),
        ('{"mcpServers": []}', "has no servers"),
        ('{\n"mcpServers": {"canary"}}', ":2: is not JSON: "),
        ('{"tools": []}', "has no servers"),
        ("[" * 100_000, "is nested too deeply"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(SetupError) as error:
        upstreams_in(path, "", pytest.fail)
    assert why in str(error.value)
    assert "canary" not in str(error.value)
    assert not has_servers(path)


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot be read: No such file"):
        upstreams_in(tmp_path / "mcp.json", "", pytest.fail)


def test_a_target_may_be_such_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": CLAUDE_DESKTOP}))
    (source,) = load(str(path))
    assert [each.name for each in source.upstreams] == ["filesystem", "github"]
    assert source.tools == ()
    (one,) = load(f"{path}:github")
    assert [each.name for each in one.upstreams] == ["github"]
    assert has_servers(path)
