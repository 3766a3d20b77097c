"""One tree of errors, divided by who must act.

`RequestError`: the caller. `ToolError`: the tool's author. `ServerError`: whoever runs the server. `SetupError`:
whoever starts it. `message` is for people and models; `developer_message` is for logs and must not reach a model. No
error knows a status code: each wire has one total table from error to answer, and a test that it is total.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ..text.scrubber import Scrubber


class ToolyardError(Exception):
    """The base of everything that toolyard raises on purpose.

    `message` is one sentence for people and models. `developer_message`, where there is one, is for logs: do not show
    it to a model.
    """

    def __init__(self, message: str, *, developer_message: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.developer_message = developer_message


# --- the caller must act -------------------------------------------------------------------------


class RequestError(ToolyardError):
    """The request cannot be taken as it is, and the caller must act: the same request would fail again."""


class MalformedRequest(RequestError):
    """A request that cannot be decoded (not JSON, a wrong member, a wrong type), and so never became a call."""


class UnsupportedProtocol(RequestError):
    """The request names a protocol version or `$schema` that this server does not speak."""


class NotAuthenticated(RequestError):
    """The request has no credentials, or none that are valid: give `Client` a `key`. `challenge` is the value of
    `WWW-Authenticate`."""

    challenge = "Bearer"


class Forbidden(RequestError):
    """The caller is known, and its credentials do not allow this: they lack `scopes`, where scopes would help."""

    def __init__(self, message: str, scopes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.scopes = scopes
        self.challenge = f'Bearer error="insufficient_scope", scope="{" ".join(scopes)}"' if scopes else "Bearer"


class Misdirected(RequestError):
    """The request's `Host` is a name that this server does not answer to."""


class ForeignPage(RequestError):
    """A browser sent the request for a page that may not use this server: its `Origin` is not allowed, or a form of
    ours comes back without our cookie."""


class KeyConflict(RequestError):
    """The `call_id` was used before, for a call of another tool or with other input."""


class Refused(RequestError):
    """The request does not fit the state of what it is about: a call has ended or is held by somebody else, a decision
    was made already, a name is taken. `reason` says which in one word (HTTP's conflict, 409)."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class ToolNotFound(RequestError):
    """There is no such tool or version for this caller, or the text is no tool id at all. What a caller may not see is
    answered in the same way."""


class Problem(Struct, frozen=True):
    """What is wrong with one parameter of an input, as a sentence that a model can act on."""

    path: str
    sentence: str
    got: Any = None
    missing: bool = False


def path_of(parts: Iterable[str | int]) -> str:
    """A path of members and indices as text: `address.city`, `items[2].id`."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


class InvalidInput(RequestError):
    """The input does not fit the tool's input schema. `problems` has everything that is wrong with it, each with the
    `path` of the parameter (`address.city`) and a `sentence` that a model can act on.

    >>> from toolyard import Toolkit
    >>> from toolyard.testing import call
    >>> greeter = Toolkit("Greeter")
    >>> @greeter.tool
    ... def greet(name: str) -> str:
    ...     '''Greets somebody.'''
    ...     return f"Hello, {name}"
    >>> try:
    ...     call(greeter, "Greeter.Greet", {})
    ... except InvalidInput as error:
    ...     print(error.problems[0].path, error.problems[0].sentence)
    name Is required
    """

    def __init__(self, problems: tuple[Problem, ...], message: str = "Some input parameters are invalid") -> None:
        super().__init__(message)
        self.problems = problems


class Challenge(Struct, frozen=True):
    """An authorization that a person has to complete at `url` before the tool can be called."""

    id: str
    url: str
    check_url: str
    provider: str = ""
    code: str = ""
    """The code that the page asks for. No wire has a member for it, so it is in the error's message. Empty where the
    page has its reader sign in instead."""
    can_come: bool = False
    """Whether the account can be connected at this server, so that the call may wait for it."""


class Missing(Struct, frozen=True):
    """Everything that a call needs and nobody gave, at once."""

    authorization: tuple[Challenge, ...] = ()
    secrets: tuple[str, ...] = ()
    user_id: bool = False
    approval: bool = False
    """Whether the authorization is a person's approval of this very call."""

    @property
    def can_come(self) -> bool:
        """Whether only accounts of the user are missing, and each can be connected at this server."""
        others = self.secrets or self.user_id or self.approval
        return bool(self.authorization) and not others and all(each.can_come for each in self.authorization)


class MissingRequirements(RequestError):
    """The tool needs something besides input that nobody gave. `missing` has all of it: `authorization`, each with the
    `url` that a person has to open and the `check_url` that says whether they did; the ids of `secrets`; and whether a
    `user_id` is missing."""

    def __init__(self, message: str, missing: Missing, *, developer_message: str) -> None:
        super().__init__(message, developer_message=developer_message)
        self.missing = missing

    def __str__(self) -> str:
        """The message, with the addresses that a person has to open."""
        return "; ".join([self.message, *(f"open {challenge.url}" for challenge in self.missing.authorization)])


def nobody_can_approve(tool_name: str, why: str) -> MissingRequirements:
    """The error of a call that needs approval where nobody can give it. `why` also says what to do about it."""
    message = f"{tool_name} needs approval by a person, and nobody can give it here: {why}"
    return MissingRequirements(message, Missing(approval=True), developer_message="the tool was not run")


class PathNotFound(RequestError):
    """The request is for a path at which nothing is served."""


class MethodNotAllowed(RequestError):
    """The request's path is served, with other methods (`allowed`)."""

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class BodyTooLarge(RequestError):
    """The request's body is larger than `max_body_bytes`."""


