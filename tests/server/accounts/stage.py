"""A server whose tools need accounts at a real provider, on a clock that the test owns, and people with browsers."""

import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any
from urllib.parse import urljoin

import httpx2

from toolyard.model.clock import Clock
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.trust.sealing.vault import Vault, VaultPath

from ...trust.credentials.identity_provider import Provider
from .tools import kit

HERE = "http://127.0.0.1:9"
"""Where the server seems to be; nobody listens there."""
CALLBACK = f"{HERE}/connections/idp/callback"
SECRET = "the-secret-of-toolyard"
TLS = httpx2.create_ssl_context()
"""For all browsers: nobody here speaks it, and making one takes a while."""


def providers(issuer: str, **more: Any) -> list[dict[str, Any]]:
    """The setting."""
    given = {
        "id": "idp",
        "issuer": issuer,
        "client_id": "toolyard",
        "client_secret": SECRET,
        "scopes": ["openid", "offline_access", "email"],
        "parameters": {"prompt": "consent"},
    }
    return [given | more]


class ManualClock:
    """The real time, and what a test adds to it."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead

    def ticks(self) -> float:
        """The clock that is for durations."""
        return time.perf_counter() + self.ahead


class Scene:
    """One server, and what callers and people do with it."""

    def __init__(self, yard: Yard, clock: ManualClock) -> None:
        self.yard, self.clock = yard, clock
        self._caller = self.browser()

    def browser(self) -> httpx2.AsyncClient:
        """With cookies of its own. It follows redirects."""
        return httpx2.AsyncClient(
            mounts={HERE: httpx2.ASGITransport(self.yard.asgi)}, follow_redirects=True, trust_env=False, timeout=30,
            verify=TLS,
        )  # fmt: skip

    async def call(self, tool: str = "Post.Read", **context: Any) -> dict[str, Any]:
        """The whole answer, with its status."""
        reply = await self._caller.post(f"{HERE}/tools/call", json={"tool_id": tool, "context": context})
        return {"status": reply.status_code, **reply.json()}

    async def challenge(self, tool: str = "Post.Read", **context: Any) -> "Link":
        refused = await self.call(tool, **context)
        assert refused["status"] == 400, refused
        (entry,) = refused["missing_requirements"]["authorization"]
        found = re.search(r"the code for the page of idp is (\S+)", refused["message"])
        return Link(entry["url"], entry["check_url"], found[1] if found else "")

    async def status(self, link: "Link") -> str:
        reply = await self._caller.get(link.check_url)
        assert reply.status_code == 200
        said: str = reply.json()["status"]
        return said

    async def held(self, user: str) -> dict[str, Any]:
        """What is in the vault."""
        opened = await Vault(self.yard.store.sealed, self.yard._ring).get(
            VaultPath("connection", "default", user, "idp")
        )
        assert opened is not None
        return {**json.loads(opened.value), "about": opened.about}

    async def connect(self, tool: str = "Post.Read", who: str = "ada", **context: Any) -> "Page":
        """Everything, as somebody does it who allows it."""
        link = await self.challenge(tool, **context)
        async with self.browser() as browser:
            return await Person(browser, who).allow(link)


class Link:
    """What a caller was told."""

    def __init__(self, url: str, check_url: str, code: str) -> None:
        self.url, self.check_url, self.code = url, check_url, code


class Page:
    """What a browser shows."""

    def __init__(self, reply: httpx2.Response) -> None:
        self.status, self.url, self.text, self.headers = reply.status_code, str(reply.url), reply.text, reply.headers

    @property
    def fields(self) -> dict[str, str]:
        """Those of its form that are filled in already."""
        found = re.findall(r"""<input type=['"]hidden['"] name=['"]([^'"]+)['"] value=['"]([^'"]*)['"]""", self.text)
        return {unescape(name): unescape(value) for name, value in found}

    @property
    def action(self) -> str:
        found = re.search(r"""action=['"]([^'"]+)['"]""", self.text)
        assert found is not None, self.text
        return urljoin(self.url, unescape(found[1]))

    @property
    def goes_to(self) -> str:
        """Where it sends its reader."""
        found = re.search(r"""http-equiv='refresh' content='0; url=([^']+)'""", self.text)
        assert found is not None, self.text
        return unescape(found[1])

    @property
    def cancels_at(self) -> str:
        found = re.search(r"""href=['"]([^'"]+/abort)['"]""", self.text)
        assert found is not None, self.text
        return urljoin(self.url, unescape(found[1]))


class Person:
    """Somebody with a browser and an account at the provider."""

    def __init__(self, browser: httpx2.AsyncClient, name: str) -> None:
        self._browser, self._name = browser, name

    async def open(self, address: str) -> Page:
        return Page(await self._browser.get(address))

    async def fill_in(self, page: Page, **fields: str) -> Page:
        address = httpx2.URL(page.action)
        port = f":{address.port}" if address.port else ""
        headers = {"origin": f"{address.scheme}://{address.host}{port}"}
        return Page(await self._browser.post(page.action, data={**page.fields, **fields}, headers=headers))

    async def leave(self, link: Link, code: str | None = None) -> Page:
        """As far as the page that sends them to the provider."""
        return await self.fill_in(await self.open(link.url), code=link.code if code is None else code)

    async def sign_in(self, link: Link) -> Page:
        """As far as the provider's question whether they allow it."""
        page = await self.open((await self.leave(link)).goes_to)
        return page if 'name="login"' not in page.text else await self.fill_in(page, login=self._name, password="x")

    async def answer(self, link: Link) -> str:
        """The address that the provider sends them back to when they allow it, before they have gone there."""
        consent = await self.sign_in(link)
        leaving = await self._browser.post(consent.action, data=consent.fields, follow_redirects=False)
        while not leaving.headers["location"].startswith(CALLBACK):
            leaving = await self._browser.get(leaving.headers["location"], follow_redirects=False)
        address: str = leaving.headers["location"]
        return address

    async def allow(self, link: Link) -> Page:
        return await self.fill_in(await self.sign_in(link))

    async def deny(self, link: Link) -> Page:
        page = await self.sign_in(link)
        return await self.open(page.cancels_at)


@asynccontextmanager
async def scene(provider: Provider, clock: ManualClock | None = None, **settings: Any) -> AsyncIterator[Scene]:
    clock = clock or ManualClock()
    # A call that lacks the same account again is held for this long, and nobody here waits for that.
    given = {"providers": json.dumps(providers(provider.issuer)), "sync_wait_s": 0.2, **settings}
    yard = Yard([kit], exactly(**given), Clock(now=clock, monotonic=clock.ticks))
    async with yard.lifetime():
        yield Scene(yard, clock)
