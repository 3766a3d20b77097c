"""The demo's five steps. Every call is made for real; the lines after `$` do the same from another terminal, and the
lines below them are what these print."""

import re
import shlex
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..client.client import CallOptions, Client
from ..model.clock import random_id
from ..model.errors import Challenge, MissingRequirements, ServerError, ToolError
from ..wires.admin import accounts
from ..wires.lifecycle import approvals
from .screen import Screen
from .stage import Stage
from .visitor import Visitor

SECRET = "WEATHER_KEY"
SECRET_VALUE = "demo-key-2f60b9d1"
LOOK_AGAIN_S = 0.3
FOR_YOU = ("--user-id", "you")
_code = re.compile(r"the code for the page of \S+ is (\S+)").search


class Story:
    """Goes through the demo's steps. `visitor` does the person's part (`--auto`); without one, a person does."""

    def __init__(self, stage: Stage, client: Client, screen: Screen, visitor: Visitor | None) -> None:
        self._stage, self._client, self._screen, self._visitor = stage, client, screen, visitor

    def tell(self) -> None:
        screen, stage = self._screen, self._stage
        screen.say(
            "Tools that need more than input, in five steps:",
            "",
            f"  server    {stage.server}  (toolyard serve, in {stage.folder})",
            f"  provider  {stage.provider}  (a demo: made-up people, no passwords)",
        )
        if self._visitor is not None:
            screen.say("  --auto: what a person would do in a browser is done over HTTP, as Ada")
        for number, (title, step) in enumerate(self._steps(), 1):
            screen.step(number, title)
            step()

    def _steps(self) -> list[tuple[str, Callable[[], None]]]:
        return [
            ("A tool that needs nothing", self._plain),
            ("A tool that needs a secret", self._secret),
            ("A tool that needs somebody's account", self._account),
            ("A tool that needs a yes", self._approval),
            ("The audit log of all that", self._audit),
        ]

    def _plain(self) -> None:
        self._call("Weather.Cities")

    def _secret(self) -> None:
        screen, given = self._screen, {"city": "Oslo"}
        self._call("Weather.Now", given, code=1)
        screen.tell("Nobody has set it. Whoever runs the server does; it is kept sealed, and never shown:")
        self._operate("secrets", "set", SECRET, given=SECRET_VALUE)
        self._call("Weather.Now", given)
        screen.tell("The tool gave its key away. The server took it out of what the caller gets.")

    def _account(self) -> None:
        screen, options = self._screen, CallOptions(user_id="you")
        while True:
            screen.typed(self._command("Mail.Unread", more=FOR_YOU))
            refusal = self._refused("Mail.Unread", {}, options)
            (challenge,) = refusal.missing.authorization
            found = _code(refusal.message)
            if found is None:
                raise ServerError(f"There is no code in the refusal: {refusal.message}")
            screen.printed([refusal.message, f"waiting for authorization: {challenge.url}"])
            screen.tell(
                f"open {challenge.url}",
                f"type {found[1]}, then be Ada or Bob at the provider, and allow it.",
            )
            if self._visitor is not None:
                self._visitor.connect(challenge.url, found[1])
                screen.tell("Ada has done that.")
            # The person may also have connected the account by a link of another call.
            if self._settled(challenge, self._connected) == "completed" or self._connected():
                break
            if self._visitor is not None:
                raise ServerError("The account could not be connected")
            screen.tell("That came to nothing: it was denied, or took too long. Calling again makes a new link.")
        screen.tell(f"Connected: {', '.join(self._connected())}. The agent never sees the token, the tool does:")
        self._call("Mail.Unread", more=FOR_YOU)

    def _approval(self) -> None:
        screen, given, options = self._screen, {"order": "7", "cents": 500}, CallOptions(call_id=random_id(), wait=True)
        screen.typed(self._command("Payments.Refund", given))
        refusal = self._refused("Payments.Refund", given, options)
        (challenge,) = refusal.missing.authorization
        screen.printed([f"waiting for approval: {challenge.url}"])
        with self._stage.operator() as operator:
            listed = operator.ask(approvals.encode_list())["approvals"]
        (waiting,) = (each for each in listed if each["callId"] == options["call_id"])
        number = waiting["id"].partition("-")[0]  # the short form of the id, which `toolyard approve` takes, too
        screen.tell("Who called cannot say yes. Whoever runs the server can, in another terminal:")
        screen.typed(self._beside(f"toolyard approve {number}"))
        screen.tell(
            "or who opens the page and has the code, which 'toolyard approvals' shows:",
            f"open {waiting['url']}",
            f"type {waiting['code']}, and approve it.",
        )
        if self._visitor is not None:
            self._visitor.approve(waiting["url"], waiting["code"])
            screen.tell("Somebody with the code has done that.")
        status = self._settled(challenge)
        screen.tell("Approved. The call that waited has run:" if status == "completed" else "It was not approved:")
        try:
            screen.value(self._client.call("Payments.Refund", given, **options))
        except ToolError as error:
            screen.printed([error.message])

    def _audit(self) -> None:
        self._operate("audit", "tail")
        self._operate("audit", "verify")
        self._screen.tell("Nobody has changed, removed or moved an entry.")

    # -- parts of it -------------------------------------------------------------------------------

    def _call(self, tool: str, given: dict[str, Any] | None = None, more: Sequence[str] = (), code: int = 0) -> None:
        self._screen.typed(self._command(tool, given, more))
        self._show(code, *self._words(tool, given, more))

    def _operate(self, *words: str, given: str = "") -> None:
        """Shows and runs a command of the operator's."""
        before = f"echo {given} | " if given else ""
        self._screen.typed(self._beside(f"{before}toolyard {' '.join(words)}"))
        self._show(0, *words, given=given)

    def _show(self, code: int, *words: str, given: str = "") -> None:
        """Runs a command and shows what it prints. Raises ServerError where its exit code is another than expected."""
        ended, lines = self._stage.run(*words, given=given)
        self._screen.printed(lines)
        if ended != code:
            raise ServerError(f"toolyard {' '.join(words[:2])} ended with exit code {ended}, and not with {code}")

    def _refused(self, tool: str, given: dict[str, Any], options: CallOptions) -> MissingRequirements:
        """Makes a call that lacks something, and returns its refusal."""
        try:
            self._client.call(tool, given, **options)
        except MissingRequirements as refusal:
            return refusal
        raise ServerError(f"{tool} should have been refused, and was not")

    def _connected(self) -> list[str]:
        """The user's accounts, whichever link they were connected by."""
        with self._stage.operator() as operator:
            connected = operator.ask(accounts.encode_list(user="you"))["connections"]
        return [connection["account"] for connection in connected]

    def _settled(self, challenge: Challenge, is_needless: Callable[[], object] = lambda: False) -> str:
        """Waits until a challenge is not pending any more, or is needless. Returns its status."""
        status, is_announced = self._client.challenge_status(challenge), False
        while status == "pending" and not is_needless():
            if not is_announced:
                self._screen.tell("Waiting for you.")
                is_announced = True
            time.sleep(LOOK_AGAIN_S)
            status = self._client.challenge_status(challenge)
        return status

    def _command(self, tool: str, given: dict[str, Any] | None = None, more: Sequence[str] = ()) -> str:
        return shlex.join(["toolyard", *self._words(tool, given, more)])

    def _words(self, tool: str, given: dict[str, Any] | None, more: Sequence[str]) -> list[str]:
        arguments = [f"{name}={_word(value)}" for name, value in (given or {}).items()]
        return ["call", tool, *arguments, *more, "--server", self._stage.server]

    def _beside(self, command: str) -> str:
        """A command with the `cd` that it needs: an operator's commands look for the ledger in the current folder."""
        return f"cd {shlex.quote(str(self._stage.folder))} && {command}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
