"""Connections to PostgreSQL: made when they are needed, thrown away when they break.

A write whose connection broke may have been committed or not. It is made again, and told so: every write of this ledger
knows its own traces. While the server cannot be reached nobody stands in line for it: who comes is told so at once, and
one after another tries again.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from ...model.errors import MalformedRequest, SetupError, SourcePlace, ToolyardError
from ..values import StoreDown

try:
    import asyncpg
except ModuleNotFoundError as error:
    raise SetupError("a ledger in PostgreSQL needs one more package: pip install 'asyncpg>=0.31,<1'") from error

T = TypeVar("T")

CONNECT_S, COMMAND_S = 5.0, 10.0
PATIENCE_S = 2.0
"""How long a write whose fate is not known is made again."""
PAUSES_S = (0.0, 0.02, 0.05, 0.1, 0.2)
LONGEST_REST_S = 0.5
"""How long nobody tries to connect, at most, after it failed."""

CLASHES = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.UniqueViolationError)
"""Two writes met; this one changed nothing. Made again it sees what the other wrote."""
NAMES = "calls_of_session"
"""The index of requests by their ids. Who chose one that is taken finds it taken the next time, too."""
REFUSALS = (asyncpg.DataError, asyncpg.ProgramLimitExceededError)
"""Something is wrong with what was to be written: a character that has no place in a text, an id too long to index."""
BREAKS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)

PLANS = """
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;
SET enable_material = off; SET enable_memoize = off;
SET plan_cache_mode = force_generic_plan; SET jit = off;
"""
"""Every statement here goes by an index, and is planned once for a while, not each time. A ledger that was empty then
may be large by now, so that it is planned again now and then."""
PLAN_AGAIN_S = 5.0
PROMISES = "SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '10s';"
"""A process that is stopped in the middle of a write does not hold up the others for long."""


class Connection(Protocol):
    """A connection to the database, as far as this store uses one of asyncpg's."""

    async def fetch(self, sql: str, *values: Any) -> list[Any]: ...

    async def fetchval(self, sql: str, *values: Any) -> Any: ...

    async def execute(self, sql: str, *values: Any) -> str: ...

    def transaction(self, *, isolation: str | None = None) -> AbstractAsyncContextManager[Any]: ...

    async def add_listener(self, channel: str, heard: Callable[..., None]) -> None: ...

    def add_termination_listener(self, ended: Callable[..., None]) -> None: ...

    def is_closed(self) -> bool: ...

    async def close(self, *, timeout: float) -> None: ...

    def terminate(self) -> None: ...


class NoConnection(Exception):
    """There is no connection to be had now, and nobody waits for one: the work was not begun."""


