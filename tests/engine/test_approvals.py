"""A person's yes or no: whose it is, what it is about, and that it is said once."""

import pytest

from tests.engine.room import ADA, Room
from tests.store.calls import WORKER, call, wanted, worker_call
from toolyard import Toolkit
from toolyard.engine.approvals import decision_of
from toolyard.engine.plans import Timeouts
from toolyard.model.errors import PathNotFound, Refused
from toolyard.model.lifecycle import State
from toolyard.model.record import CallRecord, NewCall

kit = Toolkit("Kit", version="1.0.0")
ran: list[str] = []


@kit.tool(approval="always")
async def risky(text: str) -> str:
    """Needs a person's yes."""
    ran.append(text)
    return text


@pytest.fixture(autouse=True)
def _anew() -> None:
    ran.clear()


async def waiting(room: Room, *new: NewCall) -> list[CallRecord]:
    return [await room.row((await room.store.begin(each)).seq) for each in new]


def waits(call_id: str = "a", **changes: object) -> NewCall:
    return call(call_id, waiting_for="approval", queue_s=600.0, **changes)


async def test_those_that_wait_are_listed_the_oldest_first_with_all_of_their_input() -> None:
    async with Room(kit) as room:
        large = b'{"text":"' + b"x" * 300_000 + b'"}'
        await waiting(room, waits("a", input=large), waits("b"))
        await room.store.begin(call("other"))
        found = await room.approvals.waiting()
        assert [each.key.call_id for each in found] == ["a", "b"]
        assert found[0].input == large
        assert await room.approvals.waiting("another tenant") == []


async def test_a_call_is_found_by_the_address_that_was_given_out_for_it_alone() -> None:
    async with Room(kit) as room:
        first, second = await waiting(room, waits("a"), waits("b"))
        id = room.links.id_of(first.name)
        assert (await room.approvals.find(id)).seq == first.seq
        for other in (
            id[:-1] + ("0" if id[-1] != "0" else "1"),
            room.links.id_of(second.name).replace("2", "1", 1),
            "x",
        ):
            with pytest.raises(PathNotFound):
                await room.approvals.find(other)


async def test_operators_may_leave_the_signature_out_and_nobody_else() -> None:
    async with Room(kit) as room:
        (found,) = await waiting(room, waits())
        assert (await room.approvals.numbered(str(found.seq))).seq == found.seq
        assert (await room.approvals.numbered(room.links.id_of(found.name))).seq == found.seq
        for wrong in ("999", "1-forged"):
            with pytest.raises(PathNotFound):
                await room.approvals.numbered(wrong)
        with pytest.raises(PathNotFound):
            await room.approvals.find(str(found.seq))


async def test_a_yes_lets_the_call_start_and_is_kept_with_who_said_it() -> None:
    async with Room(kit) as room:
        seq = await room.start("Kit.Risky", {"text": "a"})
        row = await room.row(seq)
        after = await room.approvals.decide(row, approved=True, by="op", reason=" fine ")
        assert (after.state, after.waiting_for) == (State.PENDING, None)
        assert await room.approvals.decision(row) == {"approved": True, "by": "op", "reason": "fine"}
        await room.restarts.start_all()
        assert (await room.ended(seq)).value == b'"a"'


async def test_a_no_ends_the_call_without_effects_and_says_why() -> None:
    async with Room(kit) as room:
        seq = await room.start("Kit.Risky", {"text": "a"})
        after = await room.approvals.decide(await room.row(seq), approved=False, by="op", reason="too risky")
        assert (after.state, after.code, after.effects) == (State.ERROR, "rejected", "none")
        assert b"A person said no: too risky" in (after.error or b"")
        await room.restarts.start_all()
        assert ran == []


@pytest.mark.parametrize("approved", [True, False])
async def test_the_first_decides(approved: bool) -> None:
    async with Room(kit) as room:
        (row,) = await waiting(room, waits())
        await room.approvals.decide(row, approved=approved, by="first")
        said = "approved" if approved else "rejected"
        with pytest.raises(Refused, match=f"first has {said} it already"):
            await room.approvals.decide(row, approved=not approved, by="second")
        assert await room.approvals.decision(row) == {"approved": approved, "by": "first", "reason": ""}


async def test_what_does_not_wait_for_a_yes_is_not_decided() -> None:
    async with Room(kit) as room:
        running, ended, elsewhere = await waiting(
            room, call("a"), waits("b"), call("c", waiting_for="authorization", queue_s=600.0)
        )
        await room.store.cancel(ended.seq)
        for row, why in (
            (running, "under way"),
            (ended, "nobody waits for it any more"),
            (elsewhere, "waits for authorization"),
        ):
            with pytest.raises(Refused, match=why):
                await room.approvals.decide(row, approved=True, by="op")
            assert await decision_of(room.store, row) is None


async def test_its_status_is_what_became_of_the_wait() -> None:
    async with Room(kit) as room:
        rows = await waiting(room, waits("a"), waits("b"), waits("c"))
        await room.approvals.decide(rows[1], approved=True, by="op")
        await room.approvals.decide(rows[2], approved=False, by="op")
        ids = [room.links.id_of(row.name) for row in rows]
        assert [await room.approvals.status(id) for id in (*ids, "1-forged")] == [
            "pending", "completed", "failed", "failed",
        ]  # fmt: skip


async def test_an_approved_call_of_a_worker_waits_to_be_claimed_for_as_long_as_any() -> None:
    async with Room(kit, timeouts=Timeouts(claim_s=100.0)) as room:
        (row,) = await waiting(room, worker_call("a", waiting_for="approval", queue_s=600.0))
        assert await room.store.claim(wanted(WORKER)) == [], "nobody is given it before"
        await room.approvals.decide(row, approved=True, by="op")
        await room.clock.advance(99.0)
        await room.store.expire(100)
        assert (await room.row(row.seq)).state is State.PENDING
        (claimed,) = await room.store.claim(wanted(WORKER))
        assert claimed.seq == row.seq


async def test_an_approved_call_of_a_worker_that_nobody_claims_ends() -> None:
    async with Room(kit, timeouts=Timeouts(claim_s=100.0)) as room:
        (row,) = await waiting(room, worker_call("a", waiting_for="approval", queue_s=600.0))
        await room.approvals.decide(row, approved=True, by="op")
        await room.clock.advance(101.0)
        await room.store.expire(100)
        assert (await room.row(row.seq)).state is State.ERROR


async def test_the_caller_is_shown_where_a_person_decides() -> None:
    async with Room(kit) as room:
        row = await room.row(await room.start("Kit.Risky", {"text": "a"}))
        (question,) = await room.questions.open(row, ADA)
        assert (question.kind, question.url) == ("url", f"http://yard/approvals/{room.links.id_of(row.name)}")
