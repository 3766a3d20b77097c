"""While a call waits for a person, what the server keeps for it changes: it runs with what there is when it begins, and
never with less than it needs."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from toolyard.model.caller import LOCAL
from toolyard.model.clock import SYSTEM_CLOCK
from toolyard.model.record import CallRecord
from toolyard.model.sealed import WhichSecret
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.trust.credentials.jwks_cache import NoAnswer
from toolyard.trust.requirements.provider import ProviderTokens
from toolyard.trust.requirements.secrets import HeldSecrets
from toolyard.trust.sealing.vault import Vault, VaultPath

from ...conformance.serving import command, environment, free_port, wait_until_healthy
from ...trust.credentials.identity_provider import Provider, having_accounts
from .serving import TOOLS, Served, settings
from .stage import Link, ManualClock, Scene
from .test_holding import connect, get, link_in, play, post, used
from .tools import digest_of, keyed

AN_HOUR = 3600.0
ASKS: dict[str, Any] = {"approvals": [{"tools": "Post.*"}], "approval_wait_s": 10 * AN_HOUR}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a server that looks now and then."""
    monkeypatch.setattr("toolyard.engine.upkeep.EVERY_S", 0.02)


async def waiting(stage: Scene) -> CallRecord:
    (call,) = await stage.yard._decisions.approvals.waiting()
    return call


async def approve(stage: Scene) -> None:
    await stage.yard._decisions.approvals.decide(await waiting(stage), approved=True, by="a test")


async def result(stage: Scene, session: str) -> dict[str, Any]:
    shown = await get(stage, f"/v1/sessions/{session}/results?wait=20")
    (only,) = shown["message"]["content"]
    return dict(only)


async def asks_for_its_account(stage: Scene, session: str) -> Link:
    """Waits for that, and gives the link."""
    path = f"/v1/tools/request/{session}/t-1"
    while (shown := await get(stage, path)).get("waitingFor") != "authorization":
        assert shown["state"] == "PENDING", shown
        await asyncio.sleep(0.02)
    assert shown["attempt"] == 0
    return link_in(shown)


async def token_of(stage: Scene) -> str:
    return str((await stage.held("local"))["access"])


async def has_account(stage: Scene, token: str = "a-token-of-adas") -> None:
    """Without a way through the provider's pages."""
    assert stage.yard.connecting is not None
    tokens = ProviderTokens(token, None, None, None)
    await stage.yard.connecting.connections.keep(LOCAL, "idp", tokens, ("mail.read",), "ada")


async def disconnect(stage: Scene) -> None:
    assert stage.yard.connecting is not None
    assert await stage.yard.connecting.connections.disconnect("default", "local", "idp")


