"""Sees calls come and go: counts them, and has them in the audit log."""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Raw, Struct

from ...model.call import LONGEST_TOOL_NAME, CallContext, CallTool, Outcome
from ...model.caller import Caller
from ...model.errors import StillRunning, ToolyardError, Unavailable
from ...model.record import CallRecord
from ...model.tool import Tool
from ...trust.audit.entry import Entry
from ...trust.audit.log import Audit
from .metrics import Metrics

NOBODY = Caller("", "")
SOON_MS = 1000


class CallOutcomeNote(Struct):
    """How a call ended; `refused` before its tool ran."""

    code: str = "success"
    call_id: str | None = None
    refused: bool = False

    def with_outcome(self, outcome: Outcome) -> None:
        self.call_id, error = outcome.call_id, outcome.error
        if error is not None:
            self.code = "still_running" if isinstance(error, StillRunning) else error.code

    def with_error(self, error: BaseException) -> None:
        self.code, self.refused = type(error).__name__, isinstance(error, ToolyardError)


class Somewhere(Protocol):
    """Where a request came from."""

    @property
    def address(self) -> str: ...


class Witness:
    """Of everything that callers do here."""

    def __init__(self, metrics: Metrics, audit: Audit | None, now: Callable[[], float]) -> None:
        self.metrics, self._audit, self._now = metrics, audit, now
        self.is_strict = audit is not None and audit.strict

    def ready(self) -> None:
        """Raises Unavailable where a call could not be written down and has to be."""
        if self._audit is not None and self.is_strict and not self._audit.has_room:
            raise Unavailable("The audit log cannot be written now", retry_after_ms=SOON_MS)

    def called(
        self,
        tool: Tool | None,
        command: CallTool,
        caller: Caller,
        at: Somewhere,
        ended: CallOutcomeNote,
        seconds: float,
    ) -> None:
        """A call, however it ended. `at` is only asked where it is written down."""
        self.metrics.record(command.wire, "" if tool is None else tool.id, ended.code, seconds)
        if self._audit is None:
            return
        self._audit.add(
            Entry(
                self._now(),
                "refused" if ended.refused else "call",
                caller.tenant,
                caller.subject,
                command.context.user_id,
                caller.key,
                caller.how,
                at.address,
                command.wire,
                command.tool_id[:LONGEST_TOOL_NAME] if tool is None else tool.reference,
                ended.call_id or command.call_id,
                None,
                Raw(command.input_json) if command.input_json else command.input,
                None if tool is None else caller.view.of(tool).rule,
                ended.code,
                seconds * 1e6 // 1 / 1e3,
                command.trace_id,
            )
        )

    async def told_early(self, call: CallRecord, caller: Caller, at: Somewhere, code: str) -> None:
        """A call goes on, and its client is about to be told something of it. Its end is an entry of its own. Raises
        StoreDown."""
        entry = Entry(
            self._now(), "call", caller.tenant, caller.subject, call.user_id, caller.key, caller.how, at.address,
            call.wire, call.reference, call.key.call_id, input=Raw(call.input), outcome=code, trace_id=call.trace_id,
        )  # fmt: skip
        await self.note(entry)

    def used(self, wire: str, calls: list[CallRecord], caller: Caller, address: str) -> None:
        """A model's tool uses that were taken."""
        for call in calls:
            self._add(
                "call", caller, address, wire=wire, tool=call.reference, call_id=call.key.call_id,
                outcome=call.code or str(call.state), fingerprint=call.fingerprint.hex() if call.fingerprint else None,
            )  # fmt: skip

    async def claimed(self, claims: list[tuple[CallRecord, CallContext]], caller: Caller, address: str) -> None:
        """Calls that a worker was given."""
        for call, _ in claims:
            self._add("claim", caller, address, tool=call.reference, call_id=call.key.call_id)
        await self.written()

    def refused(self, error: ToolyardError, caller: Caller | None, address: str, path: str) -> None:
        """A request that never became a call: who sent it is not known, or may not."""
        why = error.developer_message or error.message
        self._add("auth", caller or NOBODY, address, tool=path, rule=why, outcome=type(error).__name__)

    def did(self, kind: str, what: str, caller: Caller | None = None, address: str = "") -> None:
        """Something else that is worth knowing: a key was made, a call settled, a worker came."""
        self._add(kind, caller or NOBODY, address, tool=what)

    async def note(self, entry: Entry) -> None:
        """One that somebody else has made. Raises StoreDown."""
        if self._audit is not None:
            self._audit.add(entry)
        await self.written()

    async def written(self) -> None:
        """Returns when all of it is stored, where that must come before the answer. Raises StoreDown."""
        if self._audit is not None and self.is_strict:
            await self._audit.written()

    def _add(self, kind: str, caller: Caller, address: str, **more: Any) -> None:
        if self._audit is not None:
            self._audit.add(
                Entry(
                    self._now(), kind, caller.tenant or None, caller.subject or None, caller.user_id,
                    caller.key, caller.how, address or None, **more,
                )
            )  # fmt: skip
