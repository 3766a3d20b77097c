"""`toolyard stdio`: one client, a message a line."""

import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client as SdkClient
from mcp.client.stdio import StdioServerParameters

from ...cli.processes import toolyard
from .piped import Piped, piping
from .schemas import MODERN, OLDER, REVISIONS
from .serving import TOOLS
from .stage import Stage
from .talking import accepted, text_of

FORM: dict[str, Any] = {"elicitation": {"form": {}}}


@pytest.fixture
def piped(tmp_path: Path, stage: Stage) -> Iterator[Piped]:
    with piping(tmp_path, stage) as made:
        yield made


def begin(piped: Piped, revision: str, **capabilities: Any) -> None:
    if revision == MODERN:
        piped.capabilities = capabilities
    else:
        assert piped.initialize(revision, **capabilities)["protocolVersion"] == revision


@pytest.mark.parametrize("revision", REVISIONS)
def test_tools_are_listed_and_called_and_the_end_of_input_is_the_end(piped: Piped, revision: str) -> None:
    begin(piped, revision)
    assert len(piped.result("tools/list")["tools"]) > 10
    assert text_of(piped.result_of(piped.call("greet", {"name": "Ada"}))) == "Hello, Ada!"
    failed = piped.result_of(piped.call("Kit_Add", {"a": "one"}))
    assert failed["isError"] is True
    assert piped.end() == 0
    assert piped.hear() is None


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_what_a_tool_prints_does_not_reach_the_stream(piped: Piped, revision: str) -> None:
    begin(piped, revision)
    assert text_of(piped.result_of(piped.call("Kit_Noisy", {"text": "loud"}))) == "loud"
    assert piped.end() == 0
    assert piped.hear() is None
    said = piped.errors()
    assert all(word in said for word in ("printed loud", "written", "child"))


def test_lines_that_are_no_messages_are_answered_and_the_rest_goes_on(piped: Piped) -> None:
    piped.initialize("2025-11-25")
    for line, code in {
        b"garbage\n": -32700, b"{\n": -32700, b"\xff\xfe\n": -32700, b"{}\n": -32600, b"7\n": -32600,
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n': -32600, b'{"a":' * 100_000 + b"\n": -32600,
    }.items():  # fmt: skip
        piped.write(line)
        assert piped.hear()["error"]["code"] == code, line[:50]
    piped.write(b"\n  \r\n")
    assert piped.result("ping") == {}


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":null}\n',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":5}\n',
        b'{"jsonrpc":"2.0","method":"notifications/initialized","params":{"_meta":7}}\n',
        b'{"jsonrpc":"2.0","method":"tools/call","params":[]}\n',
    ],
)
def test_a_notification_is_never_answered(piped: Piped, line: bytes) -> None:
    piped.initialize("2025-11-25")
    piped.write(line)
    piped.write({"jsonrpc": "2.0", "id": 7, "method": "ping"})
    assert piped.hear() == {"jsonrpc": "2.0", "id": 7, "result": {}}


def test_limits_on_messages_count_here_too(tmp_path: Path, stage: Stage) -> None:
    with piping(tmp_path, stage, max_body_bytes="2000", max_json_depth="10") as piped:
        piped.initialize("2025-11-25")
        deep: list[Any] = []
        for _ in range(10):
            deep = [deep]
        for arguments, why in (({"name": deep}, "10 levels"), ({"name": "x" * 2000}, "2000 bytes")):
            id = piped.call("greet", arguments)
            refused = piped.hear()
            assert (refused["id"], refused["error"]["code"]) == (id, -32600)
            assert why in refused["error"]["message"]
        assert text_of(piped.result_of(piped.call("greet", {"name": "Ada"}))) == "Hello, Ada!"


# --- what holds where nothing is said ------------------------------------------------------------


def refusal(piped: Piped) -> str:
    """The first call that is told that it was one too many."""
    while (message := piped.hear()) is not None:
        if message.get("result", {}).get("isError"):
            return str(text_of(message["result"]))
    raise AssertionError("the process has ended")


def test_there_is_a_limit_without_a_setting(piped: Piped) -> None:
    piped.initialize("2025-11-25")
    for _ in range(257):
        piped.call("Kit_HoldsOn", {"how": "waits"})
    assert "Too many calls" in refusal(piped)


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_limits_of_the_settings_hold(tmp_path: Path, stage: Stage, revision: str) -> None:
    with piping(tmp_path, stage, limits='[{"calls_per_minute": 2}]') as piped:
        begin(piped, revision)
        for _ in range(2):
            assert piped.result_of(piped.call("greet", {"name": "Ada"})).get("isError", False) is False
        piped.call("greet", {"name": "Ada"})
        assert "Too many calls" in refusal(piped)


