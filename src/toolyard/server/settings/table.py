"""Every setting is one row: its name, type, default and meaning. The flag, the environment variable, the key in
`toolyard.toml` and the reference page all come from it, so that none of them can say anything else.

Later wins: default, `toolyard.toml`, `TOOLYARD_*`, command line. A name that nobody knows is an error wherever it
stands: a mistyped setting would otherwise be one that somebody believes in.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from ...lazy import load
from ...model.errors import SettingsError, SourcePlace
from ...model.upstream import Upstream
from ...trust.access.access import Rule
from ...trust.access.worker_rules import WorkerRule
from ...trust.approvals.rules import ApprovalRule
from ...trust.issuer_settings import TrustedIssuer
from ...trust.limits.limits import Limit
from ...trust.provider_settings import Provider
from ...trust.tables import WrongTable
from .readers import (
    Wrong,
    address,
    approvals,
    choice,
    host,
    hosts,
    issuers,
    limits,
    master_keys,
    operator_token,
    origins,
    providers,
    quotas,
    rules,
    seconds,
    seconds_or_none,
    server_name,
    store,
    switch,
    text,
    texts,
    upstreams,
    whole,
    worker_rules,
)

FILE = "toolyard.toml"
LOCK_FILE = "tools.lock"
MEMORY = "sqlite::memory:"
PREFIX = "TOOLYARD_"
REFERENCE = "toolyard.reference"
"""What is served where nothing is named, to look around."""
FOR_TESTS = "TOOLYARD_TEST_"
FLAGS = {"serve_processes": "--processes"}
"""The flags that are not named as their settings are."""
OTHERS = frozenset(
    {
        "TOOLYARD_SERVER",
        "TOOLYARD_KEY",
        "TOOLYARD_CA",
        "TOOLYARD_TRUST",
        "TOOLYARD_CONFIG",
        "TOOLYARD_UPSTREAM_DEPTH",
    }
)
"""Variables that are no settings: clients and verbs read them, or a server that another one has started."""
# HOST, PORT and PORT_8000_TCP of a service, and the old PORT=tcp://…, as Docker's links had them.
_service = re.compile(r"TOOLYARD_(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_.+)?)").fullmatch
_service_address = re.compile(r"(tcp|udp|sctp)://.*").fullmatch
LEVELS = ("debug", "info", "warning", "error")


def row(
    default: Any,
    meaning: str,
    read: Callable[[Any], Any],
    *,
    secret: bool = False,
    changes: bool = False,
    adds: bool = False,
) -> Any:
    """One setting. `meaning` is its help and its documentation, `read` checks a value, and a `secret` one is never
    shown in a message. One that `changes` is followed by a server that runs, after SIGHUP. Flags of one that `adds`
    come beside what the file and the environment say, and not in its place."""
    metadata = {"meaning": meaning, "read": read, "secret": secret, "changes": changes, "adds": adds}
    if isinstance(default, list | dict):  # dataclasses want these made anew for each object
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Settings:
    """How a server behaves: all of its settings, read and checked. This class is the table.

    It has its own constructor and comparison. Those that `dataclass` writes for so many fields are long functions, and
    to compile them takes as long as to import twenty modules, at every start.
    """

    tools: list[str] = row(
        [], "What to serve: files, modules, either with :name, installed packages, desktop clients' JSON files.", texts
    )
    name: str = row("toolyard", "What the server is called: by MCP clients, above all.", server_name)
    title: str | None = row(None, "The same for people: on its pages, and in MCP clients. Without: the name.", text)
    instructions: str | None = row(None, "What models should know of the server: MCP clients are told.", text)
    host: str = row("127.0.0.1", "Where to listen. Beyond loopback, authentication is required.", host)
    port: int = row(8000, "The port; 0 takes a free one.", whole(0, 65535))
    allowed_hosts: list[str] = row(
        [], "Other names of this server. Pages of other origins belong into cors_origins.", hosts, changes=True
    )
    cors_origins: list[str] = row(
        [],
        "Origins of pages that may call from a browser, such as https://app.example.com; * is all.",
        origins,
        changes=True,
    )
    serve_processes: int = row(
        1, "How many processes serve, each of them a node. Several need PostgreSQL.", whole(1, 1000)
    )
    tls_cert: str | None = row(
        None, "The file of the server's certificate, for https; with tls_key.", text, changes=True
    )
    tls_key: str | None = row(None, "The file of the certificate's key.", text, changes=True)
    public_url: str | None = row(None, "The address clients reach the server by, for links in answers.", address)
    log_level: str = row("info", "How much to log: debug, info, warning or error.", choice(*LEVELS), changes=True)
    log_format: str = row("text", "How log lines look: text, or json.", choice("text", "json"))
    reload: bool = row(False, "Start again whenever a Python file beside the tools changes.", switch)
    store: str = row("sqlite:toolyard.db", "The ledger: sqlite:FILE or postgresql://USER@HOST/DATABASE.", store)
    record: str = row("all", "Which calls the ledger keeps: all, or only those with a key.", choice("all", "keyed"))
    retention_s: float = row(7 * 86400.0, "How long finished calls are kept.", seconds)
    audit: str = row(
        "on", "The audit log: on, off, or strict, which answers only what is in it.", choice("on", "strict", "off")
    )
    audit_input: bool = row(False, "Put the input of calls into the audit log, and not its fingerprint alone.", switch)
    audit_retention_s: float = row(90 * 86400.0, "How long the audit log is kept.", seconds)
    key_ttl_s: float = row(86400.0, "How long a call_id stays taken; at least as long as its call is kept.", seconds)
    sync_wait_s: float = row(
        25.0,
        "How long a request waits for a call, or for the person it needs, before it is told to come back.",
        seconds,
    )
    max_attempts: int = row(3, "How many times a call whose attempts are lost is started.", whole(1, 100))
    lease_s: float = row(
        30.0, "How long a worker, a claim or a node is taken to be alive after it was heard of.", seconds
    )
    claim_wait_s: float = row(3600.0, "How long a request waits for a worker or a caller to claim it.", seconds)
    answer_wait_s: float = row(3600.0, "How long a tool waits for the answer to what it asked.", seconds)
    total_timeout_s: float = row(86400.0, "How long a call may take in all, whatever happens.", seconds)
    queue_limit: int = row(1000, "How many calls of one tool may wait; more are told to come back.", whole(1, 10**6))
    mcp_page_size: int = row(1000, "How many tools a page of MCP's tools/list has.", whole(1, 10**6))
    mcp_stream_s: float = row(
        300.0,
        "How long older MCP revisions hold a stream before the client must come back for the rest.",
        seconds,
    )
    secret_key: list[str] | None = row(
        None,
        "64 hexadecimal digits; without it a key file is made. Of several, the first seals and all open.",
        master_keys,
        secret=True,
        changes=True,
    )
    api_keys: list[str] = row([], "API keys that may call: ty_… or name:ty_….", texts, secret=True, changes=True)
    operator_token: str | None = row(
        None,
        "What lets 'toolyard approvals --server' and the like in from elsewhere; without it, each start has its own.",
        operator_token,
        secret=True,
    )
    jwt_secret: str | None = row(None, "The shared secret of HS256 bearer tokens.", text, secret=True, changes=True)
    access: list[Rule] = row([], "Who sees and may call which tools: [[access]] tables.", rules, changes=True)
    approvals: list[ApprovalRule] = row([], "Which calls a person has to agree to: [[approvals]] tables.", approvals)
    approval_wait_s: float = row(3600.0, "How long a call waits for a person's yes, in seconds.", seconds)
    workers: list[WorkerRule] = row([], "Whose workers may offer which tools, and for whom: [[workers]].", worker_rules)
    upstreams: list[Upstream] = row(
        [], "Other servers whose tools are served here: [[upstreams]] tables.", upstreams, secret=True, adds=True
    )
    max_tools_per_worker: int = row(1000, "How many tools a worker may offer.", whole(1, 10**6))
    max_tools_per_caller: int = row(2000, "How many tools all workers of a caller may offer together.", whole(1, 10**6))
    lock_file: str | None = row(
        None, "The tools as they were approved; tools.lock in the working directory, if it is there.", text
    )
    lock: str = row(
        "block", "What to do with tools that differ from the lock: block, warn, or off.", choice("block", "warn", "off")
    )
    lock_allows_new: bool = row(False, "Serve tools of which the lock has no version at all.", switch)
    limits: list[Limit] | None = row(
        None,
        "How much who may call: [[limits]] tables. Away from loopback and over pipes there are some; [] has none.",
        limits,
        changes=True,
    )
    quotas: dict[str, dict[str, int | None]] = row(
        {},
        "How much who may leave behind: a [quotas] table. What it does not name has a default; 0 is any number.",
        quotas,
    )
    auth_failures_per_minute: int | None = row(
        None,
        "How many wrong credentials an address may send; 0 is any number. Away from loopback, 60.",
        whole(0, 10**6),
    )
    trusted_proxies: list[str] = row(
        [], "Addresses or networks whose X-Forwarded-For is believed.", texts, changes=True
    )
    max_connections: int = row(10_000, "How many connections there may be.", whole(1, 10**6), changes=True)
    max_connections_per_address: int | None = row(
        None, "How many of them from one address. Away from loopback, 256.", whole(1, 10**6), changes=True
    )
    max_streams_per_caller: int | None = row(
        None, "How many streams a caller may hold open. Away from loopback, 32.", whole(1, 10**6), changes=True
    )
    jwt_audience: str | None = row(None, "The aud a token may name; one of an issuer must.", text, changes=True)
    jwt_max_ttl_s: float = row(900.0, "How far ahead the exp of an HS256 token may lie.", seconds, changes=True)
    issuers: list[TrustedIssuer] = row(
        [],
        "Identity providers whose bearer tokens are taken, and at which people sign in.",
        issuers,
        secret=True,
        changes=True,
    )
    providers: list[Provider] = row(
        [], "Where users have accounts that tools may use: [[providers]] tables.", providers, secret=True
    )
    auth_failure_status: int = row(401, "The status for missing or wrong credentials: 401 or 400.", choice(401, 400))
    core_files: bool = row(
        False, "Let a crash leave a core file, where the system does that. It has the secrets of running calls.", switch
    )
    show_exceptions: bool = row(False, "Put the text of unexpected exceptions into developer_message.", switch)
    call_timeout_s: float = row(
        300.0, "How long a tool may run without reporting progress, unless it says otherwise.", seconds
    )
    queue_wait_s: float = row(10.0, "How long a call waits for one of its tool's concurrent runs to end.", seconds)
    threads: int = row(32, "How many sync tools run at once.", whole(1, 10_000))
    processes: int = row(os.cpu_count() or 1, 'How many tools with runs="process" run at once.', whole(1, 1000))
    safe_text: str = row(
        "escape", "Hidden characters in text for models: escape, flag or off.", choice("escape", "flag", "off")
    )
    max_output_bytes: int = row(
        256 * 2**10, "The longest text of a result that a model is given whole.", whole(1024, 2**40)
    )
    max_result_bytes: int = row(32 * 2**20, "The largest result of a tool.", whole(1024, 2**29))
    max_body_bytes: int = row(4 * 2**20, "The largest request body.", whole(1, 2**40))
    max_json_depth: int = row(64, "How deeply a request's JSON may be nested.", whole(1, 500))
    max_json_values: int = row(
        250_000, "How many values a request's JSON may have, arrays and objects included.", whole(100, 2**40)
    )
    max_json_digits: int = row(309, "How many digits in a row a number in a request may have.", whole(17, 4300))
    max_header_bytes: int = row(64 * 2**10, "The largest request header.", whole(1024, 2**24))
    header_timeout_s: float = row(10.0, "How long a client may take to send its headers.", seconds)
    body_timeout_s: float = row(30.0, "How long a client may take to send its body.", seconds)
    write_timeout_s: float = row(30.0, "How long a client may read nothing of what it is sent.", seconds)
    keep_alive_s: float = row(15.0, "How long an idle connection is kept.", seconds)
    drain_s: float | None = row(
        None,
        "How long a server that SIGTERM tells to stop still takes calls, while /ready says 503. Away from loopback, 5.",
        seconds_or_none,
        changes=True,
    )
    grace_s: float = row(10.0, "How long running calls may take to end when the server stops.", seconds, changes=True)

    def __init__(self, **given: Any) -> None:
        for each in fields(self):
            default = each.default if each.default_factory is MISSING else each.default_factory()
            object.__setattr__(self, each.name, given.pop(each.name, default))
        if given:
            raise TypeError(f"there are no settings of these names: {', '.join(given)}")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, Settings) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def shown_title(self) -> str:
        """What people read as the server's name."""
        return self.title or self.name

    @property
    def targets(self) -> list[str]:
        """What is loaded and served: what is named, or the reference tools; nothing where there are upstreams alone."""
        return self.tools or ([] if self.upstreams else [REFERENCE])

    @property
    def has_authentication(self) -> bool:
        """Whether the settings themselves ask callers for credentials. Keys in the ledger do so, too."""
        return bool(self.api_keys or self.jwt_secret or self.issuers)


