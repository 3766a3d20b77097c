"""What the document says of pages, probes, metrics and metadata: what is served besides the wires."""

from typing import Any

from .docs import ApiParameter, Doc, Docs, Responses
from .oxp_shapes import Alive, ChallengeStatus, ServerErrorResponse, Status

APPROVAL = ApiParameter("id", "path", "The approval's id.")
CHALLENGE = ApiParameter("challenge", "path", "The challenge's id.")
REFUSED: Responses = {
    401: ("Credentials are missing or not valid", (ServerErrorResponse,)),
    403: ("The credentials are not for this, or a page sent it that may not", (ServerErrorResponse,)),
}


def docs() -> Docs:
    probe: Responses = {200: ("Yes", (Status,)), 503: ("No", (Status,))}
    progress: Responses = {200: ("Its status", (ChallengeStatus,))}
    made = {
        "/": _page("What is here"),
        "/docs": _page("The endpoints, to read"),
        "/authorize/{challenge}": _page("Where a person completes an authorization", CHALLENGE),
        "/authorize/{challenge}/status": Doc(
            "How far an authorization has come", progress, parameters=(CHALLENGE,), authenticated=False
        ),
        "/approvals/{id}": Doc(
            "Where a person says yes or no to a call",
            {200: ("A page", ()), 410: ("A page that says that there is none, or none any more", ())},
            parameters=(APPROVAL,),
            media_type="text/html",
            authenticated=False,
        ),
        "/approvals/{id}/status": Doc("Whether somebody has", progress, parameters=(APPROVAL,), authenticated=False),
        "/style.css": _open("How the pages look", "A style sheet", media_type="text/css"),
        "/openapi.json": _open("The endpoints, for programs", "OpenAPI 3.1", dict[str, Any]),
        "/ready": Doc("Ready for calls?", probe, authenticated=False),
        "/live": _open("Does the process run?", "Yes", Alive),
        "/.well-known/oauth-protected-resource": _metadata("this server"),
        "/.well-known/oauth-protected-resource/mcp": _metadata("its MCP endpoint"),
        "/metrics": Doc("Metrics", {200: ("For Prometheus", ()), **REFUSED}, media_type="text/plain"),
    }
    said: Responses = {200: ("A page that says so", ()), 403: ("A page that says why not", ())}
    form = Doc("Say yes or no", said, parameters=(APPROVAL,), media_type="text/html", authenticated=False)
    return {("GET", path): doc for path, doc in made.items()} | {("POST", "/approvals/{id}"): form}


def _metadata(what: str) -> Doc:
    """The metadata of a protected resource."""
    return _open(f"Who gives out tokens for {what}", "As RFC 9728 has it", dict[str, Any])


def _open(summary: str, meaning: str, *types: Any, media_type: str = "application/json") -> Doc:
    """A document that anyone may read without credentials."""
    return Doc(summary, {200: (meaning, types)}, media_type=media_type, authenticated=False)


def _page(summary: str, *parameters: ApiParameter) -> Doc:
    return Doc(summary, {200: ("A page", ())}, parameters=parameters, media_type="text/html", authenticated=False)
