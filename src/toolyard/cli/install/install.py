"""`toolyard install`: somebody who uses a desktop client has it start their tools, or connect to a server, by an entry
in its configuration.

The file is not ours, so as little of it as possible is changed, the change is shown, and the file as it was is kept.
"""

import difflib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, NoReturn
from urllib.parse import urlsplit

import typer

from ...model.errors import SetupError
from ...runners.loader import entry_points_of, is_file_name, is_package_name
from ..support.screen import complain, say
from ..support.target import address
from .desktop_clients import CLIENTS, HIDDEN, Desktop, DesktopName, McpServer, Unusable

BACKUP = ".toolyard-backup"
_name = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_variable = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


def install(
    client: Annotated[DesktopName, typer.Argument(help="Whose configuration.")],
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|MODULE|PACKAGE|URL",
            help="The tools: tools.py, package.module, either with :name, an installed package, or a server's address.",
        ),
    ],
    name: Annotated[str | None, typer.Option(help="What the client calls them (the file's or package's name).")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=VALUE]", help="A variable for the tools; without a value, the one that is set now."
        ),
    ] = None,
    scope: Annotated[
        Literal["user", "project"], typer.Option(help="Claude Code: for you (user), or in ./.mcp.json (project).")
    ] = "user",
    config: Annotated[str | None, typer.Option(help="The client's configuration file, if it is elsewhere.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take it out again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change, and do not make it.")] = False,
) -> None:
    """Let a desktop client use these tools, over MCP.

    It then runs 'toolyard stdio tools.py' by itself, or connects to the address.

    toolyard install claude tools.py

    toolyard install claude-code mytools --env SHOP_KEY

    toolyard install cursor https://yard.example/mcp

    Only this one entry of its configuration is changed. The file as it was is kept beside it. The values of variables
    are not shown.
    """
    desktop = CLIENTS[client]
    server = _server(target, env, is_shared=scope == "project", is_needed=not undo)
    called = _called(name, target)
    path = _path(desktop, scope, config)
    before = _read(path)
    try:
        after = (desktop.without_server if undo else desktop.with_server)(before, called, server)
    except Unusable as error:
        _refuse(path, error)
    if after == before:
        say(f"{called} is {'not' if undo else 'already'} in {path}; nothing to do\n")
        return
    hidden = desktop.variables(before, called) | desktop.variables(after, called)
    say(_without_values(_diff(path, before, after), hidden))
    if dry_run:
        say("\nNothing was changed.\n")
        return
    kept = _replace(path, after)
    say(_done(desktop, called, path, kept, undo=undo))


def _path(desktop: Desktop, scope: str, config: str | None) -> Path:
    """The file to change. Raises SetupError."""
    if scope == "project" and not desktop.project_file:
        raise SetupError(f"{desktop.title} has no file of a project that toolyard knows; leave --scope out")
    if config:
        return Path(config).expanduser()
    return Path.cwd() / desktop.project_file if scope == "project" else desktop.path()


# --- what is installed ---------------------------------------------------------------------------


def _server(target: str, env: list[str] | None, *, is_shared: bool, is_needed: bool) -> McpServer:
    """What the client is to use. Raises SetupError where it could not."""
    if target.startswith(("http://", "https://")):
        if env:
            raise SetupError("--env is for tools that the client starts; what runs at an address has its own variables")
        return McpServer(url=address(target, "the target"))
    variables = {} if not is_needed else _variables(env, is_shared=is_shared)
    if _is_file(target):
        target = _file(target, is_needed=is_needed)
    elif is_needed:
        _check_module(target)
    command = (*_toolyard(), "stdio", target)
    return McpServer(_for_everybody(command) if is_shared else command, variables)


def _variables(given: list[str] | None, *, is_shared: bool) -> dict[str, str]:
    """The variables by name. In a file that others get, too, one without a value is named and not written down: Claude
    Code puts in what is set where it runs. Raises SetupError."""
    found: dict[str, str] = {}
    for word in given or ():
        name, equals, value = word.partition("=")
        if not _variable(name):
            raise SetupError(f"--env takes NAME=VALUE or NAME, and {name!r} is no name of a variable")
        if name in found:
            raise SetupError(f"--env {name} is given twice; give it once")
        if not equals and not is_shared and name not in os.environ:
            raise SetupError(f"--env {name}: no such variable is set; set it, or write {name}=VALUE")
        found[name] = value if equals else f"${{{name}}}" if is_shared else os.environ[name]
    return found


def _is_file(target: str) -> bool:
    return is_file_name(target.partition(":")[0]) or Path(target).is_file() or ".py:" in target


