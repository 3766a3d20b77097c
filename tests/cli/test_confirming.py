"""`toolyard call` at a terminal: a person sees what would be sent, and may say no."""

import os
import pty
import select
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from .. import warm
from ..conformance.serving import environment
from .processes import Ended, Served, command, serving, toolyard

TOOLS = '''
from pathlib import Path

from toolyard import Toolkit

kit = Toolkit("Kit")


@kit.tool(destructive=True)
def drop(name: str) -> str:
    """Drops it.

    For good.
    """
    Path("dropped").write_text(name)
    return "dropped"


@kit.tool
def look(name: str) -> str:
    """Looks at it."""
    return f"saw {name}"


@kit.tool(read_only=True)
def peek(name: str) -> str:
    """Says that it only looks."""
    return f"peeked at {name}"
'''
AGAIN_S = 5.0
ELSEWHERE = "http://yard.example"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("confirming")
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    with serving("tools.py", folder=folder, variables={"TOOLYARD_ALLOWED_HOSTS": "yard.example"}) as served:
        served.folder = folder  # type: ignore[attr-defined]
        yield served


@pytest.fixture
def dropped(server: Served) -> Path:
    file: Path = server.folder / "dropped"  # type: ignore[attr-defined]
    file.unlink(missing_ok=True)
    return file


def at_a_terminal(folder: Path, typed: str, *arguments: str, variables: Mapping[str, str] | None = None) -> Ended:
    """With a person who types that when they are asked; both outputs are one, the terminal's."""
    here, there = pty.openpty()
    process = warm.start(
        command(*arguments), stdin=there, stdout=there, stderr=there, cwd=folder,
        env=environment("open") | dict(variables or {}), preexec_fn=warm.take_terminal,
    )  # fmt: skip
    os.close(there)
    seen = b""
    try:
        while True:
            # Python misses a signal that comes just as it begins to read: then a person presses Ctrl-C once more.
            if select.select([here], [], [], AGAIN_S if typed == "\x03" else None)[0]:
                if not (part := os.read(here, 65536)):
                    break
                seen += part
                if not seen.endswith(b"[y/N] "):
                    continue
            os.write(here, typed.encode())
    except OSError:  # the last one who had the terminal is gone
        pass
    finally:
        os.close(here)
    return Ended(process.wait(60), seen.decode().replace("\r\n", "\n"), "")


def test_a_person_is_asked_before_what_is_destructive(server: Served, dropped: Path, tmp_path: Path) -> None:
    call = ("call", "Kit.Drop", "name=all\u202e", "--server", f"{server.address}/mcp")
    ended = at_a_terminal(tmp_path, "n\n", *call)
    assert ended.code == 1
    assert 'Kit.Drop (its server calls it destructive): Drops it.\n  input {"name":"all\\u202e"}\n' in ended.out
    assert "Call Kit.Drop? [y/N] " in ended.out
    assert ended.out.endswith("Kit.Drop was not called: it was not confirmed\n")
    assert not dropped.exists()
    ended = at_a_terminal(tmp_path, "\x03", *call)
    assert (ended.code, ended.out.endswith("Kit.Drop was not called: it was not confirmed\n")) == (1, True)
    assert not dropped.exists()
    ended = at_a_terminal(tmp_path, "y\n", *call)
    assert (ended.code, ended.out.endswith("dropped\n"), dropped.exists()) == (0, True, True)
    assert at_a_terminal(tmp_path, "", "call", "Kit.Look", "name=it", *call[3:]).out == "saw it\n"
    assert at_a_terminal(tmp_path, "", *call, "--yes").out == "dropped\n"


@pytest.mark.parametrize("wire", ["", "/mcp"])
@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_it_asks_where_it_is_told_to(server: Served, tmp_path: Path, typed: str, code: int, wire: str) -> None:
    more: dict[str, Any] = {"folder": tmp_path, "input": typed}
    ended = toolyard("call", "Kit.Look", "name=it", "--confirm", "--server", server.address + wire, **more)
    assert (ended.code, ended.out) == (code, "saw it\n" if code == 0 else "")
    assert 'Kit.Look: Looks at it.\n  input {"name":"it"}\n' in ended.err


def test_asking_and_not_asking_are_refused_together(tmp_path: Path) -> None:
    ended = toolyard("call", "Kit.Look", "name=it", "--yes", "--confirm", folder=tmp_path)
    said = "toolyard: --confirm asks before the call, and --yes does not; choose one of them\n"
    assert ended == Ended(2, "", said)


