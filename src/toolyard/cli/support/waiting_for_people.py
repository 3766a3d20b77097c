"""Makes a call for the person at a terminal, who is told what is waited for.

For some calls somebody has to approve or sign in first: the link is shown, and the call is made again once that is
done. It may take long, and the server may restart meanwhile. The call is in its ledger, so it is asked for again, with
growing pauses, until the server has been away for too long.
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
"""A shorter pause is not mentioned."""


def retried(client: Client, tool: str, given: Mapping[str, Any], options: CallOptions) -> Outcome:
    """Makes the call, and again where the same call may succeed later. Each pause is mentioned."""

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
    """Whether the same call may succeed later. A tool that adds content for a model's next attempt wants another
    input."""
    return error.can_retry is True and error.additional_prompt_content is None


def outcome_of(client: Client, tool: str, given: Mapping[str, Any], options: CallOptions) -> Outcome:
    """The call's outcome, once everybody who has to has approved or signed in. Raises what the call raises, also
    MissingRequirements where no person can help."""
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
            statuses = [_wait(client, each, f"{said}: {each.url}\n", options) for each in new]
            if "failed" in statuses and not missing.approval:
                raise  # another call would only ask again


def _wait(client: Client, challenge: Challenge, said: str, options: CallOptions) -> str:
    """How a challenge ended. `said` is shown once, and only where there is something to wait for."""
    while (status := _patiently(lambda: client.challenge_status(challenge), options)) == "pending":
        _say(said)
        said = ""
        time.sleep(LOOK_AGAIN_S)
    return status


def _patiently(ask: Callable[[], T], options: CallOptions) -> T:
    """Asks, and again where nobody answers. Raises the last error once the server has been away for too long."""
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
            retry_after_s = error.retry_after_ms / 1000 if isinstance(error, Busy) else 0.0
        time.sleep(max(pause, retry_after_s))
        pause = min(pause * 2, LONGEST_PAUSE_S)


def _say(words: str) -> None:
    complain(words)
    sys.stderr.flush()
