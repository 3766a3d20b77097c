"""One call of an upstream's tool: what it says and asks on its way, and its result as this server records it.

The eras differ in how a tool asks something (by a request of its own, or by an answer that wants to be called again)
and in how a task is waited for. The call knows both; whoever runs it sees a result or an error.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..model.call import ResultExtra
from ..model.channel import Asks, Question
from ..model.definition_text import unseen_in
from ..model.errors import Busy, ToolError
from ..model.json_value import decode, decode_as
from ..model.run import RichResult, Run
from ..text.hidden import escaped
from ..wires.mcp.client_requests import mirrored_headers
from ..wires.mcp.client_results import Listed, failure_of, task_failure
from ..wires.mcp.envelope import INVALID_PARAMS, METHOD_NOT_FOUND, URL_ELICITATION_REQUIRED, RpcError
from ..wires.mcp.params import LEVELS, PREFIX
from .connection import UpstreamConnection
from .content import well_formed
from .faults import Misbehaved, Unanswerable, UpstreamFault, UpstreamRefusal
from .pending_request import object_of

MOST_ROUNDS = 20
"""How often a call may be made again with the answers that it asked for."""
MOST_QUESTIONS = 100
"""That one call asks in all."""
LONGEST_URL = 4096
LARGEST_QUESTION = 2**20
"""Bytes, of the parameters of a question; and of the state that goes back with the answers."""
POLL_S, SHORTEST_POLL_S, LONGEST_POLL_S = 1.0, 0.05, 60.0
MOST_NAMED, LONGEST_URI = 64, 4_096
"""Resources that a result names, and the characters of one's address, that are remembered as its upstream's."""
PATIENCE = 50
"""A task that takes long is not asked for more often than so many times in the time it has taken."""
LONGEST_LOG, MOST_LOGS = 4000, 200
"""Characters of what a call says for the log, and how often it does."""
LONGEST_MESSAGE = 10_000
"""Characters of an error's message; its content has all of it."""
LONGEST_RETRY_MS = 86_400_000
BUSY_S = 0.5
LARGE = 2**20
"""A result of more bytes is decoded in a thread, where it has to be."""
KEY = "toolyard/callId"
_encode = msgspec.json.Encoder().encode
_cancelling: set[asyncio.Task[None]] = set()
"""So that they live."""
KINDS: tuple[Asks, ...] = ("form", "url", "sampling", "roots")
Principal = tuple[str, str, str | None]
_KINDS = {"elicitation/create": "form", "sampling/createMessage": "sampling", "roots/list": "roots"}
_OURS = (PREFIX, "toolyard/")
"""Members of `_meta` that are between two servers, and not for the client behind them."""


class CallAnswer(Struct, rename={"kind": "resultType", "structured": "structuredContent", "is_error": "isError",
                                 "meta": "_meta", "requests": "inputRequests", "state": "requestState"}):  # fmt: skip
    """The result of `tools/call`, in either era, with what is only passed on left as it is."""

    kind: str = "complete"
    content: Raw = Raw(b"null")
    structured: Raw = Raw(b"")
    is_error: bool = False
    meta: Raw = Raw(b"")
    requests: dict[str, Any] = {}
    state: str | None = None
    task: dict[str, Any] | None = None
    """The older era's."""


