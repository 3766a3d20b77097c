"""What upstreams offer beside tools: prompts, resources and templates of resources.

An upstream is a stranger: each entry of its lists is held to bounds here, and one that cannot be served takes none of
the others with it. Addresses of resources stay as they are, since results and tools name them; where two upstreams list
the same one, it is that of the upstream that the settings name first.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import Struct

from ..model.asset import Asset
from ..model.definition_text import unseen_in
from ..model.json_bounds import JsonBounds
from ..model.upstream import AS_THEY_ARE, Upstream
from ..text.hidden import in_one_line
from ..wires.mcp.assets import ASSET_LISTS
from .names import served_names

MOST_TEMPLATES = 200
"""Of one upstream: an address that nobody lists is held against all of them."""
LARGEST_ENTRY = 256 * 2**10
LONGEST_OWN_NAME, LONGEST_URI = 256, 4_096
BOUNDS = JsonBounds()
MOST_FITTED = 10_000
"""Addresses of which it is remembered whose template they fit."""
MOST_NAMED = 5
"""Addresses in a line of the log."""
UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
_encode = msgspec.json.Encoder(order="sorted").encode
_expressions = re.compile(r"\{([+#./;?&]?)[^{}]*\}")
_ends_a_segment = re.compile("[/?#]").search
_begins_with_scheme = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:").match
_log = logging.getLogger("toolyard.upstream")


class UriTemplate:
    """A template of addresses (RFC 6570), as far as it can be told which addresses fit it.

    It is matched from left to right without going back, so that no template takes long with any address. What a
    template with several variables side by side might have been made from is not found out: nobody asks for that here.
    """

    def __init__(self, text: str) -> None:
        """Raises ValueError for one without a scheme of its own: it would fit what is others'."""
        self._parts: list[tuple[bool, str]] = []
        """Each expression, by whether it stays within a segment of the path, and the text after it."""
        found = list(_expressions.finditer(text))
        self._start = text[: found[0].start()] if found else text
        if not _begins_with_scheme(self._start):
            raise ValueError("it does not begin with a scheme")
        ends = [*(each.start() for each in found[1:]), len(text)]
        for expression, end in zip(found, ends, strict=False):
            self._parts.append((not expression[1], text[expression.end() : end]))

    def fits(self, uri: str) -> bool:
        if not uri.startswith(self._start):
            return False
        at, last = len(self._start), len(self._parts) - 1
        for index, (is_segment, literal) in enumerate(self._parts):
            if index < last:
                # Something stands for a variable; what other expressions make may be nothing at all.
                until = uri.find(literal, at + is_segment)
            else:
                until = len(uri) - len(literal) if uri.endswith(literal) else -1
            if until < at + is_segment or (is_segment and _ends_a_segment(uri, at, until)):
                return False
            at = until + len(literal)
        return at == len(uri)


class OfferedAsset(Struct, frozen=True):
    """A prompt, a resource or a template of an upstream, as it is listed here."""

    upstream: str
    own: str
    """The upstream's own name of the prompt, or the address."""
    definition: Mapping[str, Any]
    digest: bytes
    """Of the definition."""
    template: UriTemplate | None = None


