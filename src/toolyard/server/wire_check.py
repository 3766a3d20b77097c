"""Whether every wire can list a tool, found out before anybody asks for the list: one definition that cannot be encoded
would take the whole list from everybody.
"""

import msgspec

from ..model.errors import DefinitionError
from ..model.tool import Tool
from ..wires.contract import OxpFamilyWire
from ..wires.mcp.headers import mirrored_of
from ..wires.mcp.revisions import REVISIONS
from ..wires.mcp.tools import encode_list
from ..wires.oxp import otc, otc_draft, oxp

WIRES: tuple[OxpFamilyWire, ...] = (oxp.FLAT, oxp.ENVELOPED, otc.OTC, otc_draft.DRAFT)


def headers_of(tool: Tool) -> dict[str, tuple[str, ...]]:
    """The headers in which MCP repeats arguments of a tool. Raises DefinitionError for those that cannot be made."""
    try:
        return mirrored_of(tool.input_schema)
    except ValueError as error:
        raise DefinitionError(f"{tool.id}: {error}", tool.code.origin.place) from None


def check_listing(tool: Tool) -> None:
    """Does what each wire does when it lists a tool that a worker brings. Raises DefinitionError for one that some wire
    cannot list."""
    headers_of(tool)
    try:
        for wire in WIRES:
            wire.encode_list([tool])
        for revision in REVISIONS.values():
            encode_list([tool], revision, None)
    # A schema of a worker's is any JSON: where a wire looks for a table, there may be a list or a number.
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError) as error:
        raise DefinitionError(f"{tool.id} cannot be listed: {error}", tool.code.origin.place) from None
