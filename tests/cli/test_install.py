"""`toolyard install`: one entry into a client's configuration and out again, and nothing else moves."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from toolyard.cli.install import desktop_clients, json_edit
from toolyard.cli.install.desktop_clients import CLIENTS, DesktopName
from toolyard.cli.install.install import BACKUP

from .processes import toolyard

KEYS: dict[DesktopName, str] = {
    "claude": "mcpServers",
    "claude-code": "mcpServers",
    "cursor": "mcpServers",
    "vscode": "servers",
    "codex": "mcp_servers",
}
EVERY = pytest.mark.parametrize("client", KEYS)
JSON_ONLY = pytest.mark.parametrize("client", ["claude", "claude-code", "cursor", "vscode"])
OTHERS_JSON = """{
    "theme": "dark",   "size": 1.50,
    "KEY": {"other": {"command": "x", "args": []}},
    "é": [1,2]
}"""
OTHERS_TOML = """model = "x"  # mine

[mcp_servers.other]
command = "x"

# about the shell
[shell]
path = ["a",
 "b"]
"""
TOOLS = """from toolyard import Toolkit

kit = Toolkit("Kit")


@kit.tool
def one() -> int:
    '''One.'''
    return 1
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(desktop_clients.sys, "platform", "linux")  # type: ignore[attr-defined]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text("")
    return tmp_path


def servers(client: DesktopName, path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    document = tomllib.loads(text) if client == "codex" else json.loads(text.removeprefix("\ufeff"))
    return document.get(KEYS[client], {})


def written(client: DesktopName, text: str | None = None) -> Path:
    """The client's file, with something of others in it."""
    path = CLIENTS[client].path()
    path.parent.mkdir(parents=True, exist_ok=True)
    text = text if text is not None else OTHERS_TOML if client == "codex" else OTHERS_JSON
    path.write_bytes(text.replace("KEY", KEYS[client]).encode())
    return path


def test_each_client_has_its_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def paths() -> list[str]:
        return [each.path().relative_to(home).as_posix() for each in CLIENTS.values()]

    in_home = [".claude.json", ".cursor/mcp.json", ".codex/config.toml"]
    linux = [".config/Claude/claude_desktop_config.json", ".config/Code/User/mcp.json"]
    assert paths() == [linux[0], in_home[0], in_home[1], linux[1], in_home[2]]
    monkeypatch.setattr(desktop_clients.sys, "platform", "darwin")  # type: ignore[attr-defined]
    assert paths()[0] == "Library/Application Support/Claude/claude_desktop_config.json"
    assert paths()[3] == "Library/Application Support/Code/User/mcp.json"
    monkeypatch.setattr(desktop_clients.sys, "platform", "win32")  # type: ignore[attr-defined]
    monkeypatch.setenv("APPDATA", str(home / "roaming"))
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "other"))
    assert paths()[0] == "roaming/Claude/claude_desktop_config.json"
    assert paths()[1] == "other/.claude.json"
    assert paths()[4] == "elsewhere/config.toml"


@EVERY
def test_a_file_that_is_not_there_is_made(client: DesktopName, home: Path, here: Any) -> None:
    ended = here("install", client, "tools.py")
    path = CLIENTS[client].path()
    assert (ended.code, ended.err) == (0, "")
    assert "+" in ended.out
    assert f"Put tools into {path}." in ended.out
    entry = servers(client, path)["tools"]
    assert entry.pop("type", "stdio") == "stdio"
    assert entry.pop("command") == str(Path(sys.executable).parent / "toolyard")
    assert entry == {"args": ["stdio", str(home / "tools.py")]}
    assert [each.name for each in path.parent.glob(f"*{path.name}*")] == [path.name]


@EVERY
def test_everything_else_stays_as_it_is(client: DesktopName, home: Path, here: Any) -> None:
    path = written(client)
    before = path.read_text()
    assert here("install", client, "tools.py").code == 0
    after = path.read_text()
    lines = iter(after.splitlines())
    kept = [line for line in before.splitlines() if '"other"' not in line]
    assert all(line in lines for line in kept), "every line, in its order"
    assert list(servers(client, path)) == ["other", "tools"]
    assert path.with_name(path.name + BACKUP).read_text() == before
    ended = here("install", client, "tools.py", "--undo")
    assert ended.code == 0
    assert path.read_text() == before
    assert path.with_name(path.name + BACKUP).read_text() == after


