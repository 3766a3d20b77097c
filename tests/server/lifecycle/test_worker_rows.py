"""What workers register, and what stands in the ledger: it is looked at before it is stored, it costs what it is and
not what there is already, and what cannot be read or served keeps nobody else from being served."""

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

from toolyard import Toolkit, secret
from toolyard.engine import worker_tools
from toolyard.engine.worker_tools import LARGEST_DEFINITION, MOST_OFFERED
from toolyard.model.api_key import ApiKey
from toolyard.model.record import CallKey, NewCall
from toolyard.model.sealed import WhichSecret
from toolyard.model.tool import Tool
from toolyard.model.worker import WorkerRecord
from toolyard.server.admin.secrets import SecretAdmin
from toolyard.server.app.compose import Yard
from toolyard.trust.requirements.secrets import HeldSecrets

from ..scene import Answer, Scene, kit, settings

AT = "/v1/workers/robot"


def chain(length: int) -> dict[str, Any]:
    """A schema whose parts each refer to the next."""
    parts: dict[str, Any] = {f"p{n}": {"$ref": f"#/$defs/p{n + 1}"} for n in range(length)}
    return {"type": "object", "$ref": "#/$defs/p0", "$defs": parts | {f"p{length}": {"type": "object"}}}


def many(count: int, toolkit: str = "Far") -> dict[str, Any]:
    return {"tools": [{"id": f"{toolkit}.T{n}", "input_schema": {"type": "object"}} for n in range(count)]}


async def ids(made: Scene, role: str = "owner") -> set[str]:
    listed = (await made.send(role, "GET", "/tools")).json
    return {each["id"].partition("@")[0] for each in listed.get("items", listed.get("tools"))}


async def put(made: Scene, *tools: dict[str, Any], name: str = "robot", role: str = "owner") -> Answer:
    return await made.send(role, "PUT", f"/v1/workers/{name}", {"tools": tools})


# -- before it is stored ----------------------------------------------------------------------------


@pytest.mark.parametrize("length", [100, *range(470, 490), 700, 990, 2000, 20_000])
def test_what_is_stored_is_served_and_what_cannot_be_is_refused(length: int, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'ledger.db'}"

    async def first() -> None:
        async with Scene(Yard([kit], settings(store=store))) as made:
            reply = await put(made, {"id": "Far.Chain", "input_schema": chain(length)})
            assert reply.status in (200, 422)
            assert len(await made.yard.store.workers()) == (reply.status == 200)
            assert ("Far.Chain" in await ids(made)) is (reply.status == 200)
            assert (await put(made, {"id": "Near.Look"}, name="other")).status == 200

    async def again() -> None:
        async with Scene(Yard([kit], settings(store=store))) as made:
            assert "Near.Look" in await ids(made)

    asyncio.run(first())
    asyncio.run(again())


def test_a_header_that_mcp_cannot_make_is_refused_before_it_is_stored() -> None:
    async def story() -> None:
        async with Scene() as made:
            schema = {"type": "object", "properties": {"a": {"type": "array", "x-mcp-header": "A"}}}
            refused = await put(made, {"id": "Far.Look", "input_schema": schema})
            assert (refused.status, list(refused.json["parameter_errors"])) == (422, ["tools[0]"])
            assert await made.yard.store.workers() == []

    asyncio.run(story())


# -- what it costs ----------------------------------------------------------------------------------


def test_a_registration_is_one_change_and_its_tools_are_looked_at_off_the_loop() -> None:
    async def story() -> None:
        async with Scene(Yard([kit], settings(max_tools_per_worker=300, max_tools_per_caller=500))) as made:
            here, engine, changes, planned = threading.get_ident(), made.yard.engine, list[int](), list[int]()
            plan = engine.plans.make

            def seen(tool: Tool) -> Any:
                planned.append(threading.get_ident())
                return plan(tool)

            engine.plans.make = seen  # type: ignore[method-assign]
            made.yard.catalogue.subscribe(lambda change: changes.append(len(change.added)))
            assert (await made.send("owner", "PUT", AT, many(300))).status == 200
            assert (changes, len(planned), here in planned) == ([300], 300, False)
            assert (await made.send("owner", "PUT", AT, many(300))).status == 200
            assert (changes, len(planned)) == ([300], 600), "the same again changes nothing"
            fewer = {"tools": many(300)["tools"][1:]}
            assert (await made.send("owner", "PUT", AT, fewer)).status == 200
            assert changes == [300, 0]

    asyncio.run(story())


