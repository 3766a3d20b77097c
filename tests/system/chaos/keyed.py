"""Clients that call with keys, over OXP and OTC. Two callers make the same calls, with the same ids."""

import asyncio
import random
from contextlib import suppress

from msgspec import Struct

from .asking import MISSING, OK, Answer, Caller, ended_of, ended_of_call
from .history import Ended, Named

OTC = "otc://1.0"
TOOLS = ("Here.Again", "Here.Again", "Here.Once", "Here.Narrow", "Here.Fickle", "Away.Again", "Away.Once")
FAMILY = "oxp"


class Plan(Struct, frozen=True):
    """A call to be made."""

    id: str
    tool: str
    is_private: bool
    """Nobody else makes it."""
    is_cancelled: bool
    is_left: bool
    """Its client goes away before it is told anything."""
    asked_again: int

    @classmethod
    def made(cls, seed: str) -> "Plan":
        """The same for the same seed."""
        chosen = random.Random(seed)
        fate = chosen.random()
        return cls(
            seed, chosen.choice(TOOLS), chosen.random() < 0.2, fate < 0.1, 0.1 <= fate < 0.15,
            chosen.choice((0, 0, 1, 2)),
        )  # fmt: skip


class KeyedClient:
    """`other` is another caller, who must see nothing of what is done here."""

    def __init__(self, number: int, caller: Caller, other: Caller) -> None:
        self._number, self.caller, self._other = number, caller, other
        self.calls, self.under_way = 0, ""

    async def until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.calls += 1
            await self._through(Plan.made(f"{self._number}-{self.calls}"))

    async def _through(self, plan: Plan) -> None:
        call = self._named(plan)
        self.under_way = f"{plan.tool} as {call}"
        if plan.is_left:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.caller.random.uniform(0.005, 0.1)):
                    await self._ask(plan, call)
            return
        cancelling = asyncio.create_task(self._cancel(call)) if plan.is_cancelled else None
        await self._told(plan, call)
        if cancelling is not None:
            await cancelling
        for _ in range(plan.asked_again):
            await (self._told(plan, call) if self.caller.random.random() < 0.6 else self._shown(call))
        if plan.is_private:
            await self._other.peek("GET", f"/v1/calls/{call.call_id}")
            await self._other.peek("POST", f"/v1/calls/{call.call_id}/cancel")

    def _named(self, plan: Plan) -> Named:
        who = self.caller.who
        return Named(who, FAMILY, f"{who}-{plan.id}" if plan.is_private else plan.id)

    async def _told(self, plan: Plan, call: Named) -> None:
        """How it ended, however often one has to ask."""
        while True:
            ended = await self._ask(plan, call)
            if ended is not None and not ended.can_retry:
                return
            await self.caller.pause()

    async def _ask(self, plan: Plan, call: Named) -> Ended | None:
        how = self.caller.random.choice(("oxp", "otc"))
        request = {"tool_id": plan.tool, "call_id": call.call_id, "input": {"mark": f"mark {call.call_id}"}}
        if how == "otc":
            answer = await self.caller.ask("POST", "/otc/tools/call", {"$schema": OTC, "request": request})
        else:
            answer = await self.caller.ask("POST", "/tools/call", request)
        if answer is None or _has_no_worker(plan, answer):
            return None
        if answer.status != OK:
            self.caller.odd(f"{plan.tool} as {call} over {how}", answer)
            return None
        ended = ended_of(answer["result"] if how == "otc" else answer.body)
        if ended is not None:
            self.caller.told(call, how, ended)
        return ended

    async def _shown(self, call: Named) -> None:
        """What the ledger's own page says of a call that this client knows the end of."""
        answer = await self.caller.ask("GET", f"/v1/calls/{call.call_id}")
        if answer is None:
            return
        ended = ended_of_call(answer.body) if answer.status == OK else None
        if ended is None:
            self.caller.odd(f"for {call}, which has ended", answer)
        else:
            self.caller.told(call, "/v1/calls", ended)

    async def _cancel(self, call: Named) -> None:
        """Once it is there."""
        await asyncio.sleep(self.caller.random.uniform(0.0, 0.1))
        answer = await self.caller.ask("POST", f"/v1/calls/{call.call_id}/cancel")
        if answer is None or answer.status == MISSING:
            return
        ended = ended_of_call(answer.body) if answer.status == OK else None
        if ended is None:
            self.caller.odd(f"to cancel {call}", answer)
        else:
            self.caller.told(call, "cancel", ended)


def _has_no_worker(plan: Plan, answer: Answer) -> bool:
    """Its workers are all gone, and with them the tool; they will be back."""
    return plan.tool.startswith("Away.") and "was not found" in str(answer["message"])
