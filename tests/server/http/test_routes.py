"""How a request finds its route: exact paths, paths with variables, and what is said where there is none."""

from typing import Any
from urllib.parse import quote, unquote

import pytest
from fastapi import FastAPI

from tests.system.hardening.raw import Reply as Received
from tests.system.hardening.raw import ask, request
from toolyard.lazy import load
from toolyard.model.call import LONGEST_CALL_ID
from toolyard.model.errors import PathNotFound
from toolyard.server.accounts.routes import LED_TO, SHOWN
from toolyard.server.app.compose import Yard
from toolyard.server.approvals.routes import PAGES
from toolyard.server.http.exchange import Exchange
from toolyard.server.http.routes import MOST_SEGMENTS, LateRoutes, Route, RouteTable, variables_of
from toolyard.server.openapi.document import document
from toolyard.server.settings.table import exactly
from toolyard.wires.contract import Reply
from toolyard.wires.errors import encode
from toolyard.wires.oxp import oxp

from ..asking import run
from ..conftest import Talking
from ..talking import shell


def tells(method: str, path: str) -> Route:
    """A route that tells which it is."""

    async def handle(exchange: Exchange) -> Reply:
        return Reply(200, encode([f"{method} {path}", exchange.parameters]), [])

    return Route(method, path, handle, oxp.FLAT)


ROUTES = [
    tells("GET", "/v1/requests"),
    tells("GET", "/v1/requests/all"),
    tells("GET", "/v1/requests/{session}"),
    tells("DELETE", "/v1/requests/{session}"),
    tells("GET", "/v1/requests/{session}/{request}"),
    tells("PUT", "/v1/requests/{session}/{request}"),
    tells("POST", "/v1/requests/{session}/{request}/heartbeat"),
    tells("GET", "/{anything}"),
]


def asked(method: str, path: str, app: Any = None, **scope: Any) -> Received:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def scenario() -> None:
        given = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": [], **scope}
        await (app or shell(*ROUTES))(given, receive, send)

    run(scenario)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Received(sent[0]["status"], headers, sent[1]["body"])


@pytest.mark.parametrize(
    ("method", "path", "found", "values"),
    [
        ("GET", "/v1/requests", "/v1/requests", {}),
        ("GET", "/v1/requests/all", "/v1/requests/all", {}),
        ("GET", "/v1/requests/a", "/v1/requests/{session}", {"session": "a"}),
        ("DELETE", "/v1/requests/a", "/v1/requests/{session}", {"session": "a"}),
        ("DELETE", "/v1/requests/all", "/v1/requests/{session}", {"session": "all"}),
        ("GET", "/v1/requests/a/b", "/v1/requests/{session}/{request}", {"session": "a", "request": "b"}),
        ("PUT", "/v1/requests/a/b", "/v1/requests/{session}/{request}", {"session": "a", "request": "b"}),
        (
            "POST",
            "/v1/requests/a/b/heartbeat",
            "/v1/requests/{session}/{request}/heartbeat",
            {"session": "a", "request": "b"},
        ),
        ("GET", "/{anything}", "/{anything}", {"anything": "{anything}"}),
    ],
)
def test_a_route_is_found_by_its_segments(method: str, path: str, found: str, values: dict[str, str]) -> None:
    assert asked(method, path).json == [f"{method} {found}", values]


@pytest.mark.parametrize(
    "path", ["/v1/requests/", "/v1/requests//b", "/v1/requests/a/", "/v1/requests/a/b/heart", "/v1/other/a", "/", ""]
)
def test_another_path_is_404(path: str) -> None:
    assert asked("GET", path).status == 404


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/v1/requests", "GET, HEAD"),
        ("PUT", "/v1/requests/a", "DELETE, GET, HEAD"),
        ("PUT", "/v1/requests/all", "DELETE, GET, HEAD"),
        ("DELETE", "/v1/requests/a/b", "GET, HEAD, PUT"),
        ("GET", "/v1/requests/a/b/heartbeat", "POST"),
    ],
)
def test_another_method_is_405_with_allow(method: str, path: str, allow: str) -> None:
    reply = asked(method, path)
    assert (reply.status, reply.headers["allow"]) == (405, allow)


ESCAPED = [
    ("/v1/requests/a%2Fb", {"session": "a/b"}),
    ("/v1/requests/a%2fb/c%20d", {"session": "a/b", "request": "c d"}),
    ("/v1/requests/%E2%9C%93", {"session": "\u2713"}),
    ("/v1/requests/100%2525", {"session": "100%25"}),
]


@pytest.mark.parametrize(("raw", "values"), ESCAPED)
def test_an_escaped_slash_does_not_part_segments(raw: str, values: dict[str, str]) -> None:
    assert asked("GET", unquote(raw), raw_path=raw.encode()).json[1] == values


