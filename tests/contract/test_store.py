"""What `store/contract.py` promises, held against every store."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.conftest import KEY_TTL_S, RETENTION_S, Clock, Open
from toolyard.model.lifecycle import State
from toolyard.model.record import Ending, Key, NewCall
from toolyard.store.contract import Filter, StoreInUse

KEY = Key("default", "local", "oxp", "call-1")
CALL = NewCall(KEY, True, "oxp", "Kit.Tool", "Kit.Tool@1.0.0", b'{"a":1}', b"fingerprint", on_lost="rerun")
DONE = Ending(State.COMPLETE, "success", 1.5, value=b"15")
FAILED = Ending(State.ERROR, "tool_failed", 2.5, error=b'{"message":"no"}')
RETRY = replace(FAILED, releases_key=True)


def run(opened: Open, scenario: Any, node: str = "node-1") -> None:
    async def all_of_it() -> None:
        async with opened(node) as store:
            await scenario(store)

    asyncio.run(all_of_it())


def test_a_call_begins_once(opened: Open) -> None:
    async def scenario(store: Any) -> None:
        first = await store.begin(CALL)
        assert first.seq > 0
        again = await store.begin(CALL)
        assert again.seq == 0
        assert again.known.seq == first.seq
        assert again.known.state is State.PROCESSING
        assert (again.known.attempt, again.known.holder) == (1, "node-1")

    run(opened, scenario)


def test_of_many_at_the_same_instant_one_begins(opened: Open) -> None:
    async def scenario(store: Any) -> None:
        begun = await asyncio.gather(*(store.begin(CALL) for _ in range(50)))
        (seq,) = [each.seq for each in begun if each.seq]
        assert {each.known.seq for each in begun if not each.seq} == {seq}

    run(opened, scenario)


def test_a_key_is_taken_whatever_the_fingerprint(opened: Open) -> None:
    async def scenario(store: Any) -> None:
        await store.begin(CALL)
        other = await store.begin(replace(CALL, fingerprint=b"another"))
        assert other.seq == 0
        assert other.known.fingerprint == b"fingerprint"

    run(opened, scenario)


@pytest.mark.parametrize("part", ["tenant", "subject", "family", "call_id"])
def test_keys_of_others_never_meet(opened: Open, part: str) -> None:
    async def scenario(store: Any) -> None:
        await store.begin(CALL)
        other = await store.begin(replace(CALL, key=replace(KEY, **{part: "other"})))
        assert other.seq > 0

    run(opened, scenario)


def test_calls_without_a_key_never_meet(opened: Open) -> None:
    async def scenario(store: Any) -> None:
        unkeyed = replace(CALL, keyed=False)
        assert (await store.begin(unkeyed)).seq != (await store.begin(unkeyed)).seq

    run(opened, scenario)


def test_an_outcome_is_kept_as_it_was(opened: Open) -> None:
    async def scenario(store: Any) -> None:
        begun = await store.begin(CALL)
        assert await store.finish(begun.seq, 1, DONE) is None
        known = (await store.begin(CALL)).known
        assert (known.state, known.code, known.value, known.duration_ms) == (State.COMPLETE, "success", b"15", 1.5)
        outcome = known.outcome()
        assert (outcome.call_id, bytes(outcome.value)) == ("call-1", b"15")

    run(opened, scenario)


def test_a_late_or_second_ending_changes_nothing_and_shows_the_winner(opened: Open) -> None:
    async def scenario(store: Any) -> None:
        begun = await store.begin(CALL)
        assert (await store.finish(begun.seq, 2, FAILED)).state is State.PROCESSING
        assert await store.finish(begun.seq, 1, DONE) is None
        winner = await store.finish(begun.seq, 1, FAILED)
        assert (winner.state, winner.value) == (State.COMPLETE, b"15")

    run(opened, scenario)


def test_an_outcome_that_says_so_releases_its_key(opened: Open) -> None:
    async def scenario(store: Any) -> None:
        first = await store.begin(CALL)
        await store.finish(first.seq, 1, RETRY)
        second = await store.begin(replace(CALL, fingerprint=b"another"))
        assert second.seq > first.seq
        await store.finish(second.seq, 1, FAILED)
        assert (await store.begin(CALL)).known.seq == second.seq

    run(opened, scenario)


def test_a_late_release_does_not_free_the_key_of_a_newer_call(opened: Open) -> None:
    async def scenario(store: Any) -> None:
        first = await store.begin(CALL)
        await store.finish(first.seq, 1, RETRY)
        second = await store.begin(CALL)
        await store.finish(first.seq, 1, RETRY)
        assert (await store.find(KEY)).known.seq == second.seq

    run(opened, scenario)


def test_what_was_accepted_is_there_after_a_restart(opened: Open) -> None:
    async def before(store: Any) -> None:
        begun = await store.begin(CALL)
        await store.finish(begun.seq, 1, DONE)

    async def after(store: Any) -> None:
        assert (await store.find(KEY)).known.value == b"15"

    run(opened, before)
    run(opened, after, "node-2")


def test_calls_of_a_node_that_is_gone_are_lost_and_can_be_started_again_once(opened: Open) -> None:
    async def before(store: Any) -> None:
        await store.begin(CALL)
        assert await store.lost() == []

    async def after(store: Any) -> None:
        (lost,) = await store.lost()
        assert (lost.on_lost, lost.attempt) == ("rerun", 1)
        assert await store.restart(lost.seq, 1) == 2
        assert await store.restart(lost.seq, 1) is None
        assert (await store.finish(lost.seq, 1, DONE)).state is State.PROCESSING
        assert await store.finish(lost.seq, 2, DONE) is None
        assert await store.lost() == []

    run(opened, before)
    run(opened, after, "node-2")


def test_a_caller_sees_its_own_calls_newest_first(opened: Open) -> None:
    async def scenario(store: Any) -> None:
        for number in range(3):
            await store.begin(replace(CALL, key=replace(KEY, call_id=f"call-{number}")))
        await store.begin(replace(CALL, key=replace(KEY, subject="other", call_id="call-9")))
        listed = await store.listed(Filter("default", "local"))
        assert [call.key.call_id for call in listed] == ["call-2", "call-1", "call-0"]
        older = await store.listed(Filter("default", "local", before=listed[0].seq, limit=1))
        assert [call.key.call_id for call in older] == ["call-1"]
        assert await store.get("default", "local", "call-9") is None
        assert (await store.get("default", "other", "call-9")).key.subject == "other"
        assert len(await store.listed(Filter("default"))) == 4
        assert await store.listed(Filter("default", state=State.COMPLETE)) == []

    run(opened, scenario)


def test_finished_calls_are_removed_in_time_and_their_keys_later(opened: Open, clock: Clock) -> None:
    async def scenario(store: Any) -> None:
        begun = await store.begin(CALL)
        await store.begin(replace(CALL, key=replace(KEY, call_id="still running")))
        await store.finish(begun.seq, 1, DONE)
        assert await store.sweep(10) == 0
        clock.now += RETENTION_S + 1
        assert await store.sweep(10) == 1
        tombstone = await store.begin(CALL)
        assert (tombstone.seq, tombstone.known, tombstone.tombstone) == (0, None, b"fingerprint")
        clock.now += KEY_TTL_S
        await store.sweep(10)
        assert (await store.begin(CALL)).seq > 0
        assert (await store.get("default", "local", "still running")).state is State.PROCESSING

    run(opened, scenario)


def test_only_so_many_are_removed_at_once(opened: Open, clock: Clock) -> None:
    async def scenario(store: Any) -> None:
        for number in range(5):
            begun = await store.begin(replace(CALL, key=replace(KEY, call_id=f"call-{number}")))
            await store.finish(begun.seq, 1, DONE)
        clock.now += RETENTION_S + 1
        assert [await store.sweep(2), await store.sweep(2), await store.sweep(2)] == [2, 2, 1]

    run(opened, scenario)


def test_a_second_process_is_refused(opened: Open) -> None:
    async def scenario(store: Any) -> None:
        with pytest.raises(StoreInUse, match="--store sqlite:other\\.db"):
            async with opened("node-2"):
                pass

    run(opened, scenario)
