"""What connects upstreams to the rest of a server: their secrets from the vault, their lists in the ledger, and the
keys under which their calls are known there. Loaded where there is an upstream, and not otherwise.
"""

import hmac
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256

import msgspec

from ...engine.upstream_tools import UpstreamTools
from ...model.run import Run
from ...model.tool import Tool
from ...model.upstream import Given, SecretName, Upstream
from ...store.contract import Store
from ...store.values import StoreDown, UpstreamRecord
from ...text.scrubber import Scrubber
from ...trust.requirements.secrets import HeldSecrets
from ...trust.sealing.ring import KeyRing
from ...upstream.connection import MOST_BYTES, UpstreamAccess
from ...upstream.faults import NoSecret, NotSent
from ...upstream.upstreams import FollowedUpstream, ResultNames, Upstreams

PURPOSE = "upstream"
_encode = msgspec.msgpack.Encoder().encode


class UpstreamSecrets:
    """Looks up what the settings of an upstream name, each time that it is connected to: secrets are renewed."""

    def __init__(self, held: HeldSecrets, most_bytes: int = MOST_BYTES) -> None:
        self._held, self._most_bytes = held, most_bytes

    async def reach(self, upstream: Upstream) -> UpstreamAccess:
        """Raises NotSent for a secret that is not there."""
        found: dict[str, str] = {}
        for name in upstream.secrets:
            try:
                value = await self._held.for_upstream(name, upstream.name)
            except StoreDown as down:
                raise NotSent(f"cannot be connected to: {down.message}") from None
            if value is None:
                raise NoSecret(
                    f"needs the secret {name}, which is not kept here; set it with toolyard secrets set {name}"
                )
            found[name] = value
        headers = {name.lower().encode(): value.encode() for name, value in _filled(upstream.headers, found).items()}
        if upstream.auth is not None:
            headers[b"authorization"] = b"Bearer " + found[upstream.auth.secret].encode()
        hidden = upstream.written_values | found
        scrubber = Scrubber(hidden.items()) if hidden else None
        return UpstreamAccess(upstream, headers, _filled(upstream.env, found), scrubber, self._most_bytes)


class LedgerShelf:
    """Lists of upstreams in the ledger, where the next start finds them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def kept(self, upstream: Upstream) -> bytes | None:
        """An upstream that has moved is another one."""
        found = next((each for each in await self._store.upstreams() if each.name == upstream.name), None)
        if found is None or found.address != upstream.address:
            return None
        try:
            return zlib.decompress(found.listing)
        except zlib.error:
            return None

    async def keep(self, upstream: Upstream, listing: bytes) -> None:
        with suppress(StoreDown):  # it is listed again with the next start
            await self._store.put_upstream(UpstreamRecord(upstream.name, upstream.address, zlib.compress(listing)))


class UpstreamKeys:
    """The key of a call at an upstream that knows keys: the same for the same call, and telling nothing of it."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def of(self, run: Run) -> str:
        caller = run.caller
        named = _encode([caller.tenant, caller.subject, run.family, run.call_id])
        return hmac.new(self._ring.subkey(PURPOSE), named, sha256).hexdigest()


def gateway(
    upstreams: tuple[Upstream, ...],
    tools: UpstreamTools,
    store: Store,
    ring: KeyRing,
    held: HeldSecrets,
    most_bytes: int,
    named: ResultNames,
) -> Upstreams:
    """All upstreams of a server, not connected to yet. `named` is told of the resources that results name."""
    secrets = UpstreamSecrets(held, most_bytes)
    return Upstreams(upstreams, secrets.reach, LedgerShelf(store), tools.serve, UpstreamKeys(ring).of, named)


async def idle_upstreams(upstreams: Iterable[Upstream], store: Store, held: HeldSecrets) -> dict[str, FollowedUpstream]:
    """By their names, what is known of upstreams where no server runs: they can be asked, and nothing of them is
    served."""
    shelf, secrets = LedgerShelf(store), UpstreamSecrets(held)
    made = {
        each.name: FollowedUpstream(each, secrets.reach, shelf, _served_nowhere, _told_nobody, _told_nobody)
        for each in upstreams
    }
    for each in made.values():
        await each.serve_kept()
    return made


async def _served_nowhere(upstream: Upstream, tools: Sequence[Tool]) -> Mapping[str, str]:
    return {}


def _told_nobody(what: object) -> None:
    """Nobody has asked to be told."""


def _filled(given: Mapping[str, Given], found: Mapping[str, str]) -> dict[str, str]:
    return {name: found[each.secret] if isinstance(each, SecretName) else each for name, each in given.items()}