@EVERY
def test_twice_is_once(client: DesktopName, home: Path, here: Any) -> None:
    path = written(client)
    here("install", client, "tools.py")
    first = path.read_bytes()
    ended = here("install", client, "tools.py")
    assert (ended.code, ended.out) == (0, f"tools is already in {path}; nothing to do\n")
    assert path.read_bytes() == first
    here("install", client, "tools.py", "--undo")
    ended = here("install", client, "tools.py", "--undo")
    assert (ended.code, ended.out) == (0, f"tools is not in {path}; nothing to do\n")


@EVERY
def test_a_dry_run_changes_nothing(client: DesktopName, home: Path, here: Any) -> None:
    path = written(client)
    before = path.read_bytes()
    ended = here("install", client, "tools.py", "--dry-run")
    assert ended.code == 0
    assert f"+++ {path}" in ended.out
    assert "stdio" in ended.out
    assert ended.out.endswith("Nothing was changed.\n")
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.glob(f"*{path.name}*")] == [path.name]


@EVERY
def test_tools_that_moved_are_found_again_and_what_was_added_stays(client: DesktopName, home: Path, here: Any) -> None:
    path = written(client)
    here("install", client, "tools.py")
    if client == "codex":
        added = path.read_text().replace("[mcp_servers.tools]\n", "[mcp_servers.tools]\ntimeout = 3 # mine\n")
        path.write_text(added + '\n[mcp_servers.tools.env]\nKEY = "v"\n')
    else:
        path.write_text(path.read_text().replace('"tools": {', '"tools": {"timeout": 3, "env": {"KEY": "v"},'))
    (home / "other").mkdir()
    (home / "tools.py").rename(home / "other" / "tools.py")
    assert here("install", client, "other/tools.py").code == 0
    entry = servers(client, path)["tools"]
    assert (entry["timeout"], entry["env"]) == (3, {"KEY": "v"})
    assert entry["args"] == ["stdio", str(home / "other" / "tools.py")]
    assert here("install", client, "tools.py", "--undo").code == 0
    assert list(servers(client, path)) == ["other"]


@JSON_ONLY
def test_an_entry_that_somebody_wrote_otherwise_stays_as_it_is(client: DesktopName, home: Path, here: Any) -> None:
    path = written(client, "")
    here("install", client, "tools.py")
    path.write_text(json.dumps(json.loads(path.read_text())))
    before = path.read_bytes()
    assert "nothing to do" in here("install", client, "tools.py").out
    assert path.read_bytes() == before


def test_a_comment_after_the_table_is_not_part_of_it(home: Path, here: Any) -> None:
    path = written("codex", "")
    here("install", "codex", "tools.py")
    path.write_text("a = 1\n\n" + path.read_text() + "\n# about b\n\n[b]\n")
    assert here("install", "codex", "tools.py", "--undo").code == 0
    assert path.read_text() == "a = 1\n\n# about b\n\n[b]\n"


@EVERY
def test_another_server_of_that_name_is_left_alone(client: DesktopName, home: Path, here: Any) -> None:
    path = written(client)
    before = path.read_bytes()
    for more in ([], ["--undo"]):
        ended = here("install", client, "tools.py", "--name", "other", *more)
        assert (ended.code, ended.out) == (2, "")
        assert "has another server called 'other'; choose a --name. It was not changed" in ended.err
    assert path.read_bytes() == before


@JSON_ONLY
@pytest.mark.parametrize(
    "text",
    [
        '{\n  // mine\n  "KEY": {}\n}',
        '{"KEY": {} /* mine */}',
        '{"a": "http://x//y", "KEY": {"other": {},}}',
    ],
)
def test_comments_are_not_lost(client: DesktopName, text: str, home: Path, here: Any) -> None:
    path = written(client, text)
    before = path.read_bytes()
    ended = here("install", client, "tools.py")
    assert ended.code == 2
    assert "has comments" in ended.err
    snippet = ended.err.partition("yourself:\n\n")[2]
    assert json.loads(snippet)[KEYS[client]]["tools"]["args"] == ["stdio", str(home / "tools.py")]
    assert path.read_bytes() == before
    assert here("install", client, "tools.py", "--undo").code == 2