class UpstreamAssets:
    """The prompts, resources and templates of one upstream, as it listed them last. They are in memory alone: after a
    restart they are there once the upstream is."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.listed: dict[str, dict[str, OfferedAsset]] = {method: {} for method in ASSET_LISTS}
        """By the method that lists them, and by what names them here."""
        self._pages: frozenset[str] = frozenset()
        self._rejected: dict[str, dict[str, str]] = {}
        self.troubles: dict[str, str] = {}
        """By the method: why its list could not be had, the last time."""

    @property
    def rejected(self) -> dict[str, str]:
        """What cannot be served, as `prompts/NAME` or `resources/URI`, and why; and lists that could not be had."""
        return {path: why for each in self._rejected.values() for path, why in each.items()} | self.troubles

    def take(self, method: str, entries: Sequence[Mapping[str, Any]]) -> bool:
        """Whether this list says something new. In a thread where it is long."""
        self.troubles.pop(method, None)
        rejected: dict[str, str] = {}
        made, before = dict(sorted(self._made(method, entries, rejected))), self.listed[method]
        self._rejected[method] = rejected
        self.listed[method] = made
        return _digests(made) != _digests(before)

    def take_pages(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """Notes the pages (`ui://`) that definitions of tools name: applications need not list them."""
        named = (uri for tool in tools for uri in _pages_of(tool.get("_meta")))
        self._pages = frozenset(uri for uri in named if len(uri) <= LONGEST_URI and self._is_wanted(uri))

    def has(self, uri: str) -> bool:
        """Whether it lists a resource, or one of its tools has it as a page."""
        return uri in self.listed["resources/list"] or uri in self._pages

    def fitting(self, uri: str) -> bool:
        """Whether an address fits one of its templates."""
        return self._is_wanted(uri) and any(
            each.template is not None and each.template.fits(uri)
            for each in self.listed["resources/templates/list"].values()
        )

    def _made(
        self, method: str, entries: Iterable[Mapping[str, Any]], rejected: dict[str, str]
    ) -> Iterator[tuple[str, OfferedAsset]]:
        kind, key = ASSET_LISTS[method].kind, ASSET_LISTS[method].key
        longest = LONGEST_OWN_NAME if kind == "prompts" else LONGEST_URI
        named = {name: each for each in entries if isinstance(name := each.get(key), str) and 1 <= len(name) <= longest}
        names = self._served_names(kind, named)
        for place, (own, name) in enumerate(names.items()):
            try:
                if key == "uriTemplate" and place >= MOST_TEMPLATES:
                    raise ValueError(f"an upstream may have {MOST_TEMPLATES} templates")
                yield name, self._asset(method, own, {**named[own], key: name})
            except UNREADABLE as error:
                rejected[Asset(kind, own).path] = _why(error)

    def _served_names(self, kind: str, own: Iterable[str]) -> dict[str, str]:
        """What is offered, by the upstream's own names: what the settings do not ask for is left out without a word."""
        up = self._upstream
        if kind == "resources":
            return {uri: uri for uri in own if self._is_wanted(uri)}
        wanted = [name for name in own if up.prompts is None or any(fnmatchcase(name, each) for each in up.prompts)]
        if up.names == AS_THEY_ARE:
            return {name: name for name in wanted}
        return {name: each.wire_name for name, each in served_names(up, wanted).items()}

    def _is_wanted(self, uri: str) -> bool:
        patterns = self._upstream.resources
        return patterns is None or any(fnmatchcase(uri, each) for each in patterns)

    def _asset(self, method: str, own: str, entry: Mapping[str, Any]) -> OfferedAsset:
        """Raises one of UNREADABLE."""
        encoded = _encode(entry)
        if len(encoded) > LARGEST_ENTRY:
            raise ValueError(f"its definition has {len(encoded)} bytes, of at most {LARGEST_ENTRY}")
        if (excess := BOUNDS.excess(encoded)) is not None:
            raise ValueError(f"its definition {excess.what}")
        hidden = next(unseen_in(entry), None)
        if hidden is not None:
            raise ValueError(f"its definition has a hidden character at {hidden.member}: {hidden}")
        if not isinstance(entry.get("name"), str):
            raise ValueError("it has no name")
        for member in ("title", "description"):
            if not isinstance(entry.get(member, ""), str):
                raise ValueError(f"its {member} is no text")
        template = _template(own) if "uriTemplate" in entry else None
        return OfferedAsset(self._upstream.name, own, entry, sha256(encoded).digest(), template)


