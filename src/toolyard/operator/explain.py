"""`toolyard explain`, from the server that runs or from the settings and the tools alone."""

import time
from collections.abc import Iterable
from typing import Any

from ..catalogue import Catalogue
from ..model.errors import SetupError, ToolNotFound
from ..runners.loader import sources_of
from ..server.admin.explain import ExplainRules, explain
from ..server.http.limits import ServerLimits
from ..server.settings.table import Settings
from ..trust.access.access import Access
from ..trust.access.identity import Identity
from ..wires.admin.explain import ExplainQuery, Explanation
from .client import OperatorClient
from .reach import reach, running

__all__ = ["ExplainQuery", "Explanation", "found_out"]


def found_out(asked: ExplainQuery, settings: Settings, tools: list[str]) -> Explanation:
    """From the server that runs, which also knows its workers' tools; else from the settings and the tools."""
    sending = running(settings)
    if sending is not None and not tools:
        with OperatorClient(sending) as operator:
            return operator.explain(asked)
    keys = _keys(settings) if asked.key is not None else ()
    sources = sources_of(tools or settings.tools or ["toolyard.reference"])
    catalogue = Catalogue(tool for source in sources for tool in source.tools)
    limits = ServerLimits(settings, time.monotonic).limits
    try:
        return explain(catalogue, ExplainRules(Access(settings.access), limits, settings.approvals), asked, keys)
    except ToolNotFound:
        if tools or settings.tools:
            raise
        raise SetupError(
            f"no server runs here and no tools are set, so {asked.tool} is not known; say where it is with --tools"
        ) from None


def _keys(settings: Settings) -> Iterable[Identity]:
    sending = reach(settings)
    if sending is None:
        raise SetupError("there is no ledger here that could have the key; name it with --store")
    with OperatorClient(sending) as operator:
        listed = operator.keys()
    return [_identity(each) for each in listed if each["state"] == "live"]


def _identity(key: dict[str, Any]) -> Identity:
    scopes, allow = frozenset(key.get("scopes") or ()), tuple(key.get("allow") or ())
    return Identity(key["tenant"], key["subject"], "key", scopes, key=key["name"], allow=allow)
