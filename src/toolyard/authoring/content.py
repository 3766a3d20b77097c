"""Content that a tool returns to be seen, heard or opened: pictures, sound, links, resources.

As JSON each is a content block of MCP, on every wire. Content is checked when the author makes it, so that a wrong
picture is an error at a line of the author's file, and not a result that breaks its schema.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, NotRequired
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator
from typing_extensions import TypedDict

from .content_block import Content
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


@dataclass(frozen=True)
class Image(Content):
    """A picture, which a client shows and a model sees: `return Image(png, "image/png")`.

    Args:
        data: Its bytes, or text that is base64 already.
        mime_type: Its media type, such as `image/png`.
        annotations: MCP's `audience`, `priority` and `lastModified`.

    Raises:
        ValueError: A text that is not base64, no media type, or annotations that MCP does not have.
    """

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
    """A sound, which a client plays: `return Audio(wav, "audio/wav")`.

    Args:
        data: Its bytes, or text that is base64 already.
        mime_type: Its media type, such as `audio/wav`.
        annotations: As those of `Image`.

    Raises:
        ValueError: As for `Image`.
    """

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
    """A link to a resource, which a client may open: `return ResourceLink("https://example.com/a.pdf", "a.pdf")`.

    Args:
        uri: Where it is.
        name: What it is called.
        title: The same for people.
        description: What it is, for models.
        mime_type: Its media type.
        size: Its size in bytes.
        annotations: As those of `Image`.

    Raises:
        ValueError: No URI, no media type, or annotations that MCP does not have.
    """

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
    """A resource with what is in it, such as a file: `return Embedded("file:///notes.txt", text="Buy tea")`.

    Args:
        uri: Where it is from.
        text: What is in it, where that is text.
        data: What is in it, where it is not: bytes, or text that is base64 already.
        mime_type: Its media type.
        annotations: As those of `Image`.

    Raises:
        ValueError: Both or neither of `text` and `data`, or as for `Image`.
    """

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
