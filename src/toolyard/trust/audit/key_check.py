"""Whether the keys of the ring are those that a ledger was signed and sealed with, asked at every start.

A key that is lost is not replaced in silence: what a new one signs cannot be checked any more once the old one is back.
Where the ledger has signed or sealed things, one of them must fit one of the keys. It need not be all of them: after a
change of the key some may be of an older one.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial

from ...model.audit import AuditBlock, Chain
from ...model.errors import SettingsError, SourcePlace
from ...model.lifecycle import State
from ...model.record import CallRecord
from ...store.contract import Store
from ...store.values import Filter
from ..sealing import vault
from ..sealing.ring import BrokenSeal, KeyRing
from . import chain as audit_chain

MARK = vault.VaultPath("key", "", "", "new")
"""Sealed by `toolyard secrets new-key` with the key that it made on purpose, so that something fits that key."""
GO_ON = "to go on without it, on purpose: toolyard secrets new-key"
MOST_CALLS = 100
FIRST_BLOCKS = 4
"""Not only the first one: somebody may have changed it, and then the right key must still be taken for right."""
Fits = Callable[[KeyRing], bool]
"""Whether a ring has signed or sealed some thing of the ledger."""


async def hold_to_ledger(ring: KeyRing, store: Store) -> None:
    """Has the ring refuse every use where the ledger needs another key. Raises StoreDown."""
    ring.refusal = None
    try:
        ring.refusal = await _refusal(ring, store)
    except SettingsError as error:  # what is there is no key
        ring.refusal = error


async def _refusal(ring: KeyRing, store: Store) -> SettingsError | None:
    """Why the ring must not be used. None: something of the ledger fits one of its keys, or there is nothing to fit."""
    has_any, is_missing = False, ring.is_missing
    async for fits in _things(store):
        if is_missing:
            return _missing(ring)
        if fits(ring):
            return None
        has_any = True
    return _wrong(ring) if has_any else None


def _missing(ring: KeyRing) -> SettingsError:
    return SettingsError(
        "the key file is missing, and this ledger was signed and sealed with the key in it; put it back, or name the "
        f"key with secret_key; {GO_ON}",
        SourcePlace(str(ring.file)),
    )


def _wrong(ring: KeyRing) -> SettingsError:
    where = "secret_key" if ring.file is None else "this file"
    return SettingsError(
        f"no key in {where} fits this ledger, which was signed and sealed with another; put that one back, first or "
        f"behind a newer one; {GO_ON}",
        None if ring.file is None else SourcePlace(str(ring.file)),
    )


async def _things(store: Store) -> AsyncIterator[Fits]:
    """What was signed or sealed in the ledger, each as the question whether a ring did that. What is quick to look at
    comes first: the first thing that fits ends the search, and in almost every ledger that is the head of a chain."""
    chains = await store.audit.chains()
    for chain in chains:
        if chain.head is not None:
            yield partial(audit_chain.is_ours, chain=chain)
    for thing in await store.sealed.listed():
        yield partial(vault.opens, thing=thing)
    for state in (State.PENDING, State.PROCESSING):
        for call in await store.listed(Filter(None, state=state, limit=MOST_CALLS)):
            if call.sealed is not None:
                yield partial(_opens_call, call=call)
    for chain in chains[-1:]:  # its head may be what somebody changed
        after = 0 if chain.anchor is None else chain.anchor.number
        yield partial(_has_signed, chain=chain, blocks=await store.audit.blocks(chain.name, after, FIRST_BLOCKS))


def _opens_call(ring: KeyRing, call: CallRecord) -> bool:
    """Whether the ring sealed what a waiting call has to be run with."""
    try:
        ring.unseal("context", call.sealed or b"", call.key.call_id.encode())
    except BrokenSeal:
        return False
    return True


def _has_signed(ring: KeyRing, chain: Chain, blocks: list[AuditBlock]) -> bool:
    """Whether the ring signed any of these blocks, which are the first of their chain."""
    anchor = chain.anchor
    position = audit_chain.ChainPosition() if anchor is None else audit_chain.ChainPosition(anchor.number, anchor.mac)
    for block in blocks:
        try:
            audit_chain.go_on(ring, chain.name, position, block)
        except audit_chain.Broken:
            position = audit_chain.position_after(position, block)
        else:
            return True
    return False
