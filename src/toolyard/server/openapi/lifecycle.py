"""What the document says of `/v1`, the lifecycle API: calls, approvals, requests, sessions and workers."""

from ...model.lifecycle import State
from ..http.query import LONGEST_WAIT_S, MOST
from .docs import ANYTHING, ApiParameter, Doc, Docs, Responses
from .lifecycle_shapes import (
    AnthropicMessage,
    ApprovalShapes,
    Awaiting,
    ClaimBody,
    Claims,
    DecidedCall,
    HeartbeatBody,
    HeartbeatsBody,
    LifecycleError,
    LifecycleInvalid,
    ListedCall,
    ListedCalls,
    NotOffered,
    OpenAIMessage,
    Ready,
    ReasonBody,
    RefusedBody,
    Registered,
    RequestShape,
    RequestShapes,
    ResponseBody,
    SessionBody,
    SessionCreated,
    SessionShape,
    Turn,
    Verdicts,
    WorkerBody,
)

# Parameters that several routes have.
WAIT = ApiParameter(
    "wait", "query", "Seconds to wait for it.", {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT_S}
)
STATE = ApiParameter("state", "query", "Only those in this state.", {"type": "string", "enum": [*State]})
LIMIT = ApiParameter("limit", "query", "How many, at most.", {"type": "integer", "minimum": 1, "maximum": MOST})
CURSOR = ApiParameter("cursor", "query", "Where the last list ended.", {"type": "string", "pattern": "^[0-9]{1,18}$"})
TOOL = ApiParameter("tool", "query", "Only those of this tool, as it was asked for.")
APPROVAL = ApiParameter("id", "path", "The approval's id.")
CALL = ApiParameter("call_id", "path", "The call's id.")
FAMILY = ApiParameter(
    "family", "query", "Which call, where several have the id: `oxp`, `otc_draft`, `mcp`, or a session's id."
)
ITS_SESSION = ApiParameter("session", "query", "Of a session's tool uses: the session.")
RANGE = ApiParameter("Range", "header", "Which bytes, such as `bytes=0-1023`.")
SESSION = ApiParameter("sessionId", "path", "The session's id; `direct` for calls that came in outside one.")
ONLY_SESSION = ApiParameter("session", "query", "Only those of this session.")
REQUEST = ApiParameter("requestId", "path", "The request's id: the tool use's; outside a session, as the claim has it.")
ATTEMPT = ApiParameter(
    "Toolyard-Attempt", "header", "The attempt this is about.", {"type": "string", "pattern": "^[0-9]{1,15}$"}
)
NAME = {"type": "string", "pattern": "^[!-~]{1,128}$"}
WORKER = ApiParameter("Toolyard-Worker", "header", "Which of the caller's workers this is.", NAME)
WORKER_NAME = ApiParameter("name", "path", "The worker's name.", NAME)
FORMAT = ApiParameter("format", "query", "Whose shape.", {"type": "string", "enum": ["anthropic", "openai"]})
LAST_EVENT = ApiParameter(
    "Last-Event-ID", "header", "The last event the client has.", {"type": "string", "pattern": "^[0-9]{1,15}$"}
)

# Answers that several routes have.
REFUSED: Responses = {
    401: ("Credentials are missing or not valid", (LifecycleError,)),
    403: ("The credentials are not for this, or a page sent it that may not", (LifecycleError,)),
    422: ("Something in the request is not valid", (LifecycleInvalid,)),
    429: ("Too much at once, or the ledger is not to be had now; come back", (LifecycleError,)),
}
ABSENT: Responses = {404: ("There is no such thing, or it is somebody else's", (LifecycleError,))}
MALFORMED: Responses = {
    400: ("This is not JSON", (LifecycleError,)),
    413: ("The body is too large", (LifecycleError,)),
    415: ("The body is not JSON", (LifecycleError,)),
}
TAKEN: Responses = {200: ("It was taken", ())}
LOST: Responses = {409: ("It does not count, for this reason", (RefusedBody,))}
# Where a request is, and a session.
AT = "/v1/tools/request/{sessionId}/{requestId}"
IN = "/v1/sessions/{sessionId}"


def docs() -> Docs:
    return _calls() | _requests() | _sessions() | _workers() | _approvals()


def _calls() -> Docs:
    one: Responses = {200: ("The call", (ListedCall,)), **ABSENT, **REFUSED}
    many: Responses = {200: ("The calls", (ListedCalls,)), **REFUSED}
    filters = (STATE, TOOL, CURSOR, LIMIT)
    content: Responses = {
        200: ("The value, or its text", ()),
        206: ("The part that was asked for", ()),
        416: ("No byte of it is in that range", (LifecycleError,)),
        **ABSENT,
        **LOST,
        **REFUSED,
    }
    return {
        ("GET", "/v1/calls"): Doc("The caller's calls, newest first", many, "calls", parameters=filters),
        ("GET", "/v1/calls/{call_id}"): Doc("A call of the caller's", one, "calls", parameters=(CALL, FAMILY, WAIT)),
        ("GET", "/v1/calls/{call_id}/content"): Doc(
            "All that a call returned",
            content,
            "calls",
            parameters=(CALL, FAMILY, ITS_SESSION, RANGE),
            media_type=ANYTHING,
        ),
        ("POST", "/v1/calls/{call_id}/cancel"): Doc(
            "Cancel a call", {**one, **LOST}, "calls", parameters=(CALL, FAMILY)
        ),
    }


