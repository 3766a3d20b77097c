"""The ledger's schema, and the sentences for an address that does not lead to one."""

from typing import Any

from ...model.errors import SetupError
from ..sql_files import missing
from .connections import BREAKS, Connection, down, first_connection, hang_up, is_forbidden, place

MIGRATING = 0x746F6F6C79617264
"""The lock that one node holds while it migrates, and the others wait for."""
VERSION = "SELECT max(version) FROM ledger_schema"
NUMBERS_GO_ON = """
SELECT setval('calls_seq', newest)
FROM (SELECT greatest((SELECT max(seq) FROM calls), (SELECT max(seq) FROM questions), (SELECT max(seq) FROM answers),
    (SELECT max(seq) FROM call_events), (SELECT max(last) FROM blocks)) AS newest) AS there, calls_seq
WHERE newest >= last_value + is_called::integer
"""
"""Some ways to copy a database (logical replication, a dump of its data alone) leave its sequences behind."""


async def migrate(url: str) -> str:
    """Brings the schema up to date, and gives its name. Nodes that start together do it once. It takes as long as it
    takes, for who migrates a large ledger and for who waits for that."""
    connection = await first_connection(url, command_s=None)
    try:
        schema = await connection.fetchval("SELECT current_schema()")
        if schema is None:
            raise SetupError("the search_path of this user names no schema that is there", place(url))
        await _migrate(connection, url)
    except BREAKS as error:
        if is_forbidden(error):
            raise SetupError(f"the database does not let this user make the ledger: {error}", place(url)) from error
        raise down(error) from error
    finally:
        await hang_up(connection)
    return str(schema)


async def _migrate(connection: Connection, url: str) -> None:
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATING)
        for migration in missing("postgres", await _applied(connection), str(place(url))):
            await connection.execute(migration.sql)
            await connection.execute("INSERT INTO ledger_schema VALUES ($1)", migration.number)
        await connection.execute(NUMBERS_GO_ON)


async def _applied(connection: Connection) -> int:
    if await connection.fetchval("SELECT to_regclass('ledger_schema')") is None:
        await connection.execute("CREATE TABLE ledger_schema (version integer PRIMARY KEY)")
    applied: Any = await connection.fetchval(VERSION)
    return int(applied or 0)
