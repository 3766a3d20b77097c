"""Erasing a user's calls leaves nothing of what they said and got, in any table of either ledger; and nothing of what
was kept because of them is served any more."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.unpacked import everything_in, everything_in_database
from toolyard import Toolkit
from toolyard.server.app.compose import Yard

from .scene import CANARY, Scene, kit, settings

paid = Toolkit("Paid")


@paid.tool(approval="always")
async def refund(order: str) -> str:
    """Pays money back."""
    return order


class Filled(Scene):
    """In which every kind of thing that belongs to a call is there, of calls made for `uma` by a program."""

    async def fill(self, user: str | None = "uma") -> None:
        self.credentials["approver"] = self.bearer("acme", "boss", scope="approve")
        context = {"context": {"user_id": user}} if user else {}
        for text, more in ((CANARY, {}), (CANARY * 20_000, {}), (CANARY, {"call_id": "keyed"})):
            call = {"tool_id": "Safe.Keep", "input": {"text": text}, **context, **more}
            assert (await self.send("owner", "POST", "/tools/call", call)).json["success"]
        await self.give(user)
        await self.ask(user)
        await self.reject(context)

    async def give(self, user: str | None, text: str = CANARY) -> None:
        given = await self.call("Safe_Give", user, text=text)
        assert given["content"][0]["resource"]["uri"] == f"safe://{text}"

    async def ask(self, user: str | None) -> None:
        task = (await self.call("Safe_Ask", user, task=True, text=CANARY))["task"]["taskId"]
        answer = {"who": {"action": "accept", "content": {"name": CANARY}}}
        while (await self.older("owner", "tasks/get", {"taskId": task})).json["result"]["status"] != "input_required":
            await asyncio.sleep(0)
        await self.newer("owner", "tasks/update", {"taskId": task, "inputResponses": answer}, task)
        assert CANARY in str((await self.older("owner", "tasks/result", {"taskId": task})).json["result"])

    async def reject(self, context: dict[str, Any]) -> None:
        call = {"tool_id": "Paid.Refund", "call_id": "refund", "input": {"order": CANARY}, **context}
        await self.send("owner", "POST", "/tools/call", call)
        (waiting,) = (await self.send("approver", "GET", "/v1/approvals")).json["approvals"]
        said = await self.send("approver", "POST", f"/v1/approvals/{waiting['id']}/reject", {"reason": CANARY})
        assert said.status == 200

    async def call(self, name: str, user: str | None, *, task: bool = False, **arguments: str) -> Any:
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if user is not None:
            params["_meta"] = {"toolyard/userId": user}
        if task:
            params["task"] = {}
        session = await self.opened("owner") if task else ""
        return (await self.older("owner", "tools/call", params, session)).json["result"]

    async def read(self, uri: str) -> Any:
        return (await self.older("owner", "resources/read", {"uri": uri})).json


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'toolyard.db'}"
    address: str = request.getfixturevalue("postgres_url")
    return address


async def all_of(store: str) -> bytes:
    """But for the audit log, which keeps who decided what and why, and what was read."""
    if store.startswith("sqlite:"):
        return everything_in(Path(store.removeprefix("sqlite:")), besides="audit")
    return await everything_in_database(store, besides="audit")


def size_of_log(store: str) -> int:
    return Path(store.removeprefix("sqlite:") + "-wal").stat().st_size


@pytest.mark.parametrize("user", ["uma", None])
def test_nothing_is_left_of_what_a_users_calls_said_and_got(store: str, user: str | None) -> None:
    """Of a user whom a program named, and of a caller who named nobody and so is the user."""

    async def play() -> None:
        async with Filled(Yard([kit, paid], settings(store=store))) as scene:
            await scene.fill(user)
            assert CANARY.encode() in await all_of(store)
            await scene.give("vic", "of-vic")
            assert await scene.yard.store.erase("acme", "somebody") == 0
            assert await scene.yard.store.erase("acme", user or "ada") == 6
            if store.startswith("sqlite:"):
                assert size_of_log(store) == 0, "what was written is in the log beside the file, too"
            assert "error" in await scene.read(f"safe://{CANARY}")
            assert (await scene.read("safe://of-vic"))["result"]["contents"][0]["text"] == "of-vic"
            again = {"tool_id": "Safe.Keep", "input": {"text": CANARY}, "call_id": "keyed"}
            again |= {"context": {"user_id": user}} if user else {}
            assert not (await scene.send("owner", "POST", "/tools/call", again)).json.get("success"), "its key is taken"
        assert CANARY.encode() not in await all_of(store)

    asyncio.run(play())
