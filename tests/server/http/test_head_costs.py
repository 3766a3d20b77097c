"""What a request's head costs before it is known who sent it, whatever stands in it.

A server answers everybody on one loop, so that a head which takes a hundred times as long as another is a way to stop
it for all. The steps that Python takes until there is an answer are counted, as they are the same on every machine.
"""

import asyncio
import sys
from typing import Any

import pytest

from toolyard.server.app.compose import Yard
from toolyard.server.http.fast_path import FastPath
from toolyard.server.settings.table import exactly

from ..asking import DEADLINE_S
from .connection import connected

KEY = "ty_somebody0123456789abcdef0123456789"
MOST_STEPS = 700
"""A refusal takes a hundred and fifty, a page three hundred."""
LARGEST_REFUSAL = 1500
PAIRS = "; ".join(f"a{number}=b" for number in range(7000))
HEADS = {
    "escapes": ("/" + "%41" * 2700, ""),
    "escapes of characters": ("/" + "%C3%A9" * 1300, ""),
    "escapes of what is no text": ("/" + "%C3" * 2700, ""),
    "what only looks like escapes": ("/" + "%zz" * 2700, ""),
    "percent signs": ("/" + "%" * 8000, ""),
    "an escape in each segment": ("/%41" * 2000, ""),
    "segments": ("/x" * 4000, ""),
    "slashes": ("/" * 8000, ""),
    "dots": ("/.." * 2600, ""),
    "escaped dots": ("/%2e%2E" * 1100, ""),
    "segments below a prefix": ("/v1" + "/x" * 3900, ""),
    "segments of a page": ("/console" + "/x" * 3900, ""),
    "an escaped id": ("/v1/calls/" + "%41" * 2700, ""),
    "an escaped id of a page": ("/approvals/" + "%41" * 2700, ""),
    "a long id": ("/authorize/" + "x" * 8000, ""),
    "a long origin": ("/health", f"origin: http://{'a' * 60_000}\r\n"),
    "an origin of dots": ("/health", f"origin: http://{'a.' * 30_000}\r\n"),
    "a long origin of a page": ("/approvals/1", f"origin: http://{'a' * 60_000}\r\n"),
    "many cookies": ("/approvals/1", f"cookie: {PAIRS}\r\n"),
    "many cookies of a page": ("/console", f"cookie: {PAIRS}\r\n"),
    "many empty cookies": ("/approvals/1", f"cookie: {';' * 60_000}\r\n"),
    "a long cookie": ("/approvals/1", f"cookie: {'a' * 60_000}\r\n"),
    "many parameters": ("/tools?" + "&".join(f"a{number}=" for number in range(1100)), ""),
    "many empty parameters": ("/tools?" + "&" * 8000, ""),
    "an escaped query": ("/tools?a=" + "%41" * 2700, ""),
    "a long name of a server": ("/health", "", "a" * 60_000),
}


def head(path: str, more: str = "", host: str = "127.0.0.1:8000") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


def answered(*requests: bytes, **settings: Any) -> list[tuple[bytes, int]]:
    """The replies of a server to requests, one after the other, and how many steps each of them took."""

    async def scenario() -> list[tuple[bytes, int]]:
        yard = Yard([], exactly(api_keys=[f"somebody:{KEY}"], **settings))
        found = []
        try:
            for request in requests:
                found.append(await one(yard, request))
        finally:
            await yard.stop()
        return found

    async def one(yard: Yard, request: bytes) -> tuple[bytes, int]:
        protocol, line = connected(FastPath(yard.asgi))
        steps = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal steps
            steps += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            protocol.data_received(request)
            while protocol.tasks:  # without going round meanwhile: some wait for the ledger's thread
                await asyncio.wait(protocol.tasks)
            protocol.outbox.flush()
        finally:
            sys.setprofile(None)
        return line.written, steps

    return asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


@pytest.mark.parametrize("case", HEADS)
def test_no_head_takes_many_more_steps_than_an_ordinary_one(case: str) -> None:
    """The first request of each kind may load what nobody has asked for before, and Python may tidy up during one."""
    replies = answered(*[head(*HEADS[case])] * 4)
    assert all(reply.startswith(b"HTTP/1.1 ") for reply, _ in replies)
    assert min(steps for _, steps in replies) < MOST_STEPS


@pytest.mark.parametrize("case", [case for case in HEADS if "page" not in case and "cookie" not in case])
def test_a_refusal_does_not_repeat_what_was_sent(case: str) -> None:
    ((reply, _),) = answered(head(*HEADS[case]))
    assert len(reply) < LARGEST_REFUSAL
