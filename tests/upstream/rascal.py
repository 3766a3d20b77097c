"""An upstream with prompts and resources that misbehaves in one way. `python -m tests.upstream.rascal WAY`, over pipes,
in the newer era."""

import asyncio
import sys
from itertools import count
from typing import Any

from .bazaar import Message, Request, note, over_pipes
from .library import Library

numbers = count(1)


class Rascal(Library):
    """The library, but for what it does in its way."""

    way = ""

    async def result(self, method: str, request: Request) -> Message:
        note(f"asked {method}")
        made = self.strange(method, request)
        if made == "never":
            await asyncio.Event().wait()
        return await super().result(method, request) if made is None else made

    def strange(self, method: str, request: Request) -> Any:
        if method == "prompts/list":
            return {
                "endless": {"prompts": [{"name": f"p{next(numbers)}"}], "nextCursor": f"c{next(numbers)}"},
                "round": {"prompts": [{"name": "p"}], "nextCursor": "the same"},
                "huge": {"prompts": [{"name": "p", "description": "x" * 2**24}]},
                "many": {"prompts": [{"name": f"p{n}"} for n in range(6_000)]},
                "no list": {"prompts": {"name": "p"}},
                "silent": "never",
                "other each time": {"prompts": [{"name": f"p{next(numbers)}"}]},
            }.get(self.way)
        if method == "prompts/get":
            return {
                "text": {"messages": "hello"},
                "numbers": {"messages": [1, 2]},
                "nothing": {},
                "strange kind": {"resultType": "perhaps", "messages": []},
                "waits": "never",
                "asks for ever": {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}},
                "asks strangely": {"resultType": "input_required", "inputRequests": {"a": {"method": "tools/list"}}},
                "asks nothing": {"resultType": "input_required", "inputRequests": [1]},
            }.get(self.way)
        if method == "resources/read":
            return {
                "text": {"contents": "hello"},
                "numbers": {"contents": [1]},
                "large": {"contents": [{"uri": "shelf://1", "text": "x" * 3_000_000}]},
            }.get(self.way)
        return None


if __name__ == "__main__":
    Rascal.way = sys.argv[1]
    asyncio.run(over_pipes(Rascal("2026-07-28")))
