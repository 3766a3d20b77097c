"""The tools that are served, by every name they can be called by.

The engine resolves calls here, and the wires list from here; the server's own tools and those that workers offer are
alike. A reference is looked up in one dictionary that holds every spelling (`A.B`, `A.B@1`, `A.B@1.2.3`), so that a
call costs the same with one tool as with a thousand. Each change raises `version`; whatever is made from the catalogue
(the bytes of a listing) is cached under (version, view).
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from .model.caller import EVERYTHING, View
from .model.errors import DefinitionError, ToolNotFound
from .model.tool import REFERENCE, Tool, Version

LONGEST_REFERENCE = 256


class CatalogueChange(Struct, frozen=True):
    """The tools that one change added and removed. Listeners look at these alone, so that a change costs what is in it,
    however large the catalogue is."""

    added: tuple[Tool, ...]
    removed: tuple[Tool, ...]


class Catalogue:
    """The versions of all tools that are served: resolved by reference or name, listed in a stable order."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self.version = 0
        self._tools: dict[str, dict[Version, Tool]] = {}
        self._references: dict[str, Tool] = {}
        # Two kinds of names: those that wires list, of newest versions, and those that any version occupies.
        self._names: dict[str, Tool] = {}
        self._taken: dict[str, Tool] = {}
        self._listeners: list[Callable[[CatalogueChange], None]] = []
        self.add(*tools)

    def __len__(self) -> int:
        """How many tools there are; versions of one count once."""
        return len(self._tools)

    def subscribe(self, listener: Callable[[CatalogueChange], None]) -> None:
        """Calls `listener` after each change. A listener that raises has the change taken back."""
        self._listeners.append(listener)

    def add(self, *tools: Tool) -> None:
        """Adds all of these tools or, when one is refused, none."""
        self.change(add=tools)

    def remove(self, *tools: Tool) -> None:
        """Removes these tools. One that is not there is no error."""
        self.change(remove=tools)

    def change(self, *, add: Iterable[Tool] = (), remove: Iterable[Tool] = ()) -> None:
        """Adds and removes tools in one change, of which listeners hear once. All of it happens or, when a tool or a
        listener refuses, nothing. Raises DefinitionError."""
        changed: dict[str, dict[Version, Tool]] = {}
        added, removed = list[Tool](), list[Tool]()
        for tool in remove:
            versions = self._versions_in(changed, tool.id)
            if versions.get(tool.version) is tool:
                del versions[tool.version]
                removed.append(tool)
        for tool in add:
            versions = self._versions_in(changed, tool.id)
            _refuse_twice(versions.get(tool.version), tool)
            if tool.version not in versions:
                versions[tool.version] = tool
                added.append(tool)
        self._replace(changed, self._taken_after(changed), CatalogueChange(tuple(added), tuple(removed)))

    def taken(self, wire_name: str) -> Tool | None:
        """The tool that occupies this wire name with any of its versions, listed or not."""
        return self._taken.get(wire_name)

    def resolve(self, reference: str, view: View = EVERYTHING, *, latest: bool = False) -> Tool:
        """The tool a reference means. `latest` allows the draft's `@latest`. Raises ToolNotFound, in the same words
        for a tool that is not there and for one that is not in the view."""
        tool = self._references.get(reference)
        return tool if tool is not None and view.sees(tool) else self._resolve_slowly(reference, view, latest)

    def named(self, name: str, view: View = EVERYTHING) -> Tool | None:
        """The newest version that the view sees of the tool that wires list under that name, long or short."""
        tool = self._names.get(name)
        if tool is None or view.sees(tool):
            return tool
        return self._newest(tool.id, view)

    def newest(self, view: View = EVERYTHING) -> list[Tool]:
        """The newest version of each tool that the view lists, by id."""
        listed = (
            [tool for tool in versions.values() if view.lists(tool)] for _, versions in sorted(self._tools.items())
        )
        return [max(versions, key=_version) for versions in listed if versions]

    def all(self, view: View = EVERYTHING) -> list[Tool]:
        """Every version of every tool that the view lists, by id and then version."""
        there = [versions[v] for _, versions in sorted(self._tools.items()) for v in sorted(versions)]
        return there if view is EVERYTHING else [tool for tool in there if view.lists(tool)]

    def _versions_in(self, changed: dict[str, dict[Version, Tool]], id: str) -> dict[Version, Tool]:
        if id not in changed:
            changed[id] = dict(self._tools.get(id, {}))
        return changed[id]

    def _taken_after(self, changed: dict[str, dict[Version, Tool]]) -> dict[str, Tool]:
        """The tools by the names that their versions occupy, once `changed` is in place. Raises DefinitionError for a
        name that two tools would have."""
        taken = dict(self._taken)
        for id in changed:
            for tool in self._tools.get(id, {}).values():
                for name in tool.names:
                    taken.pop(name, None)
        for versions in changed.values():
            for tool in versions.values():
                for name in tool.names:
                    _refuse_taken_name(taken.setdefault(name, tool), tool, name)
        return taken

    def _replace(
        self, changed: dict[str, dict[Version, Tool]], taken: dict[str, Tool], change: "CatalogueChange"
    ) -> None:
        """Puts changed copies of the dictionaries in place, so that the change can be taken back whole where a listener
        refuses. Only what belongs to the changed ids is made anew; copying the rest costs next to nothing."""
        before = self._tools, self._references, self._names, self._taken
        tools, references, names = dict(self._tools), dict(self._references), dict(self._names)
        for id, versions in changed.items():
            for spelling, _ in _spellings(id, tools.pop(id, {})):
                references.pop(spelling, None)
            if (newest := self._references.get(id)) is not None:
                names.pop(newest.wire_name, None)
                names.pop(newest.short_name, None)
            if versions:
                tools[id] = versions
                references.update(_spellings(id, versions))
        # In a loop of its own: a name may go from one tool to another within one change.
        for newest in (references[id] for id in changed if id in tools):
            names[newest.wire_name] = names[newest.short_name] = newest
        self._tools, self._references, self._names, self._taken = tools, references, names, taken
        self.version += 1
        try:
            for listener in self._listeners:
                listener(change)
        except BaseException:
            # The version stays raised: a listener may have cached something under it.
            self._tools, self._references, self._names, self._taken = before
            raise

    def _newest(self, id: str, view: View) -> Tool | None:
        seen = [tool for tool in self._tools.get(id, {}).values() if view.sees(tool)]
        return max(seen, key=_version, default=None)

    def _resolve_slowly(self, reference: str, view: View, latest: bool) -> Tool:
        """Resolves what is in no dictionary: `@latest`, versions with leading zeros, and the newest version that the
        view sees where it does not see the newest of all. Raises ToolNotFound, with the reason."""
        id, _, version = reference.partition("@")
        if latest and version == "latest":
            return self.resolve(id, view)
        matched = REFERENCE(reference) if len(reference) <= LONGEST_REFERENCE else None
        if matched is None:
            raise ToolNotFound(
                f"Tool {_shown(reference)} was not found",
                developer_message=f"{_shown(reference)} is not a tool id; "
                "expected Toolkit.Tool, Toolkit.Tool@1 or Toolkit.Tool@1.2.3",
            )
        id, version = matched.groups()
        versions = {version: tool for version, tool in self._tools.get(id, {}).items() if view.sees(tool)}
        tool = versions.get(Version.parse(version) if version else max(versions, default=Version(0)))
        if tool is not None:  # written with leading zeros, or not the newest of all
            return tool
        raise ToolNotFound(
            f"Tool '{id.replace('.', '_')}' was not found",
            developer_message=_why_not(id, version, versions),
        )


