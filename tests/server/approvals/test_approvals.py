"""A call that a person has to agree to waits for that, on every wire; a yes is for one call, and never its caller's."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from toolyard import Toolkit
from toolyard.model.errors import DefinitionError, SettingsError
from toolyard.server.app.compose import Yard
from toolyard.store.hints import Topic
from toolyard.store.values import MOST_BYTES

from ..console.console_browser import words
from ..scene import Answer, Scene, settings

kit = Toolkit("Pay")
paid: list[tuple[str, int]] = []


@kit.tool(approval="always")
async def refund(order: str, cents: int) -> str:
    """Pays a customer back."""
    paid.append((order, cents))
    return f"{cents} for {order}"


@kit.tool(approval=lambda order, cents: cents > 100)
async def some(order: str, cents: int) -> str:
    """Pays a customer back."""
    return f"{cents} for {order}"


@kit.tool(approval=lambda order, cents: 1 / 0)
async def broken(order: str, cents: int) -> str:
    """Has a rule that does not work."""
    return "done"


@kit.tool()
async def usual(order: str, cents: int = 900) -> str:
    """Pays what is usual, unless it is told how much."""
    return "done"


@kit.tool()
async def exact(order: str, amount: Decimal | bool | None = None) -> str:
    """Takes amounts as numbers and as text."""
    return "done"


@kit.tool(destructive=True, tags=["money"])
async def free(order: str, cents: int) -> str:
    """Needs nobody's yes by itself."""
    return "done"


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    paid.clear()


def run(scene: Callable[[Scene], Awaitable[None]], *others: Toolkit, **more: Any) -> None:
    async def play() -> None:
        async with Scene(Yard([kit, *others], settings(**more))) as made:
            made.credentials["operator"] = {b"authorization": f"Bearer {made.yard.operators_token.text}".encode()}
            await asyncio.wait_for(scene(made), 30)

    asyncio.run(play())


async def oxp(made: Scene, tool: str = "Pay.Refund", role: str = "owner", **more: Any) -> Answer:
    given = {"tool_id": tool, "input": {"order": "7", "cents": 500}} | more
    return await made.send(role, "POST", "/tools/call", given)


async def waiting(made: Scene) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await made.send("operator", "GET", "/v1/admin/approvals")).json["approvals"]
    return listed


async def say(made: Scene, word: str, id: str | None = None, role: str = "operator", **more: Any) -> Answer:
    id = (await waiting(made))[0]["id"] if id is None else id
    path = "/v1/admin/approvals" if role == "operator" else "/v1/approvals"
    return await made.send(role, "POST", f"{path}/{id}/{word}", more)


async def ended(made: Scene, call_id: str) -> dict[str, Any]:
    shown: dict[str, Any] = (await made.send("owner", "GET", f"/v1/calls/{call_id}?wait=10")).json
    return shown


def challenge_of(answer: Answer) -> dict[str, Any]:
    missing = answer.json["missing_requirements"]
    assert (answer.status, missing["approval"]) == (400, True)
    (challenge,) = missing["authorization"]
    return dict(challenge)


async def status(made: Scene, challenge: dict[str, Any]) -> str:
    path = "/" + challenge["check_url"].split("/", 3)[3]
    return str((await made.send("anonymous", "GET", path)).json["status"])


@pytest.mark.parametrize("key", [{}, {"call_id": "k"}])
def test_over_oxp_a_call_waits_and_is_answered_once_somebody_said_yes(key: dict[str, str]) -> None:
    async def scene(made: Scene) -> None:
        challenge = challenge_of(await oxp(made, **key))
        assert challenge_of(await oxp(made, **key)) == challenge, "the same call waits for the same yes"
        assert (await status(made, challenge), paid) == ("pending", [])
        (approval,) = await waiting(made)
        assert (approval["tool"], approval["input"], approval["caller"]["subject"]) == (
            "Pay.Refund@0.1.0", {"order": "7", "cents": 500}, "ada",
        )  # fmt: skip
        assert (await say(made, "approve")).status == 200
        assert await status(made, challenge) == "completed"
        await ended(made, approval["callId"])
        answer = await oxp(made, **key)
        assert (answer.status, answer.json["value"], paid) == (200, "500 for 7", [("7", 500)])

    run(scene, sync_wait_s=0.1)


def test_nobody_is_asked_about_what_they_are_not_shown() -> None:
    async def scene(made: Scene) -> None:
        large = {"order": "x" * 300_000, "cents": 1}
        await oxp(made, input=large)
        (approval,) = await waiting(made)
        assert approval["input"] == large

    run(scene)


def test_nobodys_many_calls_keep_anothers_from_being_seen() -> None:
    async def scene(made: Scene) -> None:
        for number in range(5):
            await oxp(made, input={"order": f"ada {number}", "cents": 1})
        await oxp(made, role="neighbour", input={"order": "the other's", "cents": 1})
        listed = (await made.send("operator", "GET", "/v1/admin/approvals?limit=3")).json
        orders = [each["input"]["order"] for each in listed["approvals"]]
        assert orders == ["ada 0", "ada 1", "the other's"]
        assert listed["more"] == 3
        assert len(await waiting(made)) == 6
        assert (await made.send("operator", "GET", "/v1/admin/approvals?limit=1001")).status == 422

    run(scene)


