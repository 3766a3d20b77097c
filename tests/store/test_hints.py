"""Each write tells those who wait where to look. Who is told without need looks in vain, and that is all."""

import asyncio
from collections.abc import Hashable
from functools import partial
from typing import Any

import pytest

from toolyard.model.api_key import ApiKey
from toolyard.model.lifecycle import WaitingFor
from toolyard.model.sealed import Sealed
from toolyard.model.worker import WorkerRecord
from toolyard.model.writes import Decision, WaitForAccount
from toolyard.store.contract import Store
from toolyard.store.hints import Topic
from toolyard.store.postgres.notifications import Sender

from .calls import (
    DONE,
    UNKNOWN,
    WORKER,
    answer,
    beat,
    call,
    hand_back,
    in_session,
    name,
    request,
    session,
    there,
    wanted,
    worker_call,
)
from .ledgers import TERMS, ManualClock, Opening


class Heard(list[tuple[Topic, Hashable]]):
    """What was told while the block ran."""

    def __init__(self, store: Store, *of: tuple[Topic, Hashable]) -> None:
        super().__init__()
        self._store, self._of = store, of

    def __enter__(self) -> "Heard":
        watch = self._store.hints.watch
        self._forget = [watch(*watched, partial(self.append, watched)) for watched in self._of]
        return self

    def __exit__(self, *_: Any) -> None:
        for forget in self._forget:
            forget()


WORK = (Topic.PENDING, "")


async def test_who_waits_for_work_is_told_of_it(store: Store, clock: ManualClock) -> None:
    await store.create_session(session())
    with Heard(store, WORK) as heard:
        await store.begin(worker_call())
    assert heard, "a call of a worker's tool"
    with Heard(store, WORK) as heard:
        await store.add_turn("s", [request()])
    assert heard, "a request of a session"
    await store.beat([beat()])
    with Heard(store, WORK) as heard:
        await store.leave(hand_back())
    assert heard, "given back"
    await store.beat([beat()])
    await clock.advance(TERMS.lease_s)
    with Heard(store, WORK) as heard:
        await store.expire(10)
    assert heard, "lost"
    await store.beat([beat()])
    await clock.advance(TERMS.lease_s)
    with Heard(store, WORK) as heard:
        await store.answer(answer(attempt=2))
    assert heard, "lost, as a late answer found out"


async def test_who_waits_for_work_is_told_of_what_runs_once_more(store: Store) -> None:
    begun = await store.begin(call())
    await store.finish(begun.seq, 1, UNKNOWN)
    with Heard(store, WORK) as heard:
        await store.resolve(begun.seq, None)
    assert heard


@pytest.mark.parametrize("how", ["finish", "cancel", "expire", "give up", "resolve", "answer", "late"])
async def test_who_waits_for_an_end_is_told_of_it(store: Store, clock: ManualClock, how: str) -> None:
    begun = await store.begin(worker_call(total_s=20.0) if how in ("answer", "late") else call(total_s=20.0))
    if how == "answer" or how == "late":
        await store.claim(wanted(WORKER))
    if how == "give up":
        await store.hand_back(begun.seq, 1)
    if how == "resolve":
        await store.finish(begun.seq, 1, UNKNOWN)
    if how in ("expire", "late"):
        await clock.advance(20)
    with Heard(store, (Topic.ENDED, begun.seq)) as heard:
        if how == "finish":
            await store.finish(begun.seq, 1, DONE)
        elif how == "cancel":
            await store.cancel(begun.seq)
        elif how == "expire":
            await store.expire(10)
        elif how == "give up":
            await store.give_up(begun.seq, 1, UNKNOWN)
        elif how == "resolve":
            await store.resolve(begun.seq, DONE)
        else:
            await store.answer(answer(WORKER, 1, request=await name(store, begun), session="direct"))
    assert heard
    assert there(await store.row(begun.seq)).finished_at is not None


async def test_who_watches_a_session_is_told_of_every_event(store: Store, clock: ManualClock) -> None:
    watched = (Topic.SESSION, "s")
    with Heard(store, watched) as heard:
        (begun,) = await in_session(store, request())
    assert heard
    with Heard(store, watched) as heard:
        await store.claim(wanted())
    assert heard
    await clock.advance(TERMS.lease_s)
    with Heard(store, watched) as heard:
        await store.expire(10)
    assert heard
    with Heard(store, watched) as heard:
        await store.cancel(begun.seq)
    assert heard


