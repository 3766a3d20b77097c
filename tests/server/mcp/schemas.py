"""Every message of a server, checked against the published schema of its revision, where those are to be had."""

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema_rs

FOLDER = Path(__file__).parents[4] / "shared" / "spec" / "schemas"
OLDER = ("2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
REVISIONS = (*OLDER, MODERN)
EXTENSION = "ext-tasks"
RESULTS = {
    "completion/complete": "CompleteResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "ping": "EmptyResult",
    "logging/setLevel": "EmptyResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "subscriptions/listen": "SubscriptionsListenResult",
    "tasks/get": "GetTaskResult",
    "tasks/result": "CallToolResult",
    "tasks/list": "ListTasksResult",
    "tasks/cancel": "CancelTaskResult",
    "tasks/update": "UpdateTaskResult",
    "resources/list": "ListResourcesResult",
    "resources/read": "ReadResourceResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
}
MESSAGES = {
    "notifications/progress": "ProgressNotification",
    "notifications/message": "LoggingMessageNotification",
    "notifications/tools/list_changed": "ToolListChangedNotification",
    "notifications/prompts/list_changed": "PromptListChangedNotification",
    "notifications/resources/list_changed": "ResourceListChangedNotification",
    "notifications/resources/updated": "ResourceUpdatedNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
    "notifications/tasks": "TaskStatusNotification",
    "notifications/tasks/status": "TaskStatusNotification",
    "notifications/elicitation/complete": "ElicitationCompleteNotification",
    "elicitation/create": "ElicitRequest",
    "sampling/createMessage": "CreateMessageRequest",
    "roots/list": "ListRootsRequest",
}


def check_message(message: Any, revision: str, asked: str | None) -> None:
    """`asked` is the method that it answers, or comes before the answer of. Nothing is checked without the schemas."""
    if not FOLDER.is_dir():
        return
    if "method" in message:
        method = message["method"]
        _check(message, EXTENSION if method == "notifications/tasks" else revision, MESSAGES[method])
    elif "error" in message:
        assert message["jsonrpc"] == "2.0"
        _check(message, "2025-11-25", "JSONRPCErrorResponse")
    else:
        assert asked is not None, message
        _check(message, revision, "JSONRPCResponse")
        result = message["result"]
        _check(result, *_kind(result, revision, asked))


def _kind(result: Any, revision: str, asked: str) -> tuple[str, str]:
    """The schema of a result, and its name there."""
    if revision == MODERN:
        said = result.get("resultType")
        if asked == "tools/call" and said == "task":
            return EXTENSION, "CreateTaskResult"
        if said == "input_required":
            return revision, "InputRequiredResult"
        assert said == "complete", result
        if asked.startswith("tasks/"):
            return EXTENSION, RESULTS[asked]
    elif asked == "tools/call" and "task" in result:
        return revision, "CreateTaskResult"
    return revision, RESULTS[asked]


def _check(value: Any, schema: str, name: str) -> None:
    try:
        _validator(schema, name).validate(value)
    except jsonschema_rs.ValidationError as error:
        raise AssertionError(f"this is no {name} of {schema}: {error}\n{json.dumps(value)[:2000]}") from None


@functools.cache
def _validator(schema: str, name: str) -> Any:
    whole = json.loads((FOLDER / f"mcp-{schema}.schema.json").read_text(encoding="utf-8"))
    below = "$defs" if "$defs" in whole else "definitions"
    return jsonschema_rs.validator_for({**whole, "$ref": f"#/{below}/{name}"})
