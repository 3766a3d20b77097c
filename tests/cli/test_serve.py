"""`toolyard serve`: what it prints works, what it refuses it refuses in one sentence, and it leaves when told to."""

import os
import re
import shlex
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from .processes import Ended, Served, send, serving, starting, toolyard

KEY = "ty_0123456789abcdef"
README = '''
from toolyard import Toolkit

calculator = Toolkit("Calculator", version="1.0.0", description="Arithmetic.")

@calculator.tool
def add(a: float, b: float) -> float:
    """Adds two numbers together.

    Args:
        a: The first number to add.
        b: The second number to add.
    """
    return a + b
'''
QUOTED = '''
from typing import Literal

from pydantic import BaseModel

from toolyard import Toolkit

kit = Toolkit("Quoted")

class Name(BaseModel):
    first: Literal["it's \\"me\\""]

@kit.tool
def say(name: Name, words: list[str], loud: bool) -> str:
    """Says."""
    return f"{name.first} {words} {loud}"
'''


def curl(line: str, **variables: str) -> Any:
    """Does what a shell and curl would do with a line."""
    for name, value in variables.items():
        line = line.replace(f"${name}", value)
    program, url, *options = shlex.split(line)
    given = list(zip(options[::2], options[1::2], strict=True))
    headers = dict(re.split(": ?", value, maxsplit=1) for option, value in given if option == "-H")
    body = next(value for option, value in given if option == "-d")
    assert program == "curl"
    return send("POST", url, body, headers)


def printed(served: Served, program: str) -> str:
    return next(line.strip() for line in served.said if line.startswith(f"  {program} "))


# --- what it prints ------------------------------------------------------------------------------


def test_it_prints_everything_that_is_needed_next(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(README, encoding="utf-8")
    with serving("tools.py", folder=tmp_path) as served:
        base = served.address
        assert served.said == [
            "toolyard 0.1.0 serves 1 tool from tools.py",
            "",
            f"  OXP 1.0    {base}",
            f"  OTC 1.0    {base}/otc",
            f"  OTC draft  {base}/otc/draft",
            f"  MCP        {base}/mcp",
            f"  Docs       {base}/docs",
            "",
            f"  curl {base}/tools/call -H 'content-type: application/json' "
            """-d '{"tool_id":"Calculator.Add","input":{"a":1,"b":1}}'""",
            f"  toolyard call Calculator.Add a=1 b=1 --server {base}",
            "",
            "Stop with Ctrl-C.",
        ]
        assert curl(printed(served, "curl"))["value"] == 2
        for path in ("/tools", "/otc/tools", "/otc/draft/tools"):
            assert len(next(value for value in served.request("GET", path).values() if isinstance(value, list))) == 1
        line = shlex.split(printed(served, "toolyard"))
        assert toolyard(*line[1:], folder=tmp_path) == Ended(0, "2\n", "")


@pytest.mark.parametrize("tools", [[], ["quoted.py"]], ids=["reference", "quotes"])
def test_both_lines_work_as_they_are_printed(tmp_path: Path, tools: list[str]) -> None:
    (tmp_path / "quoted.py").write_text(QUOTED, encoding="utf-8")
    with serving(*tools, folder=tmp_path) as served:
        assert curl(printed(served, "curl"))["success"] is True
        assert toolyard(*shlex.split(printed(served, "toolyard"))[1:], folder=tmp_path).code == 0


def test_without_a_file_it_serves_the_reference_toolkits(tmp_path: Path) -> None:
    with serving(folder=tmp_path) as served:
        assert served.said[0] == "toolyard 0.1.0 serves 7 tools from the reference toolkits"
        assert served.call("Calculator.Add", {"a": 10, "b": 5}) == 15


@pytest.mark.parametrize("variable", ["TOOLYARD_API_KEYS", "TOOLYARD_JWT_SECRET"])
def test_with_authentication_the_lines_have_a_place_for_the_key(tmp_path: Path, variable: str) -> None:
    with serving("--host", "0.0.0.0", folder=tmp_path, variables={variable: KEY}) as served:
        line = printed(served, "curl")
        assert served.address.startswith("http://127.0.0.1:")
        assert KEY not in "\n".join(served.said)
        assert '"authorization: Bearer $KEY"' in line
        assert printed(served, "toolyard").endswith('--key "$KEY"')
        assert curl(line, KEY="ty_wrong_wrong_wrong")["message"] == "The credentials are not valid"
        if variable == "TOOLYARD_API_KEYS":
            assert curl(line, KEY=KEY)["success"] is True


def test_settings_come_from_the_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "quoted.py").write_text(QUOTED, encoding="utf-8")
    (tmp_path / "toolyard.toml").write_text('tools = ["quoted.py"]\nport = 1\n', encoding="utf-8")
    with serving(folder=tmp_path) as served:
        assert served.said[0] == "toolyard 0.1.0 serves 1 tool from quoted.py"


