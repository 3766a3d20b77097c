"""What whoever runs the server may do with secrets: set, list, remove, and seal anew. Beside the other routes of
`/v1/admin`, and admitted like them. None of them tells a value."""

from collections.abc import Callable, Iterable

from ...model.errors import PathNotFound
from ...model.sealed import HeldSecret, Resealed, SecretNeed, WhichSecret
from ...model.tool import Tool
from ...trust.audit.entry import AuditKind
from ...trust.requirements.secrets import HeldSecrets, is_for
from ...trust.sealing.vault import Vault
from ...wires.admin import secrets as wire
from ...wires.admin.secrets import GivenSecret
from ...wires.contract import Reply
from ...wires.lifecycle.calls import LIFECYCLE
from ..http.exchange import Exchange
from ..http.routes import Route

Served = Callable[[], Iterable[Tool]]


class SecretAdmin:
    """`served` gives the tools that are served; None where nobody serves any."""

    def __init__(self, vault: Vault, now: Callable[[], float], served: Served | None = None) -> None:
        self._vault, self._secrets, self._served = vault, HeldSecrets(vault, now), served

    @property
    def keys(self) -> int:
        """How many there are in the ring."""
        return self._vault.keys

    async def listed(self) -> tuple[list[HeldSecret], list[SecretNeed]]:
        """Those that are set, and those that tools declare and that are not."""
        held = await self._secrets.listed()
        missing: dict[str, set[str]] = {}
        for tool in self._served() if self._served is not None else ():
            for name in tool.requirements.secrets:
                if not any(each.which.name == name and is_for(tool, each.tools) for each in held):
                    missing.setdefault(name, set()).add(tool.id)
        return held, [SecretNeed(name, tuple(sorted(tools))) for name, tools in sorted(missing.items())]

    async def put(self, which: WhichSecret, given: GivenSecret) -> HeldSecret:
        return await self._secrets.put(which, given.value, given.tools)

    def needed_by(self, secret: HeldSecret) -> list[str] | None:
        """The tools that will be given it; None where that is not known."""
        if self._served is None:
            return None
        tools = [tool for tool in self._served() if secret.which.name in tool.requirements.secrets]
        return sorted({tool.id for tool in tools if is_for(tool, secret.tools)})

    async def remove(self, which: WhichSecret) -> None:
        if not await self._secrets.remove(which):
            whose = f"tenant {which.tenant}" + (f" and user {which.user}" if which.user else "")
            raise PathNotFound(f"There is no secret {which.name} for {whose}; 'toolyard secrets list' shows all")

    async def rotate(self) -> Resealed:
        return await self._vault.reseal()


def routes(desk: SecretAdmin) -> list[Route]:
    async def show_all(exchange: Exchange) -> Reply:
        return wire.encode_secrets(*await desk.listed())

    async def put(exchange: Exchange) -> Reply:
        which = wire.decode_which(exchange.parameters)
        secret = await desk.put(which, wire.decode_given(exchange.body))
        return wire.encode_secret(secret, desk.needed_by(secret))

    async def remove(exchange: Exchange) -> Reply:
        which = wire.decode_which(exchange.parameters)
        await desk.remove(which)
        return wire.encode_removed(which)

    async def rotate(exchange: Exchange) -> Reply:
        return wire.encode_resealed(await desk.rotate(), desk.keys)

    changes = [
        Route(method, path, handler, LIFECYCLE, reads_json=method == "PUT", who="operator", audit_as=AuditKind.ADMIN)
        for path in (wire.ONE, wire.OF_USER)
        for method, handler in (("PUT", put), ("DELETE", remove))
    ]
    return [
        Route("GET", wire.PATH, show_all, LIFECYCLE, who="operator"),
        *changes,
        Route("POST", wire.ROTATE, rotate, LIFECYCLE, who="operator", audit_as=AuditKind.ADMIN),
    ]
