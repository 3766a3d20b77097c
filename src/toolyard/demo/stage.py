"""What the demo runs on: a folder, the provider in a thread, and `toolyard serve` in a process of its own.

The server is started as anybody would start it, with a settings file in the folder, so that the commands that the demo
shows work in another terminal.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from ..client.client import Client
from ..client.transport import HttpTransport
from ..model.errors import ServerError, SetupError
from ..operator.client import OperatorClient
from ..operator.reach import reach
from ..server.settings.table import PREFIX, exactly
from .provider import Application, DemoProvider
from .provider_http import listening, providing

TOOLS = Path(__file__).with_name("tools.py")
LOG = "server.log"
LEDGER = "toolyard.db"
ASK_S = 60.0
STOP_S = 15.0
SETTINGS = """\
# Made by toolyard demo. The provider is there while the demo runs.
tools = ["tools.py"]
audit = "strict"

[[providers]]
id = "demo"
issuer = "{issuer}"
client_id = "{client_id}"
client_secret = "{client_secret}"
scopes = ["openid", "email", "offline_access"]
"""


class Stage(Struct, frozen=True):
    """The running demo: its folder, and the addresses of its server and provider."""

    folder: Path
    server: str
    provider: str

    def client(self) -> Client:
        """A client of the demo's server, as a caller has it."""
        return Client(self.server, sending=HttpTransport(self.server, None, ASK_S))

    def run(self, *words: str, given: str = "") -> tuple[int, list[str]]:
        """Runs a command of toolyard in the folder. Returns its exit code, and the lines that it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "toolyard", *words],
            cwd=self.folder,
            env=_environment(self.provider) | {"PYTHONIOENCODING": "utf-8"},
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        return done.returncode, done.stdout.splitlines()

    def operator(self) -> OperatorClient:
        """A client with an operator's rights, which finds the server by the file beside the ledger."""
        transport = reach(exactly(store=f"sqlite:{self.folder / LEDGER}"))
        if transport is None:
            raise ServerError(f"There is no ledger in {self.folder}")
        return OperatorClient(transport)


@contextmanager
def folder_at(keep: Path | None) -> Iterator[Path]:
    """The folder to keep, or else a temporary one that is removed afterwards. Raises SetupError."""
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="toolyard-demo-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise SetupError(f"{keep} is there already; --keep wants a folder that is new or empty")
    try:
        keep.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"cannot make {keep}: {error.strerror}") from None
    yield keep.resolve()


@contextmanager
def stage_in(folder: Path) -> Iterator[Stage]:
    """Runs provider and server while the block runs. Raises SetupError where the server does not start."""
    with ExitStack() as stack:
        # Both sockets are bound before anything starts: each side has to know the other's address.
        provider_listener, issuer = stack.enter_context(listening())
        listener, server = stack.enter_context(listening())
        application = Application("toolyard-demo", secrets.token_urlsafe(24), f"{server}/connections/demo/callback")
        stack.enter_context(providing(DemoProvider(issuer, application), provider_listener))
        _fill(folder, issuer, application)
        stack.enter_context(_serving(folder, issuer, listener.fileno()))
        listener.close()  # the server has its own copy; with this one open, nobody would notice that it has ended
        stage = Stage(folder, server, issuer)
        _await(stage)
        yield stage


def log_of(folder: Path) -> str:
    """The last lines of the server's log."""
    path = folder / LOG
    return "\n".join(path.read_text(encoding="utf-8").splitlines()[-20:]) if path.exists() else ""


def _fill(folder: Path, issuer: str, application: Application) -> None:
    (folder / "tools.py").write_text(TOOLS.read_text(encoding="utf-8"), encoding="utf-8")
    written = SETTINGS.format(issuer=issuer, client_id=application.id, client_secret=application.secret)
    (folder / "toolyard.toml").write_text(written, encoding="utf-8")


def _await(stage: Stage) -> None:
    """Waits until the server answers. Its socket listens already, so a request waits in the queue until the server is
    up, and fails if the server has ended, as nobody else has the socket any more."""
    with stage.client() as client:
        try:
            is_up = client.healthy()
        except ServerError:
            is_up = False
    if not is_up:
        raise SetupError(f"the demo's server did not start:\n{log_of(stage.folder)}")


@contextmanager
def _serving(folder: Path, issuer: str, listener: int) -> Iterator[None]:
    """Runs `toolyard serve` while the block runs, in a session of its own: Ctrl-C reaches the demo alone, which then
    ends the server in its turn."""
    with ExitStack() as ending:
        with (folder / LOG).open("wb") as log, _ctrl_c_later():
            child = subprocess.Popen(
                [sys.executable, "-m", "toolyard", "serve", "--fd", str(listener)],
                cwd=folder,
                env=_environment(issuer),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[listener],
                start_new_session=True,
            )
            ending.callback(_end, child)
        yield


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Defers Ctrl-C to the end of the block: in the middle, a process that was started and is not registered yet would
    be left behind."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            signal.raise_signal(signal.SIGINT)


def _environment(issuer: str) -> dict[str, str]:
    """The environment of the demo's processes, without toolyard's own settings of whoever runs the demo."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    # The processes run in another folder, where relative paths would mean something else.
    if path := kept.get("PYTHONPATH"):
        kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(each) for each in path.split(os.pathsep) if each)
    return kept | {"DEMO_PROVIDER": issuer}
