"""Loading an author's file: what a target may be, and one sentence with file and line for what goes wrong."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolyard import App, Toolkit
from toolyard.model.errors import DefinitionError, SetupError
from toolyard.model.run import Source
from toolyard.runners.loader import load, sources_of
from toolyard.testing import call

from .imports import forgetting

KIT = """
from toolyard import Toolkit

kit = Toolkit("{name}", version="1.0.0")

@kit.tool
def ping() -> str:
    "Pings."
    return "{name}"
"""

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test has a folder that Python does not look into by itself."""
    monkeypatch.chdir(tmp_path)
    with forgetting(tmp_path):
        sys.path[:] = [path for path in sys.path if path not in ("", os.getcwd())]
        yield


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_file


def ids(sources: list[Source]) -> list[str]:
    return [tool.id for source in sources for tool in source.tools]


# --- what a target may be ------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["tools.py", "./tools.py", "../{folder}/tools.py", "{path}/tools.py", "tools"])
@pytest.mark.parametrize("name", ["", ":kit"])
def test_a_file_is_found_by_any_path_and_as_a_module(write: Write, tmp_path: Path, target: str, name: str) -> None:
    write("tools.py", KIT.format(name="Ping"))
    sources = load(target.format(folder=tmp_path.name, path=tmp_path) + name)
    assert ids(sources) == ["Ping.Ping"]
    expected = f"tools{name}" if target == "tools" else f"{tmp_path / 'tools.py'}{name}"
    assert sources[0].host.target == expected


@pytest.mark.parametrize("name", ["my-tools.py", "with space.py", "2nd.py", "été.py"])
def test_a_file_need_not_be_named_like_a_module(write: Write, name: str) -> None:
    write(name, KIT.format(name="Ping"))
    assert ids(load(name)) == ["Ping.Ping"]


def test_a_module_of_a_package(write: Write) -> None:
    write("shop/__init__.py", "")
    write("shop/names.py", "NAME = 'Shop'")
    write("shop/tools.py", "from .names import NAME\n" + KIT.replace('"{name}", v', "NAME, v").format(name="x"))
    assert ids(load("shop.tools")) == ["Shop.Ping"]
    assert ids(load("shop.tools:kit")) == ["Shop.Ping"]


def test_a_package_that_offers_its_toolkits_itself(write: Write) -> None:
    write("shop/__init__.py", "from .tools import kit")
    write("shop/tools.py", KIT.format(name="Shop"))
    assert ids(load("shop")) == ["Shop.Ping"]


def test_a_file_imports_its_siblings(write: Write) -> None:
    write("deep/names.py", "NAME = 'Sibling'")
    write("deep/tools.py", "from names import NAME\n" + KIT.replace('"{name}", v', "NAME, v").format(name="x"))
    assert ids(load("deep/tools.py")) == ["Sibling.Ping"]


def test_two_files_with_the_same_name_are_two(write: Write) -> None:
    write("tools.py", KIT.format(name="One"))
    write("more/tools.py", KIT.format(name="Two"))
    write("json.py", KIT.format(name="Json"))
    assert ids([*load("tools.py"), *load("more/tools.py"), *load("./json.py")]) == ["One.Ping", "Two.Ping", "Json.Ping"]


def test_the_same_file_twice_is_one(write: Write) -> None:
    write("tools.py", KIT.format(name="Ping") + "\nprint_once = object()")
    assert load("tools.py")[0] is load("./tools.py:kit")[0] is load("tools")[0]


def test_a_toolkit_that_a_sibling_offers_again_is_the_same(write: Write) -> None:
    write("tools.py", KIT.format(name="Ping"))
    write("again.py", "from tools import kit")
    assert load("again.py")[0] is load("tools.py")[0]


def test_a_file_with_several_toolkits_offers_all(write: Write) -> None:
    write(
        "tools.py", KIT.format(name="One") + KIT.format(name="Two").replace("kit ", "other ").replace("@kit", "@other")
    )
    assert ids(load("tools.py")) == ["One.Ping", "Two.Ping"]
    assert ids(load("tools.py:other")) == ["Two.Ping"]


