"""The one runner: a row goes out as raw HTTP/1.1, the reply is held against what the row expects.

`send` is the only part that touches a socket. `http.client` adds nothing that a row did not ask for and does
not mind what a row asks for (a GET with a body, a wrong Content-Length, bytes that are no JSON).
"""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from .matching import mismatches, select
from .published import SCHEMAS, schema_problems
from .rows import Row
from .tokens import fill

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def encode_body(request: Mapping[str, Any]) -> bytes:
    if "json" in request:
        return json.dumps(request["json"]).encode("utf-8")
    if "body_hex" in request:
        return bytes.fromhex(request["body_hex"])
    return str(request.get("body", "")).encode("utf-8")


def encode_headers(request: Mapping[str, Any], body: bytes, host: str) -> dict[str, str]:
    """What the row says, and what HTTP cannot do without. A value of null leaves a header out."""
    headers: dict[str, str | None] = {"Host": host, "Connection": "close"}
    if body or request["method"] == "POST":
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    headers |= request.get("headers", {})
    return {name: fill(value) for name, value in headers.items() if value is not None}


@contextmanager
def open_request(base_url: str, request: Mapping[str, Any]) -> Iterator[http.client.HTTPResponse]:
    """A reply whose body is still to be read."""
    address = urlsplit(base_url)
    assert address.hostname is not None
    body = encode_body(request)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=TIMEOUT_S)
    try:
        connection.putrequest(request["method"], request["path"], skip_host=True, skip_accept_encoding=True)
        for name, value in encode_headers(request, body, address.netloc).items():
            connection.putheader(name, value)
        connection.endheaders()
        send_body(connection, body)
        yield connection.getresponse()
    finally:
        connection.close()


def send(base_url: str, request: Mapping[str, Any]) -> Reply:
    with open_request(base_url, request) as response:
        return Reply(response.status, headers_of(response), response.read())


def headers_of(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def send_body(connection: http.client.HTTPConnection, body: bytes) -> None:
    """A server may refuse a request before it has read all of it; its answer counts, not the broken pipe."""
    try:
        connection.send(body)
    except (BrokenPipeError, ConnectionResetError):
        pass


def status_problems(expect: Mapping[str, Any], reply: Reply) -> list[str]:
    if reply.status == expect["status"]:
        return []
    return [f"status: expected {expect['status']}, got {reply.status}"]


def header_problems(expect: Mapping[str, Any], reply: Reply) -> list[str]:
    expected = {name.lower(): value for name, value in expect.get("headers", {}).items()}
    return mismatches(expected, dict(reply.headers), at="header")


def text_problems(expect: Mapping[str, Any], reply: Reply) -> list[str]:
    missing = [f"text: should have {want!r}" for want in expect.get("text_has", []) if want not in reply.text]
    present = [f"text: should not have {want!r}" for want in expect.get("text_lacks", []) if want in reply.text]
    whole = [] if expect.get("text", reply.text) == reply.text else [f"text: expected {expect['text']!r}"]
    return missing + present + whole


def schema_entries(expect: Mapping[str, Any]) -> list[tuple[str, str]]:
    """`schema: Name`, or `schema: {name: Name, at: items[*]}`; the path is empty for the whole reply."""
    schema = expect.get("schema")
    if schema is None:
        return []
    return [(schema, "")] if isinstance(schema, str) else [(schema["name"], schema["at"])]


def json_problems(wire: str, expect: Mapping[str, Any], reply: Reply) -> list[str]:
    if not expect.keys() & {"json", "absent", "schema"}:
        return []
    try:
        value = json.loads(reply.body)
    except ValueError as error:
        return [f"body: not JSON ({error})"]
    problems = []
    if "json" in expect:
        problems += mismatches(expect["json"], value, exact=expect.get("exact", False))
    for path in expect.get("absent", []):
        problems += [f"{path}: should not be there, got {found!r}" for found in select(value, path)]
    for name, path in schema_entries(expect):
        problems += conformance_problems(wire, name, path, value)
    return problems


def conformance_problems(wire: str, name: str, path: str, value: Any) -> list[str]:
    found = select(value, path)
    if not found:
        return [f"{path}: nothing there to hold against {name}"]
    if not SCHEMAS.is_dir():
        return []
    return [problem for part in found for problem in schema_problems(wire, name, part)]


def check(wire: str, expect: Mapping[str, Any], reply: Reply) -> list[str]:
    """Everything in which a reply is not what was expected. Pure."""
    problems = [
        *status_problems(expect, reply),
        *header_problems(expect, reply),
        *text_problems(expect, reply),
        *json_problems(wire, expect, reply),
    ]
    return [*problems, f"reply was: {reply.text[:2000]}"] if problems else []


def followed(row: Row, reply: Reply) -> Mapping[str, Any]:
    """The request for the address that the reply names: to the same server, without credentials."""
    assert row.follow is not None
    [address] = select(json.loads(reply.body), row.follow["at"])
    parts = urlsplit(address)
    return {"method": "GET", "path": f"{parts.path}?{parts.query}" if parts.query else parts.path}


def run(row: Row, base_url: str) -> list[str]:
    """Send a row to a server; the problems found, none when it conforms."""
    reply = send(base_url, row.request)
    problems = check(row.wire, row.expect, reply)
    if problems or row.follow is None:
        return problems
    return check(row.wire, row.follow["expect"], send(base_url, followed(row, reply)))
