"""Calls that are refused because their user has not connected an account yet, and are made again and again until then.

The first one is answered at once: it has the link. Whoever makes the same call again while nobody has used that link
has nothing new to say, so it is held until the account is there, or for as long as one waits for a tool: clients count
their tries, and people do not connect an account in seconds. A node remembers whom it has answered.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from ..model.call import CallTool, Outcome
from ..model.caller import Caller
from ..model.channel import Channel
from ..model.errors import Missing, MissingRequirements
from ..model.sealed import KIND
from ..store.contract import Store
from ..store.hints import Topic
from ..trust.requirements.challenges import KEEP_S, STATUS
from .wait import Wait, holding

MOST = 10_000
Which = tuple[str, str, str, str | None, bytes]
"""Whose call it is, and what it asks for."""


class AccountRetries:
    """Holds a call that is made again while the link that its caller was given is not used yet. `wait_s`: for how
    long."""

    def __init__(self, store: Store, wait_s: float, monotonic: Callable[[], float]) -> None:
        self._store, self._wait_s, self._monotonic = store, wait_s, monotonic
        self._told: OrderedDict[Which, tuple[float, tuple[str, ...]]] = OrderedDict()
        """Until when the links are good that somebody was given for a call, and their challenges' ids."""

    async def call(
        self,
        make: Callable[[], Awaitable[Outcome]],
        has_all: Callable[[], Awaitable[bool]],
        which: Which,
        channel: Channel,
    ) -> Outcome:
        """`make` makes the call; `has_all` says whether the accounts that it needs are there."""
        try:
            return await make()
        except MissingRequirements as error:
            if not error.missing.can_come:
                raise
            challenges = self._to_be_used(which)
            self._remember(which, error.missing)
            if not challenges or not await self._came(challenges, has_all, Wait(self._wait_s, channel)):
                raise
        return await make()

    async def _came(self, challenges: tuple[str, ...], has_all: Callable[[], Awaitable[bool]], wait: Wait) -> bool:
        """Whether the account did, or a link was used in vain: then there is another."""

        async def came() -> bool:
            used = [await self._store.note(STATUS, "", "", id) for id in challenges]
            return any(used) or await has_all()

        topics = [(Topic.KEPT, KIND), *((Topic.DECIDED, id) for id in challenges)]
        return await holding(self._store, topics, wait, came)

    def _to_be_used(self, which: Which) -> tuple[str, ...]:
        until, challenges = self._told.pop(which, (0.0, ()))
        return challenges if self._monotonic() < until else ()

    def _remember(self, which: Which, missing: Missing) -> None:
        self._told[which] = self._monotonic() + KEEP_S, tuple(each.id for each in missing.authorization)
        if len(self._told) > MOST:
            self._told.popitem(last=False)


def which_call(command: CallTool, caller: Caller, fingerprint: bytes) -> Which:
    return caller.tenant, caller.subject, command.family, command.call_id, fingerprint
