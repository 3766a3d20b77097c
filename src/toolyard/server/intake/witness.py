"""Writes the entries of the audit log about what callers and people do here.

Calls come by way of the intake. What is no call (a page, a worker that comes, an operator's change, credentials that
were not accepted) is told by the handler that sees it. Where there is no log, all of this does nothing; where the log
is strict, whoever answers awaits `written` first.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from msgspec import Raw

from ...model.call import LONGEST_TOOL_NAME, CallTool
from ...model.caller import Caller
from ...model.errors import ToolyardError, Unavailable
from ...model.record import CallRecord
from ...model.tool import Tool
from ...trust.audit.entry import AuditKind, Entry
from ...trust.audit.log import Audit

NOBODY = Caller("", "")
SOON_MS = 1000


class RequestOrigin(Protocol):
    """Where a request came from."""

    @property
    def address(self) -> str:
        """The client's. Found out when it is asked for, so whoever does not write it down should not ask."""
        ...


class CallSource(Protocol):
    """What an entry about a call says of the request that brought it."""

    @property
    def command(self) -> CallTool: ...

    @property
    def caller(self) -> Caller: ...

    @property
    def origin(self) -> RequestOrigin: ...


class Witness:
    """The audit log's eyes in this server: makes an entry of what it is shown, with who did it and from where."""

    def __init__(self, audit: Audit | None, now: Callable[[], float]) -> None:
        self._audit, self._now = audit, now
        self.is_audited = audit is not None
        self.is_strict = audit is not None and audit.strict

    def refuse_without_room(self) -> None:
        """Raises Unavailable where what is about to happen could not be written down, and has to be."""
        if self._audit is not None and self.is_strict and not self._audit.has_room:
            raise Unavailable("The audit log cannot be written now", retry_after_ms=SOON_MS)

    def called(
        self, kind: AuditKind, tool: Tool | None, call: CallSource, call_id: str | None, code: str, seconds: float
    ) -> None:
        """A call, however it ended; `tool` is None where none was found, `call_id` where none was given out."""
        if self._audit is None:
            return
        command, caller = call.command, call.caller
        self._audit.add(
            Entry(
                self._now(),
                kind,
                caller.tenant,
                caller.subject,
                command.context.user_id,
                caller.key,
                caller.how,
                call.origin.address,
                command.wire,
                command.tool_id[:LONGEST_TOOL_NAME] if tool is None else tool.reference,
                call_id or command.call_id,
                None,
                Raw(command.input_json) if command.input_json else command.input,
                None if tool is None else caller.view.of(tool).rule,
                code,
                seconds * 1e6 // 1 / 1e3,  # milliseconds, cut to three digits: cheaper than rounding
                command.trace_id,
            )
        )

    async def told_early(self, call: CallRecord, caller: Caller, origin: RequestOrigin, code: str) -> None:
        """A call goes on, and its client is about to be told something of it. Its end is an entry of its own. Raises
        StoreDown."""
        entry = Entry(
            self._now(), AuditKind.CALL, caller.tenant, caller.subject, call.user_id, caller.key, caller.how,
            origin.address, call.wire, call.reference, call.key.call_id,
            input=Raw(call.input), outcome=code, trace_id=call.trace_id,
        )  # fmt: skip
        await self.note(entry)

    def used(self, wire: str, calls: Iterable[CallRecord], caller: Caller, origin: RequestOrigin) -> None:
        """A model's tool uses that were taken."""
        for call in calls:
            self._add(
                AuditKind.CALL, caller, origin.address, wire=wire, tool=call.reference, call_id=call.key.call_id,
                outcome=call.code or str(call.state), fingerprint=call.fingerprint.hex() if call.fingerprint else None,
            )  # fmt: skip

    def claimed(self, calls: Iterable[CallRecord], caller: Caller, origin: RequestOrigin) -> None:
        """Calls that a worker is given."""
        for call in calls:
            self._add(AuditKind.CLAIM, caller, origin.address, tool=call.reference, call_id=call.key.call_id)

    def refused(self, error: ToolyardError, caller: Caller | None, address: str, path: str) -> None:
        """A request that never became a call: who sent it is not known, or may not."""
        why = error.developer_message or error.message
        self._add(AuditKind.AUTH, caller or NOBODY, address, tool=path, rule=why, outcome=type(error).__name__)

    def did(self, kind: AuditKind, what: str, caller: Caller | None = None, address: str = "") -> None:
        """Something else that is worth knowing: a key was made, a call settled, a worker came."""
        self._add(kind, caller or NOBODY, address, tool=what)

    async def note(self, entry: Entry) -> None:
        """An entry that somebody else has made. Raises StoreDown."""
        if self._audit is not None:
            self._audit.add(entry)
        await self.written()

    async def written(self) -> None:
        """Returns when every entry so far is stored, where that must come before the answer; else at once. Raises
        StoreDown."""
        if self._audit is not None and self.is_strict:
            await self._audit.written()

    def _add(self, kind: AuditKind, caller: Caller, address: str, **more: Any) -> None:
        if self._audit is not None:
            self._audit.add(
                Entry(
                    self._now(), kind, caller.tenant or None, caller.subject or None, caller.user_id,
                    caller.key, caller.how, address or None, **more,
                )
            )  # fmt: skip
