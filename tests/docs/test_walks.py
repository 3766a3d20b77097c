"""`docs/design/walks.md` tells the way of real calls: each step is made, in this order."""

import json
import re
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from .markdown import ROOT

PAGE = ROOT / "docs" / "design" / "walks.md"
SECTIONS = {
    "A call over OXP": "oxp",
    "A call with a key": "keyed",
    "A call over MCP (2026-07-28)": "mcp",
    "Claim": "worker: claim",
    "Answer": "worker: answer",
    "Made, and told to wait": "approval: refused",
    "Approved, and run": "approval: approved",
    "Collected": "approval: collected",
}
Step = tuple[str, str]


def told() -> dict[str, list[Step]]:
    """The steps of each walk that has any, by its heading."""
    found: dict[str, list[Step]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif step := re.fullmatch(r"\| .* \| `([\w/.]+)` \| `([\w.<>]+)` \|", line):
            found.setdefault(heading, []).append((step[1], step[2]))
    return found


@cache
def walked() -> dict[str, Any]:
    """What real calls do, in a process of their own."""
    done = subprocess.run([sys.executable, "-m", "tests.docs.walks"], cwd=ROOT, capture_output=True, check=True)
    walks: dict[str, Any] = json.loads(done.stdout)
    return walks


def test_every_walk_is_told() -> None:
    assert set(told()) == set(SECTIONS)
    assert set(walked()) == set(SECTIONS.values())


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_walk_goes_as_it_is_told(heading: str) -> None:
    made = [tuple(step) for step in walked()[SECTIONS[heading]]]
    for step in told()[heading]:
        assert step in made, f"{heading}: {' '.join(step)} is not made, or not here"
        made = made[made.index(step) + 1 :]


def test_a_call_over_mcp_that_ends_at_once_takes_no_step_in_vain() -> None:
    """Its parameters are decoded with the message, its tool is found once, and nothing is made for a stream."""
    made = [function for _, function in walked()["mcp"]]
    assert made.count("Catalogue.named") == 1
    assert not {"decode_message", "decode_params", "decode_as"} & set(made)
    assert not [function for function in made if function.startswith(("HttpOutlet.", "Events.", "HttpRequest.outlet"))]
