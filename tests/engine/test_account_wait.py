"""Calls that wait for a user's account: what they are told, when they go on, and what ends them."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.engine.room import ADA, TRUSTED, Room, until
from tests.store.calls import call
from toolyard import Context, Toolkit, authorization, secret
from toolyard.engine import account_wait
from toolyard.engine.account_wait import AccountNeeds, ending_for
from toolyard.engine.plans import Timeouts
from toolyard.model.call import CallContext
from toolyard.model.errors import Challenge, Missing, MissingRequirements, Unavailable
from toolyard.model.lifecycle import State
from toolyard.model.tool import Authorization, Requirements
from toolyard.model.worker import ToolDefinition
from toolyard.store.hints import Topic
from toolyard.trust.limits.limits import Limit

kit = Toolkit("Kit", version="1.0.0")
ran: list[Any] = []
judged: list[Any] = []


def asks(text: str) -> bool:
    judged.append(text)
    return True


@kit.tool(requires=authorization("mail"))
async def mail(ctx: Context, text: str = "") -> str:
    """Needs an account."""
    ran.append(ctx.token("mail"))
    return text


@kit.tool(requires=authorization("mail"), approval=asks)
async def risky_mail(ctx: Context, text: str = "") -> str:
    """Needs an account, and a person's yes."""
    ran.append(ctx.token("mail"))
    return text


@kit.tool(requires=(authorization("mail"), secret("KEY")))
async def both(ctx: Context) -> str:
    """Needs an account and a secret."""
    return "done"


@pytest.fixture(autouse=True)
def _anew() -> None:
    ran.clear()
    judged.clear()


ADAS = CallContext(user_id="ada")


async def waiting(room: Room, tool: str = "Mail", **members: Any) -> int:
    return await room.start(f"Kit.{tool}", context=ADAS, **members)


def connect(room: Room) -> None:
    room.kept.tokens["ada", "mail"] = "t0ken"


async def test_a_call_that_lacks_its_account_is_recorded_and_waits() -> None:
    async with Room(kit) as room:
        row = await room.row(await waiting(room))
        assert (row.state, row.waiting_for, row.attempt, ran) == (State.PENDING, "authorization", 0, [])


async def test_its_caller_is_shown_where_the_account_is_connected() -> None:
    async with Room(kit) as room:
        row = await room.row(await waiting(room))
        (question,) = await room.questions.open(row, ADA)
        assert (question.name, question.kind) == ("mail", "url")
        assert question.url == "http://yard/authorize/link-to-mail?provider=mail"
        assert "CODE" in question.message
        connect(room)
        assert await room.questions.open(row, ADA) == []


async def test_to_look_at_a_call_runs_nothing_of_the_authors_and_counts_in_no_limit() -> None:
    async with Room(kit, limits=(Limit("l", calls_per_minute=2),)) as room:
        row = await room.row(await waiting(room, "RiskyMail"))
        for _ in range(3):
            assert len(await room.questions.open(row, ADA)) == 1
        assert judged == []
        await waiting(room)


async def test_a_caller_that_may_not_speak_for_the_user_is_shown_nothing() -> None:
    async with Room(kit) as room:
        row = await room.row(await waiting(room))
        stranger = replace(ADA, issuer="https://issuer")
        assert await room.account_questions.of(replace(row, sealed=None), ADA) == []
        connected = await room.account_questions.of(row, stranger)
        assert len(connected) == 1, "ada speaks for herself"


async def test_while_the_account_is_not_there_the_call_waits() -> None:
    async with Room(kit) as room:
        seq = await waiting(room)
        assert await room.account_waits.look(), "there is something to look at again"
        await room.restarts.start_all()
        assert (await room.row(seq)).waiting_for == "authorization"
        assert ran == []


async def test_once_it_is_connected_the_call_goes_on() -> None:
    async with Room(kit) as room:
        seq = await waiting(room)
        connect(room)
        assert await room.account_waits.look()
        assert (await room.row(seq)).waiting_for is None
        assert not await room.account_waits.look(), "nothing waits any more"
        await room.restarts.start_all()
        await room.ended(seq)
        assert ran == ["t0ken"]


async def test_then_it_waits_for_a_persons_yes_where_it_needs_one() -> None:
    async with Room(kit) as room:
        seq = await waiting(room, "RiskyMail")
        connect(room)
        await room.account_waits.look()
        assert (await room.row(seq)).waiting_for == "approval"
        await room.approvals.decide(await room.row(seq), approved=True, by="op")
        await room.restarts.start_all()
        await room.ended(seq)
        assert ran == ["t0ken"]


