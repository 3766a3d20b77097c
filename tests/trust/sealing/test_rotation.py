"""A key is changed, and everything that was made with the older one still counts: calls, sessions, the audit log."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from toolyard import Toolkit
from toolyard.model.caller import LOCAL
from toolyard.model.errors import RequestError, SettingsError
from toolyard.model.sealed import Resealed
from toolyard.server.app.compose import Yard
from toolyard.server.mcp.protocol.event_ids import Places
from toolyard.server.mcp.protocol.peer import Peer
from toolyard.server.mcp.protocol.request_state import RequestState, States
from toolyard.server.mcp.protocol.sessions import McpSessions, SessionState
from toolyard.store.contract import Store
from toolyard.testing import client
from toolyard.trust.audit.chain import Broken, verify
from toolyard.trust.audit.log import MAIN, Audit, AuditSettings
from toolyard.trust.limits.quotas import Quotas, quotas_of
from toolyard.trust.sealing.ring import KeyRing
from toolyard.trust.sealing.vault import Vault, VaultPath
from toolyard.wires.mcp.envelope import RpcError
from toolyard.wires.mcp.revisions import R_2025_11_25

from ...server.approvals.test_approvals import challenge_of, oxp, page_of, paid, waiting
from ...server.approvals.test_approvals import kit as pay
from ...server.approvals.test_approvals import status as status_of
from ...server.scene import Scene, settings
from ...server.scene import kit as safe
from ...wires.records import PENDING
from ..audit.logs import audit, entry, in_file, read

OLD, NEW = "01" * 32, "02" * 32
kit = Toolkit("Kit")
made: list[str] = []


@kit.tool
def note(text: str) -> int:
    """Notes a text, and says how many there are."""
    made.append(text)
    return len(made)


def call(folder: Path, keys: list[str], call_id: str, text: str) -> Any:
    with client(kit, store=f"sqlite:{folder / 'a.db'}", secret_key=keys) as yard:
        return yard.call("Kit.Note", {"text": text}, call_id=call_id)


def test_a_call_that_was_made_before_is_not_made_again(tmp_path: Path) -> None:
    made.clear()
    first = call(tmp_path, [OLD], "c-1", "a")
    assert call(tmp_path, [NEW, OLD], "c-1", "a") == first
    assert made == ["a"]
    with pytest.raises(RequestError, match="used for another call"):
        call(tmp_path, [NEW, OLD], "c-1", "b")
    with pytest.raises(RequestError, match="used for another call"):
        call(tmp_path, [NEW], "c-1", "a")
    assert call(tmp_path, [NEW, OLD], "c-2", "b") == 2
    assert call(tmp_path, [NEW], "c-2", "b") == 2, "it was made with the newest"


def test_the_audit_log_is_whole_across_keys(tmp_path: Path) -> None:
    ring = KeyRing(lambda: [b"n" * 32, b"k" * 32])

    async def work(store: Store) -> None:
        before = audit(store)
        await before.open()
        before.add(entry(1))
        await before.close()
        old = await read(store)
        after = Audit(store.audit, ring, MAIN, AuditSettings(), lambda: 200.0)
        await after.open()
        after.add(entry(2))
        await after.close()
        log = await read(store)
        assert len(log.blocks) > len(old.blocks)
        assert old.chain.head is not None
        verify(ring, log.chain, log.blocks, (old.chain.head,))
        for alone in (b"n" * 32, b"k" * 32):
            with pytest.raises(Broken):
                verify(KeyRing(lambda key=alone: key), log.chain, log.blocks)  # type: ignore[misc]

    in_file(tmp_path / "a.db", work)


def test_what_mcp_clients_hold_is_still_taken(tmp_path: Path) -> None:
    old, new = KeyRing(lambda: b"o" * 32), KeyRing(lambda: b"n" * 32)
    both = KeyRing(lambda: [b"n" * 32, b"o" * 32])
    peer = Peer(R_2025_11_25, LOCAL, {}, session="s")
    event = Places(old).id_of((7, 0, 1), peer).encode()
    assert (Places(both).read(event, peer), Places(new).read(event, peer)) == ((7, 0, 1), None)
    call = replace(PENDING, seq=7)
    state = States(old, 60, lambda: 0.0).make(call, LOCAL, b"request", ())
    assert States(both, 60, lambda: 0.0).open(state, LOCAL, b"request") == RequestState(7, call.name.digest(), 60.0, ())
    with pytest.raises(RpcError):
        States(new, 60, lambda: 0.0).open(state, LOCAL, b"request")

    async def work(store: Store) -> None:
        quotas = Quotas(quotas_of({}, is_away=False), store)
        session = await McpSessions(store, old, lambda: "id", quotas).open(LOCAL, SessionState("2025-11-25"))
        assert (await McpSessions(store, both, lambda: "id", quotas).find(session, LOCAL)).version == "2025-11-25"
        with pytest.raises(RpcError):
            await McpSessions(store, new, lambda: "id", quotas).find(session, LOCAL)

    in_file(tmp_path / "a.db", work)


async def use_of(made: Scene, session: str, text: str) -> int:
    use = {"type": "tool_use", "id": "t-1", "name": "Safe_Keep", "input": {"text": text}}
    message = {"role": "assistant", "content": [use]}
    return (await made.send("owner", "POST", f"/v1/sessions/{session}/messages", message)).status


def test_a_models_message_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'a.db'}"

    async def play() -> None:
        async with Scene(Yard([safe], settings(store=store, secret_key=[OLD]))) as made:
            session = (await made.send("owner", "POST", "/v1/sessions", {})).json["sessionId"]
            assert await use_of(made, session, "a") == 200
        for keys, text, status in (([NEW, OLD], "a", 200), ([NEW, OLD], "b", 409), ([NEW], "a", 409)):
            async with Scene(Yard([safe], settings(store=store, secret_key=keys))) as made:
                assert await use_of(made, session, text) == status

    asyncio.run(play())


@pytest.mark.parametrize("key", [{}, {"call_id": "k"}])
def test_a_call_that_waits_is_known_and_its_link_and_code_still_count(tmp_path: Path, key: dict[str, str]) -> None:
    paid.clear()

    def opened(*keys: str) -> Scene:
        given = {"store": f"sqlite:{tmp_path / 'a.db'}", "secret_key": list(keys), "sync_wait_s": 0.2}
        made = Scene(Yard([pay], settings(**given)))
        made.credentials["operator"] = {b"authorization": f"Bearer {made.yard.operators_token.text}".encode()}
        return made

    async def play() -> None:
        async with opened(OLD) as made:
            challenge = challenge_of(await oxp(made, **key))
            (approval,) = await waiting(made)
        with pytest.raises(SettingsError, match="no key in secret_key fits this ledger"):
            await opened(NEW).__aenter__()
        async with opened(NEW, OLD):
            pass  # the newer one has signed something now
        async with opened(NEW) as made:
            assert await status_of(made, challenge) == "failed", "no key here has signed it"
        async with opened(NEW, OLD) as made:
            await made.yard._vault.reseal()
            assert await status_of(made, challenge) == "pending"
            assert challenge_of(await oxp(made, **key))["id"].split("-")[0] == challenge["id"].split("-")[0]
            assert len(await waiting(made)) == 1, "it was not made anew"
            page = page_of(made, approval)
            await page.open()
            assert (await page.send("yes", "AAAA-AAAA")).status == 403
            await page.open()
            assert (await page.send("yes", approval["code"])).status == 200
            while "value" not in (ended := await oxp(made, **key)).json:  # it is only just being started
                assert ended.status in (200, 202)
            assert ended.json["value"] == "500 for 7"
        assert paid == [("7", 500)]

    asyncio.run(play())


def test_things_of_every_kind_are_sealed_anew_and_known_for_what_they_were(tmp_path: Path) -> None:
    old, new = KeyRing(lambda: b"o" * 32), KeyRing(lambda: b"n" * 32)
    both = KeyRing(lambda: [b"n" * 32, b"o" * 32])
    places = [VaultPath("secret", "acme", "", "A"), VaultPath("connection", "acme", "ada", "google")]

    async def work(store: Store) -> None:
        for place in places:
            await Vault(store.sealed, old).put(place, place.name.encode(), {"since": 1})
        await Vault(store.sealed, KeyRing(lambda: b"s" * 32)).put(VaultPath("secret", "acme", "", "LOST"), b"x", {})
        assert await Vault(store.sealed, both).reseal() == Resealed(2, 0, 1)
        assert await Vault(store.sealed, both).reseal() == Resealed(0, 2, 1)
        for place in places:
            opened = await Vault(store.sealed, new).get(place)
            assert opened is not None
            assert (opened.value, opened.about) == (place.name.encode(), {"since": 1})

    in_file(tmp_path / "a.db", work)
