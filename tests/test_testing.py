"""A test's person: answers what tools ask, approves calls, and hears what tools report, whichever way a test calls."""

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import date
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from toolyard import App, Context, Declined, MissingRequirements, Run, ToolError, Toolkit, secret
from toolyard.model.channel import Question
from toolyard.testing import Person, async_client, call, client


class Trip(BaseModel):
    city: str
    leave_on: date
    seat: Literal["window", "aisle"] = "aisle"
    meal: str | None = None


kit = Toolkit("Kit")


@kit.tool(asks="form")
async def book(ctx: Context) -> str:
    """Books a trip."""
    trip = await ctx.ask("Where to?", Trip)
    try:
        sure = await ctx.ask(f"Book {trip.city}?", bool, name="sure")
    except Declined as declined:
        return declined.action
    return f"{trip.city} {trip.leave_on} {trip.seat} {sure}"


@kit.tool
async def count(ctx: Context) -> int:
    """Asks with a schema of its own, and twice at once."""
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    both = await asyncio.gather(ctx.ask("How many?", form, name="n"), ctx.ask("More?", int, name="more"))
    return int(both[0]["n"] + both[1])


@kit.tool
async def pay(ctx: Context) -> str:
    """Sends somebody to pay."""
    await ctx.ask_url("Pay here", "https://pay.example", name="pay")
    return "paid"


@kit.tool
async def think(ctx: Context) -> Any:
    """Asks the model."""
    return await ctx.sample("What is it?", system="Be brief", name="thought")


@kit.tool
async def look(ctx: Context) -> list[str]:
    """Asks for folders."""
    return await ctx.roots(name="folders") if ctx.can_ask("roots") else ["nobody to ask"]


@kit.tool(requires=secret("PIN"))
def report(ctx: Context) -> None:
    """Says how far it is."""
    ctx.progress(1, 2, f"half, {ctx.secret('PIN')}")
    ctx.progress(float("nan"))
    ctx.log("found", level="warning", rows=3, pin=ctx.secret("PIN"))
    ctx.progress(2, 2)


@kit.tool(approval="always")
def wipe(disk: str) -> str:
    """Wipes a disk."""
    return f"wiped {disk}"


@kit.tool(approval=lambda amount: amount > 10, asks="form")
async def refund(amount: int, ctx: Context) -> str:
    """Pays back."""
    ctx.progress(1)
    return f"{amount} to {await ctx.ask('To whom?', name='whom')}"


Called = Callable[..., Any]


def at_once(tool_id: str, input: Any = None, *, person: Person | None = None, **options: Any) -> Any:
    return call(kit, tool_id, input, person=person, **options)


def over_otc(tool_id: str, input: Any = None, *, person: Person | None = None, **options: Any) -> Any:
    with client(kit, person=person, wire="otc") as bound:
        return bound.call(tool_id, input, **options)


def over_mcp(tool_id: str, input: Any = None, *, person: Person | None = None, **options: Any) -> Any:
    with client(kit, person=person, wire="mcp") as bound:
        return bound.call(tool_id, input, **options)


def awaited(tool_id: str, input: Any = None, *, person: Person | None = None, **options: Any) -> Any:
    async def main() -> Any:
        async with async_client(kit, person=person) as bound:
            return await bound.call(tool_id, input, **options)

    return asyncio.run(main())


EVERY_WAY = pytest.mark.parametrize("called", [at_once, over_otc, over_mcp, awaited])
TRIP = {"city": "Oslo", "leave_on": "2026-05-01"}

# --- questions -----------------------------------------------------------------------------------


@EVERY_WAY
def test_questions_are_answered_by_name(called: Called) -> None:
    ada = Person({"question-1": Trip(city="Oslo", leave_on=date(2026, 5, 1), seat="window"), "sure": True})
    assert called("Kit.Book", person=ada) == "Oslo 2026-05-01 window True"
    assert [(each.name, each.kind, each.message) for each in ada.asked] == [
        ("question-1", "form", "Where to?"),
        ("sure", "form", "Book Oslo?"),
    ]


