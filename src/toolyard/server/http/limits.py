"""Everything that limits a server, made of its settings, and what holds where they say nothing: a server that only this
machine can reach has no limits, one that others can reach has some.
"""

from collections.abc import Callable, Sequence

from ...text.addresses import is_loopback
from ...trust.limits.credential_failures import CredentialFailures
from ...trust.limits.limits import DEFAULTS, Limit, Limiter
from ...trust.limits.quotas import quotas_of
from ..settings.table import Settings
from .connection_limits import ConnectionLimits, Proxies
from .streams import StreamCount

# What holds where the settings say nothing and others can reach the server. `server/settings/table.py` tells operators.
FAILURES_PER_MINUTE = 60
CONNECTIONS_PER_ADDRESS = 256
STREAMS_PER_CALLER = 32


class ServerLimits:
    """The limits of a server, each as the part that holds it: calls, quotas, wrong credentials, streams and
    connections. `clock` counts seconds and is never set."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        is_open = not is_loopback(settings.host)
        given = settings.limits if settings.limits is not None else list(DEFAULTS) if is_open else []
        self.limits: Sequence[Limit] = given
        self._first = 0
        self.limiter = Limiter(given, clock) if given else None
        # Whoever sets `limits = []` wants none, and that goes for wrong credentials as well.
        wants_failures = is_open and (settings.limits is None or bool(settings.limits))
        most_failures = _or(settings.auth_failures_per_minute, FAILURES_PER_MINUTE if wants_failures else 0)
        self.quotas = quotas_of(settings.quotas, is_away=is_open)
        self.failures = CredentialFailures(most_failures, clock) if most_failures else None
        self.proxies = Proxies(settings.trusted_proxies)
        self.streams = StreamCount(_or(settings.max_streams_per_caller, STREAMS_PER_CALLER if is_open else None))
        per_address = _or(settings.max_connections_per_address, CONNECTIONS_PER_ADDRESS if is_open else None)
        self.connections = ConnectionLimits(settings.max_connections, per_address, self.proxies.is_trusted)

    def adopt(self, other: "ServerLimits") -> int:
        """Follows what other settings say, of what can change while a server runs; what was counted still counts. The
        number of the first limit, as the limiter knows it."""
        self.proxies.trusted, self.streams.most = other.proxies.trusted, other.streams.most
        self.connections.most = other.connections.most
        self.connections.most_per_address = other.connections.most_per_address
        if list(self.limits) == list(other.limits):
            return self._first
        self.limits = other.limits
        if self.limiter is None:
            self.limiter = other.limiter
        else:
            self._first = self.limiter.adopt(other.limits)
        return self._first

    @property
    def is_by_address(self) -> bool:
        """Whether a limit depends on where a call comes from."""
        return any("address" in limit.per for limit in self.limits)


def _or(given: int | None, otherwise: int | None) -> int | None:
    """What was set, also where that is 0."""
    return otherwise if given is None else given
