"""A call of a worker's tool is for those to whom it was made, and not for whoever has the tool's name by now: another
caller, the same one with another definition, or credentials that are not for the tool."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolyard import Toolkit
from toolyard.server.app.compose import Yard

from ..scene import Answer, Scene, settings

W, E = {b"toolyard-worker": b"w"}, {b"toolyard-worker": b"e"}
PRIVATE, BROUGHT = "what only ada and her worker know", "what ada brought for it"
kit = Toolkit("Desk")


@kit.tool
async def count(n: int) -> int:
    """Counts."""
    return n


def play(story: Callable[[Scene], Awaitable[None]], **more: Any) -> None:
    async def played() -> None:
        async with Scene(Yard([kit], settings(**more))) as made:
            made.credentials["operator"] = {b"authorization": b"Bearer " + made.yard.operators_token.text.encode()}
            await story(made)

    asyncio.run(played())


def tool(**more: Any) -> dict[str, Any]:
    needs = {"secrets": [{"id": "X"}]}
    return {"id": "Bank.Pay", "input_schema": {"type": "object"}, "requirements": needs, "on_lost": "unknown", **more}


async def offer(made: Scene, role: str, name: str, **more: Any) -> Answer:
    return await made.send(role, "PUT", f"/v1/workers/{name}", {"tools": [tool(**more)]})


async def leave(made: Scene, role: str, name: str) -> None:
    assert (await made.send(role, "DELETE", f"/v1/workers/{name}")).status == 200


async def calls(made: Scene, id: str, **state: Any) -> "asyncio.Task[Answer]":
    """Ada calls it, and the call is in the ledger."""
    context = {"user_id": "u1", "secrets": [{"id": "X", "value": BROUGHT}]}
    body = {"tool_id": "Bank.Pay", "call_id": id, "input": {"card": PRIVATE}, "context": context}
    calling = asyncio.ensure_future(made.send("owner", "POST", "/tools/call", body))
    while (await made.send("owner", "GET", f"/v1/calls/{id}")).status == 404:
        await asyncio.sleep(0)
    return calling


async def claimed(made: Scene, role: str, worker: dict[bytes, bytes]) -> list[dict[str, Any]]:
    claims: list[dict[str, Any]] = (await made.send(role, "POST", "/v1/tools/claim", {"limit": 9}, worker)).json[
        "claims"
    ]
    return claims


async def answered(made: Scene, role: str, worker: dict[bytes, bytes], at: str, value: str, **more: str) -> Answer:
    headers = worker | {b"toolyard-attempt": more["attempt"].encode()} if more else worker
    said = {"response": {"state": "COMPLETE", "value": value}}
    return await made.send(role, "POST", f"/v1/tools/response/{at}", said, headers)


def place(claim: dict[str, Any]) -> str:
    return f"{claim['sessionId']}/{claim['requestId']}"


async def everything(made: Scene, role: str, *places: str) -> str:
    """All that a worker can look at."""
    asked = [f"/v1/tools/requests?state={state}" for state in ("PENDING", "PROCESSING", "COMPLETE", "ERROR")]
    asked += [f"/v1/tools/request/{each}" for each in places]
    return "".join([(await made.send(role, "GET", path, None, E)).body.decode() for path in asked])


async def show(made: Scene, id: str) -> dict[str, Any]:
    shown: dict[str, Any] = (await made.send("owner", "GET", f"/v1/calls/{id}")).json
    return shown


OTHERWISE = {"description": "Something else.", "input_schema": {"type": "object", "required": ["z"]}}


@pytest.mark.parametrize("definition", [{}, OTHERWISE], ids=["the same definition", "another"])
def test_who_takes_a_tools_name_gets_new_calls_only(definition: dict[str, Any]) -> None:
    async def story(made: Scene) -> None:
        assert (await offer(made, "owner", "w")).status == 200
        calling = await calls(made, "waits")
        await leave(made, "owner", "w")
        assert (await offer(made, "neighbour", "e", **definition)).status == 200
        assert await claimed(made, "neighbour", E) == []
        assert PRIVATE not in await everything(made, "neighbour")
        assert (await show(made, "waits"))["state"] == "PENDING"
        await leave(made, "neighbour", "e")
        assert (await offer(made, "owner", "w")).status == 200
        (claim,) = await claimed(made, "owner", W)
        assert claim["context"]["secrets"] == [{"id": "X", "value": BROUGHT}]
        assert (await answered(made, "owner", W, place(claim), "honest")).status == 200
        assert (await calling).json["value"] == "honest"

    play(story)


def test_a_persons_yes_is_for_the_definition_that_it_was_given_to() -> None:
    async def story(made: Scene) -> None:
        await offer(made, "owner", "w", approval=True)
        asking = await calls(made, "asks")
        (waiting,) = (await made.send("operator", "GET", "/v1/admin/approvals")).json["approvals"]
        await leave(made, "owner", "w")
        assert (await made.send("operator", "POST", f"/v1/admin/approvals/{waiting['id']}/approve", {})).status == 200
        await offer(made, "neighbour", "e")
        assert await claimed(made, "neighbour", E) == []
        assert (await show(made, "asks"))["state"] == "PENDING"
        asking.cancel()

    play(story)


@pytest.mark.parametrize("waits", ["in line", "for a yes", "approved"])
def test_what_waits_for_a_tool_that_its_owner_offers_as_something_else_ends_and_says_so(waits: str) -> None:
    async def story(made: Scene) -> None:
        asks = {"approval": waits != "in line"}
        await offer(made, "owner", "w", **asks)
        calling = await calls(made, "k")
        if waits == "approved":
            (waiting,) = (await made.send("operator", "GET", "/v1/admin/approvals")).json["approvals"]
            await made.send("operator", "POST", f"/v1/admin/approvals/{waiting['id']}/approve", {})
        needs = {"secrets": [{"id": "X"}, {"id": "Y"}]}
        assert (await offer(made, "owner", "w", **asks, requirements=needs)).status == 200
        ended = await show(made, "k")
        assert (ended["state"], ended["code"], ended["effects"]) == ("ERROR", "abandoned", "none")
        assert "was offered anew as something else" in ended["error"]["message"]
        assert await claimed(made, "owner", W) == []
        calling.cancel()

    play(story)


def test_a_worker_that_only_starts_again_is_given_what_waits() -> None:
    async def story(made: Scene) -> None:
        await offer(made, "owner", "w")
        calling = await calls(made, "k")
        await leave(made, "owner", "w")
        await offer(made, "owner", "another-name")
        (claim,) = await claimed(made, "owner", {b"toolyard-worker": b"another-name"})
        assert claim["input"] == {"card": PRIVATE}
        calling.cancel()

    play(story)


def test_a_worker_that_offers_its_tool_anew_may_end_what_it_holds() -> None:
    async def story(made: Scene) -> None:
        await offer(made, "owner", "w", output_schema={"type": "string"})
        calling = await calls(made, "k")
        (claim,) = await claimed(made, "owner", W)
        assert (await offer(made, "owner", "w", output_schema={"type": "integer"})).status == 200
        assert (await answered(made, "owner", W, place(claim), "honest", attempt="1")).status == 200
        assert (await calling).json["value"] == "honest"

    play(story)


def test_who_takes_a_tools_name_sees_and_ends_nothing_of_before() -> None:
    async def story(made: Scene) -> None:
        await offer(made, "owner", "w")
        done = await calls(made, "done")
        (first,) = await claimed(made, "owner", W)
        assert (await answered(made, "owner", W, place(first), "honest")).status == 200
        await done
        runs = await calls(made, "runs")
        (second,) = await claimed(made, "owner", W)
        await leave(made, "owner", "w")
        assert (await offer(made, "neighbour", "e")).status == 200
        seen = await everything(made, "neighbour", place(first), place(second))
        assert (PRIVATE in seen, "honest" in seen) == (False, False)
        for each in (first, second):
            forged = await answered(made, "neighbour", W, place(each), "forged", attempt="1")
            nothing = await answered(made, "neighbour", W, "direct/nothing~0", "forged", attempt="1")
            assert forged.masked(each["requestId"]) == nothing.masked("nothing~0")
            for verb, body in (("release", {}), ("heartbeat", {"state": "PROCESSING", "heartbeat": 1})):
                path = f"/v1/tools/request/{place(each)}/{verb}"
                assert (await made.send("neighbour", "POST", path, body, W | {b"toolyard-attempt": b"1"})).status == 404
        assert (await show(made, "runs"))["state"] == "PROCESSING"
        runs.cancel()

    play(story)


SHARED = [
    {"who": {"subject": "ada", "tenant": "acme"}, "tools": ["Bank.Pay"], "trusted": True},
    {"who": {"subject": "bob", "tenant": "acme"}, "tools": ["Bank.Pay"]},
]


def test_callers_that_share_a_tool_by_rules_do_not_speak_for_each_other() -> None:
    async def story(made: Scene) -> None:
        assert (await offer(made, "owner", "w")).status == 200
        assert (await offer(made, "neighbour", "e")).status == 200
        calling = await calls(made, "k")
        (claim,) = await claimed(made, "owner", W)
        at = place(claim)
        assert PRIVATE not in await everything(made, "neighbour", at)
        for headers in (W, W | {b"toolyard-attempt": b"1"}, E | {b"toolyard-attempt": b"1"}):
            for path, body in (
                (f"/v1/tools/response/{at}", {"response": {"state": "COMPLETE", "value": "forged"}}),
                (f"/v1/tools/request/{at}/heartbeat", {"state": "ERROR", "error": "forged"}),
                (f"/v1/tools/request/{at}/release", {}),
            ):
                refused = await made.send("neighbour", "POST", path, body, headers)
                assert (refused.status, refused.json["reason"]) == (409, "held")
        assert await claimed(made, "neighbour", E) == []
        assert (await answered(made, "owner", W, at, "honest", attempt="1")).status == 200
        assert (await calling).json["value"] == "honest"
        forged = await answered(made, "neighbour", W, at, "honest", attempt="1")
        assert (forged.status, forged.json["reason"]) == (409, "completed"), "the answer was not theirs"

    play(story, workers=SHARED)


def test_callers_that_share_a_tool_by_rules_are_each_given_what_waits() -> None:
    async def story(made: Scene) -> None:
        await offer(made, "owner", "w")
        calling = await calls(made, "k")
        await offer(made, "neighbour", "e")
        (claim,) = await claimed(made, "neighbour", E)
        assert (await answered(made, "neighbour", E, place(claim), "bob's", attempt="1")).status == 200
        assert (await calling).json["value"] == "bob's"

    play(story, workers=SHARED)


# -- credentials that are not for the tool -----------------------------------------------------------


async def limited(made: Scene, *allow: str) -> None:
    """The role `limited`: a key of the owner's that is for nothing else."""
    body = {"name": "lim", "subject": "ada", "tenant": "acme", "allow": list(allow)}
    key = (await made.send("operator", "POST", "/v1/admin/keys", body)).json["key"]
    made.credentials["limited"] = {b"authorization": b"Bearer " + key.encode()}


