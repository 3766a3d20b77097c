"""What makes two requests the same, whichever way their input is at hand."""

import hmac
from hashlib import sha256
from typing import Any

import pytest
from msgspec import Raw

from toolyard.model.call import LARGE_INPUT, CallTool
from toolyard.trust.sealing.fingerprints import Fingerprints
from toolyard.trust.sealing.ring import KeyRing

LONG = "x" * LARGE_INPUT
NEW, OLD = b"n" * 32, b"o" * 32


@pytest.mark.parametrize("more", [{}, {"long": LONG}, {"long": LONG, "whole": 1.0}, {"long": LONG, "part": 1.5}])
def test_what_was_kept_of_an_input_has_the_inputs_fingerprint(more: dict[str, Any]) -> None:
    fingerprints = Fingerprints(KeyRing(lambda: b"k" * 32))
    input = {"z": {"b": 1, "a": [True, None]}, "a": 2, **more}
    command = CallTool("Kit.Tool", input)
    command.keep_input()
    assert fingerprints.of("Kit.Tool", "ada", Raw(command.input_json)) == fingerprints.of("Kit.Tool", "ada", input)
    reordered = dict(reversed(input.items()))
    assert fingerprints.of("Kit.Tool", "ada", reordered) == fingerprints.of("Kit.Tool", "ada", input)


@pytest.mark.parametrize("key", [NEW, OLD], ids=["newest key", "older key"])
def test_what_the_first_programs_recorded_is_the_same_call_and_is_recorded_no_more(key: bytes) -> None:
    """They made HMACs, and ledgers that were begun with them are still served."""
    prints = Fingerprints(KeyRing(lambda: [NEW, OLD])).all_of("A.Tool", "ada", Raw(b'{"b":1.0,"a":2}'))
    subkey = hmac.digest(key, b"fingerprint", sha256)
    former = hmac.digest(subkey, b'["A.Tool","ada",{"a":2,"b":1}]', sha256)
    assert former in prints
    assert former not in list(prints)
    assert hmac.digest(subkey, b'["A.Tool","ada",{"a":2,"b":2}]', sha256) not in prints
