"""A server process and a provider process, and people who go the whole way without a browser's window."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from toolyard import Client, MissingRequirements

from ...conformance.serving import free_port, running
from ...trust.credentials.identity_provider import Provider, having_accounts
from .signing import AUDIENCE, KEY, issuer
from .stage import Link, Page, Person, providers

TOOLS = str(Path(__file__).with_name("tools.py"))


class Served:
    def __init__(self, url: str, provider: Provider, folder: Path, key: str | None = None) -> None:
        self.url, self.provider, self.folder, self._key = url, provider, folder, key
        self.settings = settings(provider.issuer)

    def challenge(self, user: str, tool: str = "Post.Read") -> Link:
        with Client(self.url, key=self._key) as client:
            try:
                client.call(tool, user_id=user)
            except MissingRequirements as refusal:
                (asked,) = refusal.missing.authorization
                return Link(asked.url, asked.check_url, "" if self._key else code_in(refusal.message))
        raise AssertionError(f"{user} is connected")

    def go(self, link: Link, who: str = "ada") -> Page:
        """The whole way, allowing it."""
        return self._as(who, lambda person: person.allow(link))

    def deny(self, link: Link, who: str = "ada") -> Page:
        return self._as(who, lambda person: person.deny(link))

    def use(self, tool: str = "Post_Read") -> None:
        """A model's, in a session."""
        self._session = self._post("/v1/sessions", {})["sessionId"]
        use = {"type": "tool_use", "id": "t-1", "name": tool, "input": {}}
        self._post(f"/v1/sessions/{self._session}/messages", {"role": "assistant", "content": [use]})

    def result(self) -> Any:
        """What came of it."""
        address = f"{self.url}/v1/sessions/{self._session}/results?wait=20"
        return httpx2.get(address, trust_env=False, timeout=30).json()["message"]["content"][0]

    def _post(self, path: str, body: Any) -> Any:
        return httpx2.post(self.url + path, json=body, trust_env=False).json()

    def _as(self, who: str, way: Callable[[Person], Awaitable[Page]]) -> Page:
        async def gone() -> Page:
            async with httpx2.AsyncClient(follow_redirects=True, trust_env=False, timeout=30) as browser:
                return await way(Person(browser, who))

        return asyncio.run(gone())

    def call(self, user: str, tool: str = "Post.Read") -> Any:
        with Client(self.url, key=self._key) as client:
            return client.call(tool, user_id=user)


def settings(issuer: str) -> dict[str, str]:
    return {"TOOLYARD_PROVIDERS": json.dumps(providers(issuer))}


def code_in(text: str) -> str:
    found = re.search(r"\b([A-Z2-9]{4}-[A-Z2-9]{4})\b", text)
    assert found is not None, text
    return found[1]


@contextmanager
def guarded(folder: Path) -> Iterator[Served]:
    """As `served`; its users sign in before they connect an account. A program with an API key calls it for them."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    known = {"TOOLYARD_ISSUERS": json.dumps([issuer(address)]), "TOOLYARD_JWT_AUDIENCE": AUDIENCE}
    variables = {**settings(address), **known, "TOOLYARD_API_KEYS": f"program:{KEY}"}
    with running("open", folder, [TOOLS], variables) as url:
        back = [f"{url}/connections/idp/callback", f"{url}/connections/signed-in"]
        with having_accounts(port, back, folder / "provider.log") as provider:
            yield Served(url, provider, folder, KEY)


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    port = free_port()
    with (
        running("open", folder, [TOOLS], settings(f"http://127.0.0.1:{port}")) as url,
        having_accounts(port, [f"{url}/connections/idp/callback"], folder / "provider.log") as provider,
    ):
        yield Served(url, provider, folder)
