"""What is kept here, secrets and users' accounts, and the tools of workers: they are given it where an operator trusts
the worker, or names it and the tool. What a worker calls itself or its tools counts for nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolyard import Toolkit, secret
from toolyard.model.call import Brought
from toolyard.model.caller import Caller
from toolyard.model.channel import QuietChannel
from toolyard.model.lifecycle import State
from toolyard.model.record import CallKey, NewCall
from toolyard.model.sealed import WhichSecret
from toolyard.model.worker import Claim
from toolyard.model.writes import DIRECT, Claimant
from toolyard.server.app.compose import Yard
from toolyard.trust.requirements.secrets import HeldSecrets

from ..scene import CANARY, Answer, Scene, settings

AS = {b"toolyard-worker": b"robot"}
NAMED = {"who": {"subject": "ada", "tenant": "acme"}, "tools": ["Far.Send"]}
kit = Toolkit("Sms")


@kit.tool(requires=secret("SMS_KEY"), wire_name="text_somebody")
async def send() -> str:
    """Sends."""
    return "sent"


async def _unnoted(claims: object) -> None:
    """Nobody writes it down."""


def play(story: Callable[[Scene], Awaitable[None]], **more: Any) -> None:
    async def played() -> None:
        async with Scene(Yard([kit], settings(**more))) as made:
            await story(made)

    asyncio.run(played())


def tool(id: str = "Far.Send", **more: Any) -> dict[str, Any]:
    needs = {"secrets": [{"id": "SMS_KEY"}]}
    return {"id": id, "input_schema": {"type": "object"}, "requirements": needs, **more}


async def keep(made: Scene, *patterns: str) -> None:
    held = HeldSecrets(made.yard._vault, lambda: 100.0)
    await held.put(WhichSecret("SMS_KEY", "acme"), CANARY, patterns)


async def offer(made: Scene, *tools: dict[str, Any], role: str = "owner") -> Answer:
    return await made.send(role, "PUT", "/v1/workers/robot", {"tools": tools})


async def given(made: Scene, name: str = "Far_Send") -> str:
    """What a worker is given with a call of the tool; nothing where the call is refused."""
    session = (await made.send("owner", "POST", "/v1/sessions", {})).json["sessionId"]
    use = {"type": "tool_use", "id": "t-1", "name": name, "input": {}}
    at = f"/v1/sessions/{session}"
    await made.send("owner", "POST", f"{at}/messages", {"role": "assistant", "content": [use]})
    claimed = await made.send("owner", "POST", "/v1/tools/claim", {}, AS)
    said = claimed.body + (await made.send("owner", "GET", at)).body
    return said.decode()


@pytest.mark.parametrize("patterns", [(), ("*",), ("Far.*",), ("Far.Send",), ("Far.Send@1.0.0",)])
def test_a_stranger_is_given_no_secret_however_its_tool_is_called(patterns: tuple[str, ...]) -> None:
    async def story(made: Scene) -> None:
        await keep(made, *patterns)
        assert (await offer(made, tool())).status == 200
        assert CANARY not in await given(made)
        refused = await made.send("owner", "POST", "/tools/call", {"tool_id": "Far.Send", "input": {}})
        assert refused.json["missing_requirements"] == {"secrets": [{"id": "SMS_KEY"}]}
        assert "a worker that is not trusted" in refused.json["developer_message"]

    play(story)


def test_a_trusted_workers_tool_is_given_what_patterns_name() -> None:
    async def story(made: Scene) -> None:
        await keep(made, "Far.*")
        await offer(made, tool())
        assert CANARY in await given(made)

    play(story, workers=[{"who": {"subject": "ada", "tenant": "acme"}, "trusted": True}])


@pytest.mark.parametrize(
    ("rule", "patterns", "is_given"),
    [
        (NAMED, ("Far.Send",), True),
        (NAMED, ("Far.*",), False),
        (NAMED, (), False),
        (NAMED | {"tools": ["Far.*"]}, ("Far.Send",), False),
        (NAMED | {"who": {"subject": "ad*", "tenant": "acme"}}, ("Far.Send",), False),
        (NAMED | {"who": {"tenant": "acme"}}, ("Far.Send",), False),
        (NAMED | {"who": {"subject": "ada"}}, ("Far.Send",), False),
    ],
)
def test_an_untrusted_worker_is_given_it_where_the_secret_names_its_tool_and_a_rule_names_both(
    rule: dict[str, Any], patterns: tuple[str, ...], is_given: bool
) -> None:
    """A rule that names no tenant is about those of that name in every tenant, and so names nobody."""

    async def story(made: Scene) -> None:
        await keep(made, *patterns)
        assert (await offer(made, tool())).status == 200
        assert (CANARY in await given(made)) is is_given

    play(story, workers=[rule])


def test_a_tool_that_an_untrusted_caller_is_named_for_too_is_an_untrusted_one() -> None:
    async def story(made: Scene) -> None:
        await keep(made)
        await offer(made, tool())
        assert (await offer(made, tool(), role="neighbour")).status == 200
        assert CANARY not in await given(made)

    named = NAMED | {"who": {"subject": "bob", "tenant": "acme"}}
    play(story, workers=[{"who": {"subject": "ada"}, "trusted": True}, named])


def test_a_stranger_cannot_offer_what_is_a_trusted_callers() -> None:
    async def story(made: Scene) -> None:
        await keep(made)
        await offer(made, tool())
        refused = await offer(made, tool(), role="neighbour")
        assert (refused.status, refused.json["reason"]) == (409, "conflict")
        assert CANARY in await given(made)

    play(story, workers=[{"who": {"subject": "ada"}, "trusted": True}, {"who": {"subject": "bob"}}])


def test_a_stranger_that_was_there_first_makes_way_for_who_is_trusted() -> None:
    async def story(made: Scene) -> None:
        await keep(made)
        assert (await offer(made, tool(description="Bob's."), role="neighbour")).status == 200
        assert (await offer(made, tool())).status == 200
        assert CANARY in await given(made)
        assert (await made.send("neighbour", "POST", "/v1/tools/claim", {}, AS)).json["claims"] == []

    play(story, workers=[{"who": {"subject": "ada"}, "trusted": True}, {"who": {"subject": "bob"}}])


def test_a_strangers_claim_ends_no_call_of_a_trusted_workers_tool() -> None:
    """It waits for the one who may have what it needs."""

    async def story(made: Scene) -> None:
        await keep(made)
        await offer(made, tool())
        body = {"tool_id": "Far.Send", "call_id": "c-1", "input": {}}
        calling = asyncio.ensure_future(made.send("owner", "POST", "/tools/call", body))
        while (await made.send("owner", "GET", "/v1/calls/c-1")).status == 404:
            await asyncio.sleep(0)
        assert (await offer(made, tool("Far.Look"), role="neighbour")).status == 200
        assert (await made.send("neighbour", "POST", "/v1/tools/claim", {}, AS)).json["claims"] == []
        assert (await made.send("owner", "GET", "/v1/calls/c-1")).json["state"] == "PENDING"
        assert (await made.send("neighbour", "DELETE", "/v1/workers/robot")).status == 200
        (claimed,) = (await made.send("owner", "POST", "/v1/tools/claim", {}, AS)).json["claims"]
        assert claimed["context"]["secrets"] == [{"id": "SMS_KEY", "value": CANARY}]
        calling.cancel()

    play(story, workers=[{"who": {"subject": "ada"}, "trusted": True}, {"who": {"subject": "bob"}}])


def test_who_claims_is_judged_and_not_only_the_tool() -> None:
    """A stranger that claims a call and leaves at the same moment leaves a tool behind that is trusted again."""

    async def story(made: Scene) -> None:
        await keep(made)
        await offer(made, tool())
        calling = asyncio.ensure_future(made.send("owner", "POST", "/tools/call", {"tool_id": "Far.Send", "input": {}}))
        stranger = Claimant("acme", "bob", "w", made.yard._workers.who(Caller("acme", "ada")).serves)
        assert stranger.serves
        claims = await made.yard._requests.claim(lambda: stranger, Claim(wait_s=20), QuietChannel(), _unnoted)
        assert claims == []
        claimed = (await made.send("owner", "POST", "/v1/tools/claim", {"wait": 20}, AS)).json["claims"]
        assert claimed[0]["context"]["secrets"] == [{"id": "SMS_KEY", "value": CANARY}]
        calling.cancel()

    play(story, workers=[{"who": {"subject": "ada"}, "trusted": True}, {"who": {"subject": "bob"}}])


@pytest.mark.parametrize(
    ("sealed", "why"),
    [
        (None, "none of the server's keys"),
        (Brought(user_id="carl", issuer="https://id.example"), "not for another user_id"),
    ],
)
def test_for_whom_a_call_speaks_is_asked_again_when_it_is_claimed(sealed: Brought | None, why: str) -> None:
    """Of a row that names a user, and whose caller did not, or may not."""

    async def story(made: Scene) -> None:
        await keep(made)
        await offer(made, tool())
        new = NewCall(
            CallKey("acme", "ada", "oxp", "k"), True, "oxp", "Far.Send", "Far.Send@1.0.0", b"{}", user_id="carl",
            queue="worker", session=DIRECT, offer=made.yard.catalogue.resolve("Far.Send").offer,
            sealed=None if sealed is None else made.yard.engine._seal(
                msgspec.json.encode(sealed), b"k"
            ),
        )  # fmt: skip
        await made.yard.store.begin(new)
        claimed = await made.send("owner", "POST", "/v1/tools/claim", {}, AS)
        assert claimed.json == {"claims": []}
        row = await made.yard.store.get("acme", "ada", "k")
        assert row is not None
        assert (row.state, why in (row.error or b"").decode()) == (State.ERROR, True)

    play(story, workers=[{"trusted": True}])


def test_what_an_earlier_attempt_was_given_is_kept_out_of_what_a_later_one_says() -> None:
    async def story(made: Scene) -> None:
        await keep(made, "Far.*")
        await offer(made, tool())
        assert CANARY in await given(made)
        (waiting,) = (await made.send("owner", "GET", "/v1/tools/requests?state=PROCESSING", None, AS)).json["requests"]
        at = f"{waiting['sessionId']}/{waiting['requestId']}"
        assert (await made.send("owner", "POST", f"/v1/tools/request/{at}/release", {}, AS)).status == 200
        held = HeldSecrets(made.yard._vault, lambda: 100.0)
        await held.put(WhichSecret("SMS_KEY", "acme"), "what it is after that", ("Far.*",))
        claimed = await made.send("owner", "POST", "/v1/tools/claim", {}, AS)
        assert b"what it is after that" in claimed.body
        said = {"response": {"state": "COMPLETE", "value": f"{CANARY}, what it is after that"}}
        assert (await made.send("owner", "POST", f"/v1/tools/response/{at}", said, AS)).status == 200
        shown = await made.send("owner", "GET", f"/v1/tools/request/{at}")
        assert (CANARY in str(shown.body), "after that" in str(shown.body)) == (False, False)

    play(story, workers=[{"trusted": True}])


def test_a_call_of_the_servers_own_tool_is_not_begun_because_a_worker_has_taken_its_name(tmp_path: Path) -> None:
    bank = Toolkit("Bank")

    @bank.tool(approval="always")
    async def pay() -> str:
        """Pays."""
        return "paid"

    store = f"sqlite:{tmp_path / 'ledger.db'}"
    call = {"tool_id": "Bank.Pay", "call_id": "p", "input": {}}

    async def story() -> None:
        async with Scene(Yard([kit, bank], settings(store=store))) as made:
            assert (await made.send("owner", "POST", "/tools/call", call)).status == 400
        async with Scene(Yard([kit], settings(store=store))) as made:
            made.credentials["operator"] = {b"authorization": b"Bearer " + made.yard.operators_token.text.encode()}
            assert (await offer(made, {"id": "Bank.Pay", "version": "0.1.0"})).status == 200
            (waiting,) = (await made.send("operator", "GET", "/v1/admin/approvals")).json["approvals"]
            path = f"/v1/admin/approvals/{waiting['id']}/approve"
            assert (await made.send("operator", "POST", path, {})).status == 200
            ended = (await made.send("owner", "GET", "/v1/calls/p?wait=10")).json
            assert (ended["state"], "was not begun" in str(ended["error"])) == ("ERROR", True)

    asyncio.run(story())


# -- names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "why"),
    [
        ({"id": "Sms.Send"}, "Sms is a toolkit of the server itself"),
        ({"id": "Sms.Send@7.0.0"}, "Sms is a toolkit of the server itself"),
        ({"id": "Sms.Steal"}, "Sms is a toolkit of the server itself"),
        ({"id": "SMS.Steal"}, "SMS is a toolkit of the server itself"),
        ({"id": "Sms_Steal.It"}, "the name Sms_Steal_It reads like one of the server's toolkit Sms"),
        ({"id": "Far.Look", "name": "sms-steal"}, "the name sms-steal reads like one of the server's toolkit sms"),
        ({"id": "Far.Look", "name": "Text_Somebody"}, "the name Text_Somebody is that of a tool of the server itself"),
    ],
)
def test_the_servers_toolkits_are_its_own_whole(offered: dict[str, Any], why: str) -> None:
    async def story(made: Scene) -> None:
        refused = await offer(made, tool("Far.Good"), offered)
        assert (refused.status, refused.json["reason"]) == (409, "conflict")
        assert why in refused.json["message"]
        assert await made.yard.store.workers() == []
        assert (await offer(made, tool("Smsx.Send"))).status == 200

    play(story, workers=[{"trusted": True}])


def test_a_toolkit_that_the_server_comes_to_have_is_taken_from_workers() -> None:
    late = Toolkit("Late")

    async def story() -> None:
        async with Scene(Yard([kit, late], settings())) as made:
            assert (await offer(made, {"id": "Late.Own@0.1.0"}, {"id": "Late.Steal"}, {"id": "Far.Look"})).status == 200

            @late.tool
            async def own() -> None:
                """Own."""

            await made.yard._workers.sync()
            assert [each.id for each in made.yard.catalogue.all()] == ["Far.Look", "Late.Own", "Sms.Send"]

    asyncio.run(story())


def test_two_tools_of_one_name_in_a_registration_are_refused_by_their_names() -> None:
    async def story(made: Scene) -> None:
        for pair in (
            ({"id": "A.One", "name": "same"}, {"id": "A.Two", "name": "same"}),
            ({"id": "A_B.C"}, {"id": "A.B_C"}),
        ):
            refused = await offer(made, *pair)
            assert refused.status == 422
            (sentence,) = refused.json["parameter_errors"].values()
            assert f"{pair[1]['id']} and {pair[0]['id']} have the same name" in sentence
        versions = ({"id": "A.One@1.0.0", "name": "same"}, {"id": "A.One@2.0.0", "name": "same"})
        assert (await offer(made, *versions)).status == 200
        taken = await offer(made, {"id": "B.One", "name": "same"}, role="neighbour")
        assert (taken.status, taken.json["message"]) == (409, "B.One: the name same is taken by A.One; choose another")
        foreign = await offer(made, {"id": "B.One", "name": "same"}, role="foreigner")
        assert "A.One" not in foreign.json["message"], "of another tenant"

    play(story)
