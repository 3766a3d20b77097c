"""Results that have more than a value: what a runner says is taken apart, checked, scrubbed, bounded and recorded."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.engine.room import BOB, Room, there
from tests.engine.test_large_results import Client, ended, settle
from toolyard import App, ToolError, Toolkit, secret
from toolyard.engine.plans import Timeouts
from toolyard.model.call import CallContext, Outcome, ResultExtra, decode_extra
from toolyard.model.run import RichResult, Run
from toolyard.runners.attempt import LARGE_RESULT
from toolyard.server.http.large_results import LargeResults
from toolyard.server.http.reply_budget import MOST_READS, ReplyBudget
from toolyard.store.values import Filter

KEY = "sk-live_4eC39HqLyjWDarjtT1zdp7dc"
TEXT = {"type": "text", "text": "It is warm"}
far = Toolkit("Far")
app = App(far)
said: dict[str, Any] = {}
"""What the tools return, or raise: each test sets it."""


@app.around
async def as_another_server(run: Run, proceed: Any) -> Any:
    result = said["result"]
    if isinstance(result, BaseException):
        raise result
    return result


@far.tool
async def weather() -> dict[str, Any]:
    """Its result is an object."""
    return {}


@far.tool
async def anything() -> Any:
    """Its result may be anything."""


@far.tool(requires=secret("KEY"))
async def secretive() -> dict[str, Any]:
    """Is given a secret."""
    return {}


def raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def failure(message: str, extra: ResultExtra, **members: Any) -> ToolError:
    error = ToolError(message, **members)
    error.extra = extra
    return error


def beside(outcome: Outcome) -> dict[str, Any]:
    """All that stands beside a value or an error."""
    found: dict[str, Any] = msgspec.json.decode(outcome.extra) if outcome.extra is not None else {}
    return found


async def called(result: Any, tool: str = "Far.Weather", call_id: str | None = None, **members: Any) -> Outcome:
    """Once, in a room of its own."""
    said["result"] = result
    async with Room(app, **members.pop("room", {})) as room:
        outcome = await room.call(tool, call_id=call_id, **members)
        await room.behind.flush()
        (row,) = await room.store.listed(Filter(None))
        recorded = there(await room.store.row(row.seq)).outcome()
        assert (recorded.value, recorded.extra) == (outcome.value, outcome.extra), "what is told is what is recorded"
        return outcome


# --- it is taken apart ----------------------------------------------------------------------------


@pytest.mark.parametrize("call_id", [None, "key"])
async def test_a_value_and_what_stands_beside_it_are_recorded(call_id: str | None) -> None:
    extra = ResultExtra(content=raw([TEXT]), meta=raw({"seen": [1, None]}))
    outcome = await called(RichResult({"degrees": 20}, extra), call_id=call_id)
    assert bytes(outcome.value or b"") == b'{"degrees":20}'
    assert beside(outcome) == {"content": [TEXT], "meta": {"seen": [1, None]}}


@pytest.mark.parametrize("call_id", [None, "key"])
async def test_an_error_and_what_stands_beside_it_are_recorded(call_id: str | None) -> None:
    outcome = await called(failure("It broke", ResultExtra(raw([TEXT]), meta=raw({"a": 1}))), call_id=call_id)
    assert there(outcome.error).message == "It broke"
    assert beside(outcome) == {"content": [TEXT], "meta": {"a": 1}}


async def test_a_value_that_is_content_is_kept_once() -> None:
    outcome = await called(RichResult(raw([TEXT]), ResultExtra(is_content=True)), "Far.Anything")
    assert msgspec.json.decode(outcome.value or b"") == [TEXT]
    assert beside(outcome) == {"is_content": True}


async def test_content_that_is_no_more_than_the_text_of_the_value_is_not_kept() -> None:
    text = {"type": "text", "text": '{"degrees":20}'}
    for content, kept in (([text], {}), ([text, TEXT], {"content": [text, TEXT]}), ([{**text, "_meta": {}}], None)):
        outcome = await called(RichResult({"degrees": 20}, ResultExtra(raw(content))))
        assert beside(outcome) == (kept if kept is not None else {"content": content})
    outcome = await called(RichResult("a text", ResultExtra(raw([{"type": "text", "text": "a text"}]))), "Far.Anything")
    assert outcome.extra is None


async def test_content_that_is_no_more_than_an_errors_message_is_not_kept() -> None:
    extra = ResultExtra(raw([{"type": "text", "text": "It broke"}]))
    assert (await called(failure("It broke", extra))).extra is None
    assert beside(await called(failure("It broke", extra, additional_prompt_content="Doors: back"))) != {}


async def test_json_that_is_laid_out_is_written_as_everything_is() -> None:
    """A line's end in it would be the end of an event in a stream."""
    extra = ResultExtra(Raw(b'[\n  {"type": "text",\n "text": "a"}\n]'), meta=Raw(b'{ "a" : 1 }'))
    outcome = await called(RichResult(Raw(b'{\n "degrees": 20\n}'), extra))
    assert bytes(outcome.value or b"") == b'{"degrees":20}'
    assert bytes(outcome.extra or b"") == b'{"content":[{"type":"text","text":"a"}],"meta":{"a":1}}'


