"""Content that a tool returns to be seen, heard or opened: pictures, sound, links, resources.

As JSON each is a content block of MCP, on every wire. Content is checked when the author makes it, so that a wrong
picture is an error at a line of the author's file, and not a result that breaks its schema.
"""

import types
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NotRequired, Self, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticSerializationUnexpectedValue, SchemaValidator, core_schema
from typing_extensions import TypeAliasType, TypedDict

from .problems import in_one_line

Base64 = Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})]


# --- as JSON -------------------------------------------------------------------------------------

# MCP's content blocks. pydantic puts the docstring of a TypedDict into the output schema of every tool that returns it,
# where clients read it and locks compare it: so these classes have none, and that of `Annotations` does not change.


class Annotations(TypedDict, total=False):
    """For whom a block is, how much it matters, and of when it is."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    audience: list[Literal["user", "assistant"]]
    priority: Annotated[float, Field(ge=0, le=1)]
    lastModified: str


class ContentBlock(TypedDict):
    annotations: NotRequired[Annotations]


class ImageBlock(ContentBlock):
    type: Literal["image"]
    data: Base64
    mimeType: str


class AudioBlock(ContentBlock):
    type: Literal["audio"]
    data: Base64
    mimeType: str


class LinkBlock(ContentBlock):
    type: Literal["resource_link"]
    uri: str
    name: str
    title: NotRequired[str]
    description: NotRequired[str]
    mimeType: NotRequired[str]
    size: NotRequired[Annotated[int, Field(ge=0)]]


class TextResource(TypedDict):
    uri: str
    mimeType: NotRequired[str]
    text: str


class BlobResource(TypedDict):
    uri: str
    mimeType: NotRequired[str]
    blob: Base64


class ResourceBlock(ContentBlock):
    type: Literal["resource"]
    resource: TextResource | BlobResource


# --- as an author writes it ----------------------------------------------------------------------


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


@dataclass(frozen=True)
class Image(Content):
    """A picture. `data` is its bytes, or text that is base64 already."""

    data: bytes | str
    mime_type: str
    annotations: Mapping[str, Any] | None = None

    written_as = ImageBlock

    def __post_init__(self) -> None:
        _check_data(self.data)
        _check_mime_type(self.mime_type)
        _check_annotations(self.annotations)

    def block(self) -> dict[str, Any]:
        return _set(type="image", data=_base64(self.data), mimeType=self.mime_type, annotations=self.annotations)


@dataclass(frozen=True)
class Audio(Content):
    """A sound. `data` is its bytes, or text that is base64 already."""

    data: bytes | str
    mime_type: str
    annotations: Mapping[str, Any] | None = None

    written_as = AudioBlock

    def __post_init__(self) -> None:
        _check_data(self.data)
        _check_mime_type(self.mime_type)
        _check_annotations(self.annotations)

    def block(self) -> dict[str, Any]:
        return _set(type="audio", data=_base64(self.data), mimeType=self.mime_type, annotations=self.annotations)


@dataclass(frozen=True)
class ResourceLink(Content):
    """A link to a resource, without what is in it. `size` is in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Mapping[str, Any] | None = None

    written_as = LinkBlock

    def __post_init__(self) -> None:
        _check_uri(self.uri)
        if self.mime_type is not None:
            _check_mime_type(self.mime_type)
        _check_annotations(self.annotations)

    def block(self) -> dict[str, Any]:
        return _set(
            type="resource_link",
            uri=self.uri,
            name=self.name,
            title=self.title,
            description=self.description,
            mimeType=self.mime_type,
            size=self.size,
            annotations=self.annotations,
        )


@dataclass(frozen=True)
class Embedded(Content):
    """A resource with what is in it: either `text`, or `data` as bytes or as text that is base64 already."""

    uri: str
    text: str | None = None
    data: bytes | str | None = None
    mime_type: str | None = None
    annotations: Mapping[str, Any] | None = None

    written_as = ResourceBlock

    def __post_init__(self) -> None:
        if (self.text is None) == (self.data is None):
            raise ValueError(f"the resource {self.uri!r} has {self._given_members}; give either text or data")
        _check_uri(self.uri)
        if self.data is not None:
            _check_data(self.data)
        if self.mime_type is not None:
            _check_mime_type(self.mime_type)
        _check_annotations(self.annotations)

    @property
    def _given_members(self) -> str:
        return "neither text nor data" if self.text is None else "both text and data"

    def block(self) -> dict[str, Any]:
        blob = None if self.data is None else _base64(self.data)
        resource = _set(uri=self.uri, mimeType=self.mime_type, text=self.text, blob=blob)
        return _set(type="resource", resource=resource, annotations=self.annotations)


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


# --- checks --------------------------------------------------------------------------------------


@cache  # made on first use: most tools have no annotations on their content
def _annotations() -> SchemaValidator:
    return TypeAdapter(Annotations).validator  # type: ignore[return-value]


def _check_data(data: Any) -> None:
    if not isinstance(data, bytes | str):
        raise ValueError(f"data is bytes, or text in base64, not {type(data).__name__}")
    if isinstance(data, str):
        try:
            b64decode(data, validate=True)
        except ValueError as error:
            raise ValueError(f"data is a text that is not base64 ({error}); give bytes as they are") from None


def _check_mime_type(mime_type: Any) -> None:
    if not isinstance(mime_type, str) or "/" not in mime_type:
        raise ValueError(f"mime_type={mime_type!r} is not a media type; write for example 'image/png'")


def _check_uri(uri: Any) -> None:
    if not isinstance(uri, str) or not urlsplit(uri).scheme:
        raise ValueError(f"{uri!r} is not a URI; it begins with a scheme, such as https: or file:")


def _check_annotations(annotations: Any) -> None:
    if annotations is None:
        return
    try:
        _annotations().validate_python(annotations)
    except ValidationError as error:
        raise ValueError(f"the annotations cannot be used: {in_one_line(error)}") from None


def _base64(data: bytes | str) -> str:
    return data if isinstance(data, str) else b64encode(data).decode()


def _set(**members: Any) -> dict[str, Any]:
    """The members that are set."""
    return {name: value for name, value in members.items() if value is not None}
