"""The desktop clients that `toolyard install` knows: where each keeps its MCP servers, and in which format."""

import os
import sys
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ...model.errors import SetupError
from . import json_edit, toml_edit

DesktopName = Literal["claude", "claude-code", "cursor", "vscode", "codex"]
Servers = dict[str, Any]
HIDDEN = "…"
"""Stands for the value of a variable, wherever it is shown."""


class ConfigFormat(Protocol):
    """How a configuration file is written: JSON or TOML. A change leaves every other character where it is."""

    def read(self, text: str) -> dict[str, Any]:
        """Raises ValueError, and HasComments for what a program cannot change without loss."""
        ...

    def put(self, text: str, key: str, name: str, entry: Servers) -> str: ...

    def take_out(self, text: str, key: str, name: str) -> str: ...

    def snippet(self, key: str, name: str, entry: Servers) -> str: ...


class Unusable(Exception):
    """A configuration file that toolyard cannot change. `snippet` is what a person can put into it instead."""

    def __init__(self, reason: str, snippet: str = "") -> None:
        super().__init__(reason)
        self.snippet = snippet


class McpServer(Struct, frozen=True):
    """What a client is to use: a command that it starts, with variables for its environment, or an address."""

    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""

    def is_entry(self, entry: Servers) -> bool:
        """Whether an entry of a client's file is for the same: whatever starts a toolyard, or this address."""
        if self.url and "url" in entry:
            return bool(entry["url"] == self.url)
        words = [str(entry.get("command")), *(entry.get("args") or ())]
        return "stdio" in words and ("toolyard" in words or Path(words[0]).stem == "toolyard")


class Desktop(Struct, frozen=True):
    """A desktop client and its configuration file. `key` is the member that has its servers; `parts` leads from the
    platform's settings folder, or from the home folder, to the file; `folder_variable` is an environment variable that
    names the file's folder; `project_file` is the file of a project, in its folder, for clients that have one.
    `command_type` and `url_type` are what an entry's `type` has to be, if anything; where `url_type` is None, the file
    takes no addresses."""

    title: str
    key: str
    parts: tuple[str, ...]
    form: ConfigFormat
    is_in_home: bool = False
    folder_variable: str = ""
    project_file: str = ""
    command_type: str = ""
    url_type: str | None = ""

    def path(self) -> Path:
        if self.folder_variable and (folder := os.environ.get(self.folder_variable)):
            return Path(folder) / self.parts[-1]
        return (_home() if self.is_in_home else _settings_folder()).joinpath(*self.parts)

    def with_server(self, text: str, name: str, server: McpServer) -> str:
        """The file's text with the server in it. What somebody added to our entry stays there. Raises Unusable."""
        snippet = self.form.snippet(self.key, name, self._entry(_without_values(server)))
        document = self._read(text, snippet)
        servers = self._servers(document)
        merged = _merged(_ours(name, servers.get(name), server), self._entry(server))
        if servers.get(name) == merged:
            return text
        changed = self.form.put(text, self.key, name, merged)
        return self._checked(changed, {**document, self.key: {**servers, name: merged}}, snippet)

    def without_server(self, text: str, name: str, server: McpServer) -> str:
        """The file's text without the server. Raises Unusable."""
        document = self._read(text, "")
        servers = self._servers(document)
        if name not in servers:
            return text
        _ours(name, servers[name], server)
        others = {other: entry for other, entry in servers.items() if other != name}
        return self._checked(self.form.take_out(text, self.key, name), {**document, self.key: others}, "")

    def variables(self, text: str, name: str) -> set[str]:
        """Which variables the entry of that name sets, as far as the file can be read."""
        try:
            entry = self._servers(self.form.read(text)).get(name)
        except (ValueError, Unusable):
            return set()
        env = entry.get("env") if isinstance(entry, dict) else None
        return set(env) if isinstance(env, dict) else set()

    def _entry(self, server: McpServer) -> Servers:
        """Raises Unusable for an address, where the client's file takes none."""
        if not server.url:
            kind = {"type": self.command_type} if self.command_type else {}
            env = {"env": server.env} if server.env else {}
            return {**kind, "command": server.command[0], "args": list(server.command[1:]), **env}
        if self.url_type is None:
            raise Unusable(
                f"takes no addresses: add {server.url} in {self.title} itself, under Settings, Connectors; "
                "or name the tools, which it then starts"
            )
        return {"type": self.url_type, "url": server.url} if self.url_type else {"url": server.url}

    def _read(self, text: str, snippet: str) -> dict[str, Any]:
        try:
            return self.form.read(text)
        except json_edit.HasComments:
            raise Unusable("has comments, or commas at the end, which a program would lose", snippet) from None
        except ValueError as error:
            raise Unusable(f"cannot be read: {error}") from None

    def _servers(self, document: dict[str, Any]) -> Servers:
        servers = document.get(self.key, {})
        if not isinstance(servers, dict):
            raise Unusable(f"has a {self.key!r} that holds no servers")
        return servers

    def _checked(self, text: str, wanted: dict[str, Any], snippet: str) -> str:
        """The changed text, if only our entry has changed when it is read again. Raises Unusable."""
        try:
            is_good = _without_nothing(self.form.read(text), self.key) == _without_nothing(wanted, self.key)
        except ValueError:
            is_good = False
        if not is_good:
            raise Unusable("is written in a way that toolyard cannot change", snippet)
        return text


