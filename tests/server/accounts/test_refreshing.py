"""Tokens are renewed by themselves, once, whoever needs them; and a connection that is no longer good is none."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from toolyard.trust.sealing.vault import Vault, VaultPath

from ...conformance.serving import free_port
from ...trust.credentials.identity_provider import Provider, having_accounts
from .stage import CALLBACK, ManualClock, Person, providers, scene

AN_HOUR = 3600.0


@pytest.fixture
def own(tmp_path: Path) -> Any:
    """A provider for one test, which reads what it was asked for."""
    with having_accounts(free_port(), [CALLBACK], tmp_path / "log") as started:
        yield started


def test_a_token_is_renewed_before_its_end_and_its_refresh_token_with_it(own: Provider) -> None:
    async def story() -> None:
        async with scene(own) as stage:
            await stage.connect()
            first, before = (await stage.call())["value"], await stage.held("local")
            stage.clock.ahead = AN_HOUR - 61
            assert (await stage.call())["value"] == first
            for again in (1, 2, 3):
                stage.clock.ahead = again * AN_HOUR
                renewed, after = (await stage.call())["value"], await stage.held("local")
                assert renewed != first
                assert after["refresh"] != before["refresh"], "the provider gives a new one each time"
                assert (after["about"], after["scopes"]) == (before["about"], before["scopes"])
                assert (await stage.call())["value"] == renewed
                assert own.said("gave refresh_token") == again
                first, before = renewed, after

    asyncio.run(story())


def test_many_calls_at_once_renew_it_once(own: Provider) -> None:
    async def story() -> None:
        async with scene(own) as stage:
            await stage.connect()
            stage.clock.ahead = AN_HOUR
            answers = await asyncio.gather(*(stage.call() for _ in range(20)))
            assert len({answer["value"] for answer in answers}) == 1
            assert own.said("gave refresh_token") == 1

    asyncio.run(story())


def test_two_nodes_on_one_ledger_renew_it_once(own: Provider, postgres_url: str) -> None:
    async def story() -> None:
        clock, shared = ManualClock(), {"store": postgres_url, "secret_key": "ab" * 32}
        async with scene(own, clock, **shared) as one, scene(own, clock, **shared) as other:
            await one.connect(user_id="ada")
            assert (await other.call(user_id="ada"))["status"] == 200
            for again in (1, 2, 3):
                clock.ahead = again * AN_HOUR
                calls = [node.call(user_id="ada") for node in (one, other) * 5]
                answers = await asyncio.gather(*calls)
                assert {answer["status"] for answer in answers} == {200}, answers
                assert len({answer["value"] for answer in answers}) == 1
                assert own.said("gave refresh_token") == again
            assert own.said("refused refresh_token invalid_grant") == 0

    asyncio.run(story())


def test_a_claim_whose_holder_died_does_not_last(own: Provider) -> None:
    async def story() -> None:
        async with scene(own) as stage:
            await stage.connect()
            stage.clock.ahead = AN_HOUR
            vault, place = (
                Vault(stage.yard.store.sealed, stage.yard._ring),
                VaultPath("connection", "default", "local", "idp"),
            )
            opened = await vault.get(place)
            assert opened is not None
            claimed = json.loads(opened.value) | {"refreshing_until": stage.clock() + 20}
            await vault.put(place, json.dumps(claimed).encode(), opened.about)
            waiting = asyncio.ensure_future(stage.call())
            done, _ = await asyncio.wait([waiting], timeout=0.3)
            assert not done
            assert own.said("gave refresh_token") == 0
            stage.clock.ahead += 21
            assert (await waiting)["status"] == 200
            assert own.said("gave refresh_token") == 1

    asyncio.run(story())


def test_a_new_token_is_kept_also_if_all_was_sealed_anew_meanwhile(own: Provider) -> None:
    async def story() -> None:
        async with scene(own) as stage:
            await stage.connect()
            vault, place = (
                Vault(stage.yard.store.sealed, stage.yard._ring),
                VaultPath("connection", "default", "local", "idp"),
            )
            provider = stage.yard.connecting._providers["idp"]  # type: ignore[union-attr]
            refresh = provider.refresh

            async def sealed_anew(token: str) -> Any:
                tokens, opened = await refresh(token), await vault.get(place)
                assert opened is not None
                assert await vault.put(place, opened.value, opened.about, opened.version)
                return tokens

            provider.refresh = sealed_anew  # type: ignore[method-assign]
            for again in (1, 2):
                stage.clock.ahead = again * AN_HOUR
                assert (await stage.call())["status"] == 200
            assert own.said("gave refresh_token") == 2

    asyncio.run(story())


def test_what_a_refresh_brings_after_the_account_was_disconnected_is_taken_back_too(own: Provider) -> None:
    async def story() -> None:
        async with scene(own) as stage:
            await stage.connect()
            connections = stage.yard.connecting.connections  # type: ignore[union-attr]
            provider = stage.yard.connecting._providers["idp"]  # type: ignore[union-attr]
            refresh, revoke, taken_back, brought = provider.refresh, provider.revoke, [], []

            async def disconnected_meanwhile(token: str) -> Any:
                tokens = await refresh(token)
                brought.append(tokens.refresh)
                await connections.disconnect("default", "local", "idp")
                return tokens

            async def revoked(token: str, kind: str) -> bool:
                taken_back.append(token)
                return await revoke(token, kind)

            provider.refresh = disconnected_meanwhile  # type: ignore[method-assign]
            provider.revoke = revoked  # type: ignore[method-assign]
            stage.clock.ahead = AN_HOUR
            assert (await stage.call())["status"] == 400, "nobody has the account any more"
            assert brought[0] in taken_back

    asyncio.run(story())


def test_a_refresh_token_that_is_dead_leads_to_a_new_challenge(own: Provider) -> None:
    async def story() -> None:
        async with scene(own) as stage:
            await stage.connect()
            refresh = (await stage.held("local"))["refresh"]
            await stage.yard.connecting._providers["idp"].revoke(refresh, "refresh_token")  # type: ignore[union-attr]
            stage.clock.ahead = AN_HOUR
            refused = await stage.call()
            assert (refused["status"], len(refused["missing_requirements"]["authorization"])) == (400, 1)
            assert await stage.yard.store.sealed.listed("connection") == []
            await stage.yard.audit.written()  # type: ignore[union-attr]
            entries = b"".join(block.entries for block in await stage.yard.store.audit.blocks("main", 0, 100))
            assert b"refused idp: its refresh token is no longer good" in entries
            await stage.connect()
            assert (await stage.call())["status"] == 200

    asyncio.run(story())


def test_while_the_provider_is_away_a_token_serves_until_its_end(tmp_path: Path) -> None:
    async def story() -> None:
        clock = ManualClock()
        with having_accounts(free_port(), [CALLBACK], tmp_path / "log") as provider:
            async with scene(provider, clock, store=f"sqlite:{tmp_path / 'ledger.db'}") as stage:
                await stage.connect()
                token = (await stage.call())["value"]
        async with scene(provider, clock, store=f"sqlite:{tmp_path / 'ledger.db'}") as stage:
            clock.ahead = AN_HOUR - 30
            assert (await stage.call())["value"] == token
            clock.ahead = AN_HOUR + 30
            refused = await stage.call()
            assert (refused["status"], refused["retry_after_ms"]) == (400, 5000)
            assert "cannot be renewed at the moment" in refused["message"]
            assert len(await stage.yard.store.sealed.listed("connection")) == 1, "it is not lost"

    asyncio.run(story())


def test_a_token_without_a_refresh_token_serves_until_its_end(own: Provider) -> None:
    async def story() -> None:
        setting = json.dumps(providers(own.issuer, scopes=["openid"], parameters={}))
        async with scene(own, providers=setting) as stage:
            await stage.connect()
            assert (await stage.held("local"))["refresh"] is None
            stage.clock.ahead = AN_HOUR - 1
            assert (await stage.call())["status"] == 200
            stage.clock.ahead = AN_HOUR + 1
            assert (await stage.call())["status"] == 400

    asyncio.run(story())


def test_who_goes_away_while_it_is_renewed_loses_nothing(own: Provider) -> None:
    """The provider has given out the next refresh token: it must be kept, though nobody waits for it."""

    async def story() -> None:
        async with scene(own) as stage:
            await stage.connect()
            stage.clock.ahead = AN_HOUR
            connections = stage.yard.connecting.connections  # type: ignore[union-attr]
            calling = asyncio.ensure_future(stage.call())
            while not connections._refreshing:
                await asyncio.sleep(0)
            (refreshing,) = connections._refreshing
            calling.cancel()
            await asyncio.wait([calling, refreshing])
            assert calling.cancelled()
            assert own.said("gave refresh_token") == 1
            assert (await stage.call())["status"] == 200
            assert own.said("gave refresh_token") == 1

    asyncio.run(story())


def test_what_was_sealed_with_a_key_that_is_gone_is_nobodys(own: Provider, tmp_path: Path) -> None:
    async def story() -> None:
        ledger = f"sqlite:{tmp_path / 'ledger.db'}"
        async with scene(own, store=ledger, secret_key="ab" * 32) as stage:
            await stage.connect()
        async with scene(own, store=ledger, secret_key=["cd" * 32, "ab" * 32]) as stage:
            assert (await stage.call())["status"] == 200
        async with scene(own, store=ledger, secret_key="cd" * 32) as stage:
            link = await stage.challenge()
            async with stage.browser() as browser:
                await Person(browser, "ada").allow(link)
            assert (await stage.call())["status"] == 200

    asyncio.run(story())


def test_a_claim_from_before_the_clock_was_set_back_does_not_last(own: Provider) -> None:
    async def story() -> None:
        async with scene(own) as stage:
            await stage.connect()
            stage.clock.ahead = AN_HOUR
            vault, place = (
                Vault(stage.yard.store.sealed, stage.yard._ring),
                VaultPath("connection", "default", "local", "idp"),
            )
            opened = await vault.get(place)
            assert opened is not None
            claimed = json.loads(opened.value) | {"refreshing_until": stage.clock() + AN_HOUR + 20}
            await vault.put(place, json.dumps(claimed).encode(), opened.about)
            async with asyncio.timeout(20):
                assert (await stage.call())["status"] == 200
            assert own.said("gave refresh_token") == 1

    asyncio.run(story())
