"""Follows a page as its reader would: every example runs, and what the page shows must be what comes out.

- `python title="tools.py"` and `toml title="toolyard.toml"` are written to the reader's folder, for a later block.
- `python` runs at once; a page's blocks share their names. After `# =>` stands what the expression is, after
  `# raises` the error it ends with.
- `console` has commands after `$ `, run by bash, and what they print. An exit code other than 0 is shown by
  `$ echo $?`. A server or a worker keeps running until the section ends; exports and `cd` are forgotten there, too.
- `…` in what is shown stands for anything.
- `http://127.0.0.1:8000` is a free port in truth, and so is 8100, for a second server. A server with upstreams is
  given the moment that a reader takes, in which they answer.
- `skip="why"` is not run. `text` is a picture, not an example.
"""

import ast
import importlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from .. import leftovers, warm
from ..conformance.serving import environment, free_port
from .markdown import Block

DOCUMENTED_PORT, SECOND_PORT = 8000, 8100
DEADLINE_S = 30.0
READY = {
    "toolyard serve": "Stop with Ctrl-C.",
    "toolyard worker": "Stop with Ctrl-C.",
    "uvicorn": "Uvicorn running on",
}
"""What a server says once it is up."""

OPERATOR = """toolyard() {
    case "$1" in
        audit | calls | console | show | cancel | resolve | keys | secrets | connections | explain | approvals)
            env -u TOOLYARD_SERVER toolyard "$@" ;;
        approve | reject | backup | restore | doctor | upstreams | lock)
            env -u TOOLYARD_SERVER toolyard "$@" ;;
        *) command toolyard "$@" ;;
    esac
}"""
"""Readers have the usual port and no TOOLYARD_SERVER, so these verbs find the ledger in their folder."""

_serves = re.compile(r"(?:\w+=\S+ )*(toolyard serve|toolyard worker|uvicorn)\b").match
_claim = re.compile(r"#\s*(=>|raises)\s*(.+)$").search
_duration = re.compile(r'("duration":\s*)[0-9.]+')


@cache
def _door() -> warm.Door:
    return warm.Door(leftovers.folder("door"))


class Difference(AssertionError):
    """What an example shows is not what happens."""


@dataclass(frozen=True)
class Command:
    text: str
    output: str


