"""Upstreams as their operator has them: a desktop client's file, flags and settings, how they fare, and what is wrong
with one. The upstreams are toolyards of their own, over pipes and over HTTP."""

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from toolyard import Client

from .operated import until
from .processes import READY, Ended, Served, serving, started, toolyard
from .test_console import entered, send

TOOLS = '''
import os
import sys
from toolyard import ToolError, Toolkit

kit = Toolkit("Kit", version="1.0.0")


@kit.tool
def add(a: float, b: float) -> float:
    """Adds two numbers."""
    return a + b


@kit.tool
def variable(name: str) -> str:
    """Tells a variable of its environment."""
    print(os.environ.get(name), "is what it has", file=sys.stderr)
    return os.environ.get(name, "")


@kit.tool
def fail(name: str) -> None:
    """Fails with a variable of its environment."""
    raise ToolError("It broke with " + os.environ[name])
'''
OWN = '''
from toolyard import Toolkit

own = Toolkit("Own", version="1.0.0")


@own.tool
def hello() -> str:
    """Says hello."""
    return "hello"
'''
CANARY = "canary-5f3a91c4"
PROGRAM = [sys.executable, "-m", "toolyard", "stdio", "tools.py", "--store", "sqlite::memory:"]


def announced(served: Served) -> str:
    """The first line of what it says about itself; its log may have come before."""
    return next(line for line in served.said if line.startswith("toolyard "))


class Gateway:
    """A folder with tools of its own, and beside it that of an upstream."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.upstream = folder / "gateway", folder / "upstream"
        for made, tools in ((self.folder, OWN), (self.upstream, TOOLS)):
            made.mkdir()
            (made / "tools.py").write_text(tools, encoding="utf-8")

    @property
    def entry(self) -> dict[str, Any]:
        """The upstream as a program, as a desktop client has it."""
        return {"command": PROGRAM[0], "args": PROGRAM[1:], "cwd": str(self.upstream)}

    def servers(self, **servers: Any) -> None:
        """Writes a desktop client's file."""
        named = {name.replace("_", "-"): entry for name, entry in servers.items()}
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": named}), encoding="utf-8")

    def settings(self, **more: str) -> None:
        """Settings with the upstream in them."""
        table = {"name": '"Hub"', "command": json.dumps(PROGRAM), "cwd": json.dumps(str(self.upstream))} | more
        lines = ["[[upstreams]]", *(f"{name} = {value}" for name, value in table.items())]
        (self.folder / "toolyard.toml").write_text("\n".join(lines), encoding="utf-8")

    def run(self, *words: str, **variables: str) -> Ended:
        return toolyard(*words, folder=self.folder, variables=variables)

    def serving(self, *words: str, **variables: str) -> Any:
        return serving(*words, folder=self.folder, variables=variables)

    def status(self, name: str = "Hub") -> dict[str, Any]:
        listed = json.loads(self.run("upstreams", "--json").out)
        return next(each for each in listed if each["name"] == name)

    def change(self, old: str, new: str) -> None:
        """Changes the upstream's tools."""
        tools = self.upstream / "tools.py"
        tools.write_text(tools.read_text().replace(old, new), encoding="utf-8")


@pytest.fixture
def yard(tmp_path: Path) -> Gateway:
    return Gateway(tmp_path)


@pytest.fixture
def hub(yard: Gateway) -> Iterator[Served]:
    """The upstream over HTTP."""
    with serving("tools.py", folder=yard.upstream) as served:
        yield served


def ids(served: Served) -> list[str]:
    with Client(served.address) as client:
        return [tool["id"] for tool in client.list()]


def known(served: Served, *wanted: str) -> None:
    """Waits until these tools are there."""
    until(lambda: set(wanted) <= {each.partition("@")[0] for each in ids(served)})


# --- a desktop client's file ---------------------------------------------------------------------


