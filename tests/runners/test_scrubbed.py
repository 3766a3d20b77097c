"""What is large is scrubbed beside the loop."""

import asyncio
import threading
from typing import Any

import pytest

from toolyard import Context, ToolError, Toolkit, secret
from toolyard.runners.scrub_thread import LARGE, scrubbed
from toolyard.testing import call
from toolyard.text.scrubber import Scrubber

KEY = "sk-live_4eC39HqLyjWDarjtT1zdp7dc"
kit = Toolkit("Kit")


@kit.tool(requires=secret("KEY"))
async def echo(ctx: Context, times: int, fails: bool = False) -> str:
    """Says the secret, and much else."""
    text = ctx.secret("KEY") + "%41 " * times
    if fails:
        raise ToolError(text)
    return text


def test_the_loop_turns_while_something_large_is_scrubbed() -> None:
    turned = threading.Event()

    def scrub(text: str) -> str:
        assert turned.wait(30)
        return text

    async def scene() -> None:
        scrubbing = asyncio.create_task(scrubbed(scrub, "x" * 8 * (LARGE + 1)))
        await asyncio.sleep(0)
        turned.set()
        await scrubbing

    asyncio.run(scene())


@pytest.mark.parametrize(("times", "is_beside"), [(1, False), (100_000, True)])
@pytest.mark.parametrize("fails", [False, True])
def test_a_call_scrubs_beside_the_loop_what_is_large(
    monkeypatch: pytest.MonkeyPatch, times: int, is_beside: bool, fails: bool
) -> None:
    threads = set[bool]()
    text = Scrubber.text

    def noted(self: Scrubber, given: str) -> str:
        try:
            asyncio.get_running_loop()
            threads.add(False)
        except RuntimeError:
            threads.add(True)
        return text(self, given)

    monkeypatch.setattr(Scrubber, "text", noted)
    said: Any
    try:
        said = call(kit, "Kit.Echo", {"times": times, "fails": fails}, secrets={"KEY": KEY})
    except ToolError as failed:
        said = failed.message
    assert said.startswith("[secret KEY]%41 ")
    assert threads == {is_beside}
