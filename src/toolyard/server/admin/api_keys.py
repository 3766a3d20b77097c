"""What whoever runs the server may do with API keys: make, list, revoke. Beside the other routes of `/v1/admin`, and
admitted like them."""

from collections.abc import Awaitable, Callable

from ...model.api_key import ApiKey
from ...model.errors import InvalidInput, PathNotFound, Problem, Refused
from ...store.contract import ApiKeyStore
from ...trust.credentials.api_keys import digest_of, make_api_key
from ...wires.admin import api_keys as wire
from ...wires.admin.api_keys import WantedKey
from ...wires.contract import Reply
from ...wires.lifecycle.calls import LIFECYCLE
from ..http.exchange import Exchange
from ..http.routes import Route

Changed = Callable[[], Awaitable[None]]


class ApiKeyAdmin:
    """API keys of a ledger. `changed` is awaited before a change is acknowledged: a server then knows of it."""

    def __init__(self, store: ApiKeyStore, now: Callable[[], float], changed: Changed) -> None:
        self._store, self.now, self._changed = store, now, changed

    async def listed(self) -> list[ApiKey]:
        return await self._store.listed()

    async def make(self, wanted: WantedKey) -> tuple[str, ApiKey]:
        """The key, which is said this once, and what is known of it."""
        if wanted.expires is not None and wanted.expires <= self.now():
            raise InvalidInput((Problem("expiresAt", "Must be in the future"),))
        key = make_api_key()
        made = ApiKey(
            wanted.name,
            digest_of(key.encode()),
            wanted.tenant,
            wanted.subject,
            wanted.allow,
            wanted.scopes,
            created=self.now(),
            expires=wanted.expires,
        )
        if not await self._store.put(made):
            raise Refused(f"There is a key named {wanted.name} already; revoke it, or choose another name", "conflict")
        await self._changed()
        return key, made

    async def revoke(self, name: str) -> ApiKey:
        if not await self._store.revoke(name):
            raise PathNotFound(f"There is no key named {name} that could be revoked")
        await self._changed()
        return next(key for key in reversed(await self._store.listed()) if key.name == name)


def routes(desk: ApiKeyAdmin) -> list[Route]:
    async def show_all(exchange: Exchange) -> Reply:
        return wire.encode_keys(await desk.listed(), desk.now())

    async def make(exchange: Exchange) -> Reply:
        key, made = await desk.make(wire.decode_wanted(exchange.body))
        return wire.encode_new_key(made, key, desk.now())

    async def revoke(exchange: Exchange) -> Reply:
        return wire.encode_key(await desk.revoke(exchange.parameters["name"]), desk.now())

    return [
        Route("GET", wire.PATH, show_all, LIFECYCLE, who="operator"),
        Route("POST", wire.PATH, make, LIFECYCLE, reads_json=True, who="operator", seen_as="admin"),
        Route("POST", wire.PATH + "/{name}/revoke", revoke, LIFECYCLE, who="operator", seen_as="admin"),
    ]
