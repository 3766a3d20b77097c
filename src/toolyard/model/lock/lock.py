"""The lock: tools as somebody approved them, and how the tools that are there now differ.

A locked tool is all that a client sees of it or relies on, with a fingerprint. Whole definitions are kept, not
fingerprints alone, so that a difference can be explained. Where a tool's code is, how it runs and how long it may take
concern the server alone, and are not locked. The file (`toolyard.lock`) is JSON, with its members in a stable order so
that a review of two versions shows only what changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...text.hidden import escaped
from ..json_value import decode
from ..tool import REFERENCE, Tool, Version
from .changes import LockChange, changes

FORMAT = 1
LARGEST_WHOLE = 2**53
"""Up to here every whole number is exact as a double, and 1.0 and 1 can be taken for the same."""
NOT_OFFERED = ("annotations", "icons", "asks")
"""Members that the lifecycle API has no place for: a worker's tools lose them, whatever their file says."""
_ALWAYS = ("wire_name", "description", "input_schema", "output_schema")
"""Members that every locked tool has. The others are left out where they have their usual value."""
_encode = msgspec.json.Encoder(order="sorted").encode


Bringer = Literal["worker", "upstream"]
"""Who brings a tool that no file of the server has."""


class LockedTool(Struct, frozen=True):
    """A tool as it was approved. `by`: the definition came from a worker or an upstream, and from no file of the
    server."""

    reference: str
    definition: dict[str, Any]
    by: Bringer | None = None

    @property
    def toolkit(self) -> str:
        return self.id.partition(".")[0]

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
"""Locked tools, by reference."""


class LockDifference(Struct, frozen=True):
    """How one tool differs from what was approved."""

    reference: str
    sentence: str
    changes: tuple[LockChange, ...] = ()
    is_new: bool = False
    """Whether no version of the tool was ever approved."""

    def __str__(self) -> str:
        return "\n  ".join([f"{self.reference} {self.sentence}", *map(str, self.changes)])


def locked(tool: Tool, by: Bringer | None = None) -> LockedTool:
    """A tool as it would be approved now. `by`: who brings it, where no file here has it."""
    return LockedTool(tool.reference, described(tool), by)


def described(tool: Tool) -> dict[str, Any]:
    """A tool's definition: all that a client sees of it or relies on. Members with their usual value are left out, so
    that a lock does not change when a later toolyard knows more members."""
    needs, hints = tool.requirements, tool.hints
    # Of these, False is a promise of its own, and only None means that nothing is said.
    three_valued = {"destructive": hints.destructive, "open_world": hints.open_world}
    members = {
        "wire_name": tool.wire_name,
        "title": tool.title,
        "description": tool.description,
        "toolkit_description": tool.toolkit.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "requirements": _set(
            authorization={needed.id: sorted(needed.scopes) for needed in needs.authorization},
            secrets=sorted(needs.secrets),
            user_id=needs.user_id,
            approval=tool.approval is not None,
        ),
        "hints": _set(read_only=hints.read_only, idempotent=hints.idempotent)
        | {name: value for name, value in three_valued.items() if value is not None},
        "annotations": tool.annotations,
        "tags": sorted(set(tool.tags)),
        "icons": tool.icons,
        "task": None if tool.task == "optional" else tool.task,
        "asks": sorted(tool.asks),
        "returns_content": tool.returns_content,
        "meta": tool.meta,
    }
    kept = {name: value for name, value in members.items() if value or name in _ALWAYS}
    # Through JSON and back, so that it equals what is read from a lock: lists for tuples, plain objects for icons.
    definition: dict[str, Any] = _plain(decode(msgspec.json.encode(kept)))
    return definition


def as_offered(approved: LockedTool) -> LockedTool:
    """A locked tool as a worker would offer it: a tool locked from a file may run on a worker, too."""
    kept = {name: value for name, value in approved.definition.items() if name not in NOT_OFFERED}
    return replace(approved, definition=kept)


def difference(lock: Mapping[str, LockedTool], found: LockedTool) -> LockDifference | None:
    """How a tool differs from the lock; None where it is as it was approved. A version that is not in the lock is
    compared with the newest that is."""
    approved = lock.get(found.reference)
    if approved is not None:
        approved = as_offered(approved) if found.by == "worker" else approved
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
    old = as_offered(last) if found.by == "worker" else last
    what = [LockChange("additive", "version", "is new"), *changes(old.definition, found.definition)]
    return LockDifference(found.reference, f"is not in the lock, which has {last.version}", tuple(what))


def differences(lock: Mapping[str, LockedTool], found: Iterable[LockedTool]) -> list[LockDifference]:
    """How all tools together differ from the lock, sorted by reference, with those that are locked and gone."""
    there = {each.reference: each for each in found}
    changed = [difference(lock, each) for each in there.values()]
    gone = [
        LockDifference(reference, "is locked and not there", (LockChange("breaking", "tool", "was removed"),))
        for reference in lock
        if reference not in there
    ]
    return sorted([*filter(None, changed), *gone], key=lambda each: each.reference)


# -- as text ----------------------------------------------------------------------------------------


def write(lock: Mapping[str, LockedTool]) -> str:
    """The text of a lock file: JSON in a stable order, one member a line."""
    tools = {reference: _entry(lock[reference]) for reference in sorted(lock)}
    encoded = msgspec.json.encode({"lock": FORMAT, "tools": tools})
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def _entry(each: LockedTool) -> dict[str, Any]:
    by = {} if each.by is None else {f"by_{each.by}": True}
    definition = {name: _sorted(each.definition[name]) for name in sorted(each.definition, key=_rank)}
    return {"fingerprint": each.fingerprint, **by, **definition}


def _rank(member: str) -> tuple[int, str]:
    """Sorts members: what people look for first stands first, and schemas, which are long, last."""
    return _FIRST.index(member) if member in _FIRST else len(_FIRST) + member.endswith("_schema"), member


_FIRST = ("wire_name", "title", "description", "toolkit_description")


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(below) for below in value] if isinstance(value, list) else value


def read(text: str | bytes) -> Lock:
    """The lock in a lock file's text. Raises ValueError with a sentence for a text that is no lock, or one whose
    entries were changed without their fingerprints."""
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
        definition = {name: value for name, value in entry.items() if name not in _NOT_OF_THE_TOOL}
        by: Bringer | None = "upstream" if entry.get("by_upstream") is True else None
        tool = LockedTool(reference, definition, "worker" if entry.get("by_worker") is True else by)
        if tool.fingerprint != entry.get("fingerprint"):
            raise ValueError(f"the fingerprint of {shown} does not fit what is said of it")
        yield reference, tool


_NOT_OF_THE_TOOL = ("fingerprint", "by_worker", "by_upstream")


def _is_whole(reference: str) -> bool:
    """Whether a reference names all three numbers of its version."""
    matched = REFERENCE(reference)
    return matched is not None and "." in (matched[2] or "")


def _set(**members: Any) -> dict[str, Any]:
    """Those members that have a value other than false or empty."""
    return {name: value for name, value in members.items() if value}


def _plain(value: Any) -> Any:
    """A JSON value with one spelling for each number: 1.0 becomes 1, as another encoder may have written it."""
    if isinstance(value, dict):
        return {name: _plain(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_plain(below) for below in value]
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < LARGEST_WHOLE
    return int(value) if is_whole else value
