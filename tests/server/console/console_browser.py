"""A browser at the console."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from html import unescape
from typing import Any
from urllib.parse import urlencode

from toolyard.model.clock import SYSTEM_CLOCK, Clock
from toolyard.server.app.compose import Yard

from ..scene import Answer, Scene, settings

ORIGIN = b"http://localhost"


class ManualClock:
    """The real time, and what a test adds to it."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self.ahead = now, 0.0

    def now(self) -> float:
        return self._now() + self.ahead


class Browser:
    """Keeps cookies, and sends forms back as it was given them."""

    def __init__(self, made: Scene) -> None:
        self.made = made
        self.cookies: dict[str, str] = {}
        self.text = ""
        """The page that it shows."""

    async def open(self, path: str = "", **query: str) -> Answer:
        at = f"/console{path}" + (f"?{urlencode(query)}" if query else "")
        return self._shown(await self.made.send("anonymous", "GET", at, None, self._headers()))

    async def send(self, path: str, origin: bytes = ORIGIN, form: str | None = None, **fields: str) -> Answer:
        """The form of the page that goes there."""
        given = urlencode({"form": self.signature(path) if form is None else form} | fields).encode()
        answer = await self.made.send_form(f"/console{path}", given, {**self._headers(), b"origin": origin})
        return self._shown(answer)

    async def enter(self, code: str | None = None) -> Answer:
        await self.open("/enter")
        return await self.send("/enter", code=await new_code(self.made) if code is None else code)

    def signature(self, path: str) -> str:
        found = re.search(rf"action='[^']*/console{path}'[^>]*><input [^>]*name='form' value='([^']+)'", self.text)
        return found[1] if found else ""

    def _headers(self) -> dict[bytes, bytes]:
        return {b"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()).encode()}

    def _shown(self, answer: Answer) -> Answer:
        for name, value in answer.headers:
            if name == b"set-cookie":
                cookie, _, kept = value.decode().partition("=")
                self.cookies[cookie] = kept.partition(";")[0]
        self.text = answer.body.decode()
        return answer


async def new_code(made: Scene) -> str:
    answer = await made.send("operator", "POST", "/v1/admin/console")
    assert answer.status == 200
    return str(answer.json["code"])


async def came_in(made: Scene) -> Browser:
    browser = Browser(made)
    assert (await browser.enter()).status == 303
    return browser


async def audited(made: Scene) -> list[tuple[str, str]]:
    return [(each["kind"], each["tool"]) for each in await _entries(made) if "tool" in each]


async def decided(made: Scene) -> list[tuple[Any, ...]]:
    """What, about which call and whose, by whom and why."""
    members = ("code", "call", "asked_by", "by", "reason")
    return [tuple(map(each.get, members)) for each in await _entries(made) if each["kind"] == "approval"]


async def _entries(made: Scene) -> list[dict[str, Any]]:
    blocks = await made.yard.store.audit.blocks("main", 0, 100)
    return [json.loads(line) for block in blocks for line in block.entries.splitlines()]


def run(scene: Callable[[Scene], Awaitable[None]], kit: Any, seam: Clock = SYSTEM_CLOCK, **more: Any) -> None:
    async def play() -> None:
        yard = Yard([kit], settings(audit="strict", **more), seam)
        async with Scene(yard) as made:
            made.credentials["operator"] = {b"authorization": f"Bearer {made.yard.operators_token.text}".encode()}
            await asyncio.wait_for(scene(made), 30)

    asyncio.run(play())


def words(text: str) -> str:
    """A page as it is read."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", text)))
