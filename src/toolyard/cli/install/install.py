"""`toolyard install`: somebody who uses a desktop client has it start their tools, by an entry in its configuration.

The file is not ours, so as little of it as possible is changed, the change is shown, and the file as it was is kept.
"""

import difflib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ...model.errors import SetupError
from ..support.screen import complain, say
from .desktop_clients import CLIENTS, Desktop, DesktopName, Unusable

BACKUP = ".toolyard-backup"
_name = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch


def install(
    client: Annotated[DesktopName, typer.Argument(help="Whose configuration.")],
    file: Annotated[str, typer.Argument(help="The tools: tools.py, or tools.py:name.")],
    name: Annotated[str | None, typer.Option(help="What the client calls them (the file's name).")] = None,
    config: Annotated[str | None, typer.Option(help="The client's configuration file, if it is elsewhere.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take it out again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change, and do not make it.")] = False,
) -> None:
    """Let a desktop client start these tools, over MCP: it runs `toolyard stdio tools.py` by itself.

    toolyard install claude tools.py

    Only this one entry of its configuration is changed. The file as it was is kept beside it.
    """
    desktop = CLIENTS[client]
    target = _target(file, is_needed=not undo)
    called = _called(name, target)
    path = Path(config).expanduser() if config else desktop.path()
    before = _read(path)
    try:
        if undo:
            after = desktop.without_server(before, called)
        else:
            after = desktop.with_server(before, called, _command("stdio", target))
    except Unusable as error:
        _refuse(path, error)
    if after == before:
        say(f"{called} is {'not' if undo else 'already'} in {path}; nothing to do\n")
        return
    say(_diff(path, before, after))
    if dry_run:
        say("\nNothing was changed.\n")
        return
    kept = _replace(path, after)
    say(_done(desktop, called, path, kept, undo=undo))


def _target(file: str, *, is_needed: bool) -> str:
    """The tools' file with its whole path, and the name in it. Raises SetupError where there is no such file."""
    place, colon, variable = file, "", ""
    if not Path(file).exists() and ".py:" in file:
        place, colon, variable = file.rpartition(":")
    if is_needed and not Path(place).is_file():
        raise SetupError(f"there is no file {place}")
    return os.path.abspath(place) + colon + variable


def _called(name: str | None, target: str) -> str:
    """What the client calls the tools: the name that was given, or the file's."""
    if name is None:
        return re.sub(r"[^A-Za-z0-9_-]", "-", Path(target.partition(".py:")[0]).name.removesuffix(".py"))[:64]
    if not _name(name):
        raise SetupError(f"--name must be up to 64 letters, digits, '_' and '-', got {name!r}")
    return name


def _command(*arguments: str) -> list[str]:
    """A command line that starts this very toolyard, from whatever folder."""
    folder = Path(sys.executable).parent
    script = folder / ("toolyard.exe" if sys.platform == "win32" else "toolyard")
    if script.is_file():
        return [str(script), *arguments]
    return [sys.executable, "-m", "toolyard", *arguments]


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


def _done(desktop: Desktop, called: str, path: Path, backup: Path | None, *, undo: bool) -> str:
    done = f"Took {called} out of" if undo else f"Put {called} into"
    kept = f" What was there is in {backup}." if backup is not None else ""
    return f"\n{done} {path}.{kept}\n{desktop.title} sees it after a restart.\n"
