"""The changes between two definitions of a tool, and what each means for those who use the tool.

- breaking: a call that was right may be refused or mean something else, or a result may be what nobody expects;
- additive: every call and result stays as it was, and more is possible;
- wording: only what people and models read has changed.

What schemas take is compared in `schema_changes`; the other members of a definition here.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from .schema_changes import Effect, Pair, Side, member_changed, schema_changes

Kind = Literal["breaking", "additive", "wording"]
KINDS: tuple[Kind, ...] = ("breaking", "additive", "wording")
Definition = Mapping[str, Any]
"""A tool's definition as `lock.described` makes it."""

# A caller sends input and reads output, so the same change of a schema means the opposite on the two sides.
_MEANS: dict[Side, dict[Effect, Kind]] = {
    "input": {"narrower": "breaking", "wider": "additive"},
    "output": {"narrower": "additive", "wider": "breaking"},
}
_TEXTS = ("title", "description", "toolkit_description", "icons")
_PROMISES = {"read_only": True, "idempotent": True, "destructive": False, "open_world": False}
"""The value of each hint that is a promise to callers: a tool that says so can be called with less care."""
_HINTS = {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False, "openWorldHint": False}
"""The same promises, as MCP's annotations name them."""
_DEMANDS = ("required", "forbidden")
"""Uses of tasks that some client cannot go along with: with `required` those that know no tasks, with `forbidden` those
that always ask for one."""


class LockChange(Struct, frozen=True):
    """One difference between two definitions: its kind, the member it is at, and a sentence."""

    kind: Kind
    where: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.kind:<8}  {self.where}: {self.sentence}"


def changes(old: Definition, new: Definition) -> list[LockChange]:
    """All changes, breaking ones first. The list is empty only where the two definitions are equal."""
    found = [*_members(old, new), *_promises(old, new), *_requirements(old, new), *_schemas(old, new)]
    # Whatever no rule above judges, such as a schema's spelling, still shows: a lock must not pass over a difference.
    if not found and old != new:
        where = next(name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name))
        found = [LockChange("wording", where, "says the same in other words")]
    return sorted(found, key=lambda change: KINDS.index(change.kind))


def _members(old: Definition, new: Definition) -> Iterator[LockChange]:
    for name in _TEXTS:
        if old.get(name) != new.get(name):
            yield LockChange("wording", name, member_changed(old, new, name))
    for name in ("wire_name", "returns_content"):
        if old.get(name) != new.get(name):
            yield LockChange("breaking", name, member_changed(old, new, name))
    before, after = old.get("task", "optional"), new.get("task", "optional")
    if before != after:
        yield LockChange("breaking" if after in _DEMANDS else "additive", "task", f"was {before} and is {after}")
    yield from _lists("tags", old.get("tags", ()), new.get("tags", ()), more="additive")
    yield from _lists("asks", old.get("asks", ()), new.get("asks", ()), more="breaking")


def _promises(old: Definition, new: Definition) -> Iterator[LockChange]:
    yield from _promise_changes("hints", _PROMISES, old.get("hints", {}), new.get("hints", {}))
    before, after = old.get("annotations", {}), new.get("annotations", {})
    yield from _promise_changes("annotations", _HINTS, before, after)
    for name in sorted((before.keys() | after.keys()) - _HINTS.keys()):
        if before.get(name) != after.get(name):
            kind: Kind = "wording" if name == "title" else "additive" if name not in before else "breaking"
            yield LockChange(kind, f"annotations.{name}", member_changed(before, after, name))


def _promise_changes(
    where: str, promises: Mapping[str, bool], old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[LockChange]:
    """A promise that is taken back is breaking, a new one is additive."""
    for name, promise in promises.items():
        before, after = old.get(name), new.get(name)
        if before != after:
            kind: Kind = "breaking" if before is promise else "additive" if after is promise else "wording"
            yield LockChange(kind, f"{where}.{name}", _PROMISE_SENTENCES.get(kind) or member_changed(old, new, name))


_PROMISE_SENTENCES: dict[Kind, str] = {"breaking": "the promise was taken back", "additive": "is promised now"}


def _requirements(old: Definition, new: Definition) -> Iterator[LockChange]:
    """A new requirement breaks every caller that does not have what is required."""
    before, after = old.get("requirements", {}), new.get("requirements", {})
    yield from _lists("requirements.secrets", before.get("secrets", ()), after.get("secrets", ()), more="breaking")
    if before.get("user_id") != after.get("user_id"):
        is_needed = bool(after.get("user_id"))
        sentence = "is needed now" if is_needed else "is not needed any more"
        yield LockChange("breaking" if is_needed else "additive", "requirements.user_id", sentence)
    if before.get("approval") != after.get("approval"):
        # Breaking in both directions: calls wait for a person now, or run without one who was counted on.
        sentence = "a person has to agree now" if after.get("approval") else "nobody has to agree any more"
        yield LockChange("breaking", "requirements.approval", sentence)
    at = "requirements.authorization"
    there, now = before.get("authorization", {}), after.get("authorization", {})
    yield from _lists(at, there, now, more="breaking")
    for provider in sorted(there.keys() & now.keys()):
        yield from _lists(f"{at}.{provider}", there[provider], now[provider], more="breaking")


def _lists(where: str, old: Iterable[str], new: Iterable[str], more: Kind) -> Iterator[LockChange]:
    """The changes of a list of names. `more` is the kind of an added one; a removed one is the opposite."""
    old, new = list(old), list(new)
    less: Kind = "breaking" if more == "additive" else "additive"
    yield from (LockChange(more, where, f"{each} was added") for each in new if each not in old)
    yield from (LockChange(less, where, f"{each} was removed") for each in old if each not in new)


def _schemas(old: Definition, new: Definition) -> Iterator[LockChange]:
    yield from _schema("input", old["input_schema"], new["input_schema"])
    before, after = old["output_schema"], new["output_schema"]
    if before is not None and after is not None:
        yield from _schema("output", before, after)
    elif before != after:
        is_gone = after is None  # None: the tool returns nothing
        sentence = "there is no result any more" if is_gone else "there is a result now"
        yield LockChange("breaking" if is_gone else "additive", "output_schema", sentence)


def _schema(side: Side, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[LockChange]:
    means = _MEANS[side]
    for where, effect, sentence in schema_changes(Pair(f"{side}_schema", side, old, new)):
        # What is unclear has no meaning in the table, and counts as breaking.
        kind: Kind = effect if effect in KINDS else means.get(effect, "breaking")
        yield LockChange(kind, where, sentence)
