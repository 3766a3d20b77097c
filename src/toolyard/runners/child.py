"""The child process: loads the author's file, then runs one call after another.

Started as `python -m toolyard.runners.child FD TARGET`. It ends when the server's end of the socket closes: in the
middle of a call too, because a server that was killed cannot kill its children.
"""

import asyncio
import logging
import os
import select
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from ..model.caller import Caller
from ..model.channel import QuietChannel
from ..model.errors import ToolError
from ..model.json_value import decode
from ..model.raised import named
from ..model.run import Run
from ..model.tool import Host, Tool
from ..text.hidden import escaped
from ..text.log_scrubbing import begin, end, log_warnings, scrub_logs, traceback_of
from ..text.scrubber import scrubber_of
from .frames import FailedFrame, Frame, Log, ProgressFrame, Raised, Returned, Start, pack, read
from .loader import load


class SocketChannel(QuietChannel):
    """Progress and logs go to the server as they happen. A cancelled call is a killed process."""

    def __init__(self, link: socket.socket) -> None:
        super().__init__()
        self._link = link

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        self._link.sendall(pack(ProgressFrame(done, total, message)))

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        self._link.sendall(pack(Log(level, message, {key: str(value) for key, value in fields.items()})))


def serve(link: socket.socket, target: str) -> None:
    """The socket is read in the main thread; the loop runs only while a tool or the lifespan does."""
    logging.getLogger("toolyard.tool").disabled = True  # the server logs what the channel brings it
    logging.getLogger("toolyard.authoring").disabled = True  # the server has said it
    scrub_logs()
    log_warnings()
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Lines())
    sources = load(target)
    tools = {tool.reference: tool for source in sources for tool in source.tools}
    resources: dict[Host, Any] = {}
    calling = threading.Event()
    threading.Thread(target=end_with, args=(link, calling), name="toolyard-server-is-there", daemon=True).start()
    with asyncio.Runner() as runner, link.makefile("rb") as incoming:
        stack = AsyncExitStack()
        for source in sources:
            resources[source.host] = runner.run(stack.enter_async_context(source.running()))
        while isinstance(frame := read(incoming), Start):
            calling.set()
            tool = tools[frame.reference]
            answer = runner.run(answered(tool, frame, SocketChannel(link), resources.get(tool.host)))
            calling.clear()
            link.sendall(pack(answer))
        runner.run(stack.aclose())


def end_with(link: socket.socket, calling: threading.Event) -> None:
    """Ends a call whose server is gone. (Between calls the main thread sees for itself, and closes what is open.)"""
    gone = select.poll()
    gone.register(link, 0)  # nothing but its end
    gone.poll()
    calling.wait()
    os._exit(1)


class Lines(logging.Formatter):
    """What authors log without a handler of their own, as a terminal can show it."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record))


async def answered(tool: Tool, start: Start, channel: SocketChannel, resources: Any) -> Frame:
    """How one call ended."""
    input = decode(start.input)
    run = Run(
        tool, start.call_id, Caller(*start.caller), input, channel,
        start.trace_id, start.user_info, start.secrets, start.tokens, resources,
        scrubber=scrubber_of(start.secrets, start.tokens),
    )  # fmt: skip
    if run.scrubber is not None:
        begin(run.scrubber)
    try:
        value = tool.code.invoke(tool.code.bind(input), run)
        return Returned(tool.code.dump(await value if tool.code.is_async else value))
    except ToolError as e:
        return FailedFrame(e.message, e.developer_message, e.can_retry, e.retry_after_ms, e.additional_prompt_content)
    except (Exception, SystemExit, GeneratorExit) as error:
        return Raised(named(error), traceback_of(error))
    finally:
        if run.scrubber is not None:
            end(run.scrubber)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
