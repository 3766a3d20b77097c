"""Results of other MCP servers, as each revision shows them: the content, the value and the `_meta` as they came."""

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from tests.server.hostile import kit
from tests.server.mcp.schemas import check_message
from toolyard.model.call import Outcome, ResultExtra
from toolyard.model.errors import ToolError
from toolyard.model.tool import Tool
from toolyard.wires.contract import OxpFamilyWire
from toolyard.wires.lifecycle.calls import call_json
from toolyard.wires.mcp.client_results import Listed, value_of
from toolyard.wires.mcp.outcomes import AS_IT_IS, encode_outcome
from toolyard.wires.mcp.revisions import REVISIONS
from toolyard.wires.mcp.tools import listed_output
from toolyard.wires.model_text import ModelText
from toolyard.wires.oxp import otc, otc_draft, oxp

from .records import complete

SAY, TELL = (next(tool for tool in kit.tools if tool.name == name) for name in ("Say", "Tell"))
"""They return a text and an object."""
LISTED = replace(TELL, output_schema={"type": "object"})
ANYTHING = replace(TELL, output_schema={"anyOf": [{"type": "object"}, {"type": "string"}]})
UNLISTED = replace(TELL, output_schema={}, returns_content=True)
"""With an output schema, with one that older revisions list wrapped, and without."""
OLDER = ["2025-03-26", "2025-06-18", "2025-11-25"]
STRUCTURED = [*OLDER[1:], "2026-07-28"]
EVERY = [*OLDER, "2026-07-28"]
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
TEXT = {"type": "text", "text": "It is warm", "annotations": {"priority": 1}, "_meta": {"theirs": 1}}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 3}
RESOURCE = {"type": "resource", "resource": {"uri": "file:///b", "text": "b"}}
BLOCKS = [TEXT, IMAGE, LINK, RESOURCE]
HIDDEN = "plain\u202etext"


def outcome(value: Any, **extra: Any) -> Outcome:
    return Outcome("c", 1.0, Raw(msgspec.json.encode(value)), extra=encoded(**extra))


def failed(message: str, **extra: Any) -> Outcome:
    error = ToolError(message, can_retry=False)
    return Outcome("c", 1.0, error=error, extra=encoded(**extra))


def encoded(**extra: Any) -> Raw:
    members: Any = {
        name: each if name == "is_content" else Raw(msgspec.json.encode(each)) for name, each in extra.items()
    }
    return Raw(msgspec.json.encode(ResultExtra(**members)))


def shown(made: Outcome, revision: str, tool: Tool | None = LISTED, policy: ModelText = AS_IT_IS) -> Any:
    result = msgspec.json.decode(encode_outcome(tool, made, REVISIONS[revision], policy))
    check_message({"jsonrpc": "2.0", "id": 1, "result": result}, revision, "tools/call")
    return result


# --- content and value ----------------------------------------------------------------------------


@pytest.mark.parametrize("revision", STRUCTURED)
def test_blocks_and_value_go_out_as_they_came(revision: str) -> None:
    result = shown(outcome({"degrees": 20}, content=BLOCKS), revision)
    assert result["content"] == BLOCKS
    assert result["structuredContent"] == {"degrees": 20}
    assert "isError" not in result


def test_a_revision_gets_what_it_knows() -> None:
    result = shown(outcome({"degrees": 20}, content=BLOCKS), "2025-03-26")
    assert result["content"] == [TEXT, IMAGE, {"type": "text", "text": "a: file:///a"}, RESOURCE]
    assert "structuredContent" not in result


@pytest.mark.parametrize("tool", [LISTED, ANYTHING, UNLISTED, None])
@pytest.mark.parametrize("revision", EVERY)
def test_a_value_that_is_content_is_no_structured_content(revision: str, tool: Tool | None) -> None:
    result = shown(outcome([TEXT, IMAGE], is_content=True), revision, tool)
    assert result["content"] == [TEXT, IMAGE]
    assert "structuredContent" not in result


@pytest.mark.parametrize("tool", [LISTED, UNLISTED, None])
@pytest.mark.parametrize("revision", STRUCTURED)
def test_an_object_is_not_wrapped(revision: str, tool: Tool | None) -> None:
    assert shown(outcome({"result": 5}, content=[TEXT]), revision, tool)["structuredContent"] == {"result": 5}


