"""`requestState`: what a client hands back with its answers. It is sealed, runs out, and counts for its caller, its
user and its request alone. That also holds for what an upstream would have handed back: to clients it is ours."""

from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec
from msgspec import UNSET, Struct

from ....model.caller import Caller
from ....model.channel import Question
from ....model.json_value import decode_as
from ....model.record import CallRecord
from ....text import base64url
from ....trust.sealing.ring import BrokenSeal, KeyRing
from ....wires.mcp.envelope import INVALID_PARAMS, RpcError
from ....wires.mcp.params import CallParams

PURPOSE, UPSTREAM = "mcp request state", "mcp upstream's request state"
TOO_OLD = "is too old; call the tool again without it"
LONGEST_STATE = 64 * 2**10
"""Of an upstream."""
_sorted = msgspec.json.Encoder(order="sorted").encode


class RequestState(Struct, frozen=True, array_like=True):
    """Which call a client's answers are for, until when, and what the client was asked."""

    seq: int
    digest: str
    """Of the call's name."""
    until: float
    asked: tuple[str, ...]


class States:
    """Seals the `requestState` that a client is given with questions, and opens it when it comes back with answers."""

    def __init__(self, ring: KeyRing, keep_s: float, now: Callable[[], float]) -> None:
        self._ring, self._keep_s, self._now = ring, keep_s, now

    def make(self, call: CallRecord, caller: Caller, request: bytes, asked: Sequence[Question]) -> str:
        names = tuple(question.name for question in asked)
        content = msgspec.json.encode(RequestState(call.seq, call.name.digest(), self._now() + self._keep_s, names))
        sealed = self._ring.seal(PURPOSE, content, _bound(caller, request))
        return base64url.encoded(sealed)

    def open(self, state: str, caller: Caller, request: bytes) -> RequestState:
        """Raises RpcError for what is not ours, not this caller's, or too old."""
        try:
            content = self._ring.unseal(PURPOSE, base64url.decoded(state), _bound(caller, request))
        except (ValueError, BrokenSeal):
            raise _refused("is not one that this server gave out for this request") from None
        try:
            opened = decode_as(content, RequestState)
        except msgspec.ValidationError:  # one of an older toolyard's
            raise _refused(TOO_OLD) from None
        if self._now() > opened.until:
            raise _refused(TOO_OLD)
        return opened


class HandedBack(Struct, frozen=True, array_like=True):
    """What an upstream wants handed back with the answers to what it asked, which of them, and until when."""

    upstream: str
    until: float
    state: str


class UpstreamStates:
    """Seals what an upstream that asks something wants handed back, and opens it when it comes back with answers."""

    def __init__(self, ring: KeyRing, keep_s: float, now: Callable[[], float]) -> None:
        self._ring, self._keep_s, self._now = ring, keep_s, now

    def make(self, upstream: str, state: str, caller: Caller, request: bytes) -> str:
        content = msgspec.json.encode(HandedBack(upstream, self._now() + self._keep_s, state))
        return base64url.encoded(self._ring.seal(UPSTREAM, content, _bound(caller, request)))

    def open(self, state: str, upstream: str, caller: Caller, request: bytes) -> str:
        """Raises RpcError for what is not ours, not this caller's, another upstream's, or too old."""
        try:
            content = self._ring.unseal(UPSTREAM, base64url.decoded(state), _bound(caller, request))
        except (ValueError, BrokenSeal):
            raise _refused("is not one that this server gave out for this request") from None
        opened = decode_as(content, HandedBack)
        if self._now() > opened.until or opened.upstream != upstream:
            raise _refused("is too old; send the request again without it")
        return opened.state


def digest_of(name: str, params: CallParams, caller: Caller) -> bytes:
    """What a request asks for, and for which user. `name` is the tool's id: clients may say its wire name."""
    said = UNSET if params.meta is UNSET else params.meta.user_id
    user = caller.user_id if said is UNSET else said
    return sha256(_sorted([name, params.arguments] if user is None else [name, params.arguments, user])).digest()


def _bound(caller: Caller, request: bytes) -> bytes:
    return _sorted([caller.tenant, caller.subject]) + request


def _refused(why: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"Invalid params: requestState {why}")
