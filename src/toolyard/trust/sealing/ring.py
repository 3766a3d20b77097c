"""One ring of keys for everything that this server seals, signs or recognises. A subkey for each purpose is made from
it, so that no two purposes share a key and what is signed for one is worth nothing for another.

The ring is a setting, or a file that is made at the first start, readable by its owner alone. It may have several keys:
the first one seals and signs, and all of them open and recognise what was sealed and signed before. So a key can be
changed without losing anything.
"""

import hmac
import logging
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from ...lazy import load
from ...model.errors import SettingsError, SourcePlace

LENGTH = 32
"""Bytes of a key, as HMAC-SHA256 and AES-256 want it."""
_NONCE = 12
"""Bytes of an AES-GCM nonce (NIST SP 800-38D). It is random, which is good for 2**32 seals by one key."""
ROOT = 0
"""Who can change any file; a secret that a container is given is often root's."""
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_log = logging.getLogger("toolyard.keys")


class BrokenSeal(Exception):
    """Something could not be opened: it was not sealed by this ring, for that purpose, or for that owner."""


class KeyRing:
    """The keys of a server, for sealing, fingerprints and whatever else must be kept from others or recognised again.
    They are read, or made, when the first of them is needed: an app that is only imported leaves no file behind. `file`
    is where they are, if they are in one."""

    def __init__(self, read: Callable[[], bytes | Sequence[bytes]], file: Path | None = None) -> None:
        self._read, self.file = read, file
        self.may_make = True
        """Whether a file that is not there is made. A verb that only reads a ledger makes none."""
        self.refusal: SettingsError | None = None
        """Why nobody may use these keys, if nobody may: `audit/key_check.py` found that the ledger has others."""

    @property
    def is_missing(self) -> bool:
        """Whether the ring's file would have to be made before the first use."""
        # `cached_property` keeps its value in `__dict__`: keys that were read stay, whatever becomes of their file.
        return self.file is not None and "_read_once" not in self.__dict__ and not self.file.exists()

    @property
    def _masters(self) -> tuple[bytes, ...]:
        if self.refusal is not None:
            raise self.refusal
        return self._read_once

    @cached_property
    def _read_once(self) -> tuple[bytes, ...]:
        if self.is_missing and not self.may_make:
            raise SettingsError(
                "there is no key file, and nothing was signed or sealed here", SourcePlace(str(self.file))
            )
        given = self._read()
        return (given,) if isinstance(given, bytes) else tuple(given)

    def __len__(self) -> int:
        return len(self._masters)

    def prepare(self, other: "KeyRing") -> Callable[[], None]:
        """What puts another ring's keys in place of these; they are read now. Raises SettingsError where they cannot be
        used, or where the key is not among them that seals now: what is being sealed with it could not be opened."""
        other.may_make = False
        keys = other._masters
        if self._masters[0] not in keys:
            place = None if other.file is None else SourcePlace(str(other.file))
            raise SettingsError("the key that seals now is not among the keys; to take it away, start again", place)

        def adopt() -> None:
            self._read_once = keys

        return adopt

    def subkey(self, purpose: str) -> bytes:
        """The first key's subkey for a purpose, which seals and signs."""
        # HMAC as a key derivation: a subkey tells nothing of the master key, nor of another subkey.
        return hmac.new(self._masters[0], purpose.encode(), sha256).digest()

    def subkeys(self, purpose: str) -> list[bytes]:
        """Each key's subkey for a purpose, the first key's first."""
        return [hmac.new(master, purpose.encode(), sha256).digest() for master in self._masters]

    def seal(self, purpose: str, secret: bytes, bound_to: bytes) -> bytes:
        """A secret, encrypted and authenticated. `bound_to` is authenticated with it and must be given again to open
        it: a sealed thing cannot be moved to where another belongs."""
        nonce = os.urandom(_NONCE)
        sealed: bytes = load("aes_gcm")(self.subkey(purpose)).encrypt(nonce, secret, bound_to)
        return nonce + sealed

    def unseal(self, purpose: str, sealed: bytes, bound_to: bytes) -> bytes:
        """What was sealed, with whichever of the keys. Raises BrokenSeal."""
        # The first key comes first: almost everything is sealed with that one.
        for key in self.subkeys(purpose):
            if (opened := _opened(key, sealed, bound_to)) is not None:
                return opened
        raise BrokenSeal

    def is_newest(self, purpose: str, sealed: bytes, bound_to: bytes) -> bool:
        """Whether something was sealed with the first key, and need not be sealed again."""
        return _opened(self.subkey(purpose), sealed, bound_to) is not None

    def sign(self, purpose: str, content: bytes) -> bytes:
        """A signature, which shows later that the content came from here."""
        return hmac.new(self.subkey(purpose), content, sha256).digest()

    def signatures(self, purpose: str, content: bytes) -> list[bytes]:
        """The signatures by each key: what was signed before has one of them."""
        return [hmac.new(key, content, sha256).digest() for key in self.subkeys(purpose)]


