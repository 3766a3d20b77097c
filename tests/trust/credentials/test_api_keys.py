"""Keys at hand: the ledger's and the settings', as they are now, and when they were last used."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from toolyard.model.api_key import ApiKey
from toolyard.model.caller import LOCAL, Caller
from toolyard.model.errors import NotAuthenticated
from toolyard.store.sqlite.store import SqliteStore
from toolyard.store.sqlite.trust import SqliteApiKeys
from toolyard.store.values import StoreDown
from toolyard.trust.access.access import Access
from toolyard.trust.access.identity import Identity
from toolyard.trust.credentials import api_keys
from toolyard.trust.credentials.api_keys import ApiKeys, digest_of, make_api_key
from toolyard.trust.credentials.authentication import Credentials

DEADLINE_S = 10.0
KEY = "ty_0123456789abcdef"
GIVEN = {digest_of(KEY.encode()): Identity("default", "laptop", "key", key="laptop")}
ONE, TWO = digest_of(b"ty_one"), digest_of(b"ty_two")


class Ledger(SqliteStore):
    """In memory, on a clock that the test owns. It counts, and may be down."""

    def __init__(self) -> None:
        self.now, self.reads, self.is_down = 1000.0, 0, False
        self.noted: list[Mapping[bytes, float]] = []
        super().__init__(":memory:", "a", now=lambda: self.now)
        self.api_keys = Counting(self)

    def book(self, given: Mapping[bytes, Identity] | None = None) -> ApiKeys:
        return ApiKeys(self.api_keys, given or {}, lambda: self.now)

    async def read_twice(self) -> None:
        """Whoever follows has seen everything up to now."""
        seen = self.reads
        await until(lambda: self.reads >= seen + 2)


class Counting(SqliteApiKeys):
    """The ledger's keys."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger._writer, ledger.hints, lambda: ledger.now)
        self._ledger = ledger

    async def listed(self) -> list[ApiKey]:
        self._ledger.reads += 1
        self._refuse()
        return await super().listed()

    async def note_use(self, uses: Mapping[bytes, float]) -> None:
        self._refuse()
        self._ledger.noted.append(dict(uses))
        await super().note_use(uses)

    def _refuse(self) -> None:
        if self._ledger.is_down:
            raise StoreDown("down", retry_after_ms=1)


def with_ledger(scenario: Callable[[Ledger], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        ledger = Ledger()
        await ledger.open()
        try:
            await scenario(ledger)
        finally:
            await ledger.close()

    asyncio.run(run())


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def following(book: ApiKeys) -> Any:
    task = asyncio.create_task(book.follow())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def key(name: str = "agent", digest: bytes = ONE, **more: Any) -> ApiKey:
    return ApiKey(name, digest, "default", name, **more)


# --- whose key it is ------------------------------------------------------------------------------


def test_a_key_of_the_ledger_is_for_what_it_says() -> None:
    async def scenario(ledger: Ledger) -> None:
        await ledger.api_keys.put(ApiKey("ci", ONE, "acme", "robot", ("Kit.*",), ("a", "b"), expires=2000.0))
        book = ledger.book(GIVEN)
        await book.sync()
        assert book.find(ONE) == Identity(
            "acme", "robot", "key", frozenset({"a", "b"}), key="ci", allow=("Kit.*",), expires=2000.0, digest=ONE
        )
        assert book.find(TWO) is None

    with_ledger(scenario)


def test_a_key_without_scopes_has_none_and_one_of_the_settings_is_not_limited() -> None:
    async def scenario(ledger: Ledger) -> None:
        await ledger.api_keys.put(key())
        book = ledger.book(GIVEN)
        await book.sync()
        mine, given = book.find(ONE), book.find(digest_of(KEY.encode()))
        assert mine == Identity("default", "agent", "key", frozenset(), key="agent", digest=ONE)
        assert given == Identity("default", "laptop", "key", None, key="laptop")

    with_ledger(scenario)


def test_a_key_expires_by_the_clock_alone() -> None:
    async def scenario(ledger: Ledger) -> None:
        await ledger.api_keys.put(key(expires=1010.0))
        book = ledger.book()
        await book.sync()
        ledger.now = 1009.9
        assert book.find(ONE) is not None
        ledger.now = 1010.0
        assert book.find(ONE) is None

    with_ledger(scenario)


def test_once_there_was_a_key_there_always_was_one() -> None:
    async def scenario(ledger: Ledger) -> None:
        book = ledger.book()
        assert book.has_any, "nobody knows yet"
        await book.sync()
        assert not book.has_any
        await ledger.api_keys.put(key())
        await book.sync()
        assert book.has_any
        await ledger.api_keys.revoke("agent")
        await book.sync()
        assert book.has_any
        assert book.find(ONE) is None

    with_ledger(scenario)


def test_keys_of_the_settings_are_keys() -> None:
    async def scenario(ledger: Ledger) -> None:
        book = ledger.book(GIVEN)
        await book.sync()
        assert book.has_any

    with_ledger(scenario)


# --- as it is now ---------------------------------------------------------------------------------


def test_a_hint_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_keys, "LOOK_AGAIN_S", 1e6)

    async def scenario(ledger: Ledger) -> None:
        book = ledger.book()
        await book.sync()
        async with following(book):
            await asyncio.sleep(0)
            await ledger.api_keys.put(key())
            await until(lambda: book.find(ONE))
            await ledger.api_keys.revoke("agent")
            await until(lambda: book.find(ONE) is None)

    with_ledger(scenario)


def test_without_hints_it_looks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert api_keys.LOOK_AGAIN_S < 2
    monkeypatch.setattr(api_keys, "LOOK_AGAIN_S", 0.01)

    async def scenario(ledger: Ledger) -> None:
        monkeypatch.setattr(ledger.hints, "tell", lambda *_: None)
        book = ledger.book()
        await book.sync()
        async with following(book):
            await ledger.api_keys.put(key())
            await until(lambda: book.find(ONE))
            await ledger.api_keys.revoke("agent")
            await until(lambda: book.find(ONE) is None)

    with_ledger(scenario)


def test_while_the_ledger_is_down_what_was_read_before_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_keys, "LOOK_AGAIN_S", 0.001)

    async def scenario(ledger: Ledger) -> None:
        await ledger.api_keys.put(key())
        book = ledger.book()
        await book.sync()
        async with following(book):
            ledger.is_down = True
            await ledger.read_twice()
            assert book.find(ONE) is not None
            assert book.find(TWO) is None
            await ledger.api_keys.revoke("agent")
            ledger.is_down = False
            await until(lambda: book.find(ONE) is None)
        ledger.is_down = True
        await book.close()

    with_ledger(scenario)