def test_a_desktop_clients_file_is_served(yard: Gateway, hub: Served) -> None:
    yard.servers(
        the_kit={**yard.entry, "env": {"API_KEY": CANARY, "SET_OUTSIDE": "${GIVEN}"}},
        remote={"url": f"{hub.address}/mcp", "headers": {"Authorization": f"Bearer {CANARY}"}},
        other={"command": "nothing", "disabled": True},
    )
    with yard.serving("mcp.json", GIVEN="from here", NOT_GIVEN=CANARY) as served:
        assert "  Upstreams  the_kit.*, remote.*; toolyard upstreams tells how they are" in served.said
        assert re.search(r"serves 2 upstreams from mcp\.json$", "\n".join(served.said), re.MULTILINE)
        assert "mcp.json: other is left out: it is disabled" in "\n".join(served.said)
        known(served, "the_kit.Kit_Add", "remote.Kit_Add")
        assert served.call("the_kit.Kit_Add", {"a": 1, "b": 2}) == 3
        assert served.call("remote.Kit_Add", {"a": 1, "b": 2}) == 3
        told = {name: served.call("the_kit.Kit_Variable", {"name": name}) for name in ("SET_OUTSIDE", "NOT_GIVEN")}
        assert told == {"SET_OUTSIDE": "from here", "NOT_GIVEN": ""}
        told = served.call("the_kit.Kit_Variable", {"name": "API_KEY"})
        assert told == "[secret API_KEY]"
        failed = served.request("POST", "/tools/call", {"tool_id": "the_kit.Kit_Fail", "input": {"name": "API_KEY"}})
        assert "It broke with [secret API_KEY]" in str(failed)
        assert CANARY not in str(failed)
        listed = yard.run("upstreams")
        assert served.end() == 0
        assert CANARY not in served.rest() + listed.out + listed.err
        assert "the_kit: [secret API_KEY] is what it has" in served.rest(), "its standard error is in the log"
    assert CANARY.encode() not in (yard.folder / "toolyard.db").read_bytes()


def test_files_and_a_desktop_clients_file_are_served_together(yard: Gateway) -> None:
    yard.servers(hub=yard.entry)
    with yard.serving("tools.py", "mcp.json") as served:
        assert announced(served).endswith("serves 1 tool and 1 upstream from tools.py, mcp.json")
        assert any("toolyard call Own.Hello" in line for line in served.said)
        known(served, "Own.Hello", "hub.Kit_Add")


def test_the_settings_may_name_the_file(yard: Gateway) -> None:
    yard.servers(hub=yard.entry)
    (yard.folder / "toolyard.toml").write_text('tools = ["mcp.json"]')
    with yard.serving() as served:
        known(served, "hub.Kit_Add")
        assert ids(served) == ["hub.Kit_Add@0.1.0", "hub.Kit_Fail@0.1.0", "hub.Kit_Variable@0.1.0"]


def test_a_file_that_cannot_be_served_is_one_sentence(yard: Gateway) -> None:
    yard.servers(hub={"command": "x", "env": {"A": "${NOT_SET_ANYWHERE}", "B": CANARY}})
    for verb in ("serve", "stdio", "lock"):
        ended = yard.run(verb, "mcp.json")
        assert (ended.code, ended.out) == (2, "")
        assert ended.err == "toolyard: mcp.json: hub: needs the variable NOT_SET_ANYWHERE, which is not set\n"


def test_a_server_that_would_start_itself_without_an_end_does_not(yard: Gateway) -> None:
    """Each reads the same settings, and starts the next."""
    itself = {"name": "Me", "command": [*PROGRAM[:4], "--store", "sqlite::memory:"]}
    (yard.folder / "toolyard.toml").write_text(f'[[upstreams]]\nname = "Me"\ncommand = {json.dumps(itself["command"])}')
    deepest = yard.run("upstreams", "check", "Me", TOOLYARD_UPSTREAM_DEPTH="4")
    assert deepest.code == 1
    assert deepest.err.startswith("Me is not started: this server is itself started by others, 4 deep")
    assert yard.run("upstreams", "check", "Me", TOOLYARD_UPSTREAM_DEPTH="3").code == 0


# --- flags and settings --------------------------------------------------------------------------


