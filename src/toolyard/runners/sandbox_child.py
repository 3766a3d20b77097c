"""The child process of the sandbox: compiles schemas and checks values, one question after another.

Started as `python -m toolyard.running.sandbox_child FD`. Whatever it is asked, it comes to its end by itself: it has so
much memory, and for each question so much processor time. It runs nobody's code.
"""

import resource
import socket
import sys
from collections.abc import Callable
from functools import lru_cache
from math import ceil
from typing import Any

import msgspec

from ..model.errors import Problem
from ..model.json_value import decode
from .sandbox import ADDRESS_SPACE, CPU_S, Explained, SandboxRequest, SchemaVerdict, framed
from .validation import compiled, problems_with

LARGEST = 200 * 2**20
"""A child that has grown so large makes room for a new one."""
MOST_SHOWN = 1000
_decode = decode


@lru_cache(maxsize=16)
def _validator(schema: bytes) -> Any:
    return compiled(_decode(schema))


def serve(link: socket.socket) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    largest = max(LARGEST, _largest_yet())  # a new process starts with what the server had
    with link.makefile("rb") as incoming:
        while len(prefix := incoming.read(4)) == 4:
            ask = msgspec.msgpack.decode(incoming.read(int.from_bytes(prefix, "big")), type=SandboxRequest)
            _start_clock()
            answer(ask, lambda said: link.sendall(framed(said)))
            if _largest_yet() > largest:
                return


def _largest_yet() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _start_clock() -> None:
    """The system ends a process that has used more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(used.ru_utime + used.ru_stime) + CPU_S, hard))


def answer(ask: SandboxRequest, say: Callable[[SchemaVerdict | Explained], None]) -> None:
    """First whether it fits, so that this is known whatever becomes of the explanation."""
    try:
        validator = _validator(ask.schema)
    except ValueError as error:
        say(SchemaVerdict(str(error)))
        return
    if ask.value is None:
        say(SchemaVerdict())
        return
    value = _decode(ask.value)
    fits = bool(validator.is_valid(value))
    say(SchemaVerdict(fits=fits))
    if not fits:
        say(Explained(tuple(map(_shortened, problems_with(validator, _decode(ask.schema), value)))))


def _shortened(problem: Problem) -> Problem:
    """Without what nobody would show."""
    shown = len(msgspec.json.encode(problem.got)) <= MOST_SHOWN
    return problem if shown else Problem(problem.path, problem.sentence, missing=problem.missing)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
