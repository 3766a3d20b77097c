"""One tree of errors, divided by who must act.

`RequestError` the caller, `ToolError` the tool's author, `ServerError` whoever runs the server,
`SetupError` whoever starts it. `message` is for people and models; `developer_message` is for logs
and must not reach a model. None of them knows a status code: each wire has one total table from
error to answer.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ..text.scrubber import Scrubber


class ToolyardError(Exception):
    """Base of everything toolyard raises on purpose."""

    def __init__(self, message: str, *, developer_message: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.developer_message = developer_message


# --- the caller must act -------------------------------------------------------------------------


class RequestError(ToolyardError):
    """The request cannot be taken as it is."""


class MalformedRequest(RequestError):
    """Not JSON, a wrong member, a wrong type: the request never became a call."""


class UnsupportedProtocol(RequestError):
    """A protocol version or `$schema` that this server does not speak."""


class NotAuthenticated(RequestError):
    """No credentials, or none that are valid. `challenge` says where to get some, as HTTP has it."""

    challenge = "Bearer"


class Forbidden(RequestError):
    """The caller is known, and its credentials are not for this: they lack `scopes`, if those would help."""

    def __init__(self, message: str, scopes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.scopes = scopes
        self.challenge = f'Bearer error="insufficient_scope", scope="{" ".join(scopes)}"' if scopes else "Bearer"


class Misdirected(RequestError):
    """The request is for a name that this server does not have."""


class ForeignPage(RequestError):
    """A page in a browser sent it that may not."""


class KeyConflict(RequestError):
    """The `call_id` was used for another call."""


class Refused(RequestError):
    """What was said of a call that others work on does not count: it has ended, or somebody else holds it."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class ToolNotFound(RequestError):
    """No such tool or version, or not a tool id at all."""


class Problem(Struct, frozen=True):
    """What is wrong with one parameter, as a sentence a model can act on."""

    path: str
    sentence: str
    got: Any = None
    missing: bool = False


def path_of(parts: Iterable[str | int]) -> str:
    """`address.city`, `items[2].id`."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


class InvalidInput(RequestError):
    """The input does not fit the tool's input schema."""

    def __init__(self, problems: tuple[Problem, ...], message: str = "Some input parameters are invalid") -> None:
        super().__init__(message)
        self.problems = problems


class Challenge(Struct, frozen=True):
    """An authorization somebody has to complete at `url` before the tool can be called."""

    id: str
    url: str
    check_url: str
    provider: str = ""
    code: str = ""
    """What the page asks for. No wire has a member for it: it is in the error's message. Empty where the page has its
    reader sign in instead."""
    can_come: bool = False
    """Whether it can be completed here."""


class Missing(Struct, frozen=True):
    """Everything a call lacks, at once."""

    authorization: tuple[Challenge, ...] = ()
    secrets: tuple[str, ...] = ()
    user_id: bool = False
    approval: bool = False
    """Whether the authorization is a person's yes to this call."""

    @property
    def can_come(self) -> bool:
        """Whether a user's accounts are all that is missing, and each can be connected here."""
        others = self.secrets or self.user_id or self.approval
        return bool(self.authorization) and not others and all(each.can_come for each in self.authorization)


class MissingRequirements(RequestError):
    """The tool needs an authorization, a secret or a user id that nobody gave."""

    def __init__(self, message: str, missing: Missing, *, developer_message: str) -> None:
        super().__init__(message, developer_message=developer_message)
        self.missing = missing

    def __str__(self) -> str:
        """With the addresses a person has to open."""
        return "; ".join([self.message, *(f"open {challenge.url}" for challenge in self.missing.authorization)])


def nobody_can_approve(tool_name: str, why: str) -> MissingRequirements:
    """Of a call that needs a yes where nobody can give it. `why` also says what to do."""
    message = f"{tool_name} needs approval by a person, and nobody can give it here: {why}"
    return MissingRequirements(message, Missing(approval=True), developer_message="the tool was not run")


