"""Which tools `toolyard lock` writes to the lock: those of Python files, those that a worker's registration in a file
offers, those that live workers offer, and those that upstreams list."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ..catalogue import Catalogue
from ..client.client import Transport
from ..engine.worker_tools import tool_of
from ..model.errors import InvalidInput, SetupError, SourcePlace, ToolyardError
from ..model.lock.lock import Lock, LockedTool, difference, locked
from ..model.tool import Tool
from ..model.worker import ToolDefinition
from ..runners.desktop_file import has_servers
from ..runners.loader import sources_of
from ..server.settings.table import Settings
from ..server.sources import upstreams_of
from ..wires.admin.worker_tools import decode_offers, encode_ask
from ..wires.lifecycle.worker_tools import decode_worker
from .client import OperatorClient
from .upstreams import ListedTools, listed

OFFER = ".json"
"""The suffix of a file with a worker's registration, the body that the worker sends to offer its tools; unless it is a
desktop client's, with servers."""


def tools_at(targets: Iterable[str]) -> list[LockedTool]:
    """The tools of Python files and modules, and of files with a worker's registration. Raises SetupError."""
    given = list(targets)
    sources = sources_of(target for target in given if not is_offer(target))
    catalogue = Catalogue(tool for source in sources for tool in source.tools)
    for target in given:
        if is_offer(target):
            catalogue.add(*(_tool(each, target) for each in _offered(Path(target))))
    return [locked(tool) for tool in catalogue.all()]


def tools_of_upstreams(settings: Settings) -> list[ListedTools]:
    """What the upstreams of the settings list now, or why one does not. Raises SetupError."""
    named = replace(settings, tools=[target for target in settings.tools if not is_offer(target)])
    upstreams = upstreams_of(named)
    return listed(upstreams, named) if upstreams else []


def tools_of_workers(transport: Transport | None) -> list[LockedTool]:
    """The tools that workers offer now, as the server or its ledger knows them. Raises SetupError where neither is
    there."""
    if transport is None:
        raise SetupError(
            "there is no ledger here that could know of workers; name it with --store, or the server with --server"
        )
    with OperatorClient(transport) as operator:
        offers = decode_offers(operator.ask(encode_ask()))
        return [locked(_tool(each, "worker"), "worker") for each in offers]


def to_be_locked(
    before: Lock,
    own: Iterable[LockedTool] | None,
    workers: Iterable[LockedTool] | None,
    upstreams: Sequence[ListedTools] = (),
) -> Lock:
    """The lock as it is to be written. `own` are the tools of files and `workers` those of live workers; None where
    they were not looked at. What was not looked at stays in the lock, as does what an upstream had that cannot be
    reached, and so does every tool that a worker offered once, unless a file has it now: workers come and go."""
    heard = {each.upstream.name for each in upstreams if each.listing is not None}
    kept = {
        ref: each
        for ref, each in before.items()
        if (own is None or each.by is not None) and not (each.by == "upstream" and each.toolkit in heard)
    }
    found = {each.reference: each for each in own or ()}
    found |= {each.reference: each for up in upstreams for each in (locked(tool, "upstream") for tool in up.tools)}
    offered = {each.reference: each for each in workers or () if each.reference not in found}
    return kept | _with_what_is_not_offered(offered, before) | found


def _with_what_is_not_offered(offered: Lock, before: Lock) -> Lock:
    """A tool that was locked from its file, and that a worker offers unchanged, stays as it was locked: the file says
    more about it than a worker's registration can."""
    return {
        reference: before[reference] if reference in before and _is_same(before[reference], each) else each
        for reference, each in offered.items()
    }


def _is_same(approved: LockedTool, offer: LockedTool) -> bool:
    return difference({approved.reference: approved}, offer) is None


def is_offer(target: str) -> bool:
    """Whether a target is a file with a worker's registration."""
    return target.endswith(OFFER) and not has_servers(Path(target))


def _tool(definition: ToolDefinition, where: str) -> Tool:
    """The tool as if its worker were trusted: the lock is about what the worker says of it."""
    return tool_of(definition, where, None, is_trusted=True)


def _offered(path: Path) -> list[ToolDefinition]:
    try:
        return decode_worker(path.read_bytes())
    except OSError as error:
        raise SetupError(f"cannot be read: {error.strerror}", SourcePlace(str(path))) from None
    except InvalidInput as error:
        problems = "; ".join(f"{problem.path}: {problem.sentence}" for problem in error.problems)
        raise SetupError(f"is not what a worker offers: {problems}", SourcePlace(str(path))) from None
    except ToolyardError as error:
        raise SetupError(f"is not what a worker offers: {error.message}", SourcePlace(str(path))) from None
