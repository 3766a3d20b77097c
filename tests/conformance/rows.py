"""The conformance files, as typed values.

A file holds `clauses` (what a document asks for, in our words) and `rows` (how it is shown). A clause says
where it comes from in one of three ways: `source` (hash of the sentence), `pointer` (place in the published
OpenAPI document) or `decided` (the documents leave it open or disagree, and this is our decision).
A row is one request and the reply it must get (`kind: http`), several of them in turn (`kind: steps`, see `steps.py`),
or the name of the test that shows what requests cannot show: the client's side (`kind: client`) or more of a server's
life (`kind: test`).
Unknown members are refused: a typing mistake must not turn into an expectation that is never checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from .steps import Step, steps_of

HERE = Path(__file__).parent
WIRES = ("oxp", "otc", "otc_draft", "lifecycle", "mcp")
LEVELS = ("MUST", "SHOULD", "MAY")
KINDS = ("http", "steps", "client", "test")
SERVERS = ("open", "keys", "keys-400", "jwt", "callers", "hasty", "mcp", "mcp-hasty")

REQUEST_MEMBERS = {"method", "path", "headers", "json", "body", "body_hex"}
EXPECT_MEMBERS = {"status", "headers", "json", "exact", "absent", "schema", "text_has", "text_lacks"}


@dataclass(frozen=True)
class Clause:
    id: str
    level: str
    where: str
    says: str
    binds: str = "server"
    source: str | None = None
    pointer: str | None = None
    decided: bool = False

    def __post_init__(self) -> None:
        origins = [self.source is not None, self.pointer is not None, self.decided]
        if self.level not in LEVELS or self.binds not in ("server", "client") or sum(origins) != 1:
            raise ValueError(f"clause {self.id}: wrong level or binds, or not exactly one origin")


@dataclass(frozen=True)
class Row:
    wire: str
    id: str
    clauses: tuple[str, ...]
    title: str
    kind: str = "http"
    server: str = "open"
    example: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)
    expect: Mapping[str, Any] = field(default_factory=dict)
    follow: Mapping[str, Any] | None = None
    test: str | None = None
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.server not in SERVERS:
            raise ValueError(f"row {self.id}: unknown kind or server")
        if self.kind == "http":
            expectations = [self.expect, self.follow["expect"]] if self.follow else [self.expect]
            unknown = set(self.request) - REQUEST_MEMBERS
            for expect in expectations:
                unknown |= set(expect) - EXPECT_MEMBERS
            if unknown:
                raise ValueError(f"row {self.id}: unknown members {sorted(unknown)}")
            if not {"method", "path"} <= set(self.request) or any("status" not in e for e in expectations):
                raise ValueError(f"row {self.id}: a row needs a method, a path and the status to expect")
        elif self.kind == "steps":
            if not self.steps:
                raise ValueError(f"row {self.id}: a row of this kind has steps")
        elif self.test is None or "::" not in self.test:
            raise ValueError(f"row {self.id}: a row of this kind names the test that shows it")


@dataclass(frozen=True)
class Document:
    wire: str
    clauses: tuple[Clause, ...]
    rows: tuple[Row, ...]


def parse(wire: str, text: str) -> Document:
    data = yaml.load(text, yaml.CSafeLoader)
    clauses = tuple(Clause(**clause) for clause in data["clauses"])
    openings = data.get("openings", {})
    return Document(wire, clauses, tuple(row_of(wire, row, openings) for row in data["rows"]))


def row_of(wire: str, written: Mapping[str, Any], openings: Mapping[str, Any]) -> Row:
    steps = tuple(steps_of(written.get("steps", ()), openings))
    kind = {"kind": "steps"} if steps else {}
    return Row(**{"wire": wire, **kind, **written, "clauses": tuple(written["clauses"]), "steps": steps})


@cache
def load(wire: str) -> Document:
    return parse(wire, (HERE / f"{wire}.yaml").read_text(encoding="utf-8"))


def documents() -> tuple[Document, ...]:
    return tuple(load(wire) for wire in WIRES)


def all_clauses() -> tuple[Clause, ...]:
    return tuple(clause for document in documents() for clause in document.clauses)


def all_rows() -> tuple[Row, ...]:
    return tuple(row for document in documents() for row in document.rows)