def test_questions_that_are_asked_at_once_are_all_answered() -> None:
    assert call(kit, "Kit.Count", person=Person({"n": {"n": 3}, "more": 4})) == 7


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_an_answer_that_is_an_exception_is_raised_where_the_tool_asked(action: str) -> None:
    no = Declined("No", action=action)
    assert call(kit, "Kit.Book", person=Person({"question-1": TRIP, "sure": no})) == action
    with pytest.raises(ToolError, match="No"):
        call(kit, "Kit.Pay", person=Person({"pay": no}))


def test_a_function_answers_what_it_is_asked() -> None:
    def answer(question: Question) -> Any:
        return question.kind == "url" or question.message == "Book Oslo?" or TRIP

    ada = Person(answer)
    assert call(kit, "Kit.Book", person=ada) == "Oslo 2026-05-01 aisle True"
    assert call(kit, "Kit.Pay", person=ada) == "paid"
    assert ada.asked[-1].url == "https://pay.example"


@EVERY_WAY
def test_the_model_and_the_client_are_answered_for(called: Called) -> None:
    ada = Person({"thought": "A duck", "folders": ["file:///work"]})
    assert called("Kit.Think", person=ada) == "A duck"
    assert ada.asked[0].request["systemPrompt"] == "Be brief"
    assert called("Kit.Look", person=ada) == ["file:///work"]
    whole = {"role": "assistant", "model": "m", "content": {"type": "image", "data": "", "mimeType": "image/png"}}
    assert called("Kit.Think", person=Person({"thought": whole})) == whole


def test_a_question_without_an_answer_says_what_to_add() -> None:
    for tool_id, sentence in {
        "Kit.Book": "Kit.Book asks 'question-1' (Where to?), and the test has no answer: Person({'question-1': …})",
        "Kit.Think": "Kit.Think asks 'thought' (sampling), and the test has no answer: Person({'thought': …})",
    }.items():
        with pytest.raises(ToolError) as failure:
            call(kit, tool_id, person=Person({"other": 1}))
        assert failure.value.message == sentence


@pytest.mark.parametrize(
    ("tool_id", "answers", "sentence"),
    [
        ("Kit.Book", {"question-1": {"city": "Oslo"}}, "The answer to 'question-1' must fit the form {"),
        ("Kit.Book", {"question-1": TRIP, "sure": "yes"}, "and is {'action': 'accept', 'content': {'value': 'yes'}}"),
        ("Kit.Count", {"n": {"n": "many"}, "more": 1}, "The answer to 'n' must fit the form"),
        ("Kit.Pay", {"pay": "soon"}, "must have an 'action' that is accept, decline or cancel, and is"),
        ("Kit.Think", {"thought": 5}, "The answer to 'thought' must be an object, and is 5"),
        ("Kit.Look", {"folders": "here"}, "must have a list of 'roots', each with a 'uri', and is {'roots': 'here'}"),
    ],
)
def test_an_answer_is_checked_as_a_clients_would_be(tool_id: str, answers: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ToolError) as failure:
        call(kit, tool_id, person=Person(answers))
    assert sentence in failure.value.message


def test_without_a_person_there_is_nobody_to_ask() -> None:
    assert call(kit, "Kit.Look") == ["nobody to ask"]


# --- what tools report ---------------------------------------------------------------------------


@pytest.mark.parametrize("called", [at_once, over_otc, awaited])  # MCP has no place for secrets
def test_progress_and_log_lines_are_kept_without_secrets(called: Called, caplog: pytest.LogCaptureFixture) -> None:
    ada = Person()
    with caplog.at_level(logging.WARNING):
        called("Kit.Report", person=ada, secrets={"PIN": "pin-1234"})
    (half, whole), ((level, message, fields),) = ada.progress, ada.logs
    assert (half[:2], whole) == ((1, 2), (2, 2, None))
    assert (level, message, fields["rows"]) == ("warning", "found", 3)
    assert "pin-1234" not in f"{ada.progress}{ada.logs}"
    assert "found" in caplog.text, "the server's log has it, too"


def test_a_tool_still_hears_that_its_result_is_not_wanted() -> None:
    patient, stopped = Toolkit("Patient"), threading.Event()

    @patient.tool(timeout=0.05)
    def wait(ctx: Context) -> None:
        """Goes on until it is told to stop."""
        while not ctx.cancelled:
            stopped.wait(0.01)
        stopped.set()

    with client(patient, person=Person()) as bound:
        with pytest.raises(ToolError, match="took longer"):
            bound.call("Patient.Wait")
        assert stopped.wait(30)


