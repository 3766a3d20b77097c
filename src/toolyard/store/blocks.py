"""Blocks of the ledger: many small calls that have ended, kept together as one row.

A call without a key that ended at once is promised to nobody, and nothing about it changes any more. As a row of its
own it would cost nearly as much as all of the server's other work: two dozen columns, three indexes, and objects that
wait for the writer. So it becomes a line, JSON that is encoded the moment the call ends, and the lines of a flush
are stored together, compressed (`docs/design/ledger.md` has the figures).

A block takes its numbers from the series of all calls, so that a number, a cursor and an order mean the same whether a
call is a row or a line. What a reader needs to find a call, or to pass a block by, stands beside the lines: whose calls
they are, of which tools, how they ended, and a short digest of each id.

Nothing here reads or writes a store: SQLite and PostgreSQL keep the same blocks.
"""

import logging
import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, islice
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from ..model.call import CallTool, Outcome
from ..model.caller import Caller
from ..model.json_value import decode_as
from ..model.lifecycle import State
from ..model.record import CallKey, CallRecord
from ..model.run import Run
from .values import Filter

FORMAT = 1
"""How the data of a block is written. A newer toolyard may write another, and goes on reading this one."""
MOST_LINES, MOST_BYTES = 1000, 256 * 1024
"""In a block. To show one call of it, all of it is read."""
MOST_SPAN = 20_000
"""How far apart the numbers of a block's calls may be. So far, and no further, is looked for the block of a number."""
SMALL = 4096
"""The most bytes of input and result together that become a line."""
MOST_NAMED = 32
"""So many different tools, tenants, wires and codes are named beside the lines; where there are more, none is."""
CHARGE = 1024
"""What a call is charged for beside its input; a result that is larger is charged for, too. As the triggers have it."""
SMALL_BLOCK, FEWEST_MERGED = 64, 8
"""Blocks of fewer lines than this are merged, so many of them at least."""
MOST_APART = 0.05
"""How far apart in time merged blocks may have been written, as a part of how long calls are kept: by so much longer a
block keeps its oldest call than it should."""
SUCCESS = "success"
NULL = Raw(b"null")
_encode = msgspec.json.Encoder().encode
_head = struct.Struct("<II")
_log = logging.getLogger("toolyard.ledger")


class CallLine(Struct, array_like=True, gc=False):
    """A call that has ended, as it is kept among others. Members may be added at the end, with a default: a line that
    was written before does not have them, and a toolyard that does not know them skips them."""

    call_id: str
    tenant: str
    subject: str
    user_id: str | None
    trace_id: str | None
    family: str
    wire: str
    tool: str
    reference: str
    on_lost: str
    code: str
    at_ms: int
    """When it ended, in milliseconds since 1970, by the clock of the node that ran it."""
    duration_ms: float
    effects: str | None
    input: Raw
    result: Raw
    """Its value, or the error that it ended with, as `code` says."""
    extra: Raw = Raw()
    """What there is beside it; empty for most calls, whose lines end before it."""

    @property
    def user(self) -> str:
        """Whom it was made for, as `Caller.user` has it."""
        return self.user_id or self.subject

    @property
    def beside(self) -> bytes | None:
        """What there is beside its result. A line that has more members after this one says null where there is
        nothing."""
        extra = bytes(self.extra)
        return extra if extra not in (b"", b"null") else None


class CallerShare(NamedTuple):
    """How many calls of a caller are in a block, and what they are charged for."""

    tenant: str
    subject: str
    calls: int
    charge: int


class BlockSummary(Struct):
    """What the calls of a block have among them. None: too many to be named."""

    tenants: list[str] | None
    tools: list[str] | None
    wires: list[str] | None
    codes: list[str] | None

    def may_have(self, wanted: Filter) -> bool:
        """Whether a call that is looked for may be in the block."""
        if wanted.state is State.ERROR and self.codes == [SUCCESS]:
            return False
        code = SUCCESS if wanted.state is State.COMPLETE else None
        asked = (
            (self.tenants, wanted.tenant),
            (self.tools, wanted.tool),
            (self.wires, wanted.wire),
            (self.codes, code),
        )
        return all(named is None or value is None or value in named for named, value in asked)


class CallBlock(Struct):
    """A block as it is kept, without the time of its writing, which is the store's own."""

    first: int
    last: int
    count: int
    failed: int
    first_id: str
    last_id: str
    """The smallest and the largest id. Ids that a server makes one after the other are in order."""
    ids: bytes
    """A digest of each id, four bytes each, in the order of the lines."""
    about: bytes
    format: int
    data: bytes


