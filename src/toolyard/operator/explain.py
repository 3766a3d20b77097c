"""Answers `toolyard explain`: from the server that runs, or else from the settings and the tools.

A server also knows the tools of its workers. Without one, the rules are those of the settings, the tools those of the
files that are named, and the ledger is opened for nothing but an API key that the query names.
"""

import time
from collections.abc import Iterable
from typing import Any

from ..catalogue import Catalogue
from ..client.client import Transport
from ..model.errors import SetupError, ToolNotFound
from ..runners.loader import sources_of
from ..server.admin.explain import ExplainRules, explain
from ..server.http.limits import ServerLimits
from ..server.settings.table import Settings
from ..server.sources import upstreams_wanted
from ..trust.access.access import Access
from ..trust.access.identity import Identity
from ..wires.admin import api_keys
from ..wires.admin.explain import ExplainQuery, Explanation, decode_explanation, encode_asked
from .client import OperatorClient
from .reach import reach, running


def explained(query: ExplainQuery, settings: Settings, tools: list[str]) -> Explanation:
    """From the server that has the ledger of these settings, unless `tools` names files to look at instead. Raises
    SetupError, ToolNotFound."""
    transport = None if tools else running(settings)
    if transport is not None:
        return explained_by(transport, query)
    keys = _keys(settings) if query.key is not None else ()
    sources = sources_of(tools or settings.targets)
    catalogue = Catalogue(tool for source in sources for tool in source.tools)
    limits = ServerLimits(settings, time.monotonic).limits
    try:
        return explain(catalogue, ExplainRules(Access(settings.access), limits, settings.approvals), query, keys)
    except ToolNotFound:
        toolkit = query.tool.partition(".")[0]
        if any(up.name == toolkit for up in upstreams_wanted(settings, sources)):
            raise SetupError(
                f"{toolkit} is an upstream, and a server that runs knows what tools it has; start one, or name it with "
                "--server"
            ) from None
        if tools or settings.tools:
            raise
        raise SetupError(
            f"no server runs here and no tools are set, so {query.tool} is not known; say where it is with --tools"
        ) from None


def explained_by(transport: Transport, query: ExplainQuery) -> Explanation:
    """The explanation of the server at the other end of the transport."""
    with OperatorClient(transport) as operator:
        return decode_explanation(operator.ask(encode_asked(query)))


def _keys(settings: Settings) -> Iterable[Identity]:
    """Who sends each of the ledger's API keys that are good."""
    transport = reach(settings)
    if transport is None:
        raise SetupError("there is no ledger here that could have the key; name it with --store")
    with OperatorClient(transport) as operator:
        listed = operator.ask(api_keys.encode_list())["keys"]
    return [_identity(each) for each in listed if each["state"] == "live"]


def _identity(key: dict[str, Any]) -> Identity:
    scopes, allow = frozenset(key.get("scopes") or ()), tuple(key.get("allow") or ())
    return Identity(key["tenant"], key["subject"], "key", scopes, key=key["name"], allow=allow)