def _ours(name: str, entry: Any, server: McpServer) -> Servers:
    """The entry of that name, if it is one that toolyard wrote. Raises Unusable for another program's."""
    if entry is None:
        return {}
    if isinstance(entry, dict) and server.is_entry(entry):
        return dict(entry)
    raise Unusable(f"has another server called {name!r}; choose a --name")


def _merged(there: Servers, ours: Servers) -> Servers:
    """Our entry with what somebody added to it, variables included. How the server is reached is ours alone: a command
    beside an address would be neither."""
    kept = {member: value for member, value in there.items() if member in ours or member not in _REACHED}
    env = {**there.get("env", {}), **ours["env"]} if "env" in ours else None
    return {**kept, **ours} if env is None else {**kept, **ours, "env": env}


_REACHED = ("type", "command", "args", "url")


def _without_values(server: McpServer) -> McpServer:
    """The same to be shown to people: a variable may be a secret."""
    return replace(server, env=dict.fromkeys(server.env, HIDDEN))


def _without_nothing(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key or value}


def _home() -> Path:
    """The home folder. Raises SetupError where HOME is not set: a guess could change somebody else's files."""
    if sys.platform != "win32" and not os.environ.get("HOME"):
        raise SetupError("HOME is not set, so it is not known whose configuration to change; set it, or use --config")
    return Path.home()


def _settings_folder() -> Path:
    """The folder in which programs of this platform keep their settings."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or _home() / "AppData" / "Roaming")
    if sys.platform == "darwin":
        return _home() / "Library" / "Application Support"
    return Path(os.environ.get("XDG_CONFIG_HOME") or _home() / ".config")


CLIENTS: dict[DesktopName, Desktop] = {
    "claude": Desktop("Claude", "mcpServers", ("Claude", "claude_desktop_config.json"), json_edit, url_type=None),
    "claude-code": Desktop(
        "Claude Code", "mcpServers", (".claude.json",), json_edit,
        is_in_home=True, folder_variable="CLAUDE_CONFIG_DIR", project_file=".mcp.json",
        command_type="stdio", url_type="http",
    ),
    "cursor": Desktop("Cursor", "mcpServers", (".cursor", "mcp.json"), json_edit, is_in_home=True),
    "vscode": Desktop(
        "VS Code", "servers", ("Code", "User", "mcp.json"), json_edit, command_type="stdio", url_type="http"
    ),
    "codex": Desktop(
        "Codex", "mcp_servers", (".codex", "config.toml"), toml_edit, is_in_home=True, folder_variable="CODEX_HOME"
    ),
}  # fmt: skip
