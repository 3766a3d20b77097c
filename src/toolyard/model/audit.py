"""The audit log as it is kept: chains of blocks, each signed together with the one before it.

A chain is what one node wrote. It ends at its head, and begins with its first block, or after what was too old to be
kept. Both places are marked, and the marks are sealed: who has no key can neither change a block nor move an end.
"""

from msgspec import Struct


class AuditBlock(Struct, frozen=True):
    """Entries that were written at once, a line of JSON each."""

    chain: str
    number: int
    """From 1, without gaps."""
    count: int
    """How many entries."""
    first_at: float
    last_at: float
    """Never less than that of the block before."""
    mac: bytes
    """Over all of this and the `mac` of the block before."""
    entries: bytes


class Mark(Struct, frozen=True):
    """A place in a chain: its head, which is its last block, or its anchor, the last one that was dropped."""

    chain: str
    number: int
    mac: bytes
    """Of that block."""
    count: int
    """How many entries the chain has had up to here."""
    at: float
    """When the last of them was made."""
    seal: bytes


class Chain(Struct, frozen=True):
    """What is there of a chain besides its blocks. A chain without a head was tampered with."""

    name: str
    head: Mark | None = None
    anchor: Mark | None = None
