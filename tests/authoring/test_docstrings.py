"""What a docstring says, in each of the styles people write."""

from typing import Any

import pytest

from toolyard.authoring.docstrings import describe

from .trying import listed


def said(docstring: str | None) -> tuple[str, dict[str, str], str | None]:
    def documented(a: int, b: int, c: int = 0) -> int:
        return a + b + c

    documented.__doc__ = docstring
    found = describe(documented)
    return found.summary, found.parameters, found.returns


GOOGLE = """Adds two numbers.

    Takes its time
    to do so.

    Args:
        a: The first,
            which goes on.
        b (int): The second: with a colon, and https://example.com.
        c (int, optional): The third. Defaults to 0.

    Returns:
        The sum: of all.

    Raises:
        ValueError: Never.
    """
NUMPY = """Adds two numbers.

    Takes its time
    to do so.

    Parameters
    ----------
    a : int
        The first,
        which goes on.
    b, c : int, optional
        The others.

    Returns
    -------
    int
        The sum.
    """
SPHINX = """Adds two numbers.

    Takes its time
    to do so.

    :param a: The first,
        which goes on.
    :param int b: The second.
    :type c: int
    :param c: The third.
    :returns: The sum.
    :rtype: int
    """
SUMMARY = "Adds two numbers.\n\nTakes its time\nto do so."


@pytest.mark.parametrize(
    ("docstring", "parameters", "returns"),
    [
        (
            GOOGLE,
            {
                "a": "The first, which goes on.",
                "b": "The second: with a colon, and https://example.com.",
                "c": "The third. Defaults to 0.",
            },
            "The sum: of all.",
        ),
        (NUMPY, {"a": "The first, which goes on.", "b": "The others.", "c": "The others."}, "The sum."),
        (SPHINX, {"a": "The first, which goes on.", "b": "The second.", "c": "The third."}, "The sum."),
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_each_style_is_read(docstring: str, parameters: dict[str, str], returns: str) -> None:
    assert said(docstring) == (SUMMARY, parameters, returns)


@pytest.mark.parametrize("docstring", [None, "", "   \n   "])
def test_no_docstring_says_nothing(docstring: str | None) -> None:
    assert said(docstring) == ("", {}, None)


@pytest.mark.parametrize(
    ("docstring", "summary", "parameters"),
    [
        ("Just this.", "Just this.", {}),
        ("A space at its end. ", "A space at its end.", {}),
        (":param a: All in one line.", "", {"a": "All in one line."}),
        ("Note: this is it.", "Note: this is it.", {}),
        ("Goes on\nin the next line.\n\nArgs:\n    a: One.", "Goes on\nin the next line.", {"a": "One."}),
        ("Été — «ça».\n\nArgs:\n    a: Ñandú.", "Été — «ça».", {"a": "Ñandú."}),
        ("Hints.\n\nHints:\n    a: not a parameter\n\nArgs:\n    b: Is.", None, {"b": "Is."}),
        ("Empty.\n\nArgs:\n    a:\n    b: Has words.", "Empty.", {"b": "Has words."}),
        ("Unknown.\n\nArgs:\n    zzz: Not a parameter.", "Unknown.", {"zzz": "Not a parameter."}),
        ("Broken.\n\n:param\n:foo", "Broken.\n\n:param\n:foo", {}),
        ("No colon.\n\nArgs:\n    a the first", "No colon.\n\nArgs:\n    a the first", {}),
        ('Code.\n\n```json\n{"a": 1}\n```\n\nArgs:\n    a: `x: y`', 'Code.\n\n```json\n{"a": 1}\n```', {"a": "`x: y`"}),
    ],
)
def test_odd_docstrings_are_taken_for_what_they_can_be(
    docstring: str, summary: str | None, parameters: dict[str, str]
) -> None:
    found = said(docstring)
    assert summary is None or found[0] == summary
    assert found[1] == parameters


def test_what_it_says_is_what_a_client_sees() -> None:
    def documented(a: int, b: int) -> int:
        """Adds.

        Args:
            a: One.
            other: Not there.
        """
        return a + b

    tool: Any = listed(documented)
    assert tool["description"] == "Adds."
    assert tool["input_schema"]["properties"] == {
        "a": {"type": "integer", "description": "One."},
        "b": {"type": "integer"},
    }


def test_the_option_wins_over_the_docstring() -> None:
    def documented() -> None:
        """From the docstring."""

    assert listed(documented, description="From the option.")["description"] == "From the option."
    assert listed(documented, description="")["description"] == "From the docstring."
