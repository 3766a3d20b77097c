"""What a client makes of results whose text is not all there: the value is, as the tool gave it."""

from typing import Any

import msgspec
import pytest

from tests.server.hostile import kit
from toolyard.model.call import Outcome
from toolyard.wires.mcp.client_results import Listed, value_of
from toolyard.wires.mcp.outcomes import encode_outcome
from toolyard.wires.mcp.revisions import REVISIONS
from toolyard.wires.model_text import ModelText

SAY, TELL = (next(tool for tool in kit.tools if tool.name == name) for name in ("Say", "Tell"))


@pytest.mark.parametrize(("tool", "value"), [(SAY, "x" * 5000), (TELL, {"result": "x" * 5000})])
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_a_preview_does_not_hide_which_value_is_wrapped(tool: Any, value: Any, revision: str) -> None:
    outcome = Outcome("c", 1.0, msgspec.Raw(msgspec.json.encode(value)))
    result = msgspec.json.decode(encode_outcome(tool, outcome, REVISIONS[revision], ModelText("escape", 1024)))
    listed = Listed("tool", "Bad.Tool", "1.0.0", wraps=revision != "2026-07-28")
    assert "toolyard/preview" in result["_meta"]
    assert value_of(result, listed, None, lambda schema: None) == value