def test_a_list_of_large_calls_ends_before_it_is_too_much_to_hold() -> None:
    async def scene(made: Scene) -> None:
        for number in range(3):
            await oxp(made, input={"order": "x" * (MOST_BYTES // 2), "cents": number})
        await oxp(made, role="neighbour", input={"order": "small", "cents": 1})
        listed = (await made.send("operator", "GET", "/v1/admin/approvals")).json
        assert [each["caller"]["subject"] for each in listed["approvals"]] == ["ada", "ada", "bob"]
        assert listed["more"] == 1

    run(scene, max_body_bytes=2 * MOST_BYTES)


def test_the_page_shows_the_first_part_of_a_long_input_and_says_so() -> None:
    async def scene(made: Scene) -> None:
        challenge = challenge_of(await oxp(made, input={"order": "\u202e" * 400_000, "cents": 1}))
        shown = await Page(made, challenge["url"]).open()
        assert "the first 20,000 of " in shown
        assert "toolyard show" in shown
        assert len(shown) < 300_000

    run(scene)


def test_a_yes_to_a_call_whose_tool_is_gone_says_that_nothing_was_done() -> None:
    async def scene(made: Scene) -> None:
        await oxp(made, call_id="k")
        (tool,) = [tool for tool in made.yard.catalogue.all() if tool.id == "Pay.Refund"]
        made.yard.catalogue.remove(tool)
        await say(made, "approve")
        shown = await ended(made, "k")
        assert (shown["code"], shown["effects"], paid) == ("tool_failed", "none", [])
        assert shown["error"]["message"].startswith("The call was not begun: ")
        made.yard.catalogue.add(tool)

    run(scene)


def test_a_yes_is_for_one_call() -> None:
    async def scene(made: Scene) -> None:
        first = challenge_of(await oxp(made))
        await say(made, "approve")
        assert (await oxp(made)).json["value"] == "500 for 7"
        second = challenge_of(await oxp(made))
        assert second["id"] != first["id"]
        assert (await say(made, "approve", first["id"])).status == 409
        assert paid == [("7", 500)]

    run(scene)


def test_a_yes_is_for_one_input_and_one_caller() -> None:
    async def scene(made: Scene) -> None:
        await oxp(made)
        await say(made, "approve")
        challenge_of(await oxp(made, input={"order": "7", "cents": 501}))
        challenge_of(await oxp(made, role="neighbour"))
        assert [each["caller"]["subject"] for each in await waiting(made)] == ["ada", "bob"]

    run(scene)


def test_a_no_ends_it_with_the_reason() -> None:
    async def scene(made: Scene) -> None:
        challenge = challenge_of(await oxp(made))
        assert (await say(made, "reject", reason="wrong order")).status == 200
        assert await status(made, challenge) == "failed"
        answer = await oxp(made)
        assert (answer.status, answer.json["success"]) == (200, False)
        assert "wrong order" in answer.json["error"]["message"]
        assert paid == []

    run(scene)


def test_a_reason_of_spaces_is_none() -> None:
    async def scene(made: Scene) -> None:
        challenge_of(await oxp(made))
        assert (await say(made, "reject", reason=" \t ")).status == 200
        assert (await oxp(made)).json["error"]["message"] == "A person said no"

    run(scene)


def test_a_yes_that_never_comes() -> None:
    async def scene(made: Scene) -> None:
        challenge = challenge_of(await oxp(made, call_id="k"))
        shown = await ended(made, "k")
        assert shown["code"] == "timed_out"
        assert shown["error"]["message"] == "Nobody decided about the call in 0.05 seconds"
        assert await status(made, challenge) == "failed"
        assert (await say(made, "approve", challenge["id"])).status == 409
        assert paid == []

    run(scene, approval_wait_s=0.05)


def test_a_function_of_the_input_may_say_whether() -> None:
    async def scene(made: Scene) -> None:
        assert (await oxp(made, "Pay.Some", input={"order": "7", "cents": 100})).json["value"] == "100 for 7"
        challenge_of(await oxp(made, "Pay.Some", input={"order": "7", "cents": 101}))
        challenge_of(await oxp(made, "Pay.Broken"))
        assert (await oxp(made, "Pay.Free")).json["value"] == "done"

    run(scene)


async def later(order: str, cents: int) -> bool:
    return False


def in_words(**input: Any) -> str:
    return "no"


def test_a_function_that_says_neither_yes_nor_no_spares_nobody_the_look() -> None:
    async def scene(made: Scene) -> None:
        challenge_of(await oxp(made))

    run(scene, approvals=[{"when": f"{__name__}:in_words", "ask": False}])


def is_seven(order: str, **more: Any) -> bool:
    return order == "7"


@pytest.mark.parametrize(
    ("rule", "waits"),
    [
        ({"tools": "@destructive"}, True),
        ({"tools": "#money", "over": {"cents": 499}}, True),
        ({"tools": "#money", "over": {"cents": 500}}, False),
        ({"tools": "Pay.Free", "who": {"subject": "ada"}}, True),
        ({"tools": "Pay.Free", "who": {"subject": "bob"}}, False),
        ({"tools": "Pay.*", "when": f"{__name__}:is_seven"}, True),
        ({"tools": "Other.*"}, False),
    ],
)
def test_rules_in_the_settings_say_whether(rule: dict[str, Any], waits: bool) -> None:
    async def scene(made: Scene) -> None:
        assert (await oxp(made, "Pay.Free")).status == (400 if waits else 200)

    run(scene, approvals=[rule])


@pytest.mark.parametrize(("cents", "waits"), [({}, True), ({"cents": 100}, False), ({"cents": 501}, True)])
def test_what_is_left_out_counts_as_what_the_tool_takes(cents: dict[str, int], waits: bool) -> None:
    async def scene(made: Scene) -> None:
        assert (await oxp(made, "Pay.Usual", input={"order": "7"} | cents)).status == (400 if waits else 200)

    run(scene, approvals=[{"tools": "Pay.Usual", "over": {"cents": 500}}])


@pytest.mark.parametrize(
    ("amount", "waits"),
    [(501, True), (500.5, True), ("500.01", True), ("1e9", True), ("500", False), (None, True), (True, True)],
)
def test_an_amount_may_be_text_and_what_is_none_is_looked_at(amount: Any, waits: bool) -> None:
    async def scene(made: Scene) -> None:
        answer = await oxp(made, "Pay.Exact", input={"order": "7", "amount": amount})
        assert answer.status == (400 if waits else 200)

    run(scene, approvals=[{"tools": "Pay.Exact", "over": {"amount": 500}}])


def test_a_rule_may_spare_whom_it_trusts() -> None:
    async def scene(made: Scene) -> None:
        assert (await oxp(made)).json["value"] == "500 for 7"
        challenge_of(await oxp(made, role="neighbour"))

    run(scene, approvals=[{"who": {"subject": "ada"}, "ask": False}])


def raises(**input: Any) -> bool:
    raise RuntimeError("it does not work")


class Leaving(RuntimeError):
    """Ends whoever writes it down."""

    def __repr__(self) -> str:
        raise SystemExit(9)

    __str__ = __repr__


KINDS: list[type[BaseException]] = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, Leaving]
LEAVING = {kind.__name__: kind for kind in KINDS}


@pytest.mark.parametrize(("function", "is_spared"), [("is_seven", True), ("raises", False)])
def test_a_rule_whose_function_raises_spares_nobody_the_look(function: str, is_spared: bool) -> None:
    async def scene(made: Scene) -> None:
        answer = await oxp(made)
        assert (answer.status, paid) == ((200, [("7", 500)]) if is_spared else (400, []))
        assert (await oxp(made, "Pay.Free")).status == 200, "which needs no yes, whether the rule holds or not"

    run(scene, approvals=[{"tools": "Pay.*", "when": f"{__name__}:{function}", "ask": False}])


def test_a_rule_whose_function_raises_has_a_person_look() -> None:
    async def scene(made: Scene) -> None:
        challenge_of(await oxp(made, "Pay.Free"))

    run(scene, approvals=[{"tools": "Pay.*", "when": f"{__name__}:raises"}])


@pytest.mark.parametrize("kind", LEAVING)
@pytest.mark.parametrize("whose", ["tool", "rule"])
def test_whatever_a_function_raises_a_person_looks(kind: str, whose: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**input: Any) -> bool:
        raise LEAVING[kind]

    monkeypatch.setitem(globals(), "raises", fail)
    own = Toolkit("Own")

    @own.tool(approval=fail)
    async def asks(order: str, cents: int) -> str:
        """Its author's function says whether a person has to agree."""
        return order

    async def scene(made: Scene) -> None:
        challenge_of(await oxp(made, "Own.Asks" if whose == "tool" else "Pay.Free"))

    run(scene, own, approvals=[] if whose == "tool" else [{"tools": "Pay.*", "when": f"{__name__}:raises"}])


def is_much(order: str, cents: int) -> bool:
    return cents > 500


@pytest.mark.parametrize(("cents", "waits"), [({}, True), ({"cents": 100}, False), ({"cents": 501}, True)])
def test_a_function_is_asked_about_what_the_tool_takes(cents: dict[str, int], waits: bool) -> None:
    async def scene(made: Scene) -> None:
        assert (await oxp(made, "Pay.Usual", input={"order": "7"} | cents)).status == (400 if waits else 200)

    run(scene, approvals=[{"tools": "Pay.Usual", "when": f"{__name__}:is_much"}])


def test_a_function_that_does_not_fit_a_tool_of_its_rule_is_refused() -> None:
    async def scene(made: Scene) -> None:
        raise AssertionError("it must not start")

    line = is_much.__code__.co_firstlineno
    said = r"approvals\[1\]\.when cannot be asked about Pay\.Exact: is_much has no parameter 'amount'"
    with pytest.raises(DefinitionError, match=said) as refused:
        run(scene, approvals=[{"tools": "Pay.*", "when": f"{__name__}:is_much"}])
    assert str(refused.value).startswith(f"{__file__}:{line}: ")


def test_a_warning_about_a_function_names_its_tool(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(made: Scene) -> None:
        challenge_of(await oxp(made, "Pay.Broken"))
        challenge_of(await oxp(made))

    run(scene, approvals=[{"tools": "Pay.Refund", "when": f"{__name__}:in_words"}])
    said = [record.getMessage() for record in caplog.records if record.name == "toolyard.approvals"]
    assert ["Pay.Broken" in said[0], "Pay.Refund" in said[1]] == [True, True]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"over": {"cents": "many"}}, "must be a table of finite numbers"),
        ({"over": {"cents": float("nan")}}, "must be a table of finite numbers"),
        ({"over": {"cents": float("inf")}}, "must be a table of finite numbers"),
        ({"when": "nowhere:f"}, "cannot be had"),
        ({"when": "text"}, "must name a function"),
        ({"when": f"{__name__}:later"}, "must be a function that is not async"),
        ({"when": f"{__name__}:kit"}, "must be a function that is not async"),
        ({"when": "broken_rules:f"}, r"approvals\[1\].when: broken_rules:f cannot be had: SyntaxError: "),
        ({"when": "leaving_rules:f"}, "cannot be had: SystemExit: 3"),
        ({"ask": "yes"}, "must be true or false"),
        ({"tool": "x"}, "has no 'tool'"),
    ],
)
def test_a_rule_that_is_none_is_refused(
    rule: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_rules.py").write_text("def f(:")
    (tmp_path / "leaving_rules.py").write_text("import sys; sys.exit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingsError, match=said):
        settings(approvals=[rule])


@pytest.mark.parametrize("key", ["", "k"])
def test_calls_that_wait_count_by_the_minute_and_not_at_once(key: str) -> None:
    """Or whoever is limited could still fill a person's list."""

    async def scene(made: Scene) -> None:
        def call(number: int) -> dict[str, Any]:
            given: dict[str, Any] = {"input": {"order": str(number), "cents": 1}}
            return given | ({"call_id": f"{key}{number}"} if key else {})

        for number in range(3):
            challenge_of(await oxp(made, **call(number)))
        if key:  # then it is known, and does not count
            challenge_of(await oxp(made, **call(0)))
        assert (await oxp(made, **call(3))).json["retry_after_ms"] > 0
        assert len(await waiting(made)) == 3

    run(scene, limits=[{"calls_per_minute": 3, "at_once": 1}], sync_wait_s=0.1)


# --- other wires ---------------------------------------------------------------------------------

ABOUT = {"name": "Pay_Refund", "arguments": {"order": "7", "cents": 500}}


async def over_newer(made: Scene, **key: str) -> Any:
    meta = {"_meta": {"toolyard/callId": key["call_id"]}} if key else {}
    return (await made.newer("owner", "tools/call", ABOUT | meta, "Pay_Refund", can={"elicitation": {"url": {}}})).json


async def over_older(made: Scene, **key: str) -> Any:
    meta = {"_meta": {"toolyard/callId": key["call_id"]}} if key else {}
    return (await made.older("owner", "tools/call", ABOUT | meta, await made.opened("owner"))).json


async def over_oxp(made: Scene, **key: str) -> Any:
    return (await oxp(made, **key)).json


async def held(made: Scene, retry: "asyncio.Task[Any]") -> None:
    """Once the server waits for a person, and has not answered."""
    hints = made.yard.store.hints
    while not hints.watched(Topic.DECIDED):
        assert not retry.done(), retry.result()
        await asyncio.sleep(0)
    assert not retry.done()


@pytest.mark.parametrize("key", [{}, {"call_id": "k"}])
@pytest.mark.parametrize("over", [over_oxp, over_newer, over_older])
def test_who_calls_again_with_nothing_new_has_the_answer_as_soon_as_a_person_has_decided(
    over: Callable[..., Awaitable[Any]], key: dict[str, str]
) -> None:
    async def scene(made: Scene) -> None:
        first = json.dumps(await over(made, **key))
        assert (await waiting(made))[0]["id"] in first
        retry = asyncio.ensure_future(over(made, **key))
        await held(made, retry)
        await say(made, "approve")
        answer = json.dumps(await retry)
        assert ("500 for 7" in answer, paid) == (True, [("7", 500)])

    run(scene)


def test_a_task_that_waits_for_a_person_is_shown_again_as_soon_as_it_no_longer_does() -> None:
    async def scene(made: Scene) -> None:
        session = await made.opened("owner")
        task = (await made.older("owner", "tools/call", {**ABOUT, "task": {}}, session)).json["result"]["task"]

        async def shown() -> Any:
            return (await made.older("owner", "tasks/get", {"taskId": task["taskId"]}, session)).json["result"]

        assert (await shown())["status"] == "input_required"
        again = asyncio.create_task(shown())
        await held(made, again)
        await say(made, "reject")
        assert (await again)["status"] == "failed"

    run(scene)


@pytest.mark.parametrize("over", [over_oxp, over_newer, over_older])
def test_who_is_held_when_the_server_stops_is_told_again(over: Callable[..., Awaitable[Any]]) -> None:
    async def scene(made: Scene) -> None:
        await over(made)
        (approval,) = await waiting(made)
        retry = asyncio.ensure_future(over(made))
        await held(made, retry)
        made.yard.let_go()
        assert approval["id"] in json.dumps(await retry)

    run(scene)


def test_over_the_newer_mcp_a_person_is_sent_to_the_page() -> None:
    async def scene(made: Scene) -> None:
        answer = (await made.newer("owner", "tools/call", ABOUT, "Pay_Refund", can={"elicitation": {"url": {}}})).json
        (asked,) = answer["result"]["inputRequests"].values()
        assert (answer["result"]["resultType"], asked["params"]["mode"]) == ("input_required", "url")
        assert asked["params"]["url"].endswith((await waiting(made))[0]["id"])
        await say(made, "approve")
        answer = (await made.newer("owner", "tools/call", ABOUT, "Pay_Refund", can={"elicitation": {"url": {}}})).json
        assert answer["result"]["structuredContent"] == "500 for 7"

    run(scene)


def test_over_the_newer_mcp_who_cannot_send_a_person_has_the_link_as_text() -> None:
    """The call waits, so that it is impossible would not be true."""

    async def scene(made: Scene) -> None:
        answer = (await made.newer("owner", "tools/call", ABOUT, "Pay_Refund", can={})).json["result"]
        (waits,) = await waiting(made)
        assert answer["isError"]
        assert waits["id"] in answer["content"][0]["text"]

    run(scene)


def test_over_the_older_mcp_an_error_has_the_link() -> None:
    async def scene(made: Scene) -> None:
        session = await made.opened("owner")
        answer = (await made.older("owner", "tools/call", ABOUT, session)).json
        said = json.dumps(answer)
        assert (await waiting(made))[0]["url"] in said
        await say(made, "approve")
        answer = (await made.older("owner", "tools/call", ABOUT, session)).json
        assert answer["result"]["structuredContent"] == {"result": "500 for 7"}

    run(scene)


def test_a_task_waits_for_input_and_goes_on_by_itself() -> None:
    async def scene(made: Scene) -> None:
        session = await made.opened("owner")
        task = (await made.older("owner", "tools/call", {**ABOUT, "task": {}}, session)).json["result"]["task"]
        assert task["status"] == "input_required"
        await say(made, "approve")
        assert (await ended(made, task["taskId"]))["state"] == "COMPLETE"
        shown = (await made.older("owner", "tasks/get", {"taskId": task["taskId"]}, session)).json["result"]
        assert (shown["status"], paid) == ("completed", [("7", 500)])

    run(scene)


@pytest.mark.parametrize("word", ["approve", "reject"])
def test_a_session_gets_one_result_for_its_tool_use(word: str) -> None:
    async def scene(made: Scene) -> None:
        session = (await made.send("owner", "POST", "/v1/sessions", {})).json["sessionId"]
        use = {"type": "tool_use", "id": "t-1", "name": "Pay_Refund", "input": {"order": "7", "cents": 500}}
        path = f"/v1/sessions/{session}"
        await made.send("owner", "POST", f"{path}/messages", {"role": "assistant", "content": [use]})
        shown = (await made.send("owner", "GET", f"/v1/tools/request/{session}/t-1")).json
        assert (shown["state"], shown["waitingFor"], paid) == ("PENDING", "approval", [])
        await say(made, word)
        results = (await made.send("owner", "GET", f"{path}/results?wait=10")).json
        assert len(results["message"]["content"]) == 1
        assert bool(paid) is (word == "approve")

    run(scene)


def test_a_workers_call_is_claimed_once_somebody_said_yes() -> None:
    async def scene(made: Scene) -> None:
        tool = {"id": "Far.Pay", "description": "Pays.", "input_schema": {"type": "object"}, "approval": True}
        assert (await made.send("owner", "PUT", "/v1/workers/one", {"tools": [tool]})).status == 200
        as_one = {b"toolyard-worker": b"one"}
        challenge_of(await oxp(made, "Far.Pay", input={}, call_id="k"))
        assert (await made.send("owner", "POST", "/v1/tools/claim", {}, as_one)).json["claims"] == []
        await say(made, "approve")
        (claim,) = (await made.send("owner", "POST", "/v1/tools/claim", {}, as_one)).json["claims"]
        assert "Far.Pay@1.0.0" in claim.values()

    run(scene)


# --- who may say so ------------------------------------------------------------------------------


def test_nobody_says_yes_to_a_call_of_their_own() -> None:
    async def scene(made: Scene) -> None:
        challenge_of(await oxp(made))
        (approval,) = await waiting(made)
        assert "code" in approval
        for role in ("owner", "neighbour", "foreigner"):
            assert (await say(made, "approve", approval["id"], role)).status == 403
            assert (await made.send(role, "POST", f"/v1/admin/approvals/{approval['id']}/approve", {})).status == 401
        approver = made.bearer("acme", "ada", scope="approve")
        made.credentials["herself"] = approver
        assert (await say(made, "approve", approval["id"], "herself")).status == 403
        made.credentials["stranger"] = made.bearer("other", "eve", scope="approve")
        assert (await say(made, "approve", approval["id"], "stranger")).status == 404
        made.credentials["boss"] = made.bearer("acme", "eve", scope="approve")
        listed = (await made.send("boss", "GET", "/v1/approvals")).json["approvals"]
        assert [each["id"] for each in listed] == [approval["id"]]
        assert "code" not in listed[0]
        assert (await say(made, "approve", approval["id"], "boss")).status == 200
        assert (await oxp(made)).json["value"] == "500 for 7"

    run(scene)


class Page:
    """A browser at an approval's page."""

    def __init__(self, made: Scene, url: str) -> None:
        self._made, self.path = made, "/" + url.split("/", 3)[3]
        self._cookie, self._form = b"", ""

    async def open(self) -> str:
        answer = await self._made.send("anonymous", "GET", self.path, None, {b"cookie": self._cookie})
        headers = dict(answer.headers)
        if b"set-cookie" in headers:
            self._cookie = headers[b"set-cookie"].split(b";")[0]
        found = re.search(r"name='form' value='([^']+)'", answer.body.decode())
        self._form = found[1] if found else ""
        return answer.body.decode()

    async def send(self, say: str, code: str, origin: bytes = b"http://localhost", **more: str) -> Answer:
        twice = more.pop("twice", "")
        fields = {"form": self._form, "code": code, "say": say} | more
        return await self._made.send_form(
            self.path, (urlencode(fields) + twice).encode(), {b"cookie": self._cookie, b"origin": origin}
        )


def page_of(made: Scene, approval: dict[str, Any]) -> Page:
    return Page(made, approval["url"])


def test_an_approver_decides_about_tools_that_it_sees() -> None:
    async def scene(made: Scene) -> None:
        challenge = challenge_of(await oxp(made))
        made.credentials["boss"] = made.bearer("acme", "eve", scope="approve")
        assert (await made.send("boss", "GET", "/v1/approvals")).json["approvals"] == []
        assert (await say(made, "approve", challenge["id"], "boss")).status == 404

    run(scene, access=[{"who": {"subject": "ada"}}])


def test_who_presses_no_button_decides_nothing() -> None:
    async def scene(made: Scene) -> None:
        challenge_of(await oxp(made))
        (approval,) = await waiting(made)
        page = page_of(made, approval)
        await page.open()
        assert (await page.send("", approval["code"])).status == 403
        assert await waiting(made) == [approval]

    run(scene)


def test_a_form_that_says_something_twice_decides_nothing() -> None:
    async def scene(made: Scene) -> None:
        challenge_of(await oxp(made))
        (approval,) = await waiting(made)
        page = page_of(made, approval)
        await page.open()
        answer = await page.send("no", approval["code"], twice="&say=yes")
        assert (answer.status, b"The form says something twice" in answer.body) == (403, True)
        assert await waiting(made) == [approval]

    run(scene)


def test_the_page_writes_a_subject_as_it_is() -> None:
    async def scene(made: Scene) -> None:
        challenge_of(await oxp(made))
        (approval,) = await waiting(made)
        made.credentials["boss"] = made.bearer("acme", "boss", scope="approve")
        assert (await say(made, "approve", approval["id"], "boss")).status == 200
        assert "It was approved by boss." in await page_of(made, approval).open()

    run(scene)


def test_who_has_the_code_decides_at_the_page() -> None:
    async def scene(made: Scene) -> None:
        challenge = challenge_of(await oxp(made, input={"order": "<script>alert(1)</script>", "cents": 1}))
        (approval,) = await waiting(made)
        page = Page(made, challenge["url"])
        shown = await page.open()
        assert "&lt;script&gt;" in shown
        assert "<script" not in shown
        assert approval["code"] not in shown
        assert (await page.send("yes", "AAAA-AAAA")).status == 403
        assert (await page.send("yes", approval["code"], b"https://evil.example")).status == 403
        assert (await page.send("yes", approval["code"], form="another")).status == 403
        assert (await waiting(made)) == [approval]
        done = await page.send("yes", approval["code"].lower())
        assert (done.status, b"approved" in done.body) == (200, True)
        for code in (approval["code"], "AAAA-AAAA"):
            late = await page.send("no", code)
            assert (late.status, b"Nothing was decided" in late.body) == (403, True), "a code ends with its call"
        assert len(paid) == 1 or (await ended(made, approval["callId"]))["state"] == "COMPLETE"

    run(scene)


@pytest.mark.parametrize("say", ["approve", "reject"])
def test_the_link_of_a_call_that_has_ended_shows_nothing_of_it(say: str) -> None:
    async def scene(made: Scene) -> None:
        challenge_of(await oxp(made, input={"order": "a-secret-order", "cents": 1}, call_id="the-call"))
        (approval,) = await waiting(made)
        page = page_of(made, approval)
        assert "a-secret-order" in await page.open()
        await made.send("operator", "POST", f"/v1/admin/approvals/{approval['id']}/{say}", {"reason": "a-bad-reason"})
        await ended(made, "the-call")
        late = [(await page.send("yes", approval["code"])).body.decode(), await page.open()]
        for shown in late:
            assert "has ended" in shown
            for told in ("a-secret-order", "a-bad-reason", "the-call", "ada", "Pay.Refund"):
                assert told not in shown, told

    run(scene)


def test_links_codes_and_results_are_one_calls_whatever_number_another_has() -> None:
    """Numbers are not given twice. Were one, what was made for the first call would be good for nothing still."""

    async def scene(made: Scene) -> None:
        challenge = challenge_of(await oxp(made, input={"order": "ada's", "cents": 1}))
        (approval,) = await waiting(made)
        page = Page(made, challenge["url"])
        await page.open()
        await made.yard.store._writer.write(  # type: ignore[attr-defined]
            lambda cursor: cursor.execute("DELETE FROM calls; UPDATE numbers SET last = 0").fetchall()
        )
        challenge_of(await oxp(made, role="neighbour", input={"order": "bob's", "cents": 2}))
        (other,) = await waiting(made)
        assert other["id"].partition("-")[0] == approval["id"].partition("-")[0]
        assert (await page.send("yes", approval["code"])).status == 403
        assert (await made.send("anonymous", "GET", f"/approvals/{approval['id']}")).status == 410
        assert await status(made, challenge) == "failed"
        assert (await say(made, "approve", approval["id"])).status == 404
        assert other["code"] != approval["code"]
        assert (await waiting(made), paid) == ([other], [])
        assert (await say(made, "approve", other["id"])).status == 200
        assert challenge_of(await oxp(made, input={"order": "ada's", "cents": 1})) != challenge, "a call of its own"
        answer = await oxp(made, role="neighbour", input={"order": "bob's", "cents": 2})
        assert (answer.json["value"], paid) == ("2 for bob's", [("bob's", 2)])

    run(scene)


def test_the_page_says_what_the_tool_does_and_what_happens_next() -> None:
    async def scene(made: Scene) -> None:
        challenge = challenge_of(await oxp(made, "Pay.Free"))
        (approval,) = await waiting(made)
        page = Page(made, challenge["url"])
        shown = words(await page.open())
        assert "What it does Needs nobody's yes by itself." in shown
        assert "Hints destructive Who asks" in shown
        assert re.search(r"Asked \d+ s ago", shown)
        done = words((await page.send("yes", approval["code"])).body.decode())
        assert "It was approved by a person with its code. The tool " in done
        assert not re.search("PENDING|PROCESSING|COMPLETE", done)

    run(scene, approvals=[{"tools": "Pay.Free"}])


def test_a_model_is_told_to_make_the_same_call_again() -> None:
    async def scene(made: Scene) -> None:
        assert "make the same call again, with the same input" in (await oxp(made)).json["message"]
        answer = (await made.newer("owner", "tools/call", ABOUT, "Pay_Refund", can={})).json["result"]
        assert "make the same call again, with the same input" in answer["content"][0]["text"]

    run(scene, sync_wait_s=0.1)


def test_codes_are_not_guessed() -> None:
    async def scene(made: Scene) -> None:
        challenge = challenge_of(await oxp(made))
        (approval,) = await waiting(made)
        page = Page(made, challenge["url"])
        await page.open()
        for _ in range(10):
            assert (await page.send("yes", "AAAA-AAAA")).status == 403
        answer = await page.send("yes", approval["code"])
        assert (answer.status, b"Too many wrong codes" in answer.body) == (403, True)
        for shown in (answer.body.decode(), await page.open()):
            assert ("<form" in shown, "Ask an operator" in shown) == (False, True)
        assert await waiting(made) == [approval]

    run(scene)


def test_wrong_codes_count_also_after_a_restart(tmp_path: Path) -> None:
    found: dict[str, str] = {}

    async def guess(made: Scene) -> None:
        found["url"] = challenge_of(await oxp(made))["url"]
        (approval,) = await waiting(made)
        found["code"] = approval["code"]
        page = Page(made, found["url"])
        await page.open()
        for _ in range(10):
            assert (await page.send("yes", "AAAA-AAAA")).status == 403

    async def again(made: Scene) -> None:
        page = Page(made, found["url"])
        assert "Ask an operator" in await page.open()
        assert len(await waiting(made)) == 1

    run(guess, store=f"sqlite:{tmp_path / 'toolyard.db'}")
    run(again, store=f"sqlite:{tmp_path / 'toolyard.db'}")


def test_of_many_tries_at_once_none_is_one_too_many() -> None:
    async def scene(made: Scene) -> None:
        await oxp(made)
        desk = made.yard._decisions.approvals
        (call,) = await desk.waiting()
        compared: list[str] = []
        is_code = desk.links.is_code

        def noted(given: str, call: Any) -> bool:
            compared.append(given)
            return is_code(given, call)

        desk.links.is_code = noted  # type: ignore[method-assign]
        await asyncio.gather(*(desk.is_code(f"AAAA-{number:04d}", call) for number in range(30)))
        assert len(compared) == 10

    run(scene)


def test_an_address_that_was_not_given_out_is_none() -> None:
    async def scene(made: Scene) -> None:
        challenge = challenge_of(await oxp(made))
        forged = challenge["id"][:-2] + "AA"
        assert (await made.send("anonymous", "GET", f"/approvals/{forged}")).status == 410
        assert (await made.send("anonymous", "GET", f"/approvals/{forged}/status")).json == {"status": "failed"}
        assert (await made.send("anonymous", "GET", "/approvals/1")).status == 410

    run(scene)


@pytest.mark.parametrize(
    ("rules", "says", "spares"),
    [
        ([], {"approval": "by the tool itself"}, ""),
        ([{"tools": "Pay.*", "name": "money"}], {"approval": "by the rule money"}, ""),
        ([{"who": {"subject": "ada"}, "ask": False}], {}, "approvals[1]"),
        (
            [{"over": {"cents": 5}, "ask": False, "name": "odd"}],
            {"approval": "by the tool itself, unless the rule odd spares it"},
            "",
        ),
    ],
)
def test_an_operator_is_told_what_asks_for_it(rules: list[dict[str, Any]], says: dict[str, str], spares: str) -> None:
    async def scene(made: Scene) -> None:
        about = {"tool": "Pay.Refund", "subject": "ada", "tenant": "acme"}
        found = (await made.send("operator", "POST", "/v1/admin/explain", about)).json
        assert (found["requirements"], found["spared_by"]) == (says, spares)

    run(scene, approvals=rules)


async def audited(made: Scene) -> list[dict[str, Any]]:
    blocks = await made.yard.store.audit.blocks("main", 0, 100)
    entries = [json.loads(line) for block in blocks for line in block.entries.splitlines()]
    return [each for each in entries if each["kind"] == "approval"]


DECIDED = {"kind": "approval", "tool": "Pay.Refund@0.1.0", "call": "k", "asked_by": "acme/ada"}


def test_what_was_decided_is_in_the_audit_log_in_the_same_words_whichever_way_it_came() -> None:
    async def scene(made: Scene) -> None:
        made.credentials["boss"] = made.bearer("acme", "eve", scope="approve")
        for way in ("operator", "boss", "page"):
            before = await audited(made)
            await oxp(made, call_id="k" if way == "operator" else f"k-{way}")
            (approval,) = await waiting(made)
            if way == "page":
                page = page_of(made, approval)
                await page.open()
                await page.send("no", approval["code"], reason="too much")
            else:
                await say(made, "reject", role=way, reason="too much")
            by = {"operator": "an operator", "boss": "eve", "page": "a person with its code"}[way]
            (entry,) = [each for each in await audited(made) if each not in before]
            about = DECIDED | {"call": approval["callId"], "by": by, "code": "rejected", "reason": "too much"}
            assert entry.items() >= about.items()
            assert entry["fp"]
            assert (entry.get("sub"), entry.get("tenant")) == (("eve", "acme") if way == "boss" else (None, None))

    run(scene, audit="strict")


def test_a_yes_is_in_the_audit_log_as_well() -> None:
    async def scene(made: Scene) -> None:
        await oxp(made, call_id="k")
        await say(made, "approve")
        (entry,) = await audited(made)
        assert entry.items() >= (DECIDED | {"by": "an operator", "code": "approved"}).items()
        assert "reason" not in entry

    run(scene, audit="strict")


def test_tries_that_were_refused_are_in_the_audit_log() -> None:
    async def scene(made: Scene) -> None:
        await oxp(made, call_id="k")
        (approval,) = await waiting(made)
        made.credentials["herself"] = made.bearer("acme", "ada", scope="approve")
        made.credentials["stranger"] = made.bearer("other", "eve", scope="approve")
        page = page_of(made, approval)
        await page.open()
        await say(made, "approve", approval["id"], "owner")
        await say(made, "approve", approval["id"], "herself")
        await say(made, "reject", approval["id"], "stranger")
        await page.send("yes", "AAAA-AAAA")
        await say(made, "approve", "1-nothing", "herself")
        await say(made, "approve", "4711")
        await say(made, "reject", approval["id"])
        await say(made, "approve", approval["id"])
        *refused, no_such, no_number, _, late = await audited(made)
        assert all(each.items() >= DECIDED.items() for each in (*refused, late))
        assert [(each["by"], each["code"], each["rule"]) for each in (*refused, late)] == [
            ("ada", "approve_refused", "These credentials are not for approve"),
            ("ada", "approve_refused", "Nobody approves a call of their own"),
            ("eve", "reject_refused", "There is no such approval; it may have been decided long ago"),
            ("a person without its code", "approve_refused", "a wrong code"),
            ("an operator", "approve_refused", "an operator has rejected it already"),
        ]
        assert [(each["by"], each["code"], each["tool"], "call" in each) for each in (no_such, no_number)] == [
            ("ada", "approve_refused", "/v1/approvals/1-nothing/approve", False),
            ("an operator", "approve_refused", "/v1/admin/approvals/4711/approve", False),
        ]

    run(scene, audit="strict")
