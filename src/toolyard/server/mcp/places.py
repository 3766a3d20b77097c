"""Ids of events: where a stream that broke off is taken up again. They are signed, and count for the session and the
caller of the stream alone: nobody can make one up, change one, or use another's."""

import base64
import hmac

import msgspec

from ...trust.keys import KeyRing
from ...wires.mcp.envelope import Id
from .peer import Peer

PURPOSE = "mcp event"
_TAG = 12
Place = tuple[int, int, Id]
"""Of an event: which call's, after which of its events, and what the response answers."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Place).decode


class Places:
    """Makes and reads them."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def id_of(self, place: Place, peer: Peer) -> str:
        return f"{base64.urlsafe_b64encode(_encode(place)).decode()}.{self._signature(place, peer)}"

    def read(self, id: bytes, peer: Peer) -> Place | None:
        """None for what was not given out to this session."""
        shown, _, signature = id.partition(b".")
        try:
            place: Place = _decode(base64.urlsafe_b64decode(shown))
        except (ValueError, msgspec.DecodeError):
            return None
        return place if hmac.compare_digest(signature, self._signature(place, peer).encode()) else None

    def _signature(self, place: Place, peer: Peer) -> str:
        signed = self._ring.sign(PURPOSE, _encode([*place, peer.session, peer.caller.tenant, peer.caller.subject]))
        return base64.urlsafe_b64encode(signed[:_TAG]).decode()
