"""What a tool is, whichever wire lists it and wherever it runs.

An id is `Toolkit.Tool`; a reference adds a version: `Toolkit.Tool@1.2.3`, or `@1` for `1.0.0`.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from .channel import Asks
from .errors import SourcePlace

Proceed = Callable[[], Awaitable[Any]]
R = TypeVar("R", contravariant=True)
"""A run of a tool (`model.run.Run`), which a tool knows nothing of."""


class Host:
    """What an app does around the calls of its tools.

    `target` is how it was loaded (`file.py`, `package.module:name`), so that a child process can load it again.
    """

    __slots__ = ("around", "target")

    def __init__(self) -> None:
        self.around: list[Callable[[Any, Proceed], Awaitable[Any]]] = []
        self.target: str | None = None


class Origin(Struct, frozen=True):
    """Where a function was written: for messages, and for a child process that must find it again."""

    module: str
    file: str
    line: int

    @property
    def place(self) -> SourcePlace:
        return SourcePlace(self.file, self.line)


class Code(Protocol[R]):
    """A tool's own function, as the engine and the runners see it."""

    @property
    def is_async(self) -> bool: ...

    @property
    def origin(self) -> Origin: ...

    @property
    def has_validators(self) -> bool:
        """Whether `bind` runs the author's own code."""
        ...

    def bind(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """Typed arguments from input that fits the schema. Raises InvalidInput."""
        ...

    def invoke(self, arguments: dict[str, Any], run: R) -> Any:
        """The function's result; for an async function, its awaitable."""
        ...

    def dump(self, value: Any) -> Any:
        """The result as plain JSON values."""
        ...


Schema = dict[str, Any]

NAME = re.compile(r"[A-Za-z0-9_]+").fullmatch
WIRE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}").fullmatch
"""What MCP allows."""
WIRE_NAME_FORM = "1 to 128 letters, digits, or any of _ . -"
SHORT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
"""What the OXP family and the providers of models allow."""
REFERENCE = re.compile(r"([A-Za-z0-9_]+\.[A-Za-z0-9_]+)(?:@([0-9]+(?:\.[0-9]+\.[0-9]+)?))?").fullmatch

OnLost = Literal["rerun", "unknown"]
OnDisconnect = Literal["cancel", "continue"]
TaskUse = Literal["forbidden", "optional", "preferred", "required"]


def short_name_of(wire_name: str) -> str:
    """The name on wires that have less. It depends on the wire name alone, so that it stays whatever else is served;
    two that would look alike are told apart by a hash."""
    if SHORT_NAME(wire_name):
        return wire_name
    kept = re.sub(r"[^A-Za-z0-9_-]", "_", wire_name)[: 63 - _HASH]
    return f"{kept}_{sha256(wire_name.encode()).hexdigest()[:_HASH]}"


_HASH = 8


def names_of(id: str, wire_name: str) -> tuple[str, ...]:
    """All that no other tool may be called."""
    return tuple(dict.fromkeys((wire_name, short_name_of(wire_name), id)))


class Version(Struct, frozen=True, order=True):
    """Three integers, compared as integers."""

    major: int
    minor: int = 0
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @classmethod
    def parse(cls, text: str) -> "Version":
        """`x.y.z`, or `x` for `x.0.0`. The caller has matched the text already."""
        return cls(*map(int, text.split(".")))


class Authorization(Struct, frozen=True):
    """A user's account at a provider, with these scopes."""

    id: str
    scopes: tuple[str, ...] = ()


class Requirements(Struct, frozen=True):
    """What a tool needs besides input."""

    authorization: tuple[Authorization, ...] = ()
    secrets: tuple[str, ...] = ()
    user_id: bool = False

    def __bool__(self) -> bool:
        return bool(self.authorization or self.secrets or self.user_id)


class ToolHints(Struct, frozen=True):
    """What a client may know of a tool's behaviour before it calls it."""

    read_only: bool = False
    idempotent: bool = False
    destructive: bool | None = None
    open_world: bool | None = None


class Icon(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A picture a client may show beside the tool."""

    src: str
    mime_type: str | None = None
    sizes: tuple[str, ...] = ()


class ToolkitInfo(Struct, frozen=True):
    """The toolkit a tool belongs to."""

    name: str
    description: str
    version: Version


class Tool(Struct, frozen=True, eq=False, kw_only=True):
    """One version of one tool. Compared by identity: two definitions are two tools."""

    toolkit: ToolkitInfo
    name: str
    version: Version
    wire_name: str
    description: str
    input_schema: Schema
    output_schema: Schema | None
    code: Code[Any]
    host: Host
    title: str | None = None
    hidden: tuple[str, ...] = ()
    requirements: Requirements = Requirements()
    hints: ToolHints = ToolHints()
    annotations: Schema = {}
    timeout: float | None = None
    concurrency: int | None = None
    on_lost: OnLost = "unknown"
    on_disconnect: OnDisconnect | None = None
    """What becomes of a call whose client goes away. Unless said: with a key it goes on, without one it is stopped."""
    runs: str = "thread"
    """The name of its runner, in the table of whoever runs it."""
    tags: tuple[str, ...] = ()
    icons: tuple[Icon, ...] = ()
    returns_content: bool = False
    """Whether its result is MCP's content: one block or text, or a list of them."""
    approval: Literal["always"] | Callable[..., Any] | None = None
    """Whether a person has to agree to each call of it, or a function that says so of its input."""
    task: TaskUse = "optional"
    """Whether a client may, should or must have a call of it as a task, where its protocol has tasks."""
    asks: tuple[Asks, ...] = ()
    """What its questions need of a client. One that cannot do that is refused before the tool runs."""
    is_trusted: bool = True
    """Whether what it says of itself counts. A stranger's tool may do anything, whatever it says."""
    is_named: bool = False
    """Whether an operator named this very tool and the very callers whose workers offer it, as far as they are
    strangers."""
    tenants: tuple[str, ...] | None = None
    """Those that a worker's tool is for. None: everybody's."""
    id: str = ""
    """`Toolkit.Tool`"""
    reference: str = ""
    """`Toolkit.Tool@1.2.3`"""
    short_name: str = ""
    """The wire name, or what is made of it where a wire has less."""

    @property
    def names(self) -> tuple[str, ...]:
        return names_of(self.id, self.wire_name)

    @property
    def gets_what_is_kept(self) -> bool:
        """Whether secrets and users' accounts that are kept here may reach it at all. A stranger would only have to
        offer a tool that declares one to learn it."""
        return self.is_trusted or self.is_named

    def hints_in_words(self) -> str:
        """What a person may know of its behaviour before they decide about a call of it."""
        if not self.is_trusted:
            return "none that counts: its worker is not trusted, so it is taken to be destructive and open-world"
        hints = self.hints
        said = {
            "read only": hints.read_only,
            "idempotent": hints.idempotent,
            "destructive": hints.destructive,
            "not destructive": hints.destructive is False,
            "open-world": hints.open_world,
            "not open-world": hints.open_world is False,
        }
        return ", ".join(name for name, holds in said.items() if holds)

    def __post_init__(self) -> None:
        force_setattr(self, "short_name", short_name_of(self.wire_name))
        force_setattr(self, "id", f"{self.toolkit.name}.{self.name}")
        force_setattr(self, "reference", f"{self.id}@{self.version}")
