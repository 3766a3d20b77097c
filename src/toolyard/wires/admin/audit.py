"""The audit log, as operators read, export and verify it, in both directions. Signatures are in hexadecimal."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from ...model.audit import AuditBlock, Chain, Mark
from ...model.errors import InvalidInput, Problem
from ...model.json_value import decode_as
from ..contract import JSON, Reply, Request
from ..errors import encode

PATH = "/v1/admin/audit"
CHAINS, BLOCKS, VERIFY = f"{PATH}/chains", f"{PATH}/blocks", f"{PATH}/verify"
UNREADABLE = {"kind": "unreadable"}


class HeadText(Struct, frozen=True):
    """A head of a chain (`Mark`) as text, which operators export and keep where the server cannot change it."""

    chain: str
    number: int
    mac: str
    count: int
    at: float
    seal: str


class PlaceText(Struct, frozen=True):
    """The position up to which a chain was found whole, from which a check goes on."""

    number: int = 0
    mac: str = ""
    count: int = 0
    at: float = 0.0


class AuditCheck(Struct, frozen=True):
    """A request to check a chain from a position on, against heads that were exported before."""

    chain: str
    place: PlaceText = PlaceText()
    heads: tuple[HeadText, ...] = ()


class AuditFinding(Struct, frozen=True, omit_defaults=True):
    """What one check of a chain found. `wrong` is a sentence; without one, `done` says whether this was the end of the
    chain: a long one is checked in several requests."""

    place: PlaceText = PlaceText()
    done: bool = False
    wrong: str | None = None


def text_of(mark: Mark) -> HeadText:
    return HeadText(mark.chain, mark.number, bytes(mark.mac).hex(), mark.count, mark.at, bytes(mark.seal).hex())


def mark_of(text: HeadText) -> Mark:
    """The mark that was exported as this text. Raises ValueError for what is not hexadecimal."""
    return Mark(text.chain, text.number, bytes.fromhex(text.mac), text.count, text.at, bytes.fromhex(text.seal))


# -- the server's side -----------------------------------------------------------------------------


def encode_chains(chains: Sequence[Chain]) -> Reply:
    listed = [
        {
            "name": chain.name,
            "head": None if chain.head is None else text_of(chain.head),
            "anchor": None if chain.anchor is None else text_of(chain.anchor),
        }
        for chain in chains
    ]
    return Reply(200, encode({"chains": listed}), [JSON])


def encode_blocks(blocks: Sequence[AuditBlock]) -> Reply:
    listed = [{"number": block.number, "entries": _entries(block)} for block in blocks]
    return Reply(200, encode({"blocks": listed}), [JSON])


def decode_check(body: bytes) -> AuditCheck:
    try:
        check = decode_as(body, AuditCheck)
        # Decoded only to see that they can be: whoever checks relies on it.
        for head in check.heads:
            mark_of(head)
        bytes.fromhex(check.place.mac)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidInput((Problem("body", f"Must name a chain, a place and heads: {error}"),)) from None
    return check


def encode_checked(checked: AuditFinding) -> Reply:
    return Reply(200, encode(checked), [JSON])


def _entries(block: AuditBlock) -> list[Any]:
    """The entries of a block. One that somebody has spoilt is shown as unreadable, and does not hide the others."""
    found = list[Any]()
    for line in bytes(block.entries).split(b"\n"):
        try:
            found.append(decode_as(line, dict[str, Any]))
        except (msgspec.DecodeError, UnicodeDecodeError):
            found.append(UNREADABLE)
    return found


# -- a client's side -------------------------------------------------------------------------------


def encode_list() -> Request:
    return Request("GET", CHAINS)


def encode_read(chain: str, after: int, since: float | None) -> Request:
    # With repr, a time comes back as the very same number.
    query = {"chain": chain, "after": str(after)} | ({} if since is None else {"since": repr(since)})
    return Request("GET", BLOCKS, query=urlencode(query).encode())


def encode_check(check: AuditCheck) -> Request:
    return Request("POST", VERIFY, dict([JSON]), encode(check))
