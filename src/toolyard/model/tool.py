"""What a tool is, whichever wire lists it and wherever it runs.

An id is `Toolkit.Tool`; a reference adds a version: `Toolkit.Tool@1.2.3`, or `@1` for `1.0.0`. On the wires a tool goes
by its wire name, or by a short name where a protocol allows less.
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
"""A run of a tool: `model.run.Run`, which imports this module and so cannot be named here."""


class Host:
    """The app that a tool belongs to, as far as runs of the tool are concerned: its hooks (`around`), and how it was
    loaded (`target`: `file.py`, `package.module:name`), so that a child process can load it again."""

    __slots__ = ("around", "target")

    def __init__(self) -> None:
        self.around: list[Callable[[Any, Proceed], Awaitable[Any]]] = []
        self.target: str | None = None


class Origin(Struct, frozen=True):
    """Where a tool's function was defined: for messages, and for a child process that must find it again."""

    module: str
    file: str
    line: int

    @property
    def place(self) -> SourcePlace:
        return SourcePlace(self.file, self.line)


class Code(Protocol[R]):
    """A tool's function, as the engine and the runners see it."""

    @property
    def is_async(self) -> bool: ...

    @property
    def origin(self) -> Origin: ...

    @property
    def has_validators(self) -> bool:
        """Whether `bind` runs validators of the author's, which may do anything and take any time."""
        ...

    def bind(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """The function's typed arguments, made from input that fits the schema. Raises InvalidInput."""
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
"""The names that MCP allows."""
WIRE_NAME_FORM = "1 to 128 letters, digits, or any of _ . -"
SHORT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
"""The names that the OXP family and the providers of models allow."""
# Digits are written as [0-9]: \d would also take those of other scripts, which are no versions.
REFERENCE = re.compile(r"([A-Za-z0-9_]+\.[A-Za-z0-9_]+)(?:@([0-9]+(?:\.[0-9]+\.[0-9]+)?))?").fullmatch
_HASH_LENGTH = 8

OnLost = Literal["rerun", "unknown"]
"""What becomes of a call whose attempt was lost: it is run again, or ends as `outcome_unknown`."""
OnDisconnect = Literal["cancel", "continue"]
TaskUse = Literal["forbidden", "optional", "preferred", "required"]


def short_name_of(wire_name: str) -> str:
    """The name on wires that allow less than MCP does. It depends on the wire name alone, so that it stays the same
    whatever else is served; a hash tells two names apart that would become the same."""
    if SHORT_NAME(wire_name):
        return wire_name
    kept = re.sub(r"[^A-Za-z0-9_-]", "_", wire_name)[: 63 - _HASH_LENGTH]
    return f"{kept}_{sha256(wire_name.encode()).hexdigest()[:_HASH_LENGTH]}"


def names_of(id: str, wire_name: str) -> tuple[str, ...]:
    """Every name that a tool can be called by, and so no other tool may have."""
    return tuple(dict.fromkeys((wire_name, short_name_of(wire_name), id)))


class Version(Struct, frozen=True, order=True):
    """The version of a tool: three integers, compared as integers."""

    major: int
    minor: int = 0
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @classmethod
    def parse(cls, text: str) -> "Version":
        """The version that `x.y.z` means, or `x` for `x.0.0`. The text must have been matched by `REFERENCE`
        already."""
        return cls(*map(int, text.split(".")))


class Authorization(Struct, frozen=True):
    """A tool's need of a user's account at the provider `id`, with these scopes."""

    id: str
    scopes: tuple[str, ...] = ()


class Requirements(Struct, frozen=True):
    """What a tool needs besides input: users' accounts, secrets, the user's id."""

    authorization: tuple[Authorization, ...] = ()
    secrets: tuple[str, ...] = ()
    user_id: bool = False

    def __bool__(self) -> bool:
        return bool(self.authorization or self.secrets or self.user_id)


class ToolHints(Struct, frozen=True):
    """What a tool's author says of its behaviour, for clients to know before they call it. None: not said."""

    read_only: bool = False
    idempotent: bool = False
    destructive: bool | None = None
    open_world: bool | None = None


class Icon(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A picture that a client may show beside a tool: `@toolkit.tool(icons=[Icon("https://example.com/a.svg")])`."""

    src: str
    """Its address: https:, or data: with the picture itself."""
    mime_type: str | None = None
    """Its media type, such as `image/svg+xml`."""
    sizes: tuple[str, ...] = ()
    """The sizes that it is made for, such as `48x48` or `any`."""


class ToolkitInfo(Struct, frozen=True):
    """The toolkit that a tool belongs to, without its other tools."""

    name: str
    description: str
    version: Version


class Tool(Struct, frozen=True, eq=False, kw_only=True):
    """One version of one tool, complete: what the wires list, how it runs, what it needs and how far it is trusted. It
    is compared by identity: two definitions are two tools, however alike."""

    toolkit: ToolkitInfo
    name: str
    version: Version
    wire_name: str
    description: str
    input_schema: Schema
    output_schema: Schema | None
    code: Code[Any]
    called_with: Schema | None = None
    """Of a tool whose function is here: the schema of what the function is called with. The defaults in it are the
    function's own, whatever the author's `input_schema` says of them; what may be left out and has none there has one
    that is not known before the call."""
    host: Host
    title: str | None = None
    hidden: tuple[str, ...] = ()
    """The parameters that a model must not fill in: non-inferrable ones."""
    requirements: Requirements = Requirements()
    hints: ToolHints = ToolHints()
    annotations: Schema = {}
    timeout: float | None = None
    concurrency: int | None = None
    on_lost: OnLost = "unknown"
    rerun_needs_key: bool = False
    """Whether a lost attempt is run again only where the call has a key, by which whoever runs it knows it again."""
    on_disconnect: OnDisconnect | None = None
    """What becomes of a call whose client goes away. None: with a key it goes on, without one it is stopped."""
    runs: str = "thread"
    """The name of its runner, in the table of whoever runs it."""
    tags: tuple[str, ...] = ()
    icons: tuple[Icon, ...] = ()
    returns_content: bool = False
    """Whether its result is MCP's content: one block or text, or a list of them."""
    approval: Literal["always"] | Callable[..., Any] | None = None
    """Whether a person has to approve each call of it, or a predicate that decides so by the call's input."""
    task: TaskUse = "optional"
    """Whether a client may, should or must have a call of it as a task, where its protocol has tasks."""
    asks: tuple[Asks, ...] = ()
    """The kinds of questions it asks. A client that cannot answer them is refused before the tool runs."""
    is_trusted: bool = True
    """Whether its hints count. A stranger's tool, which an untrusted worker offers, may do anything whatever it
    says."""
    is_named: bool = False
    """Whether an operator's rule names this very tool and each untrusted caller whose worker offers it, without
    patterns: only then may secrets reach a stranger's tool."""
    tenants: tuple[str, ...] | None = None
    """The tenants that a worker's tool is for. None: every tenant."""
    offer: str | None = None
    """Of a tool that a worker or an upstream brings: whose it is and by which definition. Its calls are for those who
    offer exactly that."""
    meta: Schema = {}
    """What an upstream says of it beside that, for clients that know what it means: MCP's `_meta`."""
    # The next three are made from the members above, once, because every call and every listing reads them.
    id: str = ""
    """`Toolkit.Tool`"""
    reference: str = ""
    """`Toolkit.Tool@1.2.3`"""
    short_name: str = ""
    """The wire name, or what `short_name_of` makes of it."""

    @property
    def names(self) -> tuple[str, ...]:
        return names_of(self.id, self.wire_name)

    @property
    def gets_what_is_kept(self) -> bool:
        """Whether secrets and users' accounts that are kept here may reach it at all. Otherwise a stranger would only
        have to offer a tool that declares a secret, and so learn it."""
        return self.is_trusted or self.is_named

    def hints_in_words(self) -> str:
        """The tool's hints, for a person who decides about a call of it."""
        if not self.is_trusted:
            return "none that counts: who offers it is not trusted, so it is taken to be destructive and open-world"
        hints = self.hints
        words = {
            "read only": hints.read_only,
            "idempotent": hints.idempotent,
            "destructive": hints.destructive,
            "not destructive": hints.destructive is False,
            "open-world": hints.open_world,
            "not open-world": hints.open_world is False,
        }
        return ", ".join(name for name, holds in words.items() if holds)

    def __post_init__(self) -> None:
        force_setattr(self, "short_name", short_name_of(self.wire_name))
        force_setattr(self, "id", f"{self.toolkit.name}.{self.name}")
        force_setattr(self, "reference", f"{self.id}@{self.version}")
