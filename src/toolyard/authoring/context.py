"""What a running tool may ask of the server: declare a parameter of type `Context` and it is handed in.

It is never part of the schema. A tool sees the secrets and tokens that it declares with `requires=`,
and no others.
"""

from collections.abc import Mapping
from typing import Any

from ..model.caller import Caller
from ..model.running import Run


class Hidden:
    """`Annotated[str, Hidden]`: a parameter that a model must not fill in; the client passes it."""


class Context:
    """The call a tool is running for."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def call_id(self) -> str:
        return self._run.call_id

    @property
    def trace_id(self) -> str | None:
        return self._run.trace_id

    @property
    def caller(self) -> Caller:
        """Whom the server authenticated."""
        return self._run.caller

    @property
    def user_id(self) -> str | None:
        """The end user, as the caller says."""
        return self._run.caller.user_id

    @property
    def user_info(self) -> Mapping[str, Any]:
        """What the caller says of the end user."""
        return self._run.user_info

    @property
    def resources(self) -> Any:
        """What the app's lifespan yielded."""
        return self._run.resources

    @property
    def cancelled(self) -> bool:
        """True once nobody waits for this call any more. A thread cannot be stopped: look now and then."""
        return self._run.channel.cancelled

    def secret(self, id: str) -> str:
        """The value of a secret this tool requires."""
        if id not in self._run.tool.requirements.secrets:
            raise LookupError(f"{self._run.tool.id} does not declare the secret {id!r}: requires=secret({id!r})")
        return self._run.secrets[id]

    def token(self, provider: str) -> str:
        """The user's token at a provider this tool requires authorization for."""
        if all(provider != needed.id for needed in self._run.tool.requirements.authorization):
            raise LookupError(
                f"{self._run.tool.id} does not declare authorization at {provider!r}: "
                f"requires=authorization({provider!r})"
            )
        return self._run.tokens[provider]

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tells whoever waits how far the tool has come."""
        self._run.progress(done, total, message)

    def log(self, message: str, level: str = "info", **fields: Any) -> None:
        """To the server's log, and to the client where its protocol has one."""
        self._run.log(level, message, fields)
