"""What is asked of the ledger in so many ways that the statement is put together.

Calls that live are found by their own tables, which are small: for them the order is one that the index of all calls
does not have.
"""

from typing import Any

from ...model.lifecycle import ENDED, State
from ..values import ClaimFilter, Filter
from .rows import SQL, like, text

Query = tuple[str, list[Any]]
NOT_BY_CALLER = ("tenant || ''", "subject || ''")
"""So written, they are in no index: the calls of a caller are not gone through where there is a shorter way."""


class _Conditions:
    """The conditions of a statement that is put together, and the values for their places."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self.values: list[Any] = []

    def add(self, condition: str, *values: Any) -> None:
        """`?` in it are the values' places."""
        for value in values:
            self.values.append(value)
            condition = condition.replace("?", f"${len(self.values)}", 1)
        self._said.append(condition)

    def __str__(self) -> str:
        return " AND ".join(self._said) or "true"


def listed(wanted: Filter) -> Query:
    where = _Conditions()
    by_caller = wanted.subject is not None and wanted.call_id is None
    tenant, subject = ("tenant", "subject") if by_caller else NOT_BY_CALLER
    given = {
        tenant: wanted.tenant, subject: wanted.subject, "tool": wanted.tool, "wire": wanted.wire,
        "call_id": wanted.call_id, "waiting_for": wanted.waiting_for, "family": wanted.family,
    }  # fmt: skip
    for column, value in given.items():
        if value is not None:
            where.add(f"{column} = ?", text(value))
    if wanted.before is not None:
        where.add("seq < ?", wanted.before)
    order = _of_state(where, wanted.state, "seq DESC", "seq + 0 DESC")
    return f"{SQL.listed} WHERE {where} ORDER BY {order} LIMIT {wanted.limit:d}", where.values


def newest(tenant: str, subject: str, call_id: str, family: str | None) -> Query:
    where = _Conditions()
    for column, value in zip((*NOT_BY_CALLER, "call_id", "family"), (tenant, subject, call_id, family), strict=True):
        if value is not None:
            where.add(f"{column} = ?", text(value))
    return f"{SQL.listed} WHERE {where} ORDER BY seq DESC LIMIT 1", where.values


def requests(wanted: ClaimFilter) -> Query:
    who, where = wanted.who, _Conditions()
    tools = [like(tool) for tool in wanted.tools] or None
    where.add(
        "(queue = 'session' AND tenant = ? AND subject = ? AND (?::text[] IS NULL OR tool LIKE ANY (?::text[]))"
        " OR queue = 'worker' AND (offer = ANY (?::text[]) AND holder IS NULL"
        " OR reference = ANY (?::text[]) AND starts_with(holder, ?))"
        " AND (?::text[] IS NULL OR tenant = ANY (?::text[])))",
        who.tenant, text(who.subject), tools, tools, wanted.offers, wanted.references, text(who.holders),
        who.houses, who.houses,
    )  # fmt: skip
    if wanted.session is not None:
        where.add("session = ?", text(wanted.session))
    if wanted.state is State.PENDING:
        where.add("waiting_for IS NULL")
    order = _of_state(where, wanted.state, "seq", "created_at, seq")
    found = f"SELECT * FROM calls WHERE {where} ORDER BY {order} LIMIT {wanted.limit:d}"
    before = f"sum({SQL.size}) OVER (ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    sized = f"SELECT *, {before} AS before FROM ({found}) AS found"
    within = f"coalesce(before, 0) < {wanted.most_bytes:d}"
    return f"SELECT {SQL.call} FROM ({sized}) AS sized WHERE {within} ORDER BY {order}", where.values


def _of_state(where: _Conditions, state: State | None, order: str, order_of_the_living: str) -> str:
    if state is None:
        return order
    where.add("state = ?", state.value)
    if state in ENDED:
        return order
    where.add(f"seq = ANY (ARRAY (SELECT seq FROM {'waiting' if state is State.PENDING else 'running'}))")
    return order_of_the_living
