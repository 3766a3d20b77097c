"""One line of the audit log: who did what, when, from where, by which rule, and what became of it.

An entry is made by whoever did the thing, and is written as JSON by the log, later and among many others.

There is no member for a credential or a secret, and none may be put into another: an API key is here by its name, an
input by its fingerprint. The input itself is only here where the operator asked for it.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

LONGEST_LINE = 64 * 2**10
LONGEST_TEXT = 512
"""The most that is left of each member, where the line would be too long."""
_encode = msgspec.json.Encoder().encode
CANNOT = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)
"""What encoding raises for a value that JSON cannot have: an object, a huge number, a broken text, a cycle."""


Fingerprint = Callable[[str, str | None, Any], bytes]
"""Makes the fingerprint of a tool, a user and an input: it shows that two inputs are the same, and nothing else."""


class AuditKind(StrEnum):
    """What an entry is about. The values are what stands in the log; `docs/guides/audit.md` explains each to who reads
    it, and a test holds that none is missing there."""

    CALL = "call"
    """A call was taken, or a client was told something of one that goes on."""
    REFUSED = "refused"
    """A call, a prompt or a resource was asked for and not had: it is not there for the caller, or may not be used."""
    AUTH = "auth"
    """Credentials were not accepted."""
    CANCEL = "cancel"
    """A caller cancelled a call or a task."""
    PROMPT = "prompt"
    """An author's prompt was got."""
    RESOURCE = "resource"
    """A resource was read, an author's or one that a tool gave out."""
    WORKER = "worker"
    """A worker registered its tools, or went."""
    CLAIM = "claim"
    """A worker was given a call."""
    ANSWER = "answer"
    """A worker said how a call of its own ended."""
    RELEASE = "release"
    """A worker gave a call back without having run it."""
    APPROVAL = "approval"
    """Somebody decided about a call that waits for approval, or wanted to and could not."""
    CONNECTION = "connection"
    """A person connected an account or disconnected it, or tried to."""
    ADMIN = "admin"
    """An operator changed something."""
    START = "start"
    """A server began to write the log, or went on with it."""
    STOP = "stop"
    """A server stopped in order."""
    LOST = "lost"
    """Entries are missing here: the store was away for too long."""


class Entry(
    Struct,
    omit_defaults=True,
    gc=False,  # entries hold no cycles, and thousands that wait would slow each collection
    rename={
        "subject": "sub", "user_id": "user", "address": "from", "call_id": "call", "fingerprint": "fp",
        "outcome": "code", "trace_id": "trace", "request_id": "request", "count": "n",
    },
):  # fmt: skip
    """One thing that somebody did, with those of its members that there is something to say of."""

    at: float
    kind: AuditKind
    tenant: str | None = None
    subject: str | None = None
    user_id: str | None = None
    key: str | None = None
    """The name of the API key."""
    how: str | None = None
    """How the caller was authenticated: none, key or token."""
    address: str | None = None
    wire: str | None = None
    tool: str | None = None
    """With its version."""
    call_id: str | None = None
    fingerprint: str | None = None
    input: Any = None
    """As it came: `Raw` where a tool was given it, who may have changed it since."""
    rule: str | None = None
    """Which rule let it through or refused it."""
    outcome: str | None = None
    """The code that it ended with."""
    ms: float | None = None
    trace_id: str | None = None
    request_id: str | None = None
    count: int | None = None
    """Of entries that are missing here, where `kind` is lost."""
    by: str | None = None
    """Who decided, in words, where `kind` is approval."""
    asked_by: str | None = None
    """The tenant and subject of the call that was decided about."""
    reason: str | None = None
    """Why, as who decided said it."""


def line_of(entry: Entry, fingerprint: Fingerprint, *, with_input: bool) -> bytes:
    """An entry as JSON. It is never left out because of what is in it: what cannot be written, or is too long, is
    cut."""
    try:
        # By the tool as it was asked for, without its version, as the ledger makes the fingerprint of a call.
        if entry.input is not None and entry.fingerprint is None:
            entry.fingerprint = fingerprint((entry.tool or "").partition("@")[0], entry.user_id, entry.input).hex()
        if not with_input:
            entry.input = None
        line = _encode(entry)
        if len(line) <= LONGEST_LINE:
            return line
    except CANNOT:
        entry.input = entry.input if with_input else None
    return _encode({name: _cut(value) for name, value in _members(entry)})


def _members(entry: Entry) -> list[tuple[str, Any]]:
    """The members that say something, by their names in JSON."""
    fields = msgspec.structs.fields(Entry)
    given = [(field.encode_name, getattr(entry, field.name)) for field in fields]
    return [(name, "(too long)" if name == "input" else value) for name, value in given if value is not None]


def _cut(value: Any) -> Any:
    if isinstance(value, float | int):
        return value
    return str(value)[:LONGEST_TEXT].encode("utf-8", "backslashreplace").decode()