def commands(console: str) -> Iterator[Command]:
    """What stands after each `$ `, and the lines below it."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            line, _, output = output.partition("\n")
            command += f"\n{line}"
        yield Command(command, output)


def fits(shown: str, happened: str) -> bool:
    """Whether the output is the one shown, where `…` stands for anything."""
    pattern = ".*?".join(map(re.escape, tidy(shown).split("…")))
    return re.fullmatch(pattern, tidy(happened), re.DOTALL) is not None


def tidy(output: str) -> str:
    lines = [line.rstrip() for line in _duration.sub(r"\g<1>0", output).strip().splitlines()]
    return "\n".join(lines)


def _has_heard_upstreams(log: str) -> bool:
    """Whether each upstream of a server has brought its tools by now, or is said not to."""
    named = re.search(r"^  Upstreams  (.+);", log, re.MULTILINE)
    names = re.findall(r"(\w+)\.\*", named[1]) if named else []
    return all(f"{name}: of " in log or re.search(rf"WARNING .* the upstream {name} ", log) for name in names)


class Shell:
    """A terminal in a folder, and the servers started in it."""

    def __init__(self, folder: Path, commands: Path) -> None:
        self._folder, self._commands = folder, commands
        self._home = folder / ".home"
        self._home.mkdir()
        (self._home / ".curlrc").write_text("silent\nshow-error\n")
        self._servers: list[subprocess.Popen[bytes]] = []
        self._second = free_port()  # one for the page: files name it
        self.start_afresh()

    def start_afresh(self) -> None:
        """A new section: no servers, no exports, the page's folder."""
        self.close()
        self.port = free_port()
        self._code = 0
        self._at = self._folder
        self._environment = environment("open") | {
            "HOME": str(self._home),
            "PATH": os.pathsep.join(map(str, (self._commands, Path(sys.executable).parent, os.environ["PATH"]))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TOOLYARD_PORT": str(self.port),
            "TOOLYARD_SERVER": f"http://127.0.0.1:{self.port}",
            "UVICORN_PORT": str(self.port),
        }

    def close(self) -> None:
        while self._servers:
            server = self._servers.pop()
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGTERM)
            server.wait(DEADLINE_S)

    def real(self, text: str) -> str:
        """The page's text with the port that is meant."""
        text = text.replace(f"127.0.0.1:{DOCUMENTED_PORT}", f"127.0.0.1:{self.port}")
        return re.sub(rf"(127\.0\.0\.1:|--port ){SECOND_PORT}", rf"\g<1>{self._second}", text)

    def follow(self, console: str) -> None:
        given = list(commands(console))
        for command, after in zip(given, [*given[1:], None], strict=True):
            output = self.run(command.text)
            if not fits(command.output, output):
                raise Difference(f"$ {command.text}\n--- shown:\n{command.output}\n--- happened:\n{output}")
            if self._code and (after is None or after.text != "echo $?"):
                raise Difference(f"$ {command.text}\nended with {self._code}, and the page does not show it:\n{output}")

    def run(self, command: str) -> str:
        """What a command prints, with the documented port in it."""
        if command == "echo $?":
            code, self._code = self._code, 0
            return str(code)
        serves = _serves(command)
        output = self._serve(command, READY[serves[1]]) if serves else self._wait_for(command)
        output = re.sub(rf"(?<!\d){self.port}(?!\d)", str(DOCUMENTED_PORT), output)
        output = re.sub(rf"(?<!\d){self._second}(?!\d)", str(SECOND_PORT), output)
        return output.replace(f" --server http://127.0.0.1:{DOCUMENTED_PORT}", "")

    def _wait_for(self, command: str) -> str:
        kept, at = self._home / "environment", self._home / "folder"
        script = f'{OPERATOR}\n{self.real(command)}\ncode=$?\nenv -0 > "{kept}"\npwd > "{at}"\nexit $code'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._at,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE_S,
            check=False,
        )
        self._code = done.returncode
        self._environment = dict(entry.split("=", 1) for entry in kept.read_text().split("\0") if entry)
        self._at = Path(at.read_text().strip())
        return done.stdout.decode()

    def _serve(self, command: str, ready: str) -> str:
        """Until the server is up, or has ended."""
        log = self._home / f"server-{len(self._servers)}.log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                ["bash", "-c", self.real(command)],
                cwd=self._at,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._servers.append(server)
        deadline = time.monotonic() + DEADLINE_S
        while ready not in log.read_text() and server.poll() is None:
            if time.monotonic() > deadline:
                raise Difference(f"$ {command}\ndid not start: {log.read_text()}")
            time.sleep(0.02)
        said = log.read_text()
        while not _has_heard_upstreams(log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        self._code = server.poll() or 0
        # What upstreams say in the log comes sooner or later; the text that is shown ends where a reader stops.
        return said[: said.index(ready) + len(ready)] if "  Upstreams  " in said else log.read_text()


class Prompt:
    """A Python that remembers what the page's earlier blocks defined."""

    def __init__(self) -> None:
        self._module = sys.modules["example"] = ModuleType("example")

    def follow(self, source: str, place: str) -> None:
        lines = source.splitlines()
        for node in ast.parse(source).body:
            claim = _claim(lines[(node.end_lineno or 0) - 1]) if isinstance(node, ast.Expr) else None
            if isinstance(node, ast.Expr) and claim is not None:
                self._check(ast.unparse(node), claim[1], claim[2].strip(), place)
            else:
                exec(compile(ast.Module([node], []), place, "exec"), vars(self._module))

    def _check(self, expression: str, kind: str, shown: str, place: str) -> None:
        try:
            value = eval(compile(expression, place, "eval"), vars(self._module))
            happened, ended = repr(value), "=>"
        except Exception as error:
            happened, ended = f"{type(error).__name__}: {error}", "raises"
        if ended != kind or not fits(shown, happened):
            raise Difference(f"{expression}\n--- shown:\n{kind} {shown}\n--- happened:\n{ended} {happened}")


class Reader:
    """Somebody who follows one page in an empty folder."""

    def __init__(self, folder: Path, *, reference_server: bool = False, is_warm: bool = True) -> None:
        self._folder, self._reference_server = folder, reference_server
        self._shell = Shell(folder, _door().folder if is_warm else Path(sys.executable).parent)
        self._prompt = Prompt()
        self._unused: set[str] = set()
        self._section = -1

    def follow(self, block: Block, page: str) -> None:
        place = f"{page}:{block.line}"
        if block.section != self._section:
            self._section = block.section
            self._shell.start_afresh()
            if self._reference_server:
                self._shell.run("toolyard serve")
        try:
            self._do(block, place)
        except Exception as error:
            raise Difference(f"{place}: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        self._shell.close()
        if self._unused:
            raise Difference(f"written, and then not used by any example: {', '.join(sorted(self._unused))}")

    def _do(self, block: Block, place: str) -> None:
        if block.language == "text" or block.options.get("skip"):
            return
        self._unused = {title for title in self._unused if Path(title).stem not in block.text}
        if title := block.options.get("title"):
            (self._folder / title).write_text(self._shell.real(block.text))
            if title.endswith(".py"):
                sys.modules.pop(Path(title).stem, None)
            self._unused.add(title)
        elif block.language == "python":
            self._prompt.follow(self._shell.real(block.text), place)
        elif block.language == "console" or block.text.startswith("$ "):
            self._shell.follow(block.text)
        else:
            raise Difference(f"this cannot be run: {block.language or 'a block without a language'}")


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Imports and relative paths start here; afterwards nothing is left of it."""
    before, path, modules = Path.cwd(), list(sys.path), set(sys.modules)
    writes = sys.dont_write_bytecode
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:], sys.dont_write_bytecode = path, writes
        for name in set(sys.modules) - modules:
            if name == "example" or str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
