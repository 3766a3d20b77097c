"""Makes of an author's function what the engine needs: schemas, typed arguments from input, JSON values from results.

Input reaches `bind` after it was checked against the schema, so pydantic may be lenient there: what is left for it to
do is to make typed values (dates, models, enums) and to run the author's own validators. Strict types it makes from
JSON alone (a date from a string): so what it refuses as Python values it gets once more as JSON. There, a float that is
whole is written as an integer, because it is one to JSON Schema (`1e19`), and not to pydantic.
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
from .content_block import is_content
from .context import Context
from .dependencies import Dependencies
from .problems import problems_of
from .schemas import NO_JSON_FORM, ForeignReference, Recursion, RecursiveType, Schemas, inline, reason_of
from .signature import UNTYPED, origin_of, read_signature, refuse

Mode = Literal["validation", "serialization"]
_NOTHING = (None, type(None))
# The methods of the plain types themselves: a subclass may have overridden its own.
_PLAIN: dict[Any, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bool: bool,
}
# What factories that are Python's own make, as JSON.
_PLAIN_FACTORIES: dict[Any, Any] = {list: [], tuple: [], set: [], frozenset: [], dict: {}, str: "", int: 0, float: 0.0}


class Function:
    """An author's function with its schemas: implements `model.tool.Code`. Where the author gave an input schema, that
    alone decides what may be in the input: members that the function does not name go into its `**more`, or are dropped
    if it has none."""

    def __init__(
        self, function: Callable[..., Any], recursion: Recursion = "refuse", *, has_own_schema: bool = False
    ) -> None:
        self.function = function
        self.origin = origin_of(function)
        self.is_async = inspect.iscoroutinefunction(function)
        self.signature = read_signature(function, has_own_schema=has_own_schema)
        self._extra: Literal["forbid", "ignore"] = "ignore" if has_own_schema else "forbid"
        self._takes_more = self.signature.takes_more
        self._context = self.signature.context
        injected = self.signature.injected
        self.dependencies = Dependencies(function, injected) if injected else None
        self._properties = frozenset(p.property for p in self.signature.parameters) if has_own_schema else None
        self._recursion = recursion
        arguments, schema = self._arguments()
        self.input_schema = _object_schema(schema)
        for parameter in self.signature.parameters:
            if parameter.hidden:
                self.input_schema["properties"][parameter.property]["x-non-inferrable"] = True
        self.called_with = self._called_with()
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
        """The last line of the function in its file; None where that is not known."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return None if code is None else max((line for *_, line in code.co_lines() if line), default=None)

    def bind(self, input: Mapping[str, Any]) -> dict[str, Any]:
        known = input
        if self._properties is not None:
            # The author's schema may let more through than the function names, and pydantic would find a parameter by
            # its other aliases there: one that no rule about the parameter has looked at.
            known = {name: value for name, value in input.items() if name in self._properties}
        try:
            arguments = self._bind(known)
        except ValidationError:
            arguments = self._bound_as_json(known)
        return {**self._more(input), **arguments} if self._takes_more else arguments

    def _bound_as_json(self, input: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._bind_json(_with_integers(input))
        except ValidationError as error:
            raise InvalidInput(problems_of(error)) from None

    def _more(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """The members of an input that the function does not name, for its `**more`. A parameter with an alias has two
        names: the alias in the schema, and its own, which must not be passed twice."""
        named = {p.property for p in self.signature.parameters} | {p.name for p in self.signature.parameters}
        return {name: value for name, value in input.items() if name not in named}

    def invoke(self, arguments: dict[str, Any], run: Run) -> Any:
        # Both are set here, after validation: no input can bring a context, or what only a dependency gives.
        if self.dependencies is not None:
            return self._with_dependencies(self.dependencies, arguments, run)
        if self._context is not None:
            arguments[self._context] = Context(run)
        return self.function(**arguments)

    def _with_dependencies(self, dependencies: Dependencies, arguments: dict[str, Any], run: Run) -> Any:
        """The same context for the tool and for all of its dependencies: questions are numbered by it."""
        context: Context[Any] = Context(run)
        if self._context is not None:
            arguments[self._context] = context
        for name in self.signature.injected:
            arguments.pop(name, None)
        if self.is_async:
            return dependencies.call(arguments, context)
        return dependencies.call_plain(arguments, context, run)

    def _arguments(self) -> tuple[TypeAdapter[Any], dict[str, Any]]:
        """The adapter that makes the arguments from an input, and the input's schema."""
        parameters = self.signature.parameters
        fields = {p.name: p.type if p.required else NotRequired[p.type] for p in parameters}
        # A TypedDict and not a model: it validates to the dictionary of arguments that the function is called with.
        shape = _typed_dict("Input", fields)
        shape.__pydantic_config__ = ConfigDict(extra=self._extra, allow_inf_nan=False)
        try:
            return self._form(shape, "validation")
        except NO_JSON_FORM:
            # pydantic does not say which parameter it was, so each is tried by itself.
            for parameter in parameters:
                self._form_or_refuse(parameter.type, "validation", f"for parameter {parameter.name!r}")
            raise

    def _called_with(self) -> dict[str, Any]:
        """The signature's schema, for rules that judge what the function would be called with (`Tool.called_with`).
        It has the defaults, too, that a schema for clients does not list because a plain factory makes them."""
        properties = self.input_schema["properties"]
        made = ((p.property, p.factory) for p in self.signature.parameters if isinstance(p.factory, type))
        plain = {name: _PLAIN_FACTORIES[factory] for name, factory in made if factory in _PLAIN_FACTORIES}
        filled = {name: {"default": default, **properties[name]} for name, default in plain.items()}
        return {**self.input_schema, "properties": {**properties, **filled}}

    def _refuse_contradictions(self) -> None:
        """Refuses a default that its own type does not allow, neither as a Python value nor as the schema lists it."""
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
        """The output schema, and the function that writes a result as plain JSON values."""
        returns = self.signature.returns
        if returns in _NOTHING:
            return None, _as_it_is
        if returns is UNTYPED or returns is Any:
            return {}, to_jsonable_python
        adapter, schema = self._form_or_refuse(returns, "serialization", "as its result")
        if isinstance(returns, type) and returns in _PLAIN:  # for these, pydantic would only cost time
            return schema, _plain_writer(returns)
        to_python = _serializer(adapter).to_python
        return schema, lambda value: to_python(value, mode="json", by_alias=True, warnings=False)

    def _form_or_refuse(self, type_: Any, mode: Mode, where: str) -> tuple[TypeAdapter[Any], dict[str, Any]]:
        try:
            return self._form(type_, mode)
        except NO_JSON_FORM as error:
            refuse(self.function, f"cannot have that type {where}: {reason_of(error)}")

    def _form(self, type_: Any, mode: Mode) -> tuple[TypeAdapter[Any], dict[str, Any]]:
        """pydantic's adapter for a type, and the type's inlined schema."""
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
    """Whether validating by this core schema runs code besides pydantic's own: validators, factories of defaults, types
    with code of their own. A call with a known key is answered before any such code runs, so in doubt the answer is
    yes."""
    pending, seen = [schema], set[int]()
    while pending:
        part = pending.pop()
        if id(part) in seen:  # the same part may be in many places
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
"""Members of a core schema that name an author's code to run, by a name or a flag."""
_ASIDE = ("metadata", "serialization", "cls")
"""Members of a core schema that have functions in them which validating does not call."""

_typed_dict: Any = TypedDict


def _plain_writer(plain: Any) -> Callable[[Any], Any]:
    """Writes results of a plain type: a value of it as it is, and one of a subclass (an enum's member, another
    library's float) as the plain value in it. Any other value is left as it is, for the output schema to refuse."""
    to_plain = _PLAIN[plain]

    def write(value: Any) -> Any:
        if type(value) is plain or not isinstance(value, plain) or isinstance(value, bool):
            return value
        return to_plain(value)

    return write


def _validator(adapter: TypeAdapter[Any]) -> SchemaValidator:
    """The type's own validator, or one that reads bytes from Base64 where the type has bytes."""
    schema: Any = in_base64(adapter.core_schema)
    if schema is adapter.core_schema:
        own: SchemaValidator = adapter.validator  # type: ignore[assignment]
        return own
    # A prebuilt validator of a model inside would still read its bytes as UTF-8.
    return SchemaValidator(schema, schema.get("config"), _use_prebuilt=False)


_NOT_ABOUT_DEFAULTS = ("missing", "finite_number")
"""pydantic's errors that say nothing about a default: parameters without one are missing, and infinity ("no limit") is
a number to Python, though not to JSON."""


def _objections(bind: Callable[[], Any]) -> dict[str, str]:
    """What pydantic finds wrong with parameters' defaults, by the parameters' names."""
    try:
        bind()
    except ValidationError as error:
        found = reversed(error.errors(include_url=False, include_context=False))  # the first of each counts
        return {str(each["loc"][0]): each["msg"] for each in found if each["type"] not in _NOT_ABOUT_DEFAULTS}
    return {}


def _serializer(adapter: TypeAdapter[Any]) -> SchemaSerializer:
    """The type's own serializer, except that it writes bytes as Base64, and keeps a number that is not finite where
    pydantic would write None: the engine has to see it, and fail the call."""
    schema: Any = in_base64(adapter.core_schema)
    config: Any = {**schema.get("config", {}), "ser_json_inf_nan": "constants"}
    return SchemaSerializer(schema, config, _use_prebuilt=schema is adapter.core_schema)


def _object_schema(given: dict[str, Any]) -> dict[str, Any]:
    """pydantic's schema of the input in the order a reader expects, without its title."""
    schema = {"type": "object", "properties": given.get("properties", {})}
    if given.get("required"):
        schema["required"] = given["required"]
    return {**schema, "additionalProperties": False}


def _with_integers(input: Mapping[str, Any]) -> bytes:
    """An input as JSON, with whole floats as integers. In a large input those of many digits stay as they are: 1e308 a
    hundred thousand times would be written with thirty million digits."""
    encoded = msgspec.json.encode(input)
    return msgspec.json.encode(_whole(input, math.inf if len(encoded) <= LARGE_INPUT else FIRST_WITH_EXPONENT))


def _whole(value: Any, below: float) -> Any:
    """A JSON value with each float that is whole, and smaller than `below`, as an integer."""
    if isinstance(value, dict):
        return {name: _whole(member, below) for name, member in value.items()}
    if isinstance(value, list):
        return [_whole(item, below) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < below else value


def _as_it_is(value: Any) -> Any:
    return value
