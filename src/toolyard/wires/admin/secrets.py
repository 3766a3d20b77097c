"""Secrets that are kept for tools, as operators set, list and remove them, in both directions. A value is sent once, by
whoever sets it, and never sent back."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from ...model.errors import InvalidInput, Problem
from ...model.patterns import tool_pattern
from ...model.sealed import (
    EVERY_TENANT,
    HeldSecret,
    Resealed,
    SecretNeed,
    WhichSecret,
    secret_name,
    secret_value,
    tenant_name,
    user_name,
)
from ..contract import JSON, Reply, Request
from ..errors import encode
from ..json_body import parse

PATH = "/v1/admin/secrets"
ONE = PATH + "/{tenant}/{name}"
OF_USER = ONE + "/{user}"
ROTATE = PATH + "/rotate"
MOST_PATTERNS = 100
CLOSED = "sealed with another key"


class GivenSecret(Struct, frozen=True):
    """The value that an operator sets a secret to, and the patterns of the tools that may have it."""

    value: str
    tools: tuple[str, ...]


# -- the server's side -----------------------------------------------------------------------------


def decode_which(parameters: Mapping[str, str]) -> WhichSecret:
    """The secret that a path names. Raises InvalidInput."""
    problems = []
    for member, check in (("tenant", tenant_name), ("name", secret_name), ("user", user_name)):
        try:
            check(parameters.get(member, "-"))  # a path without a user is fine: "-" stands in for it here
        except ValueError as error:
            problems.append(Problem(member, str(error)))
    which = WhichSecret(parameters["name"], parameters["tenant"], parameters.get("user", ""))
    if which.user and which.tenant == EVERY_TENANT:
        problems.append(Problem("user", "A user is one of a tenant's; name the tenant"))
    if problems:
        raise InvalidInput(tuple(problems))
    return which


def decode_given(body: bytes) -> GivenSecret:
    """The value and tools of a secret. Raises InvalidInput, without the value in it."""
    members = parse(body)
    # The check runs apart from `one`, which would keep a wrong value in its problem.
    value = members.one("value", lambda given: given)
    try:
        secret_value(value)
    except ValueError as error:
        members.refuse("value", str(error))
    tools = tuple(members.each("tools", tool_pattern, most=MOST_PATTERNS)) if "tools" in members else ()
    members.done()
    return GivenSecret(value, tools)


def encode_secret(secret: HeldSecret, needed_by: Sequence[str] | None = None) -> Reply:
    """One secret. `needed_by` are the tools that declare it, where that is known."""
    more = {} if needed_by is None else {"neededBy": needed_by}
    return Reply(200, encode(_secret(secret) | more), [JSON])


def encode_removed(which: WhichSecret) -> Reply:
    return Reply(200, encode(_which(which) | {"state": "unset"}), [JSON])


def encode_secrets(secrets: Sequence[HeldSecret], needs: Sequence[SecretNeed]) -> Reply:
    """All secrets that are kept, and those that tools declare and nobody has set."""
    missing = [{"name": need.name, "tools": need.tools, "state": "unset"} for need in needs]
    return Reply(200, encode({"secrets": [*map(_secret, secrets), *missing]}), [JSON])


def encode_resealed(done: Resealed, keys: int) -> Reply:
    body = {"sealedAnew": done.anew, "sealedBefore": done.before, "lost": done.lost, "keys": keys}
    return Reply(200, encode(body), [JSON])


def _secret(secret: HeldSecret) -> dict[str, Any]:
    state = CLOSED if secret.is_closed else "set"
    return _which(secret.which) | {"tools": secret.tools, "state": state, "setAt": secret.since}


def _which(which: WhichSecret) -> dict[str, Any]:
    return {"name": which.name, "tenant": which.tenant} | ({"user": which.user} if which.user else {})


# -- a client's side -------------------------------------------------------------------------------


def encode_set(which: WhichSecret, value: str, tools: Sequence[str]) -> Request:
    return Request("PUT", _path(which), dict([JSON]), encode({"value": value, "tools": tools}))


def encode_list() -> Request:
    return Request("GET", PATH)


def encode_remove(which: WhichSecret) -> Request:
    return Request("DELETE", _path(which))


def encode_rotate() -> Request:
    return Request("POST", ROTATE)


def _path(which: WhichSecret) -> str:
    parts = (which.tenant, which.name, which.user) if which.user else (which.tenant, which.name)
    return "/".join((PATH, *(quote(part, safe="") for part in parts)))
