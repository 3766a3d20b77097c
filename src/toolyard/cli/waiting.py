"""A call for which a person has to do something first: the link is shown, and the call made again once it is done."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from ..client.client import CallOptions, Client
from ..model.call import Outcome
from ..model.errors import Challenge, MissingRequirements

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
            what = "approval" if missing.approval else "authorization"
            for each in new:
                _wait(client, each, f"{error.message}\nwaiting for {what}: {each.url}\n")


def _wait(client: Client, challenge: Challenge, said: str) -> None:
    """Says it only where there is something to wait for."""
    while client.challenge_status(challenge) == "pending":
        sys.stderr.write(said)
        sys.stderr.flush()
        said = ""
        time.sleep(LOOK_AGAIN_S)
