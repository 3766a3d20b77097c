"""Secrets that are kept here for tools, so that callers need not bring them.

A secret is for a tenant, or for one of its users, or for everybody: the most specific that fits the tool is used. It is
opened for the call that needs it and for nothing else. Which tools it is for is sealed together with it: who can write
to the ledger, but has no key, cannot give it to another tool.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...model.call import CallContext
from ...model.caller import Caller
from ...model.sealed import EVERY_TENANT, HeldSecret, WhichSecret
from ...model.tool import Tool
from ..access.access import matches
from ..sealing.ring import BrokenSeal
from ..sealing.vault import Vault, VaultPath

KIND = "secret"
_log = logging.getLogger("toolyard.secrets")
_encode = msgspec.msgpack.Encoder().encode


class _Content(Struct, array_like=True):
    """What is sealed."""

    value: str
    tools: tuple[str, ...]


_decode = msgspec.msgpack.Decoder(_Content).decode


class HeldSecrets:
    """A Keeper. Nothing that was opened is remembered."""

    def __init__(self, vault: Vault, now: Callable[[], float]) -> None:
        self._vault, self._now = vault, now

    async def fill(self, tool: Tool, context: CallContext, caller: Caller) -> CallContext:
        found = dict(context.secrets)
        for name in tool.requirements.secrets:
            if name not in found and (value := await self._found(name, tool, caller)) is not None:
                found[name] = value
        return context if len(found) == len(context.secrets) else replace(context, secrets=found)

    async def put(self, which: WhichSecret, value: str, tools: tuple[str, ...]) -> HeldSecret:
        """In the place of what was there."""
        since = self._now()
        about: dict[str, Any] = {"tools": tools, "since": since}
        await self._vault.put(_place(which), _encode(_Content(value, tools)), about)
        return HeldSecret(which, tools, since)

    async def listed(self) -> list[HeldSecret]:
        """By name, tenant and user."""
        kept, closed = await self._vault.about(KIND), await self._vault.closed(KIND)
        shown = (
            HeldSecret(
                WhichSecret(place.name, place.tenant, place.owner),
                tuple(it.about.get("tools", ())),
                it.about.get("since", it.changed),
                is_closed=place in closed,
            )
            for place, it in kept
        )
        return sorted(shown, key=lambda each: each.which)

    async def remove(self, which: WhichSecret) -> bool:
        """Whether it was there."""
        return await self._vault.drop(_place(which))

    async def _found(self, name: str, tool: Tool, caller: Caller) -> str | None:
        for which in _candidates(name, caller):
            try:
                opened = await self._vault.get(_place(which))
            except BrokenSeal:
                _log.error(
                    "no key opens the secret %s of tenant %s; set it again, or bring back its key", name, which.tenant
                )
                continue
            if opened is not None and is_for(tool, (content := _decode(opened.value)).tools):
                return content.value
        return None


def is_for(tool: Tool, patterns: tuple[str, ...]) -> bool:
    """Whether a secret for these tools may be given to this one. Patterns are for the server's own tools and those of
    workers that are trusted. Others may be called as they like to fit one: such a tool must be named by its id, and
    who offers it must be named, too, or else a stranger would only have to offer it first."""
    if tool.is_trusted:
        return not patterns or any(matches(pattern, tool) for pattern in patterns)
    return tool.is_named and any(_names(pattern, tool) for pattern in patterns)


def _names(pattern: str, tool: Tool) -> bool:
    """Whether it is this tool's id, perhaps with a version, and could be no other's."""
    id, _, version = pattern.partition("@")
    return id == tool.id and "*" not in version and matches(pattern, tool)


def _candidates(name: str, caller: Caller) -> Iterator[WhichSecret]:
    """The most specific first. Where a person calls, their own secrets are meant without their saying so; a program
    says for whom it calls."""
    user = caller.user_id or (caller.subject if caller.issuer is not None else "")
    if user:
        yield WhichSecret(name, caller.tenant, user)
    yield WhichSecret(name, caller.tenant)
    if caller.tenant != EVERY_TENANT:
        yield WhichSecret(name, EVERY_TENANT)


def _place(which: WhichSecret) -> VaultPath:
    return VaultPath(KIND, which.tenant, which.user, which.name)
