"""Calls that are recorded before they run: one key, one execution, whoever asks and however often."""

import asyncio
import threading
from typing import Annotated, Any

import pytest
from msgspec.structs import replace
from pydantic import AfterValidator

from tests.engine.room import ADA, BOB, Listener, Room, command_of, there, until, value_of
from toolyard import App, Context, InvalidInput, MissingRequirements, ToolError, Toolkit, secret
from toolyard.engine.plans import Timeouts
from toolyard.model.call import CallContext
from toolyard.model.errors import Forbidden, KeyConflict, LimitReached, StillRunning, Unavailable
from toolyard.model.lifecycle import State
from toolyard.store.hints import Topic
from toolyard.trust.limits.limits import Limit

kit = Toolkit("Kit", version="1.0.0")
app = App(kit)
ran: list[Any] = []
checked: list[str] = []
gate: list[asyncio.Event] = []


def check(text: str) -> str:
    checked.append(text)
    return text


@kit.tool
async def say(text: str) -> str:
    """Says it."""
    ran.append(text)
    return text


@kit.tool
async def validated(text: Annotated[str, AfterValidator(check)]) -> str:
    """Has a validator of its author's."""
    ran.append(text)
    return text


@kit.tool
async def wait(text: str = "") -> str:
    """Waits for the gate."""
    ran.append(text)
    await gate[0].wait()
    return text


@kit.tool(idempotent=True)
async def wait_safely() -> str:
    """Waits for the gate, and may be run again."""
    await gate[0].wait()
    return "done"


@kit.tool(concurrency=1)
async def alone(text: str) -> str:
    """One at a time."""
    ran.append(text)
    await gate[0].wait()
    return text


@kit.tool
async def flaky() -> str:
    """Fails the first time, and says that trying again may help."""
    ran.append("flaky")
    if len(ran) == 1:
        raise ToolError("Not now", can_retry=True)
    return "done"


@kit.tool(requires=secret("KEY"))
async def guarded(ctx: Context) -> str:
    """Needs a secret."""
    ran.append("guarded")
    return "done"


@kit.tool(approval="always")
async def risky(text: str = "") -> str:
    """Needs a person's yes."""
    ran.append(text)
    return text


@pytest.fixture(autouse=True)
def _anew() -> None:
    ran.clear()
    checked.clear()
    gate[:] = [asyncio.Event()]


async def test_a_key_runs_once_and_is_answered_from_the_ledger() -> None:
    async with Room(app) as room:
        first = await room.call("Kit.Say", {"text": "a"}, "k")
        second = await room.call("Kit.Say", {"text": "a"}, "k")
        assert value_of(first) == value_of(second) == "a"
        assert first.duration_ms == second.duration_ms
        assert ran == ["a"]


async def test_the_same_key_of_another_caller_or_family_is_another_call() -> None:
    async with Room(app) as room:
        await room.call("Kit.Say", {"text": "a"}, "k")
        await room.call("Kit.Say", {"text": "a"}, "k", caller=BOB)
        await room.call("Kit.Say", {"text": "a"}, "k", family="mcp")
        assert len(ran) == 3


async def test_who_asks_while_it_runs_joins_it() -> None:
    async with Room(app) as room:
        listeners = [Listener(), Listener()]
        calls = [room.call("Kit.Wait", {"text": "a"}, "k", channel) for channel in listeners]
        await until(lambda: ran == ["a"])
        gate[0].set()
        assert [value_of(await call) for call in calls] == ["a", "a"]
        assert ran == ["a"]
        assert [listener.joined for listener in listeners] == [0, 1]


async def test_a_key_with_another_input_is_refused_and_nothing_runs() -> None:
    async with Room(app) as room:
        await room.call("Kit.Say", {"text": "a"}, "k")
        with pytest.raises(KeyConflict):
            await room.call("Kit.Say", {"text": "b"}, "k")
        assert ran == ["a"]
        assert value_of(await room.call("Kit.Say", {"text": "a"}, "k")) == "a"


async def test_input_is_checked_before_a_key_with_another_input_is_refused() -> None:
    async with Room(app) as room:
        await room.call("Kit.Say", {"text": "a"}, "k")
        with pytest.raises(InvalidInput):
            await room.call("Kit.Say", {"text": 7}, "k")


async def test_a_refused_call_takes_no_key() -> None:
    async with Room(app) as room:
        with pytest.raises(InvalidInput):
            await room.call("Kit.Say", {"text": 7}, "k")
        assert value_of(await room.call("Kit.Say", {"text": "a"}, "k")) == "a"


async def test_a_known_key_is_answered_before_the_authors_validator_runs() -> None:
    async with Room(app) as room:
        for _ in range(3):
            assert value_of(await room.call("Kit.Validated", {"text": "a"}, "k")) == "a"
        assert checked == ["a"]


