"""From a function to what the engine needs: schemas, argument builder, result writer.

Input reaches `bind` after it was checked against the schema, so pydantic may be lenient there: what is
left for it to do is to make typed values (dates, models, enums) and to run the author's own validators.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, NotRequired

from pydantic import (
    ConfigDict,
    PydanticSchemaGenerationError,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import SchemaError, to_jsonable_python
from typing_extensions import TypedDict

from ..model.errors import InvalidInput, Problem
from ..model.running import Run
from .context import Context
from .schemas import Recursion, RecursiveType, Schemas, inline
from .signature import UNTYPED, origin_of, read_signature, refuse

_NOTHING = (None, type(None))
_PLAIN = frozenset({str, int, float, bool})
_NO_JSON_FORM = (PydanticSchemaGenerationError, PydanticUserError, SchemaError)


class Function:
    """A tool's function: implements `model.running.Code`."""

    def __init__(self, function: Callable[..., Any], recursion: Recursion = "refuse") -> None:
        self.function = function
        self.origin = origin_of(function)
        self.is_async = inspect.iscoroutinefunction(function)
        self.signature = read_signature(function)
        arguments = self._arguments_adapter()
        self.input_schema = _object_schema(self._schema(arguments, "validation", recursion))
        for parameter in self.signature.parameters:
            if parameter.hidden:
                self.input_schema["properties"][parameter.property]["x-non-inferrable"] = True
        self._bind: Callable[[Any], dict[str, Any]] = arguments.validator.validate_python
        self.output_schema, self.dump = self._result(recursion)

    @property
    def hidden(self) -> tuple[str, ...]:
        return tuple(p.property for p in self.signature.parameters if p.hidden)

    def bind(self, input: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._bind(input)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False)
            raise InvalidInput(tuple(_problem(p) for p in problems)) from None

    def invoke(self, arguments: dict[str, Any], run: Run) -> Any:
        if self.signature.context is not None:
            arguments[self.signature.context] = Context(run)
        return self.function(**arguments)

    def _arguments_adapter(self) -> TypeAdapter[Any]:
        parameters = self.signature.parameters
        fields = {p.name: p.type if p.required else NotRequired[p.type] for p in parameters}
        shape = _typed_dict("Input", fields)
        shape.__pydantic_config__ = ConfigDict(extra="forbid")
        try:
            return TypeAdapter(shape)
        except _NO_JSON_FORM:
            for parameter in parameters:
                self._adapter(parameter.type, f"for parameter {parameter.name!r}")
            raise

    def _result(self, recursion: Recursion) -> tuple[dict[str, Any] | None, Callable[[Any], Any]]:
        returns = self.signature.returns
        if returns in _NOTHING:
            return None, _as_it_is
        if returns is UNTYPED or returns is Any:
            return {}, to_jsonable_python
        adapter = self._adapter(returns, "as its result")
        schema = self._schema(adapter, "serialization", recursion)
        if returns in _PLAIN:
            return schema, _as_it_is
        to_python = adapter.serializer.to_python
        return schema, lambda value: to_python(value, mode="json", by_alias=True, warnings=False)

    def _adapter(self, type_: Any, where: str) -> TypeAdapter[Any]:
        try:
            return TypeAdapter(type_)
        except _NO_JSON_FORM as error:
            refuse(self.function, f"cannot have that type {where}: {str(error).splitlines()[0]}")

    def _schema(
        self, adapter: TypeAdapter[Any], mode: Literal["validation", "serialization"], recursion: Recursion
    ) -> dict[str, Any]:
        try:
            return inline(adapter.json_schema(schema_generator=Schemas, mode=mode), recursion)
        except RecursiveType as error:
            refuse(
                self.function,
                f"uses the type {error}, which contains itself; use a flat type, "
                'or @toolkit.tool(recursion="open") to leave it open in the schema',
            )
        except PydanticUserError as error:
            refuse(self.function, f"has a type without a JSON Schema: {str(error).splitlines()[0]}")


_typed_dict: Any = TypedDict


def _object_schema(made: dict[str, Any]) -> dict[str, Any]:
    """In the order a reader expects, without pydantic's title."""
    schema = {"type": "object", "properties": made.get("properties", {})}
    if made.get("required"):
        schema["required"] = made["required"]
    return {**schema, "additionalProperties": False}


def _problem(error: Any) -> Problem:
    path = ""
    for part in error["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return Problem(path, error["msg"], got=error.get("input"), missing=error["type"] == "missing")


def _as_it_is(value: Any) -> Any:
    return value
