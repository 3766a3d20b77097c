"""The console's pages: what they show, that all of it is inert, and what their buttons do."""

import asyncio
import json
import re
from typing import Any

import pytest

from toolyard import Context, Toolkit, authorization, secret, user_id
from toolyard.server.pages.layout import MOST_CHARACTERS

from ..scene import Answer, Scene
from .console_browser import audited, came_in, decided, run, words

HOSTILE = "<script>alert('1')</script>\u202egnp.exe\u2066\U000e0041"
SPELLED = ("\\u{202E}", "\\u{2066}", "\\u{E0041}")
kit = Toolkit("Pay", version="1.2.3")
paid: list[str] = []
let_go: list[asyncio.Event] = []


@kit.tool(approval="always", destructive=True)
async def refund(order: str) -> str:
    """Pays a customer <b>back</b>."""
    paid.append(order)
    return f"paid {order}"


@kit.tool(read_only=True, title="Looks <i>it</i> up", tags=["money"])
async def look(text: str) -> str:
    """Says it again."""
    return text


@kit.tool(requires=[secret("BANK_KEY"), authorization("bank", scopes=["pay"]), user_id])
async def needy() -> None:
    """Needs a lot."""


@kit.tool
async def stay(text: str, ctx: Context) -> str:
    """Stays until it is let go."""
    ctx.progress(1, 4, text)
    let_go[0].set()
    await asyncio.Event().wait()
    return text


@pytest.fixture(autouse=True)
def afresh() -> None:
    paid.clear()
    let_go[:] = [asyncio.Event()]


async def ask(made: Scene, tool: str = "Pay.Refund", role: str = "owner", **more: Any) -> Answer:
    given = {"tool_id": tool, "input": {"order": "7"}} | more
    return await made.send(role, "POST", "/tools/call", given)


async def seq(made: Scene) -> int:
    """Of the call that waits."""
    (call,) = await made.yard._decisions.approvals.waiting()
    return call.seq


async def at(made: Scene) -> str:
    """Where the buttons of the call that waits are."""
    (call,) = await made.yard._decisions.approvals.waiting()
    return f"/approvals/{made.yard.approval_links.id_of(call.name)}"


def is_inert(text: str) -> bool:
    """Whether nothing of HOSTILE got through as it was."""
    return "<script" not in text and not set(text) & set("\u202e\u2066\U000e0041")


# --- pages ---------------------------------------------------------------------------------------


def test_the_overview_says_what_there_is_and_what_waits() -> None:
    async def scene(made: Scene) -> None:
        browser = await came_in(made)
        await browser.open()
        assert "Waiting for your yes nothing Workers alive –" in words(browser.text)
        await ask(made)
        await ask(made, "Pay.Look", input={"text": "x"}, call_id="k")
        offered = {"tools": [{"id": "Far.Look", "description": "Far.", "input_schema": {"type": "object"}}]}
        await made.send("owner", "PUT", "/v1/workers/robot", offered)
        await browser.open()
        shown = words(browser.text)
        assert "Server ok, toolyard" in shown
        assert "Tools 5 Waiting for your yes 1 Workers alive robot of ada (acme)" in shown
        assert "PENDING 1 PROCESSING 0 COMPLETE 1 ERROR 0" in shown

    run(scene, kit)


def test_the_navigation_names_every_page_in_plain_words() -> None:
    async def scene(made: Scene) -> None:
        browser = await came_in(made)
        for path, title in {"/tools": "Tools", "/calls": "Calls", "/approvals": "Approvals"}.items():
            await browser.open(path)
            names = re.findall(r"<li><a [^>]*>([^<]*)</a></li>", browser.text.partition("</nav>")[0])
            assert names == ["Overview", "Tools", "Calls", "Approvals"]
            assert f"<h1>{title}</h1>" in browser.text

    run(scene, kit)


def test_a_live_page_is_loaded_anew_only_where_its_reader_wants_that() -> None:
    async def scene(made: Scene) -> None:
        browser = await came_in(made)
        for path in ("", "/calls"):
            await browser.open(path, state="ERROR")
            assert "http-equiv" not in browser.text
            assert f"/console{path}?state=ERROR&amp;live=yes'" in browser.text
            await browser.open(path, state="ERROR", live="yes")
            assert "<meta http-equiv='refresh' content='5'>" in browser.text
            assert f"/console{path}?state=ERROR'" in browser.text
        await browser.open("/approvals", live="yes")
        assert "http-equiv" not in browser.text, "nobody's reason is lost, and no button changes under a hand"

    run(scene, kit)


