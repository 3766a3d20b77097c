"""The audit log as the store keeps it: chains of blocks, each signed together with the one before it.

A chain is what one node wrote. It ends at its head, and begins with its first block or, once old blocks were dropped,
after its anchor. Head and anchor are marked, and the marks are sealed: whoever has no key can neither change a block
nor cut off either end unnoticed. `trust/audit` writes and verifies the chains.
"""

from msgspec import Struct


class AuditBlock(Struct, frozen=True):
    """Audit entries that were written together, one line of JSON each, with the signature that chains them."""

    chain: str
    number: int
    """From 1, without gaps."""
    count: int
    """How many entries."""
    first_at: float
    last_at: float
    """Never less than that of the block before."""
    mac: bytes
    """The signature, over all of this and the `mac` of the block before."""
    entries: bytes


class Mark(Struct, frozen=True):
    """One end of a chain: its head, which is its last block, or its anchor, the last block that was dropped."""

    chain: str
    number: int
    mac: bytes
    """That block's signature."""
    count: int
    """How many entries the chain has had up to here."""
    at: float
    """When the last of them was made."""
    seal: bytes
    """A signature over the mark itself."""


class Chain(Struct, frozen=True):
    """A chain's two ends. Its blocks are read apart, as there may be many; a chain without a head was tampered with."""

    name: str
    head: Mark | None = None
    anchor: Mark | None = None