class NewBlock(Struct):
    """Lines that are on their way to the store. Their numbers are the store's to give."""

    lines: list[bytes]
    ids: list[str]
    failed: int
    callers: list[CallerShare]
    about: bytes

    def numbered(self, numbers: Sequence[int]) -> CallBlock:
        """With a number for each line, in rising order."""
        return CallBlock(
            numbers[0], numbers[-1], len(numbers), self.failed, min(self.ids), max(self.ids),
            _digests(self.ids), self.about, FORMAT, _packed(numbers, self.lines),
        )  # fmt: skip


class CallLines:
    """Collects the lines of the next block. Adding one is all that a call on the fast lane does for the ledger."""

    __slots__ = ("_callers", "_failed", "_ids", "_kinds", "_last", "_share", "lines", "size")

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.size = 0
        self._ids: list[str] = []
        self._failed = 0
        self._callers: dict[tuple[str, str], list[int]] = {}
        self._kinds: set[tuple[str, str, str]] = set()
        self._last: Caller | None = None
        self._share: list[int] = []
        """Of the last caller: the next call is often of the same one."""

    def add(self, command: CallTool, run: Run, outcome: Outcome, now: float) -> bool:
        """Encodes a call that has ended; False where it is too large for a line. Raises what msgspec raises for a text
        that is no Unicode. This runs for every call on the fast lane, so it is one function."""
        caller, tool, error, input = run.caller, run.tool, outcome.error, command.input_json
        if error is None:
            code, effects, result = SUCCESS, None, outcome.value or NULL
        else:
            code, effects, result = error.code, error.effects, Raw(_encode(error.members()))
        extra = outcome.extra
        length = len(result) if extra is None else len(result) + len(extra)
        if length + len(input) > SMALL:
            return False
        line = _encode((
            run.call_id, caller.tenant, caller.subject, caller.user_id, run.trace_id, command.family, command.wire,
            command.tool_id, tool.reference, tool.on_lost, code, int(now * 1000), outcome.duration_ms, effects,
            Raw(input), result,
        ))  # fmt: skip
        if extra is not None:
            line = b"%b,%b]" % (line[:-1], extra)
        self.lines.append(line)
        self.size += len(line)
        self._ids.append(run.call_id)
        self._kinds.add((command.tool_id, command.wire, code))
        if error is not None:
            self._failed += 1
        share = self._share if caller is self._last else self._share_of(caller)
        share[0] += 1
        share[1] += charge_of(len(input), length)
        return True

    def _share_of(self, caller: Caller) -> list[int]:
        self._last, self._share = caller, self._callers.setdefault((caller.tenant, caller.subject), [0, 0])
        return self._share

    @property
    def is_full(self) -> bool:
        return self.size >= MOST_BYTES or len(self.lines) >= MOST_LINES

    def taken(self) -> NewBlock:
        """What has been collected, to be stored."""
        callers = [CallerShare(*who, *charged) for who, charged in self._callers.items()]
        tenants = {tenant for tenant, _ in self._callers}
        return NewBlock(self.lines, self._ids, self._failed, callers, _about(tenants, self._kinds))


def _about(tenants: set[str], kinds: Collection[tuple[str, str, str]]) -> bytes:
    named = [tenants, *({kind[place] for kind in kinds} for place in range(3))]
    return _encode(BlockSummary(*[sorted(names) if len(names) <= MOST_NAMED else None for names in named]))


def _digests(ids: Sequence[str]) -> bytes:
    return struct.pack(f"<{len(ids)}I", *[zlib.crc32(call_id.encode()) for call_id in ids])


def has_id(ids: bytes, call_id: str) -> bool:
    """Whether a call of that id may be in a block, by its `ids`. It is said of one id in a million that is not."""
    digest = _digests([call_id])
    place = ids.find(digest)
    while place > 0 and place % 4:  # across two of them
        place = ids.find(digest, place + 1)
    return place >= 0


UNREADABLE = (ValueError, struct.error, zlib.error, msgspec.MsgspecError)


@contextmanager
def left_out(last: int) -> Iterator[None]:
    """A block that cannot be read, because it is damaged or a newer toolyard wrote it, is left out and named in the
    log: it keeps nobody from reading the others."""
    try:
        yield
    except UNREADABLE as error:
        _log.error("the block of calls up to %d cannot be read, and they are left out: %s", last, error)


# -- the data of a block -----------------------------------------------------------------------------


def _packed(numbers: Sequence[int], lines: Sequence[bytes]) -> bytes:
    """For each line how far its number is from the first, and its length; then the lines. In rising order."""
    head = b"".join(_head.pack(number - numbers[0], len(line)) for number, line in zip(numbers, lines, strict=True))
    return zlib.compress(head + b"".join(lines), 1)


