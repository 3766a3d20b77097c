"""What callers leave behind: counted by its rows, and added up in bytes."""

from ..values import Held
from .connections import Connection
from .rows import SQL, text

ADDING_UP = 0x73746F726564
"""The lock of whoever adds up."""
_HELD = {
    "mcp_sessions": "notes WHERE kind = 'mcp session' AND expires_at > ledger_now() AND",
    "sessions": "sessions WHERE",
    "waiting_calls": "waiting WHERE",
    "workers": "workers WHERE lease_until > ledger_now() AND name <> $4 AND",
}


async def count(connection: Connection, what: Held, tenant: str, subject: str | None, most: int, besides: str) -> int:
    whose = "tenant = $1 AND $2::text IS NULL" if subject is None else "tenant = $1 AND subject = $2"
    given = (tenant, None if subject is None else text(subject), most)
    others = (text(besides),) if what == "workers" else ()
    sql = f"SELECT count(*) FROM (SELECT 1 FROM {_HELD[what]} {whose} LIMIT $3) AS few"
    counted: int = await connection.fetchval(sql, *given, *others)
    return counted


async def add_up(connection: Connection) -> None:
    await connection.execute(SQL.add_up_stored, ADDING_UP)


async def full(
    connection: Connection, again: bool, per_caller: int, per_tenant: int
) -> tuple[set[tuple[str, str]], set[str]]:
    await add_up(connection)
    callers = {(tenant, subject) for tenant, subject in await connection.fetch(SQL.full_callers, per_caller)}
    return callers, {tenant for (tenant,) in await connection.fetch(SQL.full_tenants, per_tenant)}
