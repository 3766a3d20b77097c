"""A tool's questions, as MCP puts them to a client.

In the older era a question is a request from the server, whose id says whose question it is. In the newer one the
server sends no requests: the call is answered with `input_required`, and the client calls again with its answers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...model.channel import Asks, Question
from .envelope import MISSING_CAPABILITY, RpcError, encode_notification
from .params import Capabilities, can
from .revisions import Revision

NEEDS: dict[Asks, tuple[str, ...]] = {
    "form": ("elicitation", "form"),
    "url": ("elicitation", "url"),
    "sampling": ("sampling",),
    "roots": ("roots",),
}
"""The capability that a client must have declared, for each kind of question."""
COMPLETE = "notifications/elicitation/complete"
_encode = msgspec.json.Encoder().encode


def can_answer(capabilities: Capabilities, kind: Asks) -> bool:
    return can(capabilities, *NEEDS[kind])


def missing_capabilities(kinds: Sequence[Asks], message: str = "", more: Mapping[str, Any] | None = None) -> RpcError:
    """The error for a client that cannot answer what a tool is going to ask. `message` is what its person should read,
    where there is something that helps without the capability."""
    wanted: dict[str, Any] = {}
    for kind in kinds:
        there = wanted
        for step in NEEDS[kind]:
            there = there.setdefault(step, {})
    named = ", ".join(".".join(NEEDS[kind]) for kind in kinds)
    message = message or f"This needs a client that declares {named}"
    return RpcError(MISSING_CAPABILITY, message, {"requiredCapabilities": wanted, **(more or {})})


def elicitations(questions: Sequence[Question]) -> dict[str, Any]:
    """The links that a person has to open, as the data of an error."""
    links = [
        {"mode": "url", "elicitationId": each.name, "url": each.url, "message": each.message} for each in questions
    ]
    return {"elicitations": links}


def encode_question(question: Question, revision: Revision, id: str = "") -> tuple[str, dict[str, Any]]:
    """The method and parameters of the request that puts a question. `id` is the request's, in the older era."""
    if question.kind == "roots":
        return "roots/list", {}
    if question.kind == "sampling":
        return "sampling/createMessage", dict(question.request)
    if question.kind == "url":
        params = {"mode": "url", "message": question.message, "url": question.url}
        return "elicitation/create", {**params, "elicitationId": id} if revision.completes else params
    mode = {"mode": "form"} if revision.icons else {}  # modes came with the same revision as icons, 2025-11-25
    return "elicitation/create", {**mode, "message": question.message, "requestedSchema": question.schema}


def encode_input_required(questions: Sequence[Question], state: str | None, revision: Revision) -> bytes:
    """The result of a call that needs answers first. `state` is opaque to the client, which sends it back with them."""
    result: dict[str, Any] = {"resultType": "input_required", "inputRequests": input_requests(questions, revision)}
    if state is not None:
        result["requestState"] = state
    return _encode({**result, "_meta": revision.server_info})


def input_requests(questions: Sequence[Question], revision: Revision) -> dict[str, Any]:
    return {question.name: _named(*encode_question(question, revision)) for question in questions}


def _named(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"method": method, "params": params} if params else {"method": method}


def encode_complete(id: str) -> bytes:
    """The notification that a person is done at the page that the client sent them to."""
    return encode_notification(COMPLETE, {"elicitationId": id})
