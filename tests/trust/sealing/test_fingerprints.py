"""What makes two requests the same, whichever way their input is at hand."""

from typing import Any

import pytest
from msgspec import Raw

from toolyard.model.call import LARGE_INPUT, CallTool
from toolyard.trust.sealing.fingerprints import Fingerprints
from toolyard.trust.sealing.ring import KeyRing

LONG = "x" * LARGE_INPUT


@pytest.mark.parametrize("more", [{}, {"long": LONG}, {"long": LONG, "whole": 1.0}, {"long": LONG, "part": 1.5}])
def test_what_was_kept_of_an_input_has_the_inputs_fingerprint(more: dict[str, Any]) -> None:
    fingerprints = Fingerprints(KeyRing(lambda: b"k" * 32))
    input = {"z": {"b": 1, "a": [True, None]}, "a": 2, **more}
    command = CallTool("Kit.Tool", input)
    command.keep_input()
    assert fingerprints.of("Kit.Tool", "ada", Raw(command.input_json)) == fingerprints.of("Kit.Tool", "ada", input)
    reordered = dict(reversed(input.items()))
    assert fingerprints.of("Kit.Tool", "ada", reordered) == fingerprints.of("Kit.Tool", "ada", input)