@pytest.mark.parametrize("tool", [ANYTHING, UNLISTED, None])
@pytest.mark.parametrize("revision", OLDER[1:])
def test_what_is_no_object_is_wrapped_for_older_revisions(revision: str, tool: Tool | None) -> None:
    assert shown(outcome("five", content=[TEXT]), revision, tool)["structuredContent"] == {"result": "five"}
    assert shown(outcome("five", content=[TEXT]), "2026-07-28", tool)["structuredContent"] == "five"


@pytest.mark.parametrize("value", [{"degrees": 20}, "five"])
@pytest.mark.parametrize("revision", STRUCTURED)
def test_a_value_fits_the_schema_that_is_listed(revision: str, value: Any) -> None:
    schema = listed_output(ANYTHING, REVISIONS[revision])
    result = shown(outcome(value, content=[TEXT]), revision, ANYTHING)
    listed = Listed("tool", "Bad.Tell", "1.0.0", schema, wraps=revision != "2026-07-28")
    assert value_of(result, listed, schema, jsonschema_rs.validator_for) == value


@pytest.mark.parametrize("text", ["5", '{"result":5}', "It is five"])
@pytest.mark.parametrize("value", [{"result": 5}, {"result": {"result": 5}}, 5, "5", None])
@pytest.mark.parametrize("tool", [ANYTHING, UNLISTED])
@pytest.mark.parametrize("revision", STRUCTURED)
def test_a_client_of_ours_gets_the_value_whatever_stands_beside_it(
    revision: str, tool: Tool, value: Any, text: str
) -> None:
    result = shown(outcome(value, content=[{"type": "text", "text": text}]), revision, tool)
    listed = Listed("tool", "Bad.Tell", "1.0.0", wraps=revision != "2026-07-28")
    assert value_of(result, listed, None, lambda schema: None) == value


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize("tool", [SAY, TELL, UNLISTED, None])
def test_what_has_no_content_of_its_own_is_shown_as_if_it_had_no_extra(revision: str, tool: Tool | None) -> None:
    value = "a text" if tool is SAY else {"type": "text", "text": "a text"}
    plain = Outcome("c", 1.0, Raw(msgspec.json.encode(value)))
    with_meta = shown(outcome(value, meta={"theirs": 1}), revision, tool)
    assert with_meta["_meta"].pop("theirs") == 1
    assert {**with_meta, "_meta": with_meta["_meta"] or None} == {"_meta": None, **shown(plain, revision, tool)}


def test_a_tool_that_returns_nothing_has_no_content() -> None:
    assert shown(outcome(None, meta={"theirs": 1}), "2025-11-25", replace(TELL, output_schema=None))["content"] == []


@pytest.mark.parametrize(
    "strange",
    [
        {"type": "text"},
        {"type": "text", "text": 7},
        {"type": "image", "data": "aGk="},
        {"type": "audio"},
        {"type": "resource", "uri": "file:///a"},
        {"type": "resource", "resource": "file:///a"},
        {"type": "resource", "resource": {"text": "a"}},
        {"type": "resource_link"},
        {"type": "hologram", "rays": 7},
        {"type": ["text"], "text": "a"},
        {},
        7,
        None,
        [TEXT],
    ],
)
@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize("policy", [ModelText(), ModelText("escape", 10)])
def test_a_block_that_is_none_is_told_as_text(revision: str, strange: Any, policy: ModelText) -> None:
    result = shown(outcome({}, content=[strange, IMAGE]), revision, policy=policy)
    first, *_ = result["content"]
    assert first["type"] == "text"
    assert IMAGE in result["content"]
    if policy.safe_text == "off":
        assert msgspec.json.decode(first["text"]) == strange


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", EVERY)
def test_a_failure_has_its_own_content(revision: str) -> None:
    result = shown(failed("It broke", content=[TEXT, IMAGE], meta={"theirs": 1}), revision)
    assert (result["content"], result["isError"]) == ([TEXT, IMAGE], True)
    assert "structuredContent" not in result
    assert result["_meta"]["toolyard/error"] == {"can_retry": False}
    assert result["_meta"]["theirs"] == 1


@pytest.mark.parametrize("revision", EVERY)
def test_a_failure_without_content_says_its_message(revision: str) -> None:
    result = shown(failed("It broke", meta={"theirs": 1}), revision)
    assert result["content"] == [{"type": "text", "text": "It broke"}]
    assert result["isError"] is True
    assert result["_meta"]["theirs"] == 1


