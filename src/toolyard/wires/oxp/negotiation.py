"""Decides which protocol of the OXP family a request speaks, and decodes it.

A path prefix (`/oxp`, `/otc`, `/otc/draft`) decides outright. At the root the body does: a `tool_id` at the top is OXP;
a `request` is whatever `$schema` says, or, without one, OTC 1.0 at `/tools/call` and the draft at `/call`.

Each decoder returns the wire to answer with, and the command or else the error to answer with. The error is returned
and not raised because its answer needs the wire, too: known, or guessed as well as can be.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ...model.call import CALL_ID_FORM, LONGEST_TRACE_ID, NO_CONTEXT, CallTool, ListTools, is_call_id
from ...model.errors import MalformedRequest, RequestError, UnsupportedProtocol
from ...model.json_value import decode, decode_as, decoder
from ...text.percent import parameters
from ..contract import OxpFamilyWire
from ..json_body import why_unreadable
from . import otc, otc_draft, oxp
from .messages import OTC_1_0, OTC_DRAFT, OXP_1_0, OXP_1_0_ADDRESS, CallBody, FlatBody, _plain, _short, context_of

SCHEMAS: dict[str, OxpFamilyWire] = {
    OXP_1_0: oxp.ENVELOPED,
    OXP_1_0_ADDRESS: oxp.ENVELOPED,
    OTC_1_0: otc.OTC,
    OTC_DRAFT: otc_draft.DRAFT,
}
"""The wires by the `$schema` of an enveloped call."""
# A list has no envelope, so there OXP has one form only.
LISTED: dict[str, OxpFamilyWire] = {**SCHEMAS, OXP_1_0: oxp.FLAT, OXP_1_0_ADDRESS: oxp.FLAT}

# For bodies that are not JSON (cut off, or broken): what the sender most likely speaks can still be seen.
_schema_member = re.compile(rb'"\$schema"\s*:\s*"([^"\\]{1,200})"').search
_request_member = re.compile(rb'"request"\s*:\s*\{').search
_known_version = re.compile(rb"1(\.0(\.[0-9]+)?)?").fullmatch
Decoded = tuple[OxpFamilyWire, CallTool | RequestError]
Choose = Callable[[FlatBody], OxpFamilyWire]
"""Finds the wire of a decoded body at one path. Raises RequestError where that wire is not spoken there."""


def check_version(asked: bytes) -> None:
    """Refuses an `OXP-Version` header that nobody knows. (Without the header, the newest version is meant.)"""
    if not _known_version(asked):
        raise UnsupportedProtocol(
            "This version of OXP is not supported",
            developer_message=f"OXP-Version {asked.decode('latin-1')!r} is not known; supported: 1, 1.0, 1.0.x",
        )


def decode_call(body: bytes, choose: Choose) -> Decoded:
    """Decodes the body of a call; `choose` is the path's."""
    try:
        parsed = parse(body)
    except RequestError as error:
        return guess_wire(body, choose), error
    try:
        wire = choose(parsed)
        call = parsed.request
        if call is UNSET:
            return wire, command_of(parsed, parsed.input)
        input = call.input if call.inputs is UNSET else _input_of(call, wire)
        return wire, command_of(call, input, latest=wire is otc_draft.DRAFT)
    except RequestError as error:
        return guess_wire(body, choose), error


def root(body: FlatBody) -> OxpFamilyWire:
    """The wire of a body at `POST /tools/call`."""
    return _by_body(body, otc.OTC_FOR_OXP)


def root_call(body: FlatBody) -> OxpFamilyWire:
    """The wire of a body at `POST /call`, the draft's path and that of the documents' examples."""
    return _by_body(body, otc_draft.DRAFT)


def only_oxp(body: FlatBody) -> OxpFamilyWire:
    """The wire of a body below `/oxp`: OXP, flat or with `request`."""
    wire = _by_body(body, oxp.ENVELOPED)
    return _allowed(wire, body, (oxp.FLAT, oxp.ENVELOPED))


def only_otc(body: FlatBody) -> OxpFamilyWire:
    """The wire of a body below `/otc`: OTC 1.0 alone."""
    return _allowed(_by_body(body, otc.OTC), body, (otc.OTC,))


def only_draft(body: FlatBody) -> OxpFamilyWire:
    """The wire of a body below `/otc/draft`: the draft alone."""
    return _allowed(_by_body(body, otc_draft.DRAFT), body, (otc_draft.DRAFT,))


def decode_list(
    query: bytes, body: bytes, default: OxpFamilyWire, *, fixed: bool
) -> tuple[OxpFamilyWire, ListTools | RequestError]:
    """Decodes `GET /tools`: OXP, unless `$schema` names another wire, in the query or in a body, which a GET may carry
    in this protocol. Where the path has `fixed` the wire, `$schema` must agree with it."""
    wire = default
    try:
        given = _parameters(query)
        schema = given["$schema"] if "$schema" in given else _schema_of(body)
        named = default if schema is None else LISTED[_known(schema)]
        if fixed and named is not default:
            raise _not_here(str(schema), (default,))
        wire = named
        return wire, ListTools(all_versions=_versions(given.get("versions", "newest")))
    except RequestError as error:
        return wire, error


def _parameters(query: bytes) -> dict[str, str]:
    """Of several with a name, the last. Raises MalformedRequest where there are too many."""
    try:
        return dict(parameters(query.decode("latin-1")))
    except ValueError as error:
        raise MalformedRequest("The query cannot be read", developer_message=str(error)) from None


