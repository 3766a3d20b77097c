"""The tools of a server's own sources, and how the catalogue follows an author who adds or removes some while they are
served.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..catalogue import Catalogue
from ..model.run import Source
from ..model.tool import Code, Tool
from ..model.upstream import Upstream, each_upstream_once
from ..runners.loader import load
from ..runners.loader import sources_of as sources_of
from .settings.table import Settings


def upstreams_of(settings: Settings) -> tuple[Upstream, ...]:
    """Those of the settings themselves, and of the files and modules that they name. Raises SetupError."""
    sources = [source for target in settings.tools for source in load(target)]
    return upstreams_wanted(settings, sources)


def upstreams_wanted(settings: Settings, sources: Iterable[Source]) -> tuple[Upstream, ...]:
    """Those of the settings, and of these sources."""
    return each_upstream_once((*settings.upstreams, *(up for source in sources for up in source.upstreams)))


class Served:
    """The tools that these sources have now, and the catalogue that follows them. `check` raises DefinitionError for
    tools that must not be served."""

    def __init__(
        self,
        sources: Sequence[Source],
        check: Callable[[Iterable[Tool]], None],
        make_way: Callable[[Iterable[Tool]], None] = lambda tools: None,
    ) -> None:
        """`make_way` is called before tools are added while others are served: some may be there by their names."""
        self._sources, self._check, self._make_way = sources, check, make_way
        self._tools = self._wanted()
        check(self._tools.values())
        self.catalogue = Catalogue(self._tools.values())

    def follow(self) -> None:
        """Brings the catalogue to what the sources have now. Called when an author added or removed tools. Raises
        DefinitionError, before anything has changed."""
        wanted, known = self._wanted(), self._tools
        gone = [tool for key, tool in known.items() if key not in wanted]
        new = {key: tool for key, tool in wanted.items() if key not in known}
        self._check(new.values())
        self._make_way(new.values())
        if new or gone:
            self.catalogue.change(add=new.values(), remove=gone)
        # Tools that stayed are the same objects: what others remember by a tool stays good.
        self._tools = {key: known.get(key, tool) for key, tool in wanted.items()}

    def _wanted(self) -> dict[tuple[str, Code[Any]], Tool]:
        """By reference and code: the same reference with other code is another tool, and takes the old one's place. A
        toolkit that is in several apps is the first one's; an app comes before those inside it."""
        wanted: dict[tuple[str, Code[Any]], Tool] = {}
        for tool in (tool for source in self._sources for tool in source.tools):
            wanted.setdefault((tool.reference, tool.code), tool)
        return wanted