def test_a_toolkit_with_two_names_is_offered_once(write: Write) -> None:
    write("tools.py", KIT.format(name="One") + "\nagain = kit")
    assert ids(load("tools.py")) == ["One.Ping"]


APP = "\nfrom toolyard import App\napp = App(kit)\nalone = Toolkit('Alone')\n"


def test_an_app_stands_for_its_toolkits(write: Write) -> None:
    write("tools.py", KIT.format(name="One") + APP)
    sources = load("tools.py")
    assert [type(source) for source in sources] == [App]
    assert ids(sources) == ["One.Ping"]
    assert [type(source) for source in load("tools.py:alone")] == [Toolkit]


def test_several_apps_must_be_chosen_from(write: Write) -> None:
    write("tools.py", KIT.format(name="One") + APP + "\nsecond = App()")
    with pytest.raises(
        DefinitionError, match=r"^tools\.py: has several apps; choose one: tools\.py:app or tools\.py:second"
    ):
        load("tools.py")
    assert [type(source) for source in load("tools.py:second")] == [App]


def test_an_app_with_two_names_is_one(write: Write) -> None:
    write("tools.py", KIT.format(name="One") + APP + "\nsame = app")
    assert len(load("tools.py")) == 1


# --- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("missing.py", "missing.py does not exist"),
        ("no/such.py", "no/such.py does not exist"),
        ("missing", "there is no module 'missing' (for a file, write missing.py)"),
        ("missing.tools", "there is no module 'missing.tools' (for a file, write missing.tools.py)"),
        ("shop.missing", "there is no module 'shop.missing' (for a file, write shop.missing.py)"),
        ("shop", "shop is a folder; name a file in it, such as shop/tools.py"),
        ("./shop", "shop is not a file"),
        ("folder.py", "folder.py is not a file"),
        ("data.txt", "data.txt is not a Python file"),
        ("./data.txt", "data.txt is not a Python file"),
        (".", "'.' is neither a file nor a module; write tools.py or package.module"),
        ("", "'' is neither a file nor a module; write tools.py or package.module"),
        (":kit", "'' is neither a file nor a module; write tools.py or package.module"),
        ("tools.py:nothing", "tools.py: 'nothing' is not a Toolkit or an App of tools.py; it has kit"),
        ("tools.py:ping", "tools.py: 'ping' is not a Toolkit or an App of tools.py; it has kit"),
        ("empty.py:kit", "empty.py: 'kit' is not a Toolkit or an App of empty.py; it has none"),
        ("empty.py", "empty.py: has no tools; write: from toolyard import Toolkit, then "
         'kit = Toolkit("Name") and @kit.tool'),
        ("os.path", "os.path: has no tools; write: from toolyard import Toolkit, then "
         'kit = Toolkit("Name") and @kit.tool'),
    ],
)  # fmt: skip
def test_a_target_that_is_not_there_is_refused(write: Write, target: str, sentence: str) -> None:
    write("tools.py", KIT.format(name="Ping"))
    write("shop/other.py", "")
    write("folder.py/other.py", "")
    write("data.txt", "x = 1")
    write("empty.py", "x = 1")
    with pytest.raises(SetupError, match=f"^{re.escape(sentence)}$"):
        load(target)