async def test_a_yes_that_was_said_before_the_account_was_lost_counts() -> None:
    async with Room(kit) as room:
        connect(room)
        seq = await waiting(room, "RiskyMail")
        await room.approvals.decide(await room.row(seq), approved=True, by="op")
        room.kept.tokens.clear()
        await room.restarts.start_all()
        await room.restarts.stop()
        assert (await room.row(seq)).waiting_for == "authorization"
        connect(room)
        await room.account_waits.look()
        await room.restarts.start_all()
        await room.ended(seq)
        assert ran == ["t0ken"]


async def test_a_call_that_lacks_what_cannot_come_ends() -> None:
    async with Room(kit) as room:
        room.kept.secrets["KEY"] = "s3cret"
        seq = await waiting(room, "Both")
        room.kept.secrets.clear()
        connect(room)
        await room.account_waits.look()
        row = await room.row(seq)
        assert (row.state, row.code, row.effects) == (State.ERROR, "tool_failed", None)
        assert b"the secret KEY" in (row.error or b"")


async def test_a_call_that_cannot_be_read_keeps_no_other_waiting() -> None:
    async with Room(kit) as room:
        broken = (
            await room.store.begin(call("b", reference="Kit.Mail@1.0.0", input=b"{", waiting_for="authorization"))
        ).seq
        seq = await waiting(room)
        connect(room)
        await room.account_waits.look()
        assert (await room.row(seq)).waiting_for is None
        assert (await room.row(broken)).waiting_for == "authorization", "it ends in its time"


async def test_a_workers_call_then_waits_to_be_claimed() -> None:
    needs = Requirements(authorization=(Authorization("mail"),))
    async with Room(kit, timeouts=Timeouts(claim_s=100.0), workers=(TRUSTED,)) as room:
        await room.offer(ToolDefinition("Far.Mail", requirements=needs))
        seq = await room.start("Far.Mail", context=ADAS)
        assert (await room.row(seq)).waiting_for == "authorization"
        connect(room)
        await room.account_waits.look()
        row = await room.row(seq)
        assert (row.waiting_for, row.queue, row.state) == (None, "worker", State.PENDING)
        await room.clock.advance(101.0)
        await room.store.expire(100)
        assert (await room.row(seq)).state is State.ERROR


async def test_it_is_looked_at_when_somebody_connects_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_wait, "TOGETHER_S", 0.0)
    async with Room(kit) as room:
        following = asyncio.create_task(room.account_waits.follow())
        seq = await waiting(room)
        await until(lambda: bool(room.store.hints.watched(Topic.KEPT)))
        connect(room)
        room.store.tell(Topic.KEPT, "connection")

        async def goes_on() -> bool:
            return (await room.row(seq)).waiting_for is None

        await until(goes_on)
        following.cancel()


def missing(*, can_come: bool) -> MissingRequirements:
    challenge = Challenge("id", "url", "status", "mail", can_come=can_come)
    return MissingRequirements("no", Missing((challenge,)), developer_message="")


@pytest.mark.parametrize(
    ("wire", "error", "is_held"),
    [
        ("mcp-task", missing(can_come=True), True),
        ("lifecycle", missing(can_come=True), True),
        ("oxp", missing(can_come=True), False),
        ("mcp-task", missing(can_come=False), False),
        ("oxp", Unavailable("away", retry_after_ms=1), True),
    ],
)
async def test_who_can_be_shown_where_to_connect_it_waits(wire: str, error: Any, is_held: bool) -> None:
    async with Room(kit) as room:
        row = await room.row((await room.store.begin(call("k", wire=wire))).seq)
        await AccountNeeds(room.store, 100.0).hold(row, error)
        after = await room.row(row.seq)
        assert (after.waiting_for == "authorization", after.state is State.PENDING) == (is_held, is_held)


@pytest.mark.parametrize(("attempt", "code", "releases"), [(1, "tool_failed", True), (2, "outcome_unknown", False)])
async def test_what_ended_before_it_began_may_be_called_again(attempt: int, code: str, releases: bool) -> None:
    async with Room(kit) as room:
        row = await room.row((await room.store.begin(call("k"))).seq)
        ending = ending_for(replace(row, attempt=attempt), missing(can_come=True))
        assert ending is not None
        assert (ending.code, ending.releases_key) == (code, releases)


async def test_a_call_that_waits_too_long_ends() -> None:
    async with Room(kit, approval_wait_s=50.0) as room:
        seq = await waiting(room)
        await room.clock.advance(51.0)
        await room.store.expire(100)
        assert (await room.row(seq)).state is State.ERROR