def test_a_limited_key_works_on_nothing_that_it_is_not_for() -> None:
    async def story(made: Scene) -> None:
        await limited(made, "Desk.Count")
        assert (await offer(made, "limited", "w")).status == 403
        assert await made.yard.store.workers() == []
        assert (await offer(made, "owner", "w")).status == 200
        calling = await calls(made, "k")
        assert await claimed(made, "limited", W) == []
        assert PRIVATE not in await everything(made, "limited")
        (claim,) = await claimed(made, "owner", W)
        assert PRIVATE not in await everything(made, "limited", place(claim))
        assert (await answered(made, "limited", W, place(claim), "forged", attempt="1")).status == 404
        for method, path in (("DELETE", "/v1/workers/w"), ("POST", "/v1/workers/w/heartbeat")):
            refused = await made.send("limited", method, path)
            nothing = await made.send("limited", method, path.replace("/w", "/n", 2).replace("/norkers", "/workers"))
            assert refused.masked() == nothing.masked()
        mine = {"tools": [{"id": "Far.Look", "input_schema": {"type": "object"}}]}
        assert (await made.send("limited", "PUT", "/v1/workers/w", mine)).status == 403
        assert (await answered(made, "owner", W, place(claim), "honest", attempt="1")).status == 200
        assert (await calling).json["value"] == "honest"

    play(story)