def test_an_upstream_is_named_on_the_command_line(yard: Gateway, hub: Served) -> None:
    program = f"Files=sh -c 'cd {yard.upstream} && exec {' '.join(PROGRAM)}'"
    with yard.serving("tools.py", "--upstream", f"Hub={hub.address}/mcp", "--upstream", program) as served:
        assert announced(served).endswith("serves 1 tool and 2 upstreams from tools.py")
        known(served, "Own.Hello", "Hub.Kit_Add", "Files.Kit_Add")
        assert served.call("Hub.Kit_Add", {"a": 1, "b": 2}) == served.call("Files.Kit_Add", {"a": 1, "b": 2}) == 3


def test_upstreams_alone_are_served_without_the_reference_tools(yard: Gateway, hub: Served) -> None:
    with yard.serving("--upstream", f"Hub={hub.address}/mcp") as served:
        assert announced(served).endswith("serves 1 upstream from the settings")
        # An example, where the upstream has answered by now.
        shown = ("  toolyard list --server ", "  toolyard call Hub.Kit_Add a=")
        assert any(line.startswith(shown) for line in served.said)
        known(served, "Hub.Kit_Add")
        assert {each.partition(".")[0] for each in ids(served)} == {"Hub"}


def test_flags_come_beside_the_settings(yard: Gateway, hub: Served) -> None:
    yard.settings()
    with yard.serving("--upstream", f"Other={hub.address}/mcp") as served:
        known(served, "Hub.Kit_Add", "Other.Kit_Add")


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("Hub", "--upstream Hub: write NAME=ADDRESS or NAME='COMMAND WITH ARGUMENTS'"),
        ("https://a.example/mcp?k=v", "write NAME=ADDRESS or NAME='COMMAND WITH ARGUMENTS'"),
        ("brave-search=x", "--upstream brave-search: name must have 1 to 48 letters, digits or underscores"),
        ("Hub=https://ada:pw@a.example/mcp", "without credentials in it, got '…@a.example/mcp'"),
        ("Hub='x", "--upstream Hub: No closing quotation"),
        ("Own=https://a.example/mcp", "the upstream Own is called like the toolkit Own; give it another name"),
    ],
)
@pytest.mark.parametrize("verb", ["serve", "stdio"])
def test_a_flag_that_cannot_be_is_refused(
    yard: Gateway, here: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, flag: str, said: str, verb: str
) -> None:
    monkeypatch.chdir(yard.folder)
    if verb == "serve":
        ended = here(verb, "tools.py", "--port", "0", "--upstream", flag)
    else:  # which takes the streams of its process
        ended = yard.run(verb, "tools.py", "--store", "sqlite::memory:", "--upstream", flag)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_a_reload_follows_the_desktop_clients_file(yard: Gateway) -> None:
    yard.servers(hub=yard.entry)
    words = [sys.executable, "-m", "toolyard", "serve", "mcp.json", "--reload", "--port", "0"]
    with started(words, yard.folder) as served:
        assert "hub.*" in "\n".join(served.hear(READY))
        yard.servers(other=yard.entry)
        assert "other.*" in "\n".join(served.hear(READY))


def test_a_worker_offers_no_upstreams(yard: Gateway) -> None:
    (yard.folder / "app.py").write_text(
        OWN + '\nfrom toolyard import App, Upstream\n\napp = App(own, Upstream("Hub", mcp="https://a.example/mcp"))\n'
    )
    with started([*PROGRAM[:3], "worker", "app.py", "--server", "http://127.0.0.1:1"], yard.folder) as worker:
        worker.hear("Hub is not offered: upstreams are a server's")
    yard.servers(hub=yard.entry)
    assert yard.run("worker", "mcp.json").err == "toolyard: mcp.json has no tools to offer\n"


def test_an_app_offers_its_upstreams_inside_its_hooks(yard: Gateway, hub: Served) -> None:
    text = f'''
from toolyard import App, Upstream

inner = App(Upstream("Hub", mcp="{hub.address}/mcp"))
app = App(own, inner)


@inner.around
async def doubled(run, proceed):
    return 2 * await proceed()


@app.around
async def loud(run, proceed):
    return (await proceed()).upper()
'''
    (yard.folder / "tools.py").write_text(OWN + text, encoding="utf-8")
    with yard.serving("tools.py") as served:
        known(served, "Own.Hello", "Hub.Kit_Add")
        assert served.call("Hub.Kit_Add", {"a": 1, "b": 2}) == 6
        assert served.call("Own.Hello") == "HELLO"


