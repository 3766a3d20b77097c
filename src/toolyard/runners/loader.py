"""Loads an author's file or module and finds what it offers.

A target is `file.py`, `package.module`, either with `:name`, or the name of an installed package whose metadata says
where its tools are (entry points of the group `toolyard.tools`); or a desktop client's file of servers, `mcp.json`.
Whatever goes wrong is said in one sentence with the author's file and line; the traceback stays behind it for
`--debug`.
"""

import importlib
import importlib.util
import logging
import re
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from typing import Any

from ..model.errors import DefinitionError, SetupError, SourcePlace
from ..model.raised import text_of
from ..model.run import Source, each_once
from ..model.tool import Host, Tool
from ..model.upstream import Upstream
from .desktop_file import is_desktop_file, upstreams_in

ENTRY_POINTS = "toolyard.tools"
"""The group of entry points by which a package says where its tools are: `shop = "shop.tools:toolkit"`."""
_log = logging.getLogger("toolyard.loading")


def sources_of(targets: Iterable[str]) -> list[Source]:
    """What is at these files and modules, and a word about what is left out. Raises SetupError."""
    return [source for target in targets for source in load(target, _log.warning)]


def load(target: str, say: Callable[[str], None] = lambda sentence: None) -> list[Source]:
    """The sources at a target: its app, or else its toolkits; with `:name`, that one. What an installed package says
    of itself comes before a module of the same name."""
    if is_package_name(target) and (named := entry_points_of(target)):
        return [source for entry in named for source in _entry(target, entry, say)]
    path, _, name = target.partition(":")
    if is_desktop_file(path):
        return [UpstreamSource(upstreams_in(Path(path), name, say))]
    is_file = is_file_name(path)
    module = _load_file(Path(path)) if is_file else _load_module(path)
    return _sources(module, path, name, say, is_file=is_file)


def is_file_name(path: str) -> bool:
    """Whether a target's path is that of a file, and not of a module."""
    return path.endswith(".py") or is_desktop_file(path) or "/" in path


def is_package_name(target: str) -> bool:
    """Whether a target may be the name of an installed package. Names with dots are left to modules: to look for
    packages takes time, which every start would pay."""
    return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", target))


def entry_points_of(package: str) -> list[EntryPoint]:
    """Where an installed package says that its tools are; nothing where it says nothing, or is not installed."""
    try:
        return list(distribution(package).entry_points.select(group=ENTRY_POINTS))
    except PackageNotFoundError:
        return []


class UpstreamSource:
    """Upstreams without tools of our own beside them: what a desktop client's file offers."""

    def __init__(self, upstreams: Iterable[Upstream]) -> None:
        self.host = Host()
        self.upstreams = tuple(upstreams)

    @property
    def inner(self) -> tuple[()]:
        """No app is inside."""
        return ()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """None: its tools are known once somebody has asked the upstreams."""
        return ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """There is nothing to share."""
        yield None

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """It never changes."""
        return lambda: None


def _entry(package: str, entry: EntryPoint, say: Callable[[str], None]) -> list[Source]:
    path, _, name = entry.value.partition(":")
    try:
        return _sources(_imported(path), path, name, say)
    except DefinitionError:
        raise
    except SetupError as error:
        sentence = f"{package} says in its entry points that its tools are at {entry.value}, and {error.message}"
        raise SetupError(sentence) from error


def _sources(
    module: ModuleType, path: str, name: str, say: Callable[[str], None], *, is_file: bool = False
) -> list[Source]:
    sources = each_once([_named(module, path, name)] if name else _found(module, path, say))
    for source in sources:
        source.host.target = f"{Path(path).resolve() if is_file else path}{':' if name else ''}{name}"
    return sources


def _named(module: ModuleType, path: str, name: str) -> Source:
    """A toolkit of an app is served with what the app has for it: its lifespan, its hooks."""
    source = vars(module).get(name)
    if isinstance(source, Source):
        apps: list[Any] = [app for app in each_once(_apps(module).values()) if source in _toolkits(app)]
        if len(apps) > 1:
            raise DefinitionError(
                f"{name!r} is in several apps; choose one: {_choice(_apps(module), path)}", SourcePlace(path)
            )
        return next((app.only(source) for app in apps), source)
    there = [n for n, value in vars(module).items() if isinstance(value, Source)]
    hint = f"it has {', '.join(there)}" if there else "it has none"
    raise DefinitionError(f"{name!r} is not a Toolkit or an App of {path}; {hint}", SourcePlace(path))


