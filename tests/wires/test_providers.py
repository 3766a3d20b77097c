"""Messages of two providers: tool uses out, results in."""

import json
from typing import Any, get_args

import msgspec
import pytest

from toolyard.model.errors import MalformedRequest, ToolError
from toolyard.model.session import ToolUse
from toolyard.wires.lifecycle.provider_messages import DEEPEST, FORMATS, Format, decode_message, encode_results

from .records import complete, failed
from .refusals import problems


def use(id: str = "t-1", name: str = "find", input: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": {} if input is None else input}


def function(id: str = "t-1", name: str = "find", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def anthropic(*content: Any) -> bytes:
    return msgspec.json.encode({"role": "assistant", "content": content})


def openai(*calls: Any, **members: Any) -> bytes:
    return msgspec.json.encode({"role": "assistant", "content": None, "tool_calls": calls} | members)


# -- tool uses --------------------------------------------------------------------------------------


def test_tool_uses_are_found_among_other_blocks() -> None:
    body = anthropic(
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        use("t-1", input={"near": "harbour"}),
        {"type": "text", "text": "and"},
        use("t-2", "Maps.show"),
        {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
    )
    assert decode_message(body) == [ToolUse("t-1", "find", {"near": "harbour"}), ToolUse("t-2", "Maps.show")]


def test_tool_calls_have_their_arguments_as_text() -> None:
    body = openai(function("t-1", arguments='{"near": "harbour"}'), function("t-2", arguments=" "))
    assert decode_message(body) == [ToolUse("t-1", "find", {"near": "harbour"}), ToolUse("t-2", "find")]
    assert decode_message(openai(function(arguments=""))) == [ToolUse("t-1", "find")]


@pytest.mark.parametrize(
    "message",
    [
        {"content": "Hello"},
        {"content": ""},
        {"content": []},
        {"content": None},
        {"content": [{"type": "text", "text": "Hello"}]},
        {"content": None, "tool_calls": None},
        {"content": "Hello", "tool_calls": []},
        {"tool_calls": []},
    ],
)
def test_a_message_may_use_no_tools(message: dict[str, Any]) -> None:
    assert decode_message(msgspec.json.encode({"role": "assistant", **message})) == []


def test_what_providers_add_to_a_message_is_left_aside() -> None:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [use() | {"cache_control": {"type": "ephemeral"}, "caller": {"type": "direct"}}],
        "stop_reason": "tool_use",
        "usage": {"output_tokens": 5},
    }
    assert decode_message(msgspec.json.encode(body)) == [ToolUse("t-1", "find")]
    call = function() | {"index": 0}
    assert decode_message(openai(call, refusal=None, annotations=[])) == [ToolUse("t-1", "find")]
    del call["type"]
    assert decode_message(openai(call)) == [ToolUse("t-1", "find")]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ('{"near": ', "not valid JSON"),
        ("near the harbour", "not valid JSON"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": 1e999}', "not valid JSON"),
        ('{"a": "\\ud800"}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('"text"', "must be a JSON object"),
        ('{"a":' + "[" * DEEPEST + "]" * DEEPEST + "}", "nested too deeply"),
    ],
)
def test_arguments_that_cannot_be_read_are_a_problem_of_that_tool_use(arguments: str, sentence: str) -> None:
    good, bad = decode_message(openai(function("t-1"), function("t-2", arguments=arguments)))
    assert good == ToolUse("t-1", "find")
    assert (bad.id, bad.name, bad.input, bad.raw) == ("t-2", "find", {}, arguments)
    assert bad.problem is not None
    assert sentence in bad.problem


def test_arguments_may_be_as_deep_as_any_request() -> None:
    levels = DEEPEST - 2
    (read,) = decode_message(openai(function(arguments='{"a":' + "[" * levels + "]" * levels + "}")))
    assert read.problem is None


@pytest.mark.parametrize("input", [[1], "text", 5, True])
def test_an_input_that_is_no_object_is_a_problem_of_that_tool_use(input: Any) -> None:
    (read,) = decode_message(anthropic(use(input=input)))
    assert (read.input, read.raw) == ({}, msgspec.json.encode(input).decode())
    assert read.problem == "The input must be a JSON object"


def test_a_tool_that_was_called_with_text_gets_a_result_too() -> None:
    call = {"id": "t-1", "type": "custom", "custom": {"name": "find", "input": "the harbour"}}
    (read,) = decode_message(openai(call))
    assert (read.name, read.raw) == ("find", "the harbour")
    assert read.problem is not None


def test_the_same_tool_use_twice_is_one() -> None:
    assert len(decode_message(anthropic(use(input={"a": 1, "b": 2}), use(input={"b": 2, "a": 1})))) == 1
    both = {"role": "assistant", "content": [use()], "tool_calls": [function()]}
    assert len(decode_message(msgspec.json.encode(both))) == 1


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (anthropic(use(), use(input={"a": 1})), "content[1].id"),
        (anthropic(use(), use(name="other")), "content[1].id"),
        (anthropic(use(input={"a": 1}), use(input={"a": True})), "content[1].id"),
        (openai(function(), function(arguments="[")), "tool_calls[1].id"),
    ],
)
def test_an_id_stands_for_one_tool_use(body: bytes, wrong: str) -> None:
    assert problems(decode_message, body).keys() == {wrong}


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ({}, {"role", "content"}),
        ({"role": "assistant"}, {"content"}),
        ({"role": "user", "content": "x"}, {"role"}),
        ({"role": "assistant", "content": 5}, {"content"}),
        ({"role": "assistant", "content": ["x"]}, {"content[0]"}),
        ({"role": "assistant", "content": [{"text": "x"}]}, {"content[0].type"}),
        (
            {"role": "assistant", "content": [{"type": "tool_use"}]},
            {"content[0].id", "content[0].name", "content[0].input"},
        ),
        ({"role": "assistant", "content": [use(id="")]}, {"content[0].id"}),
        ({"role": "assistant", "content": [use(id="a\n")]}, {"content[0].id"}),
        ({"role": "assistant", "content": [use(id="a" * 257)]}, {"content[0].id"}),
        ({"role": "assistant", "content": [use() | {"name": 5}]}, {"content[0].name"}),
        ({"role": "assistant", "tool_calls": {}}, {"tool_calls"}),
        ({"role": "assistant", "tool_calls": [5]}, {"tool_calls[0]"}),
        ({"role": "assistant", "tool_calls": [function(arguments={})]}, {"tool_calls[0].function.arguments"}),
        ({"role": "assistant", "tool_calls": [{"id": "t", "type": "function"}]}, {"tool_calls[0].function"}),
        ({"role": "assistant", "tool_calls": [function() | {"type": "magic"}]}, {"tool_calls[0].type"}),
    ],
)
def test_a_message_that_is_not_one_says_where(message: Any, wrong: set[str]) -> None:
    assert problems(decode_message, msgspec.json.encode(message)).keys() == wrong