@pytest.mark.parametrize("revision", REVISIONS)
def test_hidden_characters_are_spelled_out_for_models_and_left_to_programs(piped: Piped, revision: str) -> None:
    begin(piped, revision)
    result = piped.result_of(piped.call("Kit_Noisy", {"text": "see \u202egpj.exe"}))
    assert text_of(result) == "see \\u{202E}gpj.exe"
    if revision not in ("2025-03-26", "2025-06-18"):
        value = "see \u202egpj.exe"
        assert result["structuredContent"] == (value if revision == MODERN else {"result": value})


# --- what is for messages alone ------------------------------------------------------------------


@pytest.mark.parametrize("how", ["child", "input", "line", "close"])
def test_a_tool_cannot_read_what_is_for_the_server(piped: Piped, how: str) -> None:
    """Also not what comes while it reads."""
    piped.initialize("2025-11-25")
    ids = [piped.call("Kit_Reads", {"how": how}), *(piped.call("Kit_Add", {"a": each}) for each in range(20))]
    answers = {message["id"]: message["result"] for message in (piped.hear() for _ in ids)}
    assert [text_of(answers[id]) for id in ids] == ["", *(str(each + 1) for each in range(20))]
    assert text_of(piped.result_of(piped.call("greet", {"name": "Ada"}))) == "Hello, Ada!"
    assert piped.end() == 0


def test_a_tool_that_closes_the_output_closes_it_for_nobody(piped: Piped) -> None:
    piped.initialize("2025-11-25")
    assert text_of(piped.result_of(piped.call("Kit_Shuts"))) == "shut"
    assert piped.result_of(piped.call("Kit_Crash"))["isError"] is True
    assert text_of(piped.result_of(piped.call("Kit_Noisy", {"text": "loud"}))) == "loud"
    assert piped.end() == 0
    assert "the password is hunter2" in piped.errors()
    assert "printed loud" in piped.errors()


@pytest.mark.parametrize("closed", ["2>&-", "2>&- 0<&-"])
def test_where_there_are_no_errors_the_output_is_clean_all_the_same(tmp_path: Path, stage: Stage, closed: str) -> None:
    with piping(tmp_path, stage, under=["sh", "-c", f'exec "$0" "$@" {closed}']) as piped:
        if closed == "2>&-":
            piped.initialize("2025-11-25")
            assert text_of(piped.result_of(piped.call("Kit_Noisy", {"text": "loud"}))) == "loud"
            assert piped.result_of(piped.call("Kit_Crash"))["isError"] is True
        assert piped.end() == 0
        assert piped.hear() is None


def test_the_tools_of_another_project_have_a_ledger_of_their_own(tmp_path: Path) -> None:
    ledgers = set[str]()
    for project, count in (("one", 1), ("other", 2), ("one", 2)):
        folder = tmp_path / project
        folder.mkdir(exist_ok=True)
        (folder / "tools.py").write_text("from toolyard import Toolkit\nkit = Toolkit('Kit')\n")
        ended = toolyard("stdio", "tools.py", folder=folder, variables={"XDG_STATE_HOME": str(tmp_path / "state")})
        assert ended.code == 0, ended.err
        ledgers |= {each.name for each in (tmp_path / "state" / "toolyard").glob("stdio-*.db")}
        assert len(ledgers) == count, ledgers


def test_a_ledger_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    ended = toolyard("stdio", TOOLS, folder=tmp_path, variables={"XDG_STATE_HOME": "/proc/nothing"})
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "--store" in ended.err
    (tmp_path / "file").write_text("")
    ended = toolyard("stdio", TOOLS, "--store", f"sqlite:{tmp_path}/file/ledger.db", folder=tmp_path)
    assert (ended.code, ended.err.count("\n")) == (2, 1)


# --- eras ----------------------------------------------------------------------------------------


def test_several_at_once_are_for_the_oldest_revision_alone(piped: Piped) -> None:
    piped.initialize("2025-03-26")
    piped.write([{"jsonrpc": "2.0", "id": 91, "method": "ping"}, {"jsonrpc": "2.0", "id": 92, "method": "ping"}])
    assert sorted(each["id"] for each in piped.hear()) == [91, 92]