BROKEN: list[tuple[str, str | bytes, int | None, str]] = [
    # what, the file, its line, the sentence
    ("syntax", "x = 1\ndef (:\n", 2, "syntax error: invalid syntax"),
    ("indentation", "x = 1\n  y = 2\n", 2, "syntax error: unexpected indent"),
    ("unclosed", "x = (1,\n", 1, "syntax error: '(' was never closed"),
    ("encoding", "# -*- coding: nonsense -*-\n", None, "syntax error: unknown encoding: nonsense"),
    ("binary", b"\xff\xfe", 1, "syntax error: "),
    ("raises", "x = 1\n\n1 / 0\n", 3, "RAISED ZeroDivisionError: division by zero"),
    ("in a function", "def f():\n    raise KeyError\nf()\n", 2, "RAISED KeyError: no message"),
    ("in a library", "import json\n\njson.loads('{')\n", 3, "RAISED JSONDecodeError: Expecting"),
    ("in pydantic", "import pydantic\npydantic.TypeAdapter(int).validate_python('x')", 2,
     "RAISED ValidationError: 1 validation error for int Input should be a valid integer"),
    ("missing module", "import no_such_module\n", 1, "RAISED ModuleNotFoundError: No module named"),
    ("missing name", "from os import nothing\n", 1, "RAISED ImportError: cannot import name"),
    ("relative", "from . import sibling\n", 1, "RAISED ImportError: attempted relative import"),
    ("exit", "import sys\nsys.exit(3)\n", 2, "RAISED SystemExit: 3"),
    ("several lines", "raise ValueError('one\\n\\n  two')\n", 1, "RAISED ValueError: one two"),
    ("no type", KIT.format(name="P").replace("ping()", "ping(a)"), 6, "ping has a parameter 'a' without a type"),
    ("bad name", "from toolyard import Toolkit\n\nToolkit('a b')\n", 3, "'a b' cannot name a toolkit"),
]  # fmt: skip


