"""Whatever is done to the audit log without its key is found out."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from toolyard.model.audit import AuditBlock, Chain, Mark
from toolyard.store.contract import Store
from toolyard.trust.audit.chain import ANCHOR, HEAD, Broken, ChainPosition, sealed, signed, verify
from toolyard.trust.audit.retention import drop_old
from toolyard.trust.sealing.ring import KeyRing

from .logs import RING, STRANGER, Log, audit, entry, in_file, read

CASES = 10_000
IN_FILES = 60
BLOCKS = 14
Logs = dict[str, Log]
replace = msgspec.structs.replace


async def _build(store: Store) -> None:
    """Two chains; the front of both was dropped already."""
    for chain in ("main", "other"):
        log = audit(store, chain)
        await log.open()
        await log.written()
        for number in range(1, BLOCKS + 2):
            for part in range(3):
                log.add(entry(number, rule=f"{chain}-{part}"))
            await log.written()
    assert await drop_old(store.audit, RING, 103.0) == 6


async def _logs(store: Store) -> Logs:
    return {chain.name: await read(store, chain.name) for chain in await store.audit.chains()}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "ledger.db"
    in_file(path, _build)
    return path


@pytest.fixture(scope="module")
def logs(ledger: Path) -> Logs:
    return in_file(ledger, _logs)


def verify_all(logs: Logs, known: tuple[Mark, ...] = (), ring: KeyRing = RING) -> None:
    for name in sorted({*logs, *(mark.chain for mark in known)}):
        log = logs.get(name, Log(Chain(name), []))
        verify(ring, log.chain, log.blocks, [mark for mark in known if mark.chain == name])


# --- what somebody may do to it --------------------------------------------------------------------


def flipped(value: bytes, dice: random.Random) -> bytes:
    changed = bytearray(value)
    changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def other_value(value: Any, dice: random.Random) -> Any:
    if isinstance(value, bytes):
        return dice.choice([flipped(value, dice), value[:-1], value + b"\0", b"", b"\n".join(value.split(b"\n")[1:])])
    if isinstance(value, str):
        return dice.choice([value + "x", "", "elsewhere"])
    step = dice.choice([1, -1, 7, -1000, 2**40])
    return value + step if isinstance(value, int) else value + step * dice.choice([1.0, 1e-3, 1e6])


def edit_block(logs: Logs, dice: random.Random) -> None:
    blocks = dice.choice(list(logs.values())).blocks
    place = dice.randrange(len(blocks))
    name = dice.choice(AuditBlock.__struct_fields__)
    changed = other_value(getattr(blocks[place], name), dice)
    blocks[place] = replace(blocks[place], **{name: changed})


def edit_mark(logs: Logs, dice: random.Random) -> None:
    log = dice.choice(list(logs.values()))
    which = dice.choice(["head", "anchor"])
    mark = getattr(log.chain, which)
    name = dice.choice(Mark.__struct_fields__)
    log.chain = replace(log.chain, **{which: replace(mark, **{name: other_value(getattr(mark, name), dice)})})


def delete_some(logs: Logs, dice: random.Random) -> None:
    blocks = dice.choice(list(logs.values())).blocks
    start = dice.randrange(len(blocks))
    del blocks[start : start + dice.randint(1, 4)]


def cut_the_front(logs: Logs, dice: random.Random) -> None:
    """As the server does it, but for the key."""
    log = dice.choice(list(logs.values()))
    count = dice.randint(1, len(log.blocks))
    last = log.blocks[count - 1]
    del log.blocks[:count]
    place = ChainPosition(last.number, last.mac, last.number * 3 - 2, last.last_at)
    log.chain = replace(log.chain, anchor=dice.choice([sealed(STRANGER, ANCHOR, last.chain, place), log.chain.anchor]))


def cut_the_end(logs: Logs, dice: random.Random) -> None:
    log = dice.choice(list(logs.values()))
    del log.blocks[dice.randrange(len(log.blocks)) :]
    assert log.chain.anchor is not None
    last = log.blocks[-1] if log.blocks else log.chain.anchor
    at = last.last_at if isinstance(last, AuditBlock) else last.at
    place = ChainPosition(last.number, last.mac, last.number * 3 - 2, at)
    as_anchor = replace(sealed(RING, ANCHOR, last.chain, place))
    log.chain = replace(
        log.chain, head=dice.choice([log.chain.head, sealed(STRANGER, HEAD, last.chain, place), as_anchor, None])
    )


def swap(logs: Logs, dice: random.Random) -> None:
    blocks = dice.choice(list(logs.values())).blocks
    one, two = dice.sample(range(len(blocks)), 2)
    blocks[one], blocks[two] = blocks[two], blocks[one]


def swap_contents(logs: Logs, dice: random.Random) -> None:
    blocks = dice.choice(list(logs.values())).blocks
    one, two = dice.sample(range(len(blocks)), 2)
    names = dice.choice([("entries",), ("mac",), ("entries", "mac"), ("number",), ("entries", "mac", "first_at")])
    a, b = blocks[one], blocks[two]
    blocks[one] = replace(a, **{name: getattr(b, name) for name in names})
    blocks[two] = replace(b, **{name: getattr(a, name) for name in names})


def double(logs: Logs, dice: random.Random) -> None:
    blocks = dice.choice(list(logs.values())).blocks
    place = dice.randrange(len(blocks))
    copy = dice.choice([blocks[place], replace(blocks[place], number=blocks[-1].number + 1)])
    blocks.insert(dice.choice([place, place + 1, len(blocks)]), copy)


def move(logs: Logs, dice: random.Random) -> None:
    one, other = dice.sample(list(logs), 2)
    place = dice.randrange(len(logs[one].blocks))
    moved = dice.choice([logs[one].blocks[place], replace(logs[one].blocks[place], chain=other)])
    if dice.random() < 0.5:
        logs[other].blocks[place] = moved
    else:
        logs[other].blocks.append(moved)


def exchange_chains(logs: Logs, dice: random.Random) -> None:
    one, other = logs
    part = dice.choice(["head", "anchor", "blocks", "all"])
    a, b = logs[one], logs[other]
    if part == "all":
        logs[one], logs[other] = Log(replace(b.chain, name=one), b.blocks), Log(replace(a.chain, name=other), a.blocks)
    elif part == "blocks":
        a.blocks, b.blocks = b.blocks, a.blocks
    else:
        a.chain = replace(a.chain, **{part: getattr(b.chain, part)})


def graft(logs: Logs, dice: random.Random) -> None:
    """A block that the server did sign for this place, in a log that then was thrown away."""
    log = dice.choice(list(logs.values()))
    place = dice.randrange(len(log.blocks))
    there = log.blocks[place]
    before = ChainPosition(there.number - 1, dice.randbytes(32), 0, 0.0)
    times, lines = (there.first_at, there.last_at), there.entries.replace(b"ada", b"eve").split(b"\n")
    log.blocks[place] = signed(RING, before, there.chain, times, lines)


def forge(logs: Logs, dice: random.Random) -> None:
    """Another entry in a block, which is signed again, with another key."""
    log = dice.choice(list(logs.values()))
    place = dice.randrange(len(log.blocks))
    entries = log.blocks[place].entries.replace(b"ada", b"eve")
    log.blocks[place] = replace(log.blocks[place], entries=entries, mac=STRANGER.sign("audit block", entries))


TRICKS: list[Callable[[Logs, random.Random], None]] = [
    edit_block, edit_block, edit_block, edit_mark, delete_some, cut_the_front, cut_the_end, swap, swap_contents, double,
    move, exchange_chains, graft, forge,
]  # fmt: skip


def copied(logs: Logs) -> Logs:
    return {name: Log(log.chain, list(log.blocks)) for name, log in logs.items()}


# --- that it is found out --------------------------------------------------------------------------


def test_what_nobody_touched_is_whole(logs: Logs) -> None:
    verify_all(logs)
    assert [len(log.blocks) for log in logs.values()] == [BLOCKS - 1] * 2


def test_every_one_of_many_tricks_is_found_out(logs: Logs) -> None:
    dice, tried = random.Random(20261115), dict.fromkeys(TRICKS, 0)
    while sum(tried.values()) < CASES:
        tampered, trick = copied(logs), dice.choice(TRICKS)
        trick(tampered, dice)
        if tampered == logs:
            continue
        tried[trick] += 1
        with pytest.raises(Broken) as found:
            verify_all(tampered)
        assert str(found.value).startswith("chain ")
    assert min(tried.values()) > CASES / 40


def test_tricks_in_the_file_are_found_out(ledger: Path, tmp_path: Path) -> None:
    dice = random.Random(7)
    for number in range(IN_FILES):
        path = tmp_path / f"{number}.db"
        with apsw.Connection(str(ledger)) as source, apsw.Connection(str(path)) as target:
            with target.backup("main", source, "main") as backup:
                backup.step()
            target.execute("DROP TRIGGER audit_stays; DROP TRIGGER audit_is_kept")
            while _rows(target) == _rows(source):
                target.execute(dice.choice(STATEMENTS).format(a=dice.randint(4, 9), b=dice.randint(10, 15)))
        with pytest.raises(Broken):
            verify_all(in_file(path, _logs))


STATEMENTS = [
    "DELETE FROM audit WHERE number = {a}",
    "DELETE FROM audit WHERE number > {b} AND chain = 'main'",
    "DELETE FROM audit WHERE number < {a}",
    "UPDATE audit SET entries = CAST(replace(CAST(entries AS TEXT), 'ada', 'eve') AS BLOB) WHERE number = {a}",
    "UPDATE audit SET mac = randomblob(32) WHERE number = {b}",
    "UPDATE audit SET mac = 'text' WHERE number = {b}",
    "UPDATE audit SET count = count + 1 WHERE number = {a}",
    "UPDATE audit SET first_at = first_at + 1 WHERE number = {b}",
    "UPDATE audit SET last_at = 1 WHERE number = {b} AND chain = 'other'",
    "UPDATE audit SET number = 1000 + number WHERE number > {b}",
    "UPDATE audit SET chain = 'new' WHERE number = {a} AND chain = 'main'",
    "UPDATE audit SET chain = 'new' WHERE chain = 'main'",
    "UPDATE audit SET entries = (SELECT entries FROM audit AS o WHERE o.chain = audit.chain AND o.number = {b})"
    " WHERE number = {a}",
    "INSERT INTO audit SELECT chain, number + 99, count, first_at, last_at, mac, entries, format FROM audit "
    "WHERE number = {a}",
    "UPDATE audit SET format = 1 - format WHERE number = {a}",
    "DELETE FROM audit_heads WHERE chain = 'main'",
    "UPDATE audit_heads SET number = {b}, mac = (SELECT mac FROM audit WHERE number = {b} AND chain = 'main')",
    "UPDATE audit_heads SET count = count - {a}",
    "DELETE FROM audit_anchors",
    "UPDATE audit_anchors SET number = number + 1",
    "UPDATE audit_anchors SET at = at + {a}",
]


def _rows(connection: apsw.Connection) -> list[Any]:
    tables = ("audit", "audit_heads", "audit_anchors")
    return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


# --- heads that were exported ----------------------------------------------------------------------


def heads(logs: Logs) -> tuple[Mark, ...]:
    return tuple(log.chain.head for log in logs.values() if log.chain.head is not None)


def earlier(logs: Logs, blocks: int) -> Logs:
    """The log as it was, with the head that it had then: an old copy of everything."""
    older = copied(logs)
    for log in older.values():
        del log.blocks[blocks:]
        last = log.blocks[-1]
        place = ChainPosition(last.number, last.mac, last.number * 3 - 2, last.last_at)
        log.chain = replace(log.chain, head=sealed(RING, HEAD, last.chain, place))
    return older


def test_an_old_copy_of_log_and_heads_is_found_out_by_the_exported_heads(logs: Logs) -> None:
    older = earlier(logs, 5)
    verify_all(older)
    verify_all(older, heads(older))
    verify_all(logs, heads(older))
    with pytest.raises(Broken, match=r"chain main, block 16: it is gone: .* now block 8 is the last"):
        verify_all(older, heads(logs))


def test_a_chain_that_is_gone_is_missed(logs: Logs) -> None:
    with pytest.raises(Broken, match="chain other, block 16: the whole chain is gone"):
        verify_all({"main": logs["main"]}, heads(logs))


def test_another_history_of_the_same_length_is_found_out(logs: Logs, tmp_path: Path) -> None:
    async def history(store: Store) -> Logs:
        log = audit(store, "main", now=lambda: 99.0)
        await log.open()
        for number in range(1, BLOCKS + 4):
            log.add(entry(number))
            await log.written()
        return await _logs(store)

    rewritten = in_file(tmp_path / "b.db", history)
    verify_all(rewritten)
    with pytest.raises(Broken, match="not the one that was there when its head was exported"):
        verify_all(rewritten, heads(logs)[:1])


def test_exported_heads_that_were_changed_or_are_anothers_are_refused(logs: Logs) -> None:
    head = heads(logs)[0]
    for wrong in (replace(head, number=1), replace(head, seal=b""), replace(head, mac=b"x"), logs["main"].chain.anchor):
        assert wrong is not None
        with pytest.raises(Broken, match="the exported head was changed, or this is not the key"):
            verify_all(logs, (wrong,))


def test_another_key_says_so(logs: Logs) -> None:
    with pytest.raises(Broken, match="or this is not the key that it was signed with"):
        verify_all(logs, ring=STRANGER)
