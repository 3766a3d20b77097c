"""The reference of the Python API: pages of directives, which Sphinx fills in from docstrings and type hints.

`PAGES` gives each public name its place. A test compares it with `toolyard.__all__` and with what the modules beside it
define.
"""

from importlib import import_module
from typing import NamedTuple


class Page(NamedTuple):
    """A page of the reference. `names` are what it documents, with the members where not all of them are meant for
    the reader."""

    title: str
    introduction: str
    names: dict[str, str]


EVERY = ""
"""All members that have a docstring."""
RUN = "tool, call_id, caller, input, trace_id, user_info, resources, attempt, progress, log"
"""What a hook may use of a run; the rest is the engine's."""
CALLER = "tenant, subject, user_id, user, how, key"

PAGES = {
    "toolkits": Page(
        "Toolkits and apps",
        "What an author writes tools with. The guide is [Writing tools](../../guides/authoring.md).",
        dict.fromkeys(
            ("toolyard.Toolkit", "toolyard.App", "toolyard.Depends", "toolyard.Icon", "toolyard.Hidden"), EVERY
        )
        | {"toolyard.Upstream": EVERY, "toolyard.SecretName": EVERY},
    ),
    "context": Page(
        "Context",
        "What a tool knows of its call, and what it can ask while it runs.",
        {"toolyard.Context": EVERY, "toolyard.Caller": CALLER, "toolyard.Run": RUN},
    ),
    "requirements": Page(
        "Requirements",
        "What a tool needs besides input: `@toolkit.tool(requires=[…])`.",
        {"toolyard.authorization": EVERY, "toolyard.secret": EVERY, "toolyard.user_id": EVERY},
    ),
    "content": Page(
        "Content",
        "What a tool returns to be seen, heard or opened.",
        dict.fromkeys(("toolyard.Image", "toolyard.Audio", "toolyard.ResourceLink", "toolyard.Embedded"), EVERY),
    ),
    "errors": Page(
        "Errors",
        "One tree, divided by who must act. The guide is [Errors](../../guides/errors.md).",
        dict.fromkeys(
            (
                "toolyard.ToolyardError",
                "toolyard.RequestError",
                "toolyard.NotAuthenticated",
                "toolyard.ToolNotFound",
                "toolyard.InvalidInput",
                "toolyard.MissingRequirements",
                "toolyard.ToolError",
                "toolyard.Declined",
                "toolyard.ServerError",
                "toolyard.Busy",
            ),
            EVERY,
        ),
    ),
    "client": Page(
        "Client",
        "Calls tools from a Python program. The guide is [The client](../../guides/client.md).",
        {
            "toolyard.Client": EVERY,
            "toolyard.AsyncClient": EVERY,
            "toolyard.client.client.CallOptions": EVERY,
            "toolyard.model.call.Outcome": EVERY,
        },
    ),
    "testing": Page(
        "Testing",
        "The whole server in an author's test. The guide is [Testing tools](../../guides/testing.md).",
        {
            "toolyard.testing.call": EVERY,
            "toolyard.testing.client": EVERY,
            "toolyard.testing.async_client": EVERY,
            "toolyard.testing.Person": "asked, progress, logs",
        },
    ),
    "worker": Page(
        "Worker",
        "A worker in a program of your own; most start one with `toolyard worker`. The guide is "
        "[Workers](../../guides/workers.md).",
        {"toolyard.worker.worker.Worker": EVERY, "toolyard.worker.worker.Options": EVERY},
    ),
}


def pages() -> dict[str, str]:
    """The Markdown of the reference by its place on the site. `reference/python.md` is the page that people wrote: it
    is given its table of contents."""
    written = {f"reference/python/{place}.md": _text(page) for place, page in PAGES.items()}
    listed = "".join(f"/{place}\n" for place in written)
    return {"reference/python.md": f"\n```{{toctree}}\n\n{listed}```\n", **written}


def _text(page: Page) -> str:
    directives = "".join(_directive(name, members) for name, members in page.names.items())
    return f"# {page.title}\n\n{page.introduction}\n{directives}"


def _directive(name: str, members: str) -> str:
    kind = _kind(name)
    options = f"   :members: {members}\n" if kind in ("class", "exception") else ""
    signature = "()" if members else ""  # of what a reader is given and never makes, `conf` takes it away
    return f"\n```{{eval-rst}}\n.. auto{kind}:: {name}{signature}\n{options}```\n"


def _kind(name: str) -> str:
    module, _, last = name.rpartition(".")
    found = getattr(import_module(module), last)
    if isinstance(found, type):
        return "exception" if issubclass(found, Exception) else "class"
    return "function" if callable(found) else "data"
