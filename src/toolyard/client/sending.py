"""Requests over HTTP, for the two clients."""

from typing import Any

from ..doors import open_door
from ..model.errors import ServerError
from ..wires.contract import Reply, Request

UNIX = "unix:"


class Unreachable(ServerError):
    """Nobody answered, or not in time."""


class HttpSending:
    """Keeps its connections."""

    def __init__(self, url: str, key: str | None, timeout_s: float, *, proxies: bool = True) -> None:
        """`proxies`: whether it may go through those that the environment names. `url` may also be `unix:PATH`, of a
        socket."""
        self._http, self._url = open_door("http"), url
        socket = url.removeprefix(UNIX) if url.startswith(UNIX) else None
        self._base = url if socket is None else "http://localhost"
        transport = None if socket is None else self._http.HTTPTransport(uds=socket)
        self._client = self._http.Client(
            timeout=timeout_s, headers=_credentials(key), trust_env=proxies, transport=transport
        )

    def send(self, request: Request) -> Reply:
        try:
            return _reply(self._client.request(**_arguments(self._base, request)))
        except self._http.TransportError as error:
            raise _unreachable(self._url, error) from error

    def close(self) -> None:
        self._client.close()


class AsyncHttpSending:
    """Keeps its connections."""

    def __init__(self, url: str, key: str | None, timeout_s: float) -> None:
        self._http, self._url = open_door("http"), url
        self._client = self._http.AsyncClient(timeout=timeout_s, headers=_credentials(key))

    async def send(self, request: Request) -> Reply:
        try:
            return _reply(await self._client.request(**_arguments(self._url, request)))
        except self._http.TransportError as error:
            raise _unreachable(self._url, error) from error

    async def close(self) -> None:
        await self._client.aclose()


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


def _unreachable(url: str, error: Exception) -> Unreachable:
    reason = str(error) or type(error).__name__
    return Unreachable(f"No answer from {url}; is the server running?", developer_message=reason)
