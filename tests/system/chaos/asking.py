"""Somebody with a key of their own, who asks any node and writes down what they are told."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from .history import Ended, Named, Odd, Peeked, Recorder, Taken, Told, Untold
from .processes import CALLERS, NodeProcess
from .tools import NOT_THIS_TIME

TIMEOUT_S = 2.5
OK, MISSING, LIMITED = 200, 404, 429


class Answer(Struct, frozen=True):
    status: int
    body: Any
    """Of JSON; None where it is something else."""
    text: str

    def __getitem__(self, member: str) -> Any:
        return self.body.get(member) if isinstance(self.body, dict) else None


class Caller:
    """`asked` counts."""

    def __init__(self, who: str, nodes: Sequence[NodeProcess], recorder: Recorder, random: random.Random) -> None:
        self.who, self._nodes, self._recorder, self.random = who, nodes, recorder, random
        headers = {"authorization": f"Bearer {CALLERS[who]}", "content-type": "application/json"}
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=50)
        self._http = httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S, limits=limits, trust_env=False)
        self.asked = Counter[str]()

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer | None:
        """Any node. None: nobody answered, or they are to be asked again later."""
        content = None if body is None else msgspec.json.encode(body)
        url = self.random.choice(self._nodes).url + path
        try:
            reply = await self._http.request(method, url, content=content, headers=headers)
        except httpx2.TransportError:
            self.asked["no answer"] += 1
            await self.pause()
            return None
        answer = Answer(reply.status_code, _json(reply.content), reply.text)
        if answer.status == LIMITED or answer["retry_after_ms"] is not None:
            self.asked[f"come back: {answer['message']}"] += 1
            await self.pause()
            return None
        self.asked["answered"] += 1
        return answer

    async def ask_until(self, status: int, method: str, path: str, body: Any = None) -> Answer:
        """As often as it takes; any other answer is odd, and asked again."""
        while True:
            answer = await self.ask(method, path, body)
            if answer is not None and answer.status == status:
                return answer
            if answer is not None:
                self.odd(f"{method} {path}", answer)
                await self.pause()

    async def peek(self, method: str, path: str) -> None:
        """At what is somebody else's."""
        answer = await self.ask(method, path)
        if answer is not None:
            self._recorder.add(Peeked(self.who, path, answer.status, answer.text))

    def odd(self, asked: str, answer: Answer) -> None:
        self._recorder.add(Odd(self.who, asked, answer.status, answer.text))

    def never_told(self, asked: str) -> None:
        self._recorder.add(Untold(self.who, asked))

    def told(self, call: Named, how: str, ended: Ended) -> None:
        self._recorder.add(Told(call, how, ended, time.time()))

    def taken(self, call: Named, attempt: int | None = None, value: dict[str, Any] | None = None) -> None:
        self._recorder.add(Taken(call, attempt, value))

    async def pause(self) -> None:
        await asyncio.sleep(self.random.uniform(0.01, 0.2))


def ended_of(result: Mapping[str, Any]) -> Ended | None:
    """What OXP and OTC say of a call; None: it goes on, or never began."""
    if result["success"]:
        return Ended(result["value"], duration_ms=result["duration"])
    error = result["error"]
    if error.get("can_retry") and not error["message"].startswith(NOT_THIS_TIME):
        return None
    return Ended(None, error["message"], error.get("can_retry"), result["duration"])


def ended_of_call(call: Mapping[str, Any]) -> Ended | None:
    """What `/v1/calls` says of it; None: it goes on."""
    if call["state"] == "COMPLETE":
        return Ended(call["value"], duration_ms=call.get("durationMs"))
    if call["state"] == "ERROR":
        error = call["error"]
        return Ended(None, error["message"], error.get("can_retry"), call.get("durationMs"))
    return None


def _json(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        return None
