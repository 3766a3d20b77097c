"""Messages of MCP: a call that is decoded in one go says what it would say in two steps."""

from collections.abc import Callable

import msgspec
import pytest

from toolyard.wires.mcp.envelope import RpcError, decode_message
from toolyard.wires.mcp.params import CallMessage, CallParams, Message, decode_incoming, decode_params

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}'
SOUND = [
    CALL % b'{"name":"Kit_Add"}',
    CALL % b'{"name":"Kit_Add","arguments":{"a":1e308,"b":[1e-308,-0.0,12345678901234567890]}}',
    CALL % b'{"name":"Kit_Add","arguments":{"a":1,"a":2},"name":"Kit_Other"}',
    CALL % b'{"name":"Kit_Add","_meta":{"toolyard/arguments":{"c":3},"progressToken":"p","more":[]},"task":{"ttl":5}}',
    CALL % b'{"name":"tools/list","arguments":{"method":"tools/call"},"requestState":"s","inputResponses":{"q":{}}}',
    b'{"params":{"name":"Kit_Add"},"result":{},"method":"tools/call","id":"one","jsonrpc":"2.0","more":1}',
]
"""Calls that are decoded in one go."""
ODD = [
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"a"},"params":{"name":"b"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools\\/call","params":{"name":"Kit_Add"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":7,"params":{"name":"Kit_Add"}}',
    CALL % b"{}",
    CALL % b"[]",
    CALL % b'{"name":7}',
    CALL % b'{"name":"Kit_Add","arguments":[]}',
    CALL % b'{"name":"Kit_Add","arguments":null}',
    CALL % b'{"name":"Kit_Add","arguments":{"a":1e999}}',
    CALL % b'{"name":"Kit_Add","_meta":{"toolyard/userId":"%b"}}' % (b"u" * 1000),
    CALL % b'{"name":"Kit_Add","arguments":{"a":%b}}' % (b"[" * 5000 + b"]" * 5000),
    CALL % b'{"name":"Kit_Add"',
    CALL % b'{"name":"\xff"}',
    b'{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"Kit_Add"}}',
    b'{"id":1,"method":"tools/call","params":{"name":"Kit_Add"}}',
    b'{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"Kit_Add"}}',
    b'{"jsonrpc":"2.0","id":true,"method":"tools/call","params":{"name":"Kit_Add"}}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"Kit_Add"}}',
    b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"Kit_Add"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Kit_Add"},"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"tools/call"}}',
    b'"tools/call"',
    b"",
]


def read(decode: Callable[[bytes], Message], body: bytes) -> object:
    """All that whoever gets the message can see of it."""
    try:
        message = decode(body)
        params = decode_params(message, CallParams)
    except RpcError as error:
        return error.code, error.message, error.status
    return message.jsonrpc, message.id, message.method, msgspec.to_builtins(params)


@pytest.mark.parametrize("body", SOUND + ODD)
def test_a_call_says_the_same_however_it_is_decoded(body: bytes) -> None:
    assert read(decode_incoming, body) == read(decode_message, body)


@pytest.mark.parametrize("body", SOUND)
def test_a_call_is_decoded_in_one_go(body: bytes) -> None:
    assert type(decode_incoming(body)) is CallMessage
