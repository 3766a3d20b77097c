"""Approvals: the calls that wait for a person's decision, and the decision, in both directions.

Operators decide under `/v1/admin/approvals`, callers with the right to approve under `/v1/approvals`.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from ...model.record import CallRecord
from ..contract import JSON, Reply, Request
from ..errors import encode
from ..json_body import parse_or_empty

ADMIN = "/v1/admin/approvals"
OWN = "/v1/approvals"
MOST_REASON = 500
MOST_LISTED = 1000


def decode_reason(body: bytes) -> str:
    """The reason for a decision, which may be left out. Raises InvalidInput."""
    members = parse_or_empty(body)
    reason: str = members.maybe("reason", _reason, "")
    members.done()
    return reason


def _reason(given: object) -> str:
    if not isinstance(given, str) or len(given) > MOST_REASON:
        raise ValueError(f"Must be text of at most {MOST_REASON} characters")
    return given


def approval_json(call: CallRecord, id: str, url: str | None, code: str | None = None) -> dict[str, Any]:
    """A call that waits for a decision. `code` is what its approval page asks for, and is for operators alone."""
    approval = {
        "id": id,
        **({} if url is None else {"url": url}),
        "callId": call.key.call_id,
        "tool": call.reference,
        "caller": {"tenant": call.key.tenant, "subject": call.key.subject, "userId": call.user_id},
        "wire": call.wire,
        "input": msgspec.Raw(call.input or b"{}"),
        "createdAt": call.created_at,
    }
    return approval if code is None else {**approval, "code": code}


def encode_approvals(waiting: Sequence[Mapping[str, Any]], more: int = 0) -> Reply:
    """`more`: how many others wait."""
    return Reply(200, encode({"approvals": waiting, **({"more": more} if more else {})}), [JSON])


def encode_decided(call: CallRecord, approved: bool) -> Reply:
    body = {"callId": call.key.call_id, "approved": approved, "state": call.state.value}
    return Reply(200, encode(body), [JSON])


# -- a client's side -------------------------------------------------------------------------------


def encode_list(limit: int | None = None) -> Request:
    return Request("GET", ADMIN, query=b"" if limit is None else b"limit=%d" % limit)


def encode_decision(id: str, approved: bool, reason: str) -> Request:
    path = f"{ADMIN}/{quote(id, safe='')}/{'approve' if approved else 'reject'}"
    return Request("POST", path, dict([JSON]), encode({"reason": reason} if reason else {}))
