"""The matcher can fail: each kind of expectation, once met and at least once broken."""

import json
from typing import Any

import pytest

from .matching import mismatches, select
from .published import SCHEMAS, schema_problems
from .rows import Clause, Row, parse
from .runner import Reply, check, encode_headers, followed
from .sentences import asking, digest, sentences
from .tokens import fill, mint

MET: list[tuple[Any, Any]] = [
    ("<any>", None),
    ("<any>", {"a": 1}),
    ("<string>", ""),
    ("<number>", 1),
    ("<number>", 1.5),
    ("<bool>", False),
    ("<object>", {}),
    ("<list>", []),
    ("<url>", "http://127.0.0.1:8000/x?y=1"),
    ("<url>", "https://example.com"),
    ("<re:a.c>", "abc"),
    ("<re:a.*c>", "a\nc"),
    ("plain", "plain"),
    ("<jwt", "<jwt"),
    (15, 15.0),
    (15.0, 15),
    (True, True),
    (None, None),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": "<absent>"}, {"b": 2}),
    ({}, {"b": 2}),
    ([1, "<any>"], [1, 2]),
    ({"<contains>": [{"id": "b"}]}, [{"id": "a"}, {"id": "b", "x": 1}]),
    ({"<lacks>": [{"id": "c"}]}, [{"id": "a"}]),
    ({"<lacks>": [{"id": "c"}]}, []),
    ({"<each>": {"id": "<string>"}}, [{"id": "a"}, {"id": "b"}]),
    ({"<members>": ["a", "b"]}, {"a": 1}),
]

BROKEN: list[tuple[Any, Any]] = [
    ("<string>", 1),
    ("<string>", None),
    ("<number>", "1"),
    ("<number>", True),
    ("<number>", None),
    ("<bool>", 0),
    ("<bool>", "true"),
    ("<object>", []),
    ("<list>", {}),
    ("<url>", "/relative"),
    ("<url>", "ftp://example.com/"),
    ("<url>", "http://"),
    ("<url>", 5),
    ("<re:a.c>", "xabc"),
    ("<re:a.c>", "abcx"),
    ("<re:a.c>", "abc\n"),
    ("<re:a.c>", 5),
    ("plain", "Plain"),
    ("1", 1),
    (15, 16),
    (15, "15"),
    (1, True),
    (True, 1),
    (False, 0),
    (None, False),
    (None, 0),
    (None, ""),
    ({"a": 1}, {"b": 1}),
    ({"a": "<any>"}, {}),
    ({"a": "<absent>"}, {"a": None}),
    ({"a": 1}, [1]),
    ({"a": {"b": 1}}, {"a": {"b": 2}}),
    ([1], [1, 2]),
    ([1, 2], [2, 1]),
    ([], {}),
    ({"<contains>": [{"id": "c"}]}, [{"id": "a"}]),
    ({"<contains>": [{"id": "c"}]}, []),
    ({"<contains>": [{"id": "c"}]}, {"id": "c"}),
    ({"<contains>": [{"id": "a"}, {"id": "c"}]}, [{"id": "a"}]),
    ({"<lacks>": [{"id": "a"}]}, [{"id": "a", "x": 1}]),
    ({"<lacks>": [{"id": "a"}]}, {"id": "b"}),
    ({"<each>": {"id": "<string>"}}, [{"id": "a"}, {}]),
    ({"<each>": "<any>"}, []),
    ({"<each>": "<any>"}, "ab"),
    ({"<members>": ["a"]}, {"a": 1, "b": 2}),
    ({"<members>": ["a"]}, ["a"]),
]


@pytest.mark.parametrize(("expected", "actual"), MET)
def test_a_value_that_looks_as_expected_has_no_problems(expected: Any, actual: Any) -> None:
    assert mismatches(expected, actual) == []


@pytest.mark.parametrize(("expected", "actual"), BROKEN)
def test_a_value_that_does_not_look_as_expected_has_a_problem(expected: Any, actual: Any) -> None:
    assert mismatches(expected, actual)