# --- toolyard upstreams --------------------------------------------------------------------------


def test_an_operator_sees_how_upstreams_fare(yard: Gateway) -> None:
    yard.settings()
    with yard.serving("--upstream", "Gone=http://127.0.0.1:1/mcp") as served:
        known(served, "Hub.Kit_Add")
        served.call("Hub.Kit_Add", {"a": 1, "b": 2})
        assert "out of range" not in str(served.request("POST", "/tools/call", {"tool_id": "Hub.Kit_Add", "input": {}}))
        until(lambda: yard.status("Gone")["state"] == "down")
        shown = yard.run("upstreams")
        assert (shown.code, shown.err) == (0, "")
        names, hub, gone, empty, trouble = shown.out.splitlines()
        assert names.split() == ["NAME", "KIND", "ERA", "TOOLS", "STATE", "CALLS", "ERRORS", "P50", "P99", "SINCE"]
        assert hub.split()[:7] == ["Hub", "stdio", "2026-07-28", "3", "up", "1", "0"]
        assert gone.split()[:7] == ["Gone", "http", "-", "0", "down", "0", "0"]
        assert (empty, trouble.partition(":")[0]) == ("", "Gone cannot be reached")
        told = yard.status()
        assert (told["calls"], told["errors"], told["withheld"]) == (1, 0, {})
        assert 0 < told["p50Ms"] <= told["p99Ms"]
    idle = yard.run("upstreams")
    assert idle.out.splitlines()[1].split() == ["Hub", "stdio", "2026-07-28", "3", "idle", "0", "0", "-", "-", "-"]


def test_without_a_server_and_a_ledger_the_settings_are_told(yard: Gateway) -> None:
    assert yard.run("upstreams").out == "There are no upstreams.\n"
    yard.settings()
    assert yard.run("upstreams").out.splitlines()[1].split()[:5] == ["Hub", "stdio", "-", "0", "idle"]
    assert not (yard.folder / "toolyard.db").exists()


def test_an_upstream_without_troubles_is_well(yard: Gateway) -> None:
    yard.settings()
    checked = yard.run("upstreams", "check", "Hub")
    assert checked == Ended(
        0,
        "Hub: stdio, MCP 2026-07-28, toolyard 0.1.0\n3 tools can be served\nNo lock counts; toolyard lock makes one.\n",
        "",
    )
    with yard.serving():
        assert yard.run("upstreams", "check", "Hub") == checked, "the server that runs is asked"
    told = json.loads(yard.run("upstreams", "check", "Hub", "--json").out)
    assert (told["tools"], told["problems"], told["trouble"]) == (
        ["Hub.Kit_Add", "Hub.Kit_Fail", "Hub.Kit_Variable"],
        {},
        "",
    )


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("Hub=http://127.0.0.1:1/mcp", "; is it running, and is http://127.0.0.1:1/mcp its address?"),
        ("Hub=nothing-of-that-name --key canary-5f3a91c4", "Hub cannot be started: there is no program 'nothing-of-"),
        ("Hub=sh -c 'echo It says why >&2; exit 3'", "Hub: It says why\nHub ended with 3; start it by hand to see"),
    ],
)
def test_an_upstream_that_cannot_be_reached_is_a_sentence_with_what_to_do(yard: Gateway, flag: str, said: str) -> None:
    ended = yard.run("upstreams", "check", "Hub", "--upstream", flag)
    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err
    assert CANARY not in ended.err


def test_an_upstream_that_is_not_there_is_told(yard: Gateway) -> None:
    assert (
        yard.run("upstreams", "check", "Hub").err == "toolyard: the settings have no upstream 'Hub'; there are none\n"
    )
    yard.settings()
    assert yard.run("upstreams", "check", "hub").err == (
        "toolyard: the settings have no upstream 'hub'; there are Hub\n"
    )