@EVERY
@pytest.mark.parametrize("text", ["{", "[1", '{"KEY": 5}', "[]", "\udcff"])
def test_a_file_that_cannot_be_read_is_not_changed(client: DesktopName, text: str, home: Path, here: Any) -> None:
    if client == "codex":
        text = {"[]": "a = [", '{"KEY": 5}': "KEY = 5"}.get(text, text)
    path = CLIENTS[client].path()
    path.parent.mkdir(parents=True, exist_ok=True)
    before = text.replace("KEY", KEYS[client]).encode(errors="surrogateescape")
    path.write_bytes(before)
    ended = here("install", client, "tools.py")
    assert (ended.code, ended.out) == (2, "")
    assert str(path.relative_to(home)) in ended.err
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { other = { command = "x" } }\n',
        '[mcp_servers]\ntools = { command = "/a/toolyard", args = ["stdio", "x.py"] }\n',
        '[mcp_servers.tools]\ncommand = "/a/toolyard"\nargs = [\n  "stdio",\n  "x.py",\n]\n',
        'text = """\n[mcp_servers.tools]\n"""\n[mcp_servers.tools]\ncommand = "toolyard"\nargs = ["stdio"]\n',
    ],
)
def test_toml_that_cannot_be_changed_line_by_line_is_refused_with_the_table(text: str, home: Path, here: Any) -> None:
    path = written("codex", text)
    ended = here("install", "codex", "tools.py")
    assert ended.code == 2
    assert "a way that toolyard cannot change" in ended.err
    assert "[mcp_servers.tools]\ncommand = " in ended.err
    assert path.read_text() == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "{}",
        "{ }\n",
        '{"KEY": {}}',
        '{"KEY":{"other":{}}}',
        '\ufeff{\r\n\t"a": 1\r\n}\r\n',
        '{"a": "}{\\"", "KEY": {"x": [{"KEY": {}}]}}',
        '{"KEY": {"first": {}}, "KEY": {"second": {}}}',
    ],
)
def test_json_of_every_shape_takes_the_entry(text: str) -> None:
    text = text.replace("KEY", "servers")
    before = json_edit.read(text)
    changed = json_edit.put(text, "servers", "new", {"command": "é", "args": ["\\"]})
    wanted = {**before, "servers": {**before.get("servers", {}), "new": {"command": "é", "args": ["\\"]}}}
    assert json_edit.read(changed) == wanted
    assert changed.count("\n") == changed.count("\r\n") or "\r\n" not in text
    again = json_edit.take_out(changed, "servers", "new")
    assert json_edit.read(again).get("servers") == before.get("servers", {})


def test_a_link_stays_a_link_and_rights_stay(home: Path, here: Any) -> None:
    kept = home / "dotfiles.json"
    kept.write_text("{}")
    kept.chmod(0o640)
    link = home / "link.json"
    link.symlink_to(kept)
    assert here("install", "cursor", "tools.py", "--config", str(link), "--name", "mine").code == 0
    assert link.is_symlink()
    assert list(json.loads(kept.read_text())["mcpServers"]) == ["mine"]
    assert kept.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["claude", "nowhere.py"], "there is no file nowhere.py"),
        (["claude", "tools.py", "--name", "a b"], "--name must be"),
        (["claude", "tools.py", "--config", "."], "cannot read"),
        (["emacs", "tools.py"], "emacs"),
        (["claude", "nowhere"], "there is no module or package 'nowhere' that a client would find from its own folder"),
        (["claude", "tools"], "there is no module or package 'tools' that a client would find from its own folder"),
        (["cursor", "tools.py", "--scope", "project"], "Cursor has no file of a project that toolyard knows"),
        (
            ["cursor", "tools.py", "--env", "NOT_SET_HERE"],
            "--env NOT_SET_HERE: no such variable is set; set it, or write",
        ),
        (
            ["cursor", "tools.py", "--env", "a b=c"],
            "--env takes NAME=VALUE or NAME, and 'a b' is no name of a variable",
        ),
        (["cursor", "tools.py", "--env", "A=1", "--env", "A=2"], "--env A is given twice; give it once"),
        (["cursor", "http://x/mcp", "--env", "A=1"], "--env is for tools that the client starts"),
        (["cursor", "http:///mcp"], "the target must be an address such as"),
        (["claude", "https://yard.example/mcp"], "takes no addresses: add https://yard.example/mcp in Claude itself"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: list[str], complaint: str, home: Path, here: Any) -> None:
    ended = here("install", *arguments)
    assert ended.code == 2
    assert complaint in ended.err


