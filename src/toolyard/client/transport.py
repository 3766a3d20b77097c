"""Requests over HTTP, for the two clients: through the proxies that the environment names, except to this machine."""

import ssl
from typing import Any

from ..lazy import load
from ..model.errors import ServerError, SetupError
from ..text.addresses import host_of, is_loopback
from ..wires.contract import Reply, Request

UNIX = "unix:"


class Unreachable(ServerError):
    """Nobody answered, or not in time."""


class TimedOut(Unreachable):
    """Not in time. Whether the request arrived nobody knows."""


class NotVerified(Unreachable):
    """Somebody is there, and the certificate does not show that it is the server."""


class HttpTransport:
    """Keeps its connections."""

    def __init__(self, url: str, key: str | None, timeout_s: float, *, ca: str | None = None) -> None:
        """`ca`: the file of who signed the server's certificate. `url` may also be `unix:PATH`, of a socket."""
        self._http, self._url = load("http"), url
        socket = url.removeprefix(UNIX) if url.startswith(UNIX) else None
        self._base = url if socket is None else "http://localhost"
        verify, direct = _signed_by(ca), None
        if is_here(self._base):
            direct = self._http.HTTPTransport(uds=socket, verify=verify)
        self._client = self._http.Client(timeout=timeout_s, headers=_credentials(key), transport=direct, verify=verify)

    def send(self, request: Request) -> Reply:
        try:
            return _reply(self._client.request(**_arguments(self._base, request)))
        except self._http.InvalidURL as error:
            raise _no_address(self._url, error) from None
        except self._http.TransportError as error:
            raise _unreachable(self._url, error, self._http.TimeoutException) from error

    def close(self) -> None:
        self._client.close()


class AsyncHttpTransport:
    """Keeps its connections."""

    def __init__(self, url: str, key: str | None, timeout_s: float, *, ca: str | None = None) -> None:
        self._http, self._url = load("http"), url
        verify = _signed_by(ca)
        direct = self._http.AsyncHTTPTransport(verify=verify) if is_here(url) else None
        self._client = self._http.AsyncClient(
            timeout=timeout_s, headers=_credentials(key), transport=direct, verify=verify
        )

    async def send(self, request: Request) -> Reply:
        try:
            return _reply(await self._client.request(**_arguments(self._url, request)))
        except self._http.InvalidURL as error:
            raise _no_address(self._url, error) from None
        except self._http.TransportError as error:
            raise _unreachable(self._url, error, self._http.TimeoutException) from error

    async def close(self) -> None:
        await self._client.aclose()


def is_here(url: str) -> bool:
    """Whether the server is on this machine. Then no proxy of the environment stands before it: a proxy elsewhere would
    look for the server on its own machine, and read keys and secrets on the way."""
    return is_loopback(host_of(url))


def _signed_by(ca: str | None) -> ssl.SSLContext | bool:
    """By the authorities of this file alone; without one by those that the system, or SSL_CERT_FILE, trusts."""
    if ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # and what ssl says of a file without certificates
        raise SetupError(f"{ca} is no file of certificates: {error.strerror or error}") from None


def _credentials(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


def _arguments(url: str, request: Request) -> dict[str, Any]:
    query = f"?{request.query.decode()}" if request.query else ""
    headers = {name.decode(): value.decode() for name, value in request.headers.items()}
    return {
        "method": request.method,
        "url": f"{url}{request.path}{query}",
        "headers": headers,
        "content": request.body or None,
    }


def _reply(response: Any) -> Reply:
    return Reply(response.status_code, response.content, [(k.lower(), v) for k, v in response.headers.raw])


def _no_address(url: str, error: Exception) -> SetupError:
    return SetupError(f"{url} is not the address of a server: {error}")


def _unreachable(url: str, error: Exception, timeout: type[Exception]) -> Unreachable:
    reason = str(error) or type(error).__name__
    if isinstance(error, timeout):
        return TimedOut(f"No answer from {url} in time", developer_message=reason)
    if unverified := _unverified(error):
        why = f"The certificate of {url} is not trusted ({unverified.verify_message})"
        help = "if it should be, name the file of the CA that signed it (--ca, ca=, or SSL_CERT_FILE)"
        return NotVerified(f"{why}; {help}", developer_message=reason)
    return Unreachable(f"No answer from {url}; is the server running?", developer_message=reason)


def _unverified(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """What ssl said, below what the libraries on top of it made of that."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error
