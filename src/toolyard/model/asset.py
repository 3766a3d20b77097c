"""What access rules and limits are about besides the catalogue's tools: an author's prompts and resources, and, for
limits alone, the tools that sessions bring along."""

from typing import Literal
from urllib.parse import unquote

from msgspec import Struct

KINDS = ("prompts", "resources")


class Asset(Struct, frozen=True):
    """A prompt, a resource or a session's tool, as rules and limits name it. `name` is the prompt's or the tool's name,
    or the resource's URI or URI template."""

    kind: Literal["prompts", "resources", "sessions"]
    name: str

    @property
    def path(self) -> str:
        """As patterns name it: `prompts/pack`, `resources/trips://Oslo/weather`."""
        return f"{self.kind}/{self.name}"

    @property
    def id(self) -> str:
        """The name under which a limit per tool counts it. All of one kind share a counter: callers choose URIs and
        names freely, so that a counter for each would have no bound."""
        return self.kind

    def spellings(self) -> "tuple[Asset, ...]":
        """The asset, and for a URI with percent escapes the same without them: the author's code may undo them, so a
        rule about either spelling has to hold."""
        plain = unquote(self.name) if self.kind == "resources" else self.name
        return (self,) if plain == self.name else (self, Asset(self.kind, plain))


def offer_at(path: str) -> Asset | None:
    """The prompt or resource that a path such as `prompts/pack` names; None for a tool's id."""
    kind, _, name = path.partition("/")
    return Asset(kind, name) if kind in KINDS and name else None  # type: ignore[arg-type]
