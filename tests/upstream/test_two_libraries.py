"""Which of two upstreams a resource is read at, and for whom."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ..server.mcp.schemas import MODERN
from ..server.mcp.talking import Client, connect
from .libraries import behind, library, listed, named, until_listed
from .library import TEMPLATE

ADA, BOB = "ty_ada_0123456789abcdef", "ty_bob_0123456789abcdef"
FITS_BOTH = "shelf://7/lines/1"


class Two:
    """A server with two libraries, First and Second, of which the second answers first."""

    def __init__(self, url: str, log: list[str], first: Path, second: Path) -> None:
        self.url, self.log, self._notes = url, log, (first, second)

    def read_at(self, client: Client, uri: str) -> list[int]:
        """Which of the two were asked for a resource."""
        before = [notes.read_text().count(f"resources/read {uri} ") for notes in self._notes]
        named(client, "resources/read", uri=uri).response()
        after = [notes.read_text().count(f"resources/read {uri} ") for notes in self._notes]
        return [place for place, (one, other) in enumerate(zip(before, after, strict=True), 1) if one != other]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("two")
    first, second = folder / "first", folder / "second"
    with ExitStack() as stack:
        upstreams = []
        for name, notes, revision in (("First", first, "2025-06-18"), ("Second", second, MODERN)):
            notes.touch()
            upstreams.append({"name": name, **stack.enter_context(library(folder, notes, revision, "stdio"))})
        variables = {"TOOLYARD_API_KEYS": f"ada:{ADA},bob:{BOB}"}
        served = stack.enter_context(behind(folder, upstreams, variables))
        url = f"{served.address}/mcp"
        client = connect(url, MODERN, ADA)
        for name in ("First", "Second"):
            until_listed(client, "prompts/list", f"{name}_greet")
        until_listed(client, "resources/templates/list", TEMPLATE["uriTemplate"])
        heard = served.hear("lists what upstreams before it in the settings have")
        yield Two(url, heard, first, second)
        client.close()


@pytest.fixture
def ada(two: Two) -> Iterator[Client]:
    made = connect(two.url, MODERN, ADA)
    yield made
    made.close()


@pytest.fixture
def bob(two: Two) -> Iterator[Client]:
    made = connect(two.url, MODERN, BOB)
    yield made
    made.close()


def test_what_both_list_is_listed_once_and_read_at_the_first(two: Two, ada: Client) -> None:
    uris = [each["uri"] for each in listed(ada, "resources/list", "resources")]
    assert uris.count("shelf://1") == 1
    assert two.read_at(ada, "shelf://1") == [1]


def test_the_log_says_so(two: Two) -> None:
    assert "Second lists" in two.log[-1]
    assert "resources/shelf://1" in two.log[-1]


def test_what_fits_templates_of_both_is_read_at_the_first(two: Two, bob: Client) -> None:
    assert two.read_at(bob, FITS_BOTH) == [1]


def test_what_a_result_named_is_read_where_that_came_from(two: Two, ada: Client) -> None:
    ada.call("Second_point", {"uri": FITS_BOTH}).result()
    assert two.read_at(ada, FITS_BOTH) == [2]
    ada.call("First_point", {"uri": FITS_BOTH}).result()
    assert two.read_at(ada, FITS_BOTH) == [1]


def test_what_is_listed_is_no_other_upstreams_for_being_named_by_it(two: Two, ada: Client) -> None:
    ada.call("Second_point", {"uri": "shelf://1"}).result()
    assert two.read_at(ada, "shelf://1") == [1]


def test_what_a_result_named_is_known_for_whoever_got_it_alone(two: Two, ada: Client, bob: Client) -> None:
    ada.call("Second_point", {"uri": "attic://9"}).result()
    assert two.read_at(ada, "attic://9") == [2]
    assert two.read_at(bob, "attic://9") == []
