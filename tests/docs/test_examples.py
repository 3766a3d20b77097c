"""Every example on every page."""

from pathlib import Path

import pytest

from .examples import Difference, Reader, commands, fits, working_in
from .markdown import Block, blocks, pages, shown

PAGES = [page for page in pages() if any(blocks(page.read_text(encoding="utf-8")))]
MOST_SKIPPED = 6


def follow(text: str, folder: Path, page: str = "page.md", *, reference_server: bool = False) -> None:
    """What everybody reads first is followed with the command that everybody has."""
    with working_in(folder):
        reader = Reader(folder, reference_server=reference_server, is_warm=page != "README.md")
        try:
            for block in blocks(text):
                reader.follow(block, page)
        finally:
            reader.close()


@pytest.mark.parametrize("page", [pytest.param(page, id=shown(page)) for page in PAGES])
def test_every_example_on_the_page_does_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    """The protocols' pages speak to the reference tools; the others start their own servers."""
    protocols = page.parent.name == "protocols"
    follow(page.read_text(encoding="utf-8"), tmp_path, shown(page), reference_server=protocols)


def test_few_examples_are_skipped_and_each_says_why() -> None:
    skipped = [(shown(page), block) for page in PAGES for block in blocks(page.read_text()) if "skip" in block.options]
    assert len(skipped) <= MOST_SKIPPED
    assert all(len(block.options["skip"]) > 10 for _, block in skipped), skipped


# --- the runner itself ----------------------------------------------------------------------------


def test_a_block_has_a_language_options_a_line_and_a_section() -> None:
    assert list(blocks('# Page\n\n## Part\n\n```python title="a b.py"\nx = 1\n```\n')) == [
        Block("python", "x = 1\n", 6, 1, {"title": "a b.py"})
    ]


def test_a_command_may_go_on_over_lines_and_prints_what_is_below_it() -> None:
    first, second = commands("$ one \\\n    more\nprinted\n\nmore\n$ two\n")
    assert (first.text, first.output) == ("one \\\n    more", "printed\n\nmore\n")
    assert (second.text, second.output) == ("two", "")


@pytest.mark.parametrize(
    ("shown", "happened"), [("a … c", "a b c"), ("a\n…\nd", "a\nb\nc\nd"), ('"duration":1', '"duration":2.5')]
)
def test_an_ellipsis_stands_for_anything_and_durations_are_not_compared(shown: str, happened: str) -> None:
    assert fits(shown, happened)


def test_what_is_not_shown_does_not_fit() -> None:
    assert not fits("a … c", "a b d")


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```python\n1 + 1  # => 3\n```", "=> 2"),
        ("```python\n1 / 0  # => 3\n```", "ZeroDivisionError"),
        ("```python\n1 + 1  # raises ZeroDivisionError\n```", "=> 2"),
        ("```console\n$ echo a\nb\n```", "--- happened:\na"),
        ("```console\n$ false\n```", "ended with 1, and the page does not show it"),
        ("```console\n$ false\n$ echo $?\n2\n```", "--- happened:\n1"),
        ('```python title="a.py"\n```', "not used by any example: a.py"),
        ("```json\n{}\n```", "cannot be run: json"),
    ],
)
def test_a_page_that_is_wrong_is_found_out(page: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(Difference, match=complaint):
        follow(page, tmp_path)


def test_exports_and_folders_last_until_the_section_ends(tmp_path: Path) -> None:
    first = "```console\n$ export A=1; mkdir b; cd b\n$ echo $A ${PWD##*/}\n1 b\n```\n"
    follow(first + "## Next\n```console\n$ echo $A.\n.\n```", tmp_path)


def test_a_later_block_sees_the_newest_version_of_a_file(tmp_path: Path) -> None:
    written = '```python title="a_file.py"\nx = {}\n```\n```python\nfrom a_file import x\nx  # => {}\n```\n'
    follow(written.format(1, 1) + written.format(2, 2), tmp_path)