def rows() -> tuple[Field[Any], ...]:
    """All settings, in the order in which they are documented."""
    return fields(Settings)


def changed(old: Settings, new: Settings) -> list[str]:
    """The names of the settings that differ."""
    return [each.name for each in rows() if getattr(old, each.name) != getattr(new, each.name)]


class SettingsReader:
    """Reads the settings of one server again and again: the flags are those that it was started with, and the file is
    as it is then."""

    def __init__(self, flags: Mapping[str, Any], config: str | None) -> None:
        self._flags, self._config = flags, config
        self.written = ""
        """What stood in the file when it was last read."""

    def __call__(self) -> Settings:
        """Raises SettingsError."""
        return self.as_if(_written_in(self._config or os.environ.get("TOOLYARD_CONFIG")))

    def as_if(self, written: str) -> Settings:
        """As if this stood in the file."""
        self.written = written
        return load_settings(self._flags, config=self._config, written=written)


def load_settings(
    flags: Mapping[str, Any],
    environment: Mapping[str, str] = os.environ,
    config: str | None = None,
    written: str | None = None,
) -> Settings:
    """The settings from all sources, as if `written` stood in the file where it is given. Raises SettingsError for a
    name that nobody knows or a value that cannot be."""
    values: dict[str, Any] = {}
    file = config or environment.get("TOOLYARD_CONFIG")
    text = _written_in(file) if written is None else written
    for source in (_from_file(Path(file or FILE), text), _from_environment(environment)):
        values.update(source)
    for name, value in flags.items():
        _known(name, name, None)
        given = _read(name, value, FLAGS.get(name) or f"--{name.replace('_', '-')}", _nowhere)
        values[name] = [*values.get(name, ()), *given] if _row(name).metadata["adds"] else given
    # As `toolyard.toml`, the lock counts by being there; whoever wants none says lock = "off".
    if "lock_file" not in values and Path(LOCK_FILE).exists():
        values["lock_file"] = LOCK_FILE
    return Settings(**values)


