"""The headers of 2026-07-28, which repeat parts of the body so that proxies can route without reading it.

Because a proxy may decide by a header and the server by the body, the two must agree: where they do not, the request is
refused. A tool may have arguments repeated, too, by the annotation `x-mcp-header` in its input schema.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from ...model.tool import Schema
from .envelope import HEADER_MISMATCH, RpcError

VERSION_HEADER, METHOD_HEADER, NAME_HEADER, SESSION_HEADER = (
    b"mcp-protocol-version",
    b"mcp-method",
    b"mcp-name",
    b"mcp-session-id",
)
PARAMETER = b"mcp-param-"
ANNOTATION = "x-mcp-header"
NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The methods whose target is repeated in `Mcp-Name`, and the parameter that has it."""
_plain = re.compile(rb"[\x20-\x7e\t]*").fullmatch
_number = re.compile(r"-?[0-9]{1,400}(\.0*)?").fullmatch  # bounded, because int() of a very long text takes long
_token = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch


def check_headers(headers: Mapping[bytes, bytes], version: str, method: str, name: Any) -> None:
    """Raises RpcError where a header is missing or does not agree with the body. `name` is the request's target, if it
    has one."""
    # The usual case first, in one go; what follows finds out which header is wrong, and decodes base64.
    if (
        headers.get(METHOD_HEADER) == method.encode()
        and headers.get(VERSION_HEADER) == version.encode()
        and (not isinstance(name, str) or headers.get(NAME_HEADER) == name.encode())
    ):
        return
    _same("MCP-Protocol-Version", headers.get(VERSION_HEADER), version)
    _same("Mcp-Method", headers.get(METHOD_HEADER), method)
    if isinstance(name, str):
        _same("Mcp-Name", headers.get(NAME_HEADER), name)


def check_parameters(headers: Mapping[bytes, bytes], mirrored: Mapping[str, tuple[str, ...]], arguments: Any) -> None:
    """Raises RpcError where the headers that repeat a tool's arguments do not agree with the arguments."""
    for header, path in mirrored.items():
        value = value_at(arguments, path)
        given = headers.get(PARAMETER + header.lower().encode())
        shown = f"Mcp-Param-{header}"
        if value is None:
            if given is not None:
                raise _mismatch(f"{shown} is there, and the body has no such value")
        elif isinstance(value, bool):
            _same(shown, given, "true" if value else "false")
        elif isinstance(value, int | float):
            _same_number(shown, given, value)
        else:
            _same(shown, given, str(value))


def mirrored_of(schema: Schema) -> dict[str, tuple[str, ...]]:
    """The headers that a tool's input schema asks for, and the paths of their values in the arguments. Raises
    ValueError for an annotation that cannot be honoured."""
    found: dict[str, tuple[str, ...]] = {}
    lowered = set[str]()
    reachable = dict(_annotated(schema, ()))
    for path, (name, kind) in reachable.items():
        if not isinstance(name, str) or not _token(name):
            raise ValueError(f"{ANNOTATION} of {'.'.join(path)} must be a header's name, got {name!r}")
        if kind not in ("string", "integer", "boolean"):
            raise ValueError(f"{ANNOTATION} is for text, whole numbers and yes or no; {'.'.join(path)} is {kind}")
        if name.lower() in lowered:
            raise ValueError(f"{ANNOTATION} {name!r} is there twice")
        found[name] = path
        lowered.add(name.lower())
    # An annotation within a list or a choice has no one value, and no path.
    if _count(schema) != len(reachable):
        raise ValueError(f"{ANNOTATION} stands where no header can be made of it: it is for properties alone")
    return found


def _annotated(schema: Any, path: tuple[str, ...]) -> Any:
    for name, below in (schema.get("properties") or {}).items():
        if isinstance(below, dict):
            if ANNOTATION in below:
                yield (*path, name), (below[ANNOTATION], below.get("type"))
            yield from _annotated(below, (*path, name))


def _count(schema: Any) -> int:
    if isinstance(schema, dict):
        return (ANNOTATION in schema) + sum(map(_count, schema.values()))
    return sum(map(_count, schema)) if isinstance(schema, list) else 0


def value_at(arguments: Any, path: tuple[str, ...]) -> Any:
    """The argument at a path; None where there is none."""
    for step in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(step)
    return arguments


def _same(header: str, given: bytes | None, wanted: str) -> None:
    if given == wanted.encode():
        return
    if _decoded(header, given) != wanted:
        raise _mismatch(f"{header} header value {_shown(given)} does not match body value {wanted!r}")


def _same_number(header: str, given: bytes | None, wanted: float) -> None:
    text = _decoded(header, given)
    # Compared as numbers: 3 and 3.0 are the same value, in the header as in the body.
    if not _number(text) or int(text.partition(".")[0]) != wanted:
        raise _mismatch(f"{header} header value {_shown(given)} does not match body value {wanted}")


def _decoded(header: str, given: bytes | None) -> str:
    """The text of a header: as it is, or in base64 where it is marked as such. Raises RpcError."""
    if given is None:
        raise _mismatch(f"{header} header is missing")
    given = given.strip(b" \t")
    if not _plain(given):
        raise _mismatch(f"{header} header has characters that no header may have; use =?base64?…?=")
    if given.startswith(b"=?base64?") and given.endswith(b"?="):
        try:
            return base64.b64decode(given[9:-2], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise _mismatch(f"{header} header is not base64 of UTF-8 text") from None
    return given.decode("ascii")


def encoded(value: str) -> bytes:
    """A text as a header's value: as it is, or in base64 where it would not survive the way, or look like base64."""
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value.encode()
    return b"=?base64?" + base64.b64encode(value.encode()) + b"?="


def _shown(given: bytes | None) -> str:
    return repr((given or b"").decode("latin-1")[:80])


def _mismatch(sentence: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, f"Header mismatch: {sentence}")
