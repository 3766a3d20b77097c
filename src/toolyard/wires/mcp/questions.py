"""What a tool asks, as MCP puts it to a client, and the client's answers."""

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
"""What a client must have declared."""
COMPLETE = "notifications/elicitation/complete"
_encode = msgspec.json.Encoder().encode


def can_answer(capabilities: Capabilities, kind: Asks) -> bool:
    return can(capabilities, *NEEDS[kind])


def missing_capabilities(kinds: Sequence[Asks], said: str = "", more: Mapping[str, Any] | None = None) -> RpcError:
    """For a client that cannot do what a tool is going to ask for. `said` is what its person should read, if there is
    something that helps without it."""
    wanted: dict[str, Any] = {}
    for kind in kinds:
        there = wanted
        for step in NEEDS[kind]:
            there = there.setdefault(step, {})
    named = ", ".join(".".join(NEEDS[kind]) for kind in kinds)
    message = said or f"This needs a client that declares {named}"
    return RpcError(MISSING_CAPABILITY, message, {"requiredCapabilities": wanted, **(more or {})})


def elicitations(questions: Sequence[Question]) -> dict[str, Any]:
    """Links that a person has to open, as the data of an error."""
    said = [{"mode": "url", "elicitationId": each.name, "url": each.url, "message": each.message} for each in questions]
    return {"elicitations": said}


def encode_question(question: Question, revision: Revision, id: str = "") -> tuple[str, dict[str, Any]]:
    """As a request: its method and parameters. `id` is the request's, where it is one."""
    if question.kind == "roots":
        return "roots/list", {}
    if question.kind == "sampling":
        return "sampling/createMessage", dict(question.request)
    if question.kind == "url":
        said = {"mode": "url", "message": question.message, "url": question.url}
        return "elicitation/create", {**said, "elicitationId": id} if revision.completes else said
    mode = {"mode": "form"} if revision.icons else {}
    return "elicitation/create", {**mode, "message": question.message, "requestedSchema": question.schema}


def encode_input_required(questions: Sequence[Question], state: str | None, revision: Revision) -> bytes:
    """The result of a request that wants answers first."""
    made: dict[str, Any] = {"resultType": "input_required", "inputRequests": input_requests(questions, revision)}
    if state is not None:
        made["requestState"] = state
    return _encode({**made, "_meta": revision.server_info})


def input_requests(questions: Sequence[Question], revision: Revision) -> dict[str, Any]:
    return {question.name: _named(*encode_question(question, revision)) for question in questions}


def _named(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"method": method, "params": params} if params else {"method": method}


def encode_complete(id: str) -> bytes:
    """A person has done what the client sent them for."""
    return encode_notification(COMPLETE, {"elicitationId": id})


def question_id(seq: int, name: str) -> str:
    """The id of a request to the client: it says whose question it is, so that any node can take the answer."""
    return f"question-{seq}-{name}"


def question_of(id: Any) -> tuple[int, str] | None:
    """Which call's question an answer is for."""
    kind, _, rest = id.partition("-") if isinstance(id, str) else ("", "", "")
    seq, _, name = rest.partition("-")
    return (int(seq), name) if kind == "question" and seq.isdigit() and name else None