def exactly(**given: Any) -> Settings:
    """These settings and nothing else, for tests and embedding: no file, no environment, and a ledger that is gone
    afterwards."""
    for name in given:
        _known(name, name, None)
    return Settings(**{"store": MEMORY, **{name: _read(name, value, name, _nowhere) for name, value in given.items()}})


def _written_in(config: str | None) -> str:
    """What stands in `toolyard.toml`, if there is one, or in the file that somebody named, which must then be there."""
    path = Path(config or FILE)
    if not path.exists():
        if config:
            raise SettingsError(f"the configuration file {config} does not exist")
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"the configuration file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"this is not TOML: {error}", SourcePlace(str(path))) from None


def _from_file(path: Path, written: str) -> Iterator[tuple[str, Any]]:
    """The settings of a file in which this stands."""
    if not written:
        return
    tomllib = load("toml")
    try:
        given = tomllib.loads(written)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"this is not TOML: {error}", SourcePlace(str(path))) from None
    for name, value in given.items():
        place = partial(_place_of, path, written, name)
        _known(name, name, place(1))
        yield name, _read(name, value, name, place)


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """The settings of `TOOLYARD_*` variables."""
    for variable, value in environment.items():
        if not variable.startswith(PREFIX) or variable in OTHERS or _is_kubernetes(variable, value):
            continue
        if variable.startswith(FOR_TESTS):
            continue
        name = variable.removeprefix(PREFIX).lower()
        _known(name, variable, None)
        yield name, _read(name, value, variable, _nowhere)