def test_nothing_is_done_before_the_handshake(piped: Piped) -> None:
    piped.write({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert piped.hear()["error"]["code"] == -32600
    piped.write({"jsonrpc": "2.0", "id": 2, "method": "ping"})
    assert piped.hear() == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.parametrize("revision", OLDER[1:])
def test_a_tool_asks_over_the_pipe(piped: Piped, stage: Stage, name: str, revision: str) -> None:
    begin(piped, revision, elicitation={})
    id = piped.call("Play_Act", {"name": name})
    visit = stage.visit(name)
    visit.tell("ask", "who")
    question = piped.hear()
    assert question["method"] == "elicitation/create"
    piped.write({"jsonrpc": "2.0", "id": question["id"], "result": accepted(name="Ada")})
    assert visit.hear() == "Ada"
    visit.ends()
    assert text_of(piped.result_of(id)) == "done"


def test_a_tool_asks_with_a_result_in_the_newer_era(piped: Piped, stage: Stage, name: str) -> None:
    begin(piped, MODERN, **FORM)
    id = piped.call("Play_Act", {"name": name})
    visit = stage.visit(name)
    visit.tell("ask", "who")
    asked = piped.result_of(id)
    answers = {"who": accepted(name="Ada")}
    id = piped.call("Play_Act", {"name": name}, requestState=asked["requestState"], inputResponses=answers)
    assert visit.hear() == "Ada"
    visit.ends()
    assert text_of(piped.result_of(id)) == "done"


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_tool_that_raises_what_closes_coroutines_is_answered(piped: Piped, revision: str) -> None:
    begin(piped, revision)
    for tool in ("Kit_ClosePlain", "Kit_CloseAsync"):
        assert piped.result_of(piped.call(tool))["isError"] is True


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_progress_and_cancellation(piped: Piped, stage: Stage, name: str, revision: str) -> None:
    begin(piped, revision)
    for has_begun in (True, False):
        id = piped.call("Play_Act", {"name": name}, meta={"progressToken": "t"})
        visit = stage.visit(name)
        if has_begun:
            visit.tell("progress", 1)
            assert piped.hear()["params"]["progress"] == 1
            visit.hear()
        piped.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
        assert visit.hear() == "stopped"
    assert text_of(piped.result_of(piped.call("greet", {"name": "Ada"}))) == "Hello, Ada!"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_while_a_tool_runs(
    tmp_path: Path, stage: Stage, name: str, number: signal.Signals
) -> None:
    with piping(tmp_path, stage, grace_s="0.5") as piped:
        piped.initialize("2025-11-25")
        piped.call("Play_Act", {"name": name})
        visit = stage.visit(name)
        piped.process.send_signal(number)
        assert piped.process.wait(15) == 0
        assert visit.hear() == "stopped"
        assert "Traceback" not in piped.errors()


def test_the_end_of_input_stops_what_runs(tmp_path: Path, stage: Stage, name: str) -> None:
    with piping(tmp_path, stage, grace_s="0.5") as piped:
        piped.initialize("2025-11-25")
        piped.call("Play_Act", {"name": name})
        visit = stage.visit(name)
        assert piped.end() == 0
        assert visit.hear() == "stopped"


def test_two_at_once_have_ledgers_of_their_own(tmp_path: Path, stage: Stage, name: str) -> None:
    with piping(tmp_path, stage) as one, piping(tmp_path, stage) as other:
        found: list[str] = []
        for piped in (one, other):
            piped.initialize("2025-11-25")
            id = piped.call("Kit_Add", {"a": 1, "b": len(found)}, meta={"toolyard/callId": name})
            assert text_of(piped.result_of(id)) == str(1 + len(found))
            found.append(text_of(piped.result_of(piped.call("Kit_Ledger"))))
        assert all(found), found
        assert found[0] != found[1]
        assert one.end() == other.end() == 0


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_official_client_over_the_pipe(tmp_path: Path, stage: Stage, name: str, mode: str) -> None:
    async def asked(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def scenario() -> None:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "toolyard", "stdio", TOOLS],
            env={"STAGE": str(stage.port), "XDG_STATE_HOME": str(tmp_path)},
            cwd=tmp_path,
        )
        progressed: list[float] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            progressed.append(progress)

        async with SdkClient(server, mode=mode, elicitation_callback=asked) as client:
            assert len((await client.list_tools()).tools) > 10
            result = await client.call_tool("Kit_Noisy", {"text": "loud"})
            assert result.content[0].text == "loud"  # type: ignore[union-attr]
            assert (await client.call_tool("Kit_Fail", {})).is_error
            calling = asyncio.create_task(client.call_tool("Play_Act", {"name": name}, progress_callback=on_progress))
            visit = await asyncio.to_thread(stage.visit, name)
            visit.tell("progress", 1, 2)
            await asyncio.to_thread(visit.hear)
            visit.tell("ask", "who")
            assert await asyncio.to_thread(visit.hear) == "Ada"
            visit.ends()
            assert (await calling).content[0].text == "done"  # type: ignore[union-attr]
            assert progressed == [1]
            going = asyncio.create_task(client.call_tool("Play_Act", {"name": name}))
            visit = await asyncio.to_thread(stage.visit, name)
            going.cancel()
            assert await asyncio.to_thread(visit.hear) == "stopped"

    asyncio.run(asyncio.wait_for(scenario(), 30))
