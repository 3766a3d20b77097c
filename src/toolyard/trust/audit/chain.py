"""How the audit log is signed, and how it is checked. Pure: values in, values out.

Each block is signed together with the signature of the one before, so that none can be changed, left out, put in or
moved. What a chain of signatures alone does not show is that its end is missing: so the head is sealed, too, and with a
key of its own. Who can write to the store but has no key cannot seal an earlier head; who puts back an old copy of
everything is found out by a head that was exported after it was made. In the same way the anchor shows that the
blocks in front of it were dropped by a server and by nobody else.
"""

from collections.abc import Iterable, Sequence
from hmac import compare_digest
from typing import Literal

import msgspec
from msgspec import Struct

from ...model.audit import AuditBlock, Chain, Mark
from ..sealing.ring import KeyRing

BLOCK = "audit block"
End = Literal["audit head", "audit anchor"]
HEAD: End = "audit head"
ANCHOR: End = "audit anchor"
_encode = msgspec.msgpack.Encoder().encode
KEY_HINT = "or this is not the key that it was signed with"
BLOCKS_AT_ONCE = 16
"""How many blocks whoever walks along a chain reads at once: each may have a mebibyte."""


class Broken(Exception):
    """The log is not as a server wrote it; the text says which block is wrong, and how."""

    def __init__(self, chain: str, number: int, what: str) -> None:
        super().__init__(f"chain {chain}, block {number}: {what}")
        self.chain, self.number = chain, number


class ChainPosition(Struct, frozen=True):
    """A position in a chain, after one of its blocks: the block's number and signature, how many entries there are up
    to there, and when the last of them was made. The default is the position before the first block."""

    number: int = 0
    mac: bytes = b""
    count: int = 0
    at: float = 0.0


def signed(
    ring: KeyRing, after: ChainPosition, chain: str, times: tuple[float, float], lines: Sequence[bytes]
) -> AuditBlock:
    """The block that comes after that position. `times` are those of the first and the last entry."""
    # A clock that was set back must not end a block before the one in front: retention goes by these times.
    first_at, last_at = times[0], max(times[1], after.at)
    unsigned = AuditBlock(chain, after.number + 1, len(lines), first_at, last_at, b"", b"\n".join(lines))
    return msgspec.structs.replace(unsigned, mac=ring.sign(BLOCK, _signed(after.mac, unsigned)))


def position_after(before: ChainPosition, block: AuditBlock) -> ChainPosition:
    """The position behind a block, unchecked."""
    return ChainPosition(block.number, block.mac, before.count + block.count, block.last_at)


def sealed(ring: KeyRing, end: End, chain: str, position: ChainPosition) -> Mark:
    """The head of a chain, where it ends, or its anchor, where it begins, sealed with the key for that end."""
    mark = Mark(chain, position.number, position.mac, position.count, position.at, b"")
    return msgspec.structs.replace(mark, seal=ring.sign(end, _said(mark)))


def verify(ring: KeyRing, chain: Chain, blocks: Iterable[AuditBlock], known: Sequence[Mark] = ()) -> ChainPosition:
    """Checks all of a chain at once, and returns where it ends. `known` are heads of it that were exported. Raises
    Broken."""
    check_known(ring, chain, known)
    position = start_of(ring, chain)
    for block in blocks:
        position = go_on(ring, chain.name, position, block, known)
    check_end(ring, chain, position)
    return position


def start_of(ring: KeyRing, chain: Chain) -> ChainPosition:
    """The position before a chain's first block: the very start, or the anchor, once it is checked. Raises Broken."""
    anchor = chain.anchor
    if anchor is None:
        return ChainPosition()
    _check_seal(ring, ANCHOR, chain.name, anchor, "the anchor")
    return ChainPosition(anchor.number, anchor.mac, anchor.count, anchor.at)


def go_on(
    ring: KeyRing, chain: str, position: ChainPosition, block: AuditBlock, known: Sequence[Mark] = ()
) -> ChainPosition:
    """From a position to the one behind the next block, which is checked. Raises Broken."""
    expected = position.number + 1
    if block.chain != chain:
        raise Broken(chain, expected, f"a block of chain {block.chain} is in its place")
    if block.number != expected:
        raise Broken(chain, expected, f"it is missing: block {block.number} comes after block {position.number}")
    if not _is_one_of(block.mac, ring.signatures(BLOCK, _signed(position.mac, block))):
        raise Broken(chain, expected, f"it or its place was changed, {KEY_HINT}")
    # Signed by our key, and yet another: an old copy of the log was put back and written on.
    if any(mark.number == block.number and mark.mac != block.mac for mark in known):
        raise Broken(chain, expected, "it is not the one that was there when its head was exported")
    return position_after(position, block)


def check_end(ring: KeyRing, chain: Chain, position: ChainPosition) -> None:
    """Raises Broken where the last block is not the one that the head names: then the end is missing, or was added."""
    head = chain.head
    if head is None:
        raise Broken(chain.name, position.number, "the chain has no head")
    _check_seal(ring, HEAD, chain.name, head, "the head")
    here = position.number
    if head.number > here:
        raise Broken(chain.name, here + 1, f"it is missing, and so is what follows up to block {head.number}")
    if head.number < here:
        raise Broken(chain.name, here, f"it is there, and the head says that block {head.number} is the last")
    if (head.mac, head.count, head.at) != (position.mac, position.count, position.at):
        raise Broken(chain.name, here, "it is not the block that the head names")


def check_known(ring: KeyRing, chain: Chain, known: Sequence[Mark]) -> None:
    """Raises Broken where the chain has not come as far as it had when its heads were exported: an old copy was put
    back, which nothing inside the copy would show."""
    reached = max((mark.number for mark in (chain.head, chain.anchor) if mark is not None), default=0)
    for mark in known:
        _check_seal(ring, HEAD, chain.name, mark, "the exported head")
        if reached == 0:
            raise Broken(chain.name, mark.number, "the whole chain is gone, and its head was exported")
        if reached < mark.number:
            what = f"it is gone: it was there when its head was exported, and now block {reached} is the last"
            raise Broken(chain.name, mark.number, what)
        anchor = chain.anchor
        if anchor is not None and anchor.number == mark.number and anchor.mac != mark.mac:
            raise Broken(chain.name, mark.number, "it was dropped, and was not the one whose head was exported")


def is_ours(ring: KeyRing, chain: Chain) -> bool:
    """Whether a chain's head was sealed with this ring; a chain without a head is anybody's."""
    try:
        if chain.head is not None:
            _check_seal(ring, HEAD, chain.name, chain.head, "the head")
    except Broken:
        return False
    return True


def _check_seal(ring: KeyRing, end: End, chain: str, mark: Mark, called: str) -> None:
    # Bound to the chain's name: a head of one chain is worth nothing in another.
    if mark.chain != chain or not _is_one_of(mark.seal, ring.signatures(end, _said(mark))):
        raise Broken(chain, mark.number, f"{called} was changed, {KEY_HINT}")


def _signed(before: bytes, block: AuditBlock) -> bytes:
    """What a block's signature is over: one encoding of everything, in which no two blocks look the same."""
    known = (before, block.chain, block.number, block.count, block.first_at, block.last_at, block.entries)
    return _encode(known)


def _said(mark: Mark) -> bytes:
    """What a mark's seal is over."""
    return _encode((mark.chain, mark.number, mark.mac, mark.count, mark.at))


def _is_one_of(given: object, expected: Sequence[bytes]) -> bool:
    """Whether a signature is by one of the ring's keys. A log outlives its keys: an older one counts as well."""
    return isinstance(given, bytes) and any(compare_digest(given, each) for each in expected)
