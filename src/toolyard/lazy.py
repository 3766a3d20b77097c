"""The one table of modules that are imported on first use.

A server should start fast and stay small, so what only some users need is imported the first time it is used: through
this table and nowhere else, so that a test can check every row. It also lets a lower layer use a higher one without
importing it, where the composition root would be the only other way.
"""

from importlib import import_module
from typing import Any

LAZY = {
    # name: module:attribute
    "command_line": "toolyard.cli.command_line:run",
    "asgi": "toolyard.server.app.mounted:asgi",
    "client": "toolyard.client.client:Client",
    "async_client": "toolyard.client.client:AsyncClient",
    "http": "httpx2",
    "oauth_client": "authlib.integrations.httpx_client:AsyncOAuth2Client",
    "oauth_error": "authlib.integrations.base_client:OAuthError",
    "issuer": "toolyard.trust.credentials.issuers:Issuer",
    "issuers": "toolyard.trust.credentials.issuers:Issuers",
    "jwt": "toolyard.trust.credentials.hs256:Hs256",
    "signed_token": "toolyard.trust.credentials.hs256:signed",
    "prometheus": "toolyard.server.intake.prometheus:render",
    "openapi": "toolyard.server.openapi.document:document",
    "connecting": "toolyard.server.accounts.parts:AccountParts",
    "not_connected": "toolyard.trust.requirements.redirects:ConnectFailed",
    "account_handlers": "toolyard.server.accounts.handlers:AccountHandlers",
    "approval_pages": "toolyard.server.approvals.page:ApprovalPages",
    "operators_table": "toolyard.server.admin.table:routes",
    "console": "toolyard.server.console.table:routes",
    "console_code": "toolyard.server.console.login:new_code",
    "layout": "toolyard.server.pages.layout",
    "pages": "toolyard.server.pages.site",
    "gateway": "toolyard.server.app.gateway:gateway",
    "postgres": "toolyard.store.postgres.store:PostgresStore",
    "sources": "toolyard.runners.loader:sources_of",
    "serve": "toolyard.server.app.run:serve",
    "group": "toolyard.server.group.parent:supervise",
    "group_acceptor": "toolyard.server.group.acceptor:Acceptor",
    "group_counters": "toolyard.server.group.counters:GroupCounters",
    "group_secure": "toolyard.server.group.acceptor:Secure",
    "group_shares": "toolyard.server.group.shares:Shares",
    "group_folder": "toolyard.server.group.parent:group_folder",
    "reload": "toolyard.server.app.reload:supervise",
    "stdio": "toolyard.server.app.run_stdio:serve",
    "operators_http": "toolyard.server.admin.socket_http:SocketHttp",
    "ledger": "toolyard.operator.ledger_transport:LedgerTransport",
    "postgres_holdings": "toolyard.store.postgres.inspection:holdings",
    "postgres_inspection": "toolyard.store.postgres.inspection:inspect",
    "new_key": "toolyard.operator.new_ring_key:begin_anew",
    "testing": "toolyard.testing",
    "demo": "toolyard.demo.run:run",
    "upstream_offers": "toolyard.server.mcp.methods.upstream_offers",
    "mcp_lane": "toolyard.server.mcp.methods.sdk:SdkLane",
    "mcp_server": "toolyard.server.mcp.methods.sdk:AuthorsServer",
    "aes_gcm": "cryptography.hazmat.primitives.ciphers.aead:AESGCM",
    "invalid_tag": "cryptography.exceptions:InvalidTag",
    "toml": "tomllib",
    "docstring_parser": "docstring_parser",
    "validator": "toolyard.runners.validation:checked",
}


def load(name: str) -> Any:
    """The module or attribute that `LAZY` has under this name, imported now if it was not yet."""
    return load_place(LAZY[name])


def load_place(address: str) -> Any:
    """The module or attribute at `module` or `module:attribute`, imported now if it was not yet."""
    module, _, attribute = address.partition(":")
    loaded = import_module(module)
    return getattr(loaded, attribute) if attribute else loaded