def test_nobody_is_asked_where_nobody_is(server: Served, dropped: Path, tmp_path: Path) -> None:
    call = ("call", "Kit.Drop", "name=all", "--server", f"{server.address}/mcp")
    assert toolyard(*call, folder=tmp_path).out == "dropped\n"
    assert dropped.exists()


def test_a_file_is_asked_about_like_a_server(server: Served, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    call = ("call", "Kit.Drop", "name=all", "--file", "tools.py")
    ended = at_a_terminal(tmp_path, "n\n", *call)
    assert 'Kit.Drop (its server calls it destructive): Drops it.\n  input {"name":"all"}\n' in ended.out
    assert (ended.code, (tmp_path / "dropped").exists()) == (1, False)
    assert at_a_terminal(tmp_path, "y\n", *call).out.endswith("dropped\n")
    assert at_a_terminal(tmp_path, "", *call, "--yes").out == "dropped\n"
    assert at_a_terminal(tmp_path, "", "call", "Kit.Look", "name=it", *call[3:]).out == "saw it\n"
    assert toolyard(*call, folder=tmp_path) == Ended(0, "dropped\n", "")


# --- a server elsewhere --------------------------------------------------------------------------


def elsewhere(server: Served) -> dict[str, str]:
    """Has the way to ELSEWHERE end at this server."""
    return {"HTTP_PROXY": server.address, "NO_PROXY": ""}


@pytest.mark.parametrize("wire", ["", "/mcp"])
@pytest.mark.parametrize("tool", ["Kit.Look", "Kit.Peek", "Kit.Drop"])
def test_hints_of_a_server_that_nobody_trusts_spare_no_question(
    server: Served, tmp_path: Path, wire: str, tool: str
) -> None:
    call = ("call", tool, "name=it", "--server", ELSEWHERE + wire)
    ended = at_a_terminal(tmp_path, "n\n", *call, variables=elsewhere(server))
    assert (ended.code, ended.out.endswith(f"{tool} was not called: it was not confirmed\n")) == (1, True)
    assert f"{tool} (it may be destructive: its server is not one that you trust): " in ended.out
    assert '  input {"name":"it"}\n' in ended.out
    assert at_a_terminal(tmp_path, "y\n", *call, variables=elsewhere(server)).code == 0


@pytest.mark.parametrize("wire", ["", "/mcp"])
def test_without_a_terminal_a_call_elsewhere_needs_a_yes(
    server: Served, dropped: Path, tmp_path: Path, wire: str
) -> None:
    call = ("call", "Kit.Drop", "name=all", "--server", ELSEWHERE + wire)
    more: dict[str, Any] = {"folder": tmp_path, "variables": elsewhere(server)}
    ended = toolyard(*call, **more, input="y\n")
    assert (ended.code, ended.out, dropped.exists()) == (2, "", False)
    assert "calls at this server are asked about" in ended.err
    assert "pass --yes" in ended.err
    assert toolyard(*call, "--yes", **more) == Ended(0, "dropped\n", "")


@pytest.mark.parametrize("wire", ["", "/mcp"])
def test_a_server_that_was_named_is_believed(server: Served, tmp_path: Path, wire: str) -> None:
    call = ("call", "Kit.Look", "name=it", "--server", ELSEWHERE + wire)
    way = elsewhere(server)
    for named in (ELSEWHERE, f"{ELSEWHERE}:80/", ELSEWHERE + wire):
        assert toolyard(*call, "--trust", named, folder=tmp_path, variables=way) == Ended(0, "saw it\n", "")
    named = f"https://other.example {ELSEWHERE}"
    assert toolyard(*call, folder=tmp_path, variables=way | {"TOOLYARD_TRUST": named}).out == "saw it\n"
    for other in (f"{ELSEWHERE}:81", f"{ELSEWHERE}/other", "http://example", "https://yard.example"):
        assert toolyard(*call, "--trust", other, folder=tmp_path, variables=way).code == 2
    asked = at_a_terminal(tmp_path, "n\n", *call[:1], "Kit.Drop", *call[2:], "--trust", ELSEWHERE, variables=way)
    assert ("(its server calls it destructive)" in asked.out) == bool(wire)


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    for option in ("--trust", "--server"):
        for given in ("yard.example", "http://[::1", "http://", "http://yard.example:port"):
            ended = toolyard("call", "Kit.Look", option, given, folder=tmp_path)
            assert (ended.code, f"{option} must be an address such as" in ended.err) == (2, True)