def test_an_exact_match_finds_members_that_nobody_expected_at_any_depth() -> None:
    assert mismatches({"a": 1}, {"a": 1, "b": 2}, exact=True)
    assert mismatches({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, exact=True)
    assert mismatches({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, exact=True)
    assert mismatches({"<contains>": [{"a": 1}]}, [{"a": 1, "b": 2}], exact=True)
    assert not mismatches({"a": {"b": 1}}, {"a": {"b": 1}}, exact=True)


def test_an_exact_match_does_not_mind_the_duration_but_checks_it_when_asked() -> None:
    assert not mismatches({"a": 1}, {"a": 1, "duration": 2}, exact=True)
    assert mismatches({"duration": "<number>"}, {"duration": "2"}, exact=True)
    assert mismatches({"duration": "<number>"}, {}, exact=True)


def test_a_matcher_nobody_has_written_is_an_error() -> None:
    with pytest.raises(ValueError, match="no matcher"):
        mismatches("<nunmber>", 1)


def test_a_problem_says_where_it_is() -> None:
    [problem] = mismatches({"items": [{"id": "a"}]}, {"items": [{"id": "b"}]})
    assert problem.startswith("$.items[0].id:")


def test_paths_select_members_elements_and_all_elements() -> None:
    document = {"a": [{"b": 1}, {"b": 2}, {"c": 3}], "$schema": "x"}
    assert select(document, "a[0].b") == [1]
    assert select(document, "a[*].b") == [1, 2]
    assert select(document, "$schema") == ["x"]
    assert select(document, "") == [document]
    assert select(document, "a[9].b") == select(document, "a.b") == select(document, "z.y") == []


REPLY = Reply(200, {"oxp-version": "1.0", "content-type": "application/json"}, b'{"call_id": "c", "value": 15}')


def test_a_reply_is_held_against_every_part_of_an_expectation() -> None:
    met = {
        "status": 200,
        "headers": {"OXP-Version": "1.0", "X-Other": "<absent>"},
        "json": {"value": 15.0},
        "absent": ["error"],
        "text_has": ['"value"'],
        "text_lacks": ["secret"],
    }
    assert check("oxp", met, REPLY) == []


@pytest.mark.parametrize(
    "expect",
    [
        {"status": 201},
        {"status": 200, "headers": {"OXP-Version": "2.0"}},
        {"status": 200, "headers": {"X-Other": "<any>"}},
        {"status": 200, "headers": {"OXP-Version": "<absent>"}},
        {"status": 200, "json": {"value": 16}},
        {"status": 200, "json": {"value": 15}, "exact": True},
        {"status": 200, "absent": ["value"]},
        {"status": 200, "text_has": ["secret"]},
        {"status": 200, "text_lacks": ["value"]},
        {"status": 200, "schema": {"name": "CallToolResponse", "at": "result"}},
    ],
)
def test_a_reply_that_breaks_one_part_of_an_expectation_has_a_problem(expect: dict[str, Any]) -> None:
    assert check("oxp", expect, REPLY)


def test_a_reply_that_is_not_json_has_a_problem_where_json_is_expected() -> None:
    page = Reply(200, {}, b"<html>")
    assert check("oxp", {"status": 200, "json": {}}, page)
    assert check("oxp", {"status": 200, "absent": ["a"]}, page)
    assert not check("oxp", {"status": 200}, page)


@pytest.mark.skipif(not SCHEMAS.is_dir(), reason="the published schemas are not beside the checkout")
@pytest.mark.parametrize(
    ("wire", "name", "good", "bad"),
    [
        (
            "oxp",
            "CallToolResponse",
            {"call_id": "c", "success": True, "value": None},
            {"call_id": "c", "success": False},
        ),
        (
            "oxp",
            "CallToolResponse",
            {"call_id": "c", "success": True, "value": 1},
            {"success": True, "value": 1},
        ),
        (
            "oxp",
            "CallToolResponse",
            {"call_id": "c", "success": False, "error": {"message": "m"}},
            {"call_id": "c", "success": True, "value": 1, "error": {"message": "m"}},
        ),
        (
            "otc",
            "CallToolResponse",
            {"call_id": "c", "success": True, "value": [1], "duration": 2},
            {"call_id": "c", "success": True, "value": [1], "extra": 2},
        ),
        ("oxp", "ServerErrorResponse", {"message": "m"}, {"developer_message": "m"}),
        (
            "otc",
            "ValidationErrorResponse",
            {"message": "m", "parameter_errors": {}},
            {"message": "m", "parameter_errors": []},
        ),
        (
            "otc_draft",
            "CallToolResponse",
            {"$schema": "a:b", "call_id": "c", "success": True, "output": {"value": 3}},
            {
                "$schema": "a:b",
                "call_id": "c",
                "success": True,
                "output": {"value": 3, "error": {"message": "m"}},
            },
        ),
    ],
)
def test_a_published_schema_takes_a_good_reply_and_refuses_a_bad_one(wire: str, name: str, good: Any, bad: Any) -> None:
    assert schema_problems(wire, name, good) == []
    assert schema_problems(wire, name, bad)


DRAFT_TOOL: dict[str, Any] = {
    "id": "A.B@1.0.0",
    "name": "B",
    "description": "d",
    "toolkit": {"name": "A", "description": "d", "version": "1.0.0"},
    "input": {"parameters": {"type": "object"}, "non_inferrable_parameters": ["x"]},
    "output": {"available_modes": ["value", "error"], "value": {"parameters": {"type": "number"}}},
}


@pytest.mark.skipif(not SCHEMAS.is_dir(), reason="the published schemas are not beside the checkout")
@pytest.mark.parametrize(
    "change",
    [
        {"input": {"parameters": {"$ref": "#/x"}}},
        {"input": {"parameters": {"type": "object"}, "required": ["a"]}},
        {"output": {"available_modes": ["value"]}},
        {"requirements": {"user_id": True}},
        {"requirements": {"authorization": [{}]}},
        {"input_schema": {}},
        {"toolkit": {"name": "A"}},
    ],
)
def test_the_drafts_repaired_schema_takes_a_good_tool_and_refuses_a_bad_one(change: dict[str, Any]) -> None:
    assert schema_problems("otc_draft", "ToolDefinition", DRAFT_TOOL) == []
    assert schema_problems("otc_draft", "ToolDefinition", DRAFT_TOOL | change)


def test_a_row_with_a_member_nobody_knows_is_an_error() -> None:
    def row(**members: Any) -> Row:
        return Row(**({"wire": "oxp", "id": "X", "clauses": ("C",), "title": "t"} | members))

    get = {"method": "GET", "path": "/"}
    row(request=get, expect={"status": 200})
    for wrong in (
        {"request": get, "expect": {"status": 200, "jsno": {}}},
        {"request": get | {"haeders": {}}, "expect": {"status": 200}},
        {"request": get, "expect": {}},
        {"request": {"path": "/"}, "expect": {"status": 200}},
        {"request": get, "expect": {"status": 200}, "server": "none"},
        {"request": get, "expect": {"status": 200}, "follow": {"at": "url", "expect": {"jsno": {}}}},
        {"kind": "client"},
        {"kind": "other", "test": "a::b"},
    ):
        with pytest.raises(ValueError, match="row X"):
            row(**wrong)


def test_a_clause_has_one_origin() -> None:
    for wrong in ({}, {"source": "a", "decided": True}, {"source": "a", "level": "WOULD"}):
        with pytest.raises(ValueError, match="clause X"):
            Clause(**({"id": "X", "level": "MUST", "where": "w", "says": "s"} | wrong))


def test_a_file_is_read_into_clauses_and_rows() -> None:
    clause = "{id: A, level: MUST, where: w, says: s, decided: true}"
    row = "{id: R, clauses: [A], title: t, request: {method: GET, path: /}, expect: {status: 200}}"
    document = parse("oxp", f"clauses: [{clause}]\nrows: [{row}]")
    assert document.clauses[0].id == "A"
    assert document.rows[0].clauses == ("A",)


def test_a_row_says_which_headers_are_sent_and_which_are_not() -> None:
    request = {
        "method": "POST",
        "path": "/",
        "headers": {"Host": "api.example.com", "Content-Type": None, "X": "1"},
    }
    headers = encode_headers(request, b"{}", "127.0.0.1:1")
    assert headers == {"Host": "api.example.com", "Connection": "close", "Content-Length": "2", "X": "1"}


def test_the_address_in_a_reply_is_followed_on_the_same_server() -> None:
    follow = {"at": "urls[0]", "expect": {"status": 200}}
    row = Row("oxp", "X", ("C",), "t", request={"method": "GET", "path": "/"}, expect={"status": 200}, follow=follow)
    reply = Reply(200, {}, json.dumps({"urls": ["http://elsewhere:1/a/b?c=d"]}).encode())
    assert followed(row, reply) == {"method": "GET", "path": "/a/b?c=d"}


def test_placeholders_in_headers_become_tokens_and_other_text_stays() -> None:
    assert fill("Bearer <JWT token>") == "Bearer <JWT token>"
    assert fill("Bearer <jwt:valid>", now=1) == f"Bearer {mint('valid', 1)}"
    names = ["valid", "expired", "too-long", "no-exp", "foreign-secret", "unsigned"]
    assert len({mint(name, 1) for name in names}) == len(names)
    with pytest.raises(KeyError):
        fill("<jwt:nonsense>")


def test_sentences_are_cut_where_they_end_and_not_at_an_abbreviation() -> None:
    text = "  • Servers MAY wait (e.g. Calculator.Add).  They SHOULD\tnot.\n1. A `call_id` (required): must be."
    assert list(sentences(text)) == [
        "Servers MAY wait (e.g. Calculator.Add).",
        "They SHOULD not.",
        "A `call_id` (required): must be.",
    ]
    assert len(asking("oxp", text)) == 2
    assert len(asking("otc_draft", text)) == 3
    assert len(digest("x")) == 12