def _file(file: str, *, is_needed: bool) -> str:
    """The tools' file with its whole path, and the name in it. Raises SetupError where there is no such file."""
    place, colon, variable = file, "", ""
    if not Path(file).exists() and ".py:" in file:
        place, colon, variable = file.rpartition(":")
    if is_needed and not Path(place).is_file():
        raise SetupError(f"there is no file {place}")
    return os.path.abspath(place) + colon + variable


def _check_module(target: str) -> None:
    """The client starts the tools from whatever folder, so a module has to be found from there. Raises SetupError."""
    module = target.partition(":")[0]
    if is_package_name(target) and entry_points_of(target):
        return
    kept, here = sys.path[:], (Path.cwd(), Path())
    sys.path[:] = [path for path in kept if Path(path) not in here]
    try:
        is_found = find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        is_found = False
    finally:
        sys.path[:] = kept
    if not is_found:
        raise SetupError(
            f"there is no module or package {module!r} that a client would find from its own folder; "
            "install it (pip install -e .), or name its file"
        )


def _called(name: str | None, target: str) -> str:
    """What the client calls the tools: the name that was given, or one from where they are."""
    if name is not None:
        if not _name(name):
            raise SetupError(f"--name must be up to 64 letters, digits, '_' and '-', got {name!r}")
        return name
    if target.startswith(("http://", "https://")):
        place = urlsplit(target).netloc
    elif _is_file(target):
        place = Path(target.partition(".py:")[0]).name.removesuffix(".py")
    else:
        place = target.partition(":")[0]
    return re.sub(r"[^A-Za-z0-9_-]", "-", place)[:64]


def _toolyard() -> tuple[str, ...]:
    """The words that start this very toolyard, from whatever folder."""
    folder = Path(sys.executable).parent
    script = folder / ("toolyard.exe" if sys.platform == "win32" else "toolyard")
    if script.is_file():
        return (str(script),)
    return sys.executable, "-m", "toolyard"


def _for_everybody(command: tuple[str, ...]) -> tuple[str, ...]:
    """The same for whoever has the project, in a folder of their own: what is in it is named from there, and a toolyard
    that is elsewhere is the one that they have."""
    program, *words = (_in_project(word) for word in command)
    if not Path(program).is_absolute():
        return program, *words
    return "toolyard", *words[words.index("stdio") :]


def _in_project(word: str) -> str:
    """A path as it is seen from the project's folder, where it leads into that. Not by what links lead to: the Python
    of a virtual environment is one."""
    try:
        return str(Path(word).relative_to(Path.cwd()))
    except ValueError:
        return word


# --- the file ------------------------------------------------------------------------------------


def _read(path: Path) -> str:
    """The file's text, line ends as they are; empty where there is no file."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise SetupError(f"{path} is not text in UTF-8; it was not changed") from None
    except OSError as error:
        raise SetupError(f"cannot read {path}: {error.strerror}") from None


def _replace(path: Path, text: str) -> Path | None:
    """Writes the file whole or not at all, also where the path is a link. Returns the copy of what was there before, if
    anything was."""
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        backup = path.with_name(path.name + BACKUP) if path.exists() else None
        if backup is not None:
            shutil.copy2(path, backup)
        handle, written = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            if backup is not None:
                shutil.copymode(path, written)
            os.replace(written, path)
        except OSError:
            os.unlink(written)
            raise
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror}") from None
    return backup


# --- words ---------------------------------------------------------------------------------------


def _refuse(path: Path, error: Unusable) -> NoReturn:
    """Says why the file was not changed, with what a person can paste into it, and ends the verb with exit code 2."""
    advice = f"; put this into it yourself:\n\n{error.snippet}" if error.snippet else "\n"
    complain(f"toolyard: {path} {error}. It was not changed{advice}")
    raise typer.Exit(2)


def _diff(path: Path, before: str, after: str) -> str:
    """The change with one line around it, not more: next to it there may be other servers' secrets."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), n=1, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _without_values(shown: str, variables: Iterable[str]) -> str:
    """A change as people see it, without the values of these variables: they may be secrets, the old ones, too."""
    for name in variables:
        member = rf"""(["']?{re.escape(name)}["']?\s*[:=]\s*)(?:"(?:[^"\\]|\\.)*"|'[^']*')"""
        shown = re.sub(member, lambda found: f'{found[1]}"{HIDDEN}"', shown)
    return shown


def _done(desktop: Desktop, called: str, path: Path, backup: Path | None, *, undo: bool) -> str:
    done = f"Took {called} out of" if undo else f"Put {called} into"
    kept = f" What was there is in {backup}." if backup is not None else ""
    return f"\n{done} {path}.{kept}\n{desktop.title} sees it after a restart.\n"
