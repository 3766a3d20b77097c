"""Prompts, resources and completions of upstreams, between any two eras, over pipes and HTTP."""

from collections.abc import Iterator
from typing import Any

import pytest

from ..server.mcp.schemas import MODERN, REVISIONS
from ..server.mcp.talking import Client, Older
from .bazaar import PICTURE
from .libraries import ABLE, KINDS, Behind, listed, named, until_listed, with_library
from .library import BOOKS, GREET, PAGE, TEMPLATE
from .waiting import until


@pytest.fixture(scope="module", params=KINDS)
def lib(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    with with_library(tmp_path_factory.mktemp("library"), request.param) as made:
        client = made.client()
        until_listed(client, "prompts/list", "Lib_greet")
        until_listed(client, "resources/templates/list", TEMPLATE["uriTemplate"])
        client.close()
        yield made


@pytest.fixture(params=REVISIONS)
def client(request: pytest.FixtureRequest, lib: Behind) -> Iterator[Client]:
    made = lib.client(request.param, **ABLE)
    yield made
    made.close()


def without(entry: Any, client: Client) -> Any:
    """As that revision has it."""
    unknown = {"2025-03-26": {"title", "icons"}, "2025-06-18": {"icons"}}.get(client.revision, set())
    return {name: value for name, value in entry.items() if name not in unknown}


# -- what there is ---------------------------------------------------------------------------------


def test_the_server_says_what_its_upstreams_have(client: Client) -> None:
    if isinstance(client, Older):
        capabilities = client.initialized["capabilities"]
    else:
        capabilities = client.result("server/discover")["capabilities"]
    assert capabilities["prompts"] == {"listChanged": True}
    assert capabilities["resources"] == {"listChanged": True, "subscribe": True}
    assert capabilities["completions"] == {}


def test_prompts_are_listed_with_all_that_is_said_of_them(client: Client) -> None:
    found = {each["name"]: each for each in listed(client, "prompts/list", "prompts")}
    assert {"Lib_greet", "Lib_code_review", "Lib_asks"} <= set(found)
    assert found["Lib_greet"] == without({**GREET, "name": "Lib_greet"}, client)


def test_resources_and_templates_are_listed_as_they_are(client: Client) -> None:
    found = {each["uri"]: each for each in listed(client, "resources/list", "resources")}
    first, picture, page, _ = BOOKS
    assert [found[each["uri"]] for each in (first, picture, page)] == [without(each, client) for each in BOOKS[:3]]
    assert "shelf://whisper" not in found, "something is hidden in what is said of it"
    assert listed(client, "resources/templates/list", "resourceTemplates") == [without(TEMPLATE, client)]


# -- what they give --------------------------------------------------------------------------------


def test_a_prompt_is_got(lib: Behind, client: Client) -> None:
    meta = {"vendor/seat": client.revision, "progressToken": "ours"}
    result = named(client, "prompts/get", name="Lib_greet", arguments={"who": "Ada"}, meta=meta).result()
    assert result["messages"] == [{"role": "user", "content": {"type": "text", "text": "Hello Ada"}}]
    assert result["description"] == "A greeting"
    assert result["_meta"]["vendor/mood"] == "good"
    noted = [line for line in lib.notes() if line.startswith("prompts/get greet")][-1]
    assert f'"vendor/seat": "{client.revision}"' in noted
    assert '"ours"' not in noted


def test_a_prompt_whose_name_is_another_here_is_got(client: Client) -> None:
    result = named(client, "prompts/get", name="Lib_code_review").result()
    assert result["messages"][0]["content"]["text"] == "This is code review"


def test_what_a_client_gets_wrong_is_told(client: Client) -> None:
    error = named(client, "prompts/get", name="Lib_greet").error()
    assert (error["code"], error["message"]) == (-32602, "Lib: who is missing")
    assert named(client, "prompts/get", name="Lib_nothing").error()["code"] == -32602


def test_texts_and_bytes_are_read(client: Client) -> None:
    result = named(client, "resources/read", uri="shelf://1").result()
    assert result["contents"] == [{"uri": "shelf://1", "text": "read shelf://1"}]
    assert result["_meta"]["vendor/shelf"] == 1
    if client.revision == MODERN:
        assert (result["cacheScope"], result["ttlMs"]) == ("private", 1234)
    blob = named(client, "resources/read", uri="shelf://picture").result()["contents"]
    assert blob == [{"uri": "shelf://picture", "mimeType": "image/png", "blob": PICTURE}]


def test_a_page_of_an_application_is_read_as_it_is(client: Client) -> None:
    result = named(client, "resources/read", uri="ui://library/page").result()
    (page,) = result["contents"]
    assert page["text"] == PAGE
    assert page["_meta"] == {"ui": {"csp": {"connectDomains": ["https://example.com"]}}}
    assert "toolyard/escaped" not in result.get("_meta", {})


def test_a_page_that_a_tool_has_is_read_though_nobody_lists_it(client: Client) -> None:
    tools = {tool["name"]: tool for tool in client.result("tools/list")["tools"]}
    uri = tools["Lib_echo"]["_meta"]["ui"]["resourceUri"]
    assert named(client, "resources/read", uri=uri).result()["contents"][0]["text"] == f"read {uri}"


def test_text_for_models_is_made_safe(client: Client) -> None:
    got = named(client, "prompts/get", name="Lib_whispers").result()
    assert got["messages"][0]["content"]["text"] == "Nothing \\u{200B}here"
    read = named(client, "resources/read", uri="shelf://1/lines/hidden").result()
    assert read["contents"][0]["text"] == "read shelf://1/lines/hidden\\u{200B}"
    assert got["_meta"]["toolyard/escaped"] is read["_meta"]["toolyard/escaped"] is True


def test_what_fits_a_template_is_read(client: Client) -> None:
    result = named(client, "resources/read", uri="shelf://3/lines/4/to/5").result()
    assert result["contents"][0]["text"] == "read shelf://3/lines/4/to/5"


def test_what_a_result_named_is_read_where_it_came_from(lib: Behind, client: Client) -> None:
    client.call("Lib_point").result()
    result = named(client, "resources/read", uri="cellar://7").result()
    assert result["contents"] == [{"uri": "cellar://7", "text": "read cellar://7"}]


def test_nobody_is_asked_for_what_is_not_known(lib: Behind, client: Client) -> None:
    before = [line for line in lib.notes() if line.startswith("resources/read")]
    error = named(client, "resources/read", uri="attic://1").error()
    assert error["code"] == (-32602 if client.revision == MODERN else -32002)
    assert [line for line in lib.notes() if line.startswith("resources/read")] == before


def test_what_is_not_there_is_said_as_the_client_knows_it(lib: Behind, client: Client) -> None:
    named(client, "resources/read", uri="shelf://none/lines/x").result()
    client.call("Lib_point").result()
    error = named(client, "resources/read", uri="attic://2").error()
    assert error["code"] == (-32602 if client.revision == MODERN else -32002)
    assert error["data"] == {"uri": "attic://2"}


def test_completions_come_from_whose_prompt_or_template_it_is(client: Client) -> None:
    def completed(**ref: str) -> list[str]:
        params = {"ref": ref, "argument": {"name": "who", "value": "A"}}
        values: list[str] = client.result("completion/complete", params)["completion"]["values"]
        return values

    assert completed(type="ref/prompt", name="Lib_greet") == ["greet who A"]
    assert completed(type="ref/resource", uri=TEMPLATE["uriTemplate"]) == [f"{TEMPLATE['uriTemplate']} who A"]


# -- what they ask ---------------------------------------------------------------------------------


def test_a_prompt_that_asks_is_answered_where_somebody_can_be_asked(lib: Behind, client: Client) -> None:
    if client.revision == "2025-03-26":
        pytest.skip("a client of that revision has no forms")
    exchange = named(client, "prompts/get", name="Lib_asks")
    answer = {"action": "accept", "content": {"colour": "red"}}
    if isinstance(client, Older):
        while "method" in (message := exchange.next()):
            if "id" in message:
                client.answer(message, answer)
    elif lib.is_modern:
        asked = exchange.result()
        assert asked["resultType"] == "input_required"
        assert asked["requestState"] != "state of colour", "it is this server's by now"
        more = {"requestState": asked["requestState"], "inputResponses": {"colour": answer}}
        message = named(client, "prompts/get", name="Lib_asks", **more).response()
        other = named(client, "prompts/get", name="Lib_asks", arguments={"a": "b"}, **more).error()
        assert other["code"] == -32602, "it is for that request alone"
    else:
        # A client of the newer era cannot be asked while its request waits, and the upstream knows that.
        error = exchange.error()
        assert error["message"].startswith("Lib: ")
        return
    assert message["result"]["messages"][0]["content"]["text"] == "red it is"


def test_a_client_that_cannot_be_asked_is_not(lib: Behind) -> None:
    client = lib.client()
    response = named(client, "prompts/get", name="Lib_asks").response()
    assert "error" in response
    client.close()


def test_a_prompt_that_nobody_waits_for_is_given_up(lib: Behind, client: Client) -> None:
    waiting, cancelled = lib.notes().count("waits"), lib.notes().count("cancelled waits")
    exchange = named(client, "prompts/get", name="Lib_waits")
    until(lambda: lib.notes().count("waits") == waiting + 1)
    if isinstance(client, Older):
        client.cancel(exchange.id)
    else:
        exchange.close()
    until(lambda: lib.notes().count("cancelled waits") == cancelled + 1)


# -- what they tell --------------------------------------------------------------------------------


def test_a_change_of_lists_is_told(lib: Behind, client: Client) -> None:
    """Every client hears of both, and finds what is new. (It is new to the first one alone.)"""
    is_first = "Lib_written" not in [each["name"] for each in listed(client, "prompts/list", "prompts")]
    stream = listening(client)
    client.call("Lib_write").result()
    until_listed(client, "prompts/list", "Lib_written")
    until_listed(client, "resources/list", "shelf://written")
    if is_first:
        heard = {stream.next()["method"] for _ in range(2)}
        assert heard == {"notifications/prompts/list_changed", "notifications/resources/list_changed"}


def test_a_change_of_a_resource_is_told_to_who_follows_it(lib: Behind, client: Client) -> None:
    uri = f"shelf://{client.revision}/lines/1"
    stream = listening(client, uri)
    until(lambda: uri in followed(lib))
    client.call("Lib_touch").result()
    while (message := stream.next())["method"] != "notifications/resources/updated":
        pass
    assert message["params"]["uri"] == uri
    stream.close()
    until(lambda: uri not in followed(lib))


def listening(client: Client, *uris: str) -> Any:
    """A stream of what changes, with these resources followed."""
    if isinstance(client, Older):
        for uri in uris:
            client.result("resources/subscribe", {"uri": uri})
        stream = client.get()
        assert stream.status == 200
        return stream
    wanted = {"promptsListChanged": True, "resourcesListChanged": True, "resourceSubscriptions": list(uris)}
    stream = client.request("subscriptions/listen", {"notifications": wanted})
    acknowledged = stream.next()["params"]["notifications"]
    assert acknowledged.get("resourceSubscriptions", []) == list(uris)
    return stream


def followed(lib: Behind) -> set[str]:
    """What the library was told to tell of."""
    found: set[str] = set()
    for line in lib.notes():
        verb, _, rest = line.partition(" ")
        if verb == "listens":
            found = {each.strip("[]' ") for each in rest.split(",")}
        elif verb == "resources/subscribe":
            found.add(rest.split()[0])
        elif verb == "resources/unsubscribe":
            found.discard(rest.split()[0])
    return found