class PathNotFound(RequestError):
    """Nothing is served at this path."""


class MethodNotAllowed(RequestError):
    """The path exists, with other methods."""

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class BodyTooLarge(RequestError):
    """The body is larger than `max_body_bytes`."""


class UnsupportedMediaType(RequestError):
    """The body is not `application/json`."""


# --- the tool's author must act ------------------------------------------------------------------


class ToolError(ToolyardError):
    """A tool failing on purpose. Raise it from a tool; everything in it reaches the caller."""

    code = "tool_failed"
    effects: str | None = None
    """`unknown` where the tool was stopped half way."""

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
        """What it says, as JSON has it; what was not said is left out."""
        said = {
            "message": self.message,
            "developer_message": self.developer_message,
            "can_retry": self.can_retry,
            "additional_prompt_content": self.additional_prompt_content,
            "retry_after_ms": self.retry_after_ms,
        }
        return {name: value for name, value in said.items() if value is not None}

    @classmethod
    def from_members(cls, said: Mapping[str, Any]) -> "ToolError":
        """The other direction."""
        return ToolError(
            said.get("message", "The tool failed"),
            developer_message=said.get("developer_message"),
            can_retry=said.get("can_retry"),
            retry_after_ms=said.get("retry_after_ms"),
            additional_prompt_content=said.get("additional_prompt_content"),
        )


def scrub_error(scrubber: Scrubber, error: ToolError) -> ToolError:
    """The same error, changed in place so that nobody can still see it as it was."""
    error.message = scrubber.text(error.message)
    if error.developer_message is not None:
        error.developer_message = scrubber.text(error.developer_message)
    if error.additional_prompt_content is not None:
        error.additional_prompt_content = scrubber.text(error.additional_prompt_content)
    error.args = tuple(map(scrubber.value, error.args))
    return error


class Declined(ToolError):
    """The person did not answer a tool's question: `action` is "decline" or "cancel". A tool may catch it."""

    def __init__(self, message: str, *, action: str = "decline", developer_message: str | None = None) -> None:
        super().__init__(message, developer_message=developer_message, can_retry=False)
        self.action = action


class ToolTimedOut(ToolError):
    """The tool ran longer than it may."""

    code = "timed_out"


class ToolCancelled(ToolError):
    """Nobody wanted the result any more, and the tool was stopped, as far as it could be."""

    code = "cancelled"
    effects = "unknown"


class StillRunning(ToolError):
    """No failure: the tool goes on, and whoever asked should not wait any longer."""


class OutcomeUnknown(ToolError):
    """The tool was started, and whether it was done nobody can say."""

    code = "outcome_unknown"
    effects = "unknown"


# --- whoever runs the server must act ------------------------------------------------------------


class ServerError(ToolyardError):
    """The request was fine; this server cannot take it."""


class Busy(ServerError):
    """Too much at once: come back after `retry_after_ms`."""

    def __init__(self, message: str, *, retry_after_ms: int, developer_message: str | None = None) -> None:
        super().__init__(message, developer_message=developer_message)
        self.retry_after_ms = retry_after_ms


class LimitReached(Busy):
    """A caller has had as much as it may, for now."""


class Unavailable(Busy):
    """Starting, stopping, or without something it needs."""


class InternalError(ServerError):
    """A defect of ours."""


# --- whoever starts it must act ------------------------------------------------------------------


class SourcePlace(Struct, frozen=True):
    """A line of somebody's file."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class SetupError(ToolyardError):
    """The server cannot start: one sentence, and the place where it went wrong."""

    def __init__(self, message: str, place: SourcePlace | None = None) -> None:
        super().__init__(message)
        self.place = place

    def __str__(self) -> str:
        return self.message if self.place is None else f"{self.place}: {self.message}"


class DefinitionError(SetupError):
    """A tool, toolkit or app that cannot be served as it is written."""


class SettingsError(SetupError):
    """A setting that is unknown or has a value it cannot have."""