def _by_body(body: FlatBody, unnamed: OxpFamilyWire) -> OxpFamilyWire:
    """The wire that a body's members and `$schema` name; `unnamed` for an enveloped one without `$schema`."""
    # A flat body may carry `$schema`, too; an unknown one is refused there as well.
    named = None if body.schema is UNSET else SCHEMAS.get(body.schema) or SCHEMAS[_known(body.schema)]
    if body.request is UNSET and body.tool_id is not UNSET:
        return oxp.FLAT
    if body.request is UNSET or is_flat(body):
        found = "both" if body.request is not UNSET else "neither"
        raise MalformedRequest(
            "The request is not a tool call",
            developer_message=f"expected either 'tool_id' or 'request' at the top level, found {found}",
        )
    return named or unnamed


def _allowed(wire: OxpFamilyWire, body: FlatBody, here: tuple[OxpFamilyWire, ...]) -> OxpFamilyWire:
    if wire in here:
        return wire
    if body.request is UNSET:
        raise MalformedRequest("The request is not a tool call", developer_message="expected a 'request' object")
    raise _not_here(str(body.schema), here)


def _not_here(schema: str, here: tuple[OxpFamilyWire, ...]) -> UnsupportedProtocol:
    known = ", ".join(known for known in SCHEMAS if SCHEMAS[known] in here or LISTED[known] in here)
    return UnsupportedProtocol(
        "This $schema is not spoken at this address",
        developer_message=f"$schema {schema!r} is not spoken here; known here: {known}",
    )


def _known(schema: str) -> str:
    if schema in SCHEMAS:
        return schema
    raise UnsupportedProtocol(
        "This $schema is not supported",
        developer_message=f"$schema {schema[:200]!r} is not known; known: {', '.join(SCHEMAS)}",
    )


def _input_of(call: CallBody, wire: OxpFamilyWire) -> dict[str, Any] | UnsetType:
    """The input of a call that has `inputs`, which only the draft knows; `input` wins over it."""
    if wire is not otc_draft.DRAFT:
        raise MalformedRequest("The request is not valid", developer_message="Object contains unknown field 'inputs'")
    return call.inputs if call.input is UNSET else call.input


def _versions(text: str) -> bool:
    if text in ("all", "newest"):
        return text == "all"
    raise MalformedRequest(
        "The request is not valid", developer_message=f"versions must be 'all' or 'newest', got {text!r}"
    )


def _schema_of(body: bytes) -> str | None:
    if not body:
        return None
    try:
        decoded = decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict) or not isinstance(schema := decoded.get("$schema"), str | None):
        raise MalformedRequest("The request is not valid", developer_message="expected a JSON object with '$schema'")
    return schema


def _glimpsed(body: bytes) -> dict[str, Any]:
    """The members that can be made out in a body that is cut off or broken."""
    schema = _schema_member(body)
    members: dict[str, Any] = {} if schema is None else {"$schema": schema[1].decode("latin-1")}
    return {**members, "request": None} if _request_member(body) else members


def guess_wire(body: bytes, choose: Choose) -> OxpFamilyWire:
    """The wire in which a body is refused: the one its `$schema` names, if that can be read and is spoken here."""
    members: dict[str, Any] = {}
    try:
        top = _decode_top(body)
        members = {name: member for name, member in (("$schema", top.schema), ("request", top.request)) if member}
    except msgspec.ValidationError:
        pass  # no object
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        members = _glimpsed(body)
    enveloped = "request" in members or choose in (only_otc, only_draft)
    schema = members.get("$schema")
    schema = _text_of(schema) if isinstance(schema, Raw) else schema
    named = schema if isinstance(schema, str) and schema in SCHEMAS else UNSET
    # `choose` judges a well-formed body of the same shape: first with that `$schema`, then without any.
    for guessed in (named, UNSET):
        probe = FlatBody(request=CallBody("")) if enveloped else FlatBody("")
        probe.schema = guessed
        try:
            return choose(probe)
        except RequestError:
            continue
    raise AssertionError("every wire speaks to a body without $schema")


class _Top(Struct):
    """What tells the protocols apart: all else is skipped, since it may be what is refused."""

    schema: Raw = msgspec.field(default=Raw(), name="$schema")
    request: Raw = Raw()


_decode_top = decoder(_Top)


def _text_of(written: Raw) -> str | None:
    try:
        return decode_as(written, str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


_decode = decoder(FlatBody)


def parse(body: bytes) -> FlatBody:
    """The body of a call request. Raises MalformedRequest, saying which member is wrong and what was expected."""
    try:
        return _decode(body)
    # A ValidationError is a DecodeError, too: JSON of another shape, which is said apart from what is no JSON.
    except msgspec.ValidationError as error:
        raise MalformedRequest("The request is not valid", developer_message=_plain(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        reason = _plain(why_unreadable(body, error))
        raise MalformedRequest(
            "The request is not valid JSON", developer_message=f"The body cannot be read: {reason}"
        ) from None


def command_of(call: CallBody | FlatBody, input: dict[str, Any] | UnsetType, *, latest: bool = False) -> CallTool:
    """The call that a body asks for. Raises MalformedRequest for an impossible `call_id`."""
    call_id = None if call.call_id is UNSET else call.call_id
    if call_id is not None and not is_call_id(call_id):
        raise MalformedRequest(
            "The call_id is not valid",
            developer_message=f"call_id must have {CALL_ID_FORM}",
        )
    return CallTool(
        call.tool_id,  # type: ignore[arg-type]
        {} if input is UNSET else input,
        call_id,
        None if call.trace_id is UNSET else _short("trace_id", call.trace_id, LONGEST_TRACE_ID),
        NO_CONTEXT if call.context is UNSET else context_of(call.context),
        latest,
    )


def is_flat(body: FlatBody) -> bool:
    """Whether any member of a flat call is there."""
    return not (body.tool_id is body.call_id is body.trace_id is body.input is body.context is UNSET)
