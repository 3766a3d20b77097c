"""`/v1/calls`: a caller's own calls, whichever wire they came in on."""

import asyncio
from typing import Any
from urllib.parse import parse_qs, unquote

from ..engine.keyed import KeyedCalls
from ..model.errors import InvalidInput, PathNotFound, Problem
from ..model.lifecycle import ENDED, State
from ..store.contract import Filter, Store
from ..trust.authentication import Authenticate
from ..wires.contract import Reply
from ..wires.lifecycle import LIFECYCLE
from .exchange import Exchange
from .routes import Doc, Parameter, Route
from .shapes import LifecycleError, LifecycleInvalid, ListedCall, ListedCalls

LONGEST_WAIT_S = 60.0
LOOK_AGAIN_S = 0.25
MOST = 200

CALL = Parameter("call_id", "path", "The call's id.")
WAIT = Parameter(
    "wait", "query", "Seconds to wait for its end.", {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT_S}
)
STATE = Parameter("state", "query", "Only calls in this state.", {"type": "string", "enum": [*State]})
TOOL = Parameter("tool", "query", "Only calls of this tool, as it was asked for.")
CURSOR = Parameter("cursor", "query", "Where the last list ended.", {"type": "string", "pattern": "^[0-9]{1,18}$"})
LIMIT = Parameter("limit", "query", "How many, at most.", {"type": "integer", "minimum": 1, "maximum": MOST})
REFUSED: dict[int, tuple[str, tuple[Any, ...]]] = {
    401: ("Credentials are missing or not valid", (LifecycleError,)),
    422: ("A parameter is not valid", (LifecycleInvalid,)),
    429: ("The ledger is not to be had now; come back", (LifecycleError,)),
}


def routes(store: Store, keyed: KeyedCalls, authenticate: Authenticate) -> list[Route]:
    """A stranger's call and one that never was get the same answer."""

    async def show(exchange: Exchange) -> Reply:
        caller = authenticate(exchange.headers)
        wait_s = _number(exchange, "wait", 0.0, 0.0, LONGEST_WAIT_S)
        call_id = unquote(exchange.parameter)
        deadline = asyncio.get_running_loop().time() + wait_s
        while True:
            call = await store.get(caller.tenant, caller.subject, call_id)
            if call is None:
                raise PathNotFound("There is no such call")
            left = deadline - asyncio.get_running_loop().time()
            if call.state in ENDED or left <= 0:
                return LIFECYCLE.encode_call(call)
            await keyed.changed(call.key, min(left, LOOK_AGAIN_S))

    async def show_all(exchange: Exchange) -> Reply:
        caller = authenticate(exchange.headers)
        limit = int(_number(exchange, "limit", 50, 1, MOST))
        cursor = _text(exchange, "cursor")
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
            raise InvalidInput((Problem("cursor", "Must be the cursor of an earlier list"),))
        before = None if cursor is None else int(cursor)
        wanted = Filter(caller.tenant, caller.subject, _state(exchange), _text(exchange, "tool"), before, limit)
        return LIFECYCLE.encode_calls(await store.listed(wanted), limit)

    one = Doc(
        "A call of the caller's",
        {200: ("The call", (ListedCall,)), 404: ("There is no such call", (LifecycleError,)), **REFUSED},
        tag="calls",
        parameters=(CALL, WAIT),
    )
    many = Doc(
        "The caller's calls, newest first",
        {200: ("The calls", (ListedCalls,)), **REFUSED},
        tag="calls",
        parameters=(STATE, TOOL, CURSOR, LIMIT),
    )
    return [
        Route("GET", "/v1/calls", show_all, LIFECYCLE, many),
        Route("GET", "/v1/calls/{call_id}", show, LIFECYCLE, one),
    ]


def _text(exchange: Exchange, name: str) -> str | None:
    values = parse_qs(exchange.query.decode("latin-1"), keep_blank_values=True).get(name)
    return values[-1] if values else None


def _state(exchange: Exchange) -> State | None:
    text = _text(exchange, "state")
    if text is None:
        return None
    if text not in State.__members__:
        raise InvalidInput((Problem("state", f"Must be one of {', '.join(State)}"),))
    return State(text)


def _number(exchange: Exchange, name: str, default: float, lowest: float, highest: float) -> float:
    text = _text(exchange, name)
    try:
        number = default if text is None else float(text)
    except ValueError:
        number = float("nan")
    if not lowest <= number <= highest:
        raise InvalidInput((Problem(name, f"Must be a number from {lowest:g} to {highest:g}"),))
    return number
