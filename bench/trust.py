"""What it costs to know who calls, and what they may."""

import time
from dataclasses import replace

from bench import contenders
from bench.contenders import HERE, flat
from bench.contest import contest, on_floor
from bench.measure import Effort
from bench.report import Bar, Row

from toolyard.lazy import load
from toolyard.server.settings.table import load_settings


def token(effort: Effort) -> list[Row]:
    """With a bearer JWT, every call recorded and in the audit log; the floor does none of it."""
    plain = flat("Bench.Add")
    secret = load_settings({}, {}, str(HERE / "tools" / "token.toml")).jwt_secret

    def bearer(port: int) -> dict[str, str]:
        """Good for longer than any round."""
        made = load("signed_token")({"sub": "bench", "exp": int(time.time()) + 840}, secret)
        return {"Authorization": f"Bearer {made}"}

    call = replace(plain, headers=bearer)
    ours = replace(contenders.toolyard(name="toolyard, bearer JWT, recorded", settings="token.toml"), call=call)
    return contest("OXP call with a JWT, recorded", [on_floor(), (ours, call)], effort, Bar(">=", 0.6))


def access(effort: Effort) -> list[Row]:
    """The same server with rules and without."""
    free = contenders.toolyard_of_many("toolyard, 1,000 tools")
    ruled = contenders.toolyard(
        "many.py", "Bench.Tool0500", "toolyard, 1,000 tools behind rules", settings="ruled.toml"
    )
    return contest("call behind access rules", [(free, free.call), (ruled, ruled.call)], effort, Bar(">=", 0.95))
