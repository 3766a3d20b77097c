"""Secrets that tools need, for operators: set, list and remove them, and seal all of them anew.

No reply has a secret's value in it. The values are sealed in the ledger by the vault.
"""

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
from ..http.exchange import Exchange
from .operation import Operation, OperatorParts

Served = Callable[[], Iterable[Tool]]


class SecretAdmin:
    """The secrets of a ledger, and which tools need them. `served` gives the tools that a server has; None where no
    server runs, and nobody knows the tools."""

    def __init__(self, vault: Vault, now: Callable[[], float], served: Served | None = None) -> None:
        self._vault, self._secrets, self._served = vault, HeldSecrets(vault, now), served

    @property
    def keys(self) -> int:
        """How many keys the ring has: more than one while a key is being replaced."""
        return self._vault.keys

    async def listed(self) -> tuple[list[HeldSecret], list[SecretNeed]]:
        """The secrets that are set, and those that tools declare and nobody has set."""
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
        """The tools that are given this secret; None where no server runs, and nobody knows."""
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


async def list_secrets(parts: OperatorParts, exchange: Exchange) -> Reply:
    return wire.encode_secrets(*await _secrets(parts).listed())


async def set_secret(parts: OperatorParts, exchange: Exchange) -> Reply:
    which, secrets = wire.decode_which(exchange.parameters), _secrets(parts)
    secret = await secrets.put(which, wire.decode_given(exchange.body))
    return wire.encode_secret(secret, secrets.needed_by(secret))


async def remove_secret(parts: OperatorParts, exchange: Exchange) -> Reply:
    which = wire.decode_which(exchange.parameters)
    await _secrets(parts).remove(which)
    return wire.encode_removed(which)


async def rotate(parts: OperatorParts, exchange: Exchange) -> Reply:
    """Seals everything with the first key of the ring, so that the others can be taken out of it."""
    secrets = _secrets(parts)
    return wire.encode_resealed(await secrets.rotate(), secrets.keys)


def _secrets(parts: OperatorParts) -> SecretAdmin:
    served = None if parts.server is None else parts.server.catalogue.all
    return SecretAdmin(Vault(parts.store.sealed, parts.ring), parts.now, served)


OPERATIONS = (
    Operation("GET", wire.PATH, list_secrets),
    Operation("PUT", wire.ONE, set_secret, audit_as=AuditKind.ADMIN, reads_json=True),
    Operation("DELETE", wire.ONE, remove_secret, audit_as=AuditKind.ADMIN),
    Operation("PUT", wire.OF_USER, set_secret, audit_as=AuditKind.ADMIN, reads_json=True),
    Operation("DELETE", wire.OF_USER, remove_secret, audit_as=AuditKind.ADMIN),
    Operation("POST", wire.ROTATE, rotate, audit_as=AuditKind.ADMIN),
)
