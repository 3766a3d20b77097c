"""Nothing the documents ask for is without a row, and nothing in the rows is without a clause."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from .published import SCHEMAS, published, resolve
from .rows import WIRES, Document, Row, all_clauses, all_rows, documents, load
from .sentences import SEEDS, asking, digest, seed, sentences

ROOT = Path(__file__).resolve().parents[2]
DOCS = {"oxp": "oxp.md", "otc": "otc.md", "otc_draft": "otc.md", "lifecycle": "lifecycle.md", "mcp": "mcp.md"}
CLAUSE_ID = re.compile(r"\b(?:OXP|OTC|DRAFT|LIFE|MCP)-[A-Z]+-[0-9]{2}\b")

with_seeds = pytest.mark.skipif(not SEEDS.is_dir(), reason="the source documents are not beside the checkout")
with_schemas = pytest.mark.skipif(not SCHEMAS.is_dir(), reason="the published schemas are not beside the checkout")
each_document = pytest.mark.parametrize("document", [pytest.param(d, id=d.wire) for d in documents()])
each_proof = pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in all_rows() if row.test])


@each_document
def test_every_clause_has_a_row(document: Document) -> None:
    shown = {clause for row in document.rows for clause in row.clauses}
    assert not [clause.id for clause in document.clauses if clause.id not in shown]


@each_document
def test_every_row_names_clauses_of_its_own_document(document: Document) -> None:
    known = {clause.id for clause in document.clauses}
    assert not {row.id: row.clauses for row in document.rows if not row.clauses or not known.issuperset(row.clauses)}


def test_no_id_is_used_twice() -> None:
    used = Counter([clause.id for clause in all_clauses()] + [row.id for row in all_rows()])
    assert not [id for id, times in used.items() if times > 1]


@each_document
def test_clauses_that_bind_the_client_are_shown_by_the_client(document: Document) -> None:
    by_client = {clause for row in document.rows if row.kind == "client" for clause in row.clauses}
    assert {clause.id for clause in document.clauses if clause.binds == "client"} == by_client


@cache
def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.exists() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@each_proof
def test_the_test_that_a_row_names_is_there(row: Row) -> None:
    assert row.test is not None
    file, name = row.test.split("::")
    assert name in functions_of(ROOT / file), f"{file} has no test {name}"


@each_document
def test_every_clause_stands_in_the_documentation(document: Document) -> None:
    text = (ROOT / "docs" / "protocols" / DOCS[document.wire]).read_text(encoding="utf-8")
    written = set(CLAUSE_ID.findall(text))
    assert not [clause.id for clause in document.clauses if clause.id not in written]


def test_the_documentation_names_no_clause_that_is_not_there() -> None:
    known = {clause.id for clause in all_clauses()}
    for name in set(DOCS.values()):
        text = (ROOT / "docs" / "protocols" / name).read_text(encoding="utf-8")
        assert not set(CLAUSE_ID.findall(text)) - known


def call_id_of(row: Row) -> str | None:
    body = row.request.get("json")
    call = body.get("request", body) if isinstance(body, dict) else None
    call_id = call.get("call_id") if isinstance(call, dict) else None
    return call_id if isinstance(call_id, str) else None


def test_successful_rows_do_not_share_a_call_id_unless_the_documents_do() -> None:
    """A call_id is an idempotency key: with another input it would be refused."""
    rows = [row for row in all_rows() if not row.example and row.expect.get("status") == 200]
    used = Counter(call_id for row in rows if (call_id := call_id_of(row)))
    assert not [call_id for call_id, times in used.items() if times > 1]


@with_seeds
@pytest.mark.parametrize("wire", WIRES)
def test_every_sentence_that_asks_for_something_has_a_clause(wire: str) -> None:
    covered = {clause.source for clause in load(wire).clauses}
    asked = asking(wire, seed(wire))
    assert asked
    assert not [sentence for sentence in asked if digest(sentence) not in covered]


@with_seeds
@pytest.mark.parametrize("wire", WIRES)
def test_every_source_is_a_sentence_of_the_document(wire: str) -> None:
    written = {digest(sentence) for sentence in sentences(seed(wire))}
    assert not [clause.id for clause in load(wire).clauses if clause.source and clause.source not in written]


@with_seeds
@pytest.mark.parametrize("wire", WIRES)
def test_clauses_are_in_our_own_words(wire: str) -> None:
    written = " ".join(seed(wire).split()).lower()
    assert not [c.id for c in load(wire).clauses if " ".join(c.says.split()).lower().rstrip(".") in written]


@with_schemas
@pytest.mark.parametrize("wire", WIRES)
def test_every_pointer_points_into_the_published_document(wire: str) -> None:
    for clause in load(wire).clauses:
        if clause.pointer is not None:
            resolve(published(wire), clause.pointer)
