"""Erasing the calls that were made for one user, in both directions."""

from msgspec import Struct

from ..contract import JSON, Reply, Request
from ..errors import encode
from ..json_body import ID, parse

PATH = "/v1/admin/erasures"


class Erasure(Struct, frozen=True):
    """Whose calls are to be erased: a user's, of one tenant or (None) of all."""

    user: str
    tenant: str | None


# -- the server's side -----------------------------------------------------------------------------


def decode_erasure(body: bytes) -> Erasure:
    members = parse(body)
    erasure = Erasure(members.one("user", ID), members.maybe("tenant", ID, None))
    members.done()
    return erasure


def encode_erased(calls: int) -> Reply:
    return Reply(200, encode({"erased": calls}), [JSON])


# -- a client's side -------------------------------------------------------------------------------


def encode_erase(user: str, tenant: str | None = None) -> Request:
    members = {"user": user} | ({} if tenant is None else {"tenant": tenant})
    return Request("POST", PATH, dict([JSON]), encode(members))