def test_a_limited_key_works_on_what_it_is_for() -> None:
    async def story(made: Scene) -> None:
        await limited(made, "Bank.*")
        assert (await offer(made, "limited", "w")).status == 200
        calling = await calls(made, "k")
        (claim,) = await claimed(made, "limited", W)
        assert (await answered(made, "limited", W, place(claim), "done", attempt="1")).status == 200
        assert (await made.send("limited", "DELETE", "/v1/workers/w")).status == 200
        assert (await calling).json["value"] == "done"

    play(story)


def test_a_limited_key_is_not_told_again_what_a_tool_said_that_it_may_not_see() -> None:
    async def story(made: Scene) -> None:
        await limited(made, "Bank.*")
        body = {"tool_id": "Desk.Count", "call_id": "k", "input": {"n": 5}}
        assert (await made.send("owner", "POST", "/tools/call", body)).json["value"] == 5
        again = await made.send("limited", "POST", "/tools/call", body)
        nobodys = await made.send("limited", "POST", "/tools/call", body | {"tool_id": "None.Count"})
        assert again.masked("Desk_Count", "Desk.Count") == nobodys.masked("None_Count", "None.Count")
        assert (await made.send("owner", "POST", "/tools/call", body)).json["value"] == 5

    play(story)


def test_nor_what_a_workers_tool_said_that_is_not_there_now() -> None:
    async def story(made: Scene) -> None:
        await limited(made, "Desk.Count")
        await offer(made, "owner", "w")
        calling = await calls(made, "k")
        (claim,) = await claimed(made, "owner", W)
        await answered(made, "owner", W, place(claim), "honest")
        await calling
        await leave(made, "owner", "w")
        body = {"tool_id": "Bank.Pay", "call_id": "k", "input": {"card": PRIVATE}, "context": {"user_id": "u1"}}
        assert (await made.send("owner", "POST", "/tools/call", body)).json["value"] == "honest"
        assert b"honest" not in (await made.send("limited", "POST", "/tools/call", body)).body

    play(story)