def test_a_token_whose_time_is_over_when_somebody_says_yes_was_renewed(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await stage.connect()
        session, first = await used(stage), await token_of(stage)
        assert (await waiting(stage)).sealed is None, "what is kept here is kept in one place"
        stage.clock.ahead = AN_HOUR
        await approve(stage)
        assert (await result(stage, session))["content"] == digest_of(await token_of(stage))
        assert await token_of(stage) != first

    play(story, provider, **ASKS)


def test_what_the_caller_brought_is_what_it_gets(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        body = {"tool_id": "Post.Read", "call_id": "k", "context": {"authorization": [{"id": "idp", "token": "mine"}]}}
        assert (await post(stage, "/tools/call", body))["missing_requirements"]["approval"]
        await approve(stage)
        assert (await post(stage, "/tools/call", body))["value"] == digest_of("mine")

    play(story, provider, **ASKS)


def test_where_the_account_was_disconnected_it_waits_for_it_again_and_nobody_is_asked_twice(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await has_account(stage)
        session = await used(stage)
        await disconnect(stage)
        await approve(stage)
        await asks_for_its_account(stage, session)
        await has_account(stage, "another-token-of-adas")
        assert (await result(stage, session))["content"] == digest_of(await token_of(stage))

    play(story, provider, **ASKS)


def test_a_connection_that_is_dead_is_waited_for_too(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await stage.connect()
        session = await used(stage)
        assert stage.yard.connecting is not None
        refresh = (await stage.held("local"))["refresh"]
        await stage.yard.connecting._providers["idp"].revoke(refresh, "refresh_token")
        stage.clock.ahead = AN_HOUR
        await approve(stage)
        await connect(stage, await asks_for_its_account(stage, session))
        assert not (await result(stage, session)).get("is_error")

    play(story, provider, **ASKS)


def test_who_cannot_be_shown_a_link_later_is_told_that_nothing_was_done(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await has_account(stage)
        body = {"tool_id": "Post.Read", "call_id": "k"}
        assert (await post(stage, "/tools/call", body))["missing_requirements"]["approval"]
        await disconnect(stage)
        await approve(stage)
        shown = await get(stage, "/v1/calls/k?wait=20")
        assert (shown["state"], shown["code"], shown["effects"], shown["attempt"]) == (
            "ERROR",
            "tool_failed",
            "none",
            0,
        )
        assert "authorization at idp, which is no longer there. Nothing was done" in shown["error"]["message"]
        assert "idp" in (await post(stage, "/tools/call", body))["message"], "its key is free: the next one asks anew"

    play(story, provider, **ASKS)


def test_while_the_provider_is_away_it_waits_and_goes_on_when_it_is_back(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolyard.engine.account_wait.LOOK_AGAIN_S", 0.05)
    away = asyncio.Event()

    async def story(stage: Scene) -> None:
        await stage.connect()
        assert stage.yard.connecting is not None
        idp = stage.yard.connecting._providers["idp"]
        refresh = idp.refresh

        async def no_answer(token: str) -> Any:
            away.set()
            raise NoAnswer("it is away")

        monkeypatch.setattr(idp, "refresh", no_answer)
        session = await used(stage)
        stage.clock.ahead = AN_HOUR
        await approve(stage)
        await away.wait()
        monkeypatch.setattr(idp, "refresh", refresh)
        assert not (await result(stage, session)).get("is_error")

    play(story, provider, **ASKS)


def test_all_who_wait_are_woken_by_the_connection_itself(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolyard.engine.account_wait.LOOK_AGAIN_S", 3600.0)
    monkeypatch.setattr("toolyard.engine.account_wait.AT_ONCE", 1)

    async def story(stage: Scene) -> None:
        sessions = [await used(stage) for _ in range(3)]
        await connect(stage, await asks_for_its_account(stage, sessions[0]))
        for session in sessions:
            assert not (await result(stage, session)).get("is_error")

    play(story, provider)


def test_where_nothing_waits_nothing_is_looked_for(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolyard.engine.account_wait.LOOK_AGAIN_S", 0.001)
    monkeypatch.setattr("toolyard.engine.upkeep.EVERY_S", 0.001)

    async def story(stage: Scene) -> None:
        session = await used(stage)
        await asks_for_its_account(stage, session)
        await has_account(stage)
        await result(stage, session)
        looks, rounds, enough = [], iter(range(100)), asyncio.Event()
        listed, expire = stage.yard.store.listed, stage.yard.store.expire

        async def look(wanted: Any) -> Any:
            looks.append(wanted)
            return await listed(wanted)

        async def expiring(limit: int) -> int:
            if next(rounds, None) is None:
                enough.set()
            return await expire(limit)

        stage.yard.store.listed, stage.yard.store.expire = look, expiring  # type: ignore[method-assign]
        await enough.wait()
        assert len(looks) <= 1, "the last look of all may still have been under way"

    play(story, provider)


# -- secrets ---------------------------------------------------------------------------------------


async def with_secret(story: Callable[[Scene, HeldSecrets, str], Awaitable[None]]) -> None:
    given = {"approvals": [{"tools": "Keyed.*"}], "approval_wait_s": AN_HOUR}
    yard = Yard([keyed], exactly(**given))
    async with yard.lifetime():
        stage, secrets = Scene(yard, ManualClock()), HeldSecrets(yard._vault, SYSTEM_CLOCK.now)
        await secrets.put(WhichSecret("KEY", "default"), "first", ())
        session = await used(stage, "Keyed_Show")
        assert (await waiting(stage)).sealed is None
        await story(stage, secrets, session)


def test_a_secret_that_was_set_anew_is_the_one_that_is_used() -> None:
    async def story(stage: Scene, secrets: HeldSecrets, session: str) -> None:
        await secrets.put(WhichSecret("KEY", "default"), "second", ())
        await approve(stage)
        assert (await result(stage, session))["content"] == digest_of("second")

    asyncio.run(with_secret(story))


def test_without_its_secret_nothing_is_done() -> None:
    async def story(stage: Scene, secrets: HeldSecrets, session: str) -> None:
        await secrets.remove(WhichSecret("KEY", "default"))
        await approve(stage)
        told = await result(stage, session)
        assert told["is_error"]
        assert "The call was not begun: it needs the secret KEY" in told["content"]

    asyncio.run(with_secret(story))


# -- a server that is killed -----------------------------------------------------------------------


class Killable:
    """A server process on a port of its own."""

    def __init__(self, folder: Path, port: int, provider_port: int) -> None:
        self.folder, self._port = folder, port
        self._environment = {
            **environment("open"), **settings(f"http://127.0.0.1:{provider_port}"),
            "TOOLYARD_APPROVALS": json.dumps(ASKS["approvals"]),
        }  # fmt: skip

    def start(self) -> None:
        log = self.folder / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command(TOOLS, "--port", str(self._port)), cwd=self.folder, env=self._environment, stdout=output,
                stderr=output,
            )  # fmt: skip
        wait_until_healthy(self._process, self._port, log)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def test_a_server_that_was_killed_meanwhile_renews_the_token_too(tmp_path: Path) -> None:
    port, provider_port = free_port(), free_port()
    url, server = f"http://127.0.0.1:{port}", Killable(tmp_path, port, provider_port)
    with having_accounts(provider_port, [f"{url}/connections/idp/callback"], tmp_path / "log") as idp:
        server.start()
        try:
            served = Served(url, idp, tmp_path)
            assert served.go(served.challenge("local")).status == 200
            served.use()
            server.kill()
            before = asyncio.run(while_down(tmp_path))
            server.start()
            said = served.result()["content"]
        finally:
            server.kill()
        assert said != digest_of(before)
        assert said == digest_of(asyncio.run(kept(tmp_path))["access"])
        assert idp.said("gave refresh_token") == 1


PLACE = VaultPath("connection", "default", "local", "idp")


def ledger_of(folder: Path) -> Yard:
    given = {"store": f"sqlite:{folder / 'toolyard.db'}", "secret_key": (folder / "toolyard.key").read_text().strip()}
    return Yard([], exactly(**given))


async def kept(folder: Path) -> dict[str, Any]:
    yard = ledger_of(folder)
    await yard.store.open()
    try:
        opened = await Vault(yard.store.sealed, yard._ring).get(PLACE)
        assert opened is not None
        return dict(json.loads(opened.value))
    finally:
        await yard.store.close()


async def while_down(folder: Path) -> str:
    """Somebody says yes, and the token's time is over. The token."""
    yard = ledger_of(folder)
    await yard.store.open()
    try:
        (call,) = await yard._decisions.approvals.waiting()
        assert call.sealed is None
        await yard._decisions.approvals.decide(call, approved=True, by="a test")
        vault = Vault(yard.store.sealed, yard._ring)
        opened = await vault.get(PLACE)
        assert opened is not None
        held = json.loads(opened.value)
        await vault.put(PLACE, json.dumps(held | {"stale": 1.0, "ends": 2.0}).encode(), opened.about)
        return str(held["access"])
    finally:
        await yard.store.close()
