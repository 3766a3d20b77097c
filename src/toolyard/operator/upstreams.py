"""Answers `toolyard upstreams`, and looks at an upstream as a server would: which of its tools can be served, and what
the lock says of them.

What an upstream lists is asked of the server that has the ledger, or of the ledger, since the secrets are there. All
else is found out here, from the settings: the tools beside it, whose names may be taken, and the lock file.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import Struct

from ..client.client import Transport
from ..engine.upstream_tools import UpstreamTools
from ..lazy import load
from ..model.errors import PathNotFound, SetupError
from ..model.lock.lock import Lock, LockDifference, differences, locked
from ..model.tool import Tool
from ..model.upstream import Upstream
from ..runners.loader import sources_of
from ..server.app.compose import Yard
from ..server.settings.table import MEMORY, Settings
from ..server.sources import upstreams_of
from ..server.tool_lock import NoLock, read_lock
from ..server.wire_check import check_listing
from ..upstream.definitions import UpstreamListing, tools_of
from ..upstream.upstreams import revision_of
from ..wires.admin import upstreams as wire
from .client import OperatorClient
from .reach import reach


class UpstreamCheck(Struct, frozen=True):
    """What was found out about an upstream."""

    name: str
    kind: str
    trouble: str = ""
    """Why it did not list its tools; then nothing else is known."""
    era: str | None = None
    server: str = ""
    """Its name and version, as it gives them."""
    tools: tuple[str, ...] = ()
    """The ids of those that can be served."""
    problems: dict[str, str] = {}
    """Those that cannot, by their own names or their ids, and why."""
    lock: str | None = None
    """The lock file that they were held against; None where there is none that counts."""
    differs: tuple[str, ...] = ()
    """What is not as it was locked."""

    @property
    def is_well(self) -> bool:
        return not (self.trouble or self.problems or self.differs)


class ListedTools(Struct, frozen=True):
    """What an upstream lists, as tools; or why it does not."""

    upstream: Upstream
    tools: tuple[Tool, ...] = ()
    rejected: dict[str, str] = {}
    listing: UpstreamListing | None = None
    trouble: str = ""


def statuses(transport: Transport | None, settings: Settings) -> list[wire.UpstreamStatus]:
    """How the upstreams fare: of the server or the ledger at the other end, or where there is neither, of the
    settings. Raises SetupError."""
    with OperatorClient(transport or _nothing(settings)) as operator:
        return wire.decode_statuses(operator.ask(wire.encode_list()))


def check(name: str, settings: Settings) -> UpstreamCheck:
    """Looks at one of the settings' upstreams. Raises SetupError for one that is not there, or for what has nothing to
    do with it."""
    upstreams = {each.name: each for each in upstreams_of(settings)}
    if name not in upstreams:
        there = f"there are {', '.join(upstreams)}" if upstreams else "there are none"
        raise SetupError(f"the settings have no upstream {name!r}; {there}")
    upstream = upstreams[name]
    (found,) = listed([upstream], settings)
    if found.listing is None:
        return UpstreamCheck(name, upstream.kind, found.trouble)
    refused = asyncio.run(_refused(found, settings))
    info, lock = found.listing.info, _lock(settings)
    return UpstreamCheck(
        name,
        upstream.kind,
        era=found.listing.revision,
        server=f"{info.name} {info.version}".strip(),
        tools=tuple(each.id for each in found.tools if each.id not in refused),
        problems=found.rejected | refused,
        lock=None if lock is None else settings.lock_file,
        differs=() if lock is None else tuple(map(str, _differing(lock, found, settings))),
    )


def listed(upstreams: Iterable[Upstream], settings: Settings) -> list[ListedTools]:
    """What these upstreams of the settings list now. Raises SetupError."""
    with OperatorClient(reach(settings) or _nothing(settings)) as operator:
        return [_listed(each, operator, settings) for each in upstreams]


def _listed(upstream: Upstream, operator: OperatorClient, settings: Settings) -> ListedTools:
    request = wire.encode_ask(upstream.name, upstream.address)
    try:
        answer = wire.decode_answer(operator.ask(request))
    except PathNotFound:  # a server runs that was started with other settings
        if upstream.secrets:
            has = f"needs {', '.join(upstream.secrets)}, kept in the ledger of a server that does not know it yet"
            return ListedTools(upstream, trouble=f"{has}; start that server again with these settings")
        with OperatorClient(_nothing(settings)) as alone:
            answer = wire.decode_answer(alone.ask(request))
    if answer.listing is None:
        return ListedTools(upstream, trouble=answer.trouble)
    listing = msgspec.convert(answer.listing, UpstreamListing)
    made = tools_of(upstream, listing, revision_of(listing))
    return ListedTools(upstream, tuple(made.tools), made.rejected, listing)


async def _refused(found: ListedTools, settings: Settings) -> dict[str, str]:
    """Those that a server with these settings could not serve, whatever the lock says, and why. Raises SetupError where
    there could be no such server."""
    yard = Yard(sources_of(settings.targets), replace(settings, store=MEMORY, lock="off"))
    try:
        plans = yard.engine.plans
        return dict(
            await UpstreamTools(yard.catalogue, plans, NoLock(), check_listing).serve(found.upstream, found.tools)
        )
    finally:
        await yard.engine.plans.sandbox.close()


def _lock(settings: Settings) -> Lock | None:
    if settings.lock_file is None or settings.lock == "off":
        return None
    return read_lock(Path(settings.lock_file))


def _differing(lock: Lock, found: ListedTools, settings: Settings) -> Sequence[LockDifference]:
    """What a server would not serve because of the lock."""
    theirs = {each.reference: each for each in lock.values() if each.id.startswith(f"{found.upstream.name}.")}
    now = [locked(tool, "upstream") for tool in found.tools]
    return [each for each in differences(theirs, now) if not (each.is_new and settings.lock_allows_new)]


def _nothing(settings: Settings) -> Transport:
    """The operator's table over an empty ledger, for who has none or may not have it."""
    opened: Transport = load("ledger")(replace(settings, store=MEMORY))
    return opened