# --- approvals -----------------------------------------------------------------------------------


@EVERY_WAY
def test_a_person_approves_or_rejects(called: Called) -> None:
    assert called("Kit.Wipe", {"disk": "a"}, person=Person(approves=True)) == "wiped a"
    with pytest.raises(ToolError, match="A person said no"):
        called("Kit.Wipe", {"disk": "a"}, person=Person(approves=False))


@pytest.mark.parametrize("nobody", [None, Person()])
def test_where_nobody_decides_the_call_waits(nobody: Person | None) -> None:
    with client(kit, person=nobody) as bound:
        with pytest.raises(MissingRequirements):
            bound.call("Kit.Wipe", {"disk": "a"}, call_id="a")
        assert bound.show("a")["waitingFor"] == "approval"


@EVERY_WAY
def test_a_person_looks_at_what_they_approve_and_is_asked_after_that(called: Called) -> None:
    decided: list[Any] = []

    def approves(tool_id: str, input: Any) -> bool:
        decided.append((tool_id, dict(input)))
        return bool(input["amount"] < 100)

    ada = Person({"whom": "Bob"}, approves=approves)
    assert called("Kit.Refund", {"amount": 5}, person=ada) == "5 to Bob"
    assert decided == [], "nobody has to agree to that"
    assert called("Kit.Refund", {"amount": 50}, person=ada) == "50 to Bob"
    with pytest.raises(ToolError, match="A person said no"):
        called("Kit.Refund", {"amount": 500}, person=ada)
    assert decided == [("Kit.Refund", {"amount": 50}), ("Kit.Refund", {"amount": 500})]
    assert ada.progress == [(1, None, None), (1, None, None)]


def test_a_call_with_a_key_is_approved_once() -> None:
    decided: list[str] = []
    ada = Person(approves=lambda tool_id, input: not decided.append(tool_id))  # type: ignore[func-returns-value]
    with client(kit, person=ada) as bound:
        for _ in range(2):
            assert bound.call("Kit.Wipe", {"disk": "a"}, call_id="once") == "wiped a"
    assert decided == ["Kit.Wipe"]


def test_an_approved_call_is_waited_for_however_long_it_takes() -> None:
    with client(kit, person=Person(approves=True), sync_wait_s=0.01) as bound:
        assert bound.call("Kit.Wipe", {"disk": "a"}) == "wiped a"


def test_calls_that_wait_at_once_are_each_decided_about() -> None:
    async def main() -> list[Any]:
        ada = Person(approves=lambda tool_id, input: input["disk"] != "c")
        async with async_client(kit, person=ada) as bound:
            calls = (bound.call("Kit.Wipe", {"disk": disk}) for disk in "abc")
            return await asyncio.gather(*calls, return_exceptions=True)

    *wiped, kept = asyncio.run(main())
    assert wiped == ["wiped a", "wiped b"]
    assert "A person said no" in str(kept)


# --- the rest of a server ------------------------------------------------------------------------


def test_two_clients_of_one_toolkit_have_their_own_persons() -> None:
    first, second = Person({"thought": "one"}), Person({"thought": "two"})
    with client(kit, person=first) as one, client(kit, person=second) as two:
        assert [one.call("Kit.Think"), two.call("Kit.Think"), one.call("Kit.Think")] == ["one", "two", "one"]


def test_an_app_keeps_its_hooks_and_resources() -> None:
    async def lifespan() -> Any:
        yield "shared"

    app, heard = App(kit, lifespan=lifespan), []

    @app.around
    async def hook(run: Run, proceed: Any) -> Any:
        heard.append(run.resources)
        run.progress(0, None, "in the hook")
        return await proceed()

    ada = Person({"thought": "x"})
    assert call(app, "Kit.Think", person=ada) == "x"
    assert (heard, ada.progress) == (["shared"], [(0, None, "in the hook")])
    assert app.host.around == [hook], "the app is as it was"


def test_tools_that_come_while_they_are_served_have_the_person_too() -> None:
    changing = Toolkit("Changing")
    with client(changing, person=Person({"thought": "later"})) as bound:
        changing.tool(think)
        assert bound.call("Changing.Think") == "later"