def test_several_files_and_modules_are_served_together(tmp_path: Path) -> None:
    (tmp_path / "quoted.py").write_text(QUOTED, encoding="utf-8")
    (tmp_path / "tools.py").write_text(README, encoding="utf-8")
    with serving("quoted.py", "tools.py:calculator", "toolyard.reference.echo", "quoted.py", folder=tmp_path) as served:
        ids = [tool["id"].partition("@")[0] for tool in served.request("GET", "/tools")["items"]]
    assert ids == ["Calculator.Add", "Echo.Say", "Quoted.Say"]


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6")
def test_an_ipv6_address_is_printed_as_a_shell_wants_it(tmp_path: Path) -> None:
    with serving("--host", "::1", folder=tmp_path) as served:
        assert served.address.startswith("http://[::1]:")
        assert printed(served, "curl").startswith("curl 'http://[::1]:")
        assert curl(printed(served, "curl"))["success"] is True


# --- what it refuses -----------------------------------------------------------------------------

KIT = "from toolyard import App, Toolkit\nkit = Toolkit('Kit', version='1.0.0')\n"
TOOL = "@kit.tool\ndef ping() -> str:\n    'Pings.'\n    return 'pong'\n"
FILES = {
    "good.py": KIT + TOOL,
    "same.py": KIT + TOOL,
    "wire.py": KIT.replace("'Kit'", "'Other'") + TOOL.replace("tool\n", "tool(wire_name='Kit_Ping')\n"),
    "syntax.py": "x = 1\ndef (:\n",
    "raises.py": "x = 1\n1 / 0\n",
    "untyped.py": KIT + TOOL.replace("()", "(a)"),
    "recursive.py": "from pydantic import BaseModel\nclass Tree(BaseModel):\n    below: list['Tree']\n"
    + KIT + TOOL.replace("()", "(a: Tree)"),
    "empty.py": "x = 1\n",
    "apps.py": KIT + TOOL + "one = App(kit)\ntwo = App(kit)\n",
    "odd.toml": "port = 1\nprot = 2\n",
}  # fmt: skip

REFUSED: list[tuple[str, list[str], dict[str, str], str]] = [
    ("no file", ["none.py"], {}, "none.py does not exist"),
    ("syntax", ["syntax.py"], {}, "syntax.py:2: syntax error: invalid syntax"),
    ("exception", ["raises.py"], {}, "raises.py:2: cannot be loaded, it raised ZeroDivisionError: division by zero"),
    ("no type", ["untyped.py"], {}, "untyped.py:3: ping has a parameter 'a' without a type; write for example a: str"),
    ("recursion", ["recursive.py"], {}, "recursive.py:6: ping uses the type Tree, which contains itself; use a flat "),
    ("same id", ["good.py", "same.py"], {}, "same.py:3: Kit.Ping@1.0.0 is defined twice, the other time at good.py:3"),
    ("same name", ["good.py", "wire.py"], {}, "wire.py:3: Other.Ping and Kit.Ping (good.py:3) have the same wire"),
    ("no toolkit", ["empty.py"], {}, "empty.py: has no tools; write: from toolyard import Toolkit, then "),
    ("two apps", ["apps.py"], {}, "apps.py: has several apps; choose one: apps.py:one or apps.py:two"),
    ("unknown key", ["--config", "odd.toml"], {}, "odd.toml:2: there is no setting 'prot'; did you mean port?"),
    ("unknown variable", [], {"TOOLYARD_PROT": "1"}, "there is no setting 'TOOLYARD_PROT'; did you mean port?"),
    ("wrong value", ["--log-level", "loud"], {}, "--log-level must be one of debug, info, warning, error, got 'loud'"),
    ("wrong port", ["--port", "70000"], {}, "--port must be a whole number from 0 to 65535, got 70000"),
    ("too many", ["--processes", "1001"], {}, "--processes must be a whole number from 1 to 1000, got 1001"),
    ("no config", ["--config", "none.toml"], {}, "the configuration file none.toml does not exist"),
    ("wrong key", [], {"TOOLYARD_API_KEYS": "hunter2"}, "api_keys: entry 1 is not a key; "),
    ("open to all", ["--host", "0.0.0.0"], {}, "0.0.0.0 can be reached from other machines, and no authentication is "),
    ("not our address", ["--host", "192.0.2.1"], {"TOOLYARD_API_KEYS": KEY}, "cannot listen on 192.0.2.1 port 0: "),
]  # fmt: skip


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("broken")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("arguments", "variables", "sentence"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_cannot_be_served_ends_with_2_and_one_sentence(
    broken: Path, arguments: list[str], variables: dict[str, str], sentence: str
) -> None:
    ended = toolyard("serve", "--port", "0", *arguments, folder=broken, variables=variables)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"toolyard: {sentence}")
    assert len(ended.err.splitlines()) == 1
    assert "hunter2" not in ended.err


