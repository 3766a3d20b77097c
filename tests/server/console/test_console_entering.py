"""Who gets to the console: a code lets one browser in, for a while, and nobody else learns anything there."""

import time

import pytest

from toolyard import Toolkit
from toolyard.model.clock import Clock
from toolyard.server.app.compose import Yard
from toolyard.server.http.routes import Route

from ..scene import Scene, settings
from .console_browser import Browser, ManualClock, audited, came_in, new_code, run

kit = Toolkit("Pay")
COOKIE = "toolyard-console"


@kit.tool(approval="always")
async def refund(order: str) -> str:
    """Pays a customer back."""
    return order


def console_routes() -> list[Route]:
    return [route for route in Yard([kit], settings()).asgi._table.all() if route.path.startswith("/console")]


INSIDE = [route for route in console_routes() if route.path not in ("/console/enter", "/console/leave")]


def test_a_code_lets_a_browser_in() -> None:
    async def scene(made: Scene) -> None:
        browser = Browser(made)
        assert (await browser.open()).status == 303
        code = await new_code(made)
        answer = await browser.enter(code.lower().replace("-", " "))
        headers = dict(answer.headers)
        assert (answer.status, headers[b"location"]) == (303, b"http://localhost/console")
        (cookie,) = [value for name, value in answer.headers if name == b"set-cookie"]
        assert cookie.endswith(b"; Path=/; Max-Age=28800; HttpOnly; SameSite=Strict")
        assert (await browser.open()).status == 200
        assert "Sign out" in browser.text
        assert dict((await browser.open("/enter")).headers)[b"location"] == b"http://localhost/console"
        assert ("admin", "console: a browser came in") in await audited(made)

    run(scene, kit)


def test_over_tls_only_this_host_can_set_the_cookie() -> None:
    async def scene(made: Scene) -> None:
        browser = Browser(made)
        await browser.open("/enter")
        answer = await browser.send("/enter", origin=b"https://tools.example", code=await new_code(made))
        (cookie,) = [value for name, value in answer.headers if name == b"set-cookie"]
        assert cookie.startswith(b"__Host-toolyard-console=")
        assert cookie.endswith(b"; Path=/; Max-Age=28800; HttpOnly; SameSite=Strict; Secure")

    run(scene, kit, public_url="https://tools.example")


def test_where_others_can_read_along_there_is_no_console() -> None:
    async def scene(made: Scene) -> None:
        browser = Browser(made)
        assert ((await browser.open("/enter")).status, "over https" in browser.text) == (403, True)
        answer = await browser.send("/enter", origin=b"http://tools.example", code=await new_code(made))
        assert (answer.status, COOKIE in browser.cookies) == (403, False)
        made.yard.asgi._public_url = None
        browser = await came_in(made)
        made.yard.asgi._public_url = "http://tools.example"
        assert (await browser.open()).status == 303

    run(scene, kit, public_url="http://tools.example")


def test_a_code_is_good_once() -> None:
    async def scene(made: Scene) -> None:
        code = await new_code(made)
        assert (await Browser(made).enter(code)).status == 303
        second = Browser(made)
        assert ((await second.enter(code)).status, "not good" in second.text) == (403, True)
        assert COOKIE not in second.cookies
        assert ("auth", "a wrong code for the console") in await audited(made)

    run(scene, kit)


def test_codes_and_sessions_end() -> None:
    clock = ManualClock(time.time)

    async def scene(made: Scene) -> None:
        late, code = Browser(made), await new_code(made)
        browser = await came_in(made)
        clock.ahead = 599
        assert (await Browser(made).enter(await new_code(made))).status == 303
        clock.ahead = 601
        assert (await late.enter(code)).status == 403
        clock.ahead = 8 * 3600 - 60
        assert (await browser.open()).status == 200
        clock.ahead = 8 * 3600 + 60
        assert (await browser.open()).status == 303

    run(scene, kit, Clock(now=clock.now))


def test_of_many_wrong_codes_ten_are_written_down_and_nobody_is_locked_out() -> None:
    async def scene(made: Scene) -> None:
        browser, code = Browser(made), await new_code(made)
        for number in range(12):
            assert (await browser.enter("AAAA-AAAA-AAAA")).status == 403
            assert ("too many wrong codes" in browser.text) == (number >= 10)
        assert len([entry for entry in await audited(made) if entry[0] == "auth"]) == 10
        assert (await browser.enter(code)).status == 303

    run(scene, kit)


def test_wrong_codes_are_counted_for_ten_minutes() -> None:
    clock = ManualClock(time.time)

    async def scene(made: Scene) -> None:
        browser = Browser(made)
        for ahead in (0, 601):
            clock.ahead = ahead
            for _ in range(10):
                await browser.enter("AAAA-AAAA-AAAA")
                assert "too many wrong codes" not in browser.text

    run(scene, kit, Clock(now=clock.now))


def test_a_good_code_ends_the_counting() -> None:
    async def scene(made: Scene) -> None:
        for _ in range(3):
            for _ in range(9):
                assert (await Browser(made).enter("AAAA-AAAA-AAAA")).status == 403
            assert (await Browser(made).enter()).status == 303

    run(scene, kit)