async def test_a_known_key_is_answered_while_what_is_kept_for_it_cannot_be_had() -> None:
    async with Room(app) as room:
        room.kept.secrets["KEY"] = "s3cret"
        assert value_of(await room.call("Kit.Guarded", call_id="k")) == "done"
        asked = room.kept.asked
        room.kept.is_away = True
        assert value_of(await room.call("Kit.Guarded", call_id="k")) == "done"
        assert room.kept.asked == asked
        with pytest.raises(Unavailable):
            await room.call("Kit.Guarded", call_id="other")


@pytest.mark.parametrize("limit", [Limit("l", at_once=1), Limit("l", calls_per_minute=2)])
async def test_calls_that_are_prepared_at_once_are_one(limit: Limit) -> None:
    async with Room(app, limits=(limit,)) as room:
        room.kept.secrets["KEY"] = "s3cret"
        room.kept.is_there.clear()
        first = room.call("Kit.Guarded", call_id="k")
        second = room.call("Kit.Guarded", call_id="k")
        await until(lambda: room.kept.asked == 2)
        room.kept.is_there.set()
        assert [value_of(await each) for each in (first, second)] == ["done", "done"]
        assert ran == ["guarded"]
        assert value_of(await room.call("Kit.Guarded", call_id="other")) == "done", "the second did not count"


async def test_a_known_key_counts_in_no_limit() -> None:
    async with Room(app, limits=(Limit("l", calls_per_minute=2),)) as room:
        for key in ("k", "other"):
            for _ in range(3):
                assert value_of(await room.call("Kit.Say", {"text": "a"}, key)) == "a"
        with pytest.raises(LimitReached):
            await room.call("Kit.Say", {"text": "a"}, "third")
        await room.clock.advance(60.0)
        assert value_of(await room.call("Kit.Say", {"text": "a"}, "third")) == "a"


async def test_a_call_counts_among_those_at_once_until_it_has_ended() -> None:
    async with Room(app, limits=(Limit("l", at_once=1),)) as room:
        first = room.call("Kit.Wait", call_id="k")
        await until(lambda: bool(ran))
        with pytest.raises(LimitReached):
            await room.call("Kit.Say", {"text": "a"}, "other")
        gate[0].set()
        await first
        assert value_of(await room.call("Kit.Say", {"text": "a"}, "other")) == "a"


async def test_an_outcome_that_may_be_tried_again_releases_the_key() -> None:
    async with Room(app) as room:
        with pytest.raises(ToolError, match="Not now"):
            value_of(await room.call("Kit.Flaky", call_id="k"))
        assert value_of(await room.call("Kit.Flaky", call_id="k")) == "done"
        assert value_of(await room.call("Kit.Flaky", call_id="k")) == "done"
        assert len(ran) == 2


async def test_who_will_not_wait_is_told_to_come_back_and_the_call_goes_on() -> None:
    async with Room(app, timeouts=Timeouts(sync_wait_s=0.0)) as room:
        late = await room.call("Kit.Wait", {"text": "a"}, "k")
        assert isinstance(late.error, StillRunning)
        assert late.error.can_retry is True
        gate[0].set()
        (row,) = await room.rows()
        assert (await room.ended(row.seq)).value == b'"a"'
        assert value_of(await room.call("Kit.Wait", {"text": "a"}, "k")) == "a"
        assert ran == ["a"]


async def test_who_is_patient_waits_to_the_end() -> None:
    async with Room(app, timeouts=Timeouts(sync_wait_s=0.0)) as room:
        calling = room.call("Kit.Wait", {"text": "a"}, "k", is_patient=True)
        await until(lambda: bool(ran))
        gate[0].set()
        assert value_of(await calling) == "a"


async def test_a_call_that_nobody_waits_for_runs_once_under_one_number() -> None:
    async with Room(app) as room:
        seq = await room.start("Kit.Say", {"text": "a"}, "k")
        assert (await room.ended(seq)).value == b'"a"'
        assert await room.start("Kit.Say", {"text": "a"}, "k") == seq
        with pytest.raises(KeyConflict):
            await room.start("Kit.Say", {"text": "b"}, "k")
        assert ran == ["a"]


async def test_a_key_outlives_its_result() -> None:
    async with Room(app) as room:
        await room.call("Kit.Say", {"text": "a"}, "k")
        await room.clock.advance(2000.0)
        await room.store.sweep(100)
        with pytest.raises(KeyConflict, match="no longer kept"):
            await room.call("Kit.Say", {"text": "a"}, "k")
        await room.clock.advance(5000.0)
        await room.store.sweep(100)
        assert value_of(await room.call("Kit.Say", {"text": "a"}, "k")) == "a"
        assert ran == ["a", "a"]


