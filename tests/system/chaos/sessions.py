"""Clients that hand a model's tool uses to a session, and wait for their results."""

import asyncio
from typing import Any

import msgspec

from .asking import OK, Caller
from .history import Ended, Named

SUPPLIED = "supplied"
TOOLS = ("Here_Again", "Here_Once", "Away_Again", "Away_Once", SUPPLIED, SUPPLIED)
BROUGHT = [{"name": SUPPLIED, "description": "Is worked on by hand.", "input_schema": {"type": "object"}}]
CREATED, AWAITING = 201, 202


class SessionClient:
    """`other` is another caller, who must see nothing of what is done here."""

    def __init__(self, number: int, caller: Caller, other: Caller) -> None:
        self._number, self.caller, self._other = number, caller, other
        self.calls, self.under_way = 0, ""

    async def until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            opened = await self.caller.ask_until(CREATED, "POST", "/v1/sessions", {"tools": BROUGHT})
            session = opened["sessionId"]
            for turn in range(self.caller.random.choice((1, 1, 2))):
                await self._turn(session, turn)
            await self._other.peek("GET", f"/v1/sessions/{session}")
            await self._other.peek("GET", f"/v1/sessions/{session}/results")
            await self._other.peek("GET", f"/v1/tools/request/{session}/use-0-0")

    async def _turn(self, session: str, turn: int) -> None:
        """A message, until it is taken, and its results, until they are there."""
        tools = [self.caller.random.choice(TOOLS) for _ in range(self.caller.random.randint(1, 3))]
        uses = {f"use-{turn}-{place}": tool for place, tool in enumerate(tools)}
        self.calls += len(uses)
        self.under_way = f"{uses} in {session}"
        message = {"role": "assistant", "content": [_use(session, id, tool) for id, tool in uses.items()]}
        await self.caller.ask_until(OK, "POST", f"/v1/sessions/{session}/messages", message)
        for id in uses:
            self.caller.taken(Named(self.caller.who, session, id))
        if self.caller.random.random() < 0.1:
            await self._cancel(session, self.caller.random.choice(list(uses)))
        for _ in range(self.caller.random.choice((1, 2))):
            await self._results(session, uses)

    async def _results(self, session: str, uses: dict[str, str]) -> None:
        path = f"/v1/sessions/{session}/results?wait=1"
        while (answer := await self.caller.ask("GET", path)) is None or answer.status == AWAITING:
            pass
        if answer.status != OK:
            self.caller.odd(f"the results of {session}", answer)
            return
        results = answer["message"]["content"]
        if [result["tool_use_id"] for result in results] != list(uses):
            self.caller.odd(f"the results of {list(uses)} in {session}", answer)
        for result in results:
            self.caller.told(Named(self.caller.who, session, result["tool_use_id"]), "session", _ended(result))

    async def _cancel(self, session: str, id: str) -> None:
        answer = await self.caller.ask("POST", f"/v1/tools/request/{session}/{id}/cancel")
        if answer is not None and answer.status != OK:
            self.caller.odd(f"to cancel {id} in {session}", answer)


def _use(session: str, id: str, tool: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": tool, "input": {"mark": f"mark {session} {id}"}}


def _ended(result: dict[str, Any]) -> Ended:
    if result["is_error"]:
        return Ended(None, result["content"])
    return Ended(msgspec.json.decode(result["content"]))
