"""What a tool needs besides input: `requires=authorization("google", scopes=[…])`, `secret("ID")`, `user_id`."""

from collections.abc import Iterable

from ..model.tool import Authorization, Requirements


def authorization(provider: str, *, scopes: Iterable[str] = ()) -> Requirements:
    """The user's account at a provider, with these scopes. Read it with `Context.token(provider)`."""
    return Requirements(authorization=(Authorization(provider, tuple(scopes)),))


def secret(id: str) -> Requirements:
    """A secret by its id. Read it with `Context.secret(id)`."""
    return Requirements(secrets=(id,))


user_id = Requirements(user_id=True)
"""The end user's id. Read it with `Context.user_id`."""


def combine(required: Requirements | Iterable[Requirements] | None) -> Requirements:
    """One or several, as one."""
    parts = [required] if isinstance(required, Requirements) else list(required or ())
    return Requirements(
        authorization=tuple(a for part in parts for a in part.authorization),
        secrets=tuple(dict.fromkeys(s for part in parts for s in part.secrets)),
        user_id=any(part.user_id for part in parts),
    )
