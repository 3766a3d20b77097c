"""What a tool needs besides input: `requires=authorization("google", scopes=[…])`, `secret("ID")`, `user_id`."""

from collections.abc import Iterable, Sequence

from ..model.errors import DefinitionError
from ..model.tool import Authorization, Requirements
from .signature import author_place


def authorization(provider: str, *, scopes: Iterable[str] = ()) -> Requirements:
    """The user's account at a provider, with these scopes. Read it with `Context.token(provider)`."""
    if isinstance(scopes, str):
        raise DefinitionError(f"scopes={scopes!r} is not a list; write scopes=[{scopes!r}]", author_place())
    return Requirements(authorization=(Authorization(provider, tuple(scopes)),))


def secret(id: str) -> Requirements:
    """A secret by its id. Read it with `Context.secret(id)`."""
    return Requirements(secrets=(id,))


user_id = Requirements(user_id=True)
"""The end user's id. Read it with `Context.user_id`."""


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