def _apps(module: ModuleType) -> dict[str, Any]:
    """By name. They are told from toolkits by what only they have: this layer knows neither."""
    return {name: value for name, value in vars(module).items() if isinstance(value, Source) and hasattr(value, "only")}


def _toolkits(source: Any) -> list[Source]:
    """Those of an app; of anything else none."""
    return list(source.toolkits) if hasattr(source, "toolkits") else []


def _choice(apps: Iterable[str], path: str) -> str:
    first, second, *_ = apps
    return f"{path}:{first} or {path}:{second}"


def _found(module: ModuleType, path: str, say: Callable[[str], None]) -> list[Source]:
    """An app stands for its toolkits, so where there is one, the toolkits beside it are not served twice. One that is
    not in it may be left out on purpose, but not without a word."""
    named = {name: value for name, value in vars(module).items() if isinstance(value, Source)}
    unique = {id(value): value for value in named.values()}
    inside = {id(each) for app in _apps(module).values() for each in each_once(app.inner)}
    outer = {name: app for name, app in _apps(module).items() if id(app) not in inside}
    apps = list({id(app): app for app in outer.values()}.values())
    if len(apps) > 1:
        raise DefinitionError(f"has several apps; choose one: {_choice(outer, path)}", SourcePlace(path))
    served = {id(each) for app in each_once(apps) for each in (app, *_toolkits(app))}
    for name, value in named.items() if apps else ():
        if id(value) not in served and value.tools:
            say(f"{path}: {name} is not served: it is not in the app; write App(…, {name}), or serve {path}:{name} too")
    if not unique and is_installed(path):
        raise SetupError(_without_tools(path))
    if not unique:
        raise DefinitionError(
            'has no tools; write: from toolyard import Toolkit, then kit = Toolkit("Name") and @kit.tool',
            SourcePlace(path),
        )
    return apps or list(unique.values())


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise SetupError(f"{path} does not exist" if not path.exists() else f"{path} is not a file")
    full = path.resolve()
    known = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == str(full)), None)
    if known is not None and known.__name__ != "__main__":
        return known
    if str(full.parent) not in sys.path:
        sys.path.insert(0, str(full.parent))
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_{sha256(str(full).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise SetupError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name, None)
        raise _explained(error, str(path)) from error
    return module


def _load_module(name: str) -> ModuleType:
    if not name or name.startswith("."):
        raise SetupError(f"{name!r} is neither a file nor a module; write tools.py or package.module")
    if Path(name).is_file():
        raise SetupError(f"{name} is not a Python file")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return _imported(name)
    except DefinitionError:
        raise
    except SetupError as error:
        raise SetupError(_without_tools(name)) if is_installed(name) else error from error


def is_installed(package: str) -> bool:
    """Whether there is an installed package of that name, with tools or without."""
    try:
        return is_package_name(package) and distribution(package) is not None
    except PackageNotFoundError:
        return False


def _without_tools(package: str) -> str:
    module = re.sub("[^a-z0-9]+", "_", package.lower())
    return (
        f"{package} is installed and does not say where its tools are; write in its pyproject.toml: "
        f'[project.entry-points."{ENTRY_POINTS}"] and below it {module} = "{module}.tools:toolkit", '
        "and install it again"
    )


def _imported(name: str) -> ModuleType:
    """The module of that name, with what goes wrong in it explained. Raises SetupError where there is none."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise SetupError(f"there is no module {name!r} (for a file, write {name}.py)") from error
        raise _explained(error, name) from error
    except BaseException as error:
        raise _explained(error, name) from error
    if module.__file__ is None:
        raise SetupError(f"{name} is a folder; name a file in it, such as {name.replace('.', '/')}/tools.py")
    return module


def _explained(error: BaseException, shown: str) -> BaseException:
    """What an author's file raised, as one sentence with its line."""
    if isinstance(error, SetupError | KeyboardInterrupt):
        return error
    if isinstance(error, SyntaxError):
        return DefinitionError(f"syntax error: {error.msg}", SourcePlace(error.filename or shown, error.lineno or None))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_authors(frame.filename)]
    place = SourcePlace(frames[-1].filename, frames[-1].lineno) if frames else SourcePlace(shown)
    text = " ".join(text_of(error).split()) or "no message"
    return DefinitionError(f"cannot be loaded, it raised {type(error).__name__}: {text}", place)


def _is_authors(file: str) -> bool:
    """Neither Python's, nor ours, nor an installed library's: a line the author can change."""
    return "-packages" not in file and not file.startswith((_PYTHONS, _OURS, "<"))


_PYTHONS, _OURS = str(Path(traceback.__file__).parent), str(Path(__file__).parents[1])
