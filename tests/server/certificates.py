"""Certificates and their keys, in files."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Signed:
    """A certificate and where it is."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    cert_file: Path
    key_file: Path

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def variables(self) -> dict[str, str]:
        return {"TOOLYARD_TLS_CERT": str(self.cert_file), "TOOLYARD_TLS_KEY": str(self.key_file)}


def signed(
    folder: Path,
    name: str = "cert",
    by: Signed | None = None,
    *,
    is_authority: bool = False,
    address: str = "127.0.0.1",
    begins: timedelta = timedelta(0),
    lasts: timedelta = DAY,
) -> Signed:
    """By nobody else: it vouches for itself. Who vouched for it is in its file, too."""
    key = ec.generate_private_key(ec.SECP256R1())
    about = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime.now(UTC) + begins
    issuer, signing = (by.certificate.subject, by.key) if by else (about, key)
    built = x509.CertificateBuilder(issuer, about, key.public_key(), x509.random_serial_number(), start, start + lasts)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
    built = built.add_extension(names, critical=False)
    built = built.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    # Python 3.13 asks for these by default (VERIFY_X509_STRICT).
    built = built.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    signers = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    built = built.add_extension(signers, critical=False)
    usage = x509.KeyUsage(True, False, False, False, False, is_authority, is_authority, False, False)
    built = built.add_extension(usage, critical=True)
    made = Signed(built.sign(signing, hashes.SHA256()), key, folder / f"{name}.pem", folder / f"{name}.key")
    made.cert_file.write_text(made.pem + (by.pem if by else ""), encoding="ascii")
    made.key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return made
