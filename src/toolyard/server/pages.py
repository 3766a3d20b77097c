"""The pages people see. Plain HTML made here, no scripts, and whatever comes from outside is escaped."""

from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from ..trust.authentication import NOBODY

if TYPE_CHECKING:
    from .compose import Yard

STYLE = b"""
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; }
h2 { margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884; }
code, pre { font: 14px/1.4 ui-monospace, monospace; }
pre { padding: .8rem; background: #8882; border-radius: .3rem; overflow-x: auto; }
.method { font-weight: bold; }
"""


def front(yard: "Yard", base_url: str) -> str:
    """What is here, ready to paste. Tools are named only where anyone may list them."""
    body = "<p>Tools, over every wire.</p>"
    body += _table(
        [
            ("OXP 1.0", f"{base_url}/oxp"),
            ("OTC 1.0", f"{base_url}/otc"),
            ("OTC draft", f"{base_url}/otc/draft"),
        ]
    )
    body += f"<p>At <code>{escape(base_url)}</code> itself, what a request looks like decides.</p>"
    if not yard.needs_credentials:
        rows = [
            (f"<code>{escape(tool.reference)}</code>", escape(tool.description.split("\n")[0]))
            for tool in yard.catalogue.newest(yard.access.view(NOBODY))[:100]
        ]
        body += "<h2>Tools</h2><table>" + "".join(f"<tr><td>{a}</td><td>{b}</td></tr>" for a, b in rows) + "</table>"
    else:
        body += "<p>This server asks for credentials.</p>"
    links = ("docs", "openapi.json", "tools", "health", "metrics")
    body += (
        "<p>" + " · ".join(f'<a href="{base_url and escape(base_url)}/{link}">/{link}</a>' for link in links) + "</p>"
    )
    return _page("toolyard", body, base_url)


def docs(document: dict[str, Any]) -> str:
    """The OpenAPI document, to read."""
    body = "<p>For programs: <a href='openapi.json'>openapi.json</a></p>"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            body += f"<h2><span class='method'>{method.upper()}</span> <code>{escape(path)}</code></h2>"
            body += f"<p>{escape(operation['summary'])}</p>{_request(operation)}{_responses(operation)}"
    body += "<h2>Schemas</h2>"
    for name, schema in document["components"]["schemas"].items():
        body += f"<h3 id='{escape(name)}'><code>{escape(name)}</code></h3>{_members(schema)}"
    return _page("toolyard: endpoints", body)


def authorize(query: bytes) -> str:
    """Where a person would complete an authorization, if a provider were set up."""
    provider = parse_qs(query.decode("latin-1")).get("provider", ["this provider"])[-1]
    return _page(
        "Authorization",
        f"<p>A tool asks for access to an account at <b>{escape(provider[:100])}</b>.</p>"
        "<p>No provider is set up on this server yet, so the authorization cannot be completed here. "
        "The caller can pass a token of its own in <code>context.authorization</code>.</p>",
    )


def _request(operation: dict[str, Any]) -> str:
    rows = [(f"{p['name']} ({p['in']})", p["description"]) for p in operation.get("parameters", ())]
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        rows.append(("body", " or ".join(_names(schema))))
    return _table(rows) if rows else ""


def _responses(operation: dict[str, Any]) -> str:
    rows = []
    for status, response in operation["responses"].items():
        schema = response.get("content", {}).get("application/json", {}).get("schema", {})
        rows.append((status, " · ".join(filter(None, [response["description"], " or ".join(_names(schema))]))))
    return _table(rows)


def _names(schema: dict[str, Any]) -> list[str]:
    options = schema.get("anyOf", [schema])
    return [option["$ref"].rpartition("/")[2] for option in options if "$ref" in option]


def _members(schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (
            name + ("" if name in required else " (optional)"),
            member.get("type") or ", ".join(_names(member)) or "any",
        )
        for name, member in schema.get("properties", {}).items()
    ]
    return (f"<p>{escape(schema['description'])}</p>" if "description" in schema else "") + _table(rows)


def _table(rows: list[tuple[str, Any]]) -> str:
    cells = "".join(f"<tr><th>{escape(str(a))}</th><td>{escape(str(b))}</td></tr>" for a, b in rows)
    return f"<table>{cells}</table>"


def _page(title: str, body: str, base_url: str = "") -> str:
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width'>"
        f"<link rel='stylesheet' href='{escape(base_url)}/style.css'>"
        f"</head><body><h1>{escape(title)}</h1>{body}</body></html>"
    )