def test_the_entry_starts_a_server(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    assert toolyard("install", "cursor", "tools.py", "--config", "c.json", folder=tmp_path).code == 0
    entry = json.loads((tmp_path / "c.json").read_text())["mcpServers"]["tools"]
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    done = subprocess.run(
        [entry["command"], *entry["args"], "--store", f"sqlite:{tmp_path / 'ledger.db'}"],
        input=json.dumps(hello) + "\n",
        cwd="/",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "toolyard", done.stderr


def test_without_a_home_nobody_guesses_whose_it_is(home: Path, here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    for client in ("claude", "cursor"):
        ended = here("install", client, "tools.py", "--dry-run")
        assert (ended.code, ended.out) == (2, "")
        assert "HOME is not set, so it is not known whose configuration to change" in ended.err


# --- modules, packages, addresses, variables -----------------------------------------------------


@EVERY
@pytest.mark.parametrize(
    ("target", "called"),
    [("toolyard.reference.echo", "toolyard-reference-echo"), ("toolyard.reference:calculator", "toolyard-reference")],
)
def test_a_module_is_installed_by_its_name(
    client: DesktopName, target: str, called: str, home: Path, here: Any
) -> None:
    assert here("install", client, target).code == 0
    assert servers(client, CLIENTS[client].path())[called]["args"] == ["stdio", target]
    assert here("install", client, target, "--undo").code == 0
    assert servers(client, CLIENTS[client].path()) == {}


def test_a_package_is_installed_by_its_name(home: Path, here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    about = home / "site" / "shop_tools-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-tools\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[toolyard.tools]\nshop = shop_tools:kit\n")
    monkeypatch.syspath_prepend(str(home / "site"))
    assert here("install", "cursor", "shop-tools").code == 0
    assert servers("cursor", CLIENTS["cursor"].path())["shop-tools"]["args"] == ["stdio", "shop-tools"]


@pytest.mark.parametrize(
    ("client", "entry"),
    [
        ("claude-code", {"type": "http", "url": "https://yard.example:8443/mcp"}),
        ("cursor", {"url": "https://yard.example:8443/mcp"}),
        ("vscode", {"type": "http", "url": "https://yard.example:8443/mcp"}),
        ("codex", {"url": "https://yard.example:8443/mcp"}),
    ],
)
def test_an_address_is_what_the_client_connects_to(client: DesktopName, entry: Any, home: Path, here: Any) -> None:
    path = written(client)
    before = path.read_text()
    assert here("install", client, entry["url"]).code == 0
    assert servers(client, path)["yard-example-8443"] == entry
    assert "nothing to do" in here("install", client, entry["url"]).out
    moved = here("install", client, "https://elsewhere.example/mcp", "--name", "yard-example-8443")
    assert "has another server called" in moved.err
    assert here("install", client, entry["url"], "--undo").code == 0
    assert path.read_text() == before


@pytest.mark.parametrize("client", ["claude-code", "cursor", "vscode", "codex"])
def test_tools_that_were_started_may_move_to_an_address_and_back(client: DesktopName, home: Path, here: Any) -> None:
    path = written(client)
    here("install", client, "tools.py")
    started = servers(client, path)["tools"]
    assert here("install", client, "http://127.0.0.1:8000/mcp", "--name", "tools").code == 0
    entry = servers(client, path)["tools"]
    assert (entry["url"], entry.get("command"), entry.get("args")) == ("http://127.0.0.1:8000/mcp", None, None)
    assert here("install", client, "http://127.0.0.1:8000/mcp", "--name", "tools", "--undo").code == 0
    here("install", client, "tools.py")
    assert servers(client, path)["tools"] == started


@EVERY
def test_variables_are_written_and_never_shown(
    client: DesktopName, home: Path, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", 'sk-"first"')
    path = written(client)
    given = ("install", client, "tools.py", "--env", "SHOP_KEY", "--env", "REGION=secret-north")
    for ended in (here(*given, "--dry-run"), here(*given)):
        assert ended.code == 0
        assert "SHOP_KEY" in ended.out
        assert not any(value in ended.out + ended.err for value in ("sk-", "secret-north"))
    assert servers(client, path)["tools"]["env"] == {"SHOP_KEY": 'sk-"first"', "REGION": "secret-north"}
    monkeypatch.setenv("SHOP_KEY", "sk-second")
    ended = here("install", client, "tools.py", "--env", "SHOP_KEY")
    assert not any(value in ended.out for value in ("sk-", "secret-north")), "neither the old nor the new"
    assert servers(client, path)["tools"]["env"] == {"SHOP_KEY": "sk-second", "REGION": "secret-north"}
    assert "sk-" not in here("install", client, "tools.py", "--undo").out
    assert list(servers(client, path)) == ["other"]


def test_variables_are_not_in_what_a_person_is_to_paste(home: Path, here: Any) -> None:
    written("vscode", "{} // mine")
    ended = here("install", "vscode", "tools.py", "--env", "KEY=sk-1")
    assert '"KEY": "…"' in ended.err
    assert "sk-1" not in ended.err


def test_a_table_of_variables_is_added_to(home: Path, here: Any) -> None:
    path = written("codex", "")
    here("install", "codex", "tools.py")
    path.write_text(path.read_text() + '\n[mcp_servers.tools.env]\nOLD = "1" # mine\nNEW = "2"\n')
    assert here("install", "codex", "tools.py", "--env", "NEW=3", "--env", "MORE=4").code == 0
    assert servers("codex", path)["tools"]["env"] == {"OLD": "1", "NEW": "3", "MORE": "4"}
    assert "# mine" in path.read_text()


def test_a_projects_file_names_variables_and_does_not_have_them(
    home: Path, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor need they be set here: who sets them is whoever has the project."""
    monkeypatch.delenv("SHOP_KEY", raising=False)
    ended = here("install", "claude-code", "tools.py", "--scope", "project", "--env", "SHOP_KEY", "--env", "A=1")
    assert (ended.code, ended.err) == (0, "")
    entry = servers("claude-code", home / ".mcp.json")["tools"]
    assert entry["env"] == {"SHOP_KEY": "${SHOP_KEY}", "A": "1"}
    assert not CLIENTS["claude-code"].path().exists()
    assert here("install", "claude-code", "tools.py", "--scope", "project", "--undo").code == 0
    assert servers("claude-code", home / ".mcp.json") == {}


@pytest.mark.parametrize(("python", "command"), [(".venv/bin/python", ".venv/bin/toolyard"), (None, "toolyard")])
def test_a_projects_file_has_no_path_of_this_machine(
    python: str | None, command: str, home: Path, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others get it with the project, wherever they have that."""
    if python is not None:
        (home / ".venv/bin").mkdir(parents=True)
        (home / ".venv/bin/toolyard").touch()
        monkeypatch.setattr("sys.executable", str(home / python))
    for target, argument in (("tools.py", "tools.py"), (f"{home}/tools.py", "tools.py"), ("json.tool", "json.tool")):
        assert here("install", "claude-code", target, "--scope", "project", "--name", "shared").code == 0
        entry = servers("claude-code", home / ".mcp.json")["shared"]
        assert (entry["command"], entry["args"]) == (command, ["stdio", argument])
    assert str(home) not in (home / ".mcp.json").read_text()