def test_tools_are_shown_with_what_they_are_and_need() -> None:
    async def scene(made: Scene) -> None:
        offered = {"id": "Far.Look", "description": "Far.", "input_schema": {"type": "object"}, "read_only": True}
        await made.send("owner", "PUT", "/v1/workers/robot", {"tools": [offered]})
        browser = await came_in(made)
        await browser.open("/tools", name="far.")
        shown = words(browser.text)
        assert "Runs worker robot of ada (acme) Hints none that counts" in shown
        assert "Only to callers of acme" in shown
        assert "Pay.Refund" not in shown
        await browser.open("/tools")
        shown = words(browser.text)
        assert "Callers need credentials." in shown
        assert "Pay.Refund Version 1.2.3 Description Pays a customer <b>back</b>. Listed as Pay_Refund" in shown
        assert "<b>" not in browser.text
        assert "Runs here, on the event loop Hints destructive Needs – Approval Every call of it waits" in shown
        assert "Looks <i>it</i> up Version 1.2.3" in shown
        assert "Hints read only" in shown
        assert "Needs an account at bank for pay, the secret BANK_KEY, a user id" in shown
        assert "Exposed to Everybody whom this server lets in: there are no access rules." in shown

    run(scene, kit)


def test_tools_say_to_whom_they_are_exposed_and_which_calls_wait() -> None:
    access = [
        {"tools": "#money", "who": {"subject": ["ada", "b*"], "tenant": "acme"}, "scopes": ["look"], "name": "lookers"},
        {"tools": "@destructive", "who": {"claim": {"role": "clerk"}}, "allow": False},
        {"tools": "Pay.Refund"},
        {"tools": "Pay.Refund", "who": {"subject": "never-asked"}},
    ]
    approvals = [{"tools": "Pay.*", "who": {"key": "night"}, "over": {"cents": 1000}, "ask": False}]

    async def scene(made: Scene) -> None:
        browser = await came_in(made)
        await browser.open("/tools", name="Look")
        shown = words(browser.text)
        assert (
            "Exposed to lookers: callers with the subject ada or b*, and with the tenant acme may call it with "
            "credentials for look. Nobody else sees it: no rule allows it." in shown
        )
        assert "Approval no call of it waits for a person" in shown
        await browser.open("/tools", name="Refund")
        shown = words(browser.text)
        assert (
            "Exposed to access[2]: callers with the claim role clerk may not see it. access[3]: everybody may call it."
            in shown
        )
        assert "never-asked" not in shown
        assert (
            "Approval approvals[1]: calls of callers with the API key night do not wait if cents is over 1000. "
            "Otherwise every call of it waits" in shown
        )

    run(scene, kit, access=access, approvals=approvals)


def test_calls_are_listed_by_state_and_tool() -> None:
    async def scene(made: Scene) -> None:
        await ask(made)
        await ask(made, "Pay.Look", input={"text": "x"}, call_id="k", role="neighbour")
        browser = await came_in(made)
        await browser.open("/calls")
        shown = words(browser.text)
        assert "Pay.Look@1.2.3 COMPLETE (success) acme/bob" in shown
        assert "Pay.Refund@1.2.3 PENDING acme/ada" in shown
        for filter, there, not_there in (
            ({"state": "COMPLETE", "tool": ""}, "Pay.Look@", "Pay.Refund@"),
            ({"tool": "Pay.Refund"}, "Pay.Refund@", "Pay.Look@"),
        ):
            await browser.open("/calls", **filter)
            assert (there in browser.text, not_there in browser.text) == (True, False)
        await browser.open("/calls", state="ERROR", tool="Pay.Look")
        assert "There is none." in browser.text
        answer = await browser.open("/calls", state="LOST")
        assert (answer.status, "Must be one of PENDING" in browser.text) == (400, True)

    run(scene, kit)


def test_one_call_is_shown_with_what_went_in_and_came_out() -> None:
    async def scene(made: Scene) -> None:
        await ask(made, "Pay.Look", input={"text": "x" * MOST_CHARACTERS}, call_id="k", context={"user_id": "u-7"})
        await ask(made, "Pay.Look", input={"text": 1}, call_id="l")
        row = await made.yard.store.get("acme", "ada", "k")
        assert row is not None
        browser = await came_in(made)
        await browser.open(f"/calls/{row.seq}")
        shown = words(browser.text)
        assert "Call id k Tool Pay.Look@1.2.3 State COMPLETE (success) Caller acme/ada On behalf of u-7 Wire" in shown
        assert f"Cut: these are the first {MOST_CHARACTERS:,} of" in shown
        assert "Result" in shown
        assert "Cancel" not in shown

    run(scene, kit)


