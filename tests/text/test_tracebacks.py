"""Tracebacks: as Python writes them, and never long, whatever was raised."""

import json
import logging
import traceback
import tracemalloc
from collections.abc import Callable

import pytest

from toolyard.model.raised import named, text_of
from toolyard.server.http.logs import JsonLines, TextLines
from toolyard.text.log_scrubbing import begin, end, scrub_logs, traceback_of
from toolyard.text.scrubber import Scrubber
from toolyard.text.tracebacks import LONGEST

MUCH = 20_000_000


class Silent(Exception):
    def __str__(self) -> str:
        raise SystemExit


def chained(count: int, text: str = "y") -> Exception:
    raised = ValueError("first")
    for _ in range(count):
        following = ValueError(text)
        following.__cause__ = raised
        raised = following
    return raised


def noted(*notes: str) -> BaseException:
    raised = ValueError("noted")
    for note in notes:
        raised.add_note(note)
    return raised


def deep(levels: int) -> None:
    if levels:
        deep(levels - 1)
        return
    raise ValueError("at the bottom")


def raised_by(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except BaseException as raised:
        return raised
    raise AssertionError("nothing was raised")


def suppressed() -> None:
    try:
        raise KeyError("before")
    except KeyError:
        raise ValueError("after") from None


ORDINARY: dict[str, Callable[[], BaseException]] = {
    "plain": lambda: raised_by(lambda: deep(3)),
    "a typing error": lambda: raised_by(lambda: json.lods("")),  # type: ignore[attr-defined]
    "a cause": lambda: chained(3),
    "no context": lambda: raised_by(suppressed),
    "notes": lambda: noted("one", "two"),
    "a group": lambda: ExceptionGroup("both", [ValueError("a"), chained(2)]),
    "a syntax error": lambda: raised_by(lambda: compile("1 +\n", "f.py", "exec")),
    "no text": lambda: ValueError(),
    "an unwilling one": Silent,
}


@pytest.mark.parametrize("case", ORDINARY)
def test_what_is_of_ordinary_size_looks_as_python_writes_it(case: str) -> None:
    raised = ORDINARY[case]()
    assert traceback_of(raised) == "".join(traceback.format_exception(raised)).rstrip("\n")


def huge() -> Exception:
    return ValueError("e" * MUCH)


HUGE: dict[str, tuple[Callable[[], BaseException], list[str]]] = {
    "text": (huge, ["ValueError: ", "20000000 characters are left out"]),
    "text and cause": (lambda: chained(2, "z " * MUCH), ["first", "direct cause", "are left out"]),
    "chain": (lambda: chained(100_000), ["earlier exceptions are left out", "ValueError: y"]),
    "notes": (lambda: noted(*["note"] * 100_000), ["note", "more notes"]),
    "long note": (lambda: noted("n " * MUCH), ["noted", "are left out"]),
    "group": (lambda: ExceptionGroup("all", [ValueError(str(n)) for n in range(100_000)]), ["all", "more exceptions"]),
    "group of long ones": (lambda: ExceptionGroup("all", [huge()] * 5), ["all", "  | ValueError", "are left out"]),
    "groups in groups": (
        lambda: ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("x")] * 15)] * 15),
        ["outer", "inner"],
    ),
    "frames": (lambda: raised_by(lambda: deep(800)), ["more frames", "at the bottom"]),
    "line": (
        lambda: raised_by(lambda: compile("f('" + "1," * 2_000_000 + "' +)", "f.py", "exec")),
        ['File "f.py", line 1', "SyntaxError: "],
    ),
}


@pytest.mark.parametrize("case", HUGE)
def test_of_anything_else_little_is_shown_and_made(case: str) -> None:
    make, said = HUGE[case]
    raised = make()
    tracemalloc.start()
    try:
        text = traceback_of(raised)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [words for words in said if words not in text] == []
    assert len(text) <= LONGEST + 100
    assert peak < 2**21, "nothing that is as long as it was copied"


def test_a_message_is_cut_for_whoever_shows_it() -> None:
    assert len(text_of(huge())) < 5000
    assert named(huge()).startswith("ValueError: ")
    assert len(named(huge())) < 5000
    assert text_of(Silent()) == "it cannot be shown"


def record(message: str, *args: object, raised: BaseException | None = None) -> logging.LogRecord:
    info = None if raised is None else (type(raised), raised, raised.__traceback__)
    return logging.getLogRecordFactory()("x", logging.ERROR, "f", 1, message, args, info)


@pytest.mark.parametrize("lines", [TextLines(), JsonLines()])
@pytest.mark.parametrize("secrets", [[], [("KEY", "s3cr3t-value")]])
def test_any_line_of_the_log_is_cut(lines: logging.Formatter, secrets: list[tuple[str, str]]) -> None:
    scrub_logs()
    scrubber = Scrubber(secrets)
    if secrets:
        begin(scrubber)
    try:
        for made in (record("%s", "m " * MUCH), record("failed", raised=huge()), record("%d", "m " * MUCH)):
            if made.args is None:
                assert len(str(made.msg)) < 70_000
        line = lines.format(record("%s", "m " * MUCH, raised=huge()))
    finally:
        end(scrubber)
    assert 1000 < len(line) < 150_000
    assert "are left out" in line
