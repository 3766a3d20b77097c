"""Takes the steps of a row, one after another, against a real server."""

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from .matching import select
from .runner import Reply, check, headers_of, open_request, send
from .steps import Kept, Step, filled, request_of

PATIENCE_S = 15.0
POLL_S = 0.05
Ask = Callable[[str, Mapping[str, Any]], Reply]


def kept_from(step: Step, reply: Reply) -> Kept:
    found: Kept = {}
    for name, where in step.keep.items():
        source, _, header = where.partition(":")
        [found[name]] = [reply.headers[header.lower()]] if source == "header" else select(json.loads(reply.body), where)
    return found


def events_of(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Server-sent events; comments are left out."""
    event: dict[str, Any] = {}
    for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            event[name] = json.loads(value) if name == "data" and value else value
        elif not value and event:
            yield event
            event = {}


def read_events(base_url: str, request: Mapping[str, Any], count: int) -> Reply:
    """The first events of a stream, as a JSON list."""
    with open_request(base_url, request) as response:
        if response.status != 200:
            return Reply(response.status, headers_of(response), response.read())
        events = list(islice(events_of(response), count))
        return Reply(response.status, headers_of(response), json.dumps(events).encode())


def take_once(step: Step, base_url: str, kept: Kept, ask: Ask) -> list[str]:
    """Problems, none if all is well; then `kept` has what the step keeps."""
    request, started = request_of(step, kept), time.monotonic()
    with ThreadPoolExecutor(1) as elsewhere:
        if step.events:
            awaited = elsewhere.submit(read_events, base_url, request, step.events)
        else:
            awaited = elsewhere.submit(ask, base_url, request)
        problems = take_all(step.meanwhile, base_url, kept, ask)
        reply = awaited.result()
    took_s = time.monotonic() - started
    if step.within_s is not None and took_s > step.within_s:
        problems.append(f"the reply took {took_s:.1f} s")
    problems += check("lifecycle", filled(step.expect, kept), reply)
    if not problems:
        kept |= kept_from(step, reply)
    return problems


def take(step: Step, base_url: str, kept: Kept, ask: Ask) -> list[str]:
    """Once; until it is as expected; or for as long as it must stay so."""
    started = time.monotonic()
    while True:
        problems = take_once(step, base_url, kept, ask)
        again_s = PATIENCE_S if problems and step.until else 0.0 if problems else step.during_s
        if time.monotonic() >= started + again_s:
            return problems
        time.sleep(POLL_S)


def take_all(steps: Iterable[Step], base_url: str, kept: Kept, ask: Ask = send) -> list[str]:
    """Up to the first that goes wrong."""
    for number, step in enumerate(steps, 1):
        if problems := take(step, base_url, kept, ask):
            return [f"step {number}, {step.request['method']} {filled(step.request['path'], kept)}:", *problems]
    return []


def fresh() -> Kept:
    return {"unique": secrets.token_hex(4)}
