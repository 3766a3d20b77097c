"""From a function to what the engine needs: schemas, argument builder, result writer.

Input reaches `bind` after it was checked against the schema, so pydantic may be lenient there: what is
left for it to do is to make typed values (dates, models, enums) and to run the author's own validators. Strict types
it makes from JSON only (a date from a string): what it refuses as values, it is given as JSON, in which a whole number
has no fraction (`1e19` is an integer to the schema).
"""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NotRequired

import msgspec
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import SchemaSerializer, SchemaValidator, to_jsonable_python
from typing_extensions import TypedDict

from ..model.call import LARGE_INPUT
from ..model.errors import InvalidInput
from ..model.json_value import FIRST_WITH_EXPONENT
from ..model.run import Run
from .binary import in_base64
from .content import is_content
from .context import Context
from .problems import problems_of
from .schemas import NO_JSON_FORM, ForeignReference, Recursion, RecursiveType, Schemas, inline, reason_of
from .signature import UNTYPED, origin_of, read_signature, refuse

Mode = Literal["validation", "serialization"]
_NOTHING = (None, type(None))
_PLAIN: dict[Any, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bool: bool,
}


class Function:
    """A tool's function: implements `model.running.Code`. Where the author gave a schema, that alone says what may be
    in the input: what the function does not name goes into its `**more`, or is passed over if it has none."""

    def __init__(
        self, function: Callable[..., Any], recursion: Recursion = "refuse", *, has_own_schema: bool = False
    ) -> None:
        self.function = function
        self.origin = origin_of(function)
        self.is_async = inspect.iscoroutinefunction(function)
        self.signature = read_signature(function, has_own_schema=has_own_schema)
        self._extra: Literal["forbid", "ignore"] = "ignore" if has_own_schema else "forbid"
        self._takes_more = self.signature.takes_more
        self._recursion = recursion
        arguments, schema = self._arguments()
        self.input_schema = _object_schema(schema)
        for parameter in self.signature.parameters:
            if parameter.hidden:
                self.input_schema["properties"][parameter.property]["x-non-inferrable"] = True
        self.has_validators = has_code(arguments.core_schema)
        validator = _validator(arguments)
        self._bind: Callable[..., dict[str, Any]] = validator.validate_python
        self._bind_json: Callable[..., dict[str, Any]] = validator.validate_json
        self._refuse_contradictions()
        self.output_schema, self.dump = self._result()
        self.returns_content = is_content(self.signature.returns)

    @property
    def hidden(self) -> tuple[str, ...]:
        return tuple(p.property for p in self.signature.parameters if p.hidden)

    @property
    def last_line(self) -> int | None:
        """Of the function, in its file; None where that is not known."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return None if code is None else max((line for *_, line in code.co_lines() if line), default=None)

    def bind(self, input: Mapping[str, Any]) -> dict[str, Any]:
        try:
            arguments = self._bind(input)
        except ValidationError:
            arguments = self._bound_as_json(input)
        return {**self._more(input), **arguments} if self._takes_more else arguments

    def _bound_as_json(self, input: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._bind_json(_with_integers(input))
        except ValidationError as error:
            raise InvalidInput(problems_of(error)) from None

    def _more(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """What the function does not name. (A parameter with an alias may have a name that is none in the schema.)"""
        named = {p.property for p in self.signature.parameters} | {p.name for p in self.signature.parameters}
        return {name: value for name, value in input.items() if name not in named}

    def invoke(self, arguments: dict[str, Any], run: Run) -> Any:
        if self.signature.context is not None:
            arguments[self.signature.context] = Context(run)
        return self.function(**arguments)

    def _arguments(self) -> tuple[TypeAdapter[Any], dict[str, Any]]:
        parameters = self.signature.parameters
        fields = {p.name: p.type if p.required else NotRequired[p.type] for p in parameters}
        shape = _typed_dict("Input", fields)
        shape.__pydantic_config__ = ConfigDict(extra=self._extra, allow_inf_nan=False)
        try:
            return self._form(shape, "validation")
        except NO_JSON_FORM:
            for parameter in parameters:
                self._form_or_refuse(parameter.type, "validation", f"for parameter {parameter.name!r}")
            raise

    def _refuse_contradictions(self) -> None:
        """A default that its own type does not allow, neither as it stands nor as the schema lists it."""
        given = {p.property: p.default for p in self.signature.parameters if p.default is not UNTYPED}
        wrong = _objections(lambda: self._bind(given, strict=True))
        properties = self.input_schema["properties"]
        listed = {name: properties[name]["default"] for name in wrong if "default" in properties[name]}
        wrong_in_json = _objections(lambda: self._bind_json(msgspec.json.encode(listed), strict=True))
        for name, reason in wrong.items():
            if name not in listed or name in wrong_in_json:
                sentence = f"has the default {given[name]!r} for {name!r}, which its type does not allow: {reason}"
                refuse(self.function, sentence)

    def _result(self) -> tuple[dict[str, Any] | None, Callable[[Any], Any]]:
        returns = self.signature.returns
        if returns in _NOTHING:
            return None, _as_it_is
        if returns is UNTYPED or returns is Any:
            return {}, to_jsonable_python
        adapter, schema = self._form_or_refuse(returns, "serialization", "as its result")
        if isinstance(returns, type) and returns in _PLAIN:
            return schema, _plain_writer(returns)
        to_python = _serializer(adapter).to_python
        return schema, lambda value: to_python(value, mode="json", by_alias=True, warnings=False)

    def _form_or_refuse(self, type_: Any, mode: Mode, where: str) -> tuple[TypeAdapter[Any], dict[str, Any]]:
        try:
            return self._form(type_, mode)
        except NO_JSON_FORM as error:
            refuse(self.function, f"cannot have that type {where}: {reason_of(error)}")

    def _form(self, type_: Any, mode: Mode) -> tuple[TypeAdapter[Any], dict[str, Any]]:
        """What makes and writes a type's values, and its schema."""
        adapter = TypeAdapter(type_)
        try:
            return adapter, inline(adapter.json_schema(schema_generator=Schemas, mode=mode), self._recursion)
        except ForeignReference as error:
            refuse(self.function, f"has a schema with a reference to {error}; write what it refers to in its place")
        except RecursiveType as error:
            refuse(
                self.function,
                f"uses the type {error}, which contains itself; use a flat type, "
                'or @toolkit.tool(recursion="open") to leave it open in the schema',
            )


