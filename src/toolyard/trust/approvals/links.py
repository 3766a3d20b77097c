"""The address at which a person approves or rejects a call, and the code that this person has to know.

An address has the number of its call and a signature over the number, the caller and the input: it is for that call
alone, cannot be guessed, and nothing has to be stored for it. Callers are given the address, because they pass it on
to a person. To decide there takes a code besides, which is signed for another purpose and which operators are shown and
callers are not: whoever asks for an approval must not be able to give it.
"""

import base64
from collections.abc import Callable
from hmac import compare_digest

from ...model.channel import Question
from ...model.errors import Challenge, Missing, MissingRequirements
from ...model.lifecycle import WaitingFor
from ...model.record import CallName
from ...text import base64url
from ..sealing.ring import KeyRing
from .rules import waits

PATH = "/approvals"
THEN = "once it is approved, make the same call again, with the same input, to get its result"
"""Told to models, which have no other way to come by the result."""

# Purposes of the ring's subkeys: an address shows its own signature, and must not thereby show the code.
_SIGNED, _CODE = "approval", "approval code"
_SIGNATURE_BYTES = 12
"""96 bits of the signature are in an address: nobody guesses them, and the address still fits on a line."""
_LONGEST_NUMBER = 18
"""Digits that always fit the 64-bit numbers of the ledger's rows."""
_LONGEST_CODE = 64


class ApprovalLinks:
    """Makes the addresses and codes of calls that wait for a person, and recognises those that it made. `base_url` is
    this server's address, for questions that are put to a client when no request is there to tell it."""

    def __init__(self, ring: KeyRing, base_url: Callable[[], str]) -> None:
        self._ring, self.base_url = ring, base_url

    def missing(self, tool_name: str, call: CallName, base_url: str) -> MissingRequirements:
        """The error that a caller gets for a call that waits."""
        id = self.id_of(call)
        url = f"{base_url}{PATH}/{id}"
        return MissingRequirements(
            f"{waits(tool_name)}; {THEN}",
            Missing(authorization=(Challenge(id, url, f"{url}/status"),), approval=True),
            developer_message=f"call again once {url} says that it was approved; it is for this input alone",
        )

    def question(self, tool_name: str, call: CallName) -> Question:
        """The question with which a client is asked to send its person to the call's address."""
        url = f"{self.base_url()}{PATH}/{self.id_of(call)}"
        return Question(WaitingFor.APPROVAL, "url", waits(tool_name), url=url)

    def id_of(self, call: CallName) -> str:
        """The last part of the call's address."""
        return _id(call.seq, self._ring.sign(_SIGNED, call.encoded()))

    def is_id(self, given: str, call: CallName) -> bool:
        """Whether this address was given out for that call, with the ring's newest key or an older one."""
        ids = [_id(call.seq, each) for each in self._ring.signatures(_SIGNED, call.encoded())]
        return any(compare_digest(id.encode(), given.encode()) for id in ids)

    def code_of(self, call: CallName) -> str:
        """What a person has to know to decide at the address. Operators are shown it, callers are not."""
        return _code(self._ring.sign(_CODE, call.encoded()))

    def is_code(self, given: str, call: CallName) -> bool:
        """Whether a person typed the call's code, in small or capital letters and with or without the dash."""
        typed = normalized(given).encode()
        codes = map(_code, self._ring.signatures(_CODE, call.encoded()))
        return any(compare_digest(typed, normalized(code).encode()) for code in codes)


def number_in(id: str) -> int | None:
    """The number of the call that an address would be of, whether or not it was given out."""
    number = id.partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER else None


def normalized(code: str) -> str:
    """A code as codes are compared, however somebody types it: capital letters and digits alone."""
    return "".join(letter for letter in code[:_LONGEST_CODE].upper() if letter.isalnum())


def _id(seq: int, signature: bytes) -> str:
    return f"{seq}-{base64url.encoded(signature[:_SIGNATURE_BYTES])}"


def _code(signature: bytes) -> str:
    # Eight letters of base32 are 40 bits; the page on which they are typed limits how many can be tried.
    text = base64.b32encode(signature).decode()
    return f"{text[:4]}-{text[4:8]}"
