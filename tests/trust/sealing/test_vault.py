"""What is sealed is opened by the same ring, at the same place, and by nobody else."""

from pathlib import Path

import pytest

from toolyard.store.contract import Store
from toolyard.trust.sealing.ring import BrokenSeal
from toolyard.trust.sealing.vault import Vault, VaultPath

from ..audit.logs import RING, STRANGER, in_file

HERE = VaultPath("secret", "acme", "", "TWILIO")
CANARY = b"canary-in-the-vault"


def test_a_thing_is_opened_where_it_was_put(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        vault = Vault(store.sealed, RING)
        assert await vault.get(HERE) is None
        assert await vault.put(HERE, CANARY, {"tools": ["Sms.*"]})
        opened = await vault.get(HERE)
        assert opened is not None
        assert (opened.value, opened.about, opened.version) == (CANARY, {"tools": ["Sms.*"]}, 1)
        ((place, shown),) = await vault.about("secret")
        assert (place, shown.value, shown.about) == (HERE, b"", {"tools": ["Sms.*"]})
        assert await vault.drop(HERE)
        assert await vault.get(HERE) is None

    in_file(tmp_path / "a.db", work)


def test_nothing_of_it_is_in_the_file(tmp_path: Path) -> None:
    in_file(tmp_path / "a.db", lambda store: Vault(store.sealed, RING).put(HERE, CANARY, {}))
    assert not [path for path in tmp_path.iterdir() if CANARY in path.read_bytes()]


def test_another_ring_or_place_does_not_open_it(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await Vault(store.sealed, RING).put(HERE, CANARY, {})
        with pytest.raises(BrokenSeal):
            await Vault(store.sealed, STRANGER).get(HERE)
        stolen = await store.sealed.get("secret", "acme", "", "TWILIO")
        assert stolen is not None
        await store.sealed.put(type(stolen)("secret", "other", "", "TWILIO", stolen.data))
        with pytest.raises(BrokenSeal):
            await Vault(store.sealed, RING).get(VaultPath("secret", "other", "", "TWILIO"))

    in_file(tmp_path / "a.db", work)
