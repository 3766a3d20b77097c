"""Where an issuer has its keys, and what they are: the two documents that are fetched from it, its metadata and its
JWK Set. OAuth providers are discovered in the same way.

An issuer is somebody else's server. It gets five seconds and a mebibyte, is not followed elsewhere, and is spoken to
over TLS, except on this machine.
"""

import asyncio
from collections.abc import Sequence
from functools import cache
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ...lazy import load
from ...model.json_value import decode
from ...text.addresses import is_safe
from .jwk import PublicKey, read_keys
from .jwks_cache import NoAnswer

TIMEOUT_S = 5.0
LARGEST = 2**20


class Discovery:
    """Fetches the keys of one issuer. Where they are is remembered until they are not there any more. An address that
    the settings name (`jwks_url`) spares the metadata."""

    def __init__(self, issuer: str, jwks_url: str | None) -> None:
        self._issuer, self._given, self._found = issuer, jwks_url, jwks_url

    async def keys(self) -> Sequence[PublicKey]:
        """The issuer's keys as they are now. Raises NoAnswer."""
        url = self._found or await self._find()
        try:
            keys = read_keys(await fetch(url))
        except ValueError as error:
            self._found = self._given  # they may have moved: next time, the metadata is asked again
            raise NoAnswer(f"{url}: {error}") from None
        except NoAnswer:
            self._found = self._given
            raise
        self._found = url
        return keys

    async def _find(self) -> str:
        return jwks_url(await fetch_metadata(self._issuer), self._issuer)


async def fetch_metadata(issuer: str) -> Any:
    """An issuer's metadata, from OpenID Connect's address, or else from that of OAuth (RFC 8414). Raises NoAnswer."""
    first, second = metadata_urls(issuer)
    try:
        return await fetch(first)
    except NoAnswer as problem:
        try:
            return await fetch(second)
        except NoAnswer as other:
            raise NoAnswer(f"{problem}; {other}") from None


def metadata_urls(issuer: str) -> tuple[str, str]:
    """The two addresses of an issuer's metadata. OpenID Connect puts its part after the issuer's path, RFC 8414 before
    it."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    after = parts._replace(path=f"{path}/.well-known/openid-configuration")
    before = parts._replace(path=f"/.well-known/oauth-authorization-server{path}")
    return after.geturl(), before.geturl()


def jwks_url(document: Any, issuer: str) -> str:
    """Where the keys are, as the metadata says, if it is this issuer's. Raises NoAnswer."""
    check_metadata(document, issuer, "issuers")
    return member(document, "jwks_uri")


def check_metadata(document: Any, issuer: str, setting: str) -> None:
    """Raises NoAnswer where the metadata is not this issuer's. RFC 8414, section 3.3: whoever serves the document at
    that address could otherwise speak for another issuer."""
    said = document.get("issuer") if isinstance(document, dict) else None
    if said != issuer:
        raise NoAnswer(
            f"its metadata is that of the issuer {said!r}; name that one in the setting {setting} if it is meant"
        )


def member(document: dict[str, Any], name: str) -> str:
    """An address that the metadata names. Raises NoAnswer where it names none."""
    url = document.get(name)
    if not isinstance(url, str):
        raise NoAnswer(f"its metadata has no {name}")
    return url


async def fetch(url: str) -> Any:
    """A JSON document of somebody else's server. Raises NoAnswer."""
    if not is_safe(url):
        raise NoAnswer(f"{url} is not an https address")
    http = load("http")
    try:
        # The client's own timeout is for each read: an issuer that sends a byte at a time would never reach it.
        async with asyncio.timeout(TIMEOUT_S), _client(http, url) as client:
            return decode(await _body(client, url))
    except TimeoutError:
        raise NoAnswer(f"{url} did not answer within {TIMEOUT_S:g} s") from None
    except (http.HTTPError, http.InvalidURL) as error:
        raise NoAnswer(f"{url}: {str(error) or type(error).__name__}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise NoAnswer(f"{url} did not answer with JSON") from None


def _client(http: Any, url: str) -> Any:
    """An HTTP client for one address. It goes through a proxy of the environment only where TLS goes through it, too:
    what is served on this machine is none of the proxy's business."""
    # A redirect could lead anywhere, also to where there is no TLS.
    return http.AsyncClient(
        timeout=TIMEOUT_S, follow_redirects=False, trust_env=url.startswith("https:"), verify=authorities()
    )


@cache
def authorities() -> SSLContext:
    """The certificate authorities that are believed, read once: reading them takes longer than many a request."""
    made: SSLContext = load("http").create_ssl_context()
    return made


async def _body(client: Any, url: str) -> bytes:
    """A response's body, within the bound, and uncompressed: what is small on the way must not become large here."""
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    async with client.stream("GET", url, headers=headers) as response:
        if response.status_code != 200:
            raise NoAnswer(f"{url} answered with status {response.status_code}")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > LARGEST:
                raise NoAnswer(f"{url} answered with more than {LARGEST} bytes")
        return bytes(body)
