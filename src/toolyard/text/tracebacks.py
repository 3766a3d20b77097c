"""Tracebacks of bounded length, made in bounded time.

An exception is an author's: its text may be a whole input, its chain as long as a loop ran, its group as large as a
batch. Python formats all of it, and whoever formats it on the event loop holds everybody up. What is of ordinary size
looks here as Python writes it; of anything else, the beginning and the end is shown, with how much is left out.
"""

import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Any

MOST_EXCEPTIONS = 16
"""How many exceptions of a chain, and of all groups in it, are formatted."""
MOST_FRAMES = 100
"""How many frames of each."""
LONGEST_TEXT = 4 * 2**10
"""How many characters of each message, and of a line of source."""
LONGEST_NOTE = 16 * 2**10
"""How many characters of each note; the traceback of another process is one."""
MOST_NOTES = 4
LONGEST = 48 * 2**10
"""How many characters of it all."""
UNSHOWN = "<exception str() failed>"
Excerpt = Callable[[str, int], str]
"""Cuts a text to a length, and hides what a cut would split."""


def traceback_text(raised: BaseException, excerpt: Excerpt) -> str:
    """An exception with its traceback and its causes, without a line end."""
    if _is_ordinary(raised):
        lines = traceback.format_exception(type(raised), raised, raised.__traceback__)
    else:
        lines = list(_shortened(raised, excerpt))
    return excerpt("".join(lines).rstrip("\n"), LONGEST)


def message_of(raised: BaseException) -> str:
    """The exception's message, whatever its author's `__str__` does."""
    try:
        return str(raised)
    except BaseException:  # the author's own
        return UNSHOWN


def _is_ordinary(raised: BaseException) -> bool:
    """Whether Python may format an exception, with everything that it would show along with it."""
    found: dict[int, BaseException] = {}
    left = [raised]
    while left:
        each = left.pop()
        if id(each) in found:
            continue
        found[id(each)] = each
        if len(found) > MOST_EXCEPTIONS or not _is_small(each):
            return False
        left += [linked for linked in (each.__cause__, each.__context__) if linked is not None]
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions
    return True


def _is_small(raised: BaseException) -> bool:
    if isinstance(raised, BaseExceptionGroup) and len(raised.exceptions) > MOST_EXCEPTIONS:
        return False
    texts: list[Any] = [message_of(raised)]
    if isinstance(raised, SyntaxError):
        texts += [raised.text, raised.msg, raised.filename]
    notes = _notes(raised)
    return (
        all(text is None or (isinstance(text, str) and len(text) <= LONGEST_TEXT) for text in texts)
        and len(notes) <= MOST_NOTES
        and all(isinstance(note, str) and len(note) <= LONGEST_NOTE for note in notes)
        and sum(1 for _ in islice(traceback.walk_tb(raised.__traceback__), MOST_FRAMES + 1)) <= MOST_FRAMES
    )


def _notes(raised: BaseException) -> list[Any]:
    notes = getattr(raised, "__notes__", None)
    return notes if isinstance(notes, list) else []


def _shortened(raised: BaseException, excerpt: Excerpt) -> Iterator[str]:
    """The last exceptions of a chain, the one that was raised at the end, as Python orders them."""
    chain = list(islice(_chain(raised), MOST_EXCEPTIONS // 2 + 1))
    if len(chain) > MOST_EXCEPTIONS // 2:
        _, link = chain.pop()
        yield f"[... earlier exceptions are left out ...]\n\n{link}\n\n"
    for each, link in reversed(chain):
        yield from _alone(each, excerpt)
        if link:
            yield f"\n{link}\n\n"


def _chain(raised: BaseException) -> Iterator[tuple[BaseException, str]]:
    """An exception, its cause, the cause of that and so on; each with what is said between it and the one before it
    here."""
    seen: set[int] = set()
    link, each = "", raised
    while id(each) not in seen:
        seen.add(id(each))
        yield each, link
        if each.__cause__ is not None:
            link, each = "The above exception was the direct cause of the following exception:", each.__cause__
        elif each.__context__ is not None and not each.__suppress_context__:
            link, each = "During handling of the above exception, another exception occurred:", each.__context__


def _alone(raised: BaseException, excerpt: Excerpt) -> Iterator[str]:
    """One exception without those that it is linked with."""
    if raised.__traceback__ is not None:
        yield "Traceback (most recent call last):\n"
        yield from _frames(raised.__traceback__, excerpt)
    if isinstance(raised, SyntaxError):
        yield excerpt(f'  File "{raised.filename}", line {raised.lineno}\n', LONGEST_TEXT)
        if isinstance(raised.text, str):
            yield f"    {excerpt(raised.text, LONGEST_TEXT).strip()}\n"
    yield _last_line(raised, excerpt)
    notes = _notes(raised)
    yield from (f"{excerpt(note, LONGEST_NOTE)}\n" for note in notes[:MOST_NOTES] if isinstance(note, str))
    if len(notes) > MOST_NOTES:
        yield f"[... {len(notes) - MOST_NOTES} more notes ...]\n"
    if isinstance(raised, BaseExceptionGroup):
        yield from (f"  | {_last_line(each, excerpt)}" for each in raised.exceptions[:MOST_EXCEPTIONS])
        if len(raised.exceptions) > MOST_EXCEPTIONS:
            yield f"  | [... {len(raised.exceptions) - MOST_EXCEPTIONS} more exceptions ...]\n"


def _frames(trace: TracebackType, excerpt: Excerpt) -> Iterator[str]:
    """The first and the last frames."""
    frames = traceback.walk_tb(trace)
    first = list(islice(frames, MOST_FRAMES // 2))
    last = deque(frames, MOST_FRAMES // 2)
    between = sum(1 for _ in traceback.walk_tb(trace)) - len(first) - len(last)
    yield from _written(first, excerpt)
    if between:
        yield f"  [... {between} more frames ...]\n"
    yield from _written(last, excerpt)


def _written(frames: Iterable[Any], excerpt: Excerpt) -> Iterator[str]:
    lines = traceback.StackSummary.extract(iter(frames)).format()
    return (excerpt(line, LONGEST_TEXT) for line in lines)


def _last_line(raised: BaseException, excerpt: Excerpt) -> str:
    kind = type(raised)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    text = excerpt(message_of(raised), LONGEST_TEXT)
    return f"{name}: {text}\n" if text else f"{name}\n"
