"""The operator's side of the audit log: who may ask, and checking a log that is being written to."""

import asyncio
from pathlib import Path

import pytest

from toolyard.model.errors import InvalidInput
from toolyard.server.admin.audit import AT_ONCE, OPERATIONS, AuditReader
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.store.contract import Store
from toolyard.trust.audit.chain import Broken, ChainPosition
from toolyard.trust.audit.retention import drop_old
from toolyard.wires.admin.audit import PATH, decode_check

from ...trust.audit.logs import RING, STRANGER, audit, entry, in_file, read


class Line:
    def answer(self, reply: object) -> None: ...

    def when_gone(self, callback: object) -> None: ...


def test_every_route_is_for_operators_alone() -> None:
    table = Yard([], exactly()).asgi._table
    made = [table.find(each.method, each.path)[0] for each in OPERATIONS]
    assert all(route.path.startswith(PATH) and route.who == "operator" for route in made)
    assert len(made) == 3


def test_a_log_that_is_written_to_and_dropped_from_is_whole_all_the_time(tmp_path: Path) -> None:
    async def busy(store: Store) -> None:
        log, desk, done = audit(store), AuditReader(store.audit, RING), asyncio.Event()
        await log.open()

        async def write() -> None:
            for number in range(150):
                log.add(entry(number))
                await log.written()
                if number % 10 == 9:
                    await drop_old(store.audit, RING, 100.0 + number - 15)
            done.set()

        async def check() -> int:
            place, checks = ChainPosition(), 0
            while not done.is_set():
                place, at_end = await desk.verify(log.chain, place, [])
                checks += 1
                place = ChainPosition() if at_end else place
            return checks

        _, *checks = await asyncio.gather(write(), check(), check())
        assert min(checks) > 20
        await log.close()

    in_file(tmp_path / "a.db", busy)


def test_a_long_log_is_checked_part_by_part_and_every_part_is_looked_at(tmp_path: Path) -> None:
    async def long(store: Store) -> None:
        log = audit(store)
        await log.open()
        for number in range(3 * AT_ONCE):
            log.add(entry(number))
            await log.written()
        desk, place, done, parts = AuditReader(store.audit, RING), ChainPosition(), False, 0
        while not done:
            place, done = await desk.verify(log.chain, place, [])
            parts += 1
        whole = await read(store)
        assert (place.number, place.count, parts) == (len(whole.blocks), len(whole.entries), 4)
        with pytest.raises(Broken):
            await AuditReader(store.audit, STRANGER).verify(log.chain, ChainPosition(), [])
        with pytest.raises(Broken):
            await desk.verify("none", ChainPosition(), [whole.chain.head] if whole.chain.head else [])
        await log.close()

    in_file(tmp_path / "a.db", long)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"chain":1}', b'{"chain":"a","place":{"mac":"x"}}'])
def test_a_question_that_makes_no_sense_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_check(body)


def test_a_server_writes_its_start_and_its_stop_unless_it_is_told_not_to(tmp_path: Path) -> None:
    def codes(name: str, setting: str) -> list[str]:
        path = tmp_path / name

        async def twice() -> None:
            yard = Yard([], exactly(store=f"sqlite:{path}", audit=setting))
            assert (yard.audit is None) == (setting == "off")
            for _ in range(2):
                async with yard.lifetime():
                    pass

        asyncio.run(twice())
        return [each["code"] for each in in_file(path, read).entries]

    for setting in ("on", "strict"):
        assert codes(f"{setting}.db", setting) == ["began", "closed", "continued", "closed"]
    assert codes("off.db", "off") == []
