"""A server at which people sign in before they connect an account, and people who do so without a browser's window.

One process is both: the issuer at which they sign in (as one client), and the provider of their accounts (as another).
"""

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from html import unescape
from re import findall
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from ...trust.credentials.identity_provider import Provider
from .stage import HERE, TLS, Link, Page, Person, Scene, providers, scene

SIGNED_IN = f"{HERE}/connections/signed-in"
DOOR_SECRET = "the-secret-of-front-door"
AUDIENCE = "https://tools.example"
KEY = "ty_0123456789abcdef0123456789abcdef"
AGENT = ("agent", "the-secret-of-agent")
AGENTS_PAGE = f"{HERE}/agent"
VERIFIER = "v" * 64


def issuer(address: str, **more: Any) -> dict[str, Any]:
    """A row of the setting."""
    return {"issuer": address, "client_id": "front-door", "client_secret": DOOR_SECRET, **more}


def settings(address: str, **more: Any) -> dict[str, Any]:
    """Callers come with the API key, or with a token."""
    return {
        "issuers": [issuer(address)],
        "jwt_audience": AUDIENCE,
        "api_keys": [f"program:{KEY}"],
        "providers": json.dumps(providers(address)),
        **more,
    }


@asynccontextmanager
async def door(provider: Provider, **more: Any) -> AsyncIterator[Scene]:
    """A scene; who calls in it has the API key."""
    async with scene(provider, **settings(provider.issuer, **more)) as stage:
        with_credentials(stage, KEY)
        yield stage


def play(story: Callable[[Scene], Awaitable[None]], provider: Provider, **more: Any) -> None:
    async def played() -> None:
        async with door(provider, **more) as stage:
            await story(stage)

    asyncio.run(played())


def with_credentials(stage: Scene, credentials: str) -> None:
    stage._caller.headers["authorization"] = f"Bearer {credentials}"


class Visitor(Person):
    """Somebody with a name at the issuer."""

    def __init__(self, browser: httpx2.AsyncClient, name: str) -> None:
        super().__init__(browser, name)
        self.name = name

    async def leave_for(self, link: Link, issuer: str = "") -> Page:
        """As far as the page that sends them to the issuer: the only one, or that one."""
        return await self.press(await self.open(link.url), issuer)

    async def press(self, page: Page, issuer: str = "") -> Page:
        return await self.fill_in(page, issuer=issuer or buttons(page)[0])

    async def there(self, page: Page) -> Page:
        """Whatever the issuer or provider that a page sends them to asks, they do; what they see when they are back."""
        page = await self.open(page.goes_to)
        while not page.url.startswith(HERE):
            page = await self._answered(page)
        return page

    async def sign_in_at(self, link: Link) -> Page:
        return await self.there(await self.leave_for(link))

    async def connect(self, link: Link) -> Page:
        """The whole way."""
        return await self.there(await self.sign_in_at(link))

    async def back_to(self, page: Page) -> str:
        """The address that they are sent back to, before they have gone there."""
        address = page.goes_to
        while not address.startswith(HERE):
            reply = await self._browser.get(address, follow_redirects=False)
            if "location" not in reply.headers:
                filled = self._fields(Page(reply))
                reply = await self._browser.post(Page(reply).action, data=filled, follow_redirects=False)
            address = str(reply.url.join(reply.headers["location"]))
        return address

    async def _answered(self, page: Page) -> Page:
        return await self.fill_in(page, **self._fields(page))

    def _fields(self, page: Page) -> dict[str, str]:
        named = {"login": self.name, "password": "x"} if 'name="login"' in page.text else {}
        return {**page.fields, **named}


def buttons(page: Page) -> list[str]:
    """The issuers that a page offers."""
    return [unescape(value) for value in findall(r"name='issuer' value='([^']+)'", page.text)]


async def token_of(stage: Scene, provider: Provider, name: str) -> str:
    """An access token for this server, as the agent gets it from somebody."""
    challenge = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
    asked = {
        "client_id": AGENT[0], "response_type": "code", "scope": "openid tools:call", "resource": AUDIENCE,
        "redirect_uri": AGENTS_PAGE, "code_challenge": challenge, "code_challenge_method": "S256",
    }  # fmt: skip
    async with stage.browser() as browser:
        somebody = Visitor(browser, name)
        page = await somebody.open(f"{provider.issuer}/auth?{urlencode(asked)}")
        while not page.url.startswith(AGENTS_PAGE):
            page = await somebody._answered(page)
        code = parse_qs(urlsplit(page.url).query)["code"][0]
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER, "redirect_uri": AGENTS_PAGE}
    return await _token(provider, {**form, "resource": AUDIENCE})


async def own_token(provider: Provider) -> str:
    """The agent's own."""
    return await _token(provider, {"grant_type": "client_credentials", "scope": "tools:call", "resource": AUDIENCE})


async def _token(provider: Provider, form: dict[str, str]) -> str:
    async with httpx2.AsyncClient(trust_env=False, verify=TLS) as client:
        reply = await client.post(f"{provider.issuer}/token", data=form, auth=AGENT)
    assert reply.status_code == 200, reply.text
    given: str = reply.json()["access_token"]
    return given


async def audited(stage: Scene) -> str:
    """The audit log, as text."""
    audit = stage.yard.audit
    assert audit is not None
    await audit.written()
    blocks = await stage.yard.store.audit.blocks("main", 0, 100)
    return b"\n".join(block.entries for block in blocks).decode()


async def connections(stage: Scene) -> list[tuple[str, str]]:
    """Whose accounts are connected."""
    return [(each.tenant, each.owner) for each in await stage.yard.store.sealed.listed("connection")]
