"""Calls that wait for a user's account to be connected: they go on as soon as it is, on whichever node that is seen."""

from ..catalogue import Catalogue
from ..model.caller import Caller
from ..model.errors import Challenge, MissingRequirements, ToolyardError
from ..model.lifecycle import State
from ..model.record import CallRecord
from ..model.running import Question, QuietChannel
from ..model.standing import Decision
from ..store.contract import Filter, Store
from ..trust.approvals import AUTHORIZATION
from .engine import Engine
from .recorded import Work
from .recovery import Recovery

AT_ONCE = 100


class Awaited:
    """Looks whether what they wait for has come. `wait_s` is for how long they then wait for the next thing."""

    def __init__(self, store: Store, catalogue: Catalogue, engine: Engine, recovery: Recovery, wait_s: float) -> None:
        self._store, self._catalogue, self._engine, self._recovery = store, catalogue, engine, recovery
        self._wait_s = wait_s

    async def look(self) -> None:
        """Once, at all of them."""
        wanted = Filter(None, state=State.PENDING, waiting_for=AUTHORIZATION, limit=AT_ONCE)
        for listed in await self._store.listed(wanted):
            call = await self._store.row(listed.seq)
            if call is not None and call.waiting_for == AUTHORIZATION:
                await self._let_go(call)

    async def questions(self, call: CallRecord, looks: Caller) -> list[Question]:
        """Where its user is sent, each time that its caller looks. What a person must show there depends on how
        it is known who looks, and not on how that was when the call was made."""
        try:
            await self._ready(call, looks.issuer)
        except MissingRequirements as error:
            return [
                Question(each.provider or each.id, "url", asked_for(call.tool, each) or error.message, url=each.url)
                for each in error.missing.authorization
            ]
        except ToolyardError:
            return []
        return []

    async def _let_go(self, call: CallRecord) -> None:
        try:
            work = await self._ready(call)
        except ToolyardError:
            return  # it still waits, and ends when it has waited too long
        work.is_known()  # it counts once it runs
        await self._store.decide(Decision(call.seq, AUTHORIZATION, queue_s=self._wait_s, then=work.new.waiting_for))

    async def _ready(self, call: CallRecord, issuer: str | None = None) -> Work:
        """Raises MissingRequirements while it is not."""
        tool = self._catalogue.resolve(call.reference)
        caller = Caller(call.key.tenant, call.key.subject, issuer=issuer)
        command = await self._engine.filled(tool, self._recovery.command(call), caller)
        return self._engine.work(tool, command, caller, QuietChannel(), self._engine.questions.base_url)


def asked_for(tool_name: str, challenge: Challenge) -> str:
    """What a person is told. Nothing where it is no provider's."""
    said = f"{tool_name} needs your authorization at {challenge.provider}" if challenge.provider else ""
    return f"{said}. The page asks for this code: {challenge.code}" if challenge.code else said
