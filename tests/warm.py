"""Processes of `toolyard`, and of `uvicorn`, that need not load it first.

Most tests that start a server or a verb want a real process: with an id to kill, a folder, an environment and pipes of
its own. They do not want to see Python import toolyard once more, which takes longer than most of what they test. So
one process loads it, and forks another for each that is asked for; from `python -m toolyard` on the two are the same.
That process has loaded whatever a verb or a server may come to need, too.
What start-up itself does is tested in processes that start cold. Nor does a forked process take apart what was loaded
before it was forked: Python, at its end, would touch (and so copy) all of it, which takes longer than most verbs.

A forked process is a child of the one that asked for it, not of the one that forked it (`CLONE_PARENT`), so it is
waited for, and its end is seen, like that of any other.

Where a shell starts `toolyard`, a folder in front of its PATH does the same: the command there (`knocking.py`) hands
its streams, folder and environment to the tests' process, and ends as the process that is started for it does.
"""

import atexit
import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import platform
import runpy
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

CLONE_PARENT = 0x8000
SYS_CLONE = {"x86_64": 56, "aarch64": 220}
PYTHON_M = [sys.executable, "-m"]
SCRIPT = str(Path(sys.executable).with_name("toolyard"))
MODULES: dict[str, tuple[str, ...]] = {
    "toolyard": (),
    "uvicorn": ("fastapi",),
    "tests.server.talking": ("fastapi",),
}
"""What is run with `python -m`, and what is loaded besides when that is first asked for."""
LOADED = (
    "encodings.idna",
    "httpcore2",
    "toolyard.reference",
    "truststore",
    "typer._adapters",
    "typer._click.decorators",
    "uvicorn.lifespan.off",
    "uvicorn.loops.uvloop",
)
"""What verbs and servers load on their way, besides what the tables of verbs and of lazy doors have."""


def start(arguments: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """Like `Popen`, with `cwd` and `env` and whatever there is for the three streams. Warm, if this is
    `toolyard`, or `python -m` with one of `MODULES`, in an environment that means to Python what ours does."""
    is_ours = list(arguments[:2]) == PYTHON_M and arguments[2] in MODULES
    is_known = options.get("preexec_fn") in (None, take_terminal)
    can_fork = sys.platform == "linux" and platform.machine() in SYS_CLONE and is_known
    if (is_ours or arguments[0] == SCRIPT) and can_fork and _for_python(options["env"]) == _for_python(os.environ):
        return Warm(arguments, **options)
    return subprocess.Popen(arguments, **options)


def take_terminal() -> None:
    """A `preexec_fn`, for a process whose standard input is to be its terminal."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may have had it ignored, as nohup does
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def run(
    arguments: Sequence[str], *, input: str, timeout: float, cwd: Any, env: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Like `subprocess.run`, with text in and out."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start(arguments, cwd=cwd, env=env, text=True, **pipes) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def _for_python(environment: Mapping[str, str]) -> dict[str, str]:
    names = (name for name in environment if name.startswith("PYTHON") and name != "PYTHONUNBUFFERED")
    return {name: environment[name] for name in names}


class Warm(subprocess.Popen[Any]):
    """A process that was forked. All else is as with any other."""

    def _execute_child(self, args: Any, *more: Any) -> None:
        cwd, env, pipes = *more[4:6], more[9:15]
        streams = [at if at != -1 else own for own, at in enumerate((pipes[0], pipes[3], pipes[5]))]
        wanted = {"arguments": list(args), "cwd": str(cwd), "env": dict(env), "terminal": more[1] is not None}
        self.pid = _forker().fork(wanted, streams)
        if not self.pid:
            super()._execute_child(args, *more)  # type: ignore[misc]
            return
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


@cache
def _forker() -> "Forker":
    return Forker()


class Forker:
    """The process that has loaded toolyard. It ends with this one."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair()
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )

    def fork(self, wanted: dict[str, Any], streams: Sequence[int]) -> int:
        """The new process's id; 0 where the system does not let one process fork for another."""
        message = json.dumps(wanted).encode()
        with self._lock:
            socket.send_fds(self._line, [len(message).to_bytes(4)], streams)
            self._line.sendall(message)
            answer = self._line.recv(4)
        if not answer:
            raise RuntimeError("the process that forks others is gone")
        return int.from_bytes(answer)