@pytest.mark.parametrize("number", ["999", "0", "x", "1-2", "9" * 30, "²"])
def test_a_call_that_is_not_there(number: str) -> None:
    async def scene(made: Scene) -> None:
        browser = await came_in(made)
        answer = await browser.open(f"/calls/{number}")
        assert (answer.status, "There is no such call" in browser.text) == (410, True)

    run(scene, kit)


# --- what callers and tools write is text --------------------------------------------------------


@pytest.mark.parametrize("page", ["", "/tools", "/calls", "/calls/{}", "/approvals"])
def test_whatever_callers_and_tools_write_is_shown_inert(page: str) -> None:
    async def scene(made: Scene) -> None:
        made.credentials["eve"] = made.bearer("<script>acme", HOSTILE[:27])
        given: dict[str, Any] = {"input": {"order": HOSTILE}, "call_id": HOSTILE, "context": {"user_id": HOSTILE}}
        answer = await ask(made, role="eve", **given)
        assert answer.status == 400, answer.body
        assert "approval" in answer.json.get("missing_requirements", {}), answer.body
        browser = await came_in(made)
        assert (await browser.open(page.format(await seq(made)))).status == 200
        assert is_inert(browser.text)
        if page in ("/calls", "/calls/{}", "/approvals"):
            assert "&lt;script&gt;alert(&#x27;1&#x27;)&lt;" in browser.text
        if page in ("/calls/{}", "/approvals"):
            assert all(spelled in browser.text for spelled in SPELLED)

    run(scene, kit)


def test_a_hostile_result_and_error_are_shown_inert() -> None:
    async def scene(made: Scene) -> None:
        await ask(made, "Pay.Look", input={"text": HOSTILE}, call_id="k")
        row = await made.yard.store.get("acme", "ada", "k")
        assert row is not None
        browser = await came_in(made)
        await browser.open(f"/calls/{row.seq}")
        assert is_inert(browser.text)
        assert browser.text.count("\\u202e") == 2, "in the input and in the result, as JSON spells it"
        await ask(made)
        number, call = await seq(made), await at(made)
        await browser.open("/approvals")
        await browser.send(f"{call}/reject", reason=HOSTILE)
        await browser.open(f"/calls/{number}")
        assert is_inert(browser.text)
        assert "A person said no" in browser.text

    run(scene, kit)


def test_what_is_looked_for_is_shown_inert() -> None:
    async def scene(made: Scene) -> None:
        browser = await came_in(made)
        hostile = "'><script>x</script>\u202e"
        for path, query in (("/tools", {"name": hostile}), ("/calls", {"tool": hostile, "x": hostile})):
            assert (await browser.open(path, **query)).status == 200
            assert is_inert(browser.text)
            assert "&#x27;&gt;&lt;script&gt;" in browser.text

    run(scene, kit)


# --- what the buttons do -------------------------------------------------------------------------


def test_an_operator_approves() -> None:
    async def scene(made: Scene) -> None:
        await ask(made, call_id="k", context={"user_id": "u-7"})
        number, call, browser = await seq(made), await at(made), await came_in(made)
        await browser.open("/approvals")
        shown = words(browser.text)
        assert "Pay.Refund@1.2.3 Call" in shown
        assert re.search(r'Who asks acme/ada On behalf of u-7 Asked \d+ s ago Input { "order": "7" }', shown)
        answer = await browser.send(f"{call}/approve")
        assert (answer.status, dict(answer.headers)[b"location"]) == (
            303,
            f"http://localhost/console/calls/{number}".encode(),
        )
        assert (await made.send("owner", "GET", "/v1/calls/k?wait=10")).json["state"] == "COMPLETE"
        assert paid == ["7"]
        await browser.open(f"/calls/{number}")
        assert "an operator has approved it" in words(browser.text)
        assert ("approved", "k", "acme/ada", "an operator", None) in await decided(made)
        await browser.open("/approvals")
        assert "Nothing waits for you." in browser.text

    run(scene, kit)


