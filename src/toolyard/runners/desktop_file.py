"""The file in which desktop clients keep their MCP servers, read as upstreams: `{"mcpServers": {"name": …}}`, or
`servers`, as VS Code calls them.

Every client has members of its own in it. What decides how a server is reached is read as its client reads it, and what
cannot be kept to is refused; what is for the client's windows is passed over. Whatever is wrong is said in one sentence
with the file and the server's name, and never with a value: some are secrets.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..model.errors import SetupError, SourcePlace
from ..model.upstream import LONGEST_NAME, Upstream, refuse_alike

SUFFIX = ".json"
SERVERS = ("mcpServers", "servers")
"""What the servers are called: by VS Code the latter, by others the former."""
ADDRESSES = ("url", "httpUrl", "serverUrl")
"""What the address is called: by most clients, by Gemini CLI, and by Windsurf."""
STDIO, HTTP = frozenset({"stdio", "local"}), frozenset({"http", "streamable-http", "streamablehttp", "remote"})
"""Words for the two ways of reaching a server."""
EXCLUDED = ("disabledTools", "excludeTools")
UNREAD = {"timeout": "timeout_s", "oauth": "auth", "auth": "auth", "headersHelper": "auth"}
"""Members that change how a server is reached or called, and what `[[upstreams]]` has in their place."""
_HASH_LENGTH = 8
_strange = re.compile(r"[^A-Za-z0-9_]").sub
_variable = re.compile(r"\$\{([^{}]*)\}")
_named = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL).fullmatch
_line = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)").fullmatch
_string_or_comment = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_string_or_last_comma = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
Say = Callable[[str], None]


class _Wrong(ValueError):
    """What is wrong with a server, in words that follow its name."""


def is_desktop_file(target: str) -> bool:
    """Whether a target may be such a file."""
    return target.partition(":")[0].endswith(SUFFIX)


def has_servers(path: Path) -> bool:
    """Whether this is such a file, and not some other JSON; False where it cannot be read."""
    try:
        return _servers_in(_read(path)) is not None
    except SetupError:
        return False


def upstreams_in(path: Path, only: str, say: Say, environment: Mapping[str, str] = os.environ) -> list[Upstream]:
    """The servers of a file, or the one that is called `only`. `say` is told what is left out. Raises SetupError."""
    document, place = _read(path), SourcePlace(str(path))
    servers = _servers_in(document)
    if servers is None:
        raise SetupError("has no servers; a desktop client's file has mcpServers, or servers", place)
    if only and only not in servers:
        raise SetupError(f"has no server {only!r}; it has {', '.join(servers) or 'none'}", place)
    made: list[Upstream] = []
    for name, entry in servers.items():
        if only in ("", name):
            try:
                made += _DesktopServer(name, entry, path, environment).upstreams(lambda text: say(f"{path}: {text}"))
            except ValueError as error:
                raise SetupError(f"{name}: {error}", place) from None
    try:
        refuse_alike(tuple(made))
    except ValueError as error:
        raise SetupError(str(error), place) from None
    return made


def upstream_name(name: str) -> str:
    """A server's name as an upstream may be called, whatever else is in the file: `brave-search` is `brave_search`."""
    made = _strange("_", name).strip("_")
    if made and len(made) <= LONGEST_NAME:
        return made
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{made[: LONGEST_NAME - _HASH_LENGTH - 1] or 'server'}_{digest}"


