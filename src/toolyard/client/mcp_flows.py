"""A client's flows over MCP: it finds out which era the server is of, lists before it calls, and waits for tasks.

The era is found with the first request, which is always a list: it is sent in the newest revision, and with a server
that does not understand it the client makes the older era's handshake. What was agreed on is kept for as long as the
client lives. Tools are listed before they are called, because the list says which arguments go into headers, whether a
task has to be asked for, and which schema a result must fit.
"""

import logging
from collections.abc import Callable, Generator, Mapping
from itertools import count
from typing import Any, NoReturn

import msgspec
from msgspec import Raw

from ..lazy import load
from ..model.call import CallTool, Outcome
from ..model.clock import SYSTEM_CLOCK
from ..model.errors import Busy, InternalError, RequestError, ToolError, ToolNotFound, UnsupportedProtocol
from ..wires.contract import Reply, Request
from ..wires.mcp import client_requests as wire
from ..wires.mcp.client_replies import Heard, hear, refusal_of
from ..wires.mcp.client_requests import ServerAddress
from ..wires.mcp.client_results import (
    Listed,
    ToolListing,
    asked,
    broken,
    failure_of,
    kind_of,
    listing_of,
    page_of,
    task_failure,
    value_of,
)
from ..wires.mcp.envelope import HEADER_MISMATCH, UNSUPPORTED_VERSION
from ..wires.mcp.revisions import HANDSHAKE, R_2025_11_25
from .flows import Flow, Pause, pause_after, pause_of, tried

MOST_PAGES = 1000
KEEP_S = 60.0
"""How long a list is used whose server does not say how long it holds."""
OPENING_S = 0.01
POLL_S, LONGEST_POLL_S = 1.0, 3600.0
SHORTEST_RESUME_S = 0.1
NO_LEDGER = "MCP has no such question; ask the server at its address without /mcp"
_log = logging.getLogger("toolyard.client")
Step = Generator[Request | Pause, Reply | None, Any]