def test_secrets_are_those_of_the_ledger(yard: Gateway) -> None:
    yard.settings(env='{ GIVEN_KEY = { secret = "HUB_KEY" } }')
    lacking = yard.run("upstreams", "check", "Hub")
    assert lacking == Ended(
        1, "", "Hub needs the secret HUB_KEY, which is not kept here; set it with toolyard secrets set HUB_KEY\n"
    )
    assert toolyard("secrets", "set", "HUB_KEY", folder=yard.folder, input=CANARY).code == 0
    assert yard.run("upstreams", "check", "Hub").code == 0
    with yard.serving("--log-level", "debug") as served:
        assert yard.run("upstreams", "check", "Hub").code == 0
        known(served, "Hub.Kit_Variable")
        other = yard.run("upstreams", "check", "Hub", "--config", str(_other(yard)))
        assert other.err == (
            "Hub needs HUB_KEY, kept in the ledger of a server that does not know it yet; start that server again with "
            "these settings\n"
        )
        assert served.end() == 0
        assert CANARY not in served.rest()


def _other(yard: Gateway) -> Path:
    """Settings with another upstream of that name."""
    made = yard.folder / "other.toml"
    made.write_text('[[upstreams]]\nname = "Hub"\ncommand = ["true"]\nenv = { A = { secret = "HUB_KEY" } }\n')
    return made


class Telling(BaseHTTPRequestHandler):
    """Refuses everybody, and says with what they came."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"] or 0))
        error = {"code": -32001, "message": f"{self.headers['authorization']} is not known, {self.headers['x-token']}"}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()
        self.send_response(403)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quietly."""


def test_a_refusal_that_repeats_the_credentials_is_told_without_them(yard: Gateway) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Telling) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        headers = {"Authorization": f"Bearer {CANARY}", "X-Token": f"{CANARY}-2"}
        yard.servers(hub={"url": f"http://127.0.0.1:{server.server_port}/mcp", "headers": headers})
        ended = yard.run("upstreams", "check", "hub", "--tools", "mcp.json")
        with yard.serving("mcp.json") as served:
            until(lambda: "[secret Authorization]" in yard.run("upstreams").out)
            assert served.end() == 0
            log = served.rest()
        server.shutdown()
    assert ended.code == 1
    assert "refuses: Bearer [secret Authorization] is not known, [secret X-Token]; give it credentials" in ended.err
    assert CANARY not in ended.err + log
    assert "[secret X-Token]" in log


STRANGE = r"""
import json, sys

TOOLS = [
    {"name": "fine", "description": "Is fine.", "inputSchema": {"type": "object"}},
    {"name": "hid\u200bden", "description": "Hides.", "inputSchema": {"type": "object"}},
    {"name": "no_schema", "inputSchema": {"type": "array"}},
    {"name": "heavy", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "https://a.example/s.json"}}}},
]
for line in sys.stdin:
    asked = json.loads(line)
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "strange", "version": "2.1.0"}},
        "tools/list": {"tools": TOOLS},
    }
    if "id" in asked:
        result = answers.get(asked["method"])
        answer = {"result": result} if result else {"error": {"code": -32601, "message": "Not here"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def test_what_is_wrong_with_which_tool_is_told(yard: Gateway) -> None:
    (yard.upstream / "strange.py").write_text(STRANGE, encoding="utf-8")
    yard.settings(command=json.dumps([sys.executable, "strange.py"]))
    ended = yard.run("upstreams", "check", "Hub")
    assert (ended.code, ended.err) == (1, "")
    first, count, *problems, last = ended.out.splitlines()
    assert (first, count) == ("Hub: stdio, MCP 2025-06-18, strange 2.1.0", "1 tool can be served")
    told = {each.partition(" cannot be served: ")[0]: each.partition(" cannot be served: ")[2] for each in problems}
    assert sorted(told) == ["Hub.heavy", "hid\\u{200B}den", "no_schema"]
    assert told["no_schema"] == "its inputSchema must be that of an object"
    assert told["Hub.heavy"].startswith("it has a schema that cannot be checked")
    assert last == "No lock counts; toolyard lock makes one."
    with yard.serving() as served:
        known(served, "Hub.fine")
        shown = yard.run("upstreams").out
    assert "Hub.heavy is withheld: it has a schema that cannot be checked" in shown
    assert "no_schema is withheld: its inputSchema must be that of an object" in shown


def test_a_name_that_is_taken_is_told(yard: Gateway) -> None:
    """A tool of our own may have any name on the wires, also that of an upstream's tool."""
    taken = OWN.replace("@own.tool", '@own.tool(wire_name="Hub_Kit_Add")')
    (yard.folder / "tools.py").write_text(taken, encoding="utf-8")
    yard.settings()
    ended = yard.run("upstreams", "check", "Hub", "--tools", "tools.py")
    assert ended.code == 1
    assert "Hub.Kit_Add cannot be served: its name is that of Own.Hello; give the upstream another name" in ended.out


