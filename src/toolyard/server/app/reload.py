"""`serve --reload`: a parent that holds the listening socket and starts the server anew when a file changes.

Because the parent keeps the socket, a client that calls in between waits a moment instead of being refused. A file
that does not load leaves its message on the screen, and the next change tries again.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from ...runners.desktop_file import is_desktop_file
from ...runners.loader import entry_points_of, is_package_name

LOOK_EVERY_S = 0.3
PR_SET_PDEATHSIG = 1
_system = ctypes.CDLL(None)
_OTHERS = {"toolyard.toml", "tools.lock"}
"""Files that start the server anew, besides Python's."""
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


def supervise(arguments: list[str], targets: Iterable[str], listener: socket.socket) -> None:
    """Runs `toolyard` with these arguments, and again after each change of a file beside the targets, until
    interrupted."""
    targets = list(targets)
    # Of a desktop client's file, nothing but the file itself: what else is in its folder is no code of these tools.
    files = [target.partition(":")[0] for target in targets if is_desktop_file(target)]
    folders = {_folder(target) for target in targets if not is_desktop_file(target)}
    # The child has the socket by its number, and this process keeps it open: between two, connections queue up.
    command = [sys.executable, "-m", "toolyard", *arguments, "--fd", str(listener.fileno())]
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    seen = _stamps(folders, files)
    child = _started(command, listener)
    try:
        while True:
            time.sleep(LOOK_EVERY_S)
            now = _stamps(folders, files)
            if now != seen:
                seen = now
                _end(child)
                child = _started(command, listener)
    except KeyboardInterrupt:
        _end(child)


def _started(command: list[str], listener: socket.socket) -> "subprocess.Popen[bytes]":
    """A server that is told to stop when this process is gone, however that ended: else it would go on with old code,
    at an address where nobody looks for changes any more."""
    return subprocess.Popen(command, pass_fds=[listener.fileno()], preexec_fn=_end_with_parent)


def _end_with_parent() -> None:
    """In the child, before it is `toolyard`. Linux alone has this."""
    if sys.platform == "linux":
        _system.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _interrupt(*_: object) -> None:
    """Leaves the loop of `supervise` at once, also out of its sleep."""
    raise KeyboardInterrupt


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Stops a server in order, and waits for it: the next one needs its ledger."""
    if child.poll() is None:
        child.terminate()
    child.wait()


def _folder(target: str) -> Path:
    """Where a target's files are, found without running any of them: in this process their code must never run."""
    path = target.partition(":")[0]
    if path.endswith(".py") or "/" in path:
        return Path(path).resolve().parent
    package = path.partition(".")[0]
    if is_package_name(path) and (named := entry_points_of(path)):
        package = named[0].module.partition(".")[0]
    elif Path(package).is_dir():
        return Path(package).resolve()
    spec = find_spec(package) if not Path(f"{package}.py").is_file() else None
    return Path(spec.origin).parent if spec and spec.origin else Path.cwd()


def _stamps(folders: set[Path], files: Iterable[str]) -> dict[str, float]:
    """When each file was changed last."""
    found = (path for folder in folders for path in _files(folder))
    return dict(stamp for path in (*files, *found) for stamp in _stamp(path))


def _stamp(path: str) -> Iterator[tuple[str, float]]:
    try:
        yield path, os.stat(path).st_mtime
    except FileNotFoundError:
        pass  # an editor is just replacing it: the next look finds it


def _files(folder: Path) -> Iterator[str]:
    """The files below a folder that matter; hidden folders, other people's packages and virtual environments are left
    out, by taking them out of the list that `os.walk` goes on with."""
    for parent, below, names in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(".") and name not in _SKIPPED]
        below[:] = [name for name in below if not (Path(parent) / name / "pyvenv.cfg").exists()]
        yield from (os.path.join(parent, name) for name in names if name.endswith(".py") or name in _OTHERS)
