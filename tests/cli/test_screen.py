"""What callers, tools and other servers wrote, as verbs print it: nothing hidden is left in it, and JSON is exact."""

import ast
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import toolyard.cli
from toolyard.cli.support.screen import in_json, pretty, table
from toolyard.cli.verbs import VERBS
from toolyard.text.hidden import has_hidden

from .processes import Ended, Served, serving

ESCAPES = "a\x1b[2J\x9b8m\x07\u202eexe.gpj\u2066\U000e0041\u200bz"
SPELLED = "a\\u{1B}[2J\\u{9B}8m\\u{7}\\u{202E}exe.gpj\\u{2066}\\u{E0041}\\u{200B}z"
TURNED = "k\u202e\u2066"
"""As an id, which has no control characters."""
TOOLS = f'''
import time
from pathlib import Path

from toolyard import Toolkit, ToolError

ESCAPES = {ESCAPES!r}
kit = Toolkit("Kit", version="1.0.0")


@kit.tool
def say(text: str = "") -> str:
    """Says it."""
    return text or ESCAPES


@kit.tool
def lay() -> dict:
    """Lays it out."""
    return {{ESCAPES: [ESCAPES]}}


@kit.tool
def fail() -> None:
    """Fails."""
    raise ToolError(ESCAPES, developer_message=ESCAPES, additional_prompt_content=ESCAPES)


@kit.tool(approval="always")
def ask(text: str) -> str:
    """Asks first."""
    return text
'''
CALLS = ("Kit.Say", "--input", json.dumps({"text": ESCAPES}))
ROWS: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "call": [
        (CALLS, SPELLED),
        ((*CALLS, "--json"), ESCAPES),
        (("Kit.Lay",), ESCAPES),
        (("Kit.Fail",), SPELLED),
        (("Kit.Fail", "--json"), ESCAPES),
        (("Kit.Say", "--input", json.dumps({TURNED: ESCAPES})), "\\u{202E}"),
        ((f"Kit.{TURNED}",), "\\u202e"),
    ],
    "list": [((), SPELLED), (("--json",), ESCAPES)],
    "calls": [((), "\\u{202E}"), (("--json",), TURNED)],
    "show": [((TURNED,), TURNED), ((TURNED + "0",), "")],
    "cancel": [((TURNED,), "\\u{202E}"), ((TURNED, "--json"), TURNED)],
    "resolve": [((TURNED, "--rerun"), "")],
    "approvals": [((), "\\u009b"), (("--json",), ESCAPES)],
    "approve": [(("2",), "\\u{202E}")],
    "reject": [(("3", "--reason", ESCAPES), "\\u{202E}")],
    "explain": [((f"Kit.{TURNED}", "--as", "a"), "\\u202e"), (("Kit.Say", "--as", TURNED), "\\u{202E}")],
    "audit": [(("tail",), "\\u{202E}"), (("tail", "--json"), TURNED), (("export",), TURNED)],
    "secrets": [(("set", TURNED), "\\u202e"), (("remove", TURNED), "\\u202e"), (("list",), "")],
    "keys": [(("new", TURNED), "\\u202e"), (("revoke", TURNED), "\\u202e")],
    "connections": [(("disconnect", TURNED, "--user", TURNED), "\\u{202E}")],
    "upstreams": [((), ""), (("--json",), ""), (("check", TURNED), "\\u202e")],
    "lock": [((f"{TURNED}.py",), "\\u{202E}")],
    "new": [((TURNED,), "\\u202e")],
    "install": [(("claude", f"{TURNED}.py"), "\\u{202E}")],
    "token": [(("--claim", TURNED), "")],
    "backup": [((f"{TURNED}.db", "--store", f"sqlite:{TURNED}"), "\\u{202E}"), ((f"{TURNED}.db",), "\\u{202E}")],
    "restore": [((TURNED,), "\\u{202E}"), ((TURNED, "--json"), "\\u{202E}")],
    "doctor": [(("--store", f"sqlite:{TURNED}.db"), "\\u{202E}"), (("--store", f"sqlite:{TURNED}.db", "--json"), "")],
    "console": [(("--store", f"sqlite:{TURNED}.db"), "")],
}
"""Each verb, what it is asked, and what is then in what it says: spelled out, or as what the JSON means."""
OTHERS = {
    "demo": "its own words, in a screen of its own",
    "serve": "its announcement has names that were checked; its log is tested with the server's",
    "stdio": "writes the protocol alone, and a log",
    "worker": "as serve",
    "settings": "its own words",
}
CLI = Path(toolyard.cli.__file__).parent


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a call of each kind in its ledger."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    with serving("tools.py", folder=folder) as served:
        given = {"text": ESCAPES}
        served.folder = folder  # type: ignore[attr-defined]
        served.request("POST", "/tools/call", {"tool_id": "Kit.Say", "call_id": TURNED, "input": given})
        for letter in "abc":
            served.request("POST", "/tools/call", {"tool_id": "Kit.Ask", "call_id": TURNED + letter, "input": given})
        served.request("POST", "/tools/call", {"tool_id": f"Kit.{TURNED}"})
        yield served


