"""What can go wrong between this server and an upstream, by what it means for the call that was made.

The question after every failure is the same: may the call have reached the upstream? `NotSent` says no, `Lost` says
that nobody knows, and the other two are answers.
"""

from typing import Any

from msgspec import Struct

from ..model.upstream import Upstream

LONGEST_TEXT = 2000
"""Characters of what an upstream says about an error."""


class UpstreamFault(Exception):
    """The base of all of them. The text is a sentence that goes on after the upstream's name: "Hub …". Of an answer it
    is told to callers; of the others, which may name addresses, to whoever runs the server."""

    @property
    def trouble(self) -> str:
        """The sentence for whoever runs the server, with what is behind it."""
        return str(self) if self.__cause__ is None else f"{self}: {self.__cause__}"


class NotSent(UpstreamFault):
    """The upstream could not be reached, so that it has not seen the request."""


class NoSecret(NotSent):
    """A secret that its settings name is not kept here."""


class Lost(UpstreamFault):
    """The request may have reached the upstream, and no answer to it will come."""


class Misbehaved(UpstreamFault):
    """The upstream answered with something that is no answer: no JSON, no MCP, too much of it. It may have done what it
    was asked to do."""


class Unanswerable(Misbehaved):
    """The upstream asked, before it answered, what nobody can be asked, or too much. What it was asked to do is given
    up."""


def is_answer(error: BaseException) -> bool:
    """Whether a request that failed so is over at the upstream, too: it answered, or is gone. Otherwise it has to be
    told that nobody waits any more."""
    return isinstance(error, UpstreamFault) and not isinstance(error, Unanswerable)


class RefusalDetails(Struct, frozen=True):
    """What beside its text is known of a refusal."""

    code: int | None = None
    """JSON-RPC's."""
    status: int = 200
    """HTTP's; 200 where there is none."""
    data: Any = None
    retry_after_ms: int | None = None


class UpstreamRefusal(UpstreamFault):
    """The upstream answered that it will not do this: with a JSON-RPC error, or with a status."""

    def __init__(self, sentence: str, details: RefusalDetails) -> None:
        super().__init__(sentence[:LONGEST_TEXT])
        self.details = details

    @property
    def code(self) -> int | None:
        return self.details.code


def advice(upstream: Upstream, fault: BaseException) -> str:
    """What whoever runs the server can do about it, to be put after what the fault says."""
    if isinstance(fault, NoSecret):
        return ""  # it has said so itself
    if isinstance(fault, UpstreamRefusal) and fault.details.status in (401, 403):
        return '; give it credentials that it takes: auth = { secret = "NAME" }, and toolyard secrets set NAME'
    if isinstance(fault, UpstreamRefusal):
        return "; its own log may say why"
    if upstream.kind == "stdio":
        return "; start it by hand to see what it does"
    if isinstance(fault, Misbehaved):
        return f"; is {upstream.place} the address of an MCP server?"
    return f"; is it running, and is {upstream.place} its address?"