class Pool:
    """At most `size` connections. `settings` is SQL for each new one."""

    def __init__(self, url: str, size: int, settings: str = "") -> None:
        self._url, self._settings = url, settings
        self._places = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._planned_at: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        self._closed = False
        self._failures, self._rest_until, self._trying = 0, 0.0, False
        self._why = ""
        self.has_failed = False
        """Whether a write failed, until somebody has found out that one can be made again."""

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """On a connection that may turn out to be broken, and then on another."""
        try:
            try:
                return await self._once(work)
            except BREAKS as error:
                if not _is_broken(error):
                    raise
                return await self._once(work)
        except (NoConnection, *BREAKS) as error:
            raise down(error) from error

    async def write(self, work: Callable[[Connection, bool], Awaitable[T]]) -> T:
        """Until its fate is known. `work` is told whether it may have been done already."""
        try:
            return await self._write(work)
        except StoreDown:
            self.has_failed = True
            raise

    async def _write(self, work: Callable[[Connection, bool], Awaitable[T]]) -> T:
        until, again, tries = time.monotonic() + PATIENCE_S, False, 0
        while True:
            failure: Exception
            try:
                return await self._once(work, again)
            except NoConnection as error:
                if not again:
                    raise down(error) from error
                failure = error
            except CLASHES as error:  # this try was rolled back whole, so its fate is known
                if _is_taken(error):
                    raise down(error) from error
                failure = error
            except BREAKS as error:
                if not _is_broken(error):
                    raise down(error) from error
                failure, again = error, True  # it may have been committed: from now on the work looks for its traces
            if time.monotonic() > until:
                raise down(failure) from failure
            await asyncio.sleep(PAUSES_S[min(tries, len(PAUSES_S) - 1)])
            tries += 1

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            await hang_up(self._idle.pop())

    async def _once(self, work: Callable[..., Awaitable[T]], *given: bool) -> T:
        async with self._connection() as connection:
            if time.monotonic() > self._planned_at.get(connection, 0.0) + PLAN_AGAIN_S:
                await connection.execute("DISCARD PLANS")
                self._planned_at[connection] = time.monotonic()
            return await work(connection, *given)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        async with self._places:
            connection = await self._any()
            keep = False
            try:
                yield connection
                keep = True
            except (*CLASHES, *REFUSALS, ToolyardError):
                keep = True
                raise
            finally:
                if keep and not self._closed and not connection.is_closed():
                    self._idle.append(connection)
                else:
                    connection.terminate()

    async def _any(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        if self._closed:
            raise NoConnection("the ledger is closed")
        if self._failures and (self._trying or time.monotonic() < self._rest_until):
            raise NoConnection(self._why)
        self._trying = True
        try:
            connection = await connect(self._url, self._settings)
        except BREAKS as error:
            self._failures += 1
            self._rest_until = time.monotonic() + min(0.02 * 2**self._failures, LONGEST_REST_S)
            self._why = reason(error)
            raise NoConnection(self._why) from error
        finally:
            self._trying = False
        self._failures = 0
        return connection


async def connect(url: str, settings: str = "", command_s: float | None = COMMAND_S) -> Connection:
    """`command_s` is how long a command may take; None for as long as it takes. Raises what `BREAKS` names."""
    connection: Connection = await asyncpg.connect(url, timeout=CONNECT_S, command_timeout=command_s)
    try:
        await connection.execute(PLANS + PROMISES + settings)
    except BREAKS:
        connection.terminate()
        raise
    return connection


async def hang_up(connection: Connection) -> None:
    try:
        await connection.close(timeout=1.0)
    except BREAKS:
        connection.terminate()


async def first_connection(url: str, command_s: float | None = COMMAND_S) -> Connection:
    """When the server starts, what is wrong with the address is said as it is."""
    try:
        return await connect(url, command_s=command_s)
    except (asyncpg.ClientConfigurationError, ValueError) as error:
        raise SetupError("this is not an address of a PostgreSQL database", place(url)) from error
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise SetupError("the database does not accept this user or password", place(url)) from error
    except asyncpg.InvalidCatalogNameError as error:
        raise SetupError("there is no such database; create it first", place(url)) from error
    except BREAKS as error:
        raise down(error) from error


def place(url: str) -> SourcePlace:
    """The address without its password."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return SourcePlace("postgresql://…")
    return SourcePlace(f"{parts.scheme}://{host}{parts.path}")


def reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def down(error: Exception) -> ToolyardError:
    """What the rest of toolyard hears of it."""
    if isinstance(error, REFUSALS) or _is_taken(error):
        return MalformedRequest(
            "Something in this request cannot be recorded", developer_message=f"the ledger: {reason(error)}"
        )
    return store_down(reason(error))


def store_down(why: str) -> StoreDown:
    return StoreDown("The server cannot record calls now", retry_after_ms=1000, developer_message=f"the ledger: {why}")


def is_forbidden(error: Exception) -> bool:
    return isinstance(error, asyncpg.InsufficientPrivilegeError)


def _is_taken(error: Exception) -> bool:
    return isinstance(error, asyncpg.UniqueViolationError) and error.constraint_name == NAMES


def _is_broken(error: Exception) -> bool:
    """Whether the connection is gone, and with it what became of the work."""
    if not isinstance(error, asyncpg.PostgresError):
        return True
    return isinstance(
        error,
        asyncpg.PostgresConnectionError
        | asyncpg.OperatorInterventionError
        | asyncpg.ReadOnlySQLTransactionError
        | asyncpg.InvalidCachedStatementError,
    )