class UnsupportedMediaType(RequestError):
    """The request's body is not `application/json`."""


# --- the tool's author must act ------------------------------------------------------------------


class ToolError(ToolyardError):
    """A failure of a tool, which its author raises on purpose. Everything in it reaches the caller. Anything else that
    a tool raises is a mistake: the caller is told that the tool failed, and its text stays in the server's log.

    Args:
        message: One sentence that a model can act on.
        developer_message: Details for the caller's log.
        can_retry: Whether trying again may help. Not said means that it will not.
        retry_after_ms: How long to wait first.
        additional_prompt_content: What the model should know before it tries again: valid values, a hint.

    >>> def unlock(door: str) -> str:
    ...     '''Unlocks a door.'''
    ...     if door not in {"back", "front"}:
    ...         raise ToolError(f"There is no door '{door}'", additional_prompt_content="doors: back, front")
    ...     return f"{door} is open"
    """

    code = "tool_failed"
    """Why the call ended, as the ledger records it."""
    effects: str | None = None
    """`unknown` where the tool was stopped half way, and may have done some of its work."""
    extra: Any = None
    """What there is beside the error, as a `model.call.ResultExtra`: another MCP server's tool may fail with content.
    The runner sets it."""

    def __init__(
        self,
        message: str,
        *,
        developer_message: str | None = None,
        can_retry: bool | None = None,
        retry_after_ms: int | None = None,
        additional_prompt_content: str | None = None,
    ) -> None:
        super().__init__(message, developer_message=developer_message)
        self.can_retry = can_retry
        self.retry_after_ms = retry_after_ms
        self.additional_prompt_content = additional_prompt_content

    def members(self) -> dict[str, Any]:
        """The error's members as the wires have them; those that were not set are left out."""
        members = {
            "message": self.message,
            "developer_message": self.developer_message,
            "can_retry": self.can_retry,
            "additional_prompt_content": self.additional_prompt_content,
            "retry_after_ms": self.retry_after_ms,
        }
        return {name: value for name, value in members.items() if value is not None}

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> "ToolError":
        """The error that `members` was made from."""
        return ToolError(
            members.get("message", "The tool failed"),
            developer_message=members.get("developer_message"),
            can_retry=members.get("can_retry"),
            retry_after_ms=members.get("retry_after_ms"),
            additional_prompt_content=members.get("additional_prompt_content"),
        )


def scrub_error(scrubber: Scrubber, error: ToolError) -> ToolError:
    """The error without its call's secrets and tokens: the same one, changed in place, so that no handler further up
    still sees it as it was."""
    error.message = scrubber.text(error.message)
    if error.developer_message is not None:
        error.developer_message = scrubber.text(error.developer_message)
    if error.additional_prompt_content is not None:
        error.additional_prompt_content = scrubber.text(error.additional_prompt_content)
    if scrubber.text(str(error.retry_after_ms)) != str(error.retry_after_ms):
        error.retry_after_ms = None
    error.args = tuple(map(scrubber.value, error.args))
    return error


class Declined(ToolError):
    """A person said no. In a tool: they declined its question (`action` is `"decline"`) or closed it (`"cancel"`), and
    the tool may catch this. In a program: the `confirm` of its `Client` did, and nothing was sent."""

    def __init__(self, message: str, *, action: str = "decline", developer_message: str | None = None) -> None:
        super().__init__(message, developer_message=developer_message, can_retry=False)
        self.action = action


class ToolTimedOut(ToolError):
    """The tool ran longer than its time limit."""

    code = "timed_out"


class ToolCancelled(ToolError):
    """The call was cancelled while its tool ran. A coroutine or a process was stopped; a thread cannot be."""

    code = "cancelled"
    effects = "unknown"


class StillRunning(ToolError):
    """An answer to a client that should wait no longer, and no failure: the tool is still running."""


class OutcomeUnknown(ToolError):
    """The tool was started, its attempt was lost, and nobody can say whether it did its work."""

    code = "outcome_unknown"
    effects = "unknown"


# --- whoever runs the server must act ------------------------------------------------------------


class ServerError(ToolyardError):
    """The request was fine and this server cannot take it, or nobody answered: whoever runs the server must act."""


class Busy(ServerError):
    """The server cannot take the request now. It may be sent again after `retry_after_ms`, which `Client` does by
    itself a few times."""

    def __init__(self, message: str, *, retry_after_ms: int, developer_message: str | None = None) -> None:
        super().__init__(message, developer_message=developer_message)
        self.retry_after_ms = retry_after_ms


class LimitReached(Busy):
    """The caller has used up one of its limits, for now."""


class Unavailable(Busy):
    """The server is starting, stopping, or cannot reach something that it needs, such as its ledger."""


class InternalError(ServerError):
    """A defect of toolyard itself; the log has the traceback."""


# --- whoever starts it must act ------------------------------------------------------------------


class SourcePlace(Struct, frozen=True):
    """A line of an author's or operator's file, which an error points to."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class SetupError(ToolyardError):
    """The server cannot start as it is set up: one sentence, and the line of the file that is to blame, if any."""

    def __init__(self, message: str, place: SourcePlace | None = None) -> None:
        super().__init__(message)
        self.place = place

    def __str__(self) -> str:
        return self.message if self.place is None else f"{self.place}: {self.message}"


class DefinitionError(SetupError):
    """A tool, toolkit or app that cannot be served as it is written."""


class SettingsError(SetupError):
    """A setting that does not exist, or has a value that it cannot have."""
