"""Which callers see and may call which tools."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from toolyard import Toolkit
from toolyard.model.caller import Visibility
from toolyard.model.patterns import tool_pattern
from toolyard.model.tool import Tool
from toolyard.trust.access.access import MOST_VIEWS, Access, read_rules
from toolyard.trust.access.identity import Identity
from toolyard.trust.access.worker_rules import WorkerRules, read_worker_rules

kit = Toolkit("Bank", version="2.1.0")


@kit.tool(read_only=True, tags=["money"])
def look() -> str:
    """Looks."""
    return ""


@kit.tool(destructive=True)
def burn() -> str:
    """Burns."""
    return ""


TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in kit.tools}
ADA = Identity("acme", "ada", "token", frozenset({"read"}), {"role": ["admin", "dev"], "level": 3, "staff": True})


def verdict(tool: str, who: Identity, *rules: dict[str, Any]) -> Visibility:
    return Access(read_rules(list(rules))).view(who).of(TOOLS[tool])


def test_without_rules_everything_is_there() -> None:
    assert verdict("Burn", ADA) == Visibility(True, rule="there are no rules")


def test_with_rules_what_none_is_about_is_not_there() -> None:
    assert verdict("Burn", ADA, {"tools": "Bank.Look"}) == Visibility(False, rule="no rule allows it")


def test_the_first_rule_that_fits_decides() -> None:
    rules: list[dict[str, Any]] = [{"tools": "@destructive", "allow": False, "name": "careful"}, {"tools": "Bank.*"}]
    assert verdict("Burn", ADA, *rules) == Visibility(False, rule="careful")
    assert verdict("Look", ADA, *rules) == Visibility(True, rule="access[2]")


@pytest.mark.parametrize(
    ("pattern", "sees"),
    [
        ("Bank.Look", True), ("Bank.*", True), ("*", True), ("B?nk.L*", True), ("bank.look", False), ("Bank*", True),
        ("#money", True), ("#mone", False), ("@read_only", True), ("@destructive", False), ("@idempotent", False),
        ("Bank.Look@2.1.0", True), ("Bank.*@2.*", True), ("Bank.Look@1", False), ("Bank.Look@2", False),
    ],
)  # fmt: skip
def test_a_pattern_is_of_an_id_a_tag_or_a_mark(pattern: str, sees: bool) -> None:
    assert verdict("Look", ADA, {"tools": pattern}).sees is sees


@pytest.mark.parametrize(
    ("who", "fits"),
    [
        ({}, True), ({"subject": "ada"}, True), ({"subject": ["bob", "a*"]}, True), ({"subject": "bob"}, False),
        ({"tenant": "acme"}, True), ({"tenant": "a"}, False), ({"subject": "ada", "tenant": "other"}, False),
        ({"scope": "read"}, True), ({"scope": ["read", "write"]}, False), ({"key": "laptop"}, False),
        ({"claim": {"role": "admin"}}, True), ({"claim": {"role": "ops"}}, False), ({"claim": {"level": "3"}}, True),
        ({"claim": {"staff": "true"}}, True), ({"claim": {"gone": "*"}}, False),
    ],
)  # fmt: skip
def test_a_rule_is_about_whoever_fits_all_of_it(who: dict[str, Any], fits: bool) -> None:
    assert verdict("Look", ADA, {"who": who}).sees is fits


def test_a_key_is_known_by_its_name_and_limited_to_its_tools() -> None:
    key = Identity("default", "laptop", "key", frozenset(), key="laptop", allow=("Bank.Look",))
    assert verdict("Look", key, {"who": {"key": "lap*"}}).sees
    assert verdict("Burn", key) == Visibility(False, rule="the key is for Bank.Look")


def test_a_keys_tools_go_by_the_same_patterns_as_a_rules() -> None:
    for pattern in ("@read_only", "#money"):
        key = Identity("default", "laptop", "key", frozenset(), key="laptop", allow=(tool_pattern(pattern),))
        assert verdict("Look", key).sees
        assert verdict("Burn", key) == Visibility(False, rule=f"the key is for {pattern}")


def test_who_lacks_scopes_sees_the_tool_and_is_told_exactly_which() -> None:
    rule = {"scopes": ["read", "write", "burn"]}
    assert verdict("Burn", ADA, rule) == Visibility(True, ("write", "burn"), "access[1]")
    view = Access(read_rules([rule])).view(ADA)
    assert view.sees(TOOLS["Burn"])
    assert not view.lists(TOOLS["Burn"])


def test_credentials_that_scopes_do_not_limit_lack_none() -> None:
    assert verdict("Burn", Identity("default", "local"), {"scopes": ["write"]}) == Visibility(True, rule="access[1]")


def test_those_of_whom_the_rules_say_the_same_share_a_view() -> None:
    access = Access(read_rules([{"who": {"subject": "a*"}}]))
    assert access.view(Identity("t", "ada")) is access.view(Identity("t", "al"))
    assert access.view(Identity("t", "ada")) is not access.view(Identity("t", "bob"))
    assert access.view(Identity("t", "ada")) is not access.view(Identity("u", "ada"))


def test_the_number_of_views_is_bounded() -> None:
    access = Access()
    for number in range(MOST_VIEWS + 10):
        access.view(Identity(f"tenant-{number}", "ada"))
    assert len(access._views) == MOST_VIEWS


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("x", "a list of tables"),
        ([1], "a list of tables"),
        ([{"tool": "*"}], "access[1] has no 'tool'"),
        ([{"tools": []}], "must name some tools"),
        ([{"tools": "a b"}], "access[1].tools: 'a b' is not a pattern. Must be a tool's id"),
        ([{"tools": "Bank"}], "is not a pattern"),
        ([{"tools": "@quick"}], "one of @read_only"),
        ([{"allow": "no"}], "access[1].allow must be true or false"),
        ([{}, {"allow": False, "scopes": ["a"]}], "access[2] forbids"),
        ([{"who": "ada"}], "access[1].who must be a table"),
        ([{"who": {"name": "ada"}}], "access[1].who has no 'name'"),
        ([{"who": {"subject": 7}}], "access[1].who.subject must be text"),
        ([{"who": {"claim": "x"}}], "access[1].who.claim must be a table"),
    ],
)
def test_a_rule_that_is_none_is_refused_with_its_place(given: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_rules(given)


def test_without_rules_a_worker_offers_what_it_likes_to_its_own_tenant() -> None:
    rule = WorkerRules().of("acme", "robot")
    assert rule is not None
    assert rule.lets("Any.Thing")
    assert (rule.tenants, rule.trusted) == ((), False)


def test_with_rules_a_worker_offers_what_the_first_one_about_it_says() -> None:
    rules = WorkerRules(
        read_worker_rules([{"who": {"subject": "robot"}, "tools": "Sms.*", "tenants": "*", "trusted": True}])
    )
    assert rules.of("acme", "eve") is None
    rule = rules.of("acme", "robot")
    assert rule is not None
    assert rule.lets("Sms.Send")
    assert not rule.lets("Bank.Burn")
    assert rule.trusted


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([{"tools": "#tag"}], "goes by ids"),
        ([{"tools": "@read_only"}], "goes by ids"),
        ([{"tools": "Sms.*@1.*"}], "goes by ids without versions"),
        ([{"who": {"scope": "a"}}], "by its subject and tenant alone"),
        ([{"trusted": 1}], "must be true or false"),
    ],
)
def test_a_workers_rule_that_is_none_is_refused(given: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_worker_rules(given)