@pytest.fixture(scope="module")
def stranger() -> Iterator[str]:
    """A server of another make, which lists what it likes."""
    tool = {"id": f"Kit.Odd{ESCAPES}\n@1.0.0", "name": "Odd", "description": ESCAPES, "input_schema": {}}

    class Lists(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"tools": [tool], "items": [tool]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Lists) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("verb", ROWS)
def test_nothing_that_a_verb_prints_hides_anything(
    verb: str, hostile: Any, stranger: str, here: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile.folder)
    if verb in ("call", "list"):
        monkeypatch.setenv("TOOLYARD_SERVER", hostile.address if verb == "call" else stranger)
    for arguments, expected in ROWS[verb]:
        ended = here(verb, *arguments)
        assert not has_hidden(ended.out + ended.err), arguments
        if expected in (ESCAPES, TURNED):
            assert expected in texts_in(ended.out), arguments
        else:
            assert expected in ended.out + ended.err, arguments


def test_every_verb_is_looked_at_or_has_a_reason_not_to_be() -> None:
    assert set(ROWS) | set(OTHERS) == set(VERBS)
    assert not set(ROWS) & set(OTHERS)


@pytest.mark.parametrize("file", sorted(CLI.glob("*.py")), ids=lambda file: file.stem)
def test_verbs_write_through_the_screen_alone(file: Path) -> None:
    """Also those that are yet to be written."""
    if file.name == "screen.py":
        return
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            said = ast.unparse(node.func)
            assert said not in ("print", "traceback.print_exc", "typer.echo", "typer.secho"), node.lineno
            assert said not in ("sys.stdout.write", "sys.stderr.write"), node.lineno


def test_a_cell_of_a_table_is_one_line() -> None:
    shown = table(("NAME",), [[f"{ESCAPES}\nforged\t"]])
    assert shown.splitlines() == ["NAME", f"{SPELLED}\\u{{A}}forged\\u{{9}}"]


@pytest.mark.parametrize("write", [pretty, in_json])
def test_json_is_exact(write: Callable[[Any], str]) -> None:
    value = {ESCAPES: [ESCAPES, "\u06cc\u200c\u062e", 1.5, None]}
    assert json.loads(write(value)) == value
    assert not has_hidden(write(value))


def texts_in(said: str) -> list[str]:
    """All texts in JSON, also in lines of it: names and values."""
    try:
        values = [json.loads(said)]
    except ValueError:
        values = [json.loads(line) for line in said.splitlines()]
    found: list[str] = []
    while values:
        value = values.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            values += [*value, *value.values()]
        elif isinstance(value, list):
            values += value
    return found