def test_signing_out_ends_the_session_and_not_only_the_cookie() -> None:
    async def scene(made: Scene) -> None:
        browser, other = await came_in(made), await came_in(made)
        kept = browser.cookies[COOKIE]
        await browser.open()
        answer = await browser.send("/leave")
        assert (answer.status, dict(answer.headers)[b"location"]) == (303, b"http://localhost/console/enter")
        assert browser.cookies[COOKIE] == ""
        browser.cookies[COOKIE] = kept
        assert (await browser.open()).status == 303
        assert (await other.open()).status == 200
        assert ("admin", "console: a browser signed out") in await audited(made)

    run(scene, kit)


def test_a_form_is_sent_by_the_page_it_was_on() -> None:
    async def scene(made: Scene) -> None:
        browser, other = Browser(made), Browser(made)
        await browser.open("/enter")
        await other.open("/enter")
        code = await new_code(made)
        for origin in (b"https://evil.example", b"http://localhost:8001", b"null", b""):
            assert (await browser.send("/enter", origin=origin, code=code)).status == 403
            await browser.open("/enter")
        for form in ("", "another", other.signature("/enter")):
            assert (await browser.send("/enter", form=form, code=code)).status == 403
            await browser.open("/enter")
        assert (await browser.send("/enter", code=code)).status == 303

    run(scene, kit)


def test_nobody_else_signs_a_browser_out() -> None:
    async def scene(made: Scene) -> None:
        browser, other = await came_in(made), await came_in(made)
        await other.open()
        await browser.open()
        for origin, form in ((b"https://evil.example", None), (b"http://localhost", other.signature("/leave"))):
            assert (await browser.send("/leave", origin=origin, form=form)).status == 403
            assert (await browser.open()).status == 200
        stranger = Browser(made)
        assert (await stranger.send("/leave", form=other.signature("/leave"))).status == 403

    run(scene, kit)


@pytest.mark.parametrize("route", INSIDE, ids=lambda route: f"{route.method} {route.path}")
def test_without_a_session_everything_looks_alike(route: Route) -> None:
    async def scene(made: Scene) -> None:
        await made.send("owner", "POST", "/tools/call", {"tool_id": "Pay.Refund", "input": {"order": "canary"}})
        (call,) = await made.yard._decisions.approvals.waiting()
        forged = {b"cookie": f"{COOKIE}={'A' * 43}".encode(), b"origin": b"http://localhost"}
        answers = set()
        for number in (str(call.seq), "999", "nothing"):
            path = route.path.replace("{number}", number)
            for role in made.credentials:
                for headers in ({}, forged):
                    answer = await made.send(role, route.method, path, None, headers)
                    assert answer.status == (303 if route.method == "GET" else 403)
                    assert b"canary" not in answer.body
                    answers.add((answer.status, tuple(answer.headers), answer.body))
        assert len(answers) == 1
        assert len(await made.yard._decisions.approvals.waiting()) == 1, "nothing was changed"

    run(scene, kit)


def test_the_operators_token_is_no_session_and_goes_to_no_browser() -> None:
    async def scene(made: Scene) -> None:
        token = made.yard.operators_token.text
        assert (await made.send("operator", "GET", "/console")).status == 303
        browser = await came_in(made)
        for path in ("", "/tools", "/calls", "/approvals"):
            assert (await browser.open(path)).status == 200
            assert token not in browser.text
        assert token not in browser.cookies.values()

    run(scene, kit)


def test_the_ledger_has_neither_codes_nor_sessions_in_the_clear() -> None:
    kept: list[str] = []

    async def scene(made: Scene) -> None:
        put = made.yard.store.put_note

        async def spy(note: object, keep_s: float) -> None:
            kept.append(repr(note))
            await put(note, keep_s)  # type: ignore[arg-type]

        made.yard.store.put_note = spy  # type: ignore[method-assign]
        code = await new_code(made)
        browser = Browser(made)
        await browser.enter(code)
        assert len(kept) == 2
        for secret in (code, code.replace("-", ""), browser.cookies[COOKIE]):
            assert not [note for note in kept if secret in note]

    run(scene, kit)


def test_pages_may_load_nothing_and_be_framed_by_nobody() -> None:
    async def scene(made: Scene) -> None:
        browser = await came_in(made)
        for path in ("", "/tools", "/calls", "/approvals", "/calls/999"):
            headers = dict((await browser.open(path)).headers)
            policy = headers[b"content-security-policy"]
            assert policy.startswith(b"default-src 'none'; style-src 'self'")
            assert b"frame-ancestors 'none'" in policy
            assert (headers[b"cache-control"], headers[b"x-frame-options"]) == (b"no-store", b"DENY")
            assert "<script" not in browser.text

    run(scene, kit)


def test_the_console_is_no_part_of_the_api() -> None:
    async def scene(made: Scene) -> None:
        paths = (await made.send("anonymous", "GET", "/openapi.json")).json["paths"]
        assert not [path for path in paths if path.startswith("/console")]

    run(scene, kit)
