"""The keys that an issuer publishes, remembered as long as they may be used without asking again.

Somebody who makes up key ids must not be able to make us ask the issuer again and again, and an issuer that is away for
a while must not lock out whom it has vouched for. So: keys are asked for again when they are older than ten minutes or
a token names one that is not known, at most once in ten seconds, and once for all who wait. Where no answer comes, the
known keys serve for an hour after the last good answer, and then nobody is believed any more.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence

from ...model.errors import Unavailable
from .jwk import PublicKey, choose
from .jwt import ParsedToken, refused

REFRESH_S = 600.0
LONGEST_S = 3600.0
BETWEEN_S = 10.0
_log = logging.getLogger("toolyard.trust")


class NoAnswer(Exception):
    """An issuer or a provider did not answer, or not as it should; the text says why, for whoever runs the server."""


class PublishedKeys:
    """The keys of one issuer, as of the last time that it gave them. `ask` fetches them, or raises NoAnswer."""

    def __init__(
        self, issuer: str, ask: Callable[[], Awaitable[Sequence[PublicKey]]], now: Callable[[], float]
    ) -> None:
        self._issuer, self._ask, self._now = issuer, ask, now
        self._keys: Sequence[PublicKey] = ()
        self._answered = self._asked = -math.inf
        self._problem: str | None = None
        self._asking: asyncio.Task[None] | None = None

    def find(self, token: ParsedToken) -> PublicKey | None:
        """The key of a token; None where `refresh` has to come first. Raises NotAuthenticated where the issuer has no
        such key, and Unavailable where nobody can tell."""
        key = choose(self._keys, token) if self._is_younger(self._answered, LONGEST_S) else None
        if key is not None and self._is_younger(self._answered, REFRESH_S):
            return key
        # Known keys that are older serve while the issuer is away, but it is asked again every ten seconds.
        if not self._is_younger(self._asked, BETWEEN_S) or (key is None and self._is_asking):
            return None
        if key is None:
            self._refuse(token)
        return key

    async def refresh(self) -> None:
        """Asks the issuer, or waits for the answer that others wait for. It never fails: `find` says what came of
        it."""
        if self._asking is None or self._asking.done():
            self._asked = self._now()
            self._asking = asyncio.ensure_future(self._load())
        await asyncio.shield(self._asking)  # one client that leaves must not take the answer from all others

    async def _load(self) -> None:
        try:
            self._keys, self._problem = await self._ask(), None
            self._answered = self._now()
        except NoAnswer as problem:
            self._problem = str(problem)
            _log.warning("the keys of %s cannot be had: %s", self._issuer, problem)
        finally:
            self._asked = self._now()  # counted from the answer: a slow issuer is asked less often

    @property
    def _is_asking(self) -> bool:
        return self._asking is not None and not self._asking.done()

    def _is_younger(self, moment: float, seconds: float) -> bool:
        """Whether a moment is less than so many seconds ago. One that lies ahead, after the clock was set back, is
        not."""
        return 0 <= self._now() - moment < seconds

    def _refuse(self, token: ParsedToken) -> None:
        """Raises what there is to say of a token whose key is not there."""
        if self._problem is not None:
            raise Unavailable(
                "Credentials cannot be checked at the moment",
                retry_after_ms=int(BETWEEN_S * 1000),
                developer_message=f"the keys of {self._issuer} cannot be had: {self._problem}",
            )
        if token.kid is None:
            raise refused(f"the token names no key (kid), and {self._issuer} has not exactly one for {token.alg}")
        raise refused(f"{self._issuer} has no key {token.kid!r}")
