"""The one table of what loads late.

Starting fast and staying small matter more than having everything at hand: what only some users need is
imported the first time it is used, through here and nowhere else.
"""

from importlib import import_module
from typing import Any

DOORS = {
    # name: module:attribute
    "asgi": "toolyard.server.mounted:asgi",
    "client": "toolyard.client.client:Client",
    "async_client": "toolyard.client.client:AsyncClient",
    "http": "httpx2",
    "oauth_client": "authlib.integrations.httpx_client:AsyncOAuth2Client",
    "oauth_error": "authlib.integrations.base_client:OAuthError",
    "issuer": "toolyard.trust.issuers:Issuer",
    "issuers": "toolyard.trust.issuers:Issuers",
    "jwt": "toolyard.trust.jwt:Hs256",
    "signed_token": "toolyard.trust.jwt:signed",
    "prometheus": "toolyard.server.prometheus:render",
    "openapi": "toolyard.server.openapi.document:document",
    "connecting": "toolyard.server.connecting:Connecting",
    "not_connected": "toolyard.trust.journeys:Failed",
    "authorize_pages": "toolyard.server.pages.authorize",
    "pages": "toolyard.server.pages.site",
    "postgres": "toolyard.store.postgres:PostgresStore",
    "sources": "toolyard.running.loading:sources_of",
    "serve": "toolyard.server.run:serve",
    "reload": "toolyard.server.reload:supervise",
    "stdio": "toolyard.server.stdio:serve",
    "operators_http": "toolyard.server.operators_http:OperatorsHttp",
    "ledger": "toolyard.server.admin_direct:LedgerSending",
    "new_key": "toolyard.server.new_key:begin_anew",
    "testing": "toolyard.testing",
    "demo": "toolyard.demo.run:run",
    "mcp_lane": "toolyard.server.mcp.sdk:SdkLane",
    "mcp_server": "toolyard.server.mcp.sdk:AuthorsServer",
    "aes_gcm": "cryptography.hazmat.primitives.ciphers.aead:AESGCM",
    "invalid_tag": "cryptography.exceptions:InvalidTag",
    "toml": "tomllib",
    "validator": "toolyard.running.validation:checked",
}

VERBS = {
    "demo": "toolyard.cli.demo:demo",
    "serve": "toolyard.cli.serve:serve",
    "stdio": "toolyard.cli.stdio:stdio",
    "worker": "toolyard.cli.worker:worker",
    "call": "toolyard.cli.call:call",
    "list": "toolyard.cli.list_tools:list_tools",
    "calls": "toolyard.cli.calls:calls",
    "show": "toolyard.cli.calls:show",
    "cancel": "toolyard.cli.cancel:cancel",
    "resolve": "toolyard.cli.resolve:resolve",
    "keys": "toolyard.cli.keys:keys",
    "approvals": "toolyard.cli.approvals:approvals",
    "approve": "toolyard.cli.approvals:approve",
    "reject": "toolyard.cli.approvals:reject",
    "connections": "toolyard.cli.connections:connections",
    "secrets": "toolyard.cli.secrets:secrets",
    "console": "toolyard.cli.console:console",
    "explain": "toolyard.cli.explain:explain",
    "lock": "toolyard.cli.lock:lock",
    "audit": "toolyard.cli.audit:audit",
    "new": "toolyard.cli.new:new",
    "install": "toolyard.cli.install:install",
    "token": "toolyard.cli.token:token",
    "settings": "toolyard.cli.settings:settings",
}


def open_door(name: str) -> Any:
    """The module or attribute behind a door, loaded now if it was not."""
    return _load(DOORS[name])


def open_verb(name: str) -> Any:
    """The function behind a verb of the command line."""
    return _load(VERBS[name])


def _load(place: str) -> Any:
    module, _, attribute = place.partition(":")
    loaded = import_module(module)
    return getattr(loaded, attribute) if attribute else loaded
