"""One ring of keys. A subkey for each purpose is made from it, so that no two purposes share a key.

The ring is a setting, or a file that is made at the first start, readable by its owner alone.
"""

import hmac
import os
import secrets
from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from ..doors import open_door
from ..model.errors import Place, SettingsError

LENGTH = 32
_NONCE = 12


class BrokenSeal(Exception):
    """What was to be opened was not sealed by this ring, for that purpose, or for that owner."""


class KeyRing:
    """Keys for sealing, fingerprints and whatever else must be kept from others or recognised again. It is read, or
    made, when the first of them is needed: an app that is only imported leaves no file behind."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read

    @cached_property
    def _master(self) -> bytes:
        return self._read()

    def subkey(self, purpose: str) -> bytes:
        return hmac.new(self._master, purpose.encode(), sha256).digest()

    def seal(self, purpose: str, secret: bytes, bound_to: bytes) -> bytes:
        """Encrypted and authenticated. `bound_to` must be given again to open it: a sealed thing cannot be moved."""
        nonce = os.urandom(_NONCE)
        sealed: bytes = open_door("aes_gcm")(self.subkey(purpose)).encrypt(nonce, secret, bound_to)
        return nonce + sealed

    def unseal(self, purpose: str, sealed: bytes, bound_to: bytes) -> bytes:
        """Raises BrokenSeal."""
        cipher = open_door("aes_gcm")(self.subkey(purpose))
        try:
            opened: bytes = cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], bound_to)
        except (ValueError, open_door("invalid_tag")):
            raise BrokenSeal from None
        return opened

    def sign(self, purpose: str, content: bytes) -> bytes:
        """What shows later that it came from here."""
        return hmac.new(self.subkey(purpose), content, sha256).digest()


def ring_from(text: str | None, file: Path) -> KeyRing:
    """From the setting, or from the file, which is made if it is not there. Using it raises SettingsError."""
    if text is not None:
        return KeyRing(lambda: _decoded(text, None))
    return KeyRing(lambda: _from_file(file))


def _from_file(file: Path) -> bytes:
    try:
        return _decoded(file.read_text(encoding="ascii").strip(), Place(str(file)))
    except FileNotFoundError:
        return _made(file)


def _made(file: Path) -> bytes:
    """Two processes that start at once end up with the same key: the one whose file is there first."""
    master = secrets.token_bytes(LENGTH)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(master.hex() + "\n")
        opened.flush()
        os.fsync(opened.fileno())
    try:
        os.link(draft, file)
        _flush_folder(file.parent)
    except FileExistsError:
        return _decoded(file.read_text(encoding="ascii").strip(), Place(str(file)))
    finally:
        os.unlink(draft)
    return master


def _flush_folder(folder: Path) -> None:
    """A file's name is lost with the power, unless its folder was flushed, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _decoded(text: str, place: Place | None) -> bytes:
    try:
        master = bytes.fromhex(text)
    except ValueError:
        master = b""
    if len(master) != LENGTH:
        raise SettingsError(f"secret_key must be {LENGTH * 2} hexadecimal digits", place)
    return master
