"""The sentences of the source documents that ask something of somebody.

The documents are not ours to copy. When they lie beside the checkout (`../shared/spec/seeds`), their
sentences are hashed, and each one that asks for something must be the `source` of a clause.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

SPEC = Path(__file__).resolve().parents[3] / "shared" / "spec"
SEEDS = SPEC / "seeds"
SEED_FILES = {
    "oxp": "oxp-1.0-call-tool.txt",
    "otc": "otc-1.0-call-tool.txt",
    "otc_draft": "otc-draft-rfc.txt",
    "lifecycle": "tool-call-lifecycle.txt",
    "mcp": "mcp-tools-2025-11-25.ja.txt",
}

MARKER = re.compile(r"^(?:[•*-]|\d+\.|#+) ")
END = re.compile(r"(?<=[.!?])(?<!e\.g\.)\s+(?=[A-Z*`])")
ASKS = re.compile(r"\b(?:MUST|SHOULD|MAY)\b")
LIFECYCLE_ASKS = re.compile(
    r"required$|^POST/|^(?:PENDING|PROCESSING|COMPLETE|ERROR)[A-Z]|^200|toolUseId"
    r"|\b(?:[Mm]ust|may|will|require|Use|uses|Send heartbeats|Stop|Without|When|Once|passes|marked|typical|confirm)\b"
)
MCP_ASKS = re.compile(
    r"^(?!.*次を[行満])"
    r"(?:.*\((?:MUST|SHOULD|MAY)\b|.*なければならない|.*(?:する|見せる|求める)$|未知の tool$|不正な request)"
)
DRAFT_ASKS = re.compile(r"\b(?:MUST|SHOULD|MAY|must|should)\b|\(required\)")


def sentences(text: str) -> Iterator[str]:
    """Each sentence, white space made single, without the list marker or heading marks before it."""
    for line in text.splitlines():
        plain = MARKER.sub("", " ".join(line.split()))
        yield from (sentence for sentence in END.split(plain) if sentence)


def digest(sentence: str) -> str:
    return hashlib.sha256(sentence.encode("utf-8")).hexdigest()[:12]


def asking(wire: str, text: str) -> list[str]:
    """The sentences that ask for something; the draft also writes `must` small and `(required)`, the lifecycle's page
    hardly ever says it in such words at all, and the page about MCP's tools is in Japanese."""
    pattern = {"otc_draft": DRAFT_ASKS, "lifecycle": LIFECYCLE_ASKS, "mcp": MCP_ASKS}.get(wire, ASKS)
    return [sentence for sentence in sentences(text) if pattern.search(sentence)]


def seed(wire: str) -> str:
    return (SEEDS / SEED_FILES[wire]).read_text(encoding="utf-8")