def test_a_message_that_is_not_json_is_malformed() -> None:
    with pytest.raises(MalformedRequest):
        decode_message(b'{"role": "assistant"')


# -- results ----------------------------------------------------------------------------------------

FAILED = failed(
    ToolError("No access", developer_message="secret", additional_prompt_content="Ask for it"), request="t-2"
)


def test_there_is_one_result_for_each_tool_use_in_order() -> None:
    calls = [complete({"locations": [1, None]}), FAILED]
    assert encode_results("anthropic", calls) == {
        "message": {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t-1",
                    "content": '{"locations":[1,null]}',
                    "is_error": False,
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "t-2",
                    "content": "No access\nAsk for it",
                    "is_error": True,
                },
            ],
        }
    }
    assert encode_results("openai", calls) == {
        "messages": [
            {"role": "tool", "tool_call_id": "t-1", "content": '{"locations":[1,null]}'},
            {"role": "tool", "tool_call_id": "t-2", "content": "No access\nAsk for it"},
        ]
    }


@pytest.mark.parametrize("format", get_args(Format))
def test_what_is_for_developers_does_not_reach_a_model(format: Format) -> None:
    assert "secret" not in json.dumps(encode_results(format, [FAILED]))
    assert set(FORMATS) == set(get_args(Format))


@pytest.mark.parametrize(
    ("value", "content"),
    [('plain "text"\nü', 'plain "text"\nü'), ("", ""), (15, "15"), (None, "null"), (["a"], '["a"]'), ({}, "{}")],
)
@pytest.mark.parametrize("queue", ["node", "worker"])
def test_a_tool_of_the_server_that_returns_text_is_read_as_text(value: Any, content: str, queue: str) -> None:
    (message,) = encode_results("openai", [complete(value, queue=queue)])["messages"]
    assert message["content"] == content


def test_a_result_of_a_session_is_its_json_text() -> None:
    (message,) = encode_results("openai", [complete("text")])["messages"]
    assert message["content"] == '"text"'
