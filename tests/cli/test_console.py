"""`toolyard console`: with real processes."""

import http.client
import re
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from .operated import Yard, yard
from .processes import DEADLINE_S

__all__ = ["yard"]

Headers = dict[str, str]


def send(method: str, url: str, body: str = "", headers: Headers | None = None) -> tuple[int, Headers, str]:
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.netloc, timeout=DEADLINE_S)
    try:
        connection.request(method, at.path, body or None, headers or {})
        reply = connection.getresponse()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read().decode()
    finally:
        connection.close()


def entered(url: str, code: str) -> tuple[int, Headers, str]:
    """A browser that fills the code in."""
    _, headers, page = send("GET", url)
    form = re.search(r"name='form' value='([^']+)'", page)
    assert form is not None
    at = urlsplit(url)
    given = {
        "cookie": headers["set-cookie"].partition(";")[0],
        "origin": f"{at.scheme}://{at.netloc}",
        "content-type": "application/x-www-form-urlencoded",
    }
    return send("POST", url, urlencode({"form": form[1], "code": code}), given)


def test_it_prints_an_address_and_a_code_that_lets_one_browser_in(yard: Yard) -> None:
    with yard.serving() as served:
        ended = yard.toolyard("console")
        said = re.fullmatch(r"(\S+)\ncode ([A-Z2-7]{4}(?:-[A-Z2-7]{4}){2})  \(good once, for 10 minutes\)\n", ended.out)
        assert (ended.code, ended.err) == (0, "")
        assert said is not None
        assert said[1] == f"{served.address}/console/enter"
        status, headers, _ = entered(said[1], said[2])
        assert (status, headers["location"]) == (303, f"{served.address}/console")
        cookie = {"cookie": headers["set-cookie"].partition(";")[0]}
        assert send("GET", headers["location"], headers=cookie)[0] == 200
        assert entered(said[1], said[2])[0] == 403
        made = yard.json("console", "--json")
        assert (made["url"], made["goodForS"]) == (said[1], 600)
        assert made["code"] != said[2]
        tail = yard.toolyard("audit", "tail")
        assert "POST /v1/admin/console" in tail.out
        assert made["code"] not in tail.out


def test_it_opens_a_browser_where_that_is_wanted(yard: Yard) -> None:
    browser = yard.folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {yard.folder}/opened\n', encoding="utf-8")
    browser.chmod(0o755)
    with yard.serving() as served:
        yard.toolyard("console", BROWSER=f"{browser} %s")
        assert not (yard.folder / "opened").exists()
        assert yard.toolyard("console", "--open", BROWSER=f"{browser} %s").code == 0
        assert (yard.folder / "opened").read_text() == f"{served.address}/console/enter\n"


@pytest.mark.parametrize("options", [(), ("--store", "sqlite:other.db"), ("--store", "sqlite::memory:")])
def test_without_a_server_there_is_no_console(yard: Yard, options: tuple[str, ...]) -> None:
    with yard.serving() as served:
        assert served.end() == 0
    ended = yard.toolyard("console", *options)
    assert (ended.code, ended.out) == (2, "")
    assert "only a running server has a console; start one with 'toolyard serve'" in ended.err


def test_every_node_on_one_database_knows_codes_and_browsers(yard: Yard, postgres_url: str) -> None:
    at = {"TOOLYARD_STORE": postgres_url}
    with yard.serving(**at) as one, yard.serving(**at) as other:
        made = yard.json("console", "--json", TOOLYARD_PUBLIC_URL=one.address, **at)
        assert made["url"] == f"{one.address}/console/enter"
        status, headers, _ = entered(made["url"], made["code"])
        assert status == 303
        cookie = {"cookie": headers["set-cookie"].partition(";")[0]}
        status, _, page = send("GET", f"{other.address}/console", headers=cookie)
        assert (status, "Sign out" in page) == (200, True)
        assert entered(f"{other.address}/console/enter", made["code"])[0] == 403


def test_help_says_what_it_is_for(tmp_path: Path) -> None:
    shown = Yard(tmp_path).toolyard("console", "--help")
    assert shown.code == 0
    assert "a code that lets one browser in" in " ".join(shown.out.split())
    assert "--open" in shown.out