class UpstreamCall:
    """A call that is under way at an upstream: the `RequestListener` of its requests."""

    def __init__(self, run: Run, connection: UpstreamConnection, listed: Listed, meta: Mapping[str, Any]) -> None:
        """`meta`: what beside MCP's own members goes along in `_meta`."""
        self._run, self._connection, self._listed, self._meta = run, connection, listed, meta
        self._asked = self._logged = 0
        self._asks = asks_of(run)

    async def result(self, arguments: dict[str, Any]) -> RichResult:
        """Raises ToolError where the tool failed, and UpstreamFault."""
        try:
            return await self._answered(arguments)
        except asyncio.CancelledError:
            key = self._meta.get(KEY)
            # A call with a key goes on when whoever made it is gone: it has to be told that nobody wants it. When this
            # server leaves, nobody has said that: the call may be made again, and finds how it ended.
            if isinstance(key, str) and self._run.channel.cancelled:
                self._cancel_soon(key)
            raise

    async def _answered(self, arguments: dict[str, Any]) -> RichResult:
        params: dict[str, Any] = {"name": self._listed.name, "arguments": arguments, "_meta": dict(self._meta)}
        if self._listed.needs_task:
            params["task"] = {}
        headers = mirrored_headers(self._listed, arguments) if self._listed.mirrored else {}
        for _ in range(MOST_ROUNDS):
            try:
                raw = await self._connection.request("tools/call", params, self, headers, self._asks)
            except UpstreamRefusal as refused:
                if refused.code != URL_ELICITATION_REQUIRED or not await self._sent_to_pages(refused):
                    raise
                continue
            answer = _answer_in(raw)
            if answer.kind == "input_required":
                if answer.state is not None and len(answer.state) > LARGEST_QUESTION:
                    raise Misbehaved("wants more state to be kept for it than any call has")
                params["inputResponses"] = await self._answers(answer.requests)
                params.pop("requestState", None)
                if answer.state is not None:
                    params["requestState"] = answer.state
                continue
            if answer.kind == "task" or answer.task is not None:
                answer = await self._of_task(object_of(raw))
            return await self._made(answer)
        raise Misbehaved(f"asked for something {MOST_ROUNDS} times, and did not go on")

    # -- what it says and asks ---------------------------------------------------------------------

    @property
    def principal(self) -> Principal:
        return principal_of(self._run)

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/progress":
            message, total = params.get("message"), params.get("total")
            said = message[:LONGEST_LOG] if isinstance(message, str) else None
            self._run.progress(params.get("progress", 0), total, said)
        elif method == "notifications/message":
            self._log(params.get("level"), params.get("data"))

    def _log(self, level: Any, data: Any) -> None:
        self._logged += 1
        if self._logged <= MOST_LOGS:
            text = data if isinstance(data, str) else _encode(data).decode()
            self._run.log(level if level in LEVELS else "info", text[:LONGEST_LOG], {})
        elif self._logged == MOST_LOGS + 1:
            self._run.log("warning", f"{self._run.tool.id} says too much; nothing more of it is passed on", {})

    async def asked(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Of the older era. Raises ToolError where nobody can be asked: the call cannot go on then. That does not hold
        for folders, which servers also ask for of their own accord, and do without."""
        if method == "ping":
            return {}
        if method == "roots/list" and "roots" not in self._asks:
            raise RpcError(METHOD_NOT_FOUND, "This client has no folders to tell of")
        return dict(await self._ask(_question(f"question {self._asked + 1}", method, params)))

    async def _ask(self, question: Question) -> Any:
        """The answer of the client. Raises ToolError and Unanswerable."""
        self._asked += 1
        if self._asked > MOST_QUESTIONS:
            raise Unanswerable(f"asked more than {MOST_QUESTIONS} things")
        while True:
            try:
                return await self._run.ask(question)
            except Busy:  # others' forms are looked at
                await asyncio.sleep(BUSY_S)
            except ValueError as error:
                raise Unanswerable(f"asked with a form that no answer can be checked against: {error}") from None

    async def _answers(self, requests: Mapping[str, Any]) -> dict[str, Any]:
        """To what an answer of the newer era asks, all of it at once. Raises ToolError and Misbehaved."""
        if len(requests) > MOST_ROUNDS:
            raise Unanswerable(f"asked for {len(requests)} things at once")
        try:
            questions = {
                name: _question(name[:200], str(each.get("method")), each.get("params") or {})
                for name, each in requests.items()
                if isinstance(each, dict)
            }
        except RpcError as error:
            raise Unanswerable(f"asked what cannot be asked: {error.message}") from None
        asking = [asyncio.ensure_future(self._ask(question)) for question in questions.values()]
        try:
            return dict(zip(questions, await asyncio.gather(*asking), strict=True))
        finally:
            for each in asking:  # where one has no answer, nobody is asked the others
                each.cancel()

    async def _sent_to_pages(self, refused: UpstreamRefusal) -> bool:
        """Whether the person has opened what has to be opened before the call can be made."""
        data = refused.details.data
        listed = data.get("elicitations") if isinstance(data, dict) else None
        links = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        for each in links[:MOST_ROUNDS]:
            try:
                question = _question(f"question {self._asked + 1}", "elicitation/create", {**each, "mode": "url"})
            except RpcError as error:
                raise Unanswerable(f"asked what cannot be asked: {error.message}") from None
            answer = await self._ask(question)
            if answer.get("action") != "accept":
                raise ToolError(f"The person did not agree to open the page that {self._run.tool.id} needs")
        return bool(links)

    # -- tasks -------------------------------------------------------------------------------------

    async def _of_task(self, created: Mapping[str, Any]) -> CallAnswer:
        """The answer of a call that became a task. Whoever gives the call up has the task cancelled."""
        task = created.get("task") if isinstance(created.get("task"), dict) else created
        id = task.get("taskId") if isinstance(task, Mapping) else None
        if not isinstance(id, str) or not isinstance(task, Mapping):
            raise Misbehaved("answered with a task that has no id")
        try:
            return await self._task_ended(task, {"taskId": id})
        except asyncio.CancelledError:
            self._cancel_soon(id)
            raise
        except (ToolError, Misbehaved):
            await self._cancel_task(id)
            raise

    async def _task_ended(self, task: Mapping[str, Any], about: Mapping[str, Any]) -> CallAnswer:
        is_modern, began = self._connection.revision.is_modern, time.monotonic()
        while True:
            status = task.get("status")
            if status == "cancelled" or (status == "failed" and is_modern):
                raise task_failure(task)
            if status == "input_required" and is_modern:
                wanted = task.get("inputRequests")
                responses = await self._answers(wanted if isinstance(wanted, dict) else {})
                await self._connection.request("tasks/update", {**about, "inputResponses": responses}, self)
            elif not is_modern and status in ("completed", "failed", "input_required"):
                # This answers as the call itself would have, once it has asked what it wants to know.
                return _answer_in(await self._connection.request("tasks/result", about, self))
            elif status == "completed":
                return _answer_in(Raw(_encode(task.get("result") or {})))
            elif status == "working":
                await asyncio.sleep(max(_poll_s(task), (time.monotonic() - began) / PATIENCE))
            else:
                raise Misbehaved(f"has a task that is {str(status)[:40]!r}, which no task can be")
            task = object_of(await self._connection.request("tasks/get", about))
            self._run.progress(
                0, None, task.get("statusMessage") if isinstance(task.get("statusMessage"), str) else None
            )

    def _cancel_soon(self, id: str) -> None:
        """Whoever is cancelled has no time to wait for it."""
        task = asyncio.get_running_loop().create_task(self._cancel_task(id))
        _cancelling.add(task)
        task.add_done_callback(_cancelling.discard)

    async def _cancel_task(self, id: str) -> None:
        with suppress(UpstreamFault, TimeoutError):
            async with asyncio.timeout(5.0):
                await self._connection.request("tasks/cancel", {"taskId": id})

    # -- results -----------------------------------------------------------------------------------

    async def _made(self, answer: CallAnswer) -> RichResult:
        """The result as it is recorded. Raises ToolError and Misbehaved."""
        content = answer.content = well_formed(answer.content)
        has_content = _is_list(content)
        if not has_content and not len(answer.structured):
            raise Misbehaved("answered with what is no result of a tool")
        meta = _passed_on(answer.meta)
        if answer.is_error:
            raise self._failure(answer, meta)
        if len(answer.structured):
            extra = ResultExtra(content=content if has_content else UNSET, meta=meta)
            return RichResult(await self._decoded(answer.structured), extra)
        if self._listed.output_schema is not None:  # a server of before there was structured content
            value = _json_in(decode(content))
            return RichResult(value, ResultExtra(content=content, meta=meta))
        return RichResult(content, ResultExtra(is_content=True, meta=meta))

    def _failure(self, answer: CallAnswer, meta: Raw | UnsetType) -> ToolError:
        """The error that a tool answered with: its texts are the message."""
        content = decode(answer.content)
        blocks = content if isinstance(content, list) else []
        texts = [each.get("text") for each in blocks if isinstance(each, dict) and each.get("type") == "text"]
        said = "\n".join(text for text in texts if isinstance(text, str)) or f"{self._run.tool.id} failed"
        told = {"isError": True, "content": [{"type": "text", "text": said[:LONGEST_MESSAGE]}]}
        try:
            error = failure_of(told | ({"_meta": decode(answer.meta)} if len(answer.meta) else {})) or ToolError(said)
        except Busy as busy:
            error = ToolError(busy.message, can_retry=True, retry_after_ms=busy.retry_after_ms)
        if error.retry_after_ms is not None and not 0 <= error.retry_after_ms <= LONGEST_RETRY_MS:
            error.retry_after_ms = None
        error.extra = ResultExtra(content=answer.content if _is_list(answer.content) else UNSET, meta=meta)
        return error

    async def _decoded(self, value: Raw) -> Any:
        """As far as somebody has to look into it."""
        if self._listed.output_schema is None:
            return value
        return decode(value) if len(value) <= LARGE else await asyncio.to_thread(decode, value)


def asks_of(run: Run) -> frozenset[str]:
    """What the client of a call can be asked."""
    return frozenset(kind for kind in KINDS if run.channel.can_ask(kind))


def principal_of(run: Run) -> Principal:
    """For whom a call is made."""
    return run.caller.tenant, run.caller.subject, run.caller.user_id


def named_in(result: RichResult) -> list[str]:
    """The addresses of resources that a result's content embeds or links to: the first of them, each once."""
    content = result.value if result.extra.is_content else result.extra.content
    if not isinstance(content, Raw) or bytes(content).find(b'"resource') < 0:
        return []
    found: dict[str, None] = {}
    for each in decode(content):
        if isinstance(each, dict) and each.get("type") in ("resource", "resource_link"):
            named = each.get("resource") if each["type"] == "resource" else each
            uri = named.get("uri") if isinstance(named, dict) else None
            if isinstance(uri, str) and 0 < len(uri) <= LONGEST_URI and len(found) < MOST_NAMED:
                found[uri] = None
    return list(found)


def _answer_in(raw: Raw) -> CallAnswer:
    try:
        return decode_as(raw, CallAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Misbehaved(f"answered with what is no result of a tool: {str(error)[:200]}") from None


def _question(name: str, method: str, params: Mapping[str, Any]) -> Question:
    """Raises RpcError for what is no question that a client could be asked."""
    kind = _KINDS.get(method)
    if kind is None:
        raise RpcError(METHOD_NOT_FOUND, f"There is no method {method[:100]}")
    if len(_encode(params)) > LARGEST_QUESTION:
        raise RpcError(INVALID_PARAMS, f"A question may have {LARGEST_QUESTION} bytes")
    name = escaped(name)
    if kind in ("sampling", "roots"):
        return Question(name, kind, request=params)  # type: ignore[arg-type]
    message, schema, url = params.get("message"), params.get("requestedSchema"), params.get("url")
    said = escaped(message) if isinstance(message, str) else ""
    if params.get("mode") == "url":
        if not isinstance(url, str) or not url.startswith(("https://", "http://")) or len(url) > LONGEST_URL:
            raise RpcError(INVALID_PARAMS, "A page to open needs an http or https address that is not too long")
        if escaped(url) != url:
            raise RpcError(INVALID_PARAMS, "The address of a page has hidden characters")
        return Question(name, "url", said, url=url)
    if not isinstance(schema, dict):
        raise RpcError(INVALID_PARAMS, "A form needs a requestedSchema")
    if next(unseen_in(schema), None) is not None:
        raise RpcError(INVALID_PARAMS, "The requestedSchema has hidden characters")
    return Question(name, "form", said, schema)


def _is_list(json: Raw) -> bool:
    return bytes(memoryview(json)[:1]) == b"["


def _passed_on(meta: Raw) -> Raw | UnsetType:
    """What of a result's `_meta` is for the client behind this server."""
    members = decode(meta) if len(meta) > 2 else None
    if not isinstance(members, dict):
        return UNSET
    kept = {name: value for name, value in members.items() if not name.startswith(_OURS)}
    return Raw(_encode(kept)) if kept else UNSET


def _json_in(content: Any) -> Any:
    """The value of content that is one text with JSON in it; else the content."""
    texts = [each.get("text") for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    if len(texts) != 1 or not isinstance(texts[0], str):
        return content
    try:
        return decode(texts[0])
    except (msgspec.DecodeError, RecursionError):
        return content


def _poll_s(task: Mapping[str, Any]) -> float:
    wanted = task.get("pollIntervalMs", task.get("pollInterval"))
    if not isinstance(wanted, int | float) or isinstance(wanted, bool):
        return POLL_S
    return min(max(wanted / 1000, SHORTEST_POLL_S), LONGEST_POLL_S)
