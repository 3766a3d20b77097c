"""What is shipped: a source distribution, and a wheel that is made from it, installed where there is nothing else."""

import os
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.serving import free_port, stop, wait_until_healthy
from toolyard.version import VERSION

ROOT = Path(__file__).parents[2]
NO_COMPILER = {"PATH": "/nowhere", "CC": "/nowhere/cc", "CXX": "/nowhere/c++"}
OUT_OF_REACH = ("Temporary failure in name resolution", "NewConnectionError", "Name or service not known")
DEADLINE_S = 120.0


def run(*arguments: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(arguments, cwd=cwd, env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0 and any(each in done.stderr for each in OUT_OF_REACH):
        pytest.skip("the package index is out of reach")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind: str, source: Path, into: Path) -> Path:
    """Without isolation: what it takes is here already."""
    run(sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", into, cwd=source)
    (made,) = into.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from what is in it."""
    folder = tmp_path_factory.mktemp("built")
    sources = build("sdist", ROOT, folder / "sdist")
    with tarfile.open(sources) as archive:
        archive.extractall(folder, filter="data")
    return sources, build("wheel", folder / f"toolyard-{VERSION}", folder / "wheel")


def test_the_index_would_take_them(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    checked = run(sys.executable, "-m", "twine", "--no-color", "check", "--strict", *distributions, cwd=tmp_path)
    assert checked.count("PASSED") == 2


def test_the_source_distribution_has_what_the_tests_need_and_nothing_that_was_made(
    distributions: tuple[Path, Path],
) -> None:
    with tarfile.open(distributions[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Makefile", "LICENSE", "tests/conftest.py", "deploy/Containerfile"} <= names
    assert not [name for name in names if name.endswith((".pyc", ".db", ".key")) or "/.venv" in name]


@contextmanager
def serving(command: Path, folder: Path, environment: dict[str, str]) -> Iterator[str]:
    port, log = free_port(), folder / "log"
    with log.open("wb") as output:
        arguments = [str(command), "serve", "tools.py", "--port", str(port)]
        process = subprocess.Popen(arguments, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        wait_until_healthy(process, port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)


def test_the_wheel_installs_without_a_compiler_and_serves(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    home = tmp_path / "installed"
    venv.create(home, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin/python"), "--disable-pip-version-check"]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("TOOLYARD_", "PYTHON"))}
    run(
        *[*pip, "install", "--quiet", "--no-compile", "--only-binary", ":all:", f"{distributions[1]}"],
        cwd=tmp_path,
        env=own | NO_COMPILER,
    )
    (tmp_path / "tools.py").write_bytes((ROOT / "deploy/tools.py").read_bytes())
    toolyard, environment = home / "bin/toolyard", own | NO_COMPILER
    assert run(toolyard, "--version", cwd=tmp_path, env=environment) == f"toolyard {VERSION}\n"
    with serving(toolyard, tmp_path, environment) as url:
        called = run(toolyard, "call", "Greetings.Greet", "name=Ada", "--server", url, cwd=tmp_path, env=environment)
    assert called == "Hello, Ada\n"
    assert (tmp_path / "toolyard.db").exists()
