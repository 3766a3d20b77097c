"""What a tool needs besides input: who lacks what is told everything at once; a tool sees what it declares."""

from collections.abc import Mapping
from typing import Any

import pytest

from toolyard import Context, MissingRequirements, ToolError, authorization, secret, user_id
from toolyard.model.run import Run
from toolyard.model.tool import Proceed, Requirements
from toolyard.testing import call

from .trying import ID, kit_of


async def everything(ctx: Context) -> list[str | None]:
    """Needs all there is."""
    return [ctx.secret("KEY"), ctx.token("google"), ctx.user_id]


ALL = [authorization("google", scopes=["mail"]), secret("KEY"), user_id]


def test_what_the_caller_sends_reaches_the_tool() -> None:
    kit = kit_of(everything, requires=ALL)
    got = call(kit, ID, secrets={"KEY": "k"}, tokens={"google": "t"}, user_id="ada")
    assert got == ["k", "t", "ada"]


def test_everything_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(MissingRequirements) as refusal:
        call(kit_of(everything, requires=ALL), ID)
    missing = refusal.value.missing
    assert missing.secrets == ("KEY",)
    assert missing.user_id is True
    assert len(missing.authorization) == 1
    assert "provider=google" in missing.authorization[0].url


def test_a_provider_named_twice_is_one_challenge() -> None:
    kit = kit_of(everything, requires=[authorization("google", scopes=["a"]), authorization("google", scopes=["b"])])
    with pytest.raises(MissingRequirements) as refusal:
        call(kit, ID)
    assert len(refusal.value.missing.authorization) == 1


@pytest.mark.parametrize("other", [{"OTHER": "x"}, {"key": "x"}])
def test_another_secret_does_not_help(other: dict[str, str]) -> None:
    with pytest.raises(MissingRequirements):
        call(kit_of(everything, requires=secret("KEY")), ID, secrets=other)


def test_a_tool_sees_no_secret_that_it_does_not_declare(caplog: pytest.LogCaptureFixture) -> None:
    async def curious(ctx: Context) -> str:
        """Asks for what is not its own."""
        return ctx.secret("OTHER")

    with pytest.raises(ToolError, match="failed unexpectedly"):
        call(kit_of(curious, requires=secret("KEY")), ID, secrets={"KEY": "k", "OTHER": "hush"})
    assert "Kit.Tried does not declare the secret 'OTHER': requires=secret('OTHER')" in caplog.text
    assert "hush" not in caplog.text


def test_a_tool_sees_no_token_that_it_does_not_declare(caplog: pytest.LogCaptureFixture) -> None:
    async def curious(ctx: Context) -> str:
        """Asks for what is not its own."""
        return ctx.token("github")

    with pytest.raises(ToolError, match="failed unexpectedly"):
        call(kit_of(curious, requires=authorization("google")), ID, tokens={"google": "t", "github": "hush"})
    assert "requires=authorization('github')" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.parametrize("call_id", [None, "c-1"])
@pytest.mark.parametrize(("requires", "given"), [(None, {}), (secret("KEY"), {"KEY": "mine"})])
def test_what_it_does_not_declare_is_not_even_there(
    requires: Requirements | None, given: dict[str, str], call_id: str | None
) -> None:
    """For the hooks around it, either."""

    async def plain() -> None:
        """Needs little."""

    kit = kit_of(plain, requires=requires)
    seen: list[tuple[Mapping[str, str], Mapping[str, str]]] = []

    async def look(run: Run, proceed: Proceed) -> Any:
        seen.append((run.secrets, run.tokens))
        return await proceed()

    kit.host.around.append(look)
    call(kit, ID, secrets={"KEY": "mine", "OTHER": "hush"}, tokens={"google": "hush"}, call_id=call_id)
    assert seen == [(given, {})]


def test_a_tool_without_requirements_is_sent_none() -> None:
    async def plain(ctx: Context) -> str | None:
        """Needs nothing."""
        return ctx.user_id

    assert call(kit_of(plain), ID) is None
    assert call(kit_of(plain), ID, user_id="ada") == "ada"
