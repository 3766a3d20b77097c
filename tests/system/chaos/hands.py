"""Those who work on a session's requests by hand: some steadily, some so slowly that others take their work, and some
who vanish with it. They know the number of their attempt, and answer with it."""

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from msgspec import Struct

from .asking import OK, Caller
from .history import Claimed, Effect, Named
from .processes import LEASE_S
from .sessions import SUPPLIED
from .tools import leave_trace

CONFLICT = 409


class Claim(Struct, frozen=True):
    session: str
    request: str
    attempt: int
    mark: str
    run: str
    began: float


class Hand:
    """`is_calm`: from now on it is steady."""

    def __init__(self, name: str, caller: Caller, effects: Path, record: Callable[[Claimed], None]) -> None:
        self._name, self._caller, self._effects, self._record = name, caller, effects, record
        self._headers = {"toolyard-worker": name}
        self.is_calm = False

    async def until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            wanted = {"tools": [SUPPLIED], "limit": 2, "wait": 1}
            answer = await self._caller.ask("POST", "/v1/tools/claim", wanted, self._headers)
            if answer is None:
                continue
            if answer.status != OK:
                self._caller.odd("for work", answer)
                await self._caller.pause()
                continue
            await asyncio.gather(*(self._work(self._claimed(each)) for each in answer["claims"]))

    def _claimed(self, given: dict[str, Any]) -> Claim:
        claim = Claim(
            given["sessionId"], given["requestId"], given["attempt"], given["input"]["mark"],
            uuid.uuid4().hex[:12], time.time(),
        )  # fmt: skip
        self._record(Claimed(self._call(claim), claim.attempt, self._name))
        return claim

    async def _work(self, claim: Claim) -> None:
        ways: list[Callable[[Claim], Coroutine[Any, Any, None]]] = [self._steadily, self._slowly, self._not_at_all]
        (way,) = self._caller.random.choices(ways, (1, 0, 0) if self.is_calm else (6, 3, 1))
        await way(claim)

    async def _steadily(self, claim: Claim) -> None:
        beating = asyncio.create_task(self._beat(claim))
        await self._do(claim, LEASE_S * self._caller.random.choice((0.02, 0.02, 1.0)))
        beating.cancel()
        await asyncio.wait((beating,))
        await self._answer(claim)

    async def _slowly(self, claim: Claim) -> None:
        """Without a sign of life, until others may have it."""
        await self._do(claim, LEASE_S * self._caller.random.uniform(0.5, 1.5))
        await self._answer(claim)

    async def _not_at_all(self, claim: Claim) -> None:
        """Nothing more is heard of it."""

    async def _do(self, claim: Claim, seconds: float) -> None:
        await asyncio.sleep(seconds / 2)
        leave_trace(
            self._effects,
            Effect(
                claim.request, SUPPLIED, claim.mark, claim.run, self._name, os.getpid(), claim.began,
                self._caller.who, claim.attempt,
            ),
        )  # fmt: skip
        await asyncio.sleep(seconds / 2)

    async def _beat(self, claim: Claim) -> None:
        path = f"/v1/tools/request/{claim.session}/{claim.request}/heartbeat"
        while True:
            beat = {"state": "PROCESSING", "heartbeat": time.time() * 1000}
            await self._caller.ask("POST", path, beat, self._fence(claim))
            await asyncio.sleep(LEASE_S / 4)

    async def _answer(self, claim: Claim) -> None:
        """Until it is taken, or is not wanted."""
        value = {"attempt": claim.attempt, "run": claim.run, "process": self._name, "began": claim.began}
        path, body = (
            f"/v1/tools/response/{claim.session}/{claim.request}",
            {"response": {"state": "COMPLETE", **value}},
        )
        while (answer := await self._caller.ask("POST", path, body, self._fence(claim))) is None:
            pass
        if answer.status == OK:
            self._caller.taken(self._call(claim), claim.attempt, value)
        elif answer.status != CONFLICT:
            self._caller.odd(f"to take the answer to {claim.session}/{claim.request}", answer)

    def _call(self, claim: Claim) -> Named:
        return Named(self._caller.who, claim.session, claim.request)

    def _fence(self, claim: Claim) -> dict[str, str]:
        return {**self._headers, "toolyard-attempt": str(claim.attempt)}
