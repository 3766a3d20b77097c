"""A call for which a person has to do something first: the link is shown, and the call made again once it is done."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from ..client.client import CallOptions, Client
from ..model.call import Outcome
from ..model.errors import Challenge, MissingRequirements
from .screen import complain

LOOK_AGAIN_S = 1.0


def outcome_of(client: Client, tool: str, given: Mapping[str, Any], options: CallOptions) -> Outcome:
    """Raises what the call raises, also MissingRequirements where no person can help."""
    known: set[str] = set()
    while True:
        try:
            return client.outcome(tool, given, **options)
        except MissingRequirements as error:
            missing = error.missing
            new = [each for each in missing.authorization if each.id not in known and each.check_url]
            if not new or missing.secrets or missing.user_id:
                raise
            known.update(each.id for each in new)
            said = "waiting for approval" if missing.approval else f"{error.message}\nwaiting for authorization"
            standings = [_wait(client, each, f"{said}: {each.url}\n") for each in new]
            if "failed" in standings and not missing.approval:
                raise  # another call would only ask again


def _wait(client: Client, challenge: Challenge, said: str) -> str:
    """How it ended. Says what it waits for only where there is something to wait for."""
    while (standing := client.challenge_status(challenge)) == "pending":
        complain(said)
        sys.stderr.flush()
        said = ""
        time.sleep(LOOK_AGAIN_S)
    return standing
