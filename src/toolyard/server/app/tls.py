"""The server's certificate and its key, looked at before anything starts, so that what is wrong with them is said in a
sentence that names the file. uvicorn reads both files itself, late, and fails with whatever OpenSSL makes of them.
"""

import re
import ssl
from collections.abc import Callable
from pathlib import Path

from ...model.errors import SettingsError
from ..settings.table import Settings

# The server's own certificate is the first in the file; those behind it lead to an authority.
_first = re.compile(rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----").search


def check_certificate(settings: Settings) -> None:
    """Raises SettingsError for a certificate that the server could not show."""
    cert, key = settings.tls_cert, settings.tls_key
    if cert is None and key is None:
        return
    if cert is None or key is None:
        there, lacking = ("tls_key", "tls_cert") if cert is None else ("tls_cert", "tls_key")
        raise SettingsError(f"{there} is set and {lacking} is not; set both for https, or neither")
    found = _first(_content("tls_cert", cert))
    _content("tls_key", key)
    try:
        pem = found[0].decode() if found else ""
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):
        raise SettingsError(
            f"tls_cert: {cert!r} has no certificate; expected PEM, with -----BEGIN CERTIFICATE-----"
        ) from None
    _fit(cert, key)


class Certificate:
    """The certificate that a server shows, which can be replaced while it runs: who connects from then on is shown the
    new one."""

    def __init__(self, shown: ssl.SSLContext | None, make: Callable[[str, str], ssl.SSLContext]) -> None:
        """`shown` is what the server listens with; None for one that speaks plain HTTP."""
        self._shown, self._make = shown, make

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """What shows the certificate of other settings; the files are read now. Raises SettingsError."""
        check_certificate(settings)
        shown, cert, key = self._shown, settings.tls_cert, settings.tls_key
        if shown is None or cert is None or key is None:
            return lambda: None
        made = self._make(cert, key)

        def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
            connection.context = made

        def adopt() -> None:
            # A context that is in use is not changed: certificate and key would be set one after the other.
            shown.sni_callback = choose

        return adopt


def _content(name: str, path: str) -> bytes:
    """What is in the file of a setting. Raises SettingsError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(
            f"{name}: {path!r} cannot be read: {error.strerror}; expected a file in PEM that the server may read"
        ) from None


def _fit(cert: str, key: str) -> None:
    """Raises SettingsError for a key that is not the certificate's, or not a key."""

    def password() -> str:
        # OpenSSL would otherwise ask on the terminal, and a server would wait there for ever.
        raise SettingsError(f"tls_key: {key!r} is locked with a password; expected a key without one")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingsError(
                f"tls_key: {key!r} is not the key of the certificate in {cert!r}; name the two that belong together"
            ) from None
        if b"PRIVATE KEY-----" not in _content("tls_key", key):
            raise SettingsError(
                f"tls_key: {key!r} has no key; expected PEM, with -----BEGIN PRIVATE KEY-----"
            ) from None
        raise SettingsError(
            f"tls_cert and tls_key: {cert!r} and {key!r} cannot be used: {error.reason or error}; make them anew"
        ) from None
