"""What it costs to know who calls, and what they may."""

import time
from dataclasses import replace

from bench import contenders
from bench.contenders import HERE
from bench.contest import Loaded, contest
from bench.measure import Effort
from bench.report import Of, Row, bar
from bench.servers import Exchange

from toolyard.lazy import load
from toolyard.server.settings.table import load_settings

SETTINGS = "token.toml"


def with_token(plain: Exchange, subject: str = "bench") -> Exchange:
    """The same from somebody with a JWT, which is good for longer than any scenario."""
    secret = load_settings({}, {}, str(HERE / "tools" / SETTINGS)).jwt_secret

    def bearer(port: int) -> dict[str, str]:
        made = load("signed_token")({"sub": subject, "exp": int(time.time()) + 840}, secret)
        return {"Authorization": f"Bearer {made}"}

    return replace(plain, headers=bearer)


def access(effort: Effort) -> list[Row]:
    """The same server with rules and without."""
    free = contenders.toolyard_of_many("toolyard, 1,000 tools")
    ruled = contenders.toolyard(
        "many.py", "Bench.Tool0500", "toolyard, 1,000 tools behind rules", settings="ruled.toml"
    )
    loaded = [Loaded(free, free.call), Loaded(ruled, ruled.call, bar(Of.CPU, "<=", 1.05))]
    return contest("call behind access rules", loaded, effort)
