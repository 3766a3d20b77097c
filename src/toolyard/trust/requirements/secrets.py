"""Secrets that are kept here for tools, so that callers need not bring them.

A secret is for a tenant, or for one of its users, or for everybody: the most specific that fits the tool is used. It is
opened for the call that needs it and for nothing else. Which tools it is for is sealed together with it: who can write
to the ledger, but has no key, cannot give it to another tool.
"""

import logging
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...model.call import CallContext
from ...model.caller import LOCAL, Caller
from ...model.sealed import EVERY_TENANT, HeldSecret, WhichSecret
from ...model.tool import Tool
from ..access.access import matches
from ..sealing.ring import BrokenSeal
from ..sealing.vault import Vault, VaultPath

KIND = "secret"
_log = logging.getLogger("toolyard.secrets")
_encode = msgspec.msgpack.Encoder().encode


class _Content(Struct, array_like=True):
    """A secret as the vault keeps it, sealed: its value, and which tools it is for."""

    value: str
    tools: tuple[str, ...]


_decode = msgspec.msgpack.Decoder(_Content).decode


class HeldSecrets:
    """Keeps secrets and gives them to the tools that need them: a `Keeper`. Nothing that was opened is remembered."""

    def __init__(self, vault: Vault, now: Callable[[], float]) -> None:
        self._vault, self._now = vault, now

    async def fill(self, tool: Tool, context: CallContext, caller: Caller) -> CallContext:
        """As `Keeper` says it."""
        found = dict(context.secrets)
        for name in tool.requirements.secrets:
            if name not in found and (value := await self._found(name, tool, caller)) is not None:
                found[name] = value
        return context if len(found) == len(context.secrets) else replace(context, secrets=found)

    async def put(self, which: WhichSecret, value: str, tools: tuple[str, ...]) -> HeldSecret:
        """Keeps a secret, in place of what was there."""
        since = self._now()
        about: dict[str, Any] = {"tools": tools, "since": since}
        await self._vault.put(_path(which), _encode(_Content(value, tools)), about)
        return HeldSecret(which, tools, since)

    async def listed(self) -> list[HeldSecret]:
        """All secrets, without their values, in the order of name, tenant and user. What is shown is what stands in the
        clear; what counts when one is given out is what was sealed."""
        kept, closed = await self._vault.about(KIND), await self._vault.closed(KIND)
        shown = (
            HeldSecret(
                WhichSecret(path.name, path.tenant, path.owner),
                tuple(it.about.get("tools", ())),
                it.about.get("since", it.changed),
                is_closed=path in closed,
            )
            for path, it in kept
        )
        return sorted(shown, key=lambda each: each.which)

    async def remove(self, which: WhichSecret) -> bool:
        """Removes a secret; whether it was there."""
        return await self._vault.drop(_path(which))

    async def for_upstream(self, name: str, upstream: str) -> str | None:
        """The secret that the settings name for an upstream. Whoever wrote them meant that upstream to have it; but a
        secret that was kept for some tools is for those, and the upstream must be among their toolkits. It is nobody's
        own: every caller's calls go out with it."""
        for tenant in (EVERY_TENANT, LOCAL.tenant):
            try:
                opened = await self._vault.get(_path(WhichSecret(name, tenant)))
            except BrokenSeal:
                _log.error("no key opens the secret %s of tenant %s; set it again, or bring back its key", name, tenant)
                continue
            if opened is None:
                continue
            content = _decode(opened.value)
            toolkits = [pattern.partition(".")[0] for pattern in content.tools]
            if not toolkits or any(fnmatchcase(upstream, each) for each in toolkits):
                return content.value
        return None

    async def _found(self, name: str, tool: Tool, caller: Caller) -> str | None:
        """The most specific secret of this name that is for the caller and the tool. One that no key opens is passed
        over, and said in the log."""
        # One that is not for this tool hides none behind it: the tenant's may be for it where the user's is not.
        for which in _candidates(name, caller):
            try:
                opened = await self._vault.get(_path(which))
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
    workers that are trusted. Strangers can call their tools whatever fits a pattern: such a tool must be named by its
    id, and whoever offers it must be named, too, or else a stranger would only have to offer it first."""
    if tool.is_trusted:
        # A secret without patterns is for all tools of the server.
        return not patterns or any(matches(pattern, tool) for pattern in patterns)
    return tool.is_named and any(_names(pattern, tool) for pattern in patterns)


def _names(pattern: str, tool: Tool) -> bool:
    """Whether a pattern is this tool's id, perhaps with a version, and could be no other tool's."""
    id, _, version = pattern.partition("@")
    return id == tool.id and "*" not in version and matches(pattern, tool)


def _candidates(name: str, caller: Caller) -> Iterator[WhichSecret]:
    """The secrets of this name that a caller may have, the most specific first: its user's, its tenant's, everybody's.
    Where a person calls, their own secrets are meant without their saying so; a program says for whom it calls."""
    user = caller.user_id or (caller.subject if caller.issuer is not None else "")
    if user:
        yield WhichSecret(name, caller.tenant, user)
    yield WhichSecret(name, caller.tenant)
    if caller.tenant != EVERY_TENANT:
        yield WhichSecret(name, EVERY_TENANT)


def _path(which: WhichSecret) -> VaultPath:
    return VaultPath(KIND, which.tenant, which.user, which.name)
