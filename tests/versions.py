"""Runs the suite on every Python that is here and that the project says it runs on: `make versions`.

They are looked for on the PATH and among pyenv's; of each minor version the newest is taken, with a virtual environment
of its own (`.venv-3.12`). Words after the command are handed on: `python -m tests.versions lint` makes another target.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import which

OLDEST, NEWEST = 11, 19
"""Of Python 3: what `requires-python` begins with, and as far as it is worth looking."""
ROOT = Path(__file__).parent.parent
Version = tuple[int, int, int]
ASK = "import sys; print(*sys.version_info[:3])"


def candidates() -> Iterator[Path]:
    for minor in range(OLDEST, NEWEST + 1):
        if found := which(f"python3.{minor}"):
            yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from pyenv.glob("versions/*/bin/python3")
    yield Path(sys.executable)


def version_of(python: Path) -> Version | None:
    """None where it does not start: a shim of pyenv may stand for nothing."""
    asked = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        return None
    major, minor, micro = map(int, asked.stdout.split())
    return major, minor, micro


def interpreters(found: Iterable[Path]) -> dict[str, Path]:
    """The newest of each minor version, by that."""
    known = {version: python for python in found if (version := version_of(python)) is not None}
    return {
        f"{major}.{minor}": known[major, minor, micro]
        for major, minor, micro in sorted(known)
        if (major, minor) >= (3, OLDEST)
    }


def suite(name: str, python: Path, targets: list[str]) -> bool:
    print(f"Python {name}: {python}", flush=True)  # noqa: T201
    made = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    command = ["make", "--no-print-directory", f"PYTHON={python}", f"VENV=.venv-{name}", *targets]
    return subprocess.run(command, cwd=ROOT, env=made, check=False).returncode == 0


def main(targets: list[str]) -> int:
    passed = {name: suite(name, python, targets) for name, python in interpreters(candidates()).items()}
    for name, has_passed in passed.items():
        print(f"Python {name}: {'passed' if has_passed else 'FAILED'}", flush=True)  # noqa: T201
    return 0 if all(passed.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["unit"]))
