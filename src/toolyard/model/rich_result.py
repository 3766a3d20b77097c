"""Results that have more than a value: those of tools that other MCP servers run.

An MCP result has content, which models read, it may have a structured value, which programs read, and a `_meta` with
whatever its server adds. A wire that has one value shows the value; MCP shows all of it, as it came. Nothing is kept
twice: where the content is the value, or no more than the value's text, it is not among the rest.
"""

from typing import Any

from msgspec import Raw, Struct

from .json_value import decoder


class ResultExtra(Struct, frozen=True, omit_defaults=True):
    """What a result has beside its value, or beside the error that it is. All of it is plain JSON."""

    content: list[Any] | None = None
    """MCP's blocks as they came, where the value is something else."""
    is_content: bool = False
    """Whether the value itself is MCP's blocks."""
    meta: dict[str, Any] | None = None
    """The `_meta` of the result as it came."""

    def members(self) -> dict[str, Any]:
        """Those that say something."""
        members = {"content": self.content, "is_content": self.is_content or None, "meta": self.meta or None}
        return {name: value for name, value in members.items() if value is not None}

    def is_only(self, text: str) -> bool:
        """Whether the content is one block with this text, and nothing else. Whoever shows the result makes that of
        the text anyway."""
        return self.content == [{"type": "text", "text": text}]


class RichResult(Struct, frozen=True):
    """What a runner returns for a result that has more than a value. The tool's output schema is for the value."""

    value: Any
    extra: ResultExtra


decode_extra = decoder(ResultExtra)
"""Of JSON, as an outcome and the ledger have it."""


class _Content(Struct):
    """The content alone, as it is written."""

    content: Raw = Raw()


_decode_content = decoder(_Content)


def content_json(extra: Raw | bytes | None) -> Raw | None:
    """The blocks that stand beside a result's value, as JSON; None where there are none."""
    content = Raw() if extra is None else _decode_content(extra).content
    return content if len(content) else None
