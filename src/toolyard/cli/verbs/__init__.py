"""The verbs of the command line, one module each, of which only the one that is used is loaded.

A verb reads its options, asks a server as a caller (`client`) or as an operator (`operator`), and prints the answer. A
new verb is a module and a line in `VERBS`.
"""

from typing import Any

from ...lazy import load_place

VERBS = {
    "demo": "toolyard.cli.verbs.demo:demo",
    "serve": "toolyard.cli.verbs.serve:serve",
    "stdio": "toolyard.cli.verbs.stdio:stdio",
    "worker": "toolyard.cli.verbs.worker:worker",
    "call": "toolyard.cli.verbs.call:call",
    "list": "toolyard.cli.verbs.list_tools:list_tools",
    "calls": "toolyard.cli.verbs.calls:calls",
    "show": "toolyard.cli.verbs.calls:show",
    "cancel": "toolyard.cli.verbs.cancel:cancel",
    "resolve": "toolyard.cli.verbs.resolve:resolve",
    "keys": "toolyard.cli.verbs.keys:keys",
    "approvals": "toolyard.cli.verbs.approvals:approvals",
    "approve": "toolyard.cli.verbs.approvals:approve",
    "reject": "toolyard.cli.verbs.approvals:reject",
    "connections": "toolyard.cli.verbs.connections:connections",
    "secrets": "toolyard.cli.verbs.secrets:secrets",
    "upstreams": "toolyard.cli.verbs.upstreams:upstreams",
    "console": "toolyard.cli.verbs.console:console",
    "explain": "toolyard.cli.verbs.explain:explain",
    "lock": "toolyard.cli.verbs.lock:lock",
    "audit": "toolyard.cli.verbs.audit:audit",
    "backup": "toolyard.cli.verbs.backup:backup",
    "restore": "toolyard.cli.verbs.backup:restore",
    "doctor": "toolyard.cli.verbs.doctor:doctor",
    "new": "toolyard.cli.verbs.new:new",
    "install": "toolyard.cli.install.install:install",
    "token": "toolyard.cli.verbs.token:token",
    "settings": "toolyard.cli.verbs.settings:settings",
}


def load_verb(name: str) -> Any:
    """The function behind a verb of the command line."""
    return load_place(VERBS[name])