class Door:
    """Where `knocking.py` asks for processes. `folder` has it under the name `toolyard`."""

    def __init__(self, folder: Path) -> None:
        self.folder, at = folder, folder / "door"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(at))
        self._listening.listen()
        source = Path(__file__).with_name("knocking.py").read_text(encoding="utf-8")
        command = folder / "toolyard"
        command.write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
        command.chmod(0o700)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            line, _ = self._listening.accept()
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        with line:
            size, streams, _, _ = socket.recv_fds(line, 4, 3)
            wanted = json.loads(_read(line, int.from_bytes(size)))
            given = dict(zip(("stdin", "stdout", "stderr"), streams, strict=True))
            with start([SCRIPT, *wanted["arguments"]], cwd=wanted["cwd"], env=wanted["env"], **given) as process:
                for stream in streams:
                    os.close(stream)
                line.sendall(process.pid.to_bytes(4))
                ended = os.pidfd_open(process.pid)
                if line.fileno() in select.select([ended, line.fileno()], [], [])[0]:  # who asked for it is gone
                    process.terminate()
                os.close(ended)
            with suppress(BrokenPipeError):
                line.sendall(process.returncode.to_bytes(4, signed=True))


# --- in the process that forks -----------------------------------------------------------------------


def main(line: socket.socket) -> None:
    """Comes to its end in the forked processes only, and when nobody asks any more."""
    _load({*LOADED, *_behind("toolyard.lazy", "LAZY"), *_behind("toolyard.cli.verbs", "VERBS")})
    while True:
        size, streams, _, _ = socket.recv_fds(line, 4, 3)
        if not size:
            return
        wanted = json.loads(_read(line, int.from_bytes(size)))
        _load(MODULES.get(wanted["arguments"][2], ()) if wanted["arguments"][0] != SCRIPT else ())
        forked = _fork()
        if not forked:
            line.close()
            _become(wanted, streams)
            return
        for stream in streams:
            os.close(stream)
        line.sendall(max(0, forked).to_bytes(4))


def _behind(module: str, table: str) -> list[str]:
    """The modules of a table of what is loaded on first use."""
    places: dict[str, str] = getattr(importlib.import_module(module), table)
    return [place.partition(":")[0] for place in places.values()]


def _load(modules: Iterable[str]) -> None:
    """Imports what is not there yet. It is not garbage: nobody who is forked need look at it, and so copy it."""
    missing = [module for module in modules if module not in sys.modules]
    for module in missing:
        importlib.import_module(module)
    if missing:
        gc.collect()
        gc.freeze()


def _read(line: socket.socket, size: int) -> bytes:
    read = bytearray()
    while len(read) < size:
        read += line.recv(size - len(read))
    return bytes(read)


def _fork() -> int:
    """Like `os.fork`, but for whose child it is; below 0 if that cannot be."""
    call = ctypes.PyDLL(None).syscall
    call.argtypes, call.restype = [ctypes.c_long] * 6, ctypes.c_long
    ctypes.pythonapi.PyOS_BeforeFork()
    forked: int = call(SYS_CLONE[platform.machine()], CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if forked == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return forked


def _become(wanted: dict[str, Any], streams: Sequence[int]) -> None:
    """The process that was asked for, until it ends."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if wanted["terminal"]:
        take_terminal()
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), sys.stdin.encoding, sys.stdin.errors)
    sys.stdout, sys.stderr = _writer(1, sys.stdout), _writer(2, sys.stderr)
    try:
        _run(wanted["arguments"])
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            _end(left.code or 0)
        raise
    _end(0)


def _run(arguments: list[str]) -> None:
    if arguments[0] == SCRIPT:
        sys.path[0], sys.argv = str(Path(SCRIPT).parent), arguments
        sys.exit(importlib.import_module("toolyard.cli").main())
    sys.path[0], sys.argv[1:] = os.getcwd(), arguments[3:]
    runpy.run_module(arguments[2], run_name="__main__", alter_sys=True)


def _end(code: int) -> None:
    """As Python ends, but for the memory. Comes back if not all that was written could be: then Python says so."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code & 0xFF)


def _writer(number: int, like: Any) -> io.TextIOWrapper:
    """As Python makes them: errors and terminals by the line."""
    raw, by_lines = io.FileIO(number, "w", closefd=False), number == 2 or os.isatty(number)
    if os.environ.get("PYTHONUNBUFFERED"):
        return io.TextIOWrapper(raw, like.encoding, like.errors, line_buffering=by_lines, write_through=True)
    return io.TextIOWrapper(io.BufferedWriter(raw), like.encoding, like.errors, line_buffering=by_lines)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
