"""The one dispatcher: methods of both eras, over whichever transport they came.

What is about tools, tasks, questions and the protocol itself is answered here. Prompts, resources and completion are
the author's, through the official SDK, where they have any.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec import Struct

from ....version import VERSION
from ....wires.mcp.envelope import METHOD_NOT_FOUND, RpcError
from ....wires.mcp.params import TASKS
from ....wires.mcp.revisions import REVISIONS, Revision, spoken_by
from ....wires.mcp.tools import LIST_TTL_MS
from ..protocol.peer import McpRequest
from .client_answers import ClientAnswers
from .offers import Offers
from .subscriptions import Subscriptions
from .tasks import Tasks
from .tools_call import Calling
from .tools_list import ToolPages

Method = Callable[[McpRequest], Coroutine[Any, Any, bytes]]
_encode = msgspec.json.Encoder().encode


class ServerInfo(Struct, frozen=True):
    """What the server says of itself: to programs and people, and, where there is something to say, to models."""

    name: str
    title: str
    instructions: str | None = None

    @property
    def info(self) -> dict[str, str]:
        return {"name": self.name, "title": self.title, "version": VERSION}


class Dispatcher:
    """Finds the method for a request, by the revision that its client speaks, and says what this server can do."""

    def __init__(
        self,
        calling: Calling,
        pages: ToolPages,
        tasks: Tasks,
        subscriptions: Subscriptions,
        offers: Offers,
        identity: ServerInfo,
    ) -> None:
        self._pages, self._offers, self._identity = pages, offers, identity
        self.modern = spoken_by(identity.info)
        """The revisions of the newer era, as this server speaks them."""
        older: dict[str, Method] = {
            "tools/list": self._list,
            "tools/call": calling.call,
            "ping": _nothing,
        }
        with_tasks: dict[str, Method] = {
            **older,
            "tasks/get": tasks.get,
            "tasks/result": tasks.result,
            "tasks/list": tasks.list,
            "tasks/cancel": tasks.cancel,
        }
        newer: dict[str, Method] = {
            "tools/list": self._list,
            "tools/call": calling.call,
            "server/discover": self._discover,
            "subscriptions/listen": subscriptions.listen,
            "tasks/get": tasks.get,
            "tasks/update": tasks.update,
            "tasks/cancel": tasks.cancel,
        }
        self._methods = {
            name: newer if revision.is_modern else with_tasks if revision.execution else older
            for name, revision in REVISIONS.items()
        }

    def answer(self, request: McpRequest) -> Coroutine[Any, Any, bytes]:
        """The result. Raises RpcError, at once or when awaited."""
        methods = self._methods[request.peer.revision.name]
        name = str(request.message.method)
        method = methods.get(name)
        if method is not None:
            return method(request)
        offered = self._offers.answer(request)
        if offered is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {name[:200]}", status=404)
        return offered

    def initialized(self, revision: Revision) -> bytes:
        """The result of `initialize`."""
        made = {
            "protocolVersion": revision.name,
            "capabilities": self.capabilities(revision),
            "serverInfo": self._identity.info,
        }
        return _encode(made | self._instructions())

    def capabilities(self, revision: Revision) -> dict[str, object]:
        """What this server can do."""
        made: dict[str, object] = {"tools": {"listChanged": True}, "logging": {}}
        if revision.execution:
            made["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        if revision.is_modern:
            made["extensions"] = {TASKS: {}}
        return made | self._offers.capabilities(revision)

    async def _discover(self, request: McpRequest) -> bytes:
        made = {
            "resultType": "complete",
            "supportedVersions": list(REVISIONS),
            "capabilities": self.capabilities(request.peer.revision),
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "private",
        }
        return _encode(made | self._instructions() | {"_meta": request.peer.revision.server_info})

    def _instructions(self) -> dict[str, str]:
        return {"instructions": self._identity.instructions} if self._identity.instructions else {}

    async def _list(self, request: McpRequest) -> bytes:
        return self._pages.page(request.message, request.peer.revision, request.peer.caller.view)


async def _nothing(request: McpRequest) -> bytes:
    return b"{}"


class McpParts(Struct):
    """What a transport needs of MCP: who answers requests, who hears of changes, and who takes clients' answers."""

    dispatcher: Dispatcher
    subscriptions: Subscriptions
    answers: ClientAnswers
