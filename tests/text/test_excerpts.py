"""Long texts are cut, and no cut leaves a part of a credential."""

import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.text.excerpts import excerpt, without_credentials
from toolyard.text.log_scrubbing import begin, end
from toolyard.text.log_scrubbing import excerpt as excerpt_of_call
from toolyard.text.scrubber import Scrubber

MOST, SIZE = 4096, 200_000
BODY = "0123456789abcdefGHIJKLMNOPQRSTUV" * 4
CREDENTIALS = {
    "key": f"ty_{BODY}",
    "jwt": f"eyJhbGciOiJIUzI1NiJ9.{BODY}.{BODY}",
    "address": f"postgresql://ada:{BODY}@db/yard",
    "bearer": f"Bearer {BODY}",
}


def parts(text: str, long: int = 8) -> set[str]:
    return {text[at : at + long] for at in range(len(text) - long + 1)}


# Near the two cuts, and where the text that is searched begins and ends.
places = st.one_of(
    *(st.integers(place - 300, place + 300) for place in (3072, 3072 + 16384, SIZE - 1024 - 16384, SIZE - 1024))
)


@settings(max_examples=200)
@given(place=places, kind=st.sampled_from(sorted(CREDENTIALS)), around=st.sampled_from([" ", "ab ", "a, "]))
def test_a_cut_leaves_nothing_of_a_credential(place: int, kind: str, around: str) -> None:
    filling = around * SIZE
    text = filling[:place] + " " + CREDENTIALS[kind] + " " + filling[: SIZE - place]
    cut = excerpt(text, MOST)
    assert len(cut) < MOST + 100
    assert not parts(BODY) & parts(without_credentials(cut))


def test_a_cut_between_the_words_of_a_header_leaves_nothing_of_it() -> None:
    header, before, after = CREDENTIALS["bearer"], "ab " * 50_000, "ab " * 200
    for more in range(1024 - len(after) - len(BODY) - 20, 1024 - len(after) + 20):
        cut = excerpt(before + header + " " * more + after, MOST)
        assert not parts(BODY) & parts(without_credentials(cut))


def test_nor_of_one_that_is_longer_than_what_is_searched() -> None:
    long = "".join(chr(ord("a") + at % 23) + str(at) for at in range(60_000))
    text = f"before https://ada:{long}@db after"
    assert excerpt(text, MOST).startswith("before  [... ")
    assert not parts(long, 12) & parts(excerpt(text, MOST), 12)


SECRET = "correct horse+battery/staple-ä"


@pytest.mark.parametrize("written", [SECRET, quote(SECRET), json.dumps(SECRET)[1:-1], SECRET.encode().hex()])
@settings(max_examples=50, deadline=None)
@given(place=places)
def test_a_cut_leaves_nothing_of_what_a_call_was_given(written: str, place: int) -> None:
    scrubber = Scrubber([("KEY", SECRET)])
    text = ("- " * SIZE)[:place] + written + ("- " * SIZE)[: SIZE - place]
    begin(scrubber)
    try:
        cut = scrubber.text(excerpt_of_call(text, MOST))
    finally:
        end(scrubber)
    assert not parts(written, 5) & parts(cut, 5)


def test_a_text_that_is_short_enough_is_left_alone() -> None:
    text = f"ty_{BODY} {'x' * 3000}"
    assert excerpt(text, MOST) is text


def test_of_a_longer_one_the_beginning_and_the_end_is_left() -> None:
    cut = excerpt("a " * 2000 + "b " * 100_000 + "c " * 2000, MOST)
    assert cut.startswith("a a a ")
    assert cut.endswith("c c c ")
    assert f" of {208_000} characters are left out " in cut


def test_what_begins_as_a_jwt_does_is_none() -> None:
    text = "eyJhbGciOiJI eyJaaaaaaaa-eyJaaaaaaaa eyJaaaaaaaa-eyJaaaaaaaa.b"
    assert without_credentials(text) == "eyJhbGciOiJI eyJaaaaaaaa-eyJaaaaaaaa [hidden]"
