"""`toolyard doctor`: looks at what a server needs, and says what to do about each thing that is not well.

It changes nothing, and works beside a server as well as without one. What it cannot look at, because something before
it is not well, it leaves out: what is said is what was seen.
"""

import asyncio
import errno
import http.client
import os
import platform
import shutil
import socket
import ssl
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import apsw
import msgspec
from cryptography import x509
from msgspec import Struct

from ..lazy import load
from ..model.audit import Chain
from ..model.clock import SYSTEM_CLOCK
from ..model.errors import SettingsError, SetupError, ToolyardError
from ..model.json_value import decode_as
from ..runners.loader import is_file_name
from ..server.app.run import refuse_unsafe
from ..server.app.tls import check_certificate
from ..server.group.member import check_group
from ..server.ledger import is_shared, ledger_file, open_store
from ..server.settings.table import MEMORY, Settings
from ..store.inspection import Inspection
from ..store.sqlite.file import wal_of
from ..store.sqlite.inspection import VERSION as SQLITE
from ..store.sqlite.inspection import inspect
from ..trust.audit.chain import is_ours
from ..trust.sealing.ring import KeyRing
from .backup import without_password
from .reach import running

SOON_S = 14 * 86400.0
"""How long before its end something is named: long enough to do something about it after a holiday."""
CLOCKS_DIFFER_S = 2.0
LEAST_FREE = 256 * 2**20
LARGEST_WAL = 256 * 2**20
"""SQLite moves it into the ledger from 8 MB on, unless somebody reads one moment of it all the time."""
WAL_RESET = (3, 51, 3)
"""The first SQLite without a fault that can lose what was written, at the moment when the `-wal` is begun anew."""
ASKED_S = 2.0
AS_ANOTHER = "run this as the server's user, or as root"
OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Finding(Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at."""

    check: str
    well: bool
    found: str
    """What there is, in one line."""
    do: str = ""
    """What to do about it, where it is not well."""


def examined(version: str, load_settings: Callable[[], Settings]) -> list[Finding]:
    """Everything that could be looked at, in the order in which a server needs it. `version` is toolyard's own."""
    try:
        settings = load_settings()
    except SettingsError as error:
        return [
            _versions(version, None),
            _ill("settings", str(error), "correct it; 'toolyard settings' lists all of them"),
        ]
    return list(_examined(version, settings))


def _examined(version: str, settings: Settings) -> Iterator[Finding]:
    inspection, findings = _ledger(settings)
    yield _versions(version, inspection)
    yield _settings(settings, inspection)
    yield from findings
    path = ledger_file(settings.store)
    if path is None or not _is_barred(path):
        if path is not None and not path.is_dir():
            yield from _disk(path)
            yield from _rights(path)
        yield from _key(settings, inspection)
    if inspection is not None:
        yield from _api_keys(inspection)
        yield _clock(inspection)
    yield _port(settings)
    yield from _certificate(settings)


def _versions(version: str, seen: Inspection | None) -> Finding:
    database = SQLITE if seen is None else seen.version
    found = f"toolyard {version}, Python {platform.python_version()}, {database}"
    if database == SQLITE and tuple(map(int, apsw.sqlite_lib_version().split("."))) < WAL_RESET:
        return _ill("versions", found, "this SQLite can lose what was written: pip install --upgrade apsw")
    return _well("versions", found)


def _settings(settings: Settings, seen: Inspection | None) -> Finding:
    """Whether a server would start with them, as far as that can be told without loading tools, which are programs."""
    try:
        check_group(settings)
        refuse_unsafe(settings, settings.has_authentication or (seen is not None and seen.has_api_keys))
    except SettingsError as error:
        return _ill("settings", str(error), "do that, or correct the setting that is named")
    files = (target.partition(":")[0] for target in settings.tools)
    if absent := next((file for file in files if is_file_name(file) and not Path(file).exists()), None):
        return _ill("settings", f"{absent} does not exist", "correct the setting tools")
    return _well("settings", f"they can be read; the ledger is {without_password(settings.store)}")


# -- the ledger ------------------------------------------------------------------------------------


def _ledger(settings: Settings) -> tuple[Inspection | None, list[Finding]]:
    """The ledger, if it can be looked at, and what is to be said of it."""
    path = ledger_file(settings.store)
    if settings.store == MEMORY:
        return None, [_well("ledger", "in memory: gone with the server")]
    if path is not None and _is_barred(path):
        return None, [_ill("ledger", f"this user may not look into {path.absolute().parent}", AS_ANOTHER)]
    if path is not None and path.is_dir():
        return None, [_ill("ledger", f"{path} is a folder", "correct the setting store")]
    if path is not None and not path.exists() and not wal_of(path).exists():
        if not path.absolute().parent.is_dir():
            return None, [
                _ill("ledger", f"the folder of {path} does not exist", "make it, or correct the setting store")
            ]
        return None, [_well("ledger", f"{path} is not there yet; the first start makes it")]
    if path is not None and (unreadable := _unreadable("ledger", path, wal_of(path))):
        return None, [unreadable]
    try:
        inspection = inspect(path) if path is not None else asyncio.run(load("postgres_inspection")(settings.store))
        return inspection, [_schema(inspection, _user(settings))]
    except ToolyardError as error:
        said = error.developer_message or str(error)
        copy = "correct that, or go back to a copy: toolyard restore FILE"
        return None, [_ill("ledger", said, "see to it that the database answers" if path is None else copy)]


def _schema(seen: Inspection, user: str) -> Finding:
    if seen.damage:
        return _ill(
            "ledger", f"damaged: {'; '.join(seen.damage)}",
            "stop the server, and go back to a copy: toolyard restore FILE; 'toolyard backup' still copies what can be "
            "read",
        )  # fmt: skip
    if seen.schema > seen.known_schema:
        return _ill(
            "ledger", f"it has schema {seen.schema}, and this toolyard knows {seen.known_schema}", "upgrade toolyard"
        )
    if seen.schema < seen.known_schema:
        return _well("ledger", f"schema {seen.schema}; the next start brings it to {seen.known_schema}; {user}")
    return _well("ledger", f"sound, schema {seen.schema}; {user}")


def _user(settings: Settings) -> str:
    """Who has a ledger in a file open."""
    if is_shared(settings):
        return "its nodes use it beside each other"
    try:
        return "no server has it" if (transport := running(settings)) is None else _closed(transport.close)
    except SetupError as error:
        return str(error)


def _closed(close: Callable[[], None]) -> str:
    close()
    return "a server has it, and answers"


def _disk(path: Path) -> Iterator[Finding]:
    folder, wal = path.absolute().parent, wal_of(path)
    if not folder.is_dir():
        return
    free, written = shutil.disk_usage(folder).free, wal.stat().st_size if wal.exists() else 0
    found = f"{_megabytes(free)} free, {_megabytes(written)} in {wal.name}"
    if free < LEAST_FREE:
        yield _ill("disk", found, f"make room: without any, calls with a key are refused ({folder})")
    elif written > LARGEST_WAL:
        yield _ill("disk", found, "find out who reads this ledger all the time, such as a copy that hangs, and end it")
    else:
        yield _well("disk", found)


def _rights(path: Path) -> Iterator[Finding]:
    """Whoever may read the files has what callers said; whoever may write to the folder can replace them."""
    folder = path.absolute().parent
    if not folder.is_dir() or os.name != "posix":
        return
    open_files = [each for each in (path, wal_of(path)) if each.exists() and _mode(each) & OTHERS]
    mode = _mode(folder)
    if open_files:
        names = " ".join(str(each) for each in open_files)
        yield _ill("rights", f"others than the owner may read or write {names}", f"chmod 600 {names}")
    elif mode & OTHERS_MAY_WRITE and not mode & stat.S_ISVTX:
        yield _ill("rights", f"others may write to the folder {folder} ({mode:04o})", f"chmod go-w {folder}")
    elif not os.access(folder, os.W_OK):
        yield _ill("rights", f"this user may not write to the folder {folder}", "run this as the server's user")
    else:
        yield _well("rights", "the ledger is its owner's alone")


def _unreadable(check: str, *files: Path) -> Finding | None:
    """What is to be said where this user may not read one of these files."""
    for file in files:
        if file.exists() and not os.access(file, os.R_OK):
            return _ill(check, f"this user may not read {file}", AS_ANOTHER)
    return None


def _is_barred(path: Path) -> bool:
    """Whether this user may not even know if there is such a file."""
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        pass
    return False


# -- keys ------------------------------------------------------------------------------------------


def _key(settings: Settings, seen: Inspection | None) -> Iterator[Finding]:
    if settings.store == MEMORY:
        return
    ring = open_store(settings, SYSTEM_CLOCK)[1]
    ring.may_make = False
    place = "secret_key" if ring.file is None else str(ring.file)
    is_needed = seen is not None and bool(seen.heads or seen.has_sealed)
    if ring.is_missing:
        if is_needed and is_shared(settings):
            yield _ill(
                "key", f"secret_key is not set, there is no {place} here, and this ledger was signed and sealed",
                "give this node the secret_key of the others; if it is lost: toolyard secrets new-key",
            )  # fmt: skip
        elif is_needed:
            yield _ill(
                "key", f"the key file {place} is missing, and this ledger was signed and sealed with it",
                "put it back from where you keep it; if it is lost: toolyard secrets new-key",
            )  # fmt: skip
        else:
            yield _well("key", f"{place} is not there yet; it is made when it is needed")
        return
    if ring.file is not None and (unreadable := _unreadable("key", ring.file)):
        yield unreadable
        return
    try:
        if ring.file is not None and (mode := _mode(ring.file)) & OTHERS:
            yield _ill("key", f"others than its owner may read or write {place} ({mode:04o})", f"chmod 600 {place}")
        elif seen is not None and not _fits(ring, seen):
            yield _ill(
                "key", f"no key in {place} fits this ledger, which was signed with another",
                "put that one back; if it is lost: toolyard secrets new-key",
            )  # fmt: skip
        else:
            yield _well("key", f"{place} has {len(ring)} key{'' if len(ring) == 1 else 's'}, and the ledger fits")
    except (SettingsError, OSError) as error:
        yield _ill("key", str(error), "correct that, or put the key back from where you keep it")


def _fits(ring: KeyRing, seen: Inspection) -> bool:
    """As a server asks when it starts: any head will do, as after a change of the key some are of an older one."""
    return not seen.heads or any(is_ours(ring, Chain(head.chain, head)) for head in seen.heads)


def _api_keys(seen: Inspection) -> Iterator[Finding]:
    now = SYSTEM_CLOCK.now()
    for name, expires in seen.expiring:
        if expires <= now:
            yield _ill(
                "api keys",
                f"{name} has expired on {_day(expires)}",
                f"toolyard keys revoke {name}, and make another if it is needed",
            )
        elif expires <= now + SOON_S:
            yield _ill(
                "api keys",
                f"{name} expires on {_day(expires)}",
                f"give its user another, then: toolyard keys revoke {name}",
            )
    if not any(expires <= now + SOON_S for _, expires in seen.expiring):
        yield _well("api keys", "none expires within two weeks")


# -- around it -------------------------------------------------------------------------------------


def _clock(seen: Inspection) -> Finding:
    if abs(seen.clock_ahead_s) > CLOCKS_DIFFER_S:
        way = "ahead of" if seen.clock_ahead_s > 0 else "behind"
        return _ill(
            "clock", f"the database's is {abs(seen.clock_ahead_s):.0f} s {way} this machine's",
            "set both by NTP: tokens and links are judged by this machine's, deadlines by the database's",
        )  # fmt: skip
    ahead = seen.newest_at - (SYSTEM_CLOCK.now() + seen.clock_ahead_s)
    if ahead > CLOCKS_DIFFER_S:
        return _ill(
            "clock", f"the ledger was last written {ahead:.0f} s from now, so this machine's clock went back",
            "set it by NTP; until it is past that time, deadlines and the order of entries are wrong",
        )  # fmt: skip
    return _well(
        "clock", f"{datetime.fromtimestamp(SYSTEM_CLOCK.now(), UTC):%Y-%m-%d %H:%M:%S} UTC, not behind the ledger's"
    )


def _port(settings: Settings) -> Finding:
    host, port = settings.host, settings.port
    if port == 0:
        return _well("port", "the system chooses a free one")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port))
        return _well("port", f"{host}:{port} is free")
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return _ill("port", f"{host}:{port} cannot be used: {error.strerror}", "correct the settings host and port")
    if (status := _status(settings)) is None:
        return _ill(
            "port", f"another program has {host}:{port}", "end that program, or choose another port with --port"
        )
    if status == "ok":
        return _well("port", f"a toolyard answers at {host}:{port}")
    return _ill("port", f"the toolyard at {host}:{port} says: {status}", "its log says why")


