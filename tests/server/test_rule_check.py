"""Rules about tools that nobody serves are told of when the server starts."""

import logging

import pytest

from toolyard import Toolkit
from toolyard.testing import client

kit = Toolkit("Kit", version="1.0.0")


@kit.tool(tags=["money"])
def pay(cents: int) -> None:
    """Pays."""


@kit.tool
def note(text: str) -> None:
    """Notes."""


def test_rules_that_fit_nothing_are_told_of_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    rules = [{"tools": ["Kit.*", "#money", "Kti.Pay"], "over": {"cents": 1, "cent": 1}}, {"tools": "Kit.Pay@2"}]
    with client(kit, approvals=rules, access=[{"tools": "#mony"}, {}], limits=[{"tools": "Kit.P?y", "at_once": 1}]):
        pass
    (line,) = [record for record in caplog.records if record.name == "toolyard.rules"]
    assert line.levelno == logging.WARNING
    assert line.getMessage() == (
        "rules about tools or input that are not served now, and do nothing unless a worker brings them: "
        "#mony in access[1], Kti.Pay in approvals[1], Kit.Pay@2 in approvals[2], over cent in approvals[1]"
    )


def test_a_number_for_a_member_that_is_text_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with client(kit, approvals=[{"tools": "Kit.Note", "over": {"text": 3}}, {"tools": "Kit.*", "over": {"cents": 3}}]):
        pass
    (line,) = [record for record in caplog.records if record.name == "toolyard.rules"]
    assert line.getMessage().endswith("only text that is a number can exceed it: over text in approvals[1]")


def test_rules_for_whatever_comes_are_not(caplog: pytest.LogCaptureFixture) -> None:
    with client(Toolkit("None"), access=[{"tools": ["*", "@destructive", "prompts/a", "resources/b:*"]}]):
        pass
    assert [record for record in caplog.records if record.name == "toolyard.rules"] == []