def test_an_operator_rejects_with_a_reason() -> None:
    async def scene(made: Scene) -> None:
        await ask(made, call_id="k")
        number, call, browser = await seq(made), await at(made), await came_in(made)
        await browser.open("/approvals")
        assert (await browser.send(f"{call}/reject", reason="wrong <order>")).status == 303
        assert "wrong <order>" in (await ask(made, call_id="k")).json["error"]["message"]
        assert paid == []
        await browser.open(f"/calls/{number}")
        assert "an operator has rejected it: wrong <order>" in words(browser.text)
        assert ("rejected", "k", "acme/ada", "an operator", "wrong <order>") in await decided(made)

    run(scene, kit)


def test_who_decides_second_is_told() -> None:
    async def scene(made: Scene) -> None:
        await ask(made)
        call, first, second = await at(made), await came_in(made), await came_in(made)
        await first.open("/approvals")
        await second.open("/approvals")
        assert (await first.send(f"{call}/reject")).status == 303
        answer = await second.send(f"{call}/approve")
        assert (answer.status, "an operator has rejected it already" in second.text) == (403, True)
        assert paid == []
        assert [said[0] for said in await decided(made)] == ["rejected", "approve_refused"]

    run(scene, kit)


def test_a_large_input_is_shown_where_it_is_decided_about() -> None:
    async def scene(made: Scene) -> None:
        await ask(made, input={"order": "x" * 300_000})
        browser = await came_in(made)
        await browser.open("/approvals")
        assert "x" * 10_000 in browser.text
        assert f"Cut: these are the first {MOST_CHARACTERS:,} of 300," in words(browser.text)
        link = f"/console/calls/{await seq(made)}/input"
        assert browser.text.index(link) < browser.text.index(">Approve<"), (
            "who decides has been shown the way to all of it"
        )
        await browser.open(link.removeprefix("/console"))
        assert "x" * 300_000 in browser.text

    run(scene, kit)


def test_an_operator_cancels() -> None:
    async def scene(made: Scene) -> None:
        calling = asyncio.create_task(ask(made, "Pay.Stay", input={"text": "x"}, call_id="k"))
        await let_go[0].wait()
        row = await made.yard.store.get("acme", "ada", "k")
        assert row is not None
        browser, late = await came_in(made), await came_in(made)
        said = json.dumps({"done": 1, "message": HOSTILE}, ensure_ascii=False).encode()
        await made.yard.store.note_progress([(row.seq, row.attempt, said)])
        for path in ("/calls", f"/calls/{row.seq}"):
            await browser.open(path)
            assert "PROCESSING" in browser.text
            assert '{"done": 1, "message": "<script>' in words(browser.text)
            assert is_inert(browser.text)
        await late.open(f"/calls/{row.seq}")
        assert (await browser.send(f"/calls/{row.seq}/cancel")).status == 303
        assert (await calling).json["success"] is False
        await browser.open(f"/calls/{row.seq}")
        assert "ERROR (cancelled)" in browser.text
        answer = await late.send(f"/calls/{row.seq}/cancel")
        assert (answer.status, "had ended before" in late.text) == (403, True)
        done = [what for kind, what in await audited(made) if "cancelled" in what]
        assert done == ["console: cancelled call k of Pay.Stay@1.2.3 for acme/ada"]

    run(scene, kit)


@pytest.mark.parametrize("word", ["approve", "reject"])
def test_a_button_is_pressed_on_its_own_page_alone(word: str) -> None:
    async def scene(made: Scene) -> None:
        await ask(made)
        number, browser, other = await seq(made), await came_in(made), await came_in(made)
        path = f"{await at(made)}/{word}"
        await other.open("/approvals")
        await browser.open("/approvals")
        signature, elsewhere = browser.signature(path), browser.signature("/leave")
        for origin in (b"https://evil.example", b"http://localhost:8001", b"null", b""):
            assert (await browser.send(path, origin=origin, form=signature)).status == 403
        for form in ("", "another", elsewhere, other.signature(path)):
            assert (await browser.send(path, form=form)).status == 403
        other.cookies["toolyard-console"] = "A" * 43
        assert (await other.send(path, form=signature)).status == 403
        assert await seq(made) == number, "nothing was decided"
        assert (await browser.send(path, form=signature)).status == 303

    run(scene, kit)


def test_a_button_for_what_is_not_there() -> None:
    async def scene(made: Scene) -> None:
        await ask(made)
        browser = await came_in(made)
        await browser.open("/approvals")
        assert (await browser.send("/approvals/999/approve", form=browser.signature("/leave"))).status == 403

    run(scene, kit)