def test_a_row_is_decoded_once_for_as_long_as_it_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    decode, decoded = worker_tools._decode, list[bytes]()

    def counted(data: bytes) -> Any:
        decoded.append(data)
        return decode(data)

    monkeypatch.setattr(worker_tools, "_decode", counted)

    async def story() -> None:
        async with Scene() as made:
            for name in ("a", "b", "c"):
                assert (await put(made, {"id": f"Far.{name}"}, name=name)).status == 200
            for _ in range(5):
                await made.yard._workers.sync()
            assert len(decoded) == 3

    asyncio.run(story())


def test_how_many_tools_a_worker_and_a_caller_may_offer() -> None:
    async def story() -> None:
        async with Scene(Yard([kit], settings(max_tools_per_worker=3, max_tools_per_caller=5))) as made:
            refused = await made.send("owner", "PUT", AT, many(4))
            assert (refused.status, refused.json["parameter_errors"]) == (422, {"tools": "Must have at most 3 items"})
            assert (await made.send("owner", "PUT", AT, many(3))).status == 200
            assert (await made.send("owner", "PUT", "/v1/workers/same", many(3))).status == 200, "counted once"
            more = await made.send("owner", "PUT", "/v1/workers/more", many(3, "More"))
            assert (more.status, more.json["reason"]) == (409, "too_many")
            assert "may offer 5 tools, and with these it would be 6" in more.json["message"]
            assert (await made.send("owner", "PUT", "/v1/workers/more", many(2, "More"))).status == 200
            assert (await made.send("neighbour", "PUT", AT, many(3, "Other"))).status == 200

    asyncio.run(story())


def test_by_default_thousands_are_refused() -> None:
    async def story() -> None:
        async with Scene() as made:
            refused = await made.send("owner", "PUT", AT, many(4000))
            assert refused.json["parameter_errors"] == {"tools": "Must have at most 1000 items"}

    asyncio.run(story())


# -- rows that are not what somebody wrote ----------------------------------------------------------

