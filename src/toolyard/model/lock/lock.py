"""Tools as somebody approved them: all that a client sees of them or relies on, and a fingerprint of it.

A lock keeps whole definitions, not fingerprints alone, so that it can say what changed. Where a tool's code stands, how
it runs and how long it may take are nobody's matter but the server's, and not in it.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...text.hidden import escaped
from ..json_value import decode
from ..tool import REFERENCE, Tool, Version
from .changes import LockChange, changes

FORMAT = 1
LARGEST_WHOLE = 2**53
NOT_OFFERED = ("annotations", "icons", "asks")
"""What a worker's tools do not have, whatever is in the file they come from."""
_ALWAYS = ("wire_name", "description", "input_schema", "output_schema")
_encode = msgspec.json.Encoder(order="sorted").encode


class LockedTool(Struct, frozen=True):
    """A tool as it was approved. `by_worker`: it was asked of the workers, and no file here has it."""

    reference: str
    definition: dict[str, Any]
    by_worker: bool = False

    @property
    def id(self) -> str:
        return self.reference.partition("@")[0]

    @property
    def version(self) -> Version:
        return Version.parse(self.reference.partition("@")[2])

    @property
    def fingerprint(self) -> str:
        return "sha256:" + sha256(_encode({"reference": self.reference, **self.definition})).hexdigest()


Lock = dict[str, LockedTool]
"""By reference."""


class LockDifference(Struct, frozen=True):
    """How a tool is not as it was approved."""

    reference: str
    sentence: str
    changes: tuple[LockChange, ...] = ()
    is_new: bool = False
    """No version of it was ever approved."""

    def __str__(self) -> str:
        return "\n  ".join([f"{self.reference} {self.sentence}", *map(str, self.changes)])


def locked(tool: Tool) -> LockedTool:
    """What there is to approve of a tool."""
    return LockedTool(tool.reference, described(tool), by_worker=tool.runs == "worker")


def described(tool: Tool) -> dict[str, Any]:
    """All that a client sees of a tool or relies on; what is as usual is left out."""
    needs, hints = tool.requirements, tool.hints
    freely = {"destructive": hints.destructive, "open_world": hints.open_world}
    said = {
        "wire_name": tool.wire_name,
        "title": tool.title,
        "description": tool.description,
        "toolkit_description": tool.toolkit.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "requirements": _said(
            authorization={needed.id: sorted(needed.scopes) for needed in needs.authorization},
            secrets=sorted(needs.secrets),
            user_id=needs.user_id,
            approval=tool.approval is not None,
        ),
        "hints": _said(read_only=hints.read_only, idempotent=hints.idempotent)
        | {name: value for name, value in freely.items() if value is not None},
        "annotations": tool.annotations,
        "tags": sorted(set(tool.tags)),
        "icons": tool.icons,
        "task": None if tool.task == "optional" else tool.task,
        "asks": sorted(tool.asks),
        "returns_content": tool.returns_content,
    }
    kept = {name: value for name, value in said.items() if value or name in _ALWAYS}
    made: dict[str, Any] = _plain(decode(msgspec.json.encode(kept)))
    return made


def as_offered(approved: LockedTool) -> LockedTool:
    """What of it a worker can offer."""
    kept = {name: value for name, value in approved.definition.items() if name not in NOT_OFFERED}
    return replace(approved, definition=kept)


def difference(lock: Mapping[str, LockedTool], found: LockedTool) -> LockDifference | None:
    """None where the tool is as it was approved. A new version is held against the newest that was."""
    approved = lock.get(found.reference)
    if approved is not None:
        approved = as_offered(approved) if found.by_worker else approved
        if approved.definition == found.definition:
            return None
        what = changes(approved.definition, found.definition)
        return LockDifference(found.reference, "is not as it was locked", tuple(what))
    others = [each for each in lock.values() if each.id == found.id]
    if not others:
        return LockDifference(
            found.reference, "is not in the lock", (LockChange("additive", "tool", "is new"),), is_new=True
        )
    last = max(others, key=lambda each: each.version)
    old = as_offered(last) if found.by_worker else last
    what = [LockChange("additive", "version", "is new"), *changes(old.definition, found.definition)]
    return LockDifference(found.reference, f"is not in the lock, which has {last.version}", tuple(what))


def differences(lock: Mapping[str, LockedTool], found: Iterable[LockedTool]) -> list[LockDifference]:
    """Of all tools together, by reference; what is locked and not there any more is told, too."""
    there = {each.reference: each for each in found}
    told = [difference(lock, each) for each in there.values()]
    gone = [
        LockDifference(reference, "is locked and not there", (LockChange("breaking", "tool", "was removed"),))
        for reference in lock
        if reference not in there
    ]
    return sorted([*filter(None, told), *gone], key=lambda each: each.reference)


# -- as text ----------------------------------------------------------------------------------------


def write(lock: Mapping[str, LockedTool]) -> str:
    """JSON in a stable order, a member a line."""
    tools = {reference: _entry(lock[reference]) for reference in sorted(lock)}
    made = msgspec.json.encode({"lock": FORMAT, "tools": tools})
    return msgspec.json.format(made, indent=2).decode() + "\n"


def _entry(each: LockedTool) -> dict[str, Any]:
    by_worker = {"by_worker": True} if each.by_worker else {}
    definition = {name: _sorted(each.definition[name]) for name in sorted(each.definition, key=_place)}
    return {"fingerprint": each.fingerprint, **by_worker, **definition}


def _place(member: str) -> tuple[int, str]:
    """What people look for first stands first, and schemas, which are long, last."""
    return _FIRST.index(member) if member in _FIRST else len(_FIRST) + member.endswith("_schema"), member


_FIRST = ("wire_name", "title", "description", "toolkit_description")


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(below) for below in value] if isinstance(value, list) else value


def read(text: str | bytes) -> Lock:
    """Raises ValueError with a sentence for what is no lock, or was changed by hand."""
    try:
        given = decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"this is not JSON: {error}") from None
    if not isinstance(given, dict) or not isinstance(given.get("tools"), dict):
        raise ValueError('this is not a lock; it has no "tools"')
    if given.get("lock") != FORMAT:
        raise ValueError(f'its "lock" is {given.get("lock")!r}, and this toolyard reads {FORMAT}')
    return dict(_entries(given["tools"]))


def _entries(given: Mapping[str, Any]) -> Iterator[tuple[str, LockedTool]]:
    for reference, entry in given.items():
        shown = escaped(reference)
        if not _is_whole(reference) or not isinstance(entry, dict) or any(name not in entry for name in _ALWAYS):
            raise ValueError(f"its entry {shown} is not that of a tool")
        definition = {name: value for name, value in entry.items() if name not in ("fingerprint", "by_worker")}
        made = LockedTool(reference, definition, entry.get("by_worker") is True)
        if made.fingerprint != entry.get("fingerprint"):
            raise ValueError(f"the fingerprint of {shown} does not fit what is said of it")
        yield reference, made


def _is_whole(reference: str) -> bool:
    """With all of its version."""
    matched = REFERENCE(reference)
    return matched is not None and "." in (matched[2] or "")


def _said(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}


def _plain(value: Any) -> Any:
    """One spelling for each number: 1.0 is 1."""
    if isinstance(value, dict):
        return {name: _plain(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_plain(below) for below in value]
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < LARGEST_WHOLE
    return int(value) if is_whole else value
