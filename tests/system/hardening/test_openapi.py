"""The OpenAPI document is true: what it allows is understood, what it forbids is refused, replies are as it says.

What is sent is made up when a test runs, for one operation at a time. schemathesis's own way, when tests are collected,
makes it up for all operations in every process that runs some.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CheckContext, load_all_checks
from schemathesis.config import SchemathesisConfig
from schemathesis.core.transport import Response
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.modes import GenerationMode
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.conformance.serving import running
from toolyard.server.app.compose import Yard
from toolyard.server.http.query import LONGEST_WAIT_S
from toolyard.server.openapi.document import document
from toolyard.server.settings.table import exactly

from .documented import Documented, names_no_tool
from .raw import ask, request
from .served import kit

Case = schemathesis.Case[Any]
yard = Yard([kit], exactly())
DOCUMENT = json.loads(json.dumps(document([*yard.routes, *yard.mcp_routes], "toolyard")))
CONFIG = SchemathesisConfig.from_dict({"seed": 1, "phases": {"stateful": {"enabled": False}}})
described = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG)


def test_the_document_is_the_one_that_is_served(server: str) -> None:
    assert ask(server, request(path="/openapi.json")).json == DOCUMENT


def test_every_schema_in_the_document_is_a_schema() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


def is_understood(context: CheckContext, response: Response, case: Case) -> None:
    """A call that the document allows may still name no tool of this server; it is never called malformed."""
    if is_allowed(case) and response.status_code == 400 and case.path != "/mcp":
        assert names_no_tool(response.json()), response.json()


def is_allowed(case: Case) -> bool:
    return case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE


def aimed(body: Any) -> Any:
    """The same call, of a tool that takes anything, and without a key that another call may have."""
    if "request" in body:
        return {**body, "request": aimed(body["request"])}
    body = {name: value for name, value in body.items() if name != "call_id"}
    return {**body, "tool_id": "Kit.Echo", "input": {"value": body.get("input")}}


def is_waited_for(wait: Any) -> bool:
    """Whether a request waits so long. It does so, too, where an unknown parameter is all that is wrong with it."""
    try:
        return 0 < float(wait) <= LONGEST_WAIT_S
    except (TypeError, ValueError):
        return False


@pytest.mark.parametrize(
    ("method", "path"), [(method, path) for path, operations in DOCUMENT["paths"].items() for method in operations]
)
def test_the_document_is_true(method: str, path: str, server: str) -> None:
    load_all_checks()
    made_up = build_operation_test(
        config=described.config,
        operation=described[path][method],
        test_func=a_reply_is_as_documented,
        given_kwargs={},
        feedback=FeedbackSources(),
    )
    made_up(server=server)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def a_reply_is_as_documented(case: Case, server: str) -> None:
    options: dict[str, Any] = {
        "base_url": server,
        "additional_checks": [is_understood],
        "excluded_checks": [positive_data_acceptance],
    }
    for given in (case.query, case.body):
        if isinstance(given, dict) and is_waited_for(given.get("wait")):
            given["wait"] = 0
    reply = case.call_and_validate(**options)
    if case.method.upper() == "PUT" and case.path == "/v1/workers/{name}" and reply.status_code == 200:
        # Or its tools would be there for the calls that are made up later, and those would wait for it.
        left = ask(server, request("DELETE", "/v1/workers/" + quote(case.path_parameters["name"], safe="")))
        assert left.status in (200, 204), left
    if is_allowed(case) and isinstance(case.body, Mapping) and not case.path.startswith(("/v1/", "/mcp")):
        case.body = aimed(case.body)
        assert case.call_and_validate(**options).status_code == 200


@pytest.mark.parametrize(("path", "operations"), DOCUMENT["paths"].items())
def test_what_a_client_without_credentials_gets_is_documented(
    guarded: str, path: str, operations: dict[str, Any]
) -> None:
    documented = Documented(DOCUMENT)
    for method in operations:
        sent = request(method.upper(), path.replace("{challenge}", "x"), body=b"{}" if method == "post" else b"")
        reply = ask(guarded, sent)
        assert documented.problem(method, path, reply) is None
        assert (reply.status == 401) == bool(operations[method]["security"])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running("keys", tmp_path_factory.mktemp("guarded")) as address:
        yield address
