"""A folder with tools, one server of them for all the tests that only ask, and the command line without a process."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolyard.cli import main

from ..runners.imports import forgetting
from .processes import Ended, Served, serving

TOOLS = '''
import enum
from typing import Any, Literal

from pydantic import BaseModel

from toolyard import Context, ToolError, Toolkit, authorization, secret, user_id

kit = Toolkit("Kit", version="1.0.0", description="For tests.")


class Point(BaseModel):
    x: int


@kit.tool
def add(a: float, b: float) -> float:
    """Adds two numbers together.

    And says so at length.
    """
    return a + b


@kit.tool
def show(
    text: str = "", number: int = 0, switch: bool = False, many: list[int] = [], point: Point | None = None,
    either: int | str = 0, maybe: str | None = None, any: Any = None,
) -> str:
    """Shows what it got."""
    return repr([text, number, switch, many, point, either, maybe, any])


@kit.tool(name="Show", version="2.0.0")
def show_other(number: str) -> str:
    """Shows a text, whatever it is called."""
    return repr(number)


@kit.tool
def point() -> Point:
    """Gives a point."""
    return Point(x=1)


@kit.tool
def nothing() -> None:
    """Gives nothing."""


@kit.tool
def fail() -> None:
    """Fails."""
    raise ToolError(
        "It is closed", developer_message="on Sundays", can_retry=False, additional_prompt_content="try Monday"
    )


@kit.tool
def knock(door: str) -> None:
    """Knocks at a door."""
    with open("knocks", "a", encoding="utf-8") as knocks:
        knocks.write(door + "\\n")
    raise ToolError("No such door", can_retry=True, retry_after_ms=5, additional_prompt_content="doors: front")


@kit.tool(requires=authorization("google"))
def mine() -> None:
    """Needs an account."""


@kit.tool
def crash() -> None:
    """Crashes."""
    raise RuntimeError("a secret text")


@kit.tool(requires=[secret("KEY"), authorization("google"), user_id])
def needs(ctx: Context) -> list[str | None]:
    """Needs everything."""
    return [ctx.secret("KEY"), ctx.token("google"), ctx.user_id, ctx.call_id]
'''


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cli")
    (made / "tools.py").write_text(TOOLS, encoding="utf-8")
    return made


@pytest.fixture(scope="session")
def server(folder: Path) -> Iterator[Served]:
    with serving("tools.py", folder=folder) as served:
        yield served


@pytest.fixture
def here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Ended]]:
    """Runs a verb in this process, for the many ways to be refused."""

    for name in [name for name in os.environ if name.startswith("TOOLYARD_")]:
        monkeypatch.delenv(name)

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["toolyard", *arguments])
        code: object = 0
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
        assert isinstance(code, int)
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    with forgetting(tmp_path_factory.getbasetemp()):
        yield run
