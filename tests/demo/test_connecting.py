"""The server and the demo's provider, over time: a token is renewed, taken back, and gone."""

import asyncio
from pathlib import Path

from toolyard.demo.provider import TOKEN_S, Application, DemoProvider
from toolyard.demo.provider_http import listening, providing

from ..server.accounts.stage import CALLBACK, SECRET, ManualClock, Person, scene
from ..trust.credentials.identity_provider import Provider as Named


def test_a_token_is_renewed_once_it_ends_and_the_provider_takes_it_back() -> None:
    async def story(issuer: str, clock: ManualClock) -> None:
        async with scene(Named(issuer, Path()), clock) as stage:
            link = await stage.challenge()
            async with stage.browser() as browser:
                person = Person(browser, "ada")
                done = await person.fill_in(await person.sign_in(link), person="ada", say="allow")
            assert "The account ada@demo.example at idp is connected" in done.text
            first = await stage.held("local")
            clock.ahead += TOKEN_S + 1
            assert (await stage.call())["status"] == 200
            second = await stage.held("local")
            assert {first["access"], first["refresh"]} & {second["access"], second["refresh"]} == set()
            assert stage.yard.connecting is not None
            ended = await stage.yard.connecting.connections.disconnect("default", "local", "idp")
            assert ended is not None
            assert ended[1], "the provider took it back"
            async with stage.browser() as browser:
                headers = {"authorization": f"Bearer {second['access']}"}
                assert (await browser.get(f"{issuer}/userinfo", headers=headers)).status_code == 401

    clock = ManualClock()
    with listening() as (listener, issuer):
        provider = DemoProvider(issuer, Application("toolyard", SECRET, CALLBACK), clock)
        with providing(provider, listener):
            asyncio.run(story(issuer, clock))
