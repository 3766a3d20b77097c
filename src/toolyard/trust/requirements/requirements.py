"""What a tool needs besides input: secrets, users' tokens, a user's id. A call brings them, or they are kept here for
the caller; and where something is neither, the call is refused with everything that is missing, at once.

The engine asks a `Requirer`; behind it stand `Keeper`s, one for secrets and one for accounts.
"""

from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import quote

from msgspec.structs import replace

from ...model.call import CallContext, CallTool
from ...model.caller import Caller
from ...model.clock import random_id
from ...model.errors import Challenge, Missing, MissingRequirements
from ...model.tool import Authorization, Tool
from .challenges import name_of


class Keeper(Protocol):
    """Whatever keeps something that tools need: `HeldSecrets` keeps secrets, `Accounts` users' tokens."""

    async def fill(self, tool: Tool, context: CallContext, caller: Caller) -> CallContext:
        """The context with what the tool declares, the context lacks and is kept for this caller and its `user_id`.
        What the context has stays as it is. What cannot be found is no error: `Requirer.check` says what is missing."""
        ...


class Requirer(Protocol):
    """Whatever looks after what tools need. The engine asks about tools that need something, and about no others."""

    async def fill(self, tool: Tool, command: CallTool, caller: Caller) -> CallTool:
        """The same call, `filled` with what is kept here for it, and without what the tool does not declare. Asked each
        time that a call may have to be made, before it is checked. Raises StoreDown, and Unavailable where what is kept
        is not to be had at the moment."""
        ...

    def check(self, tool: Tool, command: CallTool, caller: Caller, base_url: Callable[[], str]) -> None:
        """Raises MissingRequirements when a call lacks what its tool needs. `base_url` is this server's address."""
        ...


Challenger = Callable[[Caller, Authorization, Tool], tuple[str, str] | None]
"""Makes a challenge: what its address ends with, and the code that its page asks for, if it does. None where the
provider is not set up."""


class RequirementResolver:
    """The `Requirer` of a server: fills calls from its keepers, and makes challenges that point at the server's own
    pages."""

    def __init__(
        self,
        new_id: Callable[[], str] = random_id,
        keepers: Sequence[Keeper] = (),
        challenger: Challenger | None = None,
    ) -> None:
        """Without a challenger there is no provider at which anybody could complete a challenge."""
        self._new_id, self._keepers, self._challenger = new_id, keepers, challenger

    async def fill(self, tool: Tool, command: CallTool, caller: Caller) -> CallTool:
        context = declared(tool, command.context)
        if context.user_id is not None:
            caller = caller.speaking_for(context.user_id)
        for keeper in self._keepers if tool.gets_what_is_kept else ():
            context = await keeper.fill(tool, context, caller)
        return replace(command, filled=context)

    def check(self, tool: Tool, command: CallTool, caller: Caller, base_url: Callable[[], str]) -> None:
        context, needed = command.given, tool.requirements
        absent = [wanted for wanted in needed.authorization if wanted.id not in context.tokens]
        missing = Missing(
            authorization=tuple(self._challenge(base_url(), caller, wanted, tool) for wanted in absent),
            secrets=tuple(id for id in needed.secrets if id not in context.secrets),
            user_id=needed.user_id and not caller.user_id,
        )
        if missing.authorization or missing.secrets or missing.user_id:
            raise MissingRequirements(
                f"{tool.wire_name} needs {in_words(missing)} before it can be called{_codes(missing)}",
                missing,
                developer_message=_how_to_help(tool, missing, absent),
            )

    def _challenge(self, base_url: str, caller: Caller, wanted: Authorization, tool: Tool) -> Challenge:
        made = None
        # A tool that is given nothing that is kept here would not be helped by connecting the account.
        if self._challenger is not None and tool.gets_what_is_kept:
            made = self._challenger(caller, wanted, tool)
        # Where nobody can complete a challenge, its address leads to a page that says so.
        text, code = made or (self._new_id() + self._new_id(), "")
        id = name_of(text) if made else text
        url = f"{base_url}/authorize/{text}"
        links = f"{url}?provider={quote(wanted.id)}", f"{url}/status"
        return Challenge(id, *links, wanted.id, code, can_come=made is not None)


def declared(tool: Tool, context: CallContext) -> CallContext:
    """A context without the secrets and tokens that a tool does not declare, which are none of its business."""
    needed = tool.requirements
    providers = {wanted.id for wanted in needed.authorization}
    return replace(
        context,
        secrets={id: value for id, value in context.secrets.items() if id in needed.secrets},
        tokens={id: token for id, token in context.tokens.items() if id in providers},
    )


def in_words(missing: Missing) -> str:
    """What is missing, as a part of a sentence."""
    parts = [f"authorization at {each.provider}" for each in missing.authorization]
    parts += [f"the secret {id}" for id in missing.secrets]
    parts += ["a user id"] if missing.user_id else []
    return " and ".join(parts)


def _codes(missing: Missing) -> str:
    """The codes of the challenges, for the caller alone to pass on: their pages ask for them."""
    given = [f"the code for the page of {each.provider} is {each.code}" for each in missing.authorization if each.code]
    return "; ".join(["", *given])


def _how_to_help(tool: Tool, missing: Missing, absent: list[Authorization]) -> str:
    """What a developer can do about it, in the members of a request."""
    parts = []
    if missing.authorization:
        providers = ", ".join(a.id for a in absent)
        parts.append(f"context.authorization needs a token for {providers}")
    if missing.secrets:
        parts.append(f"context.secrets needs {', '.join(missing.secrets)}")
    if missing.user_id:
        parts.append("context.user_id is needed")
    if not tool.gets_what_is_kept and (missing.authorization or missing.secrets):
        parts.append(
            f"{tool.id} is offered by a worker that is not trusted, and what this server keeps is not for it; "
            "whoever runs the server can trust the worker, or name it and the tool, in [[workers]]"
        )
    return "; ".join(parts)
