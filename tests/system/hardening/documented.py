"""What the OpenAPI document says of each reply, ready to hold a reply against."""

from typing import Any

import jsonschema_rs

from .raw import Reply


def names_no_tool(refusal: Any) -> bool:
    """Whether a call was refused for what no schema can tell: its tool is not there, or its key is taken."""
    unknown = "was not found" in refusal["message"] and "is not a tool id" not in refusal["developer_message"]
    return unknown or "call_id was used for another call" in refusal["message"]


class Documented:
    """The document's schemas, compiled once each."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._paths, self._components = document["paths"], document["components"]
        self._compiled: dict[tuple[str, str, int], Any] = {}

    def allows(self, path: str, body: Any) -> bool:
        """Whether a call may have this body."""
        key = ("POST", path, 0)
        if key not in self._compiled:
            self._compiled[key] = self._validator(self._paths[path]["post"]["requestBody"])
        return bool(self._compiled[key].is_valid(body))

    def schemas(self, path: str) -> list[str]:
        """The values of `$schema` that a list may be asked for with."""
        [found] = [each for each in self._paths[path]["get"]["parameters"] if each["name"] == "$schema"]
        return list(found["schema"]["enum"])

    def problem(self, method: str, path: str, reply: Reply) -> str | None:
        """How a reply differs from what the document says; None where it does not."""
        said = self._paths[path][method.lower()]["responses"].get(str(reply.status))
        if said is None:
            return f"{reply.status} is not documented"
        if "application/json" not in said.get("content", {}):
            return None
        key = (method, path, reply.status)
        if key not in self._compiled:
            self._compiled[key] = self._validator(said)
        error = next(self._compiled[key].iter_errors(reply.json), None)
        return None if error is None else str(error)

    def _validator(self, said: dict[str, Any]) -> Any:
        schema = {**said["content"]["application/json"]["schema"], "components": self._components}
        return jsonschema_rs.Draft202012Validator(schema)
