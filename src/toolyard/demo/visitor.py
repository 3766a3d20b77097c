"""The person's part in the demo, for `--auto`: opens links, fills in forms and sends them, as a browser would."""

from html.parser import HTMLParser
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

from ..lazy import load
from ..model.errors import ServerError

TIMEOUT_S = 30.0


class VisitedPage(HTMLParser):
    """A page as the visitor reads it: its form's address and hidden fields, and where it redirects to."""

    def __init__(self, url: str, text: str) -> None:
        super().__init__()
        self.url, self.action, self.goes_to = url, "", ""
        self.fields: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = urljoin(self.url, given.get("action", ""))
        elif tag == "input" and given.get("type") == "hidden":
            self.fields[given["name"]] = given.get("value", "")
        elif tag == "meta" and given.get("http-equiv") == "refresh":
            self.goes_to = given.get("content", "").partition("url=")[2]


class Visitor:
    """Somebody with a browser, who connects an account at the demo provider and approves calls."""

    says = "allow"
    """The person's answer at the provider."""

    def __init__(self, person: str) -> None:
        self._person = person
        self._http = load("http")
        self._browser = self._http.Client(trust_env=False, timeout=TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.close()

    def connect(self, link: str, code: str) -> None:
        """Opens a link, types the code, and answers at the provider: who they are, and whether they allow it."""
        question = self._open(self._send(self._open(link), code=code).goes_to)
        answered = self._post(question, person=self._person, say=self.says)
        self._request("GET", answered.headers.get("location", ""))

    def approve(self, link: str, code: str) -> None:
        self._send(self._open(link), code=code, reason="", say="yes")

    def _open(self, link: str) -> VisitedPage:
        return _page(self._request("GET", link))

    def _send(self, page: VisitedPage, **filled_in: str) -> VisitedPage:
        return _page(self._post(page, **filled_in))

    def _post(self, page: VisitedPage, **filled_in: str) -> Any:
        # A browser says which page a form comes from, and the server refuses forms that do not.
        at = urlsplit(page.action)
        headers = {"origin": f"{at.scheme}://{at.netloc}"}
        return self._request("POST", page.action, data={**page.fields, **filled_in}, headers=headers)

    def _request(self, method: str, address: str, **more: Any) -> Any:
        try:
            return self._browser.request(method, address, **more)
        except (self._http.HTTPError, self._http.InvalidURL) as error:
            raise ServerError(f"{address.partition('?')[0] or 'A page'} cannot be opened: {error}") from None


def _page(answer: Any) -> VisitedPage:
    """The page of a reply. Raises ServerError for a status that a person should not see here."""
    if answer.status_code != 200:
        raise ServerError(f"{answer.url.copy_with(query=None)} answered with status {answer.status_code}")
    return VisitedPage(str(answer.url), answer.text)
