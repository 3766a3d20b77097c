"""The routes of OXP 1.0, OTC 1.0 and the OTC draft: one row each."""

from typing import Any

from ..wires import negotiation, otc, otc_draft, oxp
from ..wires.contract import Wire
from ..wires.family import OTC_1_0, OTC_DRAFT
from .calls import CallDesk
from .routes import Doc, Parameter, Route
from .shapes import (
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
Responses = dict[int, tuple[str, Types]]

VERSIONS = Parameter("versions", "query", "`all` lists every version.", {"type": "string", "enum": ["all", "newest"]})
OXP_VERSION = Parameter(
    "OXP-Version",
    "header",
    "The version the client speaks.",
    {"type": "string", "pattern": r"^1(\.0(\.[0-9]+)?)?$"},
)
TRACEPARENT = Parameter("traceparent", "header", "W3C trace context.")
IF_NONE_MATCH = Parameter("If-None-Match", "header", "The ETag of the list the client has.")

REFUSED: Responses = {
    400: ("Not taken: not valid, not found, or something is missing", (ServerErrorResponse,)),
    401: ("Credentials are missing or not valid", (ServerErrorResponse,)),
    413: ("The body is too large", (ServerErrorResponse,)),
    415: ("The body is not JSON", (ServerErrorResponse,)),
}
INVALID: Responses = {422: ("The input does not fit the tool's schema", (ValidationErrorResponse,))}


def routes(desk: CallDesk) -> list[Route]:
    """At the root the body decides which protocol is spoken; below a prefix, the prefix does."""
    any_result: Types = (Result, EnvelopedResult, DraftResult)
    at_tools_call: Types = (FlatCall, OxpOrOtcEnvelope, NamedDraftEnvelope)
    at_call: Types = (FlatCall, NamedOxpOrOtcEnvelope, DraftEnvelope)
    oxp_call, oxp_result = (FlatCall, OxpEnvelope), (Result, EnvelopedResult)
    return [
        _call(desk, "/tools/call", negotiation.root, oxp.FLAT, at_tools_call, any_result),
        _call(desk, "/call", negotiation.root_call, oxp.FLAT, at_call, any_result),
        _list(desk, "/tools", oxp.FLAT, (OxpTools, OtcTools, DraftTools), fixed=False),
        _health(desk, "/health", oxp.FLAT),
        *_below("/oxp", desk, oxp.FLAT, negotiation.only_oxp, oxp_call, oxp_result, (OxpTools,)),
        *_below("/otc", desk, otc.OTC, negotiation.only_otc, (OtcEnvelope,), (EnvelopedResult,), (OtcTools,)),
        *_below(
            "/otc/draft",
            desk,
            otc_draft.DRAFT,
            negotiation.only_draft,
            (DraftEnvelope,),
            (DraftResult,),
            (DraftTools,),
        ),
    ]


def _below(
    prefix: str,
    desk: CallDesk,
    wire: Wire,
    choose: negotiation.Choose,
    request: Types,
    result: Types,
    tools: Types,
) -> list[Route]:
    return [
        _call(desk, f"{prefix}/tools/call", choose, wire, request, result),
        _call(desk, f"{prefix}/call", choose, wire, request, result),
        _list(desk, f"{prefix}/tools", wire, tools, fixed=True),
        _health(desk, f"{prefix}/health", wire),
    ]


def _call(desk: CallDesk, path: str, choose: negotiation.Choose, wire: Wire, request: Types, result: Types) -> Route:
    speaks_oxp = wire is oxp.FLAT
    responses: Responses = {
        200: ("How the call ended", result),
        **REFUSED,
        **(INVALID if wire is not otc_draft.DRAFT else {}),
    }
    doc = Doc(
        "Call a tool",
        dict(sorted(responses.items())),
        tag=wire.name,
        request=request,
        parameters=(OXP_VERSION, TRACEPARENT) if speaks_oxp else (TRACEPARENT,),
    )
    return Route("POST", path, desk.call(choose, versioned=speaks_oxp), wire, doc, reads_json=True)


def _list(desk: CallDesk, path: str, wire: Wire, tools: Types, *, fixed: bool) -> Route:
    versioned = (OXP_VERSION,) if wire is oxp.FLAT else ()
    responses: Responses = {
        200: ("The tools", tools),
        304: ("The list is the one the client has", ()),
        **REFUSED,
    }
    parameters = (VERSIONS, _schema(wire, fixed), IF_NONE_MATCH, *versioned)
    doc = Doc("List the tools", responses, tag=wire.name, parameters=parameters)
    return Route("GET", path, desk.list(wire, fixed=fixed), wire, doc, reads_json=True)


def _schema(wire: Wire, fixed: bool) -> Parameter:
    names = {"oxp": OXP_NAMES, "otc": (OTC_1_0,), "otc_draft": (OTC_DRAFT,)}[wire.name] if fixed else NAMES
    return Parameter("$schema", "query", "Which protocol to answer in.", {"type": "string", "enum": list(names)})


def _health(desk: CallDesk, path: str, wire: Wire) -> Route:
    responses: Responses = {200: ("Ready for calls", (Status,)), 503: ("Not ready for calls", (Status,))}
    return Route(
        "GET",
        path,
        desk.health(wire),
        wire,
        Doc("Check health", responses, tag=wire.name, authenticated=False),
    )
