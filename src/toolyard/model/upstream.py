"""Another server whose tools are served here as if they were our own: an upstream.

`Upstream` is what an operator or an author writes down about one, whether in `[[upstreams]]`, in a desktop client's
JSON file, or in Python. It is complete and checked when it is made; nothing has been connected to by then.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..text.addresses import host_of, is_safe
from .sealed import secret_name
from .tool import NAME

AS_THEY_ARE = "as they are"
Names = Literal["prefixed", "as they are"]
LONGEST_NAME = 48
DEFAULT_TIMEOUT_S = 60.0
DEFAULT_CONCURRENCY = 64
INHERITED = ("PATH", "HOME", "USER", "LANG", "TMPDIR")
"""What a program that we start has of our own environment, beside what is named for it."""
OURS = frozenset(
    {"host", "content-length", "content-type", "accept", "accept-encoding", "connection", "transfer-encoding"}
)
"""Headers that the protocol sets: nobody else does."""
AUTHORIZATION = "authorization"
CREDENTIALS = frozenset({AUTHORIZATION, "cookie"})
"""Headers that are secrets, though a file may have them as plain text. Like a secret that is kept here, they go over
TLS, or stay on this machine."""
_header = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}").fullmatch
_value = re.compile(r"[\x20-\x7e\t]{0,8192}").fullmatch
_variable = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}").fullmatch
_names_a_secret = re.compile(
    r"key|token|secret|passw|passphrase|(^|_)pass($|_)|pwd|auth(?!ors?($|_))|cred|cookie|dsn", re.IGNORECASE
).search
_looks_like_a_secret = re.compile(r"[A-Za-z0-9]{24}|://[^/@]*:[^/@]+@").search
"""Long and without a word in it, or an address with a password."""


class SecretName(Struct, frozen=True):
    """The name of a secret that this server keeps (`toolyard secrets set NAME`), in the place of the secret itself."""

    secret: str

    def __post_init__(self) -> None:
        secret_name(self.secret)


Given = str | SecretName
"""A text, or the name of the secret that is to stand there."""


class Upstream(Struct, frozen=True, forbid_unknown_fields=True):
    """An MCP server whose tools this server offers, each as `Name.tool`.

    Args:
        name: What its tools are prefixed with: letters, digits and underscores.
        mcp: Its address, for a server that is reached over HTTP.
        command: The program and its arguments, for one that is started here and spoken to over its standard input and
            output.
        env: Variables of the program's environment, beside a few of our own. A value may name a secret:
            `{"TOKEN": SecretName("HUB_TOKEN")}`.
        cwd: The folder that the program is started in.
        tools: The upstream's own names of the tools to offer, with `*` where anything may stand. Left out: all.
        auth: The secret that is sent as a bearer token with each request.
        headers: Other headers of each request. A value may name a secret. Without `auth`, `Authorization` may be here.
        timeout_s: How long a call may take without a sign of life.
        concurrency: How many calls of it run at once; others wait.
        trusted: Whether what it says of its tools (read-only, idempotent, destructive) is believed.
        names: `"as they are"` offers its tools and prompts under their own names, without a prefix.
        prompts: The upstream's own names of the prompts to offer, as `tools`. Left out: all.
        resources: The addresses of the resources to offer, with `*` where anything may stand. Left out: all.

    Raises:
        ValueError: Something of it cannot be.

    >>> Upstream("Hub", mcp="https://api.example.com/mcp").kind
    'http'
    """

    name: str
    mcp: str | None = None
    command: tuple[str, ...] = ()
    env: Mapping[str, Given] = {}
    cwd: str | None = None
    tools: tuple[str, ...] | None = None
    auth: SecretName | None = None
    headers: Mapping[str, Given] = {}
    timeout_s: float = DEFAULT_TIMEOUT_S
    concurrency: int = DEFAULT_CONCURRENCY
    trusted: bool = False
    names: Names = "prefixed"
    prompts: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not NAME(self.name) or len(self.name) > LONGEST_NAME:
            raise ValueError(f"name must have 1 to {LONGEST_NAME} letters, digits or underscores, got {self.name!r}")
        if (self.mcp is None) == (not self.command):
            raise ValueError("it must have either mcp, an address, or command, a program to start")
        if self.mcp is not None:
            self._check_address(self.mcp)
        else:
            self._check_program()
        if not 0 < self.timeout_s <= 86400:
            raise ValueError(f"timeout_s must be more than 0 and at most 86400 seconds, got {self.timeout_s!r}")
        if not 1 <= self.concurrency <= 10_000:
            raise ValueError(f"concurrency must be 1 to 10000, got {self.concurrency!r}")

    def _check_address(self, url: str) -> None:
        if not url.startswith(("http://", "https://")) or not host_of(url) or "#" in url or "@" in url.split("/")[2]:
            raise ValueError(f"mcp must be an http or https address without credentials in it, got {_shown(url)!r}")
        if self.env or self.cwd is not None:
            raise ValueError("env and cwd are for a command; a server at an address has headers and auth")
        if (self.auth is not None or any(_is_secret(*each) for each in self.headers.items())) and not is_safe(url):
            raise ValueError(f"a secret is sent only over https, or to this machine; {_shown(url)} is neither")
        self._check_headers()

    def _check_headers(self) -> None:
        if self.auth is not None and any(name.lower() == AUTHORIZATION for name in self.headers):
            raise ValueError("auth is what Authorization is made from; leave one of them out")
        for name, value in self.headers.items():
            if not _header(name) or name.lower() in OURS or name.lower().startswith(("mcp-", "sec-")):
                raise ValueError(f"headers: {name!r} cannot be set here")
            if isinstance(value, str) and not _value(value):
                raise ValueError(f"headers: the value of {name} must be plain text on one line")

    def _check_program(self) -> None:
        if self.auth is not None or self.headers:
            raise ValueError("auth and headers are for a server at an address; a command has env")
        if any(not isinstance(part, str) or "\0" in part for part in self.command) or not self.command[0]:
            raise ValueError("command must be a list of texts: the program and its arguments")
        for name, value in self.env.items():
            if not _variable(name) or (isinstance(value, str) and "\0" in value):
                raise ValueError(f"env: {name!r} cannot be a variable with that value")

    @property
    def kind(self) -> Literal["http", "stdio"]:
        """How it is reached: at an address, or as a program over its standard input and output."""
        return "stdio" if self.mcp is None else "http"

    @property
    def place(self) -> str:
        """Where it is, in words for people. Queries and arguments are left out: some are secrets."""
        if self.mcp is not None:
            return _shown(self.mcp)
        return self.command[0] if len(self.command) == 1 else f"{self.command[0]} …"

    def __repr__(self) -> str:
        """Without values of variables and headers, which may be secrets."""
        return f"Upstream({self.name!r}, {self.place!r})"

    @property
    def address(self) -> str:
        """A digest of where it is: definitions that were kept of another address are not this one's."""
        where: list[Any] = [self.mcp, list(self.command), self.cwd]
        return sha256(msgspec.json.encode(where)).hexdigest()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of all secrets that it is given."""
        given = (self.auth, *self.headers.values(), *self.env.values())
        return tuple(dict.fromkeys(each.secret for each in given if isinstance(each, SecretName)))

    @property
    def written_values(self) -> dict[str, str]:
        """By their names, the values of variables and headers that stand here themselves and are taken for secrets. Of
        `Bearer …` it is the token. (Others are words that results may have, too, and are left in them.)"""
        given = {**self.env, **self.headers}
        return {
            name: value.removeprefix("Bearer ")
            for name, value in given.items()
            if isinstance(value, str) and (_names_a_secret(name) or _looks_like_a_secret(value))
        }


def _is_secret(header: str, value: Given) -> bool:
    return isinstance(value, SecretName) or header.lower() in CREDENTIALS


def _shown(url: str) -> str:
    """An address without what may be a secret: a password before its host, a key in its query."""
    address, mark, _ = url.partition("?")
    _, at, host = address.rpartition("@")
    return (f"…@{host}" if at else address) + ("?…" if mark else "")


def each_upstream_once(upstreams: Iterable[Upstream]) -> tuple[Upstream, ...]:
    """Without those that are the same in everything: several apps may name one."""
    found: list[Upstream] = []
    for each in upstreams:
        if each not in found:
            found.append(each)
    return tuple(found)


def refuse_alike(upstreams: tuple[Upstream, ...]) -> None:
    """Raises ValueError for names that could become one: two that differ in capitals alone, or `A` beside `A_B`, whose
    tools `A.B_x` and `A_B.x` would have the same name on the wires. What a name stands for must not depend on which of
    two servers answered first."""
    for index, one in enumerate(upstreams):
        for other in upstreams[:index]:
            a, b = one.name.casefold(), other.name.casefold()
            if a == b:
                raise ValueError(f"two upstreams are called {one.name}; give one of them another name")
            if a.startswith(b + "_") or b.startswith(a + "_"):
                raise ValueError(
                    f"tools of the upstreams {other.name} and {one.name} could get the same names; rename one of them"
                )
    bare = [each.name for each in upstreams if each.names == AS_THEY_ARE]
    if len(bare) > 1:
        raise ValueError(f'names = "as they are" is for one upstream alone, and {" and ".join(bare)} have it')
