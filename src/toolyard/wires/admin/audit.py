"""The operator's words about the audit log, in both directions. Signatures are hexadecimal."""

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
    """A mark, as it is exported."""

    chain: str
    number: int
    mac: str
    count: int
    at: float
    seal: str


class PlaceText(Struct, frozen=True):
    """How far a chain was found to be whole."""

    number: int = 0
    mac: str = ""
    count: int = 0
    at: float = 0.0


class AuditCheck(Struct, frozen=True):
    """Which part of which chain is to be checked, against which exported heads."""

    chain: str
    place: PlaceText = PlaceText()
    heads: tuple[HeadText, ...] = ()


class AuditFinding(Struct, frozen=True, omit_defaults=True):
    """What was found. `wrong` is a sentence; without one, `done` says whether this was all of the chain."""

    place: PlaceText = PlaceText()
    done: bool = False
    wrong: str | None = None


def text_of(mark: Mark) -> HeadText:
    return HeadText(mark.chain, mark.number, bytes(mark.mac).hex(), mark.count, mark.at, bytes(mark.seal).hex())


def mark_of(text: HeadText) -> Mark:
    """Raises ValueError."""
    return Mark(text.chain, text.number, bytes.fromhex(text.mac), text.count, text.at, bytes.fromhex(text.seal))


# -- what the server says and hears ----------------------------------------------------------------


def encode_chains(chains: Sequence[Chain]) -> Reply:
    made = [
        {
            "name": chain.name,
            "head": None if chain.head is None else text_of(chain.head),
            "anchor": None if chain.anchor is None else text_of(chain.anchor),
        }
        for chain in chains
    ]
    return Reply(200, encode({"chains": made}), [JSON])


def encode_blocks(blocks: Sequence[AuditBlock]) -> Reply:
    made = [{"number": block.number, "entries": _entries(block)} for block in blocks]
    return Reply(200, encode({"blocks": made}), [JSON])


def decode_check(body: bytes) -> AuditCheck:
    try:
        check = decode_as(body, AuditCheck)
        for head in check.heads:
            mark_of(head)
        bytes.fromhex(check.place.mac)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidInput((Problem("body", f"Must name a chain, a place and heads: {error}"),)) from None
    return check


def encode_checked(checked: AuditFinding) -> Reply:
    return Reply(200, encode(checked), [JSON])


def _entries(block: AuditBlock) -> list[Any]:
    """A line that somebody has spoilt is shown as such."""
    found = list[Any]()
    for line in bytes(block.entries).split(b"\n"):
        try:
            found.append(decode_as(line, dict[str, Any]))
        except (msgspec.DecodeError, UnicodeDecodeError):
            found.append(UNREADABLE)
    return found


# -- what a client asks ----------------------------------------------------------------------------


def encode_list() -> Request:
    return Request("GET", CHAINS)


def encode_read(chain: str, after: int, since: float | None) -> Request:
    wanted = {"chain": chain, "after": str(after)} | ({} if since is None else {"since": repr(since)})
    return Request("GET", BLOCKS, query=urlencode(wanted).encode())


def encode_check(check: AuditCheck) -> Request:
    return Request("POST", VERIFY, dict([JSON]), encode(check))