# --- when it was used -----------------------------------------------------------------------------


def test_a_use_is_written_behind_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_keys, "LOOK_AGAIN_S", 0.001)

    async def scenario(ledger: Ledger) -> None:
        await ledger.api_keys.put(key())
        await ledger.api_keys.put(key("other", TWO))
        book = ledger.book(GIVEN)
        await book.sync()
        async with following(book):
            for digest in (ONE, digest_of(KEY.encode()), b"unknown"):
                book.find(digest)
            await until(lambda: ledger.noted)
            ledger.now = 1059.0
            book.find(ONE)
            await ledger.read_twice()
            assert ledger.noted == [{ONE: 1000.0}]
            ledger.now = 1060.0
            book.find(ONE)
            book.find(TWO)
            await until(lambda: len(ledger.noted) == 2)
            await ledger.read_twice()
            assert ledger.noted == [{ONE: 1000.0}, {ONE: 1060.0, TWO: 1060.0}]

    with_ledger(scenario)


def test_another_nodes_word_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(ledger: Ledger) -> None:
        await ledger.api_keys.put(key())
        book, other = ledger.book(), ledger.book()
        await book.sync()
        book.find(ONE)
        await book.close()
        await other.sync()
        ledger.now = 1030.0
        other.find(ONE)
        monkeypatch.setattr(api_keys, "LOOK_AGAIN_S", 0.001)
        async with following(other):
            await ledger.read_twice()
        assert ledger.noted == [{ONE: 1000.0}]

    with_ledger(scenario)


def test_what_is_left_is_written_at_the_end() -> None:
    async def scenario(ledger: Ledger) -> None:
        await ledger.api_keys.put(key())
        book = ledger.book()
        await book.sync()
        book.find(ONE)
        await book.close()
        ledger.now = 1001.0
        book.find(ONE)
        await book.close()
        await book.close()
        assert ledger.noted == [{ONE: 1000.0}, {ONE: 1001.0}]
        assert [each.last_used for each in await ledger.api_keys.listed()] == [1001.0]

    with_ledger(scenario)


# --- at the door ----------------------------------------------------------------------------------


def at_once(book: ApiKeys, ledger: Ledger) -> Callable[[Mapping[bytes, bytes]], Caller]:
    """Nothing has to be fetched for a key."""
    credentials = Credentials(book, None, Access(), lambda: ledger.now)

    def admit(headers: Mapping[bytes, bytes]) -> Caller:
        caller = credentials(headers)
        assert isinstance(caller, Caller)
        return caller

    return admit


def test_who_comes_without_a_key_is_local_until_there_is_one() -> None:
    async def scenario(ledger: Ledger) -> None:
        book = ledger.book()
        admit = at_once(book, ledger)
        with pytest.raises(NotAuthenticated):
            admit({})
        await book.sync()
        assert admit({}).names == LOCAL.names
        await ledger.api_keys.put(key(digest=digest_of(KEY.encode())))
        await book.sync()
        with pytest.raises(NotAuthenticated, match="Credentials are needed"):
            admit({})
        assert admit({b"oxp-api-key": KEY.encode()}).owns("default", "agent")

    with_ledger(scenario)


def test_what_is_not_valid_is_refused_in_the_same_words() -> None:
    names = ["revoked", "expired", "live"]
    keys = {name: make_api_key().encode() for name in names}

    async def scenario(ledger: Ledger) -> None:
        for name in names:
            await ledger.api_keys.put(key(name, digest_of(keys[name]), expires=1001.0 if name == "expired" else None))
        await ledger.api_keys.revoke("revoked")
        ledger.now = 1002.0
        book = ledger.book()
        await book.sync()
        admit = at_once(book, ledger)
        assert admit({b"authorization": b"Bearer " + keys["live"]}).subject == "live"
        said = set()
        for wrong in (keys["revoked"], keys["expired"], make_api_key().encode(), b"ty_", b"nonsense", b"\xff"):
            for headers in ({b"oxp-api-key": wrong}, {b"authorization": b"Bearer " + wrong}):
                with pytest.raises(NotAuthenticated) as refused:
                    admit(headers)
                said.add((refused.value.message, refused.value.developer_message))
        assert len(said) == 1

    with_ledger(scenario)


def test_a_new_key_cannot_be_guessed() -> None:
    made = {make_api_key() for _ in range(200)}
    assert len(made) == 200
    assert all(re.fullmatch(r"ty_[0-9A-Za-z]{32,}", each) for each in made)
    assert len({each[3:5] for each in made}) > 100
