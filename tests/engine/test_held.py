"""An attempt that is stopped from outside."""

import asyncio

from toolyard import Toolkit
from toolyard.model.call import CallTool
from toolyard.model.caller import LOCAL
from toolyard.model.channel import QuietChannel
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.store.hints import Topic

kit = Toolkit("Kit")


@kit.tool
async def patient() -> None:
    """Waits for ever."""
    await asyncio.Event().wait()


def test_who_waits_is_told_of_the_end_however_often_it_is_hinted_at() -> None:
    async def scenario() -> None:
        yard = Yard([kit], exactly())
        async with yard.lifetime():
            command = CallTool("Kit.Patient", {}, "k", family="oxp")
            tool = yard.engine.resolve("Kit.Patient", LOCAL)
            waiting = asyncio.create_task(yard.engine.call(tool, command, LOCAL, QuietChannel()))
            while (call := await yard.store.get(LOCAL.tenant, LOCAL.subject, "k")) is None:
                await asyncio.sleep(0)
            cancelling = asyncio.create_task(yard.store.cancel(call.seq))
            while not waiting.done():
                yard.store.hints.tell(Topic.ENDED, call.seq)
                await asyncio.sleep(0)
            await cancelling
            assert waiting.result().error is not None
            assert "cancelled" in str(waiting.result().error)

    asyncio.run(asyncio.wait_for(scenario(), 20))