def has_code(schema: Any) -> bool:
    """Whether something besides pydantic's own code runs where this core schema validates: validators, factories of
    defaults, types with code of their own. Where it cannot be told it is taken to."""
    pending, seen = [schema], set[int]()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Mapping):
            if any(part.get(name) for name in _RUNS):
                return True
            pending.extend(value for name, value in part.items() if name not in _ASIDE)
        elif isinstance(part, list | tuple):
            pending.extend(part)
        elif callable(part) and not isinstance(part, type):
            return True
    return False


_RUNS = ("post_init", "custom_init", "default_factory")
_ASIDE = ("metadata", "serialization", "cls")

_typed_dict: Any = TypedDict


def _plain_writer(plain: Any) -> Callable[[Any], Any]:
    """As it is, and what is more than that (an enum's member, another library's float) as the plain value in it. What
    is something else stays so, for the output schema to refuse."""
    to_plain = _PLAIN[plain]

    def write(value: Any) -> Any:
        if type(value) is plain or not isinstance(value, plain) or isinstance(value, bool):
            return value
        return to_plain(value)

    return write


def _validator(adapter: TypeAdapter[Any]) -> SchemaValidator:
    """The type's own, but for bytes."""
    made: Any = in_base64(adapter.core_schema)
    if made is adapter.core_schema:
        own: SchemaValidator = adapter.validator  # type: ignore[assignment]
        return own
    return SchemaValidator(made, made.get("config"), _use_prebuilt=False)


_NOT_ABOUT_DEFAULTS = ("missing", "finite_number")
"""Others are not given here; and "no limit" is a number to Python, though not to JSON."""


def _objections(bind: Callable[[], Any]) -> dict[str, str]:
    """What is wrong with the parameters that are given, by their names."""
    try:
        bind()
    except ValidationError as error:
        found = reversed(error.errors(include_url=False, include_context=False))  # the first of each counts
        return {str(each["loc"][0]): each["msg"] for each in found if each["type"] not in _NOT_ABOUT_DEFAULTS}
    return {}


def _serializer(adapter: TypeAdapter[Any]) -> SchemaSerializer:
    """The type's own, but for bytes, and for a number that is not finite: it stays one, for the engine to see, and is
    not None."""
    made: Any = in_base64(adapter.core_schema)
    config: Any = {**made.get("config", {}), "ser_json_inf_nan": "constants"}
    return SchemaSerializer(made, config, _use_prebuilt=made is adapter.core_schema)


def _object_schema(made: dict[str, Any]) -> dict[str, Any]:
    """In the order a reader expects, without pydantic's title."""
    schema = {"type": "object", "properties": made.get("properties", {})}
    if made.get("required"):
        schema["required"] = made["required"]
    return {**schema, "additionalProperties": False}


def _with_integers(input: Mapping[str, Any]) -> bytes:
    """As JSON, with whole floats as integers. In a large input those of many digits stay as they are: 1e308 a hundred
    thousand times would be written with thirty million digits."""
    encoded = msgspec.json.encode(input)
    return msgspec.json.encode(_whole(input, math.inf if len(encoded) <= LARGE_INPUT else FIRST_WITH_EXPONENT))


def _whole(value: Any, below: float) -> Any:
    if isinstance(value, dict):
        return {name: _whole(member, below) for name, member in value.items()}
    if isinstance(value, list):
        return [_whole(item, below) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < below else value


def _as_it_is(value: Any) -> Any:
    return value