async def test_a_call_that_needs_a_yes_is_recorded_and_told_of_at_once() -> None:
    async with Room(app) as room:
        with pytest.raises(MissingRequirements) as refused:
            await room.call("Kit.Risky", {"text": "a"}, "k")
        assert refused.value.missing.approval
        (row,) = await room.rows()
        assert (row.state, row.waiting_for, row.attempt) == (State.PENDING, "approval", 0)
        assert ran == []


async def test_made_again_it_is_held_until_a_person_has_decided() -> None:
    async with Room(app) as room:
        with pytest.raises(MissingRequirements):
            await room.call("Kit.Risky", {"text": "a"}, "k")
        (row,) = await room.rows()
        again = room.call("Kit.Risky", {"text": "a"}, "k")
        await until(lambda: bool(room.store.hints.watched(Topic.DECIDED)))
        await room.approvals.decide(row, approved=True, by="op")
        await room.restarts.start_all()
        assert value_of(await again) == "a"
        assert ran == ["a"]


async def test_without_a_key_a_call_that_waited_is_known_by_its_input_until_it_is_collected() -> None:
    async with Room(app) as room:
        for text in ("a", "b"):
            with pytest.raises(MissingRequirements):
                await room.call("Kit.Risky", {"text": text})
        row, _ = await room.rows()
        await room.approvals.decide(row, approved=True, by="op")
        await room.restarts.start_all()
        assert value_of(await room.call("Kit.Risky", {"text": "a"})) == "a"
        with pytest.raises(MissingRequirements):
            await room.call("Kit.Risky", {"text": "a"})
        assert len(await room.rows()) == 3
        assert ran == ["a"]


@pytest.mark.parametrize("family", ["oxp", "mcp"])
async def test_without_a_key_the_same_calls_at_once_wait_for_one_yes_and_run_once(family: str) -> None:
    async with Room(kit, timeouts=Timeouts(sync_wait_s=0.0)) as room:
        same = [room.call("Kit.Risky", {"text": "a"}, family=family) for _ in range(6)]
        refused = await asyncio.gather(*same, return_exceptions=True)
        assert all(isinstance(each, MissingRequirements) and each.missing.approval for each in refused)
        (row,) = await room.rows()
        await room.approvals.decide(row, approved=True, by="op")
        await room.restarts.start_all()
        await room.ended(row.seq)
        assert (await room.call("Kit.Risky", {"text": "a"}, family=family)).call_id == row.key.call_id
        assert ran == ["a"]


@pytest.mark.parametrize("tool", ["Kit.Say", "Kit.Risky"])
async def test_who_may_not_speak_for_a_user_is_not_told_what_is_known_of_their_call(tool: str) -> None:
    person, context = replace(ADA, issuer="https://issuer"), CallContext(user_id="bob")
    async with Room(app) as room:
        program = room.call(tool, {"text": "a"}, "k", context=context)
        await asyncio.gather(program, return_exceptions=True)
        assert len(await room.rows()) == 1
        with pytest.raises(Forbidden):
            await room.call(tool, {"text": "a"}, "k", caller=person, context=context)
        command = command_of(tool, {"text": "a"}, "k", context=context)
        for ask in (room.engine.known, room.engine.replay):
            with pytest.raises(Forbidden):
                await ask(command, person)


async def test_a_result_that_was_told_in_another_way_is_collected() -> None:
    async with Room(app) as room:
        with pytest.raises(MissingRequirements):
            await room.call("Kit.Risky", {"text": "a"})
        (row,) = await room.rows()
        await room.approvals.decide(row, approved=True, by="op")
        await room.restarts.start_all()
        await room.engine.on_collected(await room.ended(row.seq))
        with pytest.raises(MissingRequirements):
            await room.call("Kit.Risky", {"text": "a"})


async def test_with_a_key_a_call_goes_on_when_its_client_goes_and_stops_where_its_tool_says_so() -> None:
    stopping = Toolkit("Stopping")

    @stopping.tool(on_disconnect="cancel")
    async def wait() -> None:
        """Waits for ever."""
        ran.append("stopping")
        await asyncio.Event().wait()

    async with Room(app, stopping) as room:
        for tool in ("Kit.Wait", "Stopping.Wait"):
            channel = Listener()
            calling = room.call(tool, call_id="k" + tool, channel=channel)
            await until(lambda seqs=channel.seqs: bool(seqs))  # type: ignore[misc]
            channel.go()
            if tool == "Kit.Wait":
                gate[0].set()
                assert value_of(await calling) == ""
            else:
                with pytest.raises(ToolError, match="cancelled"):
                    value_of(await calling)


