"""What a stranger's lists of prompts and resources can do: nothing to the others, and nothing without an end."""

from typing import Any

import pytest

from toolyard.model.upstream import AS_THEY_ARE, Upstream
from toolyard.upstream.assets import LARGEST_ENTRY, LONGEST_URI, MOST_TEMPLATES, AssetDirectory, UpstreamAssets

PROMPTS, RESOURCES, TEMPLATES = "prompts/list", "resources/list", "resources/templates/list"


def assets(**more: Any) -> UpstreamAssets:
    return UpstreamAssets(Upstream("Hub", mcp="https://example.com/mcp", **more))


def nested(depth: int) -> Any:
    return {"a": nested(depth - 1)} if depth else 1


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"uri": "a://bad", "name": "b", "description": "x" * LARGEST_ENTRY}, "bytes, of at most"),
        ({"uri": "a://bad", "name": "b", "description": "\u202eevil"}, "hidden character at description"),
        ({"uri": "a://bad", "name": "b\u200b"}, "hidden character at name"),
        ({"uri": "a://bad", "name": "b", "_meta": {"x\u200b": 1}}, "hidden character"),
        ({"uri": "a://bad"}, "no name"),
        ({"uri": "a://bad", "name": 7}, "no name"),
        ({"uri": "a://bad", "name": "b", "title": {}}, "title is no text"),
        ({"uri": "a://bad", "name": "b", "_meta": nested(900)}, "nested too deeply"),
    ],
)
def test_one_that_cannot_be_listed_takes_no_other_with_it(bad: dict[str, Any], why: str) -> None:
    made = assets()
    assert made.take(RESOURCES, [{"uri": "a://good", "name": "g"}, bad, {"uri": "a://fine", "name": "f"}])
    assert list(made.listed[RESOURCES]) == ["a://fine", "a://good"]
    assert why in made.rejected["resources/a://bad"]


@pytest.mark.parametrize("unnamed", [{}, {"uri": 7}, {"uri": ""}, {"uri": "a://" + "x" * LONGEST_URI}, {"uri": None}])
def test_what_has_no_address_is_nothing(unnamed: dict[str, Any]) -> None:
    made = assets()
    made.take(RESOURCES, [{**unnamed, "name": "n"}, {"uri": "a://good", "name": "g"}])
    assert list(made.listed[RESOURCES]) == ["a://good"]


def test_an_upstream_has_so_many_templates() -> None:
    made = assets()
    made.take(TEMPLATES, [{"uriTemplate": f"a://{n}/{{x}}", "name": "n"} for n in range(MOST_TEMPLATES + 2)])
    assert len(made.listed[TEMPLATES]) == MOST_TEMPLATES
    assert len(made.rejected) == 2


def test_prompts_are_named_as_tools_are() -> None:
    made = assets()
    made.take(PROMPTS, [{"name": "plain"}, {"name": "two words"}, {"name": "two_words"}])
    plain, words, other = made.listed[PROMPTS]
    assert (plain, words) == ("Hub_plain", "Hub_two_words")
    assert other.startswith("Hub_two_words_")
    assert made.listed[PROMPTS][words].own == "two_words", "what needs no change keeps its name"


def test_prompts_are_called_as_they_are_where_the_settings_say_so() -> None:
    made = assets(names=AS_THEY_ARE)
    made.take(PROMPTS, [{"name": "plain"}, {"name": "two words"}])
    assert list(made.listed[PROMPTS]) == ["plain", "two words"]


def test_settings_say_which_prompts_and_resources_are_offered() -> None:
    made = assets(prompts=("p*",), resources=("a://*",))
    made.take(PROMPTS, [{"name": "plain"}, {"name": "other"}])
    made.take(RESOURCES, [{"uri": "a://1", "name": "n"}, {"uri": "b://1", "name": "n"}])
    made.take(TEMPLATES, [{"uriTemplate": "a://{x}", "name": "n"}, {"uriTemplate": "b://{x}", "name": "n"}])
    assert [list(each) for each in made.listed.values()] == [["Hub_plain"], ["a://1"], ["a://{x}"]]
    assert made.fitting("a://7")
    assert not made.fitting("b://7")


def test_a_list_that_comes_again_is_nothing_new() -> None:
    made, entries = assets(), [{"uri": "a://1", "name": "n"}, {"uri": "a://2", "name": "n"}]
    assert made.take(RESOURCES, entries)
    assert not made.take(RESOURCES, [*entries])
    assert not made.take(RESOURCES, [*reversed(entries)]), "the order says nothing"
    assert made.take(RESOURCES, entries[:1])


def test_the_first_in_the_settings_has_what_two_list(caplog: pytest.LogCaptureFixture) -> None:
    first, second, third = assets(), assets(), assets()
    all_of_them = AssetDirectory({"First": first, "Second": second, "Third": third})
    told: list[str] = []
    all_of_them.subscribe(told.append)
    for each, name in ((third, "3"), (second, "2")):
        each.take(RESOURCES, [{"uri": "a://x", "name": name}, {"uri": f"a://{name}", "name": name}])
        all_of_them.changed([RESOURCES])
    assert [key for key, _ in all_of_them.entries(RESOURCES)] == ["a://2", "a://3", "a://x"]
    assert dict(all_of_them.entries(RESOURCES))["a://x"]["name"] == "2"
    assert all_of_them.doubles("Third") == {"resources/a://x": "Second has it, too, and stands first in the settings"}
    assert all_of_them.doubles("Second") == {}
    first.take(RESOURCES, [{"uri": "a://x", "name": "1"}])
    all_of_them.changed([RESOURCES])
    assert dict(all_of_them.entries(RESOURCES))["a://x"]["name"] == "1"
    assert list(all_of_them.doubles("Second")) == ["resources/a://x"]
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in said if line.startswith("Third lists") and "resources/a://x" in line]
    assert [line for line in said if line.startswith("Second lists") and "resources/a://x" in line]
    assert told == ["resources"] * 3