async def test_who_wants_to_know_of_workers_is_told(store: Store, clock: ManualClock) -> None:
    workers = (Topic.WORKERS, "")
    with Heard(store, workers) as heard:
        await store.put_worker(WorkerRecord("default", "robot", "w", b"[]"))
    assert heard, "it came"
    with Heard(store, workers) as heard:
        await store.put_worker(WorkerRecord("default", "robot", "w", b"[1]"))
    assert heard, "it has other tools"
    with Heard(store, workers) as heard:
        await store.drop_worker("default", "robot", "w")
    assert heard, "it went"
    await store.put_worker(WorkerRecord("default", "robot", "w", b"[1]"))
    await clock.advance(TERMS.lease_s)
    with Heard(store, workers) as heard:
        await store.expire(10)
    assert heard, "it was not heard of"


async def test_who_looks_after_what_waits_is_told_that_it_does_and_that_it_does_no_more(store: Store) -> None:
    waits = (Topic.WAITING, "authorization")
    with Heard(store, waits) as heard:
        begun = await store.begin(call(waiting_for="authorization", queue_s=60.0))
    assert heard, "from its beginning"
    with Heard(store, waits, (Topic.DECIDED, begun.seq)) as heard:
        await store.release_wait(Decision(begun.seq, WaitingFor.AUTHORIZATION))
        assert heard == [(Topic.DECIDED, begun.seq)]
        await store.hold(WaitForAccount(begun.seq, 0, WaitingFor.AUTHORIZATION, 60.0))
        assert heard[1:] == [waits], "again"
        await store.cancel(begun.seq)
    assert heard[2:] == [(Topic.DECIDED, begun.seq)]


async def test_who_looks_after_what_is_kept_is_told_of_what_is_new(store: Store) -> None:
    with Heard(store, (Topic.KEPT, "connection"), (Topic.KEPT, "secret")) as heard:
        await store.sealed.put(Sealed("connection", "default", "ada", "idp", b"sealed", b"{}"))
        assert heard == [(Topic.KEPT, "connection")]
        await store.sealed.put(Sealed("connection", "default", "ada", "idp", b"renewed", b"{}"), 1)
    assert len(heard) == 1, "a token that was renewed is nothing new"


async def test_what_is_told_can_be_read(store: Store) -> None:
    """A hint comes after its write, so that who looks then sees it."""
    begun = await store.begin(call())
    with store.hints.waiting(Topic.ENDED, begun.seq) as bell:
        assert not await bell.wait(0.001)
        await store.finish(begun.seq, 1, DONE)
        assert await bell.wait(5)
        assert there(await store.row(begun.seq)).finished_at is not None
    assert store.hints.watched(Topic.ENDED) == []


@pytest.mark.needs_nodes
@pytest.mark.parametrize("topic", list(Topic))
async def test_other_nodes_are_told_too(store: Store, make_store: Opening, topic: Topic) -> None:
    other = await make_store("b")
    begun = await store.begin(call())
    await store.create_session(session())
    held = await store.begin(call("held", waiting_for="authorization", queue_s=60.0))
    keys: dict[Topic, Hashable] = {
        Topic.ENDED: begun.seq, Topic.SESSION: "s", Topic.QUESTION: begun.seq, Topic.DECIDED: held.seq,
        Topic.WAITING: "approval", Topic.KEPT: "connection", Topic.HEARD: "a client's",
        Topic.OFFERED: "prompts", Topic.FOLLOWED: "a client's",
    }  # fmt: skip
    with other.hints.waiting(topic, keys.get(topic, "")) as bell:
        while await bell.wait(0.2):
            pass
        await store.ask(begun.seq, 1, "sure", b"{}")
        await store.finish(begun.seq, 1, DONE)
        await store.add_turn("s", [request()])
        await store.put_worker(WorkerRecord("default", "robot", "w", b"[]"))
        await store.api_keys.put(ApiKey("agent", b"digest", "default", "agent"))
        await store.release_wait(Decision(held.seq, WaitingFor.AUTHORIZATION, queue_s=60.0, then=WaitingFor.APPROVAL))
        await store.sealed.put(Sealed("connection", "default", "ada", "idp", b"sealed", b"{}"))
        for told, key in ((Topic.HEARD, "a client's"), (Topic.OFFERED, "prompts"), (Topic.FOLLOWED, "a client's")):
            store.tell(told, key)
        assert await bell.wait(10)


class Busy:
    """A database that answers once it may."""

    def __init__(self) -> None:
        self.asked, self.answers = asyncio.Event(), asyncio.Event()
        self.told: list[str] = []

    async def read(self, work: Any) -> None:
        self.asked.set()
        await self.answers.wait()
        self.told += work.keywords["payloads"]


def test_who_closes_in_the_middle_of_telling_others_tells_them_all_the_same() -> None:
    async def story() -> list[str]:
        database = Busy()
        sender = Sender(database, "here")  # type: ignore[arg-type]
        sender.add({(Topic.DECIDED, 7)})
        telling = asyncio.create_task(sender.send())
        await database.asked.wait()
        telling.cancel()
        await asyncio.wait((telling,))
        database.answers.set()
        await sender.send()
        return database.told

    assert len(asyncio.run(story())) == 1