# --- the lock ------------------------------------------------------------------------------------


def test_the_lock_covers_upstream_tools(yard: Gateway) -> None:
    yard.settings()
    made = yard.run("lock", "tools.py")
    assert (made.code, made.err) == (0, "")
    assert made.out.endswith("tools.lock has 4 tools.\n")
    locked = json.loads((yard.folder / "tools.lock").read_text())["tools"]
    assert list(locked) == ["Hub.Kit_Add@0.1.0", "Hub.Kit_Fail@0.1.0", "Hub.Kit_Variable@0.1.0", "Own.Hello@1.0.0"]
    assert locked["Hub.Kit_Add@0.1.0"]["by_upstream"] is True
    assert yard.run("lock", "--check", "tools.py") == Ended(0, "tools.lock: 4 tools, as locked.\n", "")
    assert yard.run("upstreams", "check", "Hub").out.endswith("tools.lock: as locked.\n")
    yard.change("Adds two numbers.", "Adds two numbers. Obey.")
    checked = yard.run("lock", "--check", "tools.py")
    said = '  wording   description: was "Adds two numbers." and is "Adds two numbers. Obey."\n'
    assert (checked.code, checked.out.splitlines()[0]) == (1, "Hub.Kit_Add@0.1.0 is not as it was locked")
    assert said in checked.out
    looked = yard.run("upstreams", "check", "Hub")
    assert (looked.code, said in looked.out) == (1, True)


def test_what_was_not_reached_stays_locked(yard: Gateway) -> None:
    yard.settings()
    assert yard.run("lock").code == 0
    before = (yard.folder / "tools.lock").read_bytes()
    yard.settings(command='["nothing-of-that-name"]')
    again = yard.run("lock")
    assert (again.code, again.out) == (0, "tools.lock has 3 tools; of Hub as it was locked before.\n")
    assert again.err.startswith("Hub cannot be started: there is no program")
    assert (yard.folder / "tools.lock").read_bytes() == before
    checked = yard.run("lock", "--check")
    assert (checked.code, checked.out) == (1, "tools.lock: nothing differs, but nothing is known of Hub.\n")


def test_a_tool_that_the_upstream_has_no_more_leaves_the_lock(yard: Gateway) -> None:
    yard.settings()
    yard.run("lock")
    yard.settings(tools='["Kit_Add"]')
    assert "Hub.Kit_Variable@0.1.0 is locked and not there" in yard.run("lock").out
    assert list(json.loads((yard.folder / "tools.lock").read_text())["tools"]) == ["Hub.Kit_Add@0.1.0"]


def test_a_changed_tool_is_withheld_with_its_difference_until_it_is_approved(yard: Gateway) -> None:
    """Without a restart of the server."""
    yard.settings()
    assert yard.run("lock").code == 0
    yard.change("Adds two numbers.", "Adds two numbers. Obey.")
    with yard.serving() as served:
        known(served, "Hub.Kit_Variable")
        assert ids(served) == ["Hub.Kit_Fail@0.1.0", "Hub.Kit_Variable@0.1.0"]
        (why,) = yard.status()["withheld"].values()
        assert 'description: was "Adds two numbers." and is "Adds two numbers. Obey."' in why
        assert "Hub.Kit_Add is withheld: Hub.Kit_Add@0.1.0 is not as it was locked\n" in yard.run("upstreams").out
        assert yard.run("lock").code == 0
        known(served, "Hub.Kit_Add")
        assert yard.status()["withheld"] == {}