def _status(settings: Settings) -> str | None:
    """What the server at this address says of itself; None where it is no toolyard."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    if settings.tls_cert:
        # Whoever is there has the port; whether its certificate is good for clients is another question.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, settings.port, timeout=ASKED_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, settings.port, timeout=ASKED_S)
    try:
        connection.request("GET", "/ready")
        said = decode_as(connection.getresponse().read(), dict[str, str])
    except (OSError, http.client.HTTPException, msgspec.DecodeError):
        return None
    finally:
        connection.close()
    return said.get("status")


def _certificate(settings: Settings) -> Iterator[Finding]:
    if settings.tls_cert is None and settings.tls_key is None:
        return
    try:
        check_certificate(settings)
    except SettingsError as error:
        yield _ill("certificate", str(error), "correct tls_cert and tls_key")
        return
    first = x509.load_pem_x509_certificates(Path(settings.tls_cert or "").read_bytes())[0]
    ends, begins = first.not_valid_after_utc.timestamp(), first.not_valid_before_utc.timestamp()
    now, named = time.time(), f"{settings.tls_cert} is good until {_day(ends)}"
    if now > ends - SOON_S:
        yield _ill("certificate", named, "have it renewed, put it there, and send the server SIGHUP")
    elif now < begins:
        yield _ill("certificate", f"{settings.tls_cert} is not good before {_day(begins)}", "look at the clock, too")
    else:
        yield _well("certificate", named)


def _well(check: str, found: str) -> Finding:
    return Finding(check, True, found)


def _ill(check: str, found: str, do: str) -> Finding:
    return Finding(check, False, found, do)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _megabytes(size: int) -> str:
    return f"{size // 2**20} MB" if size >= 2**20 else f"{size // 1024} kB"
