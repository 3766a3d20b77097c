"""What a tool needs besides input: `requires=authorization("google", scopes=[…])`, `secret("ID")`, `user_id`."""

from collections.abc import Iterable, Sequence

from ..model.errors import DefinitionError
from ..model.tool import Authorization, Requirements
from .signature import author_place


def authorization(provider: str, *, scopes: Iterable[str] = ()) -> Requirements:
    """Requires the user's account at a provider. `Context.token` then gives the tool an access token; whoever has not
    connected the account is told where to.

    Args:
        provider: The provider's id, as the server's settings name it.
        scopes: What the token must be good for.

    Raises:
        DefinitionError: The scopes are a text, and not a list.

    >>> from toolyard import Context, Toolkit
    >>> calendar = Toolkit("Calendar")
    >>> @calendar.tool(requires=authorization("google", scopes=["calendar.readonly"]))
    ... def today(ctx: Context) -> str:
    ...     '''Says what is on today.'''
    ...     return f"asked with {ctx.token('google')}"
    """
    if isinstance(scopes, str):
        raise DefinitionError(f"scopes={scopes!r} is not a list; write scopes=[{scopes!r}]", author_place())
    return Requirements(authorization=(Authorization(provider, tuple(scopes)),))


def secret(id: str) -> Requirements:
    """Requires a secret, such as an API key. `Context.secret` then gives its value: the one that the caller sent, or
    the one that the operator keeps (`toolyard secrets set`). It is taken out of everything that the tool says.

    Args:
        id: The secret's name, such as `TWILIO_API_KEY`.

    >>> from toolyard import Context, Toolkit
    >>> from toolyard.testing import call
    >>> sms = Toolkit("Sms")
    >>> @sms.tool(requires=secret("SMS_KEY"))
    ... def send(text: str, ctx: Context) -> int:
    ...     '''Sends a text.'''
    ...     return len(ctx.secret("SMS_KEY"))
    >>> call(sms, "Sms.Send", {"text": "Hi"}, secrets={"SMS_KEY": "k-123"})
    5
    """
    return Requirements(secrets=(id,))


user_id = Requirements(user_id=True)
"""Requires that the caller says which end user it speaks for: `@toolkit.tool(requires=user_id)`. Read it with
`Context.user_id`."""


def combine(parts: Sequence[Requirements]) -> Requirements:
    """Several requirements as one. A provider that is named twice is required once, with all of the scopes."""
    scopes: dict[str, dict[str, None]] = {}  # dictionaries as ordered sets: the author's order is what is listed
    for wanted in (a for part in parts for a in part.authorization):
        scopes.setdefault(wanted.id, {}).update(dict.fromkeys(wanted.scopes))
    return Requirements(
        authorization=tuple(Authorization(id, tuple(several)) for id, several in scopes.items()),
        secrets=tuple(dict.fromkeys(s for part in parts for s in part.secrets)),
        user_id=any(part.user_id for part in parts),
    )