def _unpacked(block: CallBlock, needle: bytes | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines of a block with their numbers, the newest first; those that have `needle` in them, if one is given."""
    if block.format != FORMAT:
        raise ValueError(f"a block of format {block.format}, and this toolyard knows {FORMAT}")
    data = zlib.decompress(block.data)
    starts_at = block.count * _head.size
    head = list(_head.iter_unpack(data[:starts_at]))
    ends = list(accumulate((length for _, length in head), initial=starts_at))
    places: Iterable[int] = range(len(head)) if needle is None else _places(data, needle, ends)
    for place in sorted(places, reverse=True):
        yield block.first + head[place][0], data[ends[place] : ends[place + 1]]


def _places(data: bytes, needle: bytes, ends: list[int]) -> set[int]:
    """Of the lines that have some bytes in them."""
    found, at = set[int](), data.find(needle, ends[0])
    while at >= 0:
        place = bisect_right(ends, at) - 1
        found.add(place)
        at = data.find(needle, ends[place + 1]) if place + 1 < len(ends) else -1
    return found


def _found_in(block: CallBlock, wanted: Filter, offset: float) -> Iterator[CallRecord]:
    """The calls of a block that a filter wants, the newest first. `offset` is how far the store's clock was ahead of
    the clock of the node that wrote them."""
    for number, json in _unpacked(block, _needle(wanted)):
        if wanted.before is None or number < wanted.before:
            line = decode_as(json, CallLine)
            if _fits(line, wanted):
                yield _record(number, line, offset)


def numbered_in(block: CallBlock, number: int, offset: float) -> CallRecord | None:
    """The call of that number, if it is in the block."""
    return next(
        (_record(seq, decode_as(json, CallLine), offset) for seq, json in _unpacked(block) if seq == number), None
    )


def _needle(wanted: Filter) -> bytes | None:
    """What every line that fits has in it: so most others are not decoded."""
    if wanted.call_id is not None:
        return _encode(wanted.call_id)
    if wanted.subject is not None and wanted.tenant is not None:
        return _encode([wanted.tenant, wanted.subject])[1:-1]
    return None


def _fits(line: CallLine, wanted: Filter) -> bool:
    state = State.COMPLETE if line.code == SUCCESS else State.ERROR
    asked = (
        (wanted.tenant, line.tenant), (wanted.subject, line.subject), (wanted.state, state), (wanted.tool, line.tool),
        (wanted.call_id, line.call_id), (wanted.wire, line.wire), (wanted.family, line.family),
    )  # fmt: skip
    return all(value is None or value == has for value, has in asked)


OPENED_AT_ONCE = 16
"""Blocks that are looked into in one step of a list: that takes some 30 ms."""


class ListStep(NamedTuple):
    """What one step of a list has found, and the number before which it has not looked; None: it has seen all."""

    calls: list[CallRecord]
    left_off: int | None = None


class NewestCalls:
    """The newest calls that a filter wants: first of the rows, `calls`, and then of one block after the other, of which
    each ends before the last; so many blocks, and no more."""

    def __init__(self, wanted: Filter, calls: list[CallRecord]) -> None:
        self._wanted, self.calls = wanted, calls
        self.may_be_in_blocks = wanted.waiting_for is None and wanted.state in (None, State.COMPLETE, State.ERROR)
        """Whether a call that has ended, and waits for nothing, can be meant."""
        self._opened = 0

    def has_all(self, last: int) -> bool:
        """Whether nothing that ends at that number, or before, can be among them any more."""
        return len(self.calls) >= self._wanted.limit and self.calls[-1].seq > last

    def page(self, next_block: int | None = None) -> ListStep:
        """What there is, where the block that ends at that number was not looked into; None: where all were."""
        if next_block is None:
            return ListStep(self.calls)
        return ListStep([call for call in self.calls if call.seq > next_block], next_block + 1)

    def is_to_leave_off(self, last: int) -> bool:
        """Whether others get their turn before the block that ends at that number. One that the step before has looked
        into, too, does not count: else two that reach into each other could be all that there is to a step. A call by
        its id is in one or two."""
        if self._wanted.call_id is not None:
            return False
        is_new = self._wanted.before is None or last < self._wanted.before
        self._opened += is_new
        return is_new and self._opened > OPENED_AT_ONCE

    def look_into(self, block: CallBlock, offset: float) -> None:
        found = islice(_found_in(block, self._wanted, offset), self._wanted.limit)
        self.calls = sorted((*self.calls, *found), key=_number, reverse=True)[: self._wanted.limit]


def _number(call: CallRecord) -> int:
    return call.seq


def _record(number: int, line: CallLine, offset: float) -> CallRecord:
    finished, is_success = line.at_ms / 1000 + offset, line.code == SUCCESS
    return CallRecord(
        number, CallKey(line.tenant, line.subject, line.family, line.call_id), False, line.wire, line.tool,
        line.reference, bytes(line.input), b"", line.user_id, line.trace_id, None, line.on_lost,
        State.COMPLETE if is_success else State.ERROR, line.code, None, 1, None, finished, None, finished,
        line.duration_ms, bytes(line.result) if is_success else None, None if is_success else bytes(line.result),
        effects=line.effects, extra=line.beside,
    )  # fmt: skip


def counted_in(block: CallBlock, since: int) -> tuple[int, int]:
    """How many of its calls from that number on ended well, and how many did not."""
    codes = [decode_as(json, CallLine).code for number, json in _unpacked(block) if number >= since]
    return codes.count(SUCCESS), len(codes) - codes.count(SUCCESS)


# -- blocks made of others ---------------------------------------------------------------------------


class SmallBlock(Struct, frozen=True):
    """The head of a block that has few lines, as in a quiet hour each flush makes one."""

    last: int
    first: int
    count: int
    size: int
    written_at: float


def to_merge(small: Iterable[SmallBlock], kept_s: float) -> list[list[SmallBlock]]:
    """Which of some blocks, in rising order, become one. They are close together in numbers and in time: how old a
    block is, is how old its newest call is, and it is kept as long. `kept_s` is how long that is."""
    groups: list[list[SmallBlock]] = [[]]
    for each in small:
        group = [*groups[-1], each]
        fits = (
            sum(one.count for one in group) <= MOST_LINES
            and sum(one.size for one in group) <= MOST_BYTES // 4  # compressed, that is
            and each.last - group[0].first < MOST_SPAN
            and each.written_at - group[0].written_at <= MOST_APART * kept_s
        )
        groups = [*groups[:-1], group] if fits else [*groups, [each]]
    return [group for group in groups if len(group) >= FEWEST_MERGED]


def merged(blocks: Iterable[tuple[CallBlock, float]]) -> tuple[NewBlock, list[int]]:
    """The lines of several blocks, each with its clock's offset, as one by the store's clock, and their numbers."""
    return _again((number, _shifted(json, offset)) for block, offset in blocks for number, json in _unpacked(block))


def erased_from(block: CallBlock, offset: float, tenant: str | None, user_id: str) -> tuple[NewBlock, list[int]] | None:
    """A block without the calls of a user, and the numbers of what is left; None where it has none of them."""
    lines = ((number, decode_as(json, CallLine)) for number, json in _unpacked(block, _encode(user_id)))
    gone = {number for number, line in lines if line.user == user_id and tenant in (None, line.tenant)}
    return _without(block, offset, gone)


IsGone = Callable[[str, str, float], bool]
"""Whether a call should be gone, by its tenant, its user, and its end by the store's clock."""


def left_of(block: CallBlock, offset: float, is_gone: IsGone) -> tuple[NewBlock, list[int]] | None:
    """The same, without the calls that should be gone."""
    lines = ((number, decode_as(json, CallLine)) for number, json in _unpacked(block))
    gone = {n for n, line in lines if is_gone(line.tenant, line.user, line.at_ms / 1000 + offset)}
    return _without(block, offset, gone)


def _without(block: CallBlock, offset: float, gone: set[int]) -> tuple[NewBlock, list[int]] | None:
    left = ((number, _shifted(json, offset)) for number, json in _unpacked(block) if number not in gone)
    return _again(left) if gone else None


def _shifted(json: bytes, offset: float) -> bytes:
    """A line by the store's clock, and otherwise as it is: it may have members that a newer toolyard has added."""
    if not offset:
        return json
    members = decode_as(json, list[Raw])
    members[_AT] = Raw(b"%d" % (int(bytes(members[_AT])) + round(offset * 1000)))
    return _encode(members)


_AT = CallLine.__struct_fields__.index("at_ms")


def _again(numbered: Iterable[tuple[int, bytes]]) -> tuple[NewBlock, list[int]]:
    """A block of lines that were in others, and their numbers in rising order."""
    inside = sorted(numbered)
    lines = [decode_as(json, CallLine) for _, json in inside]
    callers: dict[tuple[str, str], list[int]] = {}
    for line in lines:
        charged = callers.setdefault((line.tenant, line.subject), [0, 0])
        charged[0] += 1
        charged[1] += charge_of(len(line.input), len(line.result) + len(line.beside or b""))
    kinds = {(line.tool, line.wire, line.code) for line in lines}
    new = NewBlock(
        [json for _, json in inside], [line.call_id for line in lines], sum(line.code != SUCCESS for line in lines),
        [CallerShare(*who, *charged) for who, charged in callers.items()], _about({who[0] for who in callers}, kinds),
    )  # fmt: skip
    return new, [number for number, _ in inside]


def charge_of(input: int, result: int) -> int:
    """What a call is charged for, by the bytes of its input and its result."""
    return CHARGE + input + (result if result > CHARGE else 0)