class McpProtocol:
    """MCP as a client speaks it with one server, with what was agreed on and listed there. Flows of one client may be
    interleaved (`asyncio.gather`): the first finds out the era, and the others wait for that."""

    def __init__(self, url: str, path: str = "", monotonic: Callable[[], float] = SYSTEM_CLOCK.monotonic) -> None:
        """`path` is the path of requests, after the transport's base URL; `url` is the server's address in messages."""
        self._url, self._path, self._monotonic = url, path, monotonic
        self._server: ServerAddress | None = None
        self._is_opening = False
        self._listing: ToolListing | None = None
        self._stale_at = 0.0
        self._ids = count(1)

    # -- what a client can do ----------------------------------------------------------------------

    def call(self, command: CallTool, retries: int, *, wait: bool) -> Flow:
        """Calls a tool and waits for its end, whatever `wait` says: a long call becomes a task, which is waited for."""
        return (yield from tried(lambda: self._called(command), retries))

    def list_tools(self, *, all_versions: bool, for_model: bool) -> Flow:
        """Lists the newest version of each tool, without hidden parameters: MCP has no other list."""
        return (yield from self._list()).tools

    def health(self) -> Flow:
        return (yield from self._ask("tools/list", {})).result is not None

    def end(self) -> Flow:
        """Ends the session, where there is one."""
        server, self._server = self._server, None
        if server is not None and server.session is not None:
            yield wire.encode_goodbye(server)

    def show_call(self, call_id: str, wait_s: float, family: str | None) -> NoReturn:
        raise RequestError(NO_LEDGER)

    def list_calls(self, wanted: Mapping[str, str | None]) -> NoReturn:
        raise RequestError(NO_LEDGER)

    def cancel_call(self, call_id: str, family: str | None) -> NoReturn:
        raise RequestError(NO_LEDGER)

    # -- requests ----------------------------------------------------------------------------------

    def _ask(
        self, method: str, params: Mapping[str, Any], more: Mapping[bytes, bytes] | None = None
    ) -> Generator[Request | Pause, Reply | None, Heard]:
        """Sends a request and returns the reply. If the server has forgotten the session, or speaks another revision
        now, that is agreed on anew, once."""
        yield from self._opened()
        server = self._server
        if server is None:
            return (yield from self._ask_first(method, params))
        heard = yield from self._exchange(server, method, params, more or {})
        if _is_lost(server, heard):
            self._server = None
            yield from self._ask_first("tools/list", {})
            if self._server is not None:
                heard = yield from self._exchange(self._server, method, params, more or {})
        return heard

    def _opened(self) -> Generator[Pause, Reply | None, None]:
        """Waits while another flow of this client is finding out the era."""
        while self._is_opening:
            yield Pause(OPENING_S)

    def _ask_first(self, method: str, params: Mapping[str, Any]) -> Generator[Request | Pause, Reply | None, Heard]:
        """Sends the first request: in the newest revision and, if that is not understood, again after a handshake.
        Other flows wait meanwhile."""
        self._is_opening = True
        try:
            server = ServerAddress(self._path)
            heard = yield from self._exchange(server, method, params, {})
            if heard.is_older or any(each in HANDSHAKE for each in heard.supported()):
                server = yield from self._greet(heard)
                heard = yield from self._exchange(server, method, params, {})
            # An answer that shows no era (busy, wants a key) is no agreement: the next request finds out again.
            if heard.is_modern or not server.revision.is_modern:
                self._server = server
            return heard
        finally:
            self._is_opening = False

    def _greet(self, first: Heard) -> Generator[Request | Pause, Reply | None, ServerAddress]:
        """Makes the older era's handshake. Where that fails as well, the refusal of the first request is raised, if it
        says anything: it is the more likely reason."""
        id = next(self._ids)
        supported = [name for name in HANDSHAKE if name in first.supported()]
        request = wire.encode_initialize(self._path, id, supported[0] if supported else R_2025_11_25.name)
        heard = hear((yield from _reply(request)), id)
        if heard.result is None:
            raise refusal_of(heard if first.error is None or not heard.is_older else first, self._url)
        named = heard.result.get("protocolVersion")
        if named not in HANDSHAKE:
            raise UnsupportedProtocol(f"The server speaks MCP {named}, and this client does not")
        server = ServerAddress(self._path, HANDSHAKE[named], heard.session)
        yield wire.encode_initialized(server)
        return server

    def _exchange(
        self, server: ServerAddress, method: str, params: Mapping[str, Any], more: Mapping[bytes, bytes]
    ) -> Generator[Request | Pause, Reply | None, Heard]:
        """Sends one request and reads its reply to the end. In the older era a server may close the stream early, and
        have the client resume it by its last event."""
        id = next(self._ids)
        heard = hear((yield from _reply(wire.encode(server, id, method, params, more))), id)
        # In the newer era streams are not resumed: one that ends early is a failed request.
        last, retry_ms = None if server.revision.is_modern else heard.last_event, heard.retry_ms
        while last and heard.status == 200 and heard.result is heard.error is None:
            yield Pause(max(pause_of(retry_ms, 0), SHORTEST_RESUME_S))
            heard = hear((yield from _reply(wire.encode_resume(server, last))), id)
            last, retry_ms = heard.last_event or last, heard.retry_ms if heard.retry_ms is not None else retry_ms
        return heard

    def _result(self, heard: Heard) -> dict[str, Any]:
        if heard.result is None:
            raise refusal_of(heard, self._url)
        return heard.result

    # -- lists -------------------------------------------------------------------------------------

    def _list(self) -> Generator[Request | Pause, Reply | None, ToolListing]:
        """Lists all pages of the server's tools."""
        tools: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):  # a server whose cursor never ends must not hold the client for ever
            result = self._result((yield from self._ask("tools/list", {} if cursor is None else {"cursor": cursor})))
            page, cursor = page_of(result)
            tools += page
            if cursor is None:
                return self._keep(tools, result.get("ttlMs"))
        raise InternalError(f"The server's list of tools does not end: {MOST_PAGES} pages, and there are more")

    def _keep(self, tools: list[dict[str, Any]], ttl_ms: Any) -> ToolListing:
        server = self._server or ServerAddress(self._path)
        listing = self._listing = listing_of(tools, server.revision)
        for name, reason in listing.rejected.items():
            _log.warning("%s: the tool %s is left out: %s", self._url, name, reason)
        has_ttl = isinstance(ttl_ms, int | float) and ttl_ms > 0
        self._stale_at = self._monotonic() + (ttl_ms / 1000 if has_ttl else KEEP_S)
        return listing

    def _find(self, id: str) -> Generator[Request | Pause, Reply | None, tuple[Listed, str | None]]:
        """Finds a tool in the list that is known, and else in a new one. Raises ToolNotFound."""
        yield from self._opened()
        listing = self._listing if self._monotonic() < self._stale_at else None
        found = listing.find(id) if listing is not None else None
        if found is None:
            listing = yield from self._list()
            found = listing.find(id)
        if found is None:
            reason = listing.rejected.get(id) if listing is not None else None
            details = f"It is listed, but cannot be called: {reason}" if reason else "The server does not list it"
            raise ToolNotFound(f"Tool '{id}' was not found", developer_message=details)
        return found

    # -- calls -------------------------------------------------------------------------------------

    def _called(self, command: CallTool) -> Flow:
        started = self._monotonic()
        outcome = Outcome(command.call_id or "", 0.0)
        try:
            outcome.value = Raw(msgspec.json.encode((yield from self._value(command))))
        except ToolError as error:
            outcome.error = error
        outcome.duration_ms = round((self._monotonic() - started) * 1000, 3)
        return outcome

    def _value(self, command: CallTool) -> Step:
        """Calls a tool and returns its value. Raises the ToolError that it failed with."""
        tool, version = yield from self._find(command.tool_id)
        heard = yield from self._send(command, tool, version)
        # The tool was changed since it was listed, and wants other headers. Nothing has run, so it may be called again.
        if heard.code == HEADER_MISMATCH:
            yield from self._list()
            tool, version = yield from self._find(command.tool_id)
            heard = yield from self._send(command, tool, version)
        result = self._result(heard)
        # Where the client asked for a task (2025-11-25) the result is one without saying so.
        if tool.needs_task or kind_of(result) == "task":
            result = yield from self._of_task(result)
        if (failure := failure_of(result)) is not None:
            raise failure
        return (yield from self._checked(result, tool, version))

    def _send(self, command: CallTool, tool: Listed, version: str | None) -> Step:
        params = wire.call_params(command, tool, version)
        if tool.needs_task:
            params["task"] = {}
        return (yield from self._ask("tools/call", params, wire.mirrored_headers(tool, params["arguments"])))

    def _checked(self, result: Mapping[str, Any], tool: Listed, version: str | None) -> Step:
        """The value of a result, checked by the tool's listed schema; where it does not fit, by the one listed now, as
        the tool may have changed. An older version's schema is not listed, so its result is not checked."""
        if version is not None and tool.version not in (version, f"{version}.0.0"):
            return value_of(result, tool, None, _compile)
        try:
            return value_of(result, tool, tool.output_schema, _compile)
        except ToolError:
            fresh = (yield from self._list()).by_name.get(tool.name)
            if fresh is None or fresh.output_schema == tool.output_schema:
                raise
        return value_of(result, fresh, fresh.output_schema, _compile)

    # -- tasks -------------------------------------------------------------------------------------

    def _of_task(self, created: Mapping[str, Any]) -> Step:
        """Waits for a task to end and returns its result. It polls as often as the server wants to be polled."""
        task = created.get("task", created)
        if not isinstance(task, dict) or not isinstance(task.get("taskId"), str):
            raise broken("The server's answer is not a task", created)
        about = {"taskId": task["taskId"]}
        is_modern = self._server is not None and self._server.revision.is_modern
        while True:
            yield Pause(_poll_s(task))
            task = yield from self._asked_again("tasks/get", about)
            status = task.get("status")
            if status == "input_required":  # this client can answer nothing, so the task would wait for ever
                yield from self._ask("tasks/cancel", about)
                raise asked(task)
            if status == "cancelled" or (status == "failed" and is_modern):
                raise task_failure(task)
            if status in ("completed", "failed"):
                # In the older era this answers as the call itself would have: with a result, or with an error.
                result = task.get("result") if is_modern else (yield from self._asked_again("tasks/result", about))
                if not isinstance(result, dict):
                    raise broken("The server's answer is not a task", task)
                return result

    def _asked_again(self, method: str, params: Mapping[str, Any]) -> Step:
        """Asks about a task until a busy server has time to answer: the call is made, and its result is wanted."""
        while True:
            try:
                return self._result((yield from self._ask(method, params)))
            except Busy as busy:
                yield pause_after(busy)


def _is_lost(server: ServerAddress, heard: Heard) -> bool:
    """Whether the server has forgotten the session, or does not speak the agreed revision any more."""
    if server.revision.is_modern:
        return heard.code == UNSUPPORTED_VERSION
    return server.session is not None and heard.status == 404


def _poll_s(task: Mapping[str, Any]) -> float:
    wanted = task.get("pollIntervalMs", task.get("pollInterval"))
    if not isinstance(wanted, int | float) or wanted < 0:
        return POLL_S
    if wanted > LONGEST_POLL_S * 1000:
        raise broken(f"The server wants to be asked about its task in {wanted / 1000:g} s, which is too long", task)
    return wanted / 1000


def _compile(schema: dict[str, Any]) -> Any:
    return load("validator")(schema)


def _reply(request: Request) -> Generator[Request | Pause, Reply | None, Reply]:
    reply = yield request
    assert reply is not None  # noqa: S101
    return reply
