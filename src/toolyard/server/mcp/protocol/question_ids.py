"""Ids of the requests that put a call's questions to clients of the older era. An id says whose question it is, so that
any node can take the answer. It is signed, and counts for the session and the caller it was put to: nobody answers what
another client was asked."""

import hmac
from typing import Any

import msgspec

from ....text import base64url
from ....trust.sealing.ring import KeyRing
from .peer import Peer

PURPOSE = "mcp question"
KIND = "question"
_TAG = 12
_encode = msgspec.json.Encoder().encode


class QuestionIds:
    """Makes the ids of questions, and reads those that clients answer."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def id_of(self, seq: int, name: str, peer: Peer) -> str:
        """Of a question of the call with that number in the ledger, as it is put to this client."""
        return f"{KIND}.{seq}.{self._signatures(seq, name, peer)[0]}.{name}"

    def read(self, id: Any, peer: Peer) -> tuple[int, str] | None:
        """The number of the call, and the name of its question; None for what was not put to this client."""
        _, seq, signature, name = id.split(".", 3)
        if not (seq.isascii() and seq.isdigit() and len(seq) <= 18):
            return None
        signatures = self._signatures(int(seq), name, peer)
        is_ours = any(hmac.compare_digest(signature.encode(), each.encode()) for each in signatures)
        return (int(seq), name) if is_ours else None

    def _signatures(self, seq: int, name: str, peer: Peer) -> list[str]:
        """By the newest key and by older ones."""
        content = _encode([seq, name, peer.session, peer.caller.tenant, peer.caller.subject])
        return [base64url.encoded(each[:_TAG]) for each in self._ring.signatures(PURPOSE, content)]


def is_question(id: Any) -> bool:
    """Whether this has the form of a question's id."""
    return isinstance(id, str) and id.startswith(f"{KIND}.") and id.count(".") >= 3
