"""Who is calling, and which tools there are for them."""

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from .errors import Forbidden

if TYPE_CHECKING:
    from .asset import Asset
    from .tool import Tool


class Visibility(Struct, frozen=True):
    """Whether a tool is there for a caller, and why."""

    sees: bool
    """What a caller does not see does not exist for it."""
    lacks: tuple[str, ...] = ()
    """The scopes that the caller must have to call it, and has not."""
    rule: str = ""
    """Which rule says so, for whoever runs the server."""


ALL = Visibility(True, rule="there are no rules")


class View:
    """Which tools there are for a caller, and how much of them. For this one, all of them. Each method is asked for
    every call, so a view answers as cheaply as it can."""

    limits: tuple[int, ...] = ()
    """The numbers of the limits that are about the caller."""
    asks: tuple[int, ...] = ()
    """The numbers of the rules for approvals that are about the caller."""

    def of(self, tool: "Tool") -> Visibility:
        return ALL

    def sees(self, tool: "Tool") -> bool:
        return True

    def lacks(self, tool: "Tool") -> tuple[str, ...]:
        """The scopes that the caller must have to call a tool that it sees, and has not."""
        return ()

    def lists(self, tool: "Tool") -> bool:
        """Whether the caller may call it as it is."""
        return self.sees(tool) and not self.lacks(tool)

    def of_offer(self, offer: "Asset") -> Visibility:
        """As `of`, for a prompt or a resource."""
        return ALL

    def lists_offer(self, offer: "Asset") -> bool:
        """Whether the caller may have it as it is."""
        verdict = self.of_offer(offer)
        return verdict.sees and not verdict.lacks


EVERYTHING = View()


class Caller(Struct, frozen=True):
    """`subject` is whom the server authenticated, `tenant` is whose house it is in, and `user_id` is the
    end user the caller speaks for, as the caller says."""

    tenant: str
    subject: str
    user_id: str | None = None
    view: View = EVERYTHING
    is_operator: bool = True
    """Whether it may know what is counted of everybody."""
    how: str = "none"
    """How that is known: none, key or token."""
    key: str | None = None
    """The name of the API key."""
    address: str = ""
    """Where the request came from, where something depends on that."""
    digest: bytes = b""
    """Of the API key, where that can be revoked."""
    may_approve: bool = False
    """Whether it may say yes or no to calls of others."""
    expires: float | None = None
    """When the credentials end, as seconds since 1970."""
    issuer: str | None = None
    """Whose token showed it, where that is a person's."""

    @property
    def names(self) -> tuple[str, str, str | None]:
        """What a caller can be made of elsewhere."""
        return self.tenant, self.subject, self.user_id

    def speaking_for(self, user_id: str) -> "Caller":
        """Raises Forbidden where a person's credentials are to speak for another: programs may, people speak for
        themselves."""
        if self.issuer is not None and user_id != self.subject:
            raise Forbidden(f"These credentials are for {self.subject}, and not for another user_id; leave it out")
        return replace(self, user_id=user_id)

    def owns(self, tenant: str, subject: str) -> bool:
        """Whether something of theirs is this caller's."""
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
