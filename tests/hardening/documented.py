"""What the OpenAPI document says of each reply, ready to hold a reply against."""

from typing import Any

import jsonschema_rs

from .raw import Reply


class Documented:
    """The document's schemas, compiled once each."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._paths, self._components = document["paths"], document["components"]
        self._compiled: dict[tuple[str, str, int], Any] = {}

    def problem(self, method: str, path: str, reply: Reply) -> str | None:
        """How a reply differs from what the document says; None where it does not."""
        said = self._paths[path][method.lower()]["responses"].get(str(reply.status))
        if said is None:
            return f"{reply.status} is not documented"
        if "application/json" not in said.get("content", {}):
            return None
        key = (method, path, reply.status)
        if key not in self._compiled:
            schema = {**said["content"]["application/json"]["schema"], "components": self._components}
            self._compiled[key] = jsonschema_rs.Draft202012Validator(schema)
        error = next(self._compiled[key].iter_errors(reply.json), None)
        return None if error is None else str(error)
