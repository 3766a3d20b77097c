"""Which addresses fit a template, and how long it takes to see that."""

import time

import pytest

from toolyard.upstream.assets import LONGEST_URI, UriTemplate


@pytest.mark.parametrize(
    ("template", "fitting", "others"),
    [
        ("a://{x}", ["a://1", "a://1%2F2"], ["a://", "a://1/2", "a://1?q", "b://1", "xa://1"]),
        ("a://{x}/b", ["a://1/b"], ["a:///b", "a://1/b/", "a://1/2/b", "a://1/c"]),
        ("a://{x}.json", ["a://1.json", "a://1.2.json"], ["a://.json", "a://1.xml"]),
        ("a://{+path}", ["a://1", "a://1/2?q#f", "a://"], ["b://1"]),
        ("a://{x}/{+path}.txt", ["a://1/2/3.txt", "a://1/2.txt.txt"], ["a://1/2.txt/", "a://1"]),
        ("a://b{/path*}", ["a://b", "a://b/c/d"], ["a://"]),
        ("a://b{?q,r}", ["a://b", "a://b?q=1&r=2"], ["a://c"]),
        ("a://b", ["a://b"], ["a://b/", "a://"]),
        ("a://{x}{y}", ["a://12"], ["a://1/2"]),
        ("file:///{+path}", ["file:///etc/hosts"], ["file://etc/hosts"]),
    ],
)
def test_what_fits(template: str, fitting: list[str], others: list[str]) -> None:
    made = UriTemplate(template)
    assert [uri for uri in [*fitting, *others] if made.fits(uri)] == fitting


@pytest.mark.parametrize("greedy", ["{+all}", "{scheme}://x", "/{path}", "", "no scheme {x}"])
def test_one_that_names_no_scheme_has_no_address_of_its_own(greedy: str) -> None:
    with pytest.raises(ValueError, match="scheme"):
        UriTemplate(greedy)


def test_no_template_takes_long_with_any_address() -> None:
    """With one that is tried in every way this would take longer than the universe has been there."""
    made = UriTemplate("a://" + "{+x}a" * 200 + "{y}b")
    began = time.process_time()
    assert not made.fits("a://" + "a" * LONGEST_URI)
    assert time.process_time() - began < 1
