"""What `toolyard lock` looks at: the tools of files, the offers of workers in files, and those of workers that live."""

from collections.abc import Iterable
from pathlib import Path

from ..catalogue import Catalogue
from ..client.client import Transport
from ..engine.worker_tools import tool_of
from ..model.errors import InvalidInput, SetupError, SourcePlace, ToolyardError
from ..model.lock.lock import Lock, LockedTool, difference, locked
from ..model.tool import Tool
from ..model.worker import ToolDefinition
from ..runners.loader import sources_of
from ..wires.lifecycle.worker_tools import decode_worker
from .client import OperatorClient

OFFER = ".json"
"""The end of a file that has what a worker sends when it registers."""


def tools_at(targets: Iterable[str]) -> list[LockedTool]:
    """Those of Python files and modules, and those that a worker offers in a file. Raises SetupError."""
    given = list(targets)
    catalogue = Catalogue(tool for source in sources_of(_code(given)) for tool in source.tools)
    for target in given:
        if target.endswith(OFFER):
            catalogue.add(*(_tool(each, target) for each in _offered(Path(target))))
    return [locked(tool) for tool in catalogue.all()]


def tools_of_workers(sending: Transport | None) -> list[LockedTool]:
    """Those that workers offer now, from the server that runs or from its ledger. Raises SetupError."""
    if sending is None:
        raise SetupError(
            "there is no ledger here that could know of workers; name it with --store, or the server with --server"
        )
    with OperatorClient(sending) as operator:
        return [locked(_tool(each, "worker"), by_worker=True) for each in operator.offers()]


def to_be_locked(before: Lock, own: Iterable[LockedTool] | None, workers: Iterable[LockedTool] | None) -> Lock:
    """What was not looked at stays as it is: without files their tools, and always what a worker offered once, unless
    a file has it now. Workers come and go."""
    kept = {ref: each for ref, each in before.items() if own is None or each.by_worker}
    found = {each.reference: each for each in own or ()}
    offered = {each.reference: each for each in workers or () if each.reference not in found}
    return kept | _with_what_is_not_offered(offered, before) | found


def _with_what_is_not_offered(offered: Lock, before: Lock) -> Lock:
    """A tool that was locked from its file keeps what a worker cannot say of it."""
    return {
        reference: before[reference] if reference in before and _is_same(before[reference], each) else each
        for reference, each in offered.items()
    }


def _is_same(approved: LockedTool, offer: LockedTool) -> bool:
    return difference({approved.reference: approved}, offer) is None


def _code(targets: Iterable[str]) -> list[str]:
    return [target for target in targets if not target.endswith(OFFER)]


def _tool(definition: ToolDefinition, where: str) -> Tool:
    """As it is if its worker is trusted: the lock is about what it says."""
    return tool_of(definition, where, None, is_trusted=True)


def _offered(path: Path) -> list[ToolDefinition]:
    try:
        return decode_worker(path.read_bytes())
    except OSError as error:
        raise SetupError(f"cannot be read: {error.strerror}", SourcePlace(str(path))) from None
    except InvalidInput as error:
        told = "; ".join(f"{problem.path}: {problem.sentence}" for problem in error.problems)
        raise SetupError(f"is not what a worker offers: {told}", SourcePlace(str(path))) from None
    except ToolyardError as error:
        raise SetupError(f"is not what a worker offers: {error.message}", SourcePlace(str(path))) from None
