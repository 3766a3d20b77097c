"""Blocks of calls: the reader of rows and blocks against a plain list, whatever was written, merged, swept and erased
in between; and what a block promises by itself."""

import random
from collections import Counter
from typing import Any

import pytest
from msgspec import Raw, Struct
from msgspec.structs import replace

from tests.store.calls import DONE, EXTRA, LARGE, call, kit, there
from tests.store.ledgers import RETENTION, ManualClock, Opening
from toolyard.model.call import CallTool, Outcome
from toolyard.model.caller import Caller
from toolyard.model.channel import QuietChannel
from toolyard.model.errors import ToolError
from toolyard.model.lifecycle import State
from toolyard.model.record import CallKey, CallRecord, Ran
from toolyard.model.run import Run
from toolyard.store import blocks
from toolyard.store.contract import Store
from toolyard.store.values import Filter
from toolyard.store.write_behind import in_blocks

PEOPLE = [("default", "ada", "uma"), ("default", "ada", None), ("default", "bob", "uma"), ("acme", "ada", "vic")]
TOOLS, WIRES = ["Kit.Tool", "Kit.Tool@1.0.0", 'Odd."Tool,'], ["oxp", "mcp"]
STEPS = 60


class Known(Struct):
    """A call as the plain list has it."""

    call_id: str
    tenant: str
    subject: str
    user_id: str | None
    tool: str
    wire: str
    state: State
    value: bytes | None
    at: float
    seq: int = 0
    extra: bytes | None = None

    def is_wanted(self, wanted: Filter) -> bool:
        asked = ("tenant", "subject", "state", "tool", "wire", "call_id")
        fits = all(getattr(wanted, name) in (None, getattr(self, name)) for name in asked)
        return fits and (wanted.before is None or self.seq < wanted.before)


def ran(known: Known, size: int = 1) -> Ran:
    run = Run(kit.tools[0], known.call_id, Caller(known.tenant, known.subject, known.user_id), {}, QuietChannel())
    command = CallTool(known.tool, {"text": "x" * size}, wire=known.wire, family="oxp")
    command.keep_input()
    extra = None if known.extra is None else Raw(known.extra)
    if known.value is None:
        return command, run, Outcome(known.call_id, 1.0, error=ToolError("no"), extra=extra)
    return command, run, Outcome(known.call_id, 1.0, Raw(known.value), extra=extra)


class Model:
    """A store and a plain list of what is in it, newest last."""

    def __init__(self, store: Store, opening: Opening, clock: ManualClock, seed: int) -> None:
        self.store, self._opening, self._clock = store, opening, clock
        self.chance, self.calls = random.Random(seed), list[Known]()
        self._count = 0

    def _new(self) -> Known:
        self._count += 1
        tenant, subject, user = self.chance.choice(PEOPLE)
        is_good = self.chance.random() < 0.7
        return Known(
            f"{self._count:08x}", tenant, subject, user, self.chance.choice(TOOLS), self.chance.choice(WIRES),
            State.COMPLETE if is_good else State.ERROR, b"%d" % self._count if is_good else None, self._clock.now,
            extra=self.chance.choice([None, None, b'{"meta":{"of":%d}}' % self._count]),
        )  # fmt: skip

    async def small(self) -> None:
        """One flush of a few calls, which become a block."""
        new = [self._new() for _ in range(self.chance.randint(1, 5))]
        assert await self.store.record([ran(each) for each in new]) == 0
        await self._numbered(new)

    async def behind(self) -> None:
        """They are there at once, without a flush."""
        new = [self._new() for _ in range(self.chance.randint(1, 3))]
        for each in new:
            self.store.behind.add(*ran(each))
        await self._numbered(new)

    async def large(self) -> None:
        new = self._new()
        assert await self.store.record([ran(new, 5000)]) == 0
        await self._numbered([new])

    async def keyed(self) -> None:
        new = replace(self._new(), state=State.COMPLETE, value=b"15", tool="Kit.Tool", wire="oxp", extra=EXTRA)
        key = CallKey(new.tenant, new.subject, "oxp", new.call_id)
        begun = await self.store.begin(call(key=key, user_id=new.user_id))
        assert await self.store.finish(begun.seq, 1, DONE) is None
        self.calls.append(replace(new, seq=begun.seq))

    async def merges(self) -> None:
        await self._clock.advance(40.0)
        await self.store.merge()

    async def sweeps(self) -> None:
        """What is gone of a block is all of it, and it is gone when its newest is."""
        await self._clock.advance(self.chance.choice([1.0, 50.0]))
        await self.store.sweep(10_000)
        there = {each.seq for each in await self.store.listed(Filter(None, limit=10_000))}
        gone = [each for each in self.calls if each.seq not in there]
        assert all(each.at < self._clock.now - RETENTION.calls_s for each in gone), "nothing goes too early"
        self.calls = [each for each in self.calls if each.seq in there]

    async def erases(self) -> None:
        tenant, _, user = self.chance.choice(PEOPLE)
        if user is None or self.chance.random() < 0.7:
            return
        gone = [each for each in self.calls if each.user_id == user and each.tenant == tenant]
        assert await self.store.erase(tenant, user) == len(gone)
        self.calls = [each for each in self.calls if each not in gone]

    async def restarts(self) -> None:
        """Which takes a moment: by its calls' times the next node knows that they came after an erasure by this one."""
        await self._clock.advance(1.0)
        self.store = await self._opening.instead_of(self.store, f"node-{self._count}")

    async def _numbered(self, new: list[Known]) -> None:
        """The store has given them numbers, after all that it had given."""
        top = max((each.seq for each in self.calls), default=0)
        for each in new:
            each.seq = there(await self.store.get(each.tenant, each.subject, each.call_id)).seq
        assert min(each.seq for each in new) > top
        self.calls += sorted(new, key=lambda each: each.seq)

    async def agrees(self) -> None:
        """The store shows what the list has, and nothing else."""
        chance = self.chance
        tenant, subject, _ = chance.choice(PEOPLE)
        some = chance.choice(self.calls) if self.calls else None
        wanted = Filter(
            chance.choice([None, tenant]), chance.choice([None, subject]),
            chance.choice([None, None, State.COMPLETE, State.ERROR, State.PENDING]),
            chance.choice([None, None, *TOOLS]), some.seq if some and chance.random() < 0.3 else None,
            chance.choice([1, 3, 10_000]), some.call_id if some and chance.random() < 0.2 else None,
            chance.choice([None, None, *WIRES]),
        )  # fmt: skip
        expected = [each for each in reversed(self.calls) if each.is_wanted(wanted)][: wanted.limit]
        assert [_seen(each) for each in await self.store.listed(wanted)] == [_shown(each) for each in expected]
        if some is not None:
            assert _seen(there(await self.store.row(some.seq))) == _shown(some)
            assert _seen(there(await self.store.get(some.tenant, some.subject, some.call_id))) == _shown(some)
            assert await self.store.get("nobody", some.subject, some.call_id) is None
        states = Counter(each.state for each in self.calls)
        assert await self.store.counted(10_000) == {state: count for state, count in states.items() if count}


