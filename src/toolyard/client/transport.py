"""HTTP transports for the two clients, on top of httpx2, which is loaded when the first one is made. They go through
the proxies that the environment names, except to this machine.

Whatever httpx2 raises becomes `Unreachable` or one of its kinds, so that flows can decide what to try again.
"""

import ssl
from typing import Any

from ..lazy import load
from ..model.errors import ServerError, SetupError
from ..text.addresses import LOCALHOST, host_of, is_loopback
from ..wires.contract import Reply, Request

UNIX = "unix:"


MOST_REPLY = 128 * 2**20
"""Bytes. A result has 32 MiB at most unless a server's settings say more, and may be there in two forms."""


class ReplyTooLarge(ServerError):
    """The server sent more than anybody asked for."""


class Unreachable(ServerError):
    """The server did not answer, or not in time."""


class TimedOut(Unreachable):
    """The server did not answer in time. Whether the request arrived, nobody knows."""


class NotVerified(Unreachable):
    """The server's certificate is not trusted, so nothing was sent."""


class HttpTransport:
    """Sends requests over HTTP, synchronously, and keeps connections open between them."""

    def __init__(self, url: str, key: str | None, timeout_s: float, *, ca: str | None = None) -> None:
        """`url` may also be `unix:PATH`, for a Unix socket. `ca`: a file of certificate authorities to trust instead of
        the system's."""
        self._http, self._url = load("http"), url
        socket = url.removeprefix(UNIX) if url.startswith(UNIX) else None
        self._base = url if socket is None else f"http://{LOCALHOST}"  # HTTP needs a host, also where a socket is meant
        verify, direct = _trusted(self._base, ca), None
        if is_here(self._base):
            direct = self._http.HTTPTransport(uds=socket, verify=verify)
        self._client = self._http.Client(timeout=timeout_s, headers=_credentials(key), transport=direct, verify=verify)

    def send(self, request: Request) -> Reply:
        try:
            with self._client.stream(**_arguments(self._base, request)) as response:
                body = _Body(self._url)
                for piece in response.iter_bytes():
                    body.add(piece)
                return body.reply(response)
        except self._http.InvalidURL as error:
            raise _no_address(self._url, error) from None
        except self._http.TransportError as error:
            raise _unreachable(self._url, error, self._http.TimeoutException) from error

    def close(self) -> None:
        self._client.close()


class AsyncHttpTransport:
    """Sends requests over HTTP, asynchronously, and keeps connections open between them."""

    def __init__(self, url: str, key: str | None, timeout_s: float, *, ca: str | None = None) -> None:
        self._http, self._url = load("http"), url
        verify = _trusted(url, ca)
        direct = self._http.AsyncHTTPTransport(verify=verify) if is_here(url) else None
        self._client = self._http.AsyncClient(
            timeout=timeout_s, headers=_credentials(key), transport=direct, verify=verify
        )

    async def send(self, request: Request) -> Reply:
        try:
            async with self._client.stream(**_arguments(self._url, request)) as response:
                body = _Body(self._url)
                async for piece in response.aiter_bytes():
                    body.add(piece)
                return body.reply(response)
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


def _trusted(url: str, ca: str | None) -> ssl.SSLContext | bool:
    """How certificates are verified: by the authorities in this file alone; without one, by those that the system or
    SSL_CERT_FILE trusts. Reading those takes longer than a call, so where no certificate will be seen (this machine,
    without TLS and without a proxy) nobody is trusted."""
    if ca is None:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_here(url) and url.startswith("http:") else True
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # SSLError is one, too: a file without certificates
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


class _Body:
    """What comes of a reply. A server that is hostile may send without end, or a thousand times what it seems to be."""

    def __init__(self, url: str) -> None:
        self._url, self._pieces, self._size = url, list[bytes](), 0

    def add(self, piece: bytes) -> None:
        """Raises ReplyTooLarge."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > MOST_REPLY:
            raise ReplyTooLarge(f"{self._url} sent more than {MOST_REPLY} bytes, and is not listened to any further")

    def reply(self, response: Any) -> Reply:
        headers = [(name.lower(), value) for name, value in response.headers.raw]
        return Reply(response.status_code, b"".join(self._pieces), headers)


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
    """The verification error in a chain of exceptions, which the libraries above `ssl` have wrapped."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error
