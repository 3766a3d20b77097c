"""The ring of keys: made once, readable by its owner alone, and a key for each purpose."""

import os
import stat
from pathlib import Path

import pytest

from toolyard.model.errors import SettingsError
from toolyard.trust.sealing.fingerprints import Fingerprints
from toolyard.trust.sealing.ring import BrokenSeal, KeyRing, ring_from


def test_a_ring_is_made_when_it_is_first_used_and_then_kept(tmp_path: Path) -> None:
    file = tmp_path / "yard.key"
    ring = ring_from(None, file)
    assert not file.exists()
    key = ring.subkey("a")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert ring_from(None, file).subkey("a") == key
    assert list(tmp_path.iterdir()) == [file]


def test_of_several_keys_the_first_seals_and_all_open(tmp_path: Path) -> None:
    file = tmp_path / "yard.key"
    file.write_text("01" * 32 + "\n")
    before = ring_from(None, file)
    sealed, signed = before.seal("context", b"secret", b"a"), before.sign("audit", b"line")
    file.write_text("02" * 32 + "\n" + "01" * 32 + "\n")
    for ring in (ring_from(None, file), ring_from(["02" * 32, "01" * 32], file)):
        assert ring.unseal("context", sealed, b"a") == b"secret"
        assert not ring.is_newest("context", sealed, b"a")
        assert ring.is_newest("context", ring.seal("context", b"secret", b"a"), b"a")
        assert signed != ring.sign("audit", b"line")
        assert signed in ring.signatures("audit", b"line")
    with pytest.raises(BrokenSeal):
        ring_from(["02" * 32], file).unseal("context", sealed, b"a")


def test_each_purpose_has_its_own_key() -> None:
    ring = KeyRing(lambda: b"m" * 32)
    assert ring.subkey("a") != ring.subkey("b")


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, "00" * 31])
def test_what_is_no_key_is_refused_without_showing_it(text: str, tmp_path: Path) -> None:
    file = tmp_path / "yard.key"
    file.write_text(text)
    for ring in (ring_from(None, file), ring_from([text], file)):
        with pytest.raises(SettingsError, match="64 hexadecimal digits") as refusal:
            ring.subkey("a")
        assert not text or text not in str(refusal.value)


def test_what_is_sealed_is_opened_only_where_it_belongs() -> None:
    ring = KeyRing(lambda: b"m" * 32)
    sealed = ring.seal("context", b"secret", b"call-1")
    assert b"secret" not in sealed
    assert ring.unseal("context", sealed, b"call-1") == b"secret"
    assert sealed != ring.seal("context", b"secret", b"call-1")
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    stranger = KeyRing(lambda: b"n" * 32)
    for keys, purpose, what, bound_to in (
        (ring, "context", sealed, b"call-2"),
        (ring, "other", sealed, b"call-1"),
        (ring, "context", changed, b"call-1"),
        (stranger, "context", sealed, b"call-1"),
    ):
        with pytest.raises(BrokenSeal):
            keys.unseal(purpose, what, bound_to)


def test_a_fingerprint_is_of_the_tool_the_user_and_the_input_however_it_is_written() -> None:
    of = Fingerprints(KeyRing(lambda: b"m" * 32)).of
    same = of("Kit.Tool", "u", {"a": 1, "b": [2.0, {"c": None}]})
    assert of("Kit.Tool", "u", {"b": [2, {"c": None}], "a": 1.0}) == same
    others = [
        of("Kit.Tool@1", "u", {"a": 1, "b": [2.0, {"c": None}]}),
        of("Kit.Tool", None, {"a": 1, "b": [2.0, {"c": None}]}),
        of("Kit.Tool", "u", {"a": 1, "b": [2.5, {"c": None}]}),
        of("Kit.Tool", "u", {"a": True, "b": [2.0, {"c": None}]}),
        of("Kit.Tool", "u", {"a": "1", "b": [2.0, {"c": None}]}),
        Fingerprints(KeyRing(lambda: b"n" * 32)).of("Kit.Tool", "u", {"a": 1, "b": [2.0, {"c": None}]}),
    ]
    assert same not in others
    assert len(set(others)) == len(others)


@pytest.mark.parametrize(("mode", "is_told"), [(0o600, False), (0o400, False), (0o644, True), (0o640, True)])
def test_a_file_that_others_can_read_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, is_told: bool
) -> None:
    file = tmp_path / "toolyard.key"
    ring_from(None, file).subkey("a")
    file.chmod(mode)
    ring_from(None, file).subkey("a")
    assert (f"can be read by others than its owner (mode {mode:04o})" in caplog.text) is is_told


NOBODY = 65534


def _trusted(file: Path, ledger: Path | None = None) -> bool:
    try:
        ring = ring_from(None, file) if ledger is None else ring_from(None, file, ledger)
        ring.subkey("a")
    except SettingsError:
        return False
    return True


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_not_used(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "toolyard.key"
    assert _trusted(file)
    file.chmod(mode)
    assert not _trusted(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_that_somebody_else_put_there_is_not_used(tmp_path: Path) -> None:
    """Whoever did would know every key; but whose ledger it is may have made it."""
    file, ledger = tmp_path / "toolyard.key", tmp_path / "toolyard.db"
    file.write_text("cd" * 32)
    file.chmod(0o600)
    os.chown(file, NOBODY, NOBODY)
    assert not _trusted(file)
    ledger.touch()
    assert not _trusted(file, ledger)
    os.chown(ledger, NOBODY, NOBODY)
    assert _trusted(file, ledger)
