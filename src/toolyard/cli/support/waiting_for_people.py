"""A call at a terminal: whoever sits there is told what is waited for, and for how long.

For some calls a person has to do something first: the link is shown, and the call made again once it is done.
That may take long, and a server may be started anew meanwhile. The call is in its ledger, so it is asked for again,
with growing pauses, until the server has been away for too long.
"""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ...client.client import CallOptions, Client
from ...client.flows import Flow, Pause, tried
from ...client.transport import NotVerified, Unreachable
from ...model.call import Outcome
from ...model.errors import Busy, Challenge, MissingRequirements, ToolError
from .screen import complain

T = TypeVar("T")
LOOK_AGAIN_S = 1.0
LONGEST_PAUSE_S = 30.0
GIVE_UP_S = 600.0
"""How long a server may be away."""
RETRIES = 2
UNSAID_S = 1.0
"""Nobody wonders about a pause that is shorter."""


def retried(client: Client, tool: str, given: Mapping[str, Any], options: CallOptions) -> Outcome:
    """The call, and again where the same call may do better; not without a word."""

    def once() -> Flow:
        yield from ()
        return client.outcome(tool, given, **options)

    flow = tried(once, RETRIES, _may_help)
    while True:
        try:
            step = next(flow)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        assert isinstance(step, Pause)  # noqa: S101
        if step.seconds >= UNSAID_S:
            _say(f"{step.reason}; trying again in {step.seconds:g} s\n")
        time.sleep(step.seconds)


def _may_help(error: ToolError) -> bool:
    """What a tool adds for a model's next attempt says that it wants another input."""
    return error.can_retry is True and error.additional_prompt_content is None


def outcome_of(client: Client, tool: str, given: Mapping[str, Any], options: CallOptions) -> Outcome:
    """Raises what the call raises, also MissingRequirements where no person can help."""
    known: set[str] = set()

    def ask() -> Outcome:
        return retried(client, tool, given, options)

    while True:
        try:
            return _patiently(ask, options) if known else ask()
        except MissingRequirements as error:
            missing = error.missing
            new = [each for each in missing.authorization if each.id not in known and each.check_url]
            if not new or missing.secrets or missing.user_id:
                raise
            known.update(each.id for each in new)
            said = "waiting for approval" if missing.approval else f"{error.message}\nwaiting for authorization"
            standings = [_wait(client, each, f"{said}: {each.url}\n", options) for each in new]
            if "failed" in standings and not missing.approval:
                raise  # another call would only ask again


def _wait(client: Client, challenge: Challenge, said: str, options: CallOptions) -> str:
    """How it ended. Says what it waits for only where there is something to wait for."""
    while (standing := _patiently(lambda: client.challenge_status(challenge), options)) == "pending":
        _say(said)
        said = ""
        time.sleep(LOOK_AGAIN_S)
    return standing


def _patiently(ask: Callable[[], T], options: CallOptions) -> T:
    """Asks again where nobody answers. Raises what it raised last, once that has taken too long."""
    pause, gone_since = LOOK_AGAIN_S, None
    while True:
        try:
            return ask()
        except NotVerified:
            raise
        except (Unreachable, Busy) as error:
            now = time.monotonic()
            if gone_since is None:
                gone_since = now
                _say(f"{error.message.partition(';')[0]}; trying again\n")
            elif now - gone_since > GIVE_UP_S:
                _say(f"Not waited for any longer; look for it with: toolyard show {options['call_id']}\n")
                raise
            told_s = error.retry_after_ms / 1000 if isinstance(error, Busy) else 0.0
        time.sleep(max(pause, told_s))
        pause = min(pause * 2, LONGEST_PAUSE_S)


def _say(words: str) -> None:
    complain(words)
    sys.stderr.flush()
