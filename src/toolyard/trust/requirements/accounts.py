"""Users' accounts at providers, as far as tools may use them: the tokens are in the vault, and are kept fresh here.

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
from .provider import EXCHANGE_S, OAuthProvider, ProviderRefused, ProviderTokens

EARLY_S = 60.0
"""So long before its end a token is refreshed; a short-lived one, when a fifth of its life is left."""
CLAIM_S = 2 * EXCHANGE_S
"""How long whoever refreshes a token has for it: the provider's metadata may have to be fetched first."""
LOOK_AGAIN_S = 0.05
TRY_AGAIN_S = 5.0
"""How long a provider that gave no new token is left alone."""
_log = logging.getLogger("toolyard.connections")

Did = Callable[[str, Caller], None]
"""Puts what became of an account, and whose it is, into the audit log."""


class StoredTokens(Struct, frozen=True):
    """The tokens of one account as the vault keeps them, sealed."""

    access: str
    refresh: str | None
    scopes: tuple[str, ...]
    stale: float | None
    """When the access token is to be refreshed. None: the provider does not say when it ends."""
    ends: float | None
    refreshing_until: float = 0.0
    """Until when somebody has claimed to refresh the tokens."""


class Accounts:
    """Keeps users' tokens and gives them to the tools that need them: a `Keeper`."""

    def __init__(
        self, vault: Vault, providers: Mapping[str, OAuthProvider], now: Callable[[], float], did: Did
    ) -> None:
        self._vault, self._providers, self._now, self._did = vault, providers, now, did
        self._refreshing: set[asyncio.Task[None]] = set()

    async def fill(self, tool: Tool, context: CallContext, caller: Caller) -> CallContext:
        """As `Keeper` says it. Raises Unavailable where a token has to be refreshed and the provider does not
        answer."""
        found = {}
        for wanted in tool.requirements.authorization:
            # A token that the call brought counts for more than the one that is kept.
            if wanted.id in self._providers and wanted.id not in context.tokens:
                token = await self.token(caller, wanted)
                if token is not None:
                    found[wanted.id] = token
        return replace(context, tokens={**context.tokens, **found}) if found else context

    async def token(self, caller: Caller, wanted: Authorization) -> str | None:
        """The user's token, if it is good for all of these scopes; refreshed if need be."""
        path = _path(caller.tenant, caller.user, wanted.id)
        while (opened := await self._open(path)) is not None:
            held, now = _read(opened), self._now()
            # The user has to allow more first: a challenge asks for what there was and what is new.
            if not set(wanted.scopes) <= set(held.scopes):
                return None
            if held.stale is None or now < held.stale:
                return held.access
            if held.refresh is None:
                return held.access if held.ends is None or now < held.ends else None
            # Somebody else refreshes it now. A claim that lies further ahead was made before the clock was set back.
            if now < held.refreshing_until <= now + CLAIM_S:
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            claim = replace(held, refreshing_until=now + CLAIM_S)
            # Whoever's claim is put first refreshes; all others find it there when they look again.
            if await self._put(path, claim, opened, opened.version):
                await self._in_any_case(self._refresh(path, held, _next(opened), caller))
        return None

    async def keep(
        self, caller: Caller, provider: str, tokens: ProviderTokens, scopes: tuple[str, ...], account: str
    ) -> None:
        """Keeps the tokens of an account that was just connected, in place of what was there."""
        about = {"scopes": list(scopes), "account": account, "since": self._now()}
        held = self._stored(tokens, tokens.refresh, scopes)
        await self._vault.put(_path(caller.tenant, caller.user, provider), msgspec.json.encode(held), about)

    async def scopes(self, caller: Caller, provider: str) -> tuple[str, ...]:
        """The scopes that the user has allowed so far; none where there is no account."""
        opened = await self._open(_path(caller.tenant, caller.user, provider))
        return () if opened is None else _read(opened).scopes

    async def listed(self, tenant: str | None = None, user: str | None = None) -> list[Account]:
        """The accounts that are connected, without opening any."""
        found = await self._vault.about(KIND, tenant, user)
        return [_shown(path, opened.about) for path, opened in found]

    async def disconnect(self, tenant: str, user: str, provider: str) -> tuple[Account, bool] | None:
        """Forgets an account: what there was, and whether the provider took its tokens back. None where there was none.
        It is forgotten here in any case, and first, so that no call can use it while the provider is slow."""
        path = _path(tenant, user, provider)
        known = [shown for shown in await self.listed(tenant, user) if shown.provider == provider]
        opened = await self._open(path)
        if not known or not await self._vault.drop(path):
            return None
        self._did(f"disconnected {provider}", Caller(tenant, user))
        return known[0], opened is not None and await self._revoke(provider, _read(opened))

    # -- refreshing --------------------------------------------------------------------------------

    async def _in_any_case(self, refreshing: Coroutine[Any, Any, None]) -> None:
        """Refreshes to the end, also if the call that needed it is gone: the provider may have taken the old refresh
        token already, and the new one must not be lost."""
        task = asyncio.ensure_future(refreshing)
        self._refreshing.add(task)
        task.add_done_callback(self._refreshing.discard)
        await asyncio.shield(task)

    async def _refresh(self, path: VaultPath, held: StoredTokens, claimed: Opened, caller: Caller) -> None:
        """Fetches new tokens and puts them into the vault, for whoever has the claim: `claimed` is what is there."""
        try:
            tokens = await self._providers[path.name].refresh(held.refresh or "")
        except (ProviderRefused, NoAnswer) as problem:
            if isinstance(problem, ProviderRefused) and problem.is_dead:
                await self._bury(path, claimed, caller)
                return
            await self._go_on_with(held, path, claimed, str(problem))
            return
        scopes = granted(self._providers[path.name], tokens, held.scopes)
        fresh = self._stored(tokens, tokens.refresh or held.refresh, scopes)
        about = {**claimed.about, "scopes": list(scopes)}
        now: Opened | None = claimed
        while now is not None and not await self._vault.put(path, msgspec.json.encode(fresh), about, now.version):
            # Sealed anew with another key meanwhile: once more. Connected again, or disconnected: these are not needed.
            now = await self._open(path)
            if now is not None and _read(now).refresh != held.refresh:
                return
        if now is None:  # whoever disconnected it could have only the old ones taken back
            await self._revoke(path.name, fresh)

    async def _bury(self, path: VaultPath, claimed: Opened, caller: Caller) -> None:
        """Forgets an account whose refresh token is good for nothing: the user has to connect it again."""
        now = await self._vault.get(path)
        if now is not None and now.version == claimed.version:
            await self._vault.drop(path)
            self._did(f"refused {path.name}: its refresh token is no longer good", caller)

    async def _go_on_with(self, held: StoredTokens, path: VaultPath, claimed: Opened, problem: str) -> None:
        """Gives the claim up, since the provider gives no new token now: the one that there is serves until its end."""
        _log.warning("a token of %s could not be refreshed: %s", path.name, problem)
        is_good = held.ends is None or self._now() < held.ends
        later = replace(held, stale=self._now() + TRY_AGAIN_S) if is_good else held
        await self._put(path, later, claimed, claimed.version)
        if not is_good:
            raise Unavailable(
                f"The authorization at {path.name} cannot be renewed at the moment",
                retry_after_ms=int(TRY_AGAIN_S * 1000),
                developer_message=f"{path.name} did not give a new token: {problem}",
            )

    def _stored(self, tokens: ProviderTokens, refresh: str | None, scopes: tuple[str, ...]) -> StoredTokens:
        if tokens.lifetime_s is None:
            return StoredTokens(tokens.access, refresh, scopes, None, None)
        ends = self._now() + tokens.lifetime_s
        return StoredTokens(tokens.access, refresh, scopes, ends - min(EARLY_S, tokens.lifetime_s / 5), ends)

    async def _revoke(self, id: str, held: StoredTokens) -> bool:
        """Whether the provider took the tokens back. The refresh token goes first where there is one: with it,
        providers revoke the access tokens that came of it (RFC 7009, section 2.1)."""
        provider = self._providers.get(id)
        if provider is None:
            return False
        token, kind = (held.refresh, "refresh_token") if held.refresh else (held.access, "access_token")
        try:
            return await provider.revoke(token, kind)
        except (NoAnswer, ProviderRefused) as problem:
            _log.warning("a token of %s could not be taken back: %s", id, problem)
            return False

    async def _open(self, path: VaultPath) -> Opened | None:
        try:
            return await self._vault.get(path)
        except BrokenSeal:
            _log.warning("a connection to %s was sealed with another key, and is of no use", path.name)
            return None

    async def _put(self, path: VaultPath, held: StoredTokens, before: Opened, instead_of: int) -> bool:
        return await self._vault.put(path, msgspec.json.encode(held), before.about, instead_of)


def granted(provider: OAuthProvider, tokens: ProviderTokens, asked: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes that a token is good for, by the names that tools know them by."""
    if tokens.scopes is None:
        return asked  # RFC 6749, section 5.1: a provider may leave them out where they are those that were asked for
    other = provider.provider.aliases
    return tuple(dict.fromkeys([*tokens.scopes, *(name for name in other if other[name] in tokens.scopes)]))


def _path(tenant: str, user: str, provider: str) -> VaultPath:
    return VaultPath(KIND, tenant, user, provider)


def _next(opened: Opened) -> Opened:
    """What the vault has after a claim was put, which made it the next version."""
    return replace(opened, version=opened.version + 1)


def _read(opened: Opened) -> StoredTokens:
    return decode_as(opened.value, StoredTokens)


def _shown(path: VaultPath, about: Mapping[str, Any]) -> Account:
    known = {"scopes": (), "account": "", "since": 0.0, **about}
    return Account(path.tenant, path.owner, path.name, tuple(known["scopes"]), known["account"], known["since"])
