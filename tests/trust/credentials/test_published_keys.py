"""When an issuer is asked for its keys, how often, and what holds while it does not answer. The clock is the test's."""

import asyncio
from collections.abc import Sequence

import pytest

from toolyard.model.errors import NotAuthenticated, Unavailable
from toolyard.trust.credentials.jwk import PublicKey, read_keys
from toolyard.trust.credentials.jwks_cache import NoAnswer, PublishedKeys
from toolyard.trust.credentials.jwt import ParsedToken

from .forging import NOW, jwk, key

MINUTE = 60.0


class Scene:
    """An issuer whose answer a test chooses."""

    def __init__(self) -> None:
        self.now, self.asked = NOW, 0
        self.kids: Sequence[str] | None = ("a",)
        """None: no answer."""
        self.gate = asyncio.Event()
        self.gate.set()
        self.keys = PublishedKeys("https://id.example", self.answer, lambda: self.now)

    async def answer(self) -> Sequence[PublicKey]:
        self.asked += 1
        await self.gate.wait()
        if self.kids is None:
            raise NoAnswer("it is closed")
        return read_keys({"keys": [jwk(kid, key("p256")) for kid in self.kids]})

    async def find(self, kid: str) -> str | None:
        """As an issuer does it."""
        while (found := self.keys.find(token(kid))) is None:
            await self.keys.refresh()
        return found.kid


def token(kid: str) -> ParsedToken:
    return ParsedToken("ES256", kid, None, {}, b"", b"")


def test_keys_are_asked_for_once_and_then_at_hand() -> None:
    async def scene() -> None:
        stage = Scene()
        assert stage.keys.find(token("a")) is None
        assert await stage.find("a") == "a"
        assert stage.keys.find(token("a")) is not None
        assert stage.asked == 1

    asyncio.run(scene())


def test_those_who_come_at_the_same_time_share_one_question() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.gate.clear()
        waiting = [asyncio.ensure_future(stage.find("a")) for _ in range(50)]
        await asyncio.sleep(0)
        stage.gate.set()
        assert await asyncio.gather(*waiting) == ["a"] * 50
        assert stage.asked == 1

    asyncio.run(scene())


def test_one_who_gives_up_waiting_does_not_take_the_answer_from_the_others() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.gate.clear()
        first, second = (asyncio.ensure_future(stage.find("a")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        stage.gate.set()
        assert await second == "a"
        assert stage.asked == 1

    asyncio.run(scene())


def test_keys_in_use_are_asked_for_again_after_ten_minutes() -> None:
    async def scene() -> None:
        stage = Scene()
        await stage.find("a")
        stage.now += 10 * MINUTE - 1
        assert stage.keys.find(token("a")) is not None
        stage.now += 1
        assert stage.keys.find(token("a")) is None
        stage.kids = ("b",)
        with pytest.raises(NotAuthenticated, match="not valid"):
            await stage.find("a")
        assert await stage.find("b") == "b"
        assert stage.asked == 2

    asyncio.run(scene())


def test_while_they_are_asked_for_again_the_known_ones_serve_at_once() -> None:
    async def scene() -> None:
        stage = Scene()
        await stage.find("a")
        stage.now += 10 * MINUTE
        stage.gate.clear()
        first = asyncio.ensure_future(stage.find("a"))
        await asyncio.sleep(0)
        assert stage.keys.find(token("a")) is not None
        stage.gate.set()
        assert await first == "a"

    asyncio.run(scene())


def test_a_key_that_is_not_known_is_asked_for_at_most_once_in_ten_seconds() -> None:
    async def scene() -> None:
        stage = Scene()
        await stage.find("a")
        stage.now += 11
        for number in range(1000):
            with pytest.raises(NotAuthenticated) as refusal:
                await stage.find(f"made-up-{number}")
            assert f"has no key 'made-up-{number}'" in str(refusal.value.developer_message)
        stage.kids = ("a", "b")
        stage.now += 9
        with pytest.raises(NotAuthenticated):
            await stage.find("b")
        assert stage.asked == 2
        stage.now += 1
        assert await stage.find("b") == "b"
        assert stage.asked == 3

    asyncio.run(scene())


def test_without_an_answer_the_known_keys_serve_for_an_hour() -> None:
    async def scene() -> None:
        stage = Scene()
        await stage.find("a")
        stage.kids = None
        for _ in range(5):
            stage.now += 10 * MINUTE
            assert await stage.find("a") == "a"
        stage.now += 10 * MINUTE - 1
        assert await stage.find("a") == "a"
        stage.now += 1
        with pytest.raises(Unavailable) as refusal:
            await stage.find("a")
        assert "cannot be had: it is closed" in str(refusal.value.developer_message)
        stage.now += 10
        stage.kids = ("a",)
        assert await stage.find("a") == "a"

    asyncio.run(scene())


def test_during_an_outage_one_asks_in_ten_seconds_and_nobody_else_waits() -> None:
    async def scene() -> None:
        stage = Scene()
        await stage.find("a")
        stage.now, stage.kids = stage.now + 10 * MINUTE, None
        for _ in range(100):
            assert await stage.find("a") == "a"
        assert stage.asked == 2

    asyncio.run(scene())


def test_keys_that_were_never_had_are_not_believed() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.kids = None
        for _ in range(100):
            with pytest.raises(Unavailable, match="cannot be checked at the moment"):
                await stage.find("a")
        assert stage.asked == 1
        stage.now += 10
        stage.kids = ("a",)
        assert await stage.find("a") == "a"

    asyncio.run(scene())


def test_an_unknown_key_during_an_outage_is_not_believed() -> None:
    async def scene() -> None:
        stage = Scene()
        await stage.find("a")
        stage.now, stage.kids = stage.now + 11, None
        with pytest.raises(Unavailable):
            await stage.find("b")
        assert await stage.find("a") == "a"

    asyncio.run(scene())


def test_a_clock_that_is_set_back_makes_no_key_younger() -> None:
    async def scene() -> None:
        stage = Scene()
        await stage.find("a")
        stage.now, stage.kids = stage.now - 86400, ("b",)
        with pytest.raises(NotAuthenticated):
            await stage.find("a")
        assert stage.asked == 2

    asyncio.run(scene())