async def test_numbers_stay_what_they_are() -> None:
    numbers = b'{"a":123456789012345678901234567890,"b":1.0,"c":-0.0}'
    outcome = await called(RichResult(Raw(numbers), ResultExtra(meta=Raw(numbers))))
    assert (bytes(outcome.value or b""), bytes(outcome.extra or b"")) == (numbers, b'{"meta":%b}' % numbers)


class OwnError(ToolError):
    """An author's, which means something else by the word."""

    extra: Any = {"content": "anything"}


async def test_an_authors_own_error_may_have_a_member_of_that_name() -> None:
    outcome = await called(OwnError("It broke"))
    assert (there(outcome.error).message, outcome.extra) == ("It broke", None)


# --- it is checked --------------------------------------------------------------------------------


async def test_the_schema_is_for_the_value_alone() -> None:
    extra = ResultExtra(raw([TEXT]), meta=raw({"a": 1}))
    for value in ("no object", raw("no object")):
        outcome = await called(RichResult(value, extra))
        assert there(outcome.error).message == "Far.Weather failed unexpectedly"
        assert outcome.extra is None


BROKEN = [
    ResultExtra(raw({"type": "text"})),
    ResultExtra(raw([]), meta=raw([])),
    ResultExtra(Raw(b"[")),
    ResultExtra(Raw(b'["\xff"]')),
    ResultExtra(Raw(b"[1e999]")),
    ResultExtra(meta=Raw(b'{"a":NaN}')),
    ResultExtra(Raw(b"[" * 100_000 + b"]" * 100_000)),
]


@pytest.mark.parametrize("extra", BROKEN)
async def test_what_cannot_be_read_again_is_no_result(extra: ResultExtra, caplog: pytest.LogCaptureFixture) -> None:
    outcome = await called(RichResult({}, extra))
    assert there(outcome.error).message == "Far.Weather failed unexpectedly"
    assert outcome.extra is None
    assert "gave a result that cannot be used" in caplog.text


