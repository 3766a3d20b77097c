"""What became of a tool's definition, and what that means for those who use it.

- breaking: a call that was right may be refused or mean something else, or a result may be what nobody expects;
- additive: everything goes on as before, and more is possible;
- wording: only what people and models read is another.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from .schema_changes import Effect, Pair, Side, member_changed, schema_changes

Kind = Literal["breaking", "additive", "wording"]
KINDS: tuple[Kind, ...] = ("breaking", "additive", "wording")
Definition = Mapping[str, Any]
"""What `lock.described` says of a tool."""

_MEANS: dict[Side, dict[Effect, Kind]] = {
    "input": {"narrower": "breaking", "wider": "additive"},
    "output": {"narrower": "additive", "wider": "breaking"},
}
_TEXTS = ("title", "description", "toolkit_description", "icons")
_PROMISES = {"read_only": True, "idempotent": True, "destructive": False, "open_world": False}
"""What a tool promises by each of its hints."""
_HINTS = {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False, "openWorldHint": False}
"""The same, as MCP's annotations have it."""
_DEMANDS = ("required", "forbidden")
"""Uses of tasks that some client cannot go along with."""


class LockChange(Struct, frozen=True):
    """One thing that is not as it was."""

    kind: Kind
    where: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.kind:<8}  {self.where}: {self.sentence}"


def changes(old: Definition, new: Definition) -> list[LockChange]:
    """What is breaking first. None only where the two are the same."""
    found = [*_members(old, new), *_promises(old, new), *_requirements(old, new), *_schemas(old, new)]
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
    yield from _kept("hints", _PROMISES, old.get("hints", {}), new.get("hints", {}))
    before, after = old.get("annotations", {}), new.get("annotations", {})
    yield from _kept("annotations", _HINTS, before, after)
    for name in sorted((before.keys() | after.keys()) - _HINTS.keys()):
        if before.get(name) != after.get(name):
            kind: Kind = "wording" if name == "title" else "additive" if name not in before else "breaking"
            yield LockChange(kind, f"annotations.{name}", member_changed(before, after, name))


def _kept(
    where: str, promises: Mapping[str, bool], old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[LockChange]:
    """A promise that is taken back is breaking."""
    for name, promise in promises.items():
        before, after = old.get(name), new.get(name)
        if before != after:
            kind: Kind = "breaking" if before is promise else "additive" if after is promise else "wording"
            yield LockChange(kind, f"{where}.{name}", _SAID.get(kind) or member_changed(old, new, name))


_SAID: dict[Kind, str] = {"breaking": "the promise was taken back", "additive": "is promised now"}


def _requirements(old: Definition, new: Definition) -> Iterator[LockChange]:
    """What is needed more breaks whoever does not have it."""
    before, after = old.get("requirements", {}), new.get("requirements", {})
    yield from _lists("requirements.secrets", before.get("secrets", ()), after.get("secrets", ()), more="breaking")
    if before.get("user_id") != after.get("user_id"):
        is_needed = bool(after.get("user_id"))
        sentence = "is needed now" if is_needed else "is not needed any more"
        yield LockChange("breaking" if is_needed else "additive", "requirements.user_id", sentence)
    if before.get("approval") != after.get("approval"):
        sentence = "a person has to agree now" if after.get("approval") else "nobody has to agree any more"
        yield LockChange("breaking", "requirements.approval", sentence)
    at = "requirements.authorization"
    there, now = before.get("authorization", {}), after.get("authorization", {})
    yield from _lists(at, there, now, more="breaking")
    for provider in sorted(there.keys() & now.keys()):
        yield from _lists(f"{at}.{provider}", there[provider], now[provider], more="breaking")


def _lists(where: str, old: Iterable[str], new: Iterable[str], more: Kind) -> Iterator[LockChange]:
    """`more` is what it means that one was added; that one was removed is the contrary."""
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
        gone = after is None
        sentence = "there is no result any more" if gone else "there is a result now"
        yield LockChange("breaking" if gone else "additive", "output_schema", sentence)


def _schema(side: Side, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[LockChange]:
    means = _MEANS[side]
    for where, effect, sentence in schema_changes(Pair(f"{side}_schema", side, old, new)):
        kind: Kind = effect if effect in KINDS else means.get(effect, "breaking")
        yield LockChange(kind, where, sentence)