@pytest.mark.parametrize(("raw", "values"), ESCAPED)
@pytest.mark.parametrize("place", ["/below", "/two/deep", "/with space"])
def test_it_is_so_below_a_mount_too(raw: str, values: dict[str, str], place: str) -> None:
    outer = FastAPI()
    outer.mount(place, shell(*ROUTES))
    sent = quote(place) + raw
    assert asked("GET", unquote(sent), outer, raw_path=sent.encode()).json[1] == values


@pytest.mark.parametrize("raw", [{}, {"raw_path": None}, {"raw_path": b""}, {"raw_path": b"/elsewhere/%2F"}])
def test_a_server_that_does_not_tell_what_was_sent_is_served_as_well(raw: dict[str, Any]) -> None:
    """What it unescaped is not unescaped again."""
    assert asked("GET", "/v1/requests/100%25", **raw).json[1] == {"session": "100%25"}


def test_a_route_is_found_on_a_real_server(talker: Talking) -> None:
    talker.tell("a%2Fb")
    assert talker.has("a%2fb")
    assert not talker.has("a%252Fb")


def test_a_method_nobody_knows_is_told_all_that_are_served(direct: Talking) -> None:
    reply = ask(direct.address, request("FROB", "/"))
    assert (reply.status, reply.headers["allow"]) == (405, "DELETE, GET, HEAD, POST, PUT")


def test_the_document_lists_every_variable() -> None:
    paths = document(Yard([], exactly()).routes, "toolyard")["paths"]
    assert any(len(variables_of(path)) > 1 for path in paths)
    for path, operations in paths.items():
        for operation in operations.values():
            listed = [each for each in operation.get("parameters", ()) if each["in"] == "path"]
            assert [each["name"] for each in listed] == variables_of(path)
            assert all(each["required"] for each in listed)


# --- routes that are made late --------------------------------------------------------------------


def test_late_routes_are_made_with_the_first_request_below_their_path_and_once() -> None:
    made: list[str] = []

    def make() -> list[Route]:
        made.append("made")
        return [tells("GET", "/desk"), tells("POST", "/desk/{drawer}/open")]

    table = RouteTable([tells("GET", "/desks"), LateRoutes("/desk", frozenset({"GET", "POST"}), make)])
    assert table.find("GET", "/desks")[0].path == "/desks"
    with pytest.raises(PathNotFound):
        table.find("GET", "/desktop/x")
    assert made == []
    assert table.find("POST", "/desk/top/open")[1] == {"drawer": "top"}
    assert table.find("GET", "/desk")[0].path == "/desk"
    assert made == ["made"]


def test_a_table_of_late_routes_is_whole_when_somebody_asks_for_all() -> None:
    table = RouteTable([tells("GET", "/x"), LateRoutes("/desk", frozenset({"PUT"}), lambda: [tells("PUT", "/desk")])])
    for _ in range(2):
        assert [(route.method, route.path) for route in table.all()] == [("GET", "/x"), ("PUT", "/desk")]


def test_a_server_knows_all_its_methods_before_all_routes_are_made() -> None:
    yard = Yard([], exactly())
    for table in (yard.asgi._table, yard._operator_socket._shell._table):
        before = table.methods
        table.all()
        assert before == table.methods


def test_late_routes_are_all_below_their_path() -> None:
    late = Yard([], exactly()).asgi._table._late
    assert {each.at for each in late} == {"/console", "/v1/admin"}
    assert [route.path for each in late for route in each.make() if not each.has(route.path)] == []


def test_every_page_that_has_an_address_has_a_handler() -> None:
    yard = Yard([], exactly())
    approvals = load("approval_pages")(yard._decisions, yard._ring, yard.catalogue, yard._clock.now)
    accounts = load("account_handlers")(None, yard._ring, None, yard.witness)
    assert approvals.handlers().keys() == set(PAGES)
    assert accounts.handlers().keys() == {*SHOWN, *LED_TO}


def test_no_route_is_as_deep_as_a_path_may_be() -> None:
    yard = Yard([], exactly())
    assert max(route.path.count("/") for route in yard.asgi._table.all()) < MOST_SEGMENTS
    with pytest.raises(PathNotFound):
        yard.asgi._table.find("GET", "/x" * (MOST_SEGMENTS + 1))
    assert asked("GET", "/x" * (MOST_SEGMENTS + 1)).status == 404


def test_an_id_of_the_longest_kind_is_found_however_it_is_escaped() -> None:
    id = "\U0001f600" * LONGEST_CALL_ID
    assert asked("GET", f"/v1/requests/{id}", raw_path=f"/v1/requests/{quote(id)}".encode()).json[1] == {"session": id}
