"""`toolyard call` and `toolyard list`: words into values, results and failures onto the screen, exit codes."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from toolyard.cli.verbs.call import typed

from ..authoring.trying import schema_of
from ..conformance.serving import free_port
from .conftest import TOOLS
from .processes import Ended, Served, serving, toolyard

KEY = "ty_0123456789abcdef"


@pytest.fixture
def ask(here: Any, server: Served, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A verb, with the server's address in the environment."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TOOLYARD_SERVER", server.address)
    return here


# --- words ---------------------------------------------------------------------------------------

WORDS: list[tuple[Any, str, Any]] = [
    (str, "10", "10"),
    (str, "true", "true"),
    (str, "null", "null"),
    (str, '{"a": 1}', '{"a": 1}'),
    (str, '"quoted"', '"quoted"'),
    (str, "", ""),
    (str, "a=b", "a=b"),
    (int, "10", 10),
    (int, "-3", -3),
    (int, "ten", "ten"),
    (float, "10", 10),
    (float, "1e3", 1000.0),
    (float, "infinity", "infinity"),
    (float, "NaN", "NaN"),
    (bool, "true", True),
    (bool, "True", "True"),
    (list[int], "[1, 2]", [1, 2]),
    (list[int], "1,2", "1,2"),
    (list[str], '["1"]', ["1"]),
    (dict[str, Any], '{"a": {"b": [1]}}', {"a": {"b": [1]}}),
    (int | str, "5", 5),
    (int | str, "five", "five"),
    (int | str, '"5"', "5"),
    (int | str, "true", "true"),
    (int | None, "5", 5),
    (int | None, "null", None),
    (str | None, "5", "5"),
    (str | None, "null", None),
    (str | None, '"null"', "null"),
    (list[str] | str, '["a"]', ["a"]),
    (list[str] | str, "5", "5"),
    (float | str, "1", 1),
    (bool | str, "true", True),
    (Literal["1", "2"], "1", "1"),
    (Literal["a", 1], "1", 1),
    (Literal["a", 1], "a", "a"),
    (Literal["a", None], "null", None),
    (Any, "1", 1),
    (Any, "hello", "hello"),
    (Any, '"1"', "1"),
]


@pytest.mark.parametrize(("type_", "word", "value"), WORDS, ids=str)
def test_a_word_becomes_what_its_parameter_takes(type_: Any, word: str, value: Any) -> None:
    got = typed({"value": word}, {"properties": {"value": schema_of(type_)}})["value"]
    assert (got, type(got)) == (value, type(value))


def test_words_arrive_typed(server: Served, folder: Path) -> None:
    words = ["text=10", "number=10", "switch=true", "many=[1,2]", 'point={"x":3}', "either=5", "maybe=5", "any=x=y"]
    address = {"TOOLYARD_SERVER": server.address}
    shown = toolyard("call", "Kit.Show@1.0.0", *words, folder=folder, variables=address)
    assert shown.out == "['10', 10, True, [1, 2], Point(x=3), 5, '5', 'x=y']\n"
    assert (shown.code, shown.err) == (0, "")


def test_words_are_typed_for_the_version_that_is_called(ask: Any) -> None:
    assert ask("call", "Kit.Show", "number=10").out == "'10'\n"
    assert ask("call", "Kit.Show@2", "number=10").out == "'10'\n"
    assert ask("call", "Kit.Show@1", "number=10").out.startswith("['', 10,")


# --- results -------------------------------------------------------------------------------------


def test_a_number_is_printed_as_one(ask: Any) -> None:
    assert ask("call", "Kit.Add", "a=10", "b=5") == Ended(0, "15\n", "")


def test_a_structure_is_printed_as_json(ask: Any) -> None:
    assert ask("call", "Kit.Point") == Ended(0, '{\n  "x": 1\n}\n', "")


def test_nothing_is_printed_as_nothing(ask: Any) -> None:
    assert ask("call", "Kit.Nothing") == Ended(0, "", "")


def test_json_prints_the_whole_result(ask: Any) -> None:
    ended = ask("call", "Kit.Add", "a=10", "b=5", "--json", "--call-id", "whole")
    body = json.loads(ended.out)
    assert body.pop("duration") >= 0
    assert body == {"call_id": "whole", "success": True, "value": 15}
    assert ended.code == 0


# --- failures ------------------------------------------------------------------------------------


def test_invalid_input_says_which_parameter_what_was_expected_and_what_it_got(ask: Any) -> None:
    ended = ask("call", "Kit.Add", "a=10", "b=infinity")
    assert ended == Ended(1, "", 'Some input parameters are invalid\n  b: Must be a number (got "infinity")\n')


def test_missing_and_unknown_parameters_are_named(ask: Any) -> None:
    ended = ask("call", "Kit.Add", "a=1", "c=2")
    assert ended.code == 1
    assert sorted(ended.err.splitlines()[1:]) == ["  b: Is required", "  c: Is not a known parameter (got 2)"]


def test_a_failure_on_purpose_is_told(ask: Any) -> None:
    assert ask("call", "Kit.Fail") == Ended(1, "", "It is closed\n  try Monday\n")


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_what_is_for_developers_is_shown_where_it_is_wished(ask: Any, option: str) -> None:
    assert ask("call", "Kit.Fail", option) == Ended(1, "", "It is closed\n  try Monday\n  on Sundays\n")
    assert ask("call", "Kit.Nowhere", option).err.endswith("\n  Kit.Nowhere is not a tool of this server\n")


def test_a_failure_as_json_is_whole_and_on_standard_output(server: Served, folder: Path) -> None:
    ended = toolyard("call", "Kit.Fail", "--json", "--server", server.address, folder=folder)
    assert (ended.code, ended.err) == (1, "")
    body = json.loads(ended.out)
    assert body["success"] is False
    assert body["error"] == {
        "kind": "ToolError",
        "message": "It is closed",
        "developer_message": "on Sundays",
        "can_retry": False,
        "additional_prompt_content": "try Monday",
    }


def test_refusals_as_json_name_what_is_wrong(ask: Any) -> None:
    invalid = json.loads(ask("call", "Kit.Add", "a=1", "b=x", "--json").out)
    assert invalid["error"]["parameter_errors"] == {"b": "Must be a number"}
    missing = json.loads(ask("call", "Kit.Needs", "--json").out)["error"]["missing_requirements"]
    assert (missing["secrets"], missing["user_id"], len(missing["authorization"])) == (["KEY"], True, 1)


def test_a_crash_does_not_show_its_text(ask: Any) -> None:
    ended = ask("call", "Kit.Crash")
    assert ended.code == 1
    assert ended.err == "Kit.Crash failed unexpectedly\n"


def test_an_unknown_tool_is_not_found(ask: Any) -> None:
    ended = ask("call", "Kit.Nowhere", "a=1")
    assert ended.code == 1
    assert ended.err == "Tool 'Kit_Nowhere' was not found\n  (-v says more)\n"


def test_what_a_tool_needs_can_be_passed(ask: Any) -> None:
    needed = ["--secret", "KEY=k=1", "--token", "google=t", "--user-id", "ada", "--call-id", "c-1"]
    assert json.loads(ask("call", "Kit.Needs", *needed).out) == ["k=1", "t", "ada", "c-1"]


def test_what_a_tool_lacks_is_told_with_how_to_pass_it(ask: Any) -> None:
    ended = ask("call", "Kit.Needs")
    assert ended.code == 1
    assert "  pass --secret KEY=…" in ended.err
    assert "  pass --user-id …" in ended.err
    assert "  open http://" in ended.err


# --- where input comes from ----------------------------------------------------------------------


def test_input_may_be_json_a_file_or_standard_input(ask: Any, server: Served, folder: Path) -> None:
    (folder / "input.json").write_text('{"a": 2, "b": 3}', encoding="utf-8")
    assert ask("call", "Kit.Add", "--input", '{"a": 1, "b": 2}').out == "3\n"
    assert ask("call", "Kit.Add", "--input", "@input.json").out == "5\n"
    piped = ["call", "Kit.Add", "--input", "-", "--server", server.address]
    assert toolyard(*piped, folder=folder, input='{"a": 3, "b": 4}').out == "7\n"
    assert ask("call", "Kit.Add", "b=10", "--input", '{"a": 1, "b": 2}').out == "11\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a"], "'a' is not NAME=VALUE"),
        (["=1"], "'=1' is not NAME=VALUE"),
        (["--input", "{"], "--input is not a JSON object: "),
        (["--input", "[1]"], "--input is not a JSON object: "),
        (["--input", "@none.json"], "--input: none.json: No such file or directory"),
        (["--secret", "KEY"], "'KEY' is not ID=VALUE"),
        (["--token", "=x"], "'=x' is not PROVIDER=TOKEN"),
        (
            ["--server", "localhost:8000"],
            "--server must be an address such as http://127.0.0.1:8000, got 'localhost:8000'",
        ),
    ],
)
def test_what_cannot_be_asked_ends_with_2_and_a_sentence(here: Any, arguments: list[str], sentence: str) -> None:
    ended = here("call", "Kit.Add", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"toolyard: {sentence}")
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["call"], ["call", "--nonsense"], ["nonsense"], ["list", "too", "many"]])
def test_a_command_line_that_cannot_be_read_ends_with_2(here: Any, arguments: list[str]) -> None:
    ended = here(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Error: " in ended.err


# --- where it is asked ---------------------------------------------------------------------------


def test_a_file_is_called_without_a_server(folder: Path) -> None:
    assert toolyard("call", "Kit.Add", "a=10", "b=5", "--file", "tools.py", folder=folder) == Ended(0, "15\n", "")
    missing = toolyard("call", "Kit.Add", "--file", "none.py", folder=folder)
    assert missing == Ended(2, "", "toolyard: none.py does not exist\n")


def test_the_servers_address_is_an_option_or_a_variable(
    here: Any, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLYARD_SERVER", f"http://127.0.0.1:{free_port()}")
    assert here("call", "Kit.Nothing").code == 1
    assert here("call", "Kit.Nothing", "--server", server.address + "/").code == 0


@pytest.mark.parametrize("verb", [["call", "-v", "Kit.Add", "a=1", "b=2"], ["list"]])
def test_a_server_that_is_not_there_is_named(folder: Path, verb: list[str]) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    ended = toolyard(*verb, "--server", nobody, folder=folder)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[0] == f"No answer from {nobody}; is the server running?"
    assert "Connection refused" in ended.err
    assert "Traceback" not in ended.err


def test_a_key_is_an_option_or_a_variable(here: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"TOOLYARD_API_KEYS": KEY, "TOOLYARD_STORE": "sqlite:locked.db"}
    with serving("tools.py", folder=folder, variables=variables) as locked:
        monkeypatch.setenv("TOOLYARD_SERVER", locked.address)
        refused = here("call", "Kit.Nothing")
        by_option = here("call", "Kit.Nothing", "--key", KEY)
        wrong = here("list", "--key", "ty_wrong_wrong_wrong")
        monkeypatch.setenv("TOOLYARD_KEY", KEY)
        by_variable = here("list")
    assert (refused.code, by_option.code, by_variable.code, wrong.code) == (1, 0, 0, 1)
    assert refused.err.startswith("Credentials are needed\n")
    assert wrong.err.startswith("The credentials are not valid\n")


# --- list ----------------------------------------------------------------------------------------


def test_a_list_has_a_line_for_each_tool(server: Served, folder: Path) -> None:
    ended = toolyard("list", folder=folder, variables={"TOOLYARD_SERVER": server.address})
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert len(lines) == TOOLS.count("@kit.tool") - 1
    assert lines[0] == "Kit.Add@1.0.0      Adds two numbers together."
    assert "Kit.Show@2.0.0     Shows a text, whatever it is called." in lines


def test_a_list_may_hold_every_version_and_be_json(ask: Any) -> None:
    every = ask("list", "--all").out
    assert "Kit.Show@1.0.0" in every
    assert "Kit.Show@2.0.0" in every
    tools = json.loads(ask("list", "--json").out)
    assert tools[0]["input_schema"]["required"] == ["a", "b"]
    assert ask("list", "--file", "tools.py").out == ask("list").out