def _approvals() -> Docs:
    many: Responses = {200: ("Those that others of the tenant asked for", (ApprovalShapes,)), **REFUSED}
    decided: Responses = {200: ("It was decided", (DecidedCall,)), **ABSENT, **LOST, **REFUSED, **MALFORMED}
    at = "/v1/approvals/{id}"
    return {
        ("GET", "/v1/approvals"): Doc("Calls that wait for a person's yes", many, "approvals"),
        ("POST", f"{at}/approve"): Doc("Say yes", decided, "approvals", (ReasonBody,), (APPROVAL,), needs_body=False),
        ("POST", f"{at}/reject"): Doc("Say no", decided, "approvals", (ReasonBody,), (APPROVAL,), needs_body=False),
    }


def _requests() -> Docs:
    write: Responses = {**TAKEN, **ABSENT, **LOST, **REFUSED, **MALFORMED}
    shown: Responses = {200: ("The request", (RequestShape,)), **ABSENT, **REFUSED}
    many: Responses = {200: ("The requests", (RequestShapes,)), **REFUSED}
    claimed: Responses = {200: ("Work, if there is any", (Claims,)), **REFUSED, **MALFORMED}
    renewed: Responses = {200: ("One verdict each", (Verdicts,)), **REFUSED, **MALFORMED}
    released: Responses = {**TAKEN, **ABSENT, **LOST, **REFUSED}
    where, holding = (SESSION, REQUEST), (SESSION, REQUEST, ATTEMPT, WORKER)
    filters = (STATE, ONLY_SESSION, TOOL, WAIT, LIMIT)
    return {
        ("POST", f"{AT}/heartbeat"): _doc(
            "Claim a request, go on holding it, or fail it", write, *holding, body=HeartbeatBody
        ),
        ("POST", "/v1/tools/response/{sessionId}/{requestId}"): _doc(
            "Complete a request", write, *holding, body=ResponseBody
        ),
        ("POST", f"{AT}/release"): _doc("Give a request back, for another to claim", released, *holding),
        ("POST", f"{AT}/cancel"): _doc("Cancel a request", shown, *where),
        ("GET", AT): _doc("A request", shown, *where),
        ("GET", "/v1/tools/requests"): _doc("Requests, oldest first", many, *filters),
        ("POST", "/v1/tools/claim"): _doc(
            "Claim some of what waits", claimed, WORKER, body=ClaimBody, needs_body=False
        ),
        ("POST", "/v1/tools/heartbeats"): _doc("Go on holding many", renewed, WORKER, body=HeartbeatsBody),
    }


def _sessions() -> Docs:
    created: Responses = {201: ("The session", (SessionCreated,)), **REFUSED, **MALFORMED}
    shown: Responses = {200: ("The session", (SessionShape,)), **ABSENT, **REFUSED}
    taken: Responses = {200: ("The tool uses as requests", (Turn,)), **ABSENT, **LOST, **REFUSED, **MALFORMED}
    results: Responses = {
        200: ("All results", (Ready,)),
        202: ("Not all are there", (Awaiting,)),
        **ABSENT,
        **REFUSED,
    }
    stream: Responses = {200: ("Events as they happen", ()), **ABSENT, **REFUSED}
    message = (AnthropicMessage, OpenAIMessage)
    return {
        ("POST", "/v1/sessions"): _doc("Open a session", created, body=SessionBody, needs_body=False),
        ("GET", IN): _doc("A session", shown, SESSION),
        ("POST", f"{IN}/messages"): Doc("Take an assistant's message", taken, "lifecycle", message, (SESSION,)),
        ("GET", f"{IN}/results"): _doc("The results of the newest message", results, SESSION, FORMAT, WAIT),
        ("GET", f"{IN}/events"): Doc(
            "What happens, as it happens",
            stream,
            "lifecycle",
            parameters=(SESSION, LAST_EVENT),
            media_type="text/event-stream",
        ),
    }


def _workers() -> Docs:
    taken: Responses = {409: ("A tool is another's, or not as it was approved", (NotOffered,))}
    registered: Responses = {200: ("Its tools are in the catalogue", (Registered,)), **taken, **REFUSED, **MALFORMED}
    known: Responses = {**TAKEN, **ABSENT, **REFUSED}
    at = "/v1/workers/{name}"
    return {
        ("PUT", at): _doc("Register a worker and its tools", registered, WORKER_NAME, body=WorkerBody),
        ("POST", f"{at}/heartbeat"): _doc("A worker lives", known, WORKER_NAME),
        ("DELETE", at): _doc("A worker leaves", known, WORKER_NAME),
    }


def _doc(
    summary: str, responses: Responses, *parameters: ApiParameter, body: object = None, needs_body: bool = True
) -> Doc:
    request = () if body is None else (body,)
    return Doc(summary, responses, "lifecycle", request, parameters, needs_body=needs_body)
