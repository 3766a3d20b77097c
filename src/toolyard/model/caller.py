"""Who sends a request, and which tools exist for them.

A wall between callers is held by these two: what a caller's view does not see is answered exactly as what does not
exist, and what another caller owns is not found.
"""

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from .errors import Forbidden

if TYPE_CHECKING:
    from .asset import Asset
    from .tool import Tool


class Visibility(Struct, frozen=True):
    """Whether a caller sees a tool and may call it, and which access rule says so."""

    sees: bool
    """What a caller does not see does not exist for it."""
    lacks: tuple[str, ...] = ()
    """The scopes that a call of the tool needs, and the caller does not have."""
    rule: str = ""
    """The rule that decided, for whoever runs the server."""


ALL = Visibility(True, rule="there are no rules")


class Reach(Struct, frozen=True):
    """How far credentials reach, among those of one caller."""

    allow: tuple[str, ...] = ()
    """Patterns of the tools that they are for; none where they are for all of them."""
    scopes: frozenset[str] | None = None
    """The scopes that they have, of those that rules ask for. None: scopes do not limit them."""

    def covers(self, other: "Reach") -> bool:
        """Whether these are for all that the others are for."""
        allows = not self.allow or (bool(other.allow) and {*other.allow} <= {*self.allow})
        return allows and (self.scopes is None or (other.scopes is not None and other.scopes <= self.scopes))


class View:
    """Which tools, prompts and resources exist for a caller. This one is the view without rules: everything. Access
    rules make others (`trust.access`). Its methods are called for every call, so a view answers as cheaply as it
    can."""

    limits: tuple[int, ...] = ()
    """The numbers of the limits that apply to the caller."""
    reach: Reach = Reach()
    """How far the credentials reach that the caller has."""
    asks: tuple[int, ...] = ()
    """The numbers of the approval rules that apply to the caller."""

    def of(self, tool: "Tool") -> Visibility:
        """How the caller sees a tool, with the reason."""
        return ALL

    def sees(self, tool: "Tool") -> bool:
        return True

    def lacks(self, tool: "Tool") -> tuple[str, ...]:
        """The scopes that a call of a tool needs, and the caller, who sees the tool, does not have."""
        return ()

    def lists(self, tool: "Tool") -> bool:
        """Whether the caller sees the tool and may call it with the credentials it has."""
        return self.sees(tool) and not self.lacks(tool)

    def may_have_seen(self, tool_id: str) -> bool:
        """Whether the caller may have seen a tool that is not there any more, of which nothing but its id is known."""
        return True

    def of_offer(self, offer: "Asset") -> Visibility:
        """As `of`, for a prompt or a resource."""
        return ALL

    def lists_offer(self, offer: "Asset") -> bool:
        """As `lists`, for a prompt or a resource."""
        visibility = self.of_offer(offer)
        return visibility.sees and not visibility.lacks


EVERYTHING = View()


class CurrentView:
    """The view of somebody as the rules are now. What waits on a caller's behalf sees no more than a new request of
    the same caller would, so the rules give it another view when they change."""

    __slots__ = ("__weakref__", "view")

    def __init__(self, view: View = EVERYTHING) -> None:
        self.view = view


UNLIMITED = CurrentView()


class Caller(Struct, frozen=True):
    """Who sends a request, as the server authenticated it. A tool has it as `Context.caller`, a hook as
    `Run.caller`."""

    tenant: str
    """The organisation it belongs to: `default` where there is one alone."""
    subject: str
    """Who it is: a key's subject, the `sub` of a token, or `local` without authentication."""
    user_id: str | None = None
    """The end user that the caller says it speaks for."""
    current: CurrentView = UNLIMITED
    """What there is for it."""
    is_operator: bool = True
    """Whether it may read the server's counters, which are about every caller."""
    how: str = "none"
    """How it was authenticated: `none`, `key` or `token`."""
    key: str | None = None
    """The name of its API key."""
    address: str = ""
    """The network address that the request came from, where a rule depends on it."""
    digest: bytes = b""
    """The digest of its API key, where that can be revoked."""
    may_approve: bool = False
    """Whether it may approve or reject the calls of others."""
    expires: float | None = None
    """When its credentials expire, in seconds since 1970."""
    issuer: str | None = None
    """The issuer of its token, where the token is a person's."""

    @property
    def view(self) -> View:
        """What there is for it now. It may be another view after each await."""
        return self.current.view

    @property
    def names(self) -> tuple[str, str, str | None]:
        """Who the caller is, without credentials and view: to tell callers apart, and to name one to a child
        process."""
        return self.tenant, self.subject, self.user_id

    @property
    def user(self) -> str:
        """Whom a call is made for, and whose accounts it uses: the end user that the caller speaks for, or else the
        caller."""
        return self.user_id or self.subject

    def speaking_for(self, user_id: str) -> "Caller":
        """The caller with this end user. Raises Forbidden where a person's token would speak for another user: programs
        may, people speak for themselves."""
        if self.issuer is not None and user_id != self.subject:
            raise Forbidden(f"These credentials are for {self.subject}, and not for another user_id; leave it out")
        return replace(self, user_id=user_id)

    def owns(self, tenant: str, subject: str) -> bool:
        """Whether what belongs to this tenant and subject is this caller's own."""
        return (tenant, subject) == (self.tenant, self.subject)


LOCAL = Caller(tenant="default", subject="local")


def caller_name(tenant: str, subject: str) -> str:
    """How a caller is written for people, and by them: the tenant is left out where it is the usual one."""
    return _escaped(subject) if tenant == LOCAL.tenant else full_name(tenant, subject)


def full_name(tenant: str, subject: str) -> str:
    """With its tenant, whichever that is. A slash that is part of either is escaped, as in an address: no caller can
    choose a name that reads as another's."""
    return f"{_escaped(tenant)}/{_escaped(subject)}"


def is_named(tenant: str, subject: str, given: str) -> bool:
    """Whether `given` is a name of this caller. Without a tenant it is everybody's of that subject."""
    return given in (_escaped(subject), full_name(tenant, subject))


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")