async def test_a_call_that_stops_with_its_client_goes_on_while_another_one_waits_for_it() -> None:
    stopping = Toolkit("Stopping")

    @stopping.tool(on_disconnect="cancel")
    async def wait() -> None:
        """Waits for ever."""
        await asyncio.Event().wait()

    async with Room(stopping) as room:
        first, second = Listener(), Listener()
        calling = room.call("Stopping.Wait", call_id="k", channel=first)
        await until(lambda: bool(first.seqs))
        joining = room.call("Stopping.Wait", call_id="k", channel=second)
        await until(lambda: bool(second.joined))
        first.go()
        first.go()  # it may be said twice
        await asyncio.gather(*room.node._beside)
        assert (await room.row(first.seqs[0])).state is State.PROCESSING
        second.go()
        for each in (calling, joining):
            with pytest.raises(ToolError, match="cancelled"):
                value_of(await each)


@pytest.mark.parametrize(("tool", "state"), [("Kit.WaitSafely", State.PENDING), ("Kit.Wait", State.ERROR)])
async def test_a_server_that_stops_leaves_a_call_to_others_or_says_that_nobody_knows(tool: str, state: State) -> None:
    async with Room(app) as room:
        calling = room.call(tool, call_id="k")
        await until(lambda: bool(room.node.held))
        await room.durable.close(0.0, threading.Event())
        (row,) = await room.rows()
        assert (row.state, row.losses) == (state, 0)
        assert row.code == (None if state is State.PENDING else "outcome_unknown")
        assert isinstance((await calling).error, StillRunning), "there is something to come back for"


async def test_a_call_of_this_node_that_nobody_runs_is_run_by_who_asks_again() -> None:
    """The store failed just when it was recorded: the row is there, and whoever asked was told that it is not."""
    async with Room(app) as room:
        work = await room.engine.prepare(
            room.engine.resolve("Kit.Say", ADA), command_of("Kit.Say", {"text": "a"}, "k"), ADA, Listener()
        )
        work.new.fingerprint = room.durable.print_of(command_of("Kit.Say", {"text": "a"}, "k"))
        begun = await room.store.begin(work.new)
        assert room.durable.is_nobodys(await room.row(begun.seq))
        assert value_of(await room.call("Kit.Say", {"text": "a"}, "k")) == "a"
        assert (ran, len(await room.rows())) == (["a"], 1)


async def test_who_stands_in_line_is_recorded_when_its_turn_comes() -> None:
    async with Room(app) as room:
        first = room.call("Kit.Alone", {"text": "a"}, "a")
        await until(lambda: ran == ["a"])
        second = room.call("Kit.Alone", {"text": "b"}, "b")
        for _ in range(20):
            await asyncio.sleep(0)
        assert [row.key.call_id for row in await room.rows()] == ["a"]
        gate[0].set()
        assert [value_of(await each) for each in (first, second)] == ["a", "b"]


async def test_a_recorded_call_whose_turn_does_not_come_ends_and_may_be_tried_again() -> None:
    async with Room(app, timeouts=Timeouts(queue_s=0.0)) as room:
        first = room.call("Kit.Alone", {"text": "a"}, "a")
        await until(lambda: ran == ["a"])
        seq = await room.start("Kit.Alone", {"text": "b"}, "b")
        row = await room.ended(seq)
        assert (row.code, ran) == ("tool_failed", ["a"])
        gate[0].set()
        await first
        again = await room.start("Kit.Alone", {"text": "b"}, "b")
        assert again != seq
        assert (await room.ended(again)).value == b'"b"'


async def test_a_call_whose_tool_is_gone_is_still_answered() -> None:
    async with Room(app) as room:
        await room.call("Kit.Say", {"text": "a"}, "k")
        room.catalogue.remove(*kit.tools)
        outcome = await room.engine.replay(command_of("Kit.Say", {"text": "a"}, "k"), ADA)
        assert value_of(there(outcome)) == "a"
        assert await room.engine.replay(command_of("Kit.Say", {"text": "b"}, "k"), ADA) is None


async def test_a_running_call_counts_in_its_callers_quota_until_its_end() -> None:
    async with Room(app, quotas={"running_calls": {"caller": 1}}) as room:
        first = room.call("Kit.Wait", call_id="k")
        await until(lambda: bool(ran))
        with pytest.raises(LimitReached):
            await room.call("Kit.Say", {"text": "a"}, "other")
        assert value_of(await room.call("Kit.Say", {"text": "a"}, "other", caller=BOB)) == "a"
        gate[0].set()
        await first
        assert value_of(await room.call("Kit.Say", {"text": "a"}, "other")) == "a"
