"""Whether a call brings what its tool needs, and what to say when it does not: everything that is missing, at once."""

from collections.abc import Callable
from urllib.parse import quote

from ..model.call import CallTool
from ..model.caller import Caller
from ..model.errors import Challenge, Missing, MissingRequirements
from ..model.seam import random_id
from ..model.tool import Authorization, Tool


class RequirementsDesk:
    """Checks a call's context. Challenges point at this server's own pages."""

    def __init__(self, new_id: Callable[[], str] = random_id) -> None:
        self._new_id = new_id

    def __call__(self, tool: Tool, command: CallTool, caller: Caller, base_url: Callable[[], str]) -> None:
        context, needed = command.context, tool.requirements
        absent = [wanted for wanted in needed.authorization if wanted.id not in context.tokens]
        missing = Missing(
            authorization=tuple(self._challenge(base_url(), wanted) for wanted in absent),
            secrets=tuple(id for id in needed.secrets if id not in context.secrets),
            user_id=needed.user_id and not caller.user_id,
        )
        if missing.authorization or missing.secrets or missing.user_id:
            raise MissingRequirements(
                f"{tool.wire_name} needs {_in_words(missing, absent)} before it can be called",
                missing,
                developer_message=_how_to_help(missing, absent),
            )

    def _challenge(self, base_url: str, wanted: Authorization) -> Challenge:
        id = self._new_id() + self._new_id()
        url = f"{base_url}/authorize/{id}"
        return Challenge(id, f"{url}?provider={quote(wanted.id)}", f"{url}/status")


def _in_words(missing: Missing, absent: list[Authorization]) -> str:
    parts = [f"authorization at {a.id}" for a in absent]
    parts += [f"the secret {id}" for id in missing.secrets]
    parts += ["a user id"] if missing.user_id else []
    return " and ".join(parts)


def _how_to_help(missing: Missing, absent: list[Authorization]) -> str:
    parts = []
    if missing.authorization:
        providers = ", ".join(a.id for a in absent)
        parts.append(f"context.authorization needs a token for {providers}")
    if missing.secrets:
        parts.append(f"context.secrets needs {', '.join(missing.secrets)}")
    if missing.user_id:
        parts.append("context.user_id is needed")
    return "; ".join(parts)