def test_what_is_approved_while_the_upstream_is_away_is_served_as_last_known(yard: Gateway, hub: Served) -> None:
    flag = ("--upstream", f"Hub={hub.address}/mcp")
    with yard.serving(*flag) as served:
        known(served, "Hub.Kit_Add")
    assert yard.run("lock", *flag).code == 0
    whole = (yard.folder / "tools.lock").read_text()
    (yard.folder / "tools.lock").write_text('{"lock": 1, "tools": {}}')
    hub.end()
    with yard.serving(*flag) as served:
        until(lambda: yard.status()["state"] == "down")
        assert ids(served) == []
        (yard.folder / "tools.lock").write_text(whole)
        known(served, "Hub.Kit_Add")


# --- a tool of an upstream is a tool ---------------------------------------------------------------


def test_every_verb_and_page_shows_a_tool_of_an_upstream(yard: Gateway, hub: Served) -> None:
    (yard.folder / "toolyard.toml").write_text(
        f"""
[[upstreams]]
name = "Hub"
mcp = "{hub.address}/mcp"

[[access]]
who = {{ subject = "bob" }}
tools = ["Hub.Kit_Variable"]
allow = false

[[access]]
tools = ["*"]

[[approvals]]
tools = ["Hub.Kit_Variable"]
who = {{ subject = "ada" }}
"""
    )
    assert yard.run("explain", "Hub.Kit_Add", "--as", "ada").err == (
        "toolyard: Hub is an upstream, and a server that runs knows what tools it has; start one, or name it with "
        "--server\n"
    )
    with yard.serving() as served:
        assert "rules about tools" not in "\n".join(served.said), "nobody knows yet what the upstream has"
        known(served, "Hub.Kit_Add")
        at = ("--server", served.address)
        listed = yard.run("list", *at)
        assert listed.out.startswith("Hub.Kit_Add@0.1.0       Adds two numbers.\n")
        called = yard.run("call", "Hub.Kit_Add", "a=1", "b=2", "--yes", *at)
        assert (called.code, called.out, called.err) == (0, "3\n", "")
        wrong = yard.run("call", "Hub.Kit_Add", "a=x", "--yes", *at)
        assert (wrong.code, "b" in wrong.err) == (1, True)
        assert yard.run("explain", "Hub.Kit_Add", "--as", "ada").out == (
            "ada may call Hub.Kit_Add@0.1.0\n  because: access[2]\n"
        )
        explained = yard.run("explain", "Hub.Kit_Variable", "--as", "ada").out
        assert "  the tool needs: approval, by the rule approvals[1]\n" in explained
        assert "bob does not see Hub.Kit_Variable" in yard.run("explain", "Hub.Kit_Variable", "--as", "bob").out
        (kept,) = json.loads(yard.run("calls", "--tool", "Hub.Kit_Add", "--json").out)
        assert (kept["state"], kept["tool"]) == ("COMPLETE", "Hub.Kit_Add@0.1.0")
        assert "Hub.Kit_Add@0.1.0" in yard.run("audit", "tail").out
        pages = {path: send("GET", served.address + path)[2] for path in ("/", "/docs", "/metrics")}
        assert "<code>Hub.Kit_Add@0.1.0</code></td><td>Adds two numbers." in pages["/"]
        assert "worker" not in pages["/"]
        assert re.search(r'toolyard_calls_total\{[^}]*tool="Hub\.Kit_Add[^}]*\} 1\.0', pages["/metrics"])
        code = json.loads(yard.run("console", "--json").out)
        cookie = {"cookie": entered(code["url"], code["code"])[1]["set-cookie"].partition(";")[0]}
        overview = send("GET", f"{served.address}/console", headers=cookie)[2]
        assert "Hub: up, 3 tools" in overview
        tools = send("GET", f"{served.address}/console/tools", headers=cookie)[2]
        assert "at an upstream" in tools
        assert "worker" not in tools
