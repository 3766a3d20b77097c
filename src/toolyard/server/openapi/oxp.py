"""What the document says of OXP 1.0, OTC 1.0 and the OTC draft: at the root the body decides which protocol is spoken,
below a prefix the prefix does.
"""

from collections.abc import Sequence
from typing import Any

from ...wires.oxp.messages import OTC_1_0, OTC_DRAFT
from .docs import ApiParameter, Doc, Docs, Responses
from .oxp_shapes import (
    NAMES,
    OXP_NAMES,
    DraftEnvelope,
    DraftResult,
    DraftTools,
    EnvelopedResult,
    FlatCall,
    NamedDraftEnvelope,
    NamedOxpOrOtcEnvelope,
    OtcEnvelope,
    OtcTools,
    OxpEnvelope,
    OxpOrOtcEnvelope,
    OxpTools,
    Result,
    ServerErrorResponse,
    Status,
    ValidationErrorResponse,
)

Types = tuple[Any, ...]

VERSIONS = ApiParameter(
    "versions", "query", "`all` lists every version.", {"type": "string", "enum": ["all", "newest"]}
)
OXP_VERSION = ApiParameter(
    "OXP-Version",
    "header",
    "The version the client speaks.",
    {"type": "string", "pattern": r"^1(\.0(\.[0-9]+)?)?$"},
)
TRACEPARENT = ApiParameter("traceparent", "header", "W3C trace context.")
IF_NONE_MATCH = ApiParameter("If-None-Match", "header", "The ETag of the list the client has.")

REFUSED: Responses = {
    400: ("Not taken: not valid, not found, or something is missing", (ServerErrorResponse,)),
    401: ("Credentials are missing or not valid", (ServerErrorResponse,)),
    403: ("The credentials are not for this, or a page sent it that may not", (ServerErrorResponse,)),
    413: ("The body is too large", (ServerErrorResponse,)),
    415: ("The body is not JSON", (ServerErrorResponse,)),
}
INVALID: Responses = {422: ("The input does not fit the tool's schema", (ValidationErrorResponse,))}
HEALTH: Responses = {200: ("Ready for calls", (Status,)), 503: ("Not ready for calls", (Status,))}


def docs() -> Docs:
    any_result: Types = (Result, EnvelopedResult, DraftResult)
    any_tools: Types = (OxpTools, OtcTools, DraftTools)
    oxp_call, oxp_result = (FlatCall, OxpEnvelope), (Result, EnvelopedResult)
    made: Docs = {
        ("POST", "/tools/call"): _call("oxp", (FlatCall, OxpOrOtcEnvelope, NamedDraftEnvelope), any_result),
        ("POST", "/call"): _call("oxp", (FlatCall, NamedOxpOrOtcEnvelope, DraftEnvelope), any_result),
        ("GET", "/tools"): _list("oxp", any_tools, NAMES),
        ("GET", "/health"): _health("oxp"),
    }
    made |= _below("/oxp", "oxp", oxp_call, oxp_result, (OxpTools,), OXP_NAMES)
    made |= _below("/otc", "otc", (OtcEnvelope,), (EnvelopedResult,), (OtcTools,), (OTC_1_0,))
    made |= _below("/otc/draft", "otc_draft", (DraftEnvelope,), (DraftResult,), (DraftTools,), (OTC_DRAFT,))
    return made


def _below(prefix: str, wire: str, request: Types, result: Types, tools: Types, names: Sequence[str]) -> Docs:
    return {
        ("POST", f"{prefix}/tools/call"): _call(wire, request, result),
        ("POST", f"{prefix}/call"): _call(wire, request, result),
        ("GET", f"{prefix}/tools"): _list(wire, tools, names),
        ("GET", f"{prefix}/health"): _health(wire),
    }


def _call(wire: str, request: Types, result: Types) -> Doc:
    # The draft knows no 422: input that does not fit is a result there.
    invalid = INVALID if wire != "otc_draft" else {}
    responses: Responses = {200: ("How the call ended", result), **REFUSED, **invalid}
    parameters = (OXP_VERSION, TRACEPARENT) if wire == "oxp" else (TRACEPARENT,)
    return Doc("Call a tool", responses, tag=wire, request=request, parameters=parameters)


def _list(wire: str, tools: Types, names: Sequence[str]) -> Doc:
    schema = ApiParameter("$schema", "query", "Which protocol to answer in.", {"type": "string", "enum": list(names)})
    versioned = (OXP_VERSION,) if wire == "oxp" else ()
    responses: Responses = {
        200: ("The tools", tools),
        304: ("The list is the one the client has", ()),
        **REFUSED,
    }
    return Doc("List the tools", responses, tag=wire, parameters=(VERSIONS, schema, IF_NONE_MATCH, *versioned))


def _health(wire: str) -> Doc:
    return Doc("Check health", HEALTH, tag=wire, authenticated=False)