# --- _meta ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", EVERY)
def test_theirs_is_untouched_but_for_what_is_ours_to_say(revision: str) -> None:
    theirs = {"progress": [1, {"deep": None}], "com.example/id": "x", "io.modelcontextprotocol/other": 1.5}
    ours = {
        "toolyard/preview": {"uri": "toolyard://calls/other/content"},
        "toolyard/anything": 1,
        SERVER_INFO: {"name": "theirs"},
        "io.modelcontextprotocol/related-task": {"taskId": "theirs"},
        "io.modelcontextprotocol/subscriptionId": "theirs",
    }
    meta = shown(outcome({}, content=[], meta={**theirs, **ours}), revision)["_meta"]
    if revision == "2026-07-28":
        assert meta.pop(SERVER_INFO)["name"] == "toolyard"
    assert meta == theirs


@pytest.mark.parametrize("revision", OLDER)
def test_without_anything_to_say_there_is_none(revision: str) -> None:
    assert "_meta" not in shown(outcome({}, content=[TEXT], meta={"toolyard/x": 1}), revision)


# --- texts for models -----------------------------------------------------------------------------


HIDING = [{"type": "text", "text": HIDDEN}, IMAGE]


@pytest.mark.parametrize(
    "made",
    [outcome({"a": HIDDEN}, content=HIDING), outcome(HIDING, is_content=True), failed("It broke", content=HIDING)],
)
@pytest.mark.parametrize("revision", EVERY)
def test_hidden_characters_are_spelled_out_in_texts_alone(revision: str, made: Outcome) -> None:
    result = shown(made, revision, policy=ModelText("escape"))
    assert result["content"] == [{"type": "text", "text": "plain\\u{202E}text"}, IMAGE]
    assert result["_meta"]["toolyard/escaped"] is True
    assert result.get("structuredContent", {}).get("a", HIDDEN) == HIDDEN
    flagged = shown(made, revision, policy=ModelText("flag"))
    assert flagged["content"][0]["text"] == HIDDEN
    assert flagged["_meta"]["toolyard/hidden"]


@pytest.mark.parametrize("revision", EVERY)
def test_long_texts_share_their_room_and_say_where_the_rest_is(revision: str) -> None:
    texts = [{"type": "text", "text": letter * 900} for letter in "ab"]
    made = outcome({"a": "x" * 5000}, content=[*texts, IMAGE], meta={"long": "y" * 5000})
    result = shown(made, revision, policy=ModelText("escape", 1024))
    first, second, image, end, link = result["content"]
    assert (first["text"], second["text"], image) == ("a" * 900, "b" * 124, IMAGE)
    assert "Read the resource toolyard://calls/c/content" in end["text"]
    assert "toolyard://calls/c/content" in str(link)
    assert result["_meta"]["toolyard/preview"] == {"bytes": 1800, "shown": 1024, "uri": "toolyard://calls/c/content"}
    assert result["_meta"]["long"] == "y" * 5000
    if revision != "2025-03-26":
        assert result["structuredContent"] == {"a": "x" * 5000}


def test_a_long_failure_is_cut_and_promises_nothing() -> None:
    made = failed("It broke", content=[{"type": "text", "text": "a" * 2000}])
    result = shown(made, "2025-11-25", policy=ModelText("escape", 1024))
    assert [each["type"] for each in result["content"]] == ["text", "text"]
    assert result["content"][1]["text"] == "[These are the first 1024 of 2000 bytes.]"


# --- wires that have one value --------------------------------------------------------------------


@pytest.mark.parametrize("wire", [oxp.FLAT, otc.OTC, otc_draft.DRAFT])
def test_other_wires_show_the_value_or_the_error(wire: OxpFamilyWire) -> None:
    for made in (outcome({"degrees": 20}, content=BLOCKS, meta={"theirs": 1}), failed("It broke", content=BLOCKS)):
        assert wire.encode_outcome(made).body == wire.encode_outcome(replace(made, extra=None)).body


def test_a_call_that_is_shown_has_the_content_beside_the_value() -> None:
    call = complete({"degrees": 20}, extra=bytes(encoded(content=BLOCKS, meta={"theirs": 1})))
    members = msgspec.json.decode(msgspec.json.encode(call_json(call)))
    assert (members["value"], members["content"]) == ({"degrees": 20}, BLOCKS)
    assert "content" not in call_json(complete([], extra=bytes(encoded(is_content=True))))
    assert "content" not in call_json(complete([]))
