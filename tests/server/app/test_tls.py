"""A certificate that cannot be shown is found before the server starts, and told in a sentence."""

import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from toolyard.model.errors import SettingsError
from toolyard.server.app.run import listen
from toolyard.server.app.tls import check_certificate
from toolyard.server.settings.table import exactly

from ..certificates import Signed, signed


@pytest.fixture
def good(tmp_path: Path) -> Signed:
    return signed(tmp_path)


def refused(cert: Path | None, key: Path | None) -> str:
    """What is said, without the folder."""
    given = {"tls_cert": cert, "tls_key": key}
    settings = exactly(port=0, **{name: str(path) for name, path in given.items() if path is not None})
    with pytest.raises(SettingsError) as caught:
        listen(settings)
    return re.sub(r"'[^']*/", "'", str(caught.value))


def test_a_chain_is_taken(tmp_path: Path) -> None:
    authority = signed(tmp_path, "authority", is_authority=True)
    leaf = signed(tmp_path, "leaf", authority)
    assert leaf.cert_file.read_text().count("BEGIN") == 2
    settings = exactly(tls_cert=str(leaf.cert_file), tls_key=str(leaf.key_file))
    check_certificate(settings)


def test_one_needs_the_other(good: Signed) -> None:
    assert refused(good.cert_file, None) == "tls_cert is set and tls_key is not; set both for https, or neither"
    assert refused(None, good.key_file) == "tls_key is set and tls_cert is not; set both for https, or neither"


def test_a_file_that_cannot_be_read(good: Signed, tmp_path: Path) -> None:
    expected = "expected a file in PEM that the server may read"
    absent = "'absent' cannot be read: No such file or directory"
    assert refused(tmp_path / "absent", good.key_file) == f"tls_cert: {absent}; {expected}"
    assert refused(good.cert_file, tmp_path / "absent") == f"tls_key: {absent}; {expected}"
    (tmp_path / "folder").mkdir()
    assert "'folder' cannot be read: Is a directory" in refused(tmp_path / "folder", good.key_file)


@pytest.mark.parametrize(
    "content", [b"", b"hello\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_what_is_no_certificate(content: bytes, good: Signed, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(content)
    expected = "tls_cert: 'other' has no certificate; expected PEM, with -----BEGIN CERTIFICATE-----"
    assert refused(tmp_path / "other", good.key_file) == expected


def test_what_is_no_key(good: Signed) -> None:
    expected = "tls_key: 'cert.pem' has no key; expected PEM, with -----BEGIN PRIVATE KEY-----"
    assert refused(good.cert_file, good.cert_file) == expected


def test_a_key_that_is_broken(good: Signed) -> None:
    good.key_file.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    said = refused(good.cert_file, good.key_file)
    assert re.fullmatch("tls_cert and tls_key: 'cert.pem' and 'cert.key' cannot be used: .+; make them anew", said)


def test_another_certificates_key(good: Signed, tmp_path: Path) -> None:
    other = signed(tmp_path, "other")
    said = "tls_key: 'other.key' is not the key of the certificate in 'cert.pem'; name the two that belong together"
    assert refused(good.cert_file, other.key_file) == said


def test_a_key_with_a_password_is_not_asked_for_at_the_terminal(good: Signed) -> None:
    locked = good.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    good.key_file.write_bytes(locked)
    expected = "tls_key: 'cert.key' is locked with a password; expected a key without one"
    assert refused(good.cert_file, good.key_file) == expected
