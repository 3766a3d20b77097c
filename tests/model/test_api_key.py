"""What a key's parts may look like, and which of a key's ends came first."""

from collections.abc import Callable

import pytest

from toolyard.model.api_key import ApiKey, key_name, key_scope


@pytest.mark.parametrize(
    ("check", "given"),
    [
        *((key_name, good) for good in ("a", "ci-7", "ada.laptop", "_", "x" * 64)),
        *((key_scope, good) for good in ("read", "calls:read", "https://example.com/x", "*")),
    ],
)
def test_what_is_right_is_taken_as_it_is(check: Callable[[object], str], given: str) -> None:
    assert check(given) == given


@pytest.mark.parametrize(
    ("check", "given"),
    [
        *((key_name, bad) for bad in ("", "a b", "a/b", "a:b", "ä", "a\n", "x" * 65, 7, None)),
        *((key_scope, bad) for bad in ("", "a b", 'a"b', "a\\b", "a,b", "ä", "a\n", None)),
    ],
)
def test_what_is_wrong_is_refused_with_a_sentence(check: Callable[[object], str], given: object) -> None:
    with pytest.raises(ValueError, match=r"^Must be "):
        check(given)


@pytest.mark.parametrize(
    ("expires", "revoked", "state"),
    [
        (None, None, "live"),
        (100.5, None, "live"),
        (100.0, None, "expired"),
        (None, 50.0, "revoked"),
        (150.0, 50.0, "revoked"),
        (60.0, 50.0, "revoked"),
        (50.0, 60.0, "expired"),
        (50.0, 50.0, "expired"),
    ],
)
def test_a_key_is_in_the_state_that_it_came_to_first(expires: float | None, revoked: float | None, state: str) -> None:
    assert ApiKey("a", b"", "t", "s", expires=expires, revoked=revoked).state(100.0) == state
