"""An upstream that keeps every byte that it is sent, over HTTP or pipes, in either era. It answers just enough to be
called: a tool, a prompt, a resource. `python recorder.py REVISION FILE [PORT]`
"""

import json
import os
import socketserver
import sys
from typing import Any

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
CAPABILITIES = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}}
INFO = {"name": "recorder", "version": "1.0.0"}
CACHED = {"ttlMs": 0, "cacheScope": "private"}
TOOL = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}


def result(method: str, params: dict[str, Any], revision: str) -> dict[str, Any] | None:
    """None for what this server does not have."""
    if method == "initialize":
        return {"protocolVersion": revision, "capabilities": CAPABILITIES, "serverInfo": INFO}
    answers: dict[str, dict[str, Any]] = {
        "server/discover": {"supportedVersions": [revision], "capabilities": CAPABILITIES, **CACHED},
        "tools/list": {"tools": [TOOL], **CACHED},
        "tools/call": {"content": [{"type": "text", "text": "heard"}]},
        "prompts/list": {"prompts": [{"name": "hello"}], **CACHED},
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}]},
        "resources/list": {"resources": [{"uri": "kept://1", "name": "one"}], **CACHED},
        "resources/templates/list": {"resourceTemplates": [], **CACHED},
        "resources/read": {"contents": [{"uri": "kept://1", "text": "one"}], **CACHED},
        "resources/subscribe": {},
        "completion/complete": {"completion": {"values": ["one"]}},
        "ping": {},
    }
    return answers.get(method)


def answer(message: dict[str, Any], revision: str) -> dict[str, Any] | None:
    """None for what gets no answer."""
    if "id" not in message or "method" not in message:
        return None
    is_other = message["method"] == ("initialize" if revision == MODERN else "server/discover")
    found = None if is_other else result(message["method"], message.get("params") or {}, revision)
    if found is None:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}}
    shape = {"resultType": "complete", "_meta": {PREFIX + "serverInfo": INFO}} if revision == MODERN else {}
    return {"jsonrpc": "2.0", "id": message["id"], "result": {**shape, **found}}


def keep(file: str, data: bytes) -> None:
    with open(file, "ab") as kept:
        kept.write(data)


class Handler(socketserver.StreamRequestHandler):
    """A connection, request by request, as bytes."""

    def handle(self) -> None:
        while line := self.rfile.readline():
            head, length = line, 0
            while (line := self.rfile.readline()) not in (b"\r\n", b""):
                head += line
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            body = self.rfile.read(length)
            keep(FILE, head + b"\r\n" + body + b"\n")
            self._reply(head, body)

    def _reply(self, head: bytes, body: bytes) -> None:
        message = json.loads(body) if head.startswith(b"POST") and body else None
        made = None if message is None else answer(message, REVISION)
        if not head.startswith(b"POST"):
            self.wfile.write(b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n")
        elif made is None:
            self.wfile.write(b"HTTP/1.1 202 Yes\r\ncontent-length: 0\r\n\r\n")
        else:
            said = json.dumps(made).encode()
            status = b"404 No" if "error" in made and REVISION == MODERN else b"200 OK"
            start = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(said))
            self.wfile.write(start + said)
        self.wfile.flush()


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True


if __name__ == "__main__":
    REVISION, FILE = sys.argv[1:3]
    if len(sys.argv) > 3:
        with Server(("127.0.0.1", int(sys.argv[3])), Handler) as server:
            server.serve_forever()
    keep(FILE, json.dumps(dict(os.environ)).encode() + b"\n")
    for line in sys.stdin.buffer:
        keep(FILE, line)
        made = answer(json.loads(line), REVISION)
        if made is not None:
            sys.stdout.write(json.dumps(made) + "\n")
            sys.stdout.flush()
