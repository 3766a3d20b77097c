"""Rows of several requests: what a reply says can be kept, and stands in `{braces}` in the steps after it.

A step is `send: METHOD path`, with `headers`, `json`, `body` or `body_hex` as in a row of one request, or `rpc`, a
request of MCP (see `rpc.py`), and `expect`: a status, or what a row expects. `by` names whose key is sent: `ada` unless
it says otherwise, `nobody` for none. `keep` gives names to parts of the reply: paths into its JSON, or `header:Name`.
`until: true` asks again until the reply is as expected; `during_s` asks again for so long, and it must be so every
time; `events: 3` reads that many server-sent events and leaves; `meanwhile` are the steps taken while the reply is
awaited, which must have come after `within_s`.
`{unique}` is another word in every run. A step that is a single word stands for the `openings` of that name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .rpc import posted
from .tokens import CALLERS

EXPECT_MEMBERS = {"status", "headers", "json", "exact", "absent", "text_has", "text_lacks", "text"}
REQUEST_MEMBERS = {"headers", "json", "body", "body_hex"}
STEP_MEMBERS = {
    "send",
    "by",
    "expect",
    "keep",
    "until",
    "during_s",
    "events",
    "meanwhile",
    "within_s",
    *REQUEST_MEMBERS,
}

Kept = dict[str, Any]
_name = re.compile(r"\{([a-z_0-9]+)\}")


@dataclass(frozen=True)
class Step:
    request: Mapping[str, Any]
    expect: Mapping[str, Any]
    by: str = "ada"
    keep: Mapping[str, str] = field(default_factory=dict)
    until: bool = False
    during_s: float = 0.0
    events: int = 0
    within_s: float | None = None
    meanwhile: tuple["Step", ...] = ()


def step_of(written: Mapping[str, Any], openings: Mapping[str, Any]) -> Step:
    """Refuses what it does not know: a typing mistake must not turn into something that is never checked."""
    written = posted(written)
    expect = written.get("expect", {})
    expect = expect if isinstance(expect, dict) else {"status": expect}
    method, _, path = written.get("send", "").partition(" ")
    unknown = (written.keys() - STEP_MEMBERS) | (expect.keys() - EXPECT_MEMBERS)
    if unknown or not path or "status" not in expect or written.get("by", "ada") not in (*CALLERS, "nobody"):
        raise ValueError(f"a step that cannot be taken: {written}")
    request = {"method": method, "path": path, **{name: written[name] for name in REQUEST_MEMBERS & written.keys()}}
    others = {
        name: written[name] for name in ("by", "keep", "until", "during_s", "events", "within_s") if name in written
    }
    return Step(request, expect, **others, meanwhile=tuple(steps_of(written.get("meanwhile", ()), openings)))


def steps_of(written: Iterable[Any], openings: Mapping[str, Any]) -> Iterator[Step]:
    for each in written:
        if isinstance(each, str):
            yield from steps_of(openings[each], openings)
        else:
            yield step_of(each, openings)


def filled(value: Any, kept: Kept) -> Any:
    """With what was kept in place of the names. A string that is nothing but a name becomes the value itself."""
    if isinstance(value, str):
        whole = _name.fullmatch(value)
        if whole and whole[1] in kept:
            return kept[whole[1]]
        return _name.sub(lambda found: str(kept.get(found[1], found[0])), value)
    if isinstance(value, Mapping):
        return {filled(name, kept): filled(member, kept) for name, member in value.items()}
    return [filled(item, kept) for item in value] if isinstance(value, list) else value


def request_of(step: Step, kept: Kept) -> dict[str, Any]:
    request: dict[str, Any] = filled(step.request, kept)
    credentials = {} if step.by == "nobody" else {"Authorization": f"Bearer {CALLERS[step.by]}"}
    headers = {name: None if value is None else str(value) for name, value in request.get("headers", {}).items()}
    return {**request, "headers": {**credentials, **headers}}