def _seen(call: CallRecord) -> tuple[Any, ...]:
    key = call.key
    return (
        call.seq, key.call_id, key.tenant, key.subject, call.user_id, call.tool, call.wire, call.state, call.value,
        call.extra,
    )  # fmt: skip


def _shown(known: Known) -> tuple[Any, ...]:
    return (
        known.seq, known.call_id, known.tenant, known.subject, known.user_id, known.tool, known.wire, known.state,
        known.value, known.extra,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
async def test_rows_and_blocks_read_as_one_list(
    store: Store, make_store: Opening, clock: ManualClock, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "FEWEST_MERGED", 2)
    if seed % 2:  # a list in many steps reads as one in a single step
        monkeypatch.setattr(blocks, "OPENED_AT_ONCE", 1)
    model = Model(store, make_store, clock, random.randrange(2**32) if seed else 7)
    moves = [
        *[model.small] * 6, *[model.behind] * 3, model.large, *[model.keyed] * 2, model.merges, model.sweeps,
        model.erases, model.restarts,
    ]  # fmt: skip
    for _ in range(STEPS):
        await model.chance.choice(moves)()
        await model.agrees()


def test_blocks_without_a_failure_are_not_opened_for_failures() -> None:
    """Somebody with a million calls that went well asks for those that did not."""
    wanted = Filter("default", "ada", state=State.ERROR)
    well = blocks.BlockSummary(["default"], ["Kit.Add"], ["oxp"], ["success"])
    assert not well.may_have(wanted)
    assert blocks.BlockSummary(["default"], ["Kit.Add"], ["oxp"], ["success", "tool_failed"]).may_have(wanted)
    assert blocks.BlockSummary(["default"], ["Kit.Add"], ["oxp"], None).may_have(wanted)


async def test_small_blocks_become_one(store: Store, clock: ManualClock) -> None:
    for number in range(20):
        known = Known(f"{number:08x}", "default", "ada", None, "Kit.Tool", "oxp", State.COMPLETE, b"1", clock.now)
        await store.record([ran(known)])
    assert await store.merge() == 0, "the newest are left alone"
    before = [_seen(each) for each in await store.listed(Filter(None))]
    await clock.advance(60.0)
    assert await store.merge() == 19
    assert await store.merge() == 0
    after = await store.listed(Filter(None))
    assert [_seen(each) for each in after] == before
    assert all(each.finished_at == pytest.approx(clock.now - 60.0, abs=1) for each in after)
    assert await store.full(20 * blocks.CHARGE, 2**40) == ({("default", "ada")}, set()), "charged for as before"
    await clock.advance(RETENTION.calls_s)
    assert await store.sweep(1000) == 20
    assert await store.full(1, 2**40) == (set(), set())


async def test_erasing_a_user_leaves_nothing_of_it_and_all_of_others(store: Store, clock: ManualClock) -> None:
    secret = "x-of-uma"
    for number, user in enumerate(("uma", "vic", "uma", None)):
        known = Known(f"{number:08x}", "default", "ada", user, "Kit.Tool", "oxp", State.COMPLETE, b"1", clock.now)
        made = ran(known)
        made[0].input_json = b'{"text":"%s"}' % (secret if user == "uma" else "y").encode()
        store.behind.add(*made)
    await store.behind.flush()
    key = CallKey("default", "ada", "oxp", "keyed")
    begun = await store.begin(call(key=key, user_id="uma"))
    running = await store.begin(call("running", user_id="uma"))
    await store.finish(begun.seq, 1, DONE)
    assert await store.erase("acme", "uma") == 0
    assert await store.erase(None, "uma") == 3
    left = await store.listed(Filter(None))
    assert [(each.key.call_id, each.user_id) for each in left] == [
        ("running", "uma"), ("00000003", None), ("00000001", "vic")
    ]  # fmt: skip
    assert secret.encode() not in b"".join(each.input for each in left)
    assert there(await store.find(key)).tombstone == b"fingerprint", "what was done once is not done again"
    assert (await store.begin(call("next"))).seq > running.seq


def test_a_block_is_opened_for_its_own_ids_alone() -> None:
    known = [Known(f"{number:032x}", "t", "s", None, "A.B", "oxp", State.COMPLETE, b"1", 0.0) for number in range(500)]
    (new,), rows = in_blocks([ran(each) for each in known], 0.0)
    block = new.numbered(range(1, 501))
    assert rows == []
    assert all(blocks.has_id(block.ids, each.call_id) for each in known)
    assert sum(blocks.has_id(block.ids, f"{number:032x}") for number in range(500, 2500)) <= 2
    assert len(block.data) + len(block.ids) < 500 * 60


def test_a_later_toolyard_may_add_members_to_a_line_and_not_change_its_format() -> None:
    known = Known("a", "t", "s", None, "A.B", "oxp", State.COMPLETE, b"1", 0.0)
    (new,), _ = in_blocks([ran(known)], 5.0)
    later = replace(new, lines=[new.lines[0][:-1] + b',null,"later",{"a":1}]'])
    found = there(blocks.numbered_in(later.numbered([9]), 9, 0.0))
    assert (found.seq, found.key.call_id, found.finished_at, found.value, found.extra) == (9, "a", 5.0, b"1", None)
    again, _ = blocks.merged([(later.numbered([9]), 2.0)])
    assert again.lines == [later.lines[0].replace(b",5000,", b",7000,")], "merging keeps what it does not know"
    assert again.callers == new.callers
    with pytest.raises(ValueError, match="a block of format 2, and this toolyard knows 1"):
        blocks.numbered_in(replace(new.numbered([9]), format=2), 9, 0.0)


async def test_what_is_too_large_for_a_line_is_a_row_of_its_own(store: Store, clock: ManualClock) -> None:
    known = Known("a", "default", "ada", None, "Kit.Tool", "oxp", State.COMPLETE, LARGE, clock.now)
    await store.record([ran(known), ran(replace(known, call_id="b", value=b"1"), 5000)])
    assert await store.merge() == 0
    assert there(await store.get("default", "ada", "a")).value == LARGE
    assert len(await store.listed(Filter(None))) == 2


async def changed(store: Any, how: str, last: int) -> None:
    """A block that somebody, or a disk, has changed."""
    sql = f"UPDATE blocks SET {how} WHERE last = {last}"
    if store.shared:
        await store._link.write(lambda connection, _: connection.execute(sql))
    else:
        await store._writer.write(lambda cursor: cursor.execute(sql).fetchall())


async def test_a_block_that_cannot_be_read_is_left_out_and_keeps_nobody_from_the_others(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10):
        known = Known(f"{number:08x}", "default", "ada", "uma", "Kit.Tool", "oxp", State.COMPLETE, b"1", clock.now)
        await store.record([ran(known)])
    await changed(store, "data = '\\x00'" if store.shared else "data = x'00'", 4)
    await changed(store, "format = 2", 6)
    await clock.advance(60.0)
    there_are = [number for number in range(10, 0, -1) if number not in (4, 6)]
    assert [each.seq for each in await store.listed(Filter("default", "ada"))] == there_are
    assert await store.row(4) is None
    assert await store.merge() == 0, "nothing of what cannot be read is thrown away"
    assert await store.erase(None, "uma") == 8
    assert "the block of calls up to 4 cannot be read" in caplog.text
    assert await store.sweep(100) == 0
    await clock.advance(RETENTION.calls_s)
    assert await store.sweep(100) == 2
