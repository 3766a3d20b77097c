"""One text for some bytes, and no other is taken."""

import pytest

from toolyard.text.base64url import decoded, encoded


@pytest.mark.parametrize("content", [b"", b"a", b"ab", b"abc", bytes(range(256)), b"\xff\xfe\xfd\xfb"])
def test_what_was_encoded_is_decoded(content: bytes) -> None:
    assert decoded(encoded(content)) == content


@pytest.mark.parametrize(
    "text", ["YQ==", "YQ=", "YR", "Y Q", "YQ\n", "YQ!", "+/+/", "Y", "\u00e4", "YQ.", "=", "YWJj===="]
)
def test_no_other_spelling_is_taken(text: str) -> None:
    with pytest.raises(ValueError, match="base64url"):
        decoded(text)
