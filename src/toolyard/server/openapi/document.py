"""One OpenAPI 3.1 document of every HTTP endpoint, written from the route table and the types behind it.

A route that nobody has described is an error here, and a test asks for the document: so none is left out.
"""

from typing import Any

import msgspec

from ...version import VERSION
from ..http.routes import Route, variables_of
from . import lifecycle, mcp, oxp, site
from .docs import ANYTHING, ApiParameter, Doc, Docs, Responses
from .oxp_shapes import ServerErrorResponse

Known = dict[Any, Any]
TEMPLATE = "#/components/schemas/{name}"
# An empty requirement means that credentials may be left out, as on a server that asks for none.
SECURITY: list[dict[str, list[str]]] = [{"bearer": []}, {"apiKey": []}, {}]
ANYWHERE: Responses = {
    408: ("The request took too long to arrive", (ServerErrorResponse,)),
    431: ("The header is too large", (ServerErrorResponse,)),
}
"""Answers that any request may get, before its route is even looked for."""
WITH_A_VARIABLE: Responses = {404: ("Nothing is served there", (ServerErrorResponse,))}
"""Answers of a path with a variable, which may be left empty or have dots."""


def document(routes: list[Route], title: str) -> dict[str, Any]:
    """The whole document. Served as JSON and shown at `/docs`."""
    docs: Docs = oxp.docs() | lifecycle.docs() | mcp.docs() | site.docs()
    described = [(route, docs[route.method, route.path]) for route in routes]
    # All types at once, so that each is one component, however many routes have it.
    types = list(dict.fromkeys(type_ for route, doc in described for type_ in _types_of(route, doc)))
    schemas, components = msgspec.json.schema_components(types, ref_template=TEMPLATE)
    known = dict(zip(types, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route, doc in described:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, doc, known)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": VERSION,
            "description": "One tool, every wire: OXP 1.0, OTC 1.0, the OTC draft and MCP.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A JWT (HS256), or an API key.",
                },
                "apiKey": {"type": "apiKey", "in": "header", "name": "OXP-API-Key"},
            },
        },
    }


def _operation(route: Route, doc: Doc, known: Known) -> dict[str, Any]:
    """A route as an operation of OpenAPI."""
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}{route.path.replace('/', '_')}".replace("{", "").replace("}", ""),
        "summary": doc.summary,
        "tags": [doc.tag],
        "security": SECURITY if doc.authenticated else [],
        "responses": {str(status): _response(doc, *said, known) for status, said in _responses_of(route, doc).items()},
    }
    parameters = _parameters_of(route, doc)
    if parameters:
        operation["parameters"] = [_parameter(parameter) for parameter in parameters]
    if doc.request:
        content = {"application/json": {"schema": _schema(doc.request, known)}}
        operation["requestBody"] = {"required": doc.needs_body, "content": content}
    return operation


def _response(doc: Doc, meaning: str, types: tuple[Any, ...], known: Known) -> dict[str, Any]:
    if types:
        return {"description": meaning, "content": {"application/json": {"schema": _schema(types, known)}}}
    if doc.media_type == "application/json":  # an empty body
        return {"description": meaning}
    schema = {} if doc.media_type == ANYTHING else {"type": "string"}
    return {"description": meaning, "content": {doc.media_type: {"schema": schema}}}


def _parameters_of(route: Route, doc: Doc) -> list[ApiParameter]:
    """The parameters of a route, those of its path first, whether or not it says more of them than their names."""
    said = doc.parameters
    described = {parameter.name: parameter for parameter in said if parameter.where == "path"}
    in_path = [
        described.get(name, ApiParameter(name, "path", "A part of the path.")) for name in variables_of(route.path)
    ]
    return in_path + [parameter for parameter in said if parameter.where != "path"]


def _parameter(parameter: ApiParameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "description": parameter.meaning,
        "required": parameter.where == "path",
        "schema": dict(parameter.schema),
    }


def _schema(types: tuple[Any, ...], known: Known) -> Any:
    """One of several types, by their schemas."""
    return known[types[0]] if len(types) == 1 else {"anyOf": [known[type_] for type_ in types]}


def _types_of(route: Route, doc: Doc) -> list[Any]:
    """All types that a route's requests and replies have."""
    return [*doc.request, *(type_ for _, types in _responses_of(route, doc).values() for type_ in types)]


def _responses_of(route: Route, doc: Doc) -> Responses:
    """What a route may answer, by status, with what the server itself may answer anywhere."""
    said = {**doc.responses, **ANYWHERE, **(WITH_A_VARIABLE if "{" in route.path else {})}
    return dict(sorted(said.items()))
