"""A recorded call as the engine takes calls: its command, what its caller brought, and who made it.

A call that runs later than it was made, after a yes, an account or a lost node, or at a worker, is made again from its
row. What was secret is under seal there; whoever changed the row without the server's keys gets nothing for it.
"""

import msgspec

from ..model.call import Brought, CallContext, CallTool
from ..model.caller import Caller
from ..model.json_value import decode, decode_as
from ..model.record import CallRecord
from ..model.tool import Tool
from ..trust.sealing.ring import BrokenSeal, KeyRing

NO_KEY = "What the call was given cannot be opened: none of the server's keys has sealed it"
NO_INPUT = "What the ledger has of the call cannot be read"
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)
"""What decoding raises for a row that is not as it was written."""


def command_of(call: CallRecord, context: CallContext) -> CallTool:
    """A recorded call as it was made."""
    return CallTool(
        call.tool,
        decode(call.input),
        call.key.call_id,
        call.trace_id,
        context,
        wire=call.wire,
        family=call.key.family,
        input_json=call.input,
    )


def context_of(call: CallRecord, ring: KeyRing) -> Brought:
    """What the caller passed along with a recorded call. Raises BrokenSeal."""
    if call.sealed is None:
        return Brought(user_id=call.user_id)
    return opened(call.key.call_id, call.sealed, ring)


def caller_of(call: CallRecord, brought: Brought, tool: Tool) -> Caller:
    """Who made a recorded call, as far as that decides for whom they may speak. A call of a tool that needs something
    has its user under seal: whoever else wrote one into the row gets nothing of theirs. Raises BrokenSeal."""
    if tool.requirements and call.sealed is None and call.user_id is not None:
        raise BrokenSeal(f"the call names the user {call.user_id}, and nothing shows that its caller did")
    return Caller(call.key.tenant, call.key.subject, issuer=brought.issuer)


def opened(call_id: str, sealed: bytes, ring: KeyRing) -> Brought:
    """Raises BrokenSeal."""
    return decode_as(ring.unseal("context", sealed, call_id.encode()), Brought)
