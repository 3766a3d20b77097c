"""What a class of content is, and which results are content. `content.py` has the classes, and is loaded when an author
imports one of them: this module is all that tools without content need of it."""

import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Self, Union, get_args, get_origin

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticSerializationUnexpectedValue, core_schema
from typing_extensions import TypeAliasType


class Content:
    """One content block, which a tool returns by itself, in a list or inside any other result. It cannot be a
    parameter."""

    written_as: ClassVar[Any]
    """The TypedDict that `block` gives."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Makes the class's serializer with its first object: `to_jsonable_python` looks for one on values whose type
        the signature does not name (`-> dict[str, Any]`)."""
        if "__pydantic_serializer__" not in cls.__dict__:
            cls.__pydantic_serializer__ = TypeAdapter(cls).serializer
        return super().__new__(cls)

    def block(self) -> dict[str, Any]:
        """The content as MCP's block, in plain JSON values."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Validated as an instance, serialized as the block: the output schema is that of the TypedDict.
        shape = handler.generate_schema(cls.written_as)
        written = core_schema.plain_serializer_function_ser_schema(cls._write, return_schema=shape)
        return core_schema.is_instance_schema(cls, serialization=written)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        if handler.mode == "validation":
            raise PydanticInvalidForJsonSchema(f"{cls.__name__} is a result; take what it is made of as parameters")
        return handler(schema)

    @classmethod
    def _write(cls, value: Any) -> dict[str, Any]:
        """The block of a value of this class. For any other value it raises what makes pydantic try the next type of a
        union."""
        if not isinstance(value, cls):
            raise PydanticSerializationUnexpectedValue(f"Expected {cls.__name__}")
        return value.block()


def is_content(type_: Any) -> bool:
    """Whether a result of that type is MCP's content: content blocks and texts alone, one or a list, with at least one
    kind of block among them. (A text by itself is an ordinary result.)"""
    members = list(_members(type_, _SEVERAL))
    blocks = [member for member in members if isinstance(member, type) and issubclass(member, Content)]
    return bool(blocks) and all(member is str or member in blocks for member in members)


_SEVERAL = (list, tuple, Sequence)


def _members(type_: Any, lists: tuple[Any, ...]) -> Iterator[Any]:
    """The types that a type is made of, through unions, and through one level of lists: MCP's content is a flat list.
    `lists` are the list types that may still be entered."""
    origin, below = get_origin(type_), get_args(type_)
    if isinstance(type_, TypeAliasType):
        yield from _members(type_.__value__, lists)
    elif origin is Annotated:
        yield from _members(below[0], lists)
    elif origin in (Union, types.UnionType):
        for option in below:
            yield from _members(option, lists)
    elif origin in lists:
        for member in below:
            if member is not Ellipsis:
                yield from _members(member, ())
    else:
        yield type_
