"""Users whose calls were erased a while ago, for nodes that had calls of theirs still to write.

A node writes its calls behind. What it has not written when another node erases a user is not there to be erased, so
whoever erases first leaves a note, and every node looks for notes after each write of its own: either the one that
erases has found what was written, or the one that wrote finds the note. A note that a node has seen before says nothing
about what ended since: clocks may be set. A note has a digest of the user's id and not
the id itself, which is to leave no trace.
"""

from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct

from ...model.record import Ran
from ..blocks import IsGone
from .connections import Connection
from .rows import SQL

KIND = "erased"
KEPT_S = 3600.0
"""How long a node may be held up between a call's end and its write."""
ANY, ONE = "any tenant", "one tenant"


class PastErasure(Struct, frozen=True):
    """That the calls of a user were erased, of one tenant or (None) of all."""

    tenant: str | None
    digest: str
    at: float
    """By the ledger's clock."""

    def is_about(self, tenant: str, user: str, at: float) -> bool:
        """Whether a call that had ended by then should be gone."""
        return at <= self.at and self.tenant in (None, tenant) and digest_of(user) == self.digest


def is_erased(erasures: Sequence[PastErasure], tenant: str, user: str, at: float) -> bool:
    """Whether a call of that tenant and user that had ended by then should be gone."""
    return any(erasure.is_about(tenant, user, at) for erasure in erasures)


def digest_of(user_id: str) -> str:
    return sha256(user_id.encode(errors="surrogatepass")).hexdigest()


async def remember(connection: Connection, again: bool, node: str, tenant: str | None, user_id: str) -> None:
    """To be committed before anything is looked for that is to be erased. The node that erases writes what it has of
    its own before it looks, so the note is for the others."""
    place = (KIND, tenant or "", ANY if tenant is None else ONE, digest_of(user_id))
    await connection.execute(SQL.put_note, *place, node.encode(), KEPT_S, None, None)


class WrittenBehind(Struct):
    """Calls of this node that were just written: of which blocks, by their last numbers, and as which rows."""

    since: float
    """When the first of them ended, by the node's clock. A row's own end is not known, so that of a user who was erased
    since then it is taken for one from before."""
    ends: list[int] = []
    rows: list[tuple[int, Ran]] = []

    def gone_rows(self, is_gone: IsGone, offset: float) -> list[int]:
        """The numbers of those that should be gone. `offset` is what the ledger's clock is ahead by."""
        at = self.since + offset
        return [seq for seq, (_, run, _) in self.rows if is_gone(run.caller.tenant, run.caller.user, at)]


async def remembered(connection: Connection, node: str) -> tuple[Sequence[PastErasure], float]:
    """What other nodes have erased of late, and what time it is."""
    rows = await connection.fetch(SQL.erasures, KIND, KEPT_S, node.encode())
    found = [PastErasure(None if which == ANY else tenant, digest, at) for tenant, which, digest, at, _ in rows]
    return found, rows[0][4] if rows else 0.0
