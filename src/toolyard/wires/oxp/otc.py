"""OTC 1.0: `request` in, `result` out, and `$schema` in every body."""

from collections.abc import Sequence
from typing import Any

from ...model.call import CallTool, ListTools, Outcome
from ...model.errors import ToolError, ToolyardError
from ...model.record import Family
from ...model.tool import Tool
from ..contract import JSON, Headers, Reply, Request
from ..errors import encode, error_headers, error_json, status_of
from .client_replies import outcome_from, tools_from
from .messages import OTC_1_0, list_query, request_json
from .oxp import VERSION, result_bytes, tool_json

_START = b'{"$schema":"%b","result":' % OTC_1_0.encode()


class Otc:
    """OTC 1.0 as a wire, for servers and for clients. Its keys are OXP's: it is the same protocol before a renaming."""

    name = "otc"
    family: Family = "oxp"
    headers: Headers = [JSON]

    def encode_list(self, tools: Sequence[Tool]) -> bytes:
        listed = [tool_json(tool, {"parameters": tool.input_schema}) for tool in tools]
        return encode({"$schema": OTC_1_0, "tools": listed})

    def encode_outcome(self, outcome: Outcome) -> Reply:
        return Reply(200, _START + result_bytes(outcome) + b"}", self.headers)

    def encode_error(self, error: ToolyardError, command: CallTool | None = None) -> Reply:
        if isinstance(error, ToolError):
            return self.encode_outcome(Outcome(command.call_id or "" if command else "", 0, error=error))
        body = {"$schema": OTC_1_0, **error_json(error)}
        return Reply(status_of(error), encode(body), self.headers + error_headers(error))

    def encode_status(self, status: str) -> Reply:
        return Reply(200 if status == "ok" else 503, encode({"$schema": OTC_1_0, "status": status}), self.headers)

    def encode_request(self, command: CallTool | ListTools) -> Request:
        if isinstance(command, ListTools):
            return Request("GET", "/tools", dict(self.headers), query=list_query(command, OTC_1_0))
        body = {"$schema": OTC_1_0, "request": request_json(command)}
        return Request("POST", "/tools/call", dict(self.headers), encode(body))

    def decode_list(self, reply: Reply) -> list[dict[str, Any]]:
        return tools_from(reply, "tools")

    def decode_outcome(self, reply: Reply) -> Outcome:
        return outcome_from(reply, lambda body: body.get("result") or {})


class OtcForOxp(Otc):
    """OTC 1.0 for a `request` without `$schema`: the public OXP client sends that, so its reply also has OXP's
    version header."""

    headers: Headers = [JSON, VERSION]


OTC = Otc()
OTC_FOR_OXP = OtcForOxp()
