"""The server's own pages: the front page, and the OpenAPI document laid out to be read."""

from html import escape
from typing import TYPE_CHECKING, Any

from ...trust.credentials.authentication import NOBODY
from .layout import page, table

if TYPE_CHECKING:
    from .site_routes import Site


def front(site: "Site", base_url: str) -> str:
    """The front page: the address of each wire, ready to paste, and the tools where anyone may list them."""
    body = "<p>Tools, over every wire.</p>"
    body += table(
        [
            ("OXP 1.0", f"{base_url}/oxp"),
            ("OTC 1.0", f"{base_url}/otc"),
            ("OTC draft", f"{base_url}/otc/draft"),
            ("MCP", f"{base_url}/mcp"),
        ]
    )
    body += f"<p>At <code>{escape(base_url)}</code> itself, what a request looks like decides.</p>"
    if not site.needs_credentials():
        rows = [
            (f"<code>{escape(tool.reference)}</code>", escape(tool.description.split("\n")[0]))
            for tool in site.catalogue.newest(site.access.view(NOBODY))[:100]
        ]
        body += "<h2>Tools</h2><table>" + "".join(f"<tr><td>{a}</td><td>{b}</td></tr>" for a, b in rows) + "</table>"
    else:
        body += "<p>This server asks for credentials.</p>"
    links = ("docs", "openapi.json", "tools", "health", "metrics")
    body += (
        "<p>" + " · ".join(f'<a href="{base_url and escape(base_url)}/{link}">/{link}</a>' for link in links) + "</p>"
    )
    return page(site.settings.shown_title, body, base_url)


def docs(document: dict[str, Any]) -> str:
    """The OpenAPI document, laid out to be read."""
    body = "<p>For programs: <a href='openapi.json'>openapi.json</a></p>"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            body += f"<h2><span class='method'>{method.upper()}</span> <code>{escape(path)}</code></h2>"
            body += f"<p>{escape(operation['summary'])}</p>{_request(operation)}{_responses(operation)}"
    body += "<h2>Schemas</h2>"
    for name, schema in document["components"]["schemas"].items():
        body += f"<h3 id='{escape(name)}'><code>{escape(name)}</code></h3>{_members(schema)}"
    return page(f"{document['info']['title']}: endpoints", body, ".")


def _request(operation: dict[str, Any]) -> str:
    rows = [(f"{p['name']} ({p['in']})", p["description"]) for p in operation.get("parameters", ())]
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        rows.append(("body", " or ".join(_names(schema))))
    return table(rows) if rows else ""


def _responses(operation: dict[str, Any]) -> str:
    rows = []
    for status, response in operation["responses"].items():
        schema = response.get("content", {}).get("application/json", {}).get("schema", {})
        rows.append((status, " · ".join(filter(None, [response["description"], " or ".join(_names(schema))]))))
    return table(rows)


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
    return (f"<p>{escape(schema['description'])}</p>" if "description" in schema else "") + table(rows)
