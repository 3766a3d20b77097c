"""Whatever comes, the answer is JSON, blames whom it should, and is what the OpenAPI document says."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from toolyard.server.openapi.oxp_shapes import NAMES

from .documented import Documented, names_no_tool
from .inprocess import InProcess, inprocess
from .served import kit
from .test_malformed_json import FORMS

CALLS = [*FORMS, "/call", "/oxp/call", "/otc/call", "/otc/draft/tools/call"]
LISTS = ["/tools", "/oxp/tools", "/otc/tools", "/otc/draft/tools"]
WORDS = """tool_id call_id trace_id input inputs context request authorization secrets user_id user_info $schema id
value token Kit.Echo Kit.Half Kit.Echo@latest Kit.Rows otc://1.0 urn:oxp:1.0 1.0"""
texts = st.sampled_from(WORDS.split()) | st.text(max_size=20)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
randomly = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def app() -> Iterator[InProcess]:
    with inprocess(kit) as app:
        yield app


@pytest.fixture(scope="module")
def documented(app: InProcess) -> Documented:
    return Documented(app.request("GET", "/openapi.json").json)


def assert_sound(app: InProcess, documented: Documented, method: str, path: str, body: bytes) -> None:
    reply = app.request(method, path, body)
    assert reply.status < 500, reply
    assert isinstance(reply.json, dict)
    if reply.status != 200:
        assert isinstance(reply.json["message"], str)
    assert documented.problem(method, path, reply) is None


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A good request with something else somewhere."""
    document = json.loads(json.dumps(draw(st.sampled_from(list(FORMS.values())))))
    for _ in range(draw(st.integers(1, 3))):
        parent = document
        while True:
            keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(parent[key], dict | list) and draw(st.booleans()):
                parent = parent[key]
                continue
            if draw(st.booleans()):
                parent[key] = draw(documents)
            else:
                del parent[key]
            break
        if isinstance(document, dict) and draw(st.booleans()):
            document[draw(texts)] = draw(documents)
    return document


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The bytes of a good request, with some of them lost, doubled or changed."""
    body = json.dumps(draw(st.sampled_from(list(FORMS.values())))).encode()
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        end = draw(st.integers(start, min(len(body), start + 10)))
        other = draw(st.binary(max_size=4) | st.sampled_from([b"", b'"', b"{", b"]", b"\\u", b"1e999", b"\xff"]))
        body = body[:start] + other + body[end:]
    return body


@randomly
@given(path=st.sampled_from(CALLS), document=documents | mutated())
@example(path="/tools/call", document={"tool_id": "Kit.Rows", "input": {"items": [[1], [None]]}})
@example(path="/otc/draft/call", document={"request": {"tool_id": "Kit.Half", "inputs": {}}})
def test_any_document_is_answered(app: InProcess, documented: Documented, path: str, document: Any) -> None:
    assert_sound(app, documented, "POST", path, json.dumps(document).encode())


@randomly
@given(path=st.sampled_from(CALLS), body=st.binary(max_size=200) | damaged())
def test_any_bytes_are_answered(app: InProcess, documented: Documented, path: str, body: bytes) -> None:
    assert_sound(app, documented, "POST", path, body)


@randomly
@given(path=st.sampled_from(LISTS), document=documents)
def test_a_list_is_answered_whatever_comes_with_it(
    app: InProcess, documented: Documented, path: str, document: Any
) -> None:
    assert_sound(app, documented, "GET", path, json.dumps(document).encode())


@randomly
@given(path=st.sampled_from(CALLS), document=documents | mutated())
def test_the_document_allows_what_is_understood_and_nothing_else(
    app: InProcess, documented: Documented, path: str, document: Any
) -> None:
    reply = app.request("POST", path, json.dumps(document).encode())
    if not documented.allows(path, document):
        assert reply.status == 400, reply
    elif reply.status == 400:
        assert names_no_tool(reply.json), reply


@pytest.mark.parametrize("path", CALLS)
@pytest.mark.parametrize("schema", [None, "", *NAMES])
@pytest.mark.parametrize(
    "call", [{"tool_id": "Kit.Open"}, {"tool_id": "Kit.Open@latest"}, {"tool_id": "Kit.Open", "inputs": {}}]
)
@pytest.mark.parametrize("is_flat", [True, False])
def test_every_form_of_a_call_is_taken_where_the_document_says_so(
    app: InProcess, documented: Documented, path: str, schema: str | None, call: dict[str, Any], is_flat: bool
) -> None:
    named = {} if schema is None else {"$schema": schema}
    document = {**named, **call} if is_flat else {**named, "request": call}
    reply = app.post(path, document)
    assert reply.status == (200 if documented.allows(path, document) else 400), reply
    assert documented.problem("POST", path, reply) is None


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("schema", ["", "x", *NAMES])
def test_a_list_is_given_in_the_protocols_that_the_document_names(
    app: InProcess, documented: Documented, path: str, schema: str
) -> None:
    reply = app.request("GET", f"{path}?$schema={schema}")
    assert reply.status == (200 if schema in documented.schemas(path) else 400)
    assert documented.problem("GET", path, reply) is None


@pytest.mark.parametrize("path", CALLS)
@pytest.mark.parametrize(
    ("call", "headers", "statuses"),
    [
        ({"tool_id": "Kit.Echo", "input": {"value": 1}}, {}, [200]),
        ({"tool_id": "Kit.Open"}, {}, [200]),
        ({"tool_id": "Kit.Fail"}, {}, [200]),
        ({"tool_id": "Kit.Half", "input": {"number": "1"}}, {}, [422, 200]),
        ({"tool_id": "Kit.Locked"}, {}, [400]),
        ({"tool_id": "Kit.None"}, {}, [400]),
        ({"tool_id": "Kit.Open"}, {"content-type": "text/plain"}, [415]),
        ({"tool_id": "Kit.Open"}, {"content-length": str(2**30)}, [413]),
        ({"tool_id": "Kit.Open"}, {"content-length": "many"}, [400]),
        ({"tool_id": "Kit.Open"}, {"content-encoding": "gzip"}, [415]),
    ],
)
def test_every_kind_of_answer_is_documented(
    app: InProcess,
    documented: Documented,
    path: str,
    call: dict[str, Any],
    headers: dict[str, str],
    statuses: list[int],
) -> None:
    document = call if path in ("/tools/call", "/oxp/call") else {"request": call}
    reply = app.request("POST", path, json.dumps(document).encode(), headers)
    assert reply.status in statuses, reply
    assert documented.problem("POST", path, reply) is None


@randomly
@given(document=mutated())
def test_an_error_is_never_mixed_up_with_a_result(app: InProcess, document: Any) -> None:
    """Flat or in an envelope, a reply is a result or a refusal and nothing in between."""
    reply = app.request("POST", "/tools/call", json.dumps(document).encode())
    result = reply.json.get("result", reply.json)
    assert ("success" in result) == (reply.status == 200)
    assert ("message" in reply.json) == (reply.status != 200)
    assert ("parameter_errors" in reply.json) == (reply.status == 422)
