"""`tools/list`: what each revision knows, page by page."""

from typing import Any

import pytest

from .conftest import Connect
from .schemas import MODERN, OLDER, REVISIONS
from .serving import Server
from .talking import Client, connect


def listed(client: Client) -> dict[str, Any]:
    return {tool["name"]: tool for tool in client.result("tools/list")["tools"]}


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revision_gets_what_it_knows(client: Connect, revision: str) -> None:
    greet = listed(client(revision))["greet"]
    assert ("title" in greet) == ("outputSchema" in greet) == (revision != "2025-03-26")
    assert ("icons" in greet) == (revision in ("2025-11-25", MODERN))
    assert ("execution" in greet) == (revision == "2025-11-25")
    assert greet["description"] == "Greets."
    assert greet["annotations"]["readOnlyHint"] is True
    assert greet["_meta"]["toolyard/version"] == "2.0.0"


@pytest.mark.parametrize("revision", REVISIONS)
def test_cache_hints_are_for_the_newest_alone(client: Connect, revision: str) -> None:
    page = client(revision).result("tools/list")
    assert ("ttlMs" in page) == ("cacheScope" in page) == ("resultType" in page) == (revision == MODERN)


def test_tools_say_whether_they_can_be_tasks(client: Connect) -> None:
    said = {name: tool["execution"]["taskSupport"] for name, tool in listed(client("2025-11-25")).items()}
    assert said["Play_Act"] == said["Play_Preferred"] == "optional"
    assert (said["Play_Required"], said["Play_Forbidden"]) == ("required", "forbidden")


@pytest.mark.parametrize("revision", OLDER[1:])
def test_a_result_that_is_no_object_is_listed_as_one_up_to_2025_11_25(client: Connect, revision: str) -> None:
    tools = listed(client(revision))
    assert tools["Kit_Add"]["outputSchema"]["properties"]["result"]["type"] == "integer"
    assert tools["Kit_Add"]["outputSchema"]["required"] == ["result"]
    assert set(tools["Kit_Point"]["outputSchema"]["properties"]) == {"x", "y"}


def test_the_newest_lists_results_as_they_are(client: Connect) -> None:
    tools = listed(client(MODERN))
    assert tools["Kit_Add"]["outputSchema"]["type"] == "integer"
    assert tools["Kit_Numbers"]["outputSchema"]["type"] == "array"


@pytest.mark.parametrize("revision", REVISIONS)
def test_content_and_nothing_have_no_schema(client: Connect, revision: str) -> None:
    tools = listed(client(revision))
    for name in ("Kit_Image", "Kit_Mixed", "Kit_Plain"):
        assert "outputSchema" not in tools[name]


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_tool_without_parameters_says_so_in_the_one_way(client: Connect, revision: str) -> None:
    tools = listed(client(revision))
    nothing = {"type": "object", "additionalProperties": False}
    assert tools["Kit_Plain"]["inputSchema"] == nothing
    assert tools["Kit_WholeSecret"]["inputSchema"] == nothing


@pytest.mark.parametrize("revision", REVISIONS)
def test_hidden_parameters_are_not_listed(client: Connect, revision: str) -> None:
    schema = listed(client(revision))["Kit_Secretive"]["inputSchema"]
    assert set(schema["properties"]) == {"text"}
    assert schema["required"] == ["text"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_only_the_newest_version_is_listed_and_always_in_the_same_order(client: Connect, revision: str) -> None:
    names = [tool["name"] for tool in client(revision).result("tools/list")["tools"]]
    assert len(names) == len(set(names))
    assert names == [tool["name"] for tool in client(revision).result("tools/list")["tools"]]


@pytest.mark.parametrize("revision", REVISIONS)
def test_pages_together_are_the_whole_list(small: Server, client: Connect, revision: str) -> None:
    paging = connect(small.url, revision)
    names: list[str] = []
    params: dict[str, Any] = {}
    while True:
        page = paging.result("tools/list", params)
        assert 1 <= len(page["tools"]) <= 4
        names += [tool["name"] for tool in page["tools"]]
        if "nextCursor" not in page:
            break
        assert len(page["tools"]) == 4
        params = {"cursor": page["nextCursor"]}
    assert names == [tool["name"] for tool in client(revision).result("tools/list")["tools"]]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("cursor", ["x", "!!!", "é", "AAAA", 7, None, "S2l0LkFkZA=="])
def test_a_cursor_that_was_not_given_out_is_refused(small: Server, revision: str, cursor: Any) -> None:
    error = connect(small.url, revision).request("tools/list", {"cursor": cursor}).error()
    assert error["code"] == -32602
