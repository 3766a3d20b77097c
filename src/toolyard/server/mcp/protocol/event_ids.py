"""Ids of events: where a stream that broke off is taken up again. They are signed, and count for the session and the
caller of the stream alone: nobody can make one up, change one, or use another's."""

import hmac
from collections.abc import Callable

import msgspec

from ....model.json_value import decoder
from ....text import base64url
from ....trust.sealing.ring import KeyRing
from ....wires.mcp.envelope import Id
from .peer import Peer

PURPOSE = "mcp event"
_TAG = 12
Place = tuple[int, int, Id]
"""Of an event: which call's, after which of its events, and what the response answers."""
_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], Place] = decoder(tuple[int, int, Id])


class Places:
    """Makes the ids of events, and reads those that clients come back with."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def id_of(self, place: Place, peer: Peer) -> str:
        return f"{base64url.encoded(_encode(place))}.{self._signatures(place, peer)[0]}"

    def read(self, id: bytes, peer: Peer) -> Place | None:
        """None for what was not given out to this session."""
        shown, _, signature = id.partition(b".")
        try:
            place: Place = _decode(base64url.decoded(shown.decode("ascii")))
        except (ValueError, msgspec.DecodeError):
            return None
        is_ours = any(hmac.compare_digest(signature, each.encode()) for each in self._signatures(place, peer))
        return place if is_ours else None

    def _signatures(self, place: Place, peer: Peer) -> list[str]:
        """By the newest key and by older ones."""
        content = _encode([*place, peer.session, peer.caller.tenant, peer.caller.subject])
        signed = self._ring.signatures(PURPOSE, content)
        return [base64url.encoded(each[:_TAG]) for each in signed]