@pytest.mark.parametrize("as_module", [False, True], ids=["file", "module"])
@pytest.mark.parametrize(("text", "line", "sentence"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_file_that_does_not_load_says_why_and_where(
    write: Write, text: str | bytes, line: int | None, sentence: str, as_module: bool
) -> None:
    path = write("broken_tools.py", text)
    with pytest.raises(DefinitionError) as refusal:
        load("broken_tools" if as_module else "broken_tools.py")
    error = refusal.value
    assert error.message.startswith(sentence.replace("RAISED", "cannot be loaded, it raised"))
    assert error.place is not None
    assert (Path(error.place.file), error.place.line) == (path, line)
    assert "\n" not in str(error)
    assert "broken_tools" not in sys.modules


def test_what_was_raised_stays_behind_the_sentence(write: Write) -> None:
    write("tools.py", "1 / 0")
    with pytest.raises(DefinitionError) as refusal:
        load("tools.py")
    assert isinstance(refusal.value.__cause__, ZeroDivisionError)


def test_an_error_in_a_sibling_names_the_sibling(write: Write) -> None:
    sibling = write("sibling.py", "x = 1\n1 / 0\n")
    broken = write("broken.py", "def (:\n")
    write("tools.py", "import sibling\n")
    write("others.py", "import broken\n")
    for target, path, line in (("tools.py", sibling, 2), ("others.py", broken, 1)):
        with pytest.raises(DefinitionError) as refusal:
            load(target)
        assert str(refusal.value).startswith(f"{path}:{line}: ")


def test_a_missing_import_of_a_module_is_not_taken_for_the_module(write: Write) -> None:
    write("tools.py", "import no_such_module")
    with pytest.raises(DefinitionError, match="No module named 'no_such_module'"):
        load("tools")


def test_a_file_that_did_not_load_may_be_mended(write: Write) -> None:
    write("tools.py", "1 / 0")
    with pytest.raises(DefinitionError):
        load("tools.py")
    write("tools.py", KIT.format(name="Mended") + "\n# another size, whatever the clock says\n")
    assert ids(load("tools.py")) == ["Mended.Ping"]


def test_an_interrupt_is_not_an_authors_error(write: Write) -> None:
    write("tools.py", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load("tools.py")


# --- apps and the toolkits beside them -----------------------------------------------------------

SHARED = """
from contextlib import asynccontextmanager
from toolyard import App, Context, Toolkit

kit, other = Toolkit("Kit"), Toolkit("Other")

@kit.tool
async def ping(ctx: Context) -> str:
    "Pings."
    return ctx.resources

@other.tool
async def pong() -> str:
    "Pongs."
    return "pong"

@asynccontextmanager
async def lifespan():
    yield "made"

app = App(kit, other, lifespan=lifespan)

@app.around
async def shout(run, proceed):
    return (await proceed()) + "!"
"""


def test_a_toolkit_by_name_has_the_lifespan_and_hooks_of_its_app(write: Write) -> None:
    write("tools.py", SHARED)
    sources = load("tools.py:kit")
    assert ids(sources) == ["Kit.Ping"]
    assert call(sources[0], "Kit.Ping") == "made!"
    assert load("tools.py:kit")[0].host.target == str(Path("tools.py").resolve()) + ":kit"


def test_a_toolkit_of_several_apps_is_refused_by_name(write: Write) -> None:
    write("tools.py", SHARED + "\nsecond = App(kit)\n")
    with pytest.raises(DefinitionError, match=r"'kit' is in several apps; choose one: tools.py:app or tools.py:second"):
        load("tools.py:kit")
    assert ids(load("tools.py:second")) == ["Kit.Ping"]


def test_a_toolkit_beside_an_app_is_not_left_out_without_a_word(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    write("base.py", SHARED)
    write(
        "tools.py",
        "from base import app, kit\n" + KIT.format(name="Mine").replace("kit ", "mine ").replace("@kit", "@mine"),
    )
    assert ids(sources_of(["tools.py"])) == ["Kit.Ping", "Other.Pong"]
    assert [record.getMessage() for record in caplog.records] == [
        "tools.py: mine is not served: it is not in the app; write App(…, mine), or serve tools.py:mine too"
    ]
    assert ids(sources_of(["tools.py", "tools.py:mine"])) == ["Kit.Ping", "Other.Pong", "Mine.Ping"]


# --- installed packages --------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs a package as an installer does: its modules, and what its metadata says."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))

    def install(name: str, entry_points: str, **modules: str) -> None:
        about = site / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(entry_points)
        for module, text in modules.items():
            (site / f"{module}.py").write_text(text)

    return install


def test_an_installed_package_says_where_its_tools_are(write: Write, installed: Any) -> None:
    points = "[toolyard.tools]\none = inst_one:kit\ntwo = inst_two\n\n[other]\nx = nowhere\n"
    installed("Many-Tools", points, inst_one=KIT.format(name="One") + APP, inst_two=KIT.format(name="Two"))
    for name in ("Many-Tools", "many_tools"):
        sources = load(name)
        assert ids(sources) == ["One.Ping", "Two.Ping"]
    assert [source.host.target for source in sources] == ["inst_one:kit", "inst_two"], "for a child process"


def test_what_a_package_says_comes_before_a_module_of_its_name(write: Write, installed: Any) -> None:
    write("inst_same.py", KIT.format(name="Module"))
    installed("inst_same", "[toolyard.tools]\na = inst_meant\n", inst_meant=KIT.format(name="Package"))
    assert ids(load("inst_same")) == ["Package.Ping"]
    assert ids(load("inst_same:kit")) == ["Module.Ping"]


@pytest.mark.parametrize("module", ["inst_none", "other"])
def test_a_package_without_tools_is_told_what_to_write(write: Write, installed: Any, module: str) -> None:
    installed("inst-none", "[console_scripts]\na = b:c\n", **{module: "x = 1"})
    with pytest.raises(SetupError) as refused:
        load("inst-none" if module == "other" else "inst_none")
    assert refused.value.message.endswith(
        " is installed and does not say where its tools are; write in its pyproject.toml: "
        '[project.entry-points."toolyard.tools"] and below it inst_none = "inst_none.tools:toolkit", '
        "and install it again"
    )


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (
            "inst_gone.tools:kit",
            "inst-wrong says in its entry points that its tools are at inst_gone.tools:kit, and there is no module "
            "'inst_gone.tools' (for a file, write inst_gone.tools.py)",
        ),
        ("inst_there:nothing", "inst_there: 'nothing' is not a Toolkit or an App of inst_there; it has kit"),
    ],
)
def test_entry_points_that_lead_nowhere_are_named(write: Write, installed: Any, value: str, sentence: str) -> None:
    installed("inst-wrong", f"[toolyard.tools]\na = {value}\n", inst_there=KIT.format(name="There"))
    with pytest.raises(SetupError) as refused:
        load("inst-wrong")
    assert str(refused.value) == sentence
