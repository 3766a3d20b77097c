"""A challenge on every wire: with its link, its code, and what it is for."""

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from typing import Any

import httpx2
import pytest

from ...cli.operated import until
from ...cli.processes import command, toolyard
from ...conformance.serving import environment
from ..mcp.talking import Older, connect, text_of
from .serving import TOOLS, Served, code_in, served
from .stage import Link

URL: dict[str, Any] = {"elicitation": {"url": {}}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("wires")) as started:
        yield started


def link_of(asked: Any) -> Link:
    for word in ("Post.Read", "idp"):
        assert word in asked["message"]
    return Link(asked["url"], asked["url"].partition("?")[0] + "/status", code_in(asked["message"]))


def test_in_the_older_era_of_mcp_it_is_an_error_that_a_client_can_act_on(server: Served) -> None:
    client = connect(f"{server.url}/mcp", "2025-11-25", **URL)
    error = client.call("Post_Read", meta={"toolyard/userId": "older"}).error()
    assert error["code"] == -32042
    (asked,) = error["data"]["elicitations"]
    assert asked["mode"] == "url"
    assert server.go(link_of(asked)).status == 200
    assert text_of(client.call("Post_Read", meta={"toolyard/userId": "older"}).result())
    client.close()


def test_in_the_older_era_of_mcp_a_client_hears_that_its_person_is_done(server: Served) -> None:
    client = connect(f"{server.url}/mcp", "2025-11-25", **URL)
    assert isinstance(client, Older)
    stream = client.get()
    assert stream.status == 200
    metas = ({"toolyard/userId": "hears", "toolyard/callId": key} for key in ("one", "other"))
    (first,), (asked,) = (client.call("Post_Read", meta=meta).error()["data"]["elicitations"] for meta in metas)
    assert first["elicitationId"] != asked["elicitationId"]
    assert server.go(link_of(asked)).status == 200
    heard = stream.next()
    assert heard["method"] == "notifications/elicitation/complete"
    assert heard["params"] == {"elicitationId": asked["elicitationId"]}
    client.close()


def test_in_the_newer_era_of_mcp_the_request_comes_again_and_is_answered(server: Served) -> None:
    client = connect(f"{server.url}/mcp", "2026-07-28", **URL)
    result = client.call("Post_Read", meta={"toolyard/userId": "newer"}).result()
    assert result["resultType"] == "input_required"
    ((name, asked),) = result["inputRequests"].items()
    assert asked["method"] == "elicitation/create"
    assert asked["params"]["mode"] == "url"
    assert server.go(link_of(asked["params"])).status == 200
    answers = {name: {"action": "accept"}}
    assert text_of(client.call("Post_Read", inputResponses=answers, meta={"toolyard/userId": "newer"}).result())
    client.close()


def is_held(server: Served) -> bool:
    """Whether a call is being answered now."""
    return "toolyard_calls_running 1.0" in httpx2.get(f"{server.url}/metrics", trust_env=False).text


@pytest.mark.parametrize("key", [None, "again"])
def test_who_calls_again_is_answered_as_soon_as_the_account_is_connected(server: Served, key: str | None) -> None:
    """A retry has nothing new, so it waits: clients give up after some tries, and a person needs minutes."""
    user = f"waits-{key}"

    def call() -> Any:
        body = {"tool_id": "Post.Read", "context": {"user_id": user}} | ({"call_id": key} if key else {})
        return httpx2.post(f"{server.url}/tools/call", json=body, trust_env=False, timeout=30).json()

    first = call()
    (asked,) = first["missing_requirements"]["authorization"]
    with ThreadPoolExecutor() as pool:
        retry = pool.submit(call)
        until(lambda: retry.done() or is_held(server))
        assert server.go(Link(asked["url"], asked["check_url"], code_in(first["message"]))).status == 200
        assert retry.result()["success"]


def test_a_client_that_can_only_read_reads_the_link_and_the_code(server: Served) -> None:
    client = connect(f"{server.url}/mcp", "2025-11-25")
    result = client.call("Post_Read", meta={"toolyard/userId": "reader"}).result()
    assert result["isError"] is True
    said = text_of(result)
    link = Link(next(word for word in said.split() if word.startswith("http://")), "", code_in(said))
    assert server.go(link).status == 200
    assert text_of(client.call("Post_Read", meta={"toolyard/userId": "reader"}).result())
    client.close()


@pytest.mark.parametrize("allows", [True, False])
def test_the_command_line_prints_both_and_waits(server: Served, tmp_path: Path, allows: bool) -> None:
    call = command("call", "Post.Read", "--server", server.url, "--user-id", f"cli-{allows}")
    with subprocess.Popen(call, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True, env=environment("open")) as calling:
        assert calling.stderr is not None
        said = calling.stderr.readline() + calling.stderr.readline()
        link = Link(next(word for word in said.split() if word.startswith("http://")), "", code_in(said))
        page = server.go(link) if allows else server.deny(link)
        assert page.status == (200 if allows else 400)
        out, rest = calling.communicate(timeout=30)
    assert calling.returncode == (0 if allows else 1)
    assert len(out.strip()) == (64 if allows else 0), "the digest of the token"
    assert ("needs authorization at idp" in rest) is not allows


@pytest.mark.parametrize("path", ["/oxp/tools/call", "/otc/tools/call", "/otc/draft/call"])
def test_the_oxp_family_has_the_code_in_its_message(server: Served, path: str) -> None:
    request: dict[str, Any] = {"tool_id": "Post.Read", "context": {"user_id": path}}
    body = request if path.startswith("/oxp") else {"request": request}
    refused = httpx2.post(server.url + path, json=body, trust_env=False)
    assert refused.status_code == 400
    said = refused.json()
    if "missing_requirements" in said:
        (entry,) = said["missing_requirements"]["authorization"]
        assert set(entry) == {"id", "url", "check_url"}, "the documents allow no other member"
    address = next(word for word in refused.text.replace('"', " ").split() if "/authorize/" in word).rstrip(",;")
    assert server.go(Link(address, "", code_in(said["message"]))).status == 200
    assert httpx2.post(server.url + path, json=body, trust_env=False).json().get("success", True)


def test_a_server_over_pipes_leads_to_the_pages_of_the_one_that_has_some(server: Served, tmp_path: Path) -> None:
    asked = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "Post_Read"}},
    ]
    settings = {**server.settings, "TOOLYARD_PUBLIC_URL": "https://tools.example", "XDG_STATE_HOME": str(tmp_path)}
    written = "".join(json.dumps(message) + "\n" for message in messages)
    ended = toolyard("stdio", TOOLS, folder=tmp_path, variables=settings, input=written)
    assert "open https://tools.example/authorize/" in ended.out, ended.err
    assert code_in(ended.out)


def test_the_draft_has_the_link_and_the_code_in_the_text_that_people_read(server: Served) -> None:
    """It has no other place for them, and nobody is shown `developer_message`."""
    body = {"request": {"tool_id": "Post.Read", "context": {"user_id": "draft"}}}
    refused = httpx2.post(f"{server.url}/otc/draft/call", json=body, trust_env=False).json()
    (address,) = [word for word in refused["message"].split() if word.startswith("http://")]
    assert "http" not in refused["developer_message"]
    link = Link(address, address.partition("?")[0] + "/status", code_in(refused["message"]))
    assert server.go(link).status == 200
    answered = httpx2.post(f"{server.url}/otc/draft/call", json=body, trust_env=False).json()
    assert answered["success"]
