"""Whoever hears of changes hears of those of its own list alone."""

import asyncio
from typing import Any

from toolyard import Toolkit
from toolyard.catalogue import Catalogue
from toolyard.model.caller import CurrentView, View
from toolyard.model.tool import Tool
from toolyard.server.mcp.methods.subscriptions import Subscriber, Subscriptions
from toolyard.wires.mcp.params import SubscriptionFilter

kit = Toolkit("Kit", version="1.0.0")


@kit.tool
async def public() -> None:
    """Everybody sees it."""


@kit.tool
async def hidden() -> None:
    """Few see it."""


class Limited(View):
    """Sees what is public, and may call what is not hidden."""

    def sees(self, tool: Tool) -> bool:
        return tool.id == "Kit.Public"


def test_a_change_is_told_to_those_whose_list_it_changes() -> None:
    seen, unseen = kit.tools
    heard: dict[str, list[str]] = {"all": [], "limited": []}

    def subscriber(name: str, view: View) -> Subscriber:
        def tell(method: str, params: dict[str, Any]) -> None:
            heard[name].append(method)

        return Subscriber(SubscriptionFilter(tools=True), tell, current=CurrentView(view))

    async def scenario() -> None:
        catalogue = Catalogue()
        subscriptions = Subscriptions(catalogue, None, None, None, None, 10)  # type: ignore[arg-type]
        with (
            subscriptions.hearing(subscriber("all", View())),
            subscriptions.hearing(subscriber("limited", Limited())),
        ):
            for change, tool in ((catalogue.add, unseen), (catalogue.remove, unseen)):
                change(tool)
            await asyncio.sleep(0)
            assert {name: len(told) for name, told in heard.items()} == {"all": 2, "limited": 0}
            catalogue.add(seen, unseen)
            await asyncio.sleep(0)
            assert {name: len(told) for name, told in heard.items()} == {"all": 3, "limited": 1}

    asyncio.run(scenario())
