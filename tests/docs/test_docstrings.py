"""What the reference shows of the Python API: each name and member says what it is, its arguments are those that it
takes, and its examples do what they show."""

import doctest
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, get_overloads

import pytest
from docs.site import names

from toolyard.client.client import DEFAULT_URL

from ..conformance.serving import running


class Documented(NamedTuple):
    """A public name, or a member of one, with the text that the reference has of it."""

    name: str
    value: Any
    text: str

    @property
    def documented_arguments(self) -> list[str]:
        part = re.search(r"^Args:\n((?:(?: +.*)?\n)+)", self.text + "\n", re.MULTILINE)
        return re.findall(r"^    \*{0,2}(\w+):", part[1], re.MULTILINE) if part else []

    @property
    def taken_arguments(self) -> list[str]:
        variants = get_overloads(self.value) or [self.value]
        taken = [name for each in variants for name in inspect.signature(each).parameters]
        return [name for name in taken if name not in ("self", "function")]


def documented() -> Iterator[Documented]:
    """Everything on the reference's pages that is a class, a function or a method."""
    for name, members in ((name, members) for page in names.PAGES.values() for name, members in page.names.items()):
        module, _, last = name.rpartition(".")
        value = getattr(import_module(module), last)
        if not inspect.isclass(value) and not inspect.isfunction(value):
            continue
        yield Documented(name, value, inspect.getdoc(value) or "")
        wanted = members.split(", ") if members else [each for each in vars(value) if not each.startswith("_")]
        for each, member in ((each, vars(value).get(each)) for each in wanted):
            if isinstance(member, property | cached_property) or inspect.isfunction(member):
                yield Documented(f"{name}.{each}", member, inspect.getdoc(member) or "")


DOCUMENTED = list(documented())
by_name = pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in DOCUMENTED])


def test_the_names_are_found_with_their_members() -> None:
    found = {entry.name for entry in DOCUMENTED}
    assert {"toolyard.Toolkit", "toolyard.Toolkit.tool", "toolyard.Context.caller", "toolyard.testing.call"} <= found


@by_name
def test_a_public_name_says_what_it_is(entry: Documented) -> None:
    """A method may have the docstring of the one it overrides; a class needs its own."""
    assert entry.value.__doc__ if inspect.isclass(entry.value) else entry.text


@pytest.mark.parametrize(
    "entry", [pytest.param(entry, id=entry.name) for entry in DOCUMENTED if entry.documented_arguments]
)
def test_the_arguments_that_are_explained_are_those_that_are_taken(entry: Documented) -> None:
    assert entry.documented_arguments == entry.taken_arguments


@pytest.fixture(scope="module")
def reference_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running("open", tmp_path_factory.mktemp("docstrings")) as address:
        yield address


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in DOCUMENTED if ">>> " in entry.text])
def test_the_examples_of_a_docstring_do_what_they_show(entry: Documented, request: pytest.FixtureRequest) -> None:
    text = entry.text
    if DEFAULT_URL in text:
        text = text.replace(DEFAULT_URL, request.getfixturevalue("reference_server"))
    module = import_module(inspect.getmodule(entry.value).__name__)  # type: ignore[union-attr]
    example = doctest.DocTestParser().get_doctest(text, dict(vars(module)), entry.name, None, None)
    said: list[str] = []
    doctest.DocTestRunner().run(example, out=said.append)
    assert not said, "".join(said)