def ring_from(texts: Sequence[str] | None, file: Path, ledger: Path | None = None) -> KeyRing:
    """The ring of the setting `secret_key`, or of the file, which is made if it is not there. Whoever owns the `ledger`
    beside the file may have made it. Using the ring raises SettingsError where it has no keys that can be used."""
    if texts is not None:
        return KeyRing(lambda: _decoded(texts, None))
    return KeyRing(lambda: _from_file(file, ledger), file)


def _opened(key: bytes, sealed: bytes, bound_to: bytes) -> bytes | None:
    """None where it is not of this key, or not bound to that."""
    try:
        opened: bytes = load("aes_gcm")(key).decrypt(sealed[:_NONCE], sealed[_NONCE:], bound_to)
    except (ValueError, load("invalid_tag")):
        return None
    return opened


def _from_file(file: Path, ledger: Path | None) -> list[bytes]:
    try:
        return _read_from(file, ledger)
    except FileNotFoundError:
        return _made(file, ledger)


def _read_from(file: Path, ledger: Path | None) -> list[bytes]:
    """A key a line. Raises SettingsError for a file that somebody else made or can change: they would know every key
    that is used from now on."""
    status = file.stat()
    mode = stat.S_IMODE(status.st_mode)
    if os.name == "posix" and (status.st_uid not in _owners(ledger) or mode & OTHERS_MAY_WRITE):
        raise SettingsError(
            f"the key file is not this user's alone (owner {status.st_uid}, mode {mode:04o}), so its key cannot be "
            "trusted; if it is yours, chown it to this user and chmod 600 it",
            SourcePlace(str(file)),
        )
    if os.name == "posix" and mode & 0o077:
        _log.warning("%s can be read by others than its owner (mode %04o); mend that: chmod 600 %s", file, mode, file)
    return _decoded(file.read_text(encoding="ascii", errors="replace").split(), SourcePlace(str(file)))


def _owners(ledger: Path | None) -> set[int]:
    """Who may have made a key file: this user, whoever has the ledger, and root."""
    owners = {os.geteuid(), ROOT}
    if ledger is not None and ledger.exists():
        owners.add(ledger.stat().st_uid)
    return owners


def _made(file: Path, ledger: Path | None) -> list[bytes]:
    """A new key in a new file. Two processes that start at once end up with the same key: `os.link` fails where the
    name is taken, so the file that is there first stays, and it is whole from the first moment."""
    master = secrets.token_bytes(LENGTH)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    # With its mode from the first moment: until a chmod, others could have opened it.
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(master.hex() + "\n")
        opened.flush()
        os.fsync(opened.fileno())
    try:
        os.link(draft, file)
        _flush_folder(file.parent)
    except FileExistsError:
        return _read_from(file, ledger)
    finally:
        os.unlink(draft)
    return [master]


def _flush_folder(folder: Path) -> None:
    """Makes a file's name durable: it is lost with the power, unless its folder was flushed, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _decoded(texts: Sequence[str], place: SourcePlace | None) -> list[bytes]:
    masters = [_master(text) for text in texts]
    if not masters or any(len(master) != LENGTH for master in masters):
        raise SettingsError(f"secret_key must be {LENGTH * 2} hexadecimal digits, or several of that", place)
    return masters


def _master(text: str) -> bytes:
    """A key of its digits; nothing where they are none, so that whoever checks says it without showing them."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