class AssetDirectory:
    """What all upstreams offer beside tools, in the settings' order."""

    def __init__(self, assets: Mapping[str, UpstreamAssets]) -> None:
        """`assets` are by the names of their upstreams."""
        self._assets = assets
        self.version = 0
        """Another one each time that something in it changes."""
        self._merged: tuple[int, dict[str, list[tuple[str, Mapping[str, Any]]]]] = (-1, {})
        self._fitted: dict[str, str | None] = {}
        self._told: dict[str, frozenset[str]] = {}
        self._listeners: list[Callable[[str], None]] = []

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """`listener` is told each time that prompts change, or resources: which of the two."""
        self._listeners.append(listener)

    def changed(self, methods: Iterable[str]) -> None:
        """These lists of some upstream say something new."""
        kinds = {ASSET_LISTS[method].kind for method in methods}
        if kinds:
            self.version += 1
            self._fitted.clear()
            self._tell_of_doubles()
        for kind in sorted(kinds):
            for listener in self._listeners:
                listener(kind)

    def entries(self, method: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """A list of everything, in the order of what names each entry."""
        version, merged = self._merged
        if version != self.version:
            merged = {}
            self._merged = (self.version, merged)
        if method not in merged:
            found: dict[str, Mapping[str, Any]] = {}
            for each in self._assets.values():
                found = {key: asset.definition for key, asset in each.listed[method].items()} | found
            merged[method] = sorted(found.items())
        return merged[method]

    def offered(self, method: str, key: str) -> OfferedAsset | None:
        """The one that is listed by this name or address."""
        found = (each.listed[method].get(key) for each in self._assets.values())
        return next((asset for asset in found if asset is not None), None)

    def place_of(self, uri: str) -> str | None:
        """The upstream that lists a resource, or has it as a page of one of its tools."""
        return next((name for name, each in self._assets.items() if each.has(uri)), None)

    def fitting(self, uri: str) -> str | None:
        """The first upstream that has a template which an address fits."""
        if len(uri) > LONGEST_URI:
            return None
        if uri not in self._fitted:
            if len(self._fitted) >= MOST_FITTED:
                self._fitted.clear()
            self._fitted[uri] = next((name for name, each in self._assets.items() if each.fitting(uri)), None)
        return self._fitted[uri]

    def doubles(self, upstream: str) -> dict[str, str]:
        """What an upstream lists and others have, by `prompts/NAME` or `resources/URI`, with why it is not served."""
        before = list(takewhile(lambda name: name != upstream, self._assets))
        found: dict[str, str] = {}
        for method, listed in self._assets[upstream].listed.items():
            for name in before:
                for key in listed.keys() & self._assets[name].listed[method].keys():
                    path = Asset(ASSET_LISTS[method].kind, key).path
                    found.setdefault(path, f"{name} has it, too, and stands first in the settings")
        return found

    def _tell_of_doubles(self) -> None:
        """In the log, each time that there are others."""
        for name in self._assets:
            doubles = frozenset(self.doubles(name))
            if doubles - self._told.get(name, frozenset()):
                named = ", ".join(in_one_line(each) for each in sorted(doubles)[:MOST_NAMED])
                more = f" and {len(doubles) - MOST_NAMED} more" if len(doubles) > MOST_NAMED else ""
                _log.warning("%s lists what upstreams before it in the settings have: %s%s", name, named, more)
            self._told[name] = doubles


def _pages_of(meta: Any) -> Iterator[str]:
    """As applications over MCP name them in a tool's `_meta`, now and in the beginning."""
    if isinstance(meta, Mapping):
        ui = meta.get("ui")
        for uri in (ui.get("resourceUri") if isinstance(ui, Mapping) else None, meta.get("ui/resourceUri")):
            if isinstance(uri, str) and uri.startswith("ui://"):
                yield uri


def _digests(listed: Mapping[str, OfferedAsset]) -> dict[str, bytes]:
    return {key: each.digest for key, each in listed.items()}


def _template(text: str) -> UriTemplate | None:
    """None for one that is listed, and by which no address is known to be this upstream's."""
    try:
        return UriTemplate(text)
    except ValueError:
        return None


def _why(error: BaseException) -> str:
    return "its definition is nested too deeply" if isinstance(error, RecursionError) else str(error)[:500]