class _DesktopServer:
    """One server of a file."""

    def __init__(self, name: str, entry: Any, path: Path, environment: Mapping[str, str]) -> None:
        """Raises ValueError."""
        if not isinstance(entry, dict):
            raise _Wrong("is no object")
        self._name, self._entry, self._path, self._environment = name, entry, path, environment

    def upstreams(self, say: Say) -> list[Upstream]:
        """One, or none where it is not to be served. Raises ValueError."""
        entry, name = self._entry, self._name
        if entry.get("disabled") is True or entry.get("enabled") is False:
            say(f"{name} is left out: it is disabled")
            return []
        if self._starts_this_file():
            say(f"{name} is left out: it serves this very file")
            return []
        if unread := [member for member in UNREAD if member in entry]:
            instead = ", ".join(dict.fromkeys(UNREAD[member] for member in unread))
            say(f"{name}: {', '.join(unread)} is not read; [[upstreams]] has {instead} for that")
        for member in EXCLUDED:
            if entry.get(member):
                raise _Wrong(f"has {member}, which cannot be kept to; name the tools to offer in [[upstreams]]")
        common: dict[str, Any] = {"name": upstream_name(name)}
        if included := self._texts("includeTools"):
            common["tools"] = tuple(included)
        return [self._at_address(common) if self._is_remote() else self._program(common)]

    def _is_remote(self) -> bool:
        kind = self._entry.get("type", self._entry.get("transport"))
        addresses = [member for member in ADDRESSES if member in self._entry]
        if isinstance(kind, str):
            if kind.lower() in STDIO | HTTP:
                return kind.lower() in HTTP
            hint = "; MCP has replaced it: look for the server's http address" if kind.lower() == "sse" else ""
            raise _Wrong(f"has the type {kind[:40]!r}, which cannot be served{hint}")
        if bool(addresses) == ("command" in self._entry):
            raise _Wrong("must have either a command or a url")
        return bool(addresses)

    def _at_address(self, common: dict[str, Any]) -> Upstream:
        member = next((each for each in ADDRESSES if each in self._entry), "url")
        headers = {name: self._filled(value) for name, value in self._object("headers").items()}
        return Upstream(**common, mcp=self._filled(self._text(member)), headers=headers)

    def _program(self, common: dict[str, Any]) -> Upstream:
        command = [self._text("command"), *self._texts("args")]
        env = {name: self._filled(value) for name, value in self._object("env").items()}
        cwd = self._filled(self._text("cwd")) if "cwd" in self._entry else None
        return Upstream(
            **common,
            command=tuple(map(self._filled, command)),
            env={**self._env_file(), **env},
            cwd=None if cwd is None else str(self._at(cwd)),
        )

    def _starts_this_file(self) -> bool:
        """Whether it is `toolyard serve` or `toolyard stdio` of the file that it stands in: each would start the next
        one."""
        arguments = self._entry.get("args")
        words = arguments if isinstance(arguments, list) else []
        return any(isinstance(each, str) and each.endswith(SUFFIX) and self._is_this(each) for each in words)

    def _is_this(self, word: str) -> bool:
        try:
            return os.path.samefile(word, self._path)
        except (OSError, ValueError):
            return False

    # -- members -------------------------------------------------------------------------------------

    def _text(self, member: str) -> str:
        value = self._entry.get(member)
        if not isinstance(value, str) or not value:
            raise _Wrong(f"must have {member}, as text")
        return value

    def _texts(self, member: str) -> list[str]:
        value = self._entry.get(member) or []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise _Wrong(f"must have {member} as a list of texts")
        return value

    def _object(self, member: str) -> dict[str, str]:
        """Numbers and switches are taken as the text that they would be in an environment."""
        value = self._entry.get(member) or {}
        if not isinstance(value, dict):
            raise _Wrong(f"must have {member} as an object")
        found: dict[str, str] = {}
        for name, each in value.items():
            if isinstance(each, dict | list | None):
                raise _Wrong(f"must have {member}.{name} as text")
            found[name] = each if isinstance(each, str) else json.dumps(each)
        return found

    def _env_file(self) -> dict[str, str]:
        """The variables of the file that `envFile` names."""
        if "envFile" not in self._entry:
            return {}
        path = self._at(self._filled(self._text("envFile")))
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise _Wrong(f"has the envFile {path}, which cannot be read") from None
        found = {}
        for line in map(str.strip, lines):
            if not line or line.startswith("#"):
                continue
            matched = _line(line)
            if matched is None:
                raise _Wrong(f"has the envFile {path}, in which a line is not NAME=value")
            found[matched[1]] = _unquoted(matched[2])
        return found

    # -- variables -----------------------------------------------------------------------------------

    def _at(self, path: str) -> Path:
        """A path in the file, which is relative to its workspace."""
        return self._workspace() / Path(path).expanduser()

    def _filled(self, text: str) -> str:
        """A text with the variables in it. Raises ValueError."""
        return _variable.sub(lambda found: self._value(found[1]), text)

    def _value(self, expression: str) -> str:
        if expression.startswith("input:"):
            secret = upstream_name(expression.removeprefix("input:")).upper()
            raise _Wrong(
                f"asks for ${{{expression}}}, and nobody is there to type it in; keep it with toolyard secrets set "
                f'{secret}, and name it in [[upstreams]]: {{ secret = "{secret}" }}'
            )
        if expression == "userHome":
            return str(Path.home())
        if expression in ("/", "pathSeparator"):
            return os.sep
        if expression == "workspaceFolder":
            return str(self._workspace())
        if expression == "workspaceFolderBasename":
            return self._workspace().name
        named = _named(expression)
        if named is None:
            raise _Wrong(f"has ${{{expression[:80]}}}, which is known to no environment")
        found = self._environment.get(named[1]) or named[2]
        if found is None:
            raise _Wrong(f"needs the variable {named[1]}, which is not set")
        return found

    def _workspace(self) -> Path:
        """The folder that the file belongs to: that of `.vscode`, `.cursor` and the like is the one around it."""
        folder = self._path.resolve().parent
        return folder.parent if folder.name.startswith(".") else folder


def _read(path: Path) -> Any:
    """The document, with or without comments. Raises SetupError."""
    place = SourcePlace(str(path))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SetupError(f"cannot be read: {error.strerror}", place) from None
    except UnicodeDecodeError:
        raise SetupError("is not UTF-8", place) from None
    try:
        try:
            return json.loads(text)
        except ValueError:
            bare = _string_or_comment.sub(lambda found: found[1] or "\n" * found[0].count("\n"), text)
            return json.loads(_string_or_last_comma.sub(lambda found: found[1] or "", bare))
    except json.JSONDecodeError as error:
        raise SetupError(f"is not JSON: {error.msg}", SourcePlace(str(path), error.lineno)) from None
    except RecursionError:
        raise SetupError("is nested too deeply", place) from None


def _servers_in(document: Any) -> dict[str, Any] | None:
    for member in SERVERS if isinstance(document, dict) else ():
        if isinstance(servers := document.get(member), dict):
            return servers
    return None


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value.partition(" #")[0].rstrip()
