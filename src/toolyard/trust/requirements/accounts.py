"""Connections: users' accounts at providers, as far as tools may use them. Their tokens are in the vault.

A token that ends soon is refreshed by whoever needs it first. Providers take a refresh token once: so whoever refreshes
says so in the vault before, on condition that nobody else has, and all others, on whichever node, wait for what comes
of it. A claim whose holder died counts for no longer than the provider may take to answer.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...model.call import CallContext
from ...model.caller import Caller
from ...model.errors import Unavailable
from ...model.json_value import decode_as
from ...model.sealed import KIND, Account
from ...model.tool import Authorization, Tool
from ..credentials.jwks_cache import NoAnswer
from ..sealing.ring import BrokenSeal
from ..sealing.vault import Opened, Vault, VaultPath
from .challenges import user_of
from .provider import EXCHANGE_S, OAuthProvider, ProviderRefused, ProviderTokens

EARLY_S = 60.0
"""So long before its end a token is refreshed; a short-lived one, when a fifth of its life is left."""
CLAIM_S = 2 * EXCHANGE_S
LOOK_AGAIN_S = 0.05
TRY_AGAIN_S = 5.0
_log = logging.getLogger("toolyard.connections")

Did = Callable[[str, Caller], None]
"""Has what became of a connection in the audit log."""


class StoredTokens(Struct, frozen=True):
    """What is sealed."""

    access: str
    refresh: str | None
    scopes: tuple[str, ...]
    stale: float | None
    """When it is to be refreshed."""
    ends: float | None
    refreshing_until: float = 0.0
    """While somebody does."""


class Accounts:
    """A Keeper of users' tokens."""

    def __init__(
        self, vault: Vault, providers: Mapping[str, OAuthProvider], now: Callable[[], float], did: Did
    ) -> None:
        self._vault, self._providers, self._now, self._did = vault, providers, now, did
        self._refreshing: set[asyncio.Task[None]] = set()

    async def fill(self, tool: Tool, context: CallContext, caller: Caller) -> CallContext:
        """Raises Unavailable where a token has to be refreshed and the provider does not answer."""
        found = {}
        for wanted in tool.requirements.authorization:
            if wanted.id in self._providers and wanted.id not in context.tokens:
                token = await self.token(caller, wanted)
                if token is not None:
                    found[wanted.id] = token
        return replace(context, tokens={**context.tokens, **found}) if found else context

    async def token(self, caller: Caller, wanted: Authorization) -> str | None:
        """The user's, if it is good for all of these scopes; refreshed if need be."""
        place = _place(caller.tenant, user_of(caller), wanted.id)
        while (opened := await self._open(place)) is not None:
            held, now = _read(opened), self._now()
            if not set(wanted.scopes) <= set(held.scopes):
                return None
            if held.stale is None or now < held.stale:
                return held.access
            if held.refresh is None:
                return held.access if held.ends is None or now < held.ends else None
            if now < held.refreshing_until <= now + CLAIM_S:  # one further ahead was made before the clock was set
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            claim = replace(held, refreshing_until=now + CLAIM_S)
            if await self._put(place, claim, opened, opened.version):
                await self._in_any_case(self._refresh(place, held, _next(opened), caller))
        return None

    async def keep(
        self, caller: Caller, provider: str, tokens: ProviderTokens, scopes: tuple[str, ...], account: str
    ) -> None:
        """A new one, in the place of what was there."""
        about = {"scopes": list(scopes), "account": account, "since": self._now()}
        held = self._held(tokens, tokens.refresh, scopes)
        await self._vault.put(_place(caller.tenant, user_of(caller), provider), msgspec.json.encode(held), about)

    async def scopes(self, caller: Caller, provider: str) -> tuple[str, ...]:
        """Those that are held."""
        opened = await self._open(_place(caller.tenant, user_of(caller), provider))
        return () if opened is None else _read(opened).scopes

    async def listed(self, tenant: str | None = None, user: str | None = None) -> list[Account]:
        found = await self._vault.about(KIND, tenant, user)
        return [_shown(place, opened.about) for place, opened in found]

    async def disconnect(self, tenant: str, user: str, provider: str) -> tuple[Account, bool] | None:
        """What there was, and whether the provider took its tokens back. It is forgotten here in any case."""
        place = _place(tenant, user, provider)
        known = [shown for shown in await self.listed(tenant, user) if shown.provider == provider]
        opened = await self._open(place)
        if not known or not await self._vault.drop(place):
            return None
        self._did(f"disconnected {provider}", Caller(tenant, user))
        return known[0], opened is not None and await self._revoke(provider, _read(opened))

    # -- refreshing --------------------------------------------------------------------------------

    async def _in_any_case(self, refreshing: Coroutine[Any, Any, None]) -> None:
        """Also if who asked goes away: the provider may have given out a new token already."""
        task = asyncio.ensure_future(refreshing)
        self._refreshing.add(task)
        task.add_done_callback(self._refreshing.discard)
        await asyncio.shield(task)

    async def _refresh(self, place: VaultPath, held: StoredTokens, claimed: Opened, caller: Caller) -> None:
        """By who has the claim."""
        try:
            tokens = await self._providers[place.name].refresh(held.refresh or "")
        except (ProviderRefused, NoAnswer) as problem:
            if isinstance(problem, ProviderRefused) and problem.is_dead:
                await self._bury(place, claimed, caller)
                return
            await self._go_on_with(held, place, claimed, str(problem))
            return
        scopes = granted(self._providers[place.name], tokens, held.scopes)
        fresh = self._held(tokens, tokens.refresh or held.refresh, scopes)
        about = {**claimed.about, "scopes": list(scopes)}
        now: Opened | None = claimed
        while now is not None and not await self._vault.put(place, msgspec.json.encode(fresh), about, now.version):
            now = await self._open(place)  # sealed anew with another key meanwhile, or connected again, or disconnected
            if now is not None and _read(now).refresh != held.refresh:
                return

    async def _bury(self, place: VaultPath, claimed: Opened, caller: Caller) -> None:
        """A refresh token that is good for nothing: the user has to connect the account again."""
        now = await self._vault.get(place)
        if now is not None and now.version == claimed.version:
            await self._vault.drop(place)
            self._did(f"refused {place.name}: its refresh token is no longer good", caller)

    async def _go_on_with(self, held: StoredTokens, place: VaultPath, claimed: Opened, problem: str) -> None:
        """The provider gives no new token now: the one that there is serves until its end."""
        _log.warning("a token of %s could not be refreshed: %s", place.name, problem)
        is_good = held.ends is None or self._now() < held.ends
        later = replace(held, stale=self._now() + TRY_AGAIN_S) if is_good else held
        await self._put(place, later, claimed, claimed.version)
        if not is_good:
            raise Unavailable(
                f"The authorization at {place.name} cannot be renewed at the moment",
                retry_after_ms=int(TRY_AGAIN_S * 1000),
                developer_message=f"{place.name} did not give a new token: {problem}",
            )

    def _held(self, tokens: ProviderTokens, refresh: str | None, scopes: tuple[str, ...]) -> StoredTokens:
        if tokens.lifetime_s is None:
            return StoredTokens(tokens.access, refresh, scopes, None, None)
        ends = self._now() + tokens.lifetime_s
        return StoredTokens(tokens.access, refresh, scopes, ends - min(EARLY_S, tokens.lifetime_s / 5), ends)

    async def _revoke(self, id: str, held: StoredTokens) -> bool:
        provider = self._providers.get(id)
        if provider is None:
            return False
        token, kind = (held.refresh, "refresh_token") if held.refresh else (held.access, "access_token")
        try:
            return await provider.revoke(token, kind)
        except (NoAnswer, ProviderRefused) as problem:
            _log.warning("a token of %s could not be taken back: %s", id, problem)
            return False

    async def _open(self, place: VaultPath) -> Opened | None:
        try:
            return await self._vault.get(place)
        except BrokenSeal:
            _log.warning("a connection to %s was sealed with another key, and is of no use", place.name)
            return None

    async def _put(self, place: VaultPath, held: StoredTokens, before: Opened, instead_of: int) -> bool:
        return await self._vault.put(place, msgspec.json.encode(held), before.about, instead_of)


def granted(provider: OAuthProvider, tokens: ProviderTokens, asked: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes that a token is good for, by the names that tools know them by."""
    if tokens.scopes is None:
        return asked
    other = provider.provider.aliases
    return tuple(dict.fromkeys([*tokens.scopes, *(name for name in other if other[name] in tokens.scopes)]))


def _place(tenant: str, user: str, provider: str) -> VaultPath:
    return VaultPath(KIND, tenant, user, provider)


def _next(opened: Opened) -> Opened:
    """As it is after it was put once more."""
    return replace(opened, version=opened.version + 1)


def _read(opened: Opened) -> StoredTokens:
    return decode_as(opened.value, StoredTokens)


def _shown(place: VaultPath, about: Mapping[str, Any]) -> Account:
    known = {"scopes": (), "account": "", "since": 0.0, **about}
    return Account(place.tenant, place.owner, place.name, tuple(known["scopes"]), known["account"], known["since"])
