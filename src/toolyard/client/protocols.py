"""The protocols that a client speaks, each as a set of flows, and the choice between them."""

from collections.abc import Mapping
from typing import Literal, Protocol
from urllib.parse import urlsplit

from ..model.call import CallTool
from ..wires.contract import OxpFamilyWire
from ..wires.oxp import otc, otc_draft, oxp
from .flows import Flow, call, call_to_its_end, cancel_call, health, list_calls, list_tools, show_call
from .mcp_flows import McpProtocol

WIRES: dict[str, OxpFamilyWire] = {"oxp": oxp.FLAT, "otc": otc.OTC, "otc_draft": otc_draft.DRAFT}
WireName = Literal["oxp", "otc", "otc_draft", "mcp"]
MCP_PATH = "/mcp"


class ClientProtocol(Protocol):
    """What a client can do over one protocol, as flows."""

    def call(self, command: CallTool, retries: int, *, wait: bool) -> Flow: ...

    def list_tools(self, *, all_versions: bool, for_model: bool) -> Flow: ...

    def show_call(self, call_id: str, wait_s: float, family: str | None) -> Flow: ...

    def list_calls(self, wanted: Mapping[str, str | None]) -> Flow: ...

    def cancel_call(self, call_id: str, family: str | None) -> Flow: ...

    def health(self) -> Flow: ...

    def end(self) -> Flow:
        """Ends what was begun with the server, such as a session."""
        ...


class OxpFamilyProtocol:
    """A protocol of the OXP family. Every request stands for itself, so there is nothing to begin or to end. Recorded
    calls are asked about over the lifecycle API of the same server."""

    def __init__(self, wire: OxpFamilyWire) -> None:
        self._wire = wire

    def call(self, command: CallTool, retries: int, *, wait: bool) -> Flow:
        return (call_to_its_end if wait else call)(self._wire, command, retries)

    def list_tools(self, *, all_versions: bool, for_model: bool) -> Flow:
        return list_tools(self._wire, all_versions=all_versions, for_model=for_model)

    def show_call(self, call_id: str, wait_s: float, family: str | None) -> Flow:
        return show_call(call_id, wait_s, family)

    def list_calls(self, wanted: Mapping[str, str | None]) -> Flow:
        return list_calls(wanted)

    def cancel_call(self, call_id: str, family: str | None) -> Flow:
        return cancel_call(call_id, family)

    def health(self) -> Flow:
        return health()

    def end(self) -> Flow:
        yield from ()


def speaks_mcp(url: str) -> bool:
    """Whether a client speaks MCP at this URL where nobody says what to speak."""
    return urlsplit(url).path.rstrip("/").endswith(MCP_PATH)


def protocol_of(url: str, wire: WireName | None) -> tuple[ClientProtocol, str]:
    """The protocol to speak at a URL, by the wire's name or else by how the URL ends; and the base URL of requests."""
    path = urlsplit(url).path
    if wire is None:
        wire = "mcp" if speaks_mcp(url) else "oxp"
    if wire != "mcp":
        return OxpFamilyProtocol(WIRES[wire]), url.rstrip("/")
    # An address with a path is the endpoint itself; one without is a toolyard's, which has MCP at /mcp.
    return McpProtocol(url if path else url + MCP_PATH, "" if path else MCP_PATH), url
