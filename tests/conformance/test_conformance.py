"""Every row that is a request or several, against real servers: alone, in any order, and all in a row."""

from pathlib import Path

import pytest

from .conftest import Address
from .rows import Row, all_rows
from .runner import run
from .serving import running
from .walking import fresh, take_all

HTTP_ROWS = [row for row in all_rows() if row.kind == "http"]
STEP_ROWS = [row for row in all_rows() if row.kind == "steps"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in HTTP_ROWS])
def test_the_server_answers_as_the_row_says(row: Row, address: Address) -> None:
    problems = run(row, address(row.server))
    assert not problems, "\n".join([f"{row.id}: {row.title}", *problems])


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in STEP_ROWS])
def test_the_server_answers_step_by_step_as_the_row_says(row: Row, address: Address) -> None:
    problems = take_all(row.steps, address(row.server), fresh())
    assert not problems, "\n".join([f"{row.id}: {row.title}", *problems])


def test_one_fresh_server_answers_all_rows_one_after_another(tmp_path: Path) -> None:
    """The documents use one call_id for many examples, with other inputs; each still gets its own answer."""
    with running("open", tmp_path) as base_url:
        rows = [row for row in HTTP_ROWS if row.server == "open"]
        failed = {row.id: problems for row in rows if (problems := run(row, base_url))}
    assert not failed, "\n".join(f"{id}: {problems}" for id, problems in failed.items())


def test_one_fresh_server_answers_all_rows_twice(tmp_path: Path) -> None:
    """A row may be sent again: what it gets does not hang on being the first."""
    with running("open", tmp_path) as base_url:
        rows = [row for row in HTTP_ROWS if row.server == "open"] * 2
        failed = {row.id: problems for row in rows if (problems := run(row, base_url))}
    assert not failed, "\n".join(f"{id}: {problems}" for id, problems in failed.items())
