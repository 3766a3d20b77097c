"""`/v1/workers`: those who run tools elsewhere, and what they offer.

A worker registers its tools under a name, and is there as long as it sends heartbeats. What it then does with calls is
in `requests.py`.
"""

import asyncio

from ...engine.worker_tools import WorkerTools, some
from ...model.errors import InvalidInput, Problem
from ...trust.audit.entry import AuditKind
from ...wires.contract import Reply
from ...wires.lifecycle import worker_tools as wire
from ...wires.lifecycle.calls import LIFECYCLE
from ...wires.lifecycle.requests import encode_empty, worker_name
from ..http.exchange import Exchange
from ..http.routes import Route
from ..intake.witness import Witness


def routes(workers: WorkerTools, witness: Witness, lease_s: float, most: int) -> list[Route]:
    """`most` is how many tools a worker may offer."""

    async def put(exchange: Exchange) -> Reply:
        caller, name = exchange.caller, _name(exchange)
        tools = await asyncio.to_thread(wire.decode_worker, exchange.body, most)  # large ones take a while
        await workers.register(caller, name, tools)
        witness.did(AuditKind.WORKER, f"{name} offers {some([tool.id for tool in tools])}", caller, exchange.address)
        await witness.written()
        return wire.encode_worker(name, tools, int(lease_s * 1000))

    async def beat(exchange: Exchange) -> Reply:
        await workers.beat(exchange.caller, _name(exchange))
        return encode_empty()

    async def drop(exchange: Exchange) -> Reply:
        await workers.drop(exchange.caller, _name(exchange))
        return encode_empty()

    at = "/v1/workers/{name}"
    return [
        Route("PUT", at, put, LIFECYCLE, reads_json=True),
        Route("POST", f"{at}/heartbeat", beat, LIFECYCLE),
        Route("DELETE", at, drop, LIFECYCLE, audit_as=AuditKind.WORKER),
    ]


def _name(exchange: Exchange) -> str:
    try:
        return worker_name(exchange.parameters["name"])
    except ValueError as error:
        raise InvalidInput((Problem("name", str(error)),)) from None
