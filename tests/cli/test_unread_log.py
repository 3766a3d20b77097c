"""A server whose standard error nobody reads, as of a client that starts it and forgets it: it answers, and it ends."""

import json
import re
import select
import signal
import subprocess
from pathlib import Path

from .. import warm
from ..conformance.serving import environment
from .processes import DEADLINE_S, READY, command, send

TOOLS = '''
from toolyard import Toolkit

kit = Toolkit("Kit")


@kit.tool
async def fails(text: str) -> str:
    """Fails, with a traceback in the log."""
    raise ValueError(text)


@kit.tool
async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b
'''
FAILS = {"tool_id": "Kit.Fails", "input": {"text": "no " * 1000}}
ADD = {"tool_id": "Kit.Add", "input": {"a": 1, "b": 2}}


def test_it_answers_and_ends(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    process = warm.start(
        command("serve", "tools.py", "--port", "0"),
        cwd=tmp_path,
        env=environment("open") | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = ""
        while READY not in said:
            said += process.stdout.readline()
        found = re.search(r"OXP 1\.0 +(http://\S+)", said)
        assert found is not None
        headers = {"content-type": "application/json"}
        for _ in range(100):  # about four times what a pipe holds
            answer = send("POST", f"{found[1]}/tools/call", json.dumps(FAILS), headers)
            assert not answer["success"]
        assert send("POST", f"{found[1]}/tools/call", json.dumps(ADD), headers)["value"] == 3
        assert send("GET", f"{found[1]}/health", "", {}) == {"status": "ok"}
        assert process.stderr is not None
        assert select.select([process.stderr], [], [], 0)[0], "nobody has read it"
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