@pytest.mark.parametrize("extra", BROKEN)
async def test_a_failure_is_told_without_what_cannot_be_read_again(
    extra: ResultExtra, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = await called(failure("It broke", extra))
    assert (there(outcome.error).message, outcome.extra) == ("It broke", None)
    assert "content that is left out" in caplog.text


async def test_a_value_that_is_no_json_is_no_result() -> None:
    outcome = await called(RichResult(Raw(b"{"), ResultExtra()), "Far.Anything")
    assert there(outcome.error).message == "Far.Anything failed unexpectedly"


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("call_id", [None, "key"])
async def test_secrets_are_kept_out_of_all_of_it(call_id: str | None, caplog: pytest.LogCaptureFixture) -> None:
    content = [{"type": "text", "text": f"the key is {KEY}"}, {"type": "image", "data": KEY, "mimeType": KEY}]
    extra = ResultExtra(raw(content), meta=raw({KEY: [KEY]}))
    context = CallContext(secrets={"KEY": KEY})
    results = (
        RichResult({"key": KEY}, extra),
        RichResult(raw({"key": KEY}), extra),
        failure(f"the key is {KEY}, and more", extra),
    )
    with caplog.at_level(logging.DEBUG):
        for result in results:
            outcome = await called(result, "Far.Secretive", call_id, context=context)
            told = b"".join(bytes(each or b"") for each in (outcome.value, outcome.extra))
            assert KEY.encode() not in told + str(outcome.error).encode()
            assert beside(outcome)["content"][0]["text"] == "the key is [secret KEY]"
            assert beside(outcome)["meta"] == {"[secret KEY]": ["[secret KEY]"]}
    assert KEY not in caplog.text


async def test_a_text_is_compared_after_it_was_scrubbed() -> None:
    extra = ResultExtra(raw([{"type": "text", "text": f"the key is {KEY}"}]))
    context = CallContext(secrets={"KEY": KEY})
    assert (await called(failure(f"the key is {KEY}", extra), "Far.Secretive", context=context)).extra is None


# --- it is bounded --------------------------------------------------------------------------------

SMALL: dict[str, Any] = {"room": {"timeouts": Timeouts(result_bytes=1000)}}


async def test_value_and_extra_together_are_no_larger_than_a_result_may_be() -> None:
    long = [{"type": "text", "text": "x" * 600}]
    for extra in (ResultExtra(raw(long)), ResultExtra(meta=raw({"a": long}))):
        assert (await called(RichResult({}, extra), **SMALL)).error is None
        outcome = await called(RichResult({"a": "y" * 600}, extra), **SMALL)
        assert "at most 1000 can be returned" in there(outcome.error).message
        assert outcome.extra is None


async def test_content_that_is_too_large_is_left_out_of_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    outcome = await called(failure("It broke", ResultExtra(raw([{"type": "text", "text": "x" * 1000}]))), **SMALL)
    assert (there(outcome.error).message, outcome.extra) == ("It broke", None)
    assert "at most 1000 can be returned" in caplog.text


LARGE = ResultExtra(raw([{"type": "text", "text": "x" * LARGE_RESULT}]))


@pytest.mark.parametrize("result", [RichResult({}, LARGE), failure("It broke", LARGE)], ids=["value", "error"])
async def test_large_ones_take_turns_and_have_places(result: Any) -> None:
    said["result"] = result
    async with Room(app, turns=LargeResults(ReplyBudget())) as room:
        clients = [Client() for _ in range(MOST_READS + 2)]
        calls = [room.call("Far.Weather", channel=client) for client in clients]
        others = room.call("Far.Weather", channel=Client(), caller=BOB)
        await settle()
        assert (ended(calls), others.done()) == ([*[True] * MOST_READS, False, False], True)
        for client in clients[:MOST_READS]:
            client.read()
        await room.behind.flush()
        await settle()
        assert all(ended(calls)), "what was sent and written makes room"
        await asyncio.gather(*calls, others)


async def test_how_large_the_json_is_that_came_is_seen_before_it_is_looked_into() -> None:
    turns = LargeResults(ReplyBudget())
    waited = list[str]()
    turn = turns.turn

    async def noted(run: Run) -> Any:
        waited.append(run.call_id)
        return await turn(run)

    turns.turn = noted  # type: ignore[method-assign]
    said["result"] = RichResult(Raw(b"[" + b" " * LARGE_RESULT + b"]"), ResultExtra(is_content=True))
    async with Room(app, turns=turns) as room:
        outcome = await room.call("Far.Anything")
        assert (bytes(outcome.value or b""), len(waited)) == (b"[]", 1)


def test_an_extra_is_decoded_as_it_was_encoded() -> None:
    extra = ResultExtra(raw([TEXT]), meta=raw({"a": 1}))
    again = decode_extra(msgspec.json.encode(extra))
    assert (bytes(again.content), bytes(again.meta), again.is_content) == (  # type: ignore[arg-type]
        bytes(extra.content), bytes(extra.meta), False,  # type: ignore[arg-type]
    )  # fmt: skip
    assert again.size == extra.size > 0