def _spellings(id: str, versions: dict[Version, Tool]) -> Iterator[tuple[str, Tool]]:
    """Every way to write a reference to a tool's versions, and the version that each means."""
    if versions:
        yield id, versions[max(versions)]
    for version, tool in versions.items():
        yield f"{id}@{version}", tool
        if version.minor == version.patch == 0:
            yield f"{id}@{version.major}", tool


def _version(tool: Tool) -> Version:
    return tool.version


def _why_not(id: str, version: str | None, versions: dict[Version, Tool]) -> str:
    if not versions:
        return f"{id} is not a tool of this server"
    asked = f"{version}.0.0" if version and "." not in version else version
    return f"{id} version {asked} is not available; available: {', '.join(map(str, sorted(versions)))}"


def _shown(reference: str) -> str:
    return repr(reference if len(reference) <= 80 else reference[:77] + "...")


def _refuse_twice(there: Tool | None, tool: Tool) -> None:
    if there is not None and there is not tool:
        raise DefinitionError(
            f"{tool.reference} is defined twice, the other time at {there.code.origin.place}; "
            "give one of them another name or version",
            tool.code.origin.place,
        )


def _refuse_taken_name(there: Tool, tool: Tool, name: str) -> None:
    if there.id != tool.id:
        raise DefinitionError(
            f"{tool.id} and {there.id} ({there.code.origin.place}) have the same wire name "
            f"{name!r}; give one of them another with wire_name=…",
            tool.code.origin.place,
        )
