"""One request for a prompt, a resource or a completion of an upstream, and what the upstream asks on its way.

No ledger knows of it: nothing is parked, and an upstream that asks is answered while its request waits, or its question
becomes the answer, where the client can ask again with what it was asked for.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct

from ..model.json_value import decode_as
from .call import Principal
from .connection import UpstreamConnection
from .faults import Misbehaved
from .pending_request import RequestListener

MOST_ROUNDS = 20
"""How often a request may be made again with the answers that it asked for."""
MOST_QUESTIONS = 20
"""In one answer."""


class AssetClient(RequestListener, Protocol):
    """Whoever wants a prompt, a resource or a completion."""

    @property
    def principal(self) -> Principal | None:
        """For whom it asks, where they can be asked something; None: nobody is asked."""
        ...

    @property
    def takes_questions(self) -> bool:
        """Whether it is given what the upstream asks as the answer, to ask again with what it was asked for."""
        ...

    def asks(self, *, is_modern: bool) -> frozenset[str]:
        """What an upstream of the newer era, or of the older one, can ask it."""
        ...


class _Round(Struct, rename={"kind": "resultType", "requests": "inputRequests", "state": "requestState"}):
    """Enough of an answer to see whether it is one."""

    kind: str = "complete"
    requests: dict[str, Any] = {}
    state: str | None = None


class AssetRequest:
    """A request that is under way: the `RequestListener` of what the upstream says meanwhile."""

    def __init__(self, client: AssetClient, clock: asyncio.Timeout, silent_s: float) -> None:
        """`clock` runs while the upstream is waited for, and not while somebody is asked."""
        self._client, self._clock, self._silent_s = client, clock, silent_s
        self._asked = 0

    @property
    def principal(self) -> object | None:
        return self._client.principal

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        self._client.notified(method, params)

    async def asked(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self._asked += 1
        self._clock.reschedule(None)
        try:
            return await self._client.asked(method, params)
        finally:
            self._asked -= 1
            if not self._asked and not self._clock.expired():
                self._clock.reschedule(asyncio.get_running_loop().time() + self._silent_s)

    async def result(self, connection: UpstreamConnection, method: str, params: Mapping[str, Any]) -> Raw:
        """Raises UpstreamFault, and RpcError of whoever was asked."""
        asks = self._client.asks(is_modern=connection.revision.is_modern)
        for _ in range(MOST_ROUNDS):
            raw = await connection.request(method, params, self, {}, asks)
            found = _round_in(raw) if connection.revision.is_modern else _Round()
            if found.kind == "complete" or (found.kind == "input_required" and self._client.takes_questions):
                return raw
            if found.kind != "input_required" or len(found.requests) > MOST_QUESTIONS:
                raise Misbehaved(f"answered {method} with what is no answer to it")
            answers = {"inputResponses": await self._answers(found.requests)}
            state = {} if found.state is None else {"requestState": found.state}
            params = {name: value for name, value in params.items() if name != "requestState"} | answers | state
        raise Misbehaved(f"asked for something {MOST_ROUNDS} times, and did not go on")

    async def _answers(self, requests: Mapping[str, Any]) -> dict[str, Any]:
        answers: dict[str, Any] = {}
        for name, each in requests.items():
            if not isinstance(each, dict) or not isinstance(each.get("method"), str):
                raise Misbehaved("asked for something that is no question")
            params = each.get("params")
            answers[name] = await self.asked(each["method"], params if isinstance(params, dict) else {})
        return answers


def _round_in(raw: Raw) -> _Round:
    try:
        return decode_as(raw, _Round)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Misbehaved(f"answered with what is no result: {str(error)[:200]}") from None
