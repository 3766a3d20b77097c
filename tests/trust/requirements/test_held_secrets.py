"""Secrets that are kept here: which one a call is given, and which tools are given any."""

from pathlib import Path

import msgspec
import pytest

from toolyard import Toolkit, secret
from toolyard.engine.worker_tools import tool_of
from toolyard.model.call import CallContext, CallTool
from toolyard.model.caller import Caller
from toolyard.model.sealed import EVERY_TENANT, HeldSecret, WhichSecret
from toolyard.model.tool import Requirements, Tool
from toolyard.model.worker import ToolDefinition
from toolyard.store.contract import Store
from toolyard.trust.requirements.requirements import RequirementResolver
from toolyard.trust.requirements.secrets import KIND, HeldSecrets
from toolyard.trust.sealing.vault import Vault, VaultPath

from ..audit.logs import RING, STRANGER, in_file

ADA = Caller("acme", "agent", "ada")
kit = Toolkit("Sms")


@kit.tool(requires=secret("KEY"), tags=["phone"], read_only=True)
def send() -> None:
    """Sends."""


(SEND,) = kit.tools


def held(store: Store) -> HeldSecrets:
    return HeldSecrets(Vault(store.sealed, RING), lambda: 100.0)


async def given(store: Store, caller: Caller = ADA, tool: Tool = SEND, **context: str) -> dict[str, str]:
    command = CallTool(tool.id, {}, context=CallContext(secrets=context, user_id=caller.user_id))
    who = Caller(caller.tenant, caller.subject, issuer=caller.issuer)
    filled = await RequirementResolver(keepers=[held(store)]).fill(tool, command, who)
    return dict(filled.given.secrets)


def workers_tool(**trust: bool) -> Tool:
    definition = ToolDefinition(
        "Sms.Send", requirements=Requirements(secrets=("KEY",)), read_only=True, tags=("phone",)
    )
    return tool_of(definition, "robot", None, **{"is_trusted": False, **trust})


def test_the_most_specific_is_used(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        secrets, found = held(store), []
        for which in (WhichSecret("KEY", EVERY_TENANT), WhichSecret("KEY", "acme"), WhichSecret("KEY", "acme", "ada")):
            await secrets.put(which, f"of {which.tenant} {which.user}", ())
            found.append((await given(store))["KEY"])
        assert found == ["of * ", "of acme ", "of acme ada"]
        assert await given(store, Caller("acme", "agent", "bob")) == {"KEY": "of acme "}
        assert await given(store, Caller("other", "agent", "ada")) == {"KEY": "of * "}

    in_file(tmp_path / "a.db", work)


def test_a_persons_own_is_used_without_their_saying_who_they_are(tmp_path: Path) -> None:
    """A program of the same name has to say for whom it calls."""

    async def work(store: Store) -> None:
        await held(store).put(WhichSecret("KEY", "acme"), "the tenant's", ())
        await held(store).put(WhichSecret("KEY", "acme", "ada"), "ada's", ())
        issuer = "https://id.example"
        assert await given(store, Caller("acme", "ada", issuer=issuer)) == {"KEY": "ada's"}
        assert await given(store, Caller("acme", "bob", issuer=issuer)) == {"KEY": "the tenant's"}
        assert await given(store, Caller("acme", "ada")) == {"KEY": "the tenant's"}

    in_file(tmp_path / "a.db", work)


def test_what_the_call_brings_wins_and_what_the_tool_does_not_declare_is_not_for_it(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await held(store).put(WhichSecret("KEY", "acme"), "kept", ())
        await held(store).put(WhichSecret("OTHER", "acme"), "kept", ())
        assert await given(store, KEY="brought", MORE="brought") == {"KEY": "brought"}
        assert await given(store, MORE="brought") == {"KEY": "kept"}

    in_file(tmp_path / "a.db", work)


@pytest.mark.parametrize(
    ("patterns", "own", "trusted", "named"),
    [
        ((), True, True, False),
        (("Sms.*",), True, True, False),
        (("Sms.Sen?",), True, True, False),
        (("Sms.Send",), True, True, True),
        (("Sms.Send@1",), False, True, True),
        (("Sms.Send@1.0.0",), False, True, True),
        (("Sms.Send@2",), False, False, False),
        (("Sms.Send@1.*", "Mail.*"), False, True, False),
        (("#phone",), True, True, False),
        (("@read_only",), True, True, False),
        (("@open_world",), False, False, False),
        (("Mail.*", "Mail.Send"), False, False, False),
    ],
)
def test_only_tools_that_fit_are_given_it(
    patterns: tuple[str, ...], own: bool, trusted: bool, named: bool, tmp_path: Path
) -> None:
    """A stranger's is given none, whatever it is called: it chose that name itself."""

    async def work(store: Store) -> None:
        await held(store).put(WhichSecret("KEY", "acme"), "kept", patterns)
        tools = (SEND, workers_tool(is_trusted=True), workers_tool(is_named=True), workers_tool())
        assert [bool(await given(store, tool=tool)) for tool in tools] == [own, trusted, named, False]

    in_file(tmp_path / "a.db", work)


def test_one_that_does_not_fit_the_tool_leaves_it_to_the_next(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await held(store).put(WhichSecret("KEY", "acme", "ada"), "for mail", ("Mail.*",))
        await held(store).put(WhichSecret("KEY", "acme"), "for all", ())
        assert await given(store) == {"KEY": "for all"}

    in_file(tmp_path / "a.db", work)


def test_who_can_write_to_the_ledger_cannot_give_it_to_another_tool(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await held(store).put(WhichSecret("KEY", "acme"), "kept", ("Mail.*",))
        kept = await store.sealed.get(KIND, "acme", "", "KEY")
        assert kept is not None
        assert await store.sealed.put(msgspec.structs.replace(kept, about=b'{"tools":[],"since":1}'))
        assert await store.sealed.put(msgspec.structs.replace(kept, owner="ada"))
        assert await given(store) == {}

    in_file(tmp_path / "a.db", work)


def test_one_that_no_key_opens_is_missing_and_said_to_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(store: Store) -> None:
        await HeldSecrets(Vault(store.sealed, STRANGER), lambda: 100.0).put(WhichSecret("KEY", "acme"), "kept", ())
        assert await given(store) == {}

    in_file(tmp_path / "a.db", work)
    assert "no key opens the secret KEY of tenant acme" in caplog.text


def test_they_are_listed_without_values_and_removed_one_by_one(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        secrets = held(store)
        one, two = WhichSecret("A", "acme", "ada"), WhichSecret("A", "acme")
        for which in (one, two):
            await secrets.put(which, "canary", ("Sms.*",))
        assert await secrets.listed() == [HeldSecret(two, ("Sms.*",), 100.0), HeldSecret(one, ("Sms.*",), 100.0)]
        assert await secrets.remove(one)
        assert not await secrets.remove(one)
        assert [each.which for each in await secrets.listed()] == [two]
        assert (await Vault(store.sealed, RING).get(VaultPath(KIND, "acme", "", "A"))) is not None

    in_file(tmp_path / "a.db", work)