def _is_kubernetes(variable: str, value: str) -> bool:
    """Whether Kubernetes set this variable. In a cluster where a service is called toolyard, or toolyard-something,
    every container has its address in such variables, and they are no settings."""
    return bool(_service(variable) or (variable.endswith("_PORT") and _service_address(value)))


def _known(name: str, shown: str, place: SourcePlace | None) -> None:
    """Raises SettingsError for a name that is no setting's. `shown` is how it was written, and `place` where."""
    names = [row.name for row in rows()]
    if name not in names:
        close = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {close[0]}?" if close else "'toolyard settings' lists them"
        raise SettingsError(f"there is no setting {shown!r}; {hint}", place)


def _row(name: str) -> Field[Any]:
    return next(row for row in rows() if row.name == name)


def _read(name: str, value: Any, shown: str, place: Callable[[int], SourcePlace | None]) -> Any:
    """The value of a setting. `shown` is what it is called where it stands; `place` finds the line of one of its
    tables, by its number. Raises SettingsError."""
    setting = _row(name)
    try:
        return setting.metadata["read"](value)
    except WrongTable as wrong:
        where = "" if shown == name else f"{shown}: "
        raise SettingsError(f"{where}{wrong}", place(wrong.number)) from None
    except Wrong as wrong:
        # The value is shown, because it is often the mistake; one that may be a secret never is.
        got = "something else" if setting.metadata["secret"] else repr(value)
        raise SettingsError(f"{shown} must be {wrong}, got {got}", place(1)) from None


def _nowhere(number: int) -> None:
    """The place of a variable or a flag, which have no line."""


def _place_of(path: Path, written: str, name: str, number: int) -> SourcePlace:
    """The line of a setting in a file; of several tables of that name, the one of that number. TOML's parser does not
    tell lines, so they are looked for."""
    lines = list(enumerate(written.splitlines(), 1))
    called = rf"[\"']?{re.escape(name)}\b"
    tables = [at for at, line in lines if re.match(rf"\s*\[\[\s*{called}[\"']?\s*\]\]", line)]
    if number <= len(tables):
        return SourcePlace(str(path), tables[number - 1])
    return SourcePlace(str(path), next((at for at, line in lines if re.match(rf"\s*\[*\s*{called}", line)), None))
