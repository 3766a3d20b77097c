"""An author's prompts: what a client gets wrong is told to the client, and the log keeps quiet."""

from pathlib import Path

import pytest

from .piped import piping
from .schemas import MODERN
from .stage import Stage

TOOLS = """
from toolyard import App, Toolkit

app = App(Toolkit("Travel"))


@app.mcp.prompt()
def pack(city: str, days: str = "3") -> str:
    return f"Pack for {days} days in {city}."


@app.mcp.prompt()
def broken() -> str:
    raise RuntimeError("the suitcase is lost")
"""


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_prompt_that_is_not_there_or_lacks_an_argument_is_the_clients_mistake(
    tmp_path: Path, stage: Stage, revision: str
) -> None:
    (tmp_path / "travel.py").write_text(TOOLS)
    with piping(tmp_path, stage, tools="travel.py") as piped:
        if revision != MODERN:
            piped.initialize(revision)
        for params, why in (
            ({"name": "zz"}, "zz"),
            ({"name": "pack"}, "city"),
            ({"name": "pack", "arguments": {}}, "city"),
        ):
            piped.send("prompts/get", params)
            error = piped.hear()["error"]
            assert error["code"] == -32602
            assert why in error["message"]
        assert "Traceback" not in piped.errors()
        (message,) = piped.result("prompts/get", {"name": "pack", "arguments": {"city": "Rome"}})["messages"]
        assert message["content"]["text"] == "Pack for 3 days in Rome."
        piped.send("prompts/get", {"name": "broken"})
        assert piped.hear()["error"]["code"] == -32603
        assert piped.end() == 0
        assert "the suitcase is lost" in piped.errors()


LEAVING = """
import asyncio

from toolyard import App, Toolkit

app = App(Toolkit("Travel"))
KINDS = {kind.__name__: kind for kind in (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)}


@app.mcp.prompt()
def plain(kind: str) -> str:
    raise KINDS[kind](9)


@app.mcp.prompt()
async def waiting(kind: str) -> str:
    await asyncio.sleep(0)
    raise KINDS[kind](9)


@app.mcp.resource("left://{kind}")
async def left(kind: str) -> str:
    raise KINDS[kind](9)


@app.mcp.prompt()
def here() -> str:
    return "Still here."
"""


def test_a_prompt_or_resource_that_would_leave_has_failed_and_the_server_goes_on(tmp_path: Path, stage: Stage) -> None:
    (tmp_path / "travel.py").write_text(LEAVING)
    with piping(tmp_path, stage, tools="travel.py") as piped:
        piped.initialize("2025-11-25")
        for kind in ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "CancelledError"):
            for name in ("plain", "waiting"):
                piped.send("prompts/get", {"name": name, "arguments": {"kind": kind}})
                error = piped.hear()["error"]
                assert (kind, name, error["code"], error["message"]) == (kind, name, -32603, "prompts/get failed")
            piped.send("resources/read", {"uri": f"left://{kind}"})
            assert piped.hear()["error"]["message"] == "resources/read failed"
        assert piped.result("prompts/get", {"name": "here"})["messages"]
        assert piped.end() == 0
