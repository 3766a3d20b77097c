"""What there is besides tools: an author's prompts, and resources to read. Rules and limits are about them, too. And
tools that a session brought, which only limits are about."""

from typing import Literal
from urllib.parse import unquote

from msgspec import Struct

KINDS = ("prompts", "resources")


class Asset(Struct, frozen=True):
    """`name` is that of a prompt or a session's tool, or a resource's URI or template."""

    kind: Literal["prompts", "resources", "sessions"]
    name: str

    @property
    def path(self) -> str:
        """As patterns name it: `prompts/pack`, `resources/trips://Oslo/weather`."""
        return f"{self.kind}/{self.name}"

    @property
    def id(self) -> str:
        """What counts per tool counts all prompts together, and all resources, and all that sessions brought: of those
        there is no end."""
        return self.kind

    def spellings(self) -> "tuple[Asset, ...]":
        """A URI may have escapes in it that its reader takes out."""
        plain = unquote(self.name) if self.kind == "resources" else self.name
        return (self,) if plain == self.name else (self, Asset(self.kind, plain))


def offer_at(path: str) -> Asset | None:
    """What a pattern without stars names; None for a tool."""
    kind, _, name = path.partition("/")
    return Asset(kind, name) if kind in KINDS and name else None  # type: ignore[arg-type]