GARBAGE = (
    b"", b"\xff\xfe", b"garbage", b"null", b"{}", b"[1]", b'[{"id":5}]', b'[{"id":"NoDot"}]',
    b'[{"id":"A.B","version":"x"}]', b'[{"id":"A.B","version":"' + b"9" * 5000 + b'"}]', b"[" * 5000,
    b'[{"id":"A.B","input_schema":{"type":"nonsense"}}]', b'[{"id":"A.B","input_schema":{"$ref":"#/nowhere"}}]',
    b'[{"id":"A.B","wire_name":"' + b"x" * 500 + b'","on_lost":"what"}]',
)  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_a_workers_row_that_cannot_be_read_keeps_nobody_from_being_served(
    garbage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = f"sqlite:{tmp_path / 'ledger.db'}"

    async def story() -> None:
        async with Scene(Yard([kit], settings(store=store))) as made:
            await made.yard.store.put_worker(WorkerRecord("acme", "ada", "broken", garbage))
            assert (await put(made, {"id": "Far.Look"})).status == 200
        async with Scene(Yard([kit], settings(store=store))) as made:
            assert "Far.Look" in await ids(made)
            assert (await put(made, {"id": "Far.Hear"}, role="foreigner")).status == 200
            assert (await made.send("owner", "GET", "/tools?versions=all")).status == 200

    with caplog.at_level(logging.ERROR, "toolyard.workers"):
        asyncio.run(story())
    if b"wire_name" not in garbage and garbage != b"null":
        assert "broken" in caplog.text or "A.B@1.0.0" in caplog.text


def test_an_offer_that_cannot_be_served_is_left_out_alone_even_if_only_the_catalogue_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two callers at two nodes took one name at the same moment."""

    async def story() -> None:
        async with Scene() as made:
            one = b'[{"id":"A.One","wire_name":"same"},{"id":"A.More"}]'
            two = b'[{"id":"B.One","wire_name":"same"},{"id":"B.More"}]'
            await made.yard.store.put_worker(WorkerRecord("acme", "ada", "one", one))
            await made.yard.store.put_worker(WorkerRecord("acme", "bob", "two", two))
            await made.yard._workers.sync()
            assert {"A.One", "A.More", "B.More"} <= await ids(made)
            assert "B.One@1.0.0 is offered by a worker and cannot be served" in caplog.text

    asyncio.run(story())


needy = Toolkit("Needy", version="1.0.0")


@needy.tool(requires=secret("KEY"), idempotent=True)
async def use() -> str:
    """Uses it."""
    return "used"


def test_garbage_in_any_other_table_keeps_no_server_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "ledger.db"

    async def fill() -> None:
        async with Scene(Yard([needy], settings(store=f"sqlite:{file}"))) as made:
            store, held = made.yard.store, HeldSecrets(made.yard._vault, lambda: 1.0)
            await held.put(WhichSecret("KEY", "acme"), "kept", ())
            await held.put(WhichSecret("OTHER", "acme"), "kept", ())
            await store.api_keys.put(ApiKey("broken", b"d" * 32, "acme", "ada"))
            await made.send("owner", "POST", "/v1/sessions", {})
            lost = NewCall(CallKey("acme", "ada", "oxp", "lost"), True, "oxp", "Needy.Use", "Needy.Use@1.0.0", b"{}")
            lost.on_lost = "rerun"
            await store.begin(lost)

    def spoil() -> None:
        with apsw.Connection(str(file)) as ledger:
            ledger.execute("UPDATE api_keys SET allow = x'ff', scopes = 'garbage' WHERE name = 'broken'")
            ledger.execute("UPDATE vault SET about = x'ff' WHERE name = 'KEY'")
            ledger.execute("UPDATE vault SET about = '[]', data = x'00' WHERE name = 'OTHER'")
            ledger.execute("UPDATE sessions SET tools = x'ff', metadata = '['")
            ledger.execute("UPDATE calls SET input = x'ff' WHERE call_id = 'lost'")
        ledger.close()

    async def serve() -> None:
        async with Scene(Yard([needy], settings(store=f"sqlite:{file}"))) as made:
            answer = await made.send("owner", "POST", "/tools/call", {"tool_id": "Needy.Use", "input": {}})
            assert answer.json["value"] == "used"
            lost = await made.yard.store.get("acme", "ada", "lost")
            assert lost is not None
            assert b"cannot be read" in (lost.error or b"")
            assert made.yard.needs_credentials
            shown, _ = await SecretAdmin(made.yard._vault, lambda: 1.0).listed()
            assert [each.which.name for each in shown] == ["KEY", "OTHER"]

    asyncio.run(fill())
    spoil()
    asyncio.run(serve())
    for named in (
        "the API key broken cannot be read",
        "secret KEY",
        "secret OTHER",
        "the call lost of Needy.Use@1.0.0",
    ):
        assert named in caplog.text


def test_how_much_a_tool_and_all_tools_of_a_caller_may_say() -> None:
    """Everybody's list of tools has them."""

    def saying(size: int, kit: str = "Far", count: int = 1) -> dict[str, Any]:
        schema = {"type": "object"}
        return {
            "tools": [{"id": f"{kit}.T{n}", "description": "x" * size, "input_schema": schema} for n in range(count)]
        }

    async def story() -> None:
        async with Scene(Yard([kit], settings(max_body_bytes=2**24))) as made:
            refused = await made.send("owner", "PUT", AT, saying(LARGEST_DEFINITION))
            assert refused.status == 422
            assert f"of at most {LARGEST_DEFINITION}" in refused.json["parameter_errors"]["tools[0]"]
            half = LARGEST_DEFINITION // 2
            assert (await made.send("owner", "PUT", AT, saying(half, count=50))).status == 200
            assert (await made.send("owner", "PUT", "/v1/workers/same", saying(half, count=50))).status == 200
            more = await made.send("owner", "PUT", "/v1/workers/more", saying(half, "More", 20))
            assert (more.status, more.json["reason"]) == (409, "too_many")
            assert f"may offer {MOST_OFFERED} bytes of tools" in more.json["message"]
            assert (await made.send("neighbour", "PUT", AT, saying(half, "Other", 20))).status == 200

    asyncio.run(story())