def test_debug_shows_the_traceback(broken: Path) -> None:
    ended = toolyard("--debug", "serve", "raises.py", folder=broken)
    assert ended.code == 2
    assert "Traceback (most recent call last)" in ended.err
    assert "ZeroDivisionError" in ended.err
    assert ended.err.splitlines()[-1].startswith("toolyard: raises.py:2: ")


def test_a_port_that_is_taken_is_named(broken: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = toolyard("serve", "good.py", "--port", str(port), folder=broken)
    sentence = f"port {port} on 127.0.0.1 is taken; choose another with --port, or --port 0 for a free one"
    assert ended == Ended(2, "", f"toolyard: {sentence}\n")


LIFE = """
async def lifespan():
    raise RuntimeError("no database")
    yield

app = App(kit, lifespan=lifespan)
"""


@contextmanager
def breaking_off() -> Iterator[int]:
    """A port at which every connection breaks off before anything is said."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_a_database_whose_first_connection_breaks_is_told_in_a_sentence(tmp_path: Path) -> None:
    with breaking_off() as port:
        where = f"postgresql://ada@127.0.0.1:{port}/none?sslmode=disable"
        ended = toolyard("serve", "--port", "0", "--store", where, folder=tmp_path)
    assert (ended.code, ended.out) == (1, ""), "to try again may help"
    assert "the ledger: " in ended.err
    assert len(ended.err.splitlines()) == 1, ended.err


def test_an_app_that_does_not_start_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(KIT + TOOL + LIFE, encoding="utf-8")
    ended = toolyard("serve", "tools.py", "--port", "0", folder=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert "tools.py:12: the app's lifespan raised RuntimeError: no database" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert "Traceback" not in ended.err
    called = toolyard("call", "Kit.Ping", "--file", "tools.py", folder=tmp_path)
    assert called == Ended(2, "", "toolyard: tools.py:12: the app's lifespan raised RuntimeError: no database\n")


@pytest.mark.parametrize(
    ("error", "said"),
    [("SystemExit(5)", "SystemExit: 5"), ("GeneratorExit()", "GeneratorExit"), ("CancelledError()", "CancelledError")],
)
def test_a_lifespan_that_would_end_the_server_does_not_start_it(tmp_path: Path, error: str, said: str) -> None:
    life = "from asyncio import CancelledError\n" + LIFE.replace('RuntimeError("no database")', error)
    (tmp_path / "tools.py").write_text(KIT + TOOL + life, encoding="utf-8")
    ended = toolyard("serve", "tools.py", "--port", "0", folder=tmp_path)
    assert ended == Ended(2, "", f"toolyard: tools.py:13: the app's lifespan raised {said}\n")


# --- how it leaves -------------------------------------------------------------------------------

SLOW = """
import asyncio
from pathlib import Path
from toolyard import App, Toolkit

kit = Toolkit("Slow")

@kit.tool
async def wait() -> str:
    "Waits for a file."
    print("waiting", flush=True)
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return "done"

async def lifespan():
    yield
    print("closed", flush=True)

app = App(kit, lifespan=lifespan)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_running_call_is_answered_before_the_server_leaves(tmp_path: Path, number: int) -> None:
    """After SIGTERM, whoever comes meanwhile is told to come back; after Ctrl-C, nobody is there."""
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    answers: list[Any] = []
    with serving("slow.py", folder=tmp_path) as served:
        caller = threading.Thread(target=lambda: answers.append(served.call("Slow.Wait")))
        caller.start()
        served.hear("waiting")
        os.kill(served.process.pid, number)
        if number == signal.SIGTERM:
            until(lambda: served.request("GET", "/ready") == {"status": "draining"})
            until(lambda: "retry_after_ms" in served.request("POST", "/tools/call", {"tool_id": "Slow.Wait"}))
        else:
            until(lambda: not accepts(served.address))
        assert answers == []
        (tmp_path / "go").touch()
        caller.join(30)
        assert answers == ["done"]
        served.hear("closed")
        assert served.process.wait(30) == 0


def until(happened: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(3000):
        if happened():
            return
        pause.wait(0.01)
    raise AssertionError("it did not happen")


def accepts(address: str) -> bool:
    host, port = re.fullmatch(r"http://(.+):(\d+)", address).groups()  # type: ignore[union-attr]
    try:
        socket.create_connection((host, int(port)), 1).close()
    except ConnectionRefusedError:
        return False
    return True


def test_an_idle_server_leaves_at_once(tmp_path: Path) -> None:
    with serving(folder=tmp_path) as served:
        assert served.end() == 0


# --- reload --------------------------------------------------------------------------------------


def saying(word: str) -> str:
    return f"""
import os
from toolyard import Toolkit

kit = Toolkit("Kit")

@kit.tool
def say() -> list[str]:
    "Says a word, and who says it."
    return ["{word}", str(os.getpid())]
"""


def test_a_change_is_picked_up_also_after_a_mistake(tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text(saying("one"), encoding="utf-8")
    with serving("tools.py", "--reload", folder=tmp_path) as served:
        address = served.address
        word, first = served.call("Kit.Say")
        assert word == "one"
        tools.write_text(saying("two"), encoding="utf-8")
        served.hear("Stop with Ctrl-C.")
        word, second = served.call("Kit.Say")
        assert word == "two"
        tools.write_text("def (:\n", encoding="utf-8")
        served.hear("toolyard: tools.py:1: syntax error: invalid syntax")
        assert served.process.poll() is None
        tools.write_text(saying("three"), encoding="utf-8")
        served.hear("Stop with Ctrl-C.")
        word, third = served.call("Kit.Say")
        assert word == "three"
        assert served.address == address
        assert len({first, second, third}) == 3
        assert served.end(signal.SIGTERM) == 0
    for pid in (first, second, third):
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
    assert "Traceback" not in "\n".join(served.said)


def test_an_interrupt_ends_it_and_its_child(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(saying("one"), encoding="utf-8")
    with serving("tools.py", "--reload", folder=tmp_path) as served:
        _, child = served.call("Kit.Say")
        assert int(child) != served.process.pid
        assert served.end(signal.SIGINT) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(child), 0)


def test_a_sibling_a_new_file_and_a_setting_are_changes_too(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "tools.py").write_text(saying("one"), encoding="utf-8")
    with serving("shop.tools", "--reload", folder=tmp_path, flags=["-P"]) as served:
        assert served.call("Kit.Say")[0] == "one"
        (tmp_path / "shop" / "new.py").write_text("", encoding="utf-8")
        served.hear("Stop with Ctrl-C.")
        (tmp_path / "shop" / "toolyard.toml").write_text("", encoding="utf-8")
        served.hear("Stop with Ctrl-C.")
        (tmp_path / "shop" / "new.py").unlink()
        served.hear("Stop with Ctrl-C.")
        assert served.call("Kit.Say")[0] == "one"


@pytest.mark.parametrize("target", ["none.py", "none.tools"])
def test_what_is_not_there_yet_is_waited_for(tmp_path: Path, target: str) -> None:
    with starting(target, "--reload", folder=tmp_path) as served:
        served.hear("toolyard: ")
        assert served.process.poll() is None
        assert "Traceback" not in "\n".join(served.said)
        if target == "none.py":
            (tmp_path / "none.py").write_text(saying("there"), encoding="utf-8")
            served.hear("Stop with Ctrl-C.")
            assert served.call("Kit.Say")[0] == "there"
        assert served.end() == 0


def test_reload_refuses_a_port_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(saying("one"), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = toolyard("serve", "tools.py", "--reload", "--port", port, folder=tmp_path)
    assert ended.code == 2
    assert ended.err.startswith(f"toolyard: port {port} on 127.0.0.1 is taken")


def test_who_kills_the_one_that_watches_ends_what_it_serves(tmp_path: Path) -> None:
    """Else the old code would be served on, and nobody could tell by whom."""
    (tmp_path / "tools.py").write_text(saying("one"), encoding="utf-8")
    with serving("tools.py", "--reload", folder=tmp_path) as served:
        port = int(served.address.rpartition(":")[2])
        served.end(signal.SIGKILL)

        def is_over() -> bool:
            with socket.socket() as asking:
                return asking.connect_ex(("127.0.0.1", port)) != 0

        until(is_over)


@pytest.mark.parametrize(
    ("life", "said"),
    [
        ('yield\n    raise RuntimeError("still in use")', "RuntimeError: still in use"),
        ("yield\n    yield", "RuntimeError: generator didn't stop"),
    ],
)
def test_a_lifespan_that_cannot_be_closed_is_said_in_one_sentence(tmp_path: Path, life: str, said: str) -> None:
    text = LIFE.replace('raise RuntimeError("no database")\n    yield', life)
    (tmp_path / "tools.py").write_text(KIT + TOOL + text, encoding="utf-8")
    with serving("tools.py", folder=tmp_path) as served:
        assert served.end() == 2
        served.hear(f"toolyard: tools.py:12: while it was closed, the app's lifespan raised {said}")
        assert "Traceback" not in "".join(served.said)
