"""What a ledger keeps for those who decide who may do what: the audit log, API keys, and sealed things."""

from collections.abc import Mapping
from typing import Protocol

from ..model.api_key import ApiKey
from ..model.audit import Block, Chain, Mark
from ..model.vault import Sealed
from .hints import Hints


class AuditLog(Protocol):
    """Blocks of the audit log. They are added at a chain's end and dropped at its front; nothing changes one."""

    async def add_audit(self, block: Block, head: Mark) -> bool:
        """Adds a block and moves its chain's head there, in one write. Whether it is there now, which it also is when
        it was there before; False: the chain has another block of this number, and nothing was written."""
        ...

    async def audit_chains(self) -> list[Chain]:
        """All of which there is a block, a head or an anchor, by name."""
        ...

    async def audit_chain(self, name: str) -> Chain:
        """One of them; where there is no such chain, one without head and anchor."""
        ...

    async def audit_blocks(self, chain: str, after: int, limit: int, since: float | None = None) -> list[Block]:
        """Those after that number, in order, from the first that ends at `since` or later."""
        ...

    async def drop_audit(self, anchor: Mark) -> int:
        """Drops a chain's blocks up to the anchor's number, and keeps the anchor unless there is a later one, in one
        write. How many."""
        ...


class Keys(Protocol):
    """API keys, by their digests. None is ever removed."""

    hints: Hints

    async def put_key(self, key: ApiKey) -> bool:
        """Records a key, created now. Whether it did: another that is neither revoked nor expired may have its name,
        and then nothing is written."""
        ...

    async def keys(self) -> list[ApiKey]:
        """All that there ever were, also revoked and expired ones, in the order they were made."""
        ...

    async def revoke_key(self, name: str) -> bool:
        """Whether there was one of that name that was not revoked."""
        ...

    async def note_key_use(self, uses: Mapping[bytes, float]) -> None:
        """When keys were last used, by their digests; the latest stays, whoever says so first. Nothing is promised
        of it."""
        ...


class Vault(Protocol):
    """Sealed things, by (kind, tenant, owner, name). What is in them only the ring of keys can tell."""

    async def put_sealed(self, thing: Sealed, instead_of: int | None = None) -> bool:
        """In the place of the version that is named: 0 is none at all, None is whatever is there. It is kept as the
        next version. Whether it was put: another may have been faster."""
        ...

    async def sealed(self, kind: str, tenant: str, owner: str, name: str) -> Sealed | None: ...

    async def all_sealed(
        self, kind: str | None = None, tenant: str | None = None, owner: str | None = None
    ) -> list[Sealed]:
        """Those of a kind, a tenant and an owner, where one is named. In the order of their names."""
        ...

    async def drop_sealed(self, kind: str, tenant: str, owner: str, name: str) -> bool:
        """Whether it was there."""
        ...
