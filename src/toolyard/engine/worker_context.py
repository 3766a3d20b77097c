"""What workers are given with the calls that they claim, and what they were given: it must not come back in what they
say of them.

What is kept here for a call is filled in when the call is claimed, so that it is fresh. It is noted then, sealed, for
as long as the call may take: the worker may answer to another node, and after it was renewed.
"""

from collections import OrderedDict
from collections.abc import Callable

import msgspec
from msgspec import Struct

from ..catalogue import Catalogue
from ..model.call import CallContext
from ..model.errors import MissingRequirements, ToolNotFound
from ..model.json_value import decode_as
from ..model.record import CallName, CallRecord
from ..model.tool import Tool
from ..model.writes import Claimant
from ..store.contract import Store
from ..store.values import Note
from ..text.scrubber import Scrubber
from ..trust.sealing.ring import KeyRing
from .engine import Engine
from .rebuild import caller_of, command_of, context_of, opened

KIND = PURPOSE = "given"
MOST = 10_000
"""Of which it is known by heart whether they were given anything; others are looked up."""
_encode = msgspec.json.Encoder().encode


class WorkerContext(Struct, frozen=True):
    """What an attempt was given: what its caller brought, and what was kept here for it, both sealed."""

    attempt: int
    call_id: str
    brought: bytes | None
    kept: bytes | None
    name: CallName


class WorkerContexts:
    """Remembers which calls were given something; opens it for each use anew. `keep_s`: how long a call may take.
    `may_be_given`: whether somebody may have what is kept here for a tool."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        engine: Engine,
        ring: KeyRing,
        keep_s: float,
        may_be_given: Callable[[Claimant, Tool], bool],
    ) -> None:
        self._store, self._catalogue, self._engine, self._ring = store, catalogue, engine, ring
        self._keep_s, self._may_be_given = keep_s, may_be_given
        self._calls: OrderedDict[tuple[str, str], WorkerContext] = OrderedDict()
        """By session and request."""

    async def context_of(self, call: CallRecord, who: Claimant) -> CallContext | None:
        """Of a call that a worker has claimed; None where what is kept for it is not for this worker. Raises
        BrokenSeal; MissingRequirements and Unavailable where it lacks what is kept here; Forbidden where its caller may
        not speak for the user that it names."""
        brought = context_of(call, self._ring)
        if not self.may_be_kept(call):
            await self._note(call, brought, brought)
            return brought
        tool = self._tool_of(call)
        if tool is None:  # its worker is about to go
            await self._note(call, brought, brought)
            return brought
        if not self._may_be_given(who, tool):
            return None
        try:
            context = await self._engine.context(tool, command_of(call, brought), caller_of(call, brought, tool))
        except MissingRequirements:
            if tool.gets_what_is_kept:
                raise
            return None  # somebody whom nobody trusts offers the tool, too, since the call was made: that ends no call
        await self._note(call, brought, context)
        return context

    async def scrubber(self, who: Claimant, session: str, request: str, attempt: int | None) -> Scrubber | None:
        """For what is said of that request, whoever gave it out. Raises BrokenSeal."""
        gift = self._calls.get((session, request))
        if gift is None or gift.attempt != attempt:
            found = await self._store.request(who, session, request)
            return None if found is None else await self.scrubber_of(found)
        return self._scrubber(gift)

    async def scrubber_of(self, call: CallRecord) -> Scrubber | None:
        """By what was given, whatever the tool declares by now: its worker may have offered it otherwise since."""
        gift = self._calls.get((call.session or "", call.request or ""))
        if gift is None or gift.attempt != call.attempt:
            is_workers = call.queue == "worker"
            kept = await self._store.note(*_place(call.key.tenant, call.seq)) if is_workers else None
            gift = self._remember(call, kept)
        return self._scrubber(gift)

    async def forget(self, session: str, request: str) -> None:
        """It has ended: nothing more will be said of it."""
        gift = self._calls.pop((session, request), None)
        if gift is not None and gift.kept is not None:
            await self._store.drop_note(*_place(gift.name.key.tenant, gift.name.seq))

    def may_be_kept(self, call: CallRecord) -> bool:
        """Whether the server gives it anything of its own."""
        if call.queue != "worker":
            return False
        tool = self._tool_of(call)
        return tool is None or bool(tool.requirements)

    def _tool_of(self, call: CallRecord) -> Tool | None:
        """The very tool that it was made to, if that is still there."""
        try:
            tool = self._catalogue.resolve(call.reference)
        except ToolNotFound:
            return None
        return tool if call.is_of(tool) else None

    async def _note(self, call: CallRecord, brought: CallContext, context: CallContext) -> None:
        """Beside what earlier attempts were given: whoever had it may still say it, in this attempt's name, too."""
        tokens = {id: token for id, token in context.tokens.items() if id not in brought.tokens}
        secrets = {id: value for id, value in context.secrets.items() if id not in brought.secrets}
        kept = await self._store.note(*_place(call.key.tenant, call.seq)) if call.attempt > 1 else None
        if tokens or secrets:
            contexts = [*self._opened(kept, call.name), CallContext(tokens, secrets)]
            kept = self._ring.seal(PURPOSE, _encode(contexts), call.name.encoded())
            note = Note(*_place(call.key.tenant, call.seq), kept, call.user, call.seq)
            await self._store.put_note(note, self._keep_s)
        self._remember(call, kept)

    def _scrubber(self, gift: WorkerContext) -> Scrubber | None:
        contexts: list[CallContext] = [] if gift.brought is None else [opened(gift.call_id, gift.brought, self._ring)]
        contexts += self._opened(gift.kept, gift.name)
        given = [each for context in contexts for each in (*context.tokens.items(), *context.secrets.items())]
        return Scrubber(given) if given else None

    def _opened(self, kept: bytes | None, name: CallName) -> list[CallContext]:
        """What was given of what is kept here, by attempts. Raises BrokenSeal."""
        if kept is None:
            return []
        return decode_as(self._ring.unseal(PURPOSE, kept, name.encoded()), list[CallContext])

    def _remember(self, call: CallRecord, kept: bytes | None) -> WorkerContext:
        gift = WorkerContext(call.attempt, call.key.call_id, call.sealed, kept, call.name)
        self._calls[call.session or "", call.request or ""] = gift
        if len(self._calls) > MOST:
            self._calls.popitem(last=False)
        return gift


def _place(tenant: str, seq: int) -> tuple[str, str, str, str]:
    return KIND, tenant, "", str(seq)
