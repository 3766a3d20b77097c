"""What a process knows of the group that it serves in: its number, the line to its parent, and the folder in which the
processes of the group find each other.

The parent hands it over as an argument. The folder is the group's alone and is gone when the group is.
"""

import os
import shutil
import signal
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import Struct

from ...model.errors import SettingsError
from ...model.json_value import decode_as
from ...supervision import Supervisor
from ..http.logs import SharedLog
from ..ledger import is_shared
from ..settings.table import Settings

LOG_LOCK = "log.lock"
SHARES = "connections"


class TakesCalls(Struct):
    """That a process takes calls: which it is, for the system and in the ledger, and what to show whoever started the
    server."""

    pid: int
    node: str
    text: str


class News(Struct, omit_defaults=True):
    """What a process tells its parent."""

    takes_calls: TakesCalls | None = None
    follows: str | None = None
    """What stands in the file of settings that are now in force. A process that is started later follows the same,
    whatever stands in the file by then."""


class GroupSettings(Struct, frozen=True):
    """What stood in the settings file when a group was started, and what when its processes last followed it. Some
    settings change with the one, and the others with the other."""

    started: str
    followed: str


class GroupMember(Struct, frozen=True):
    """One process of a group. `listener`, `line` and `settings` are descriptors that it has from its parent."""

    number: int
    """From 1; a process that is started again has the number of the one that died."""
    of: int
    listener: int
    line: int
    settings: int
    """A file with the `GroupSettings`."""
    folder: str

    @classmethod
    def read(cls, given: str) -> "GroupMember":
        return decode_as(given.encode(), cls)

    def written(self) -> str:
        return msgspec.json.encode(self).decode()

    def take(self, descriptor: int) -> socket.socket:
        """A socket that the parent has handed over. What tools start does not get it: a program that stays behind would
        hold the server's port."""
        os.set_inheritable(descriptor, False)
        return socket.socket(fileno=descriptor)

    def read_settings(self) -> GroupSettings:
        with open(self.settings, "rb") as file:
            return decode_as(file.read(), GroupSettings)

    @property
    def log(self) -> SharedLog:
        return log_of(Path(self.folder), self.number)

    @property
    def shares(self) -> Path:
        return Path(self.folder, SHARES)

    @property
    def socket(self) -> Path:
        """Where this process answers the others of its group."""
        return self.socket_of(self.number)

    def socket_of(self, number: int) -> Path:
        return Path(self.folder, f"{number}.sock")

    def leave_folder(self) -> None:
        """Removes the folder, unless others of the group still use it: who does that otherwise, the parent, is gone."""
        self.socket.unlink(missing_ok=True)
        if not any(self.socket_of(number).exists() for number in range(1, self.of + 1)):
            shutil.rmtree(self.folder, ignore_errors=True)


def check_group(settings: Settings) -> None:
    """Raises SettingsError for several processes where only one can serve."""
    count = settings.serve_processes
    if count > 1 and not is_shared(settings):
        raise SettingsError(
            f"{count} processes cannot serve from {settings.store}, because SQLite lets one process write: name a "
            "PostgreSQL database with --store postgresql://…, or serve with one process"
        )
    if count > 1 and settings.reload:
        raise SettingsError("--reload is for one process: leave out --reload or --processes")


def log_of(folder: Path, number: int | None = None) -> SharedLog:
    """The log of a group's processes, or, without a number, of their parent."""
    return SharedLog(number, folder / LOG_LOCK)


def share_of(settings: Settings, member: GroupMember) -> Settings:
    """The settings for one process of a group. What the machine has to give, they divide; what is a caller's is each
    one's own, or shared through the ledger."""
    return replace(
        settings,
        max_connections=-(-settings.max_connections // member.of),
        processes=-(-settings.processes // member.of),
    )


class ParentLine:
    """The line to the parent. It ends with the parent, however that ended, and then this process stops as if it had
    been told to: nobody would start it again, or tell it to stop."""

    def __init__(self, member: GroupMember) -> None:
        self._line = member.take(member.line)
        self.is_cut = False
        """Whether the parent is gone."""

    def tell(self, news: News) -> None:
        with suppress(OSError):  # the parent is gone, and so will this process be
            self._line.sendall(msgspec.json.encode(news) + b"\n")

    def watch(self, supervisor: Supervisor) -> None:
        """From now on, in a thread: a tool may hold up the loop."""
        supervisor.thread("parent's end", self._wait)

    def _wait(self) -> None:
        with suppress(OSError):  # a parent that was killed with something of ours unread
            while self._line.recv(1):
                pass
        self.is_cut = True
        os.kill(os.getpid(), signal.SIGTERM)
