"""Settings: which source wins, and one clear sentence for a name nobody knows or a value that cannot be."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from toolyard import App, Toolkit
from toolyard.model.errors import SettingsError
from toolyard.model.upstream import SecretName, Upstream
from toolyard.server.settings.table import MEMORY, PREFIX, Settings, exactly, load_settings, rows
from toolyard.trust.access.access import Rule
from toolyard.trust.access.worker_rules import WorkerRule
from toolyard.trust.approvals.rules import ApprovalRule
from toolyard.trust.issuer_settings import TrustedIssuer
from toolyard.trust.limits.limits import Limit
from toolyard.trust.provider_settings import PRESETS

SECRET = "ty_never_to_be_shown_0123456789"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a toolyard.toml, an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)


def write(text: str, name: str = "toolyard.toml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


# --- which source wins ---------------------------------------------------------------------------


def test_without_any_source_there_are_defaults() -> None:
    assert load_settings({}, {}) == Settings()
    assert (Settings().host, Settings().port, Settings().api_keys) == ("127.0.0.1", 8000, [])


def test_later_sources_win() -> None:
    assert load_settings({}, {}).port == 8000
    write("port = 1\nhost = 'file'\nthreads = 5")
    assert load_settings({}, {}).port == 1
    environment = {"TOOLYARD_PORT": "2", "TOOLYARD_HOST": "environment"}
    assert load_settings({}, environment).port == 2
    settings = load_settings({"port": 3}, environment)
    assert (settings.port, settings.host, settings.threads) == (3, "environment", 5)


def test_the_file_may_be_elsewhere() -> None:
    write("port = 1")
    write("port = 2", "other.toml")
    write("port = 3", "third.toml")
    assert load_settings({}, {}, "other.toml").port == 2
    assert load_settings({}, {"TOOLYARD_CONFIG": "third.toml"}).port == 3
    assert load_settings({}, {"TOOLYARD_CONFIG": "third.toml"}, "other.toml").port == 2


def test_exactly_reads_neither_file_nor_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    write("port = 1")
    monkeypatch.setenv("TOOLYARD_HOST", "elsewhere")
    assert exactly(threads=7) == Settings(threads=7, store=MEMORY)


def test_a_lock_is_found_where_it_usually_is() -> None:
    assert load_settings({}, {}).lock_file is None
    Path("tools.lock").touch()
    assert load_settings({}, {}).lock_file == "tools.lock"
    assert load_settings({"lock_file": "other.lock"}, {}).lock_file == "other.lock"
    assert exactly().lock_file is None


def test_lists_do_not_leak_from_one_settings_into_the_next() -> None:
    Settings().api_keys.append("x")
    assert Settings().api_keys == []


SAMPLES: dict[str, tuple[Any, str, Any]] = {
    # setting: in the file, in the environment, as it is read
    "tools": (["a.py", "b"], "a.py, b,", ["a.py", "b"]),
    "host": ("::1", "::1", "::1"),
    "port": (0, "0", 0),
    "public_url": ("https://tools.example.com/x/", "https://tools.example.com/x/", "https://tools.example.com/x"),
    "log_level": ("WARNING", "Warning", "warning"),
    "reload": (True, "yes", True),
    "store": ("sqlite:x.db", "sqlite:x.db", "sqlite:x.db"),
    "record": ("keyed", "KEYED", "keyed"),
    "audit": ("strict", "STRICT", "strict"),
    "audit_input": (True, "yes", True),
    "audit_retention_s": (60, "60", 60.0),
    "retention_s": (60, "60", 60.0),
    "key_ttl_s": (60, "60", 60.0),
    "sync_wait_s": (1, "1", 1.0),
    "max_attempts": (1, "1", 1),
    "max_tools_per_worker": (5, "5", 5),
    "max_tools_per_caller": (5, "5", 5),
    "lease_s": (1, "1", 1.0),
    "claim_wait_s": (1, "1", 1.0),
    "answer_wait_s": (1, "1", 1.0),
    "mcp_page_size": (5, "5", 5),
    "mcp_stream_s": (1, "1", 1.0),
    "allowed_hosts": (["a.example", "b.example"], "a.example, b.example", ["a.example", "b.example"]),
    "total_timeout_s": (1, "1", 1.0),
    "queue_limit": (1, "1", 1),
    "secret_key": (["0" * 64, "1" * 64], f"{'0' * 64}, {'1' * 64}", ["0" * 64, "1" * 64]),
    "api_keys": ([SECRET, f"ci:{SECRET}"], f"{SECRET},ci:{SECRET}", [SECRET, f"ci:{SECRET}"]),
    "jwt_secret": ("s" * 16, "s" * 16, "s" * 16),
    "name": ("acme-tools", "acme-tools", "acme-tools"),
    "title": ("Acme's tools", "Acme's tools", "Acme's tools"),
    "instructions": ("Be kind.", "Be kind.", "Be kind."),
    "operator_token": ("t" * 32, "t" * 32, "t" * 32),
    "jwt_audience": ("me", "me", "me"),
    "jwt_max_ttl_s": (60, "60", 60.0),
    "log_format": ("json", "json", "json"),
    "cors_origins": (["https://a.example"], "https://a.example", ["https://a.example"]),
    "tls_cert": ("a.pem", "a.pem", "a.pem"),
    "tls_key": ("a.key", "a.key", "a.key"),
    "access": ([{"tools": "A.*"}], '[{"tools": "A.*"}]', [Rule(("A.*",), name="access[1]")]),
    "approvals": ([{"tools": "A.*"}], '[{"tools": "A.*"}]', [ApprovalRule(("A.*",), name="approvals[1]")]),
    "approval_wait_s": (60, "60", 60.0),
    "workers": ([{"trusted": True}], '[{"trusted": true}]', [WorkerRule(trusted=True)]),
    "upstreams": (
        [{"name": "Hub", "mcp": "https://hub.example.com/mcp", "auth": {"secret": "HUB"}}],
        '[{"name": "Hub", "mcp": "https://hub.example.com/mcp", "auth": {"secret": "HUB"}}]',
        [Upstream("Hub", mcp="https://hub.example.com/mcp", auth=SecretName("HUB"))],
    ),
    "lock_file": ("a.lock", "a.lock", "a.lock"),
    "lock": ("warn", "WARN", "warn"),
    "lock_allows_new": (True, "yes", True),
    "limits": (
        [{"per": "tool", "at_once": 2}],
        '[{"per": "tool", "at_once": 2}]',
        [Limit("limits[1]", ("tool",), at_once=2)],
    ),
    "quotas": (
        {"sessions": 5, "stored_bytes": {"tenant": 0}},
        '{"sessions": 5, "stored_bytes": {"tenant": 0}}',
        {"sessions": {"caller": 5}, "stored_bytes": {"tenant": None}},
    ),
    "auth_failures_per_minute": (0, "0", 0),
    "trusted_proxies": (["10.0.0.0/8"], "10.0.0.0/8", ["10.0.0.0/8"]),
    "max_connections": (5, "5", 5),
    "max_connections_per_address": (5, "5", 5),
    "max_streams_per_caller": (5, "5", 5),
    "write_timeout_s": (1, "1", 1.0),
    "issuers": (
        ["https://id.example", "http://localhost:1/"],
        "https://id.example, http://localhost:1/,",
        [TrustedIssuer("https://id.example"), TrustedIssuer("http://localhost:1/")],
    ),
    "providers": (
        [{"preset": "github", "client_id": "me", "client_secret": "hush"}],
        '[{"preset": "github", "client_id": "me", "client_secret": "hush"}]',
        [replace(PRESETS["github"], client_id="me", client_secret="hush")],
    ),
    "auth_failure_status": (400, "400", 400),
    "core_files": (True, "on", True),
    "show_exceptions": (True, "on", True),
    "call_timeout_s": (0.5, "0.5", 0.5),
    "queue_wait_s": (1, "1", 1.0),
    "threads": (1, "1", 1),
    "processes": (1, "1", 1),
    "serve_processes": (2, "2", 2),
    "max_body_bytes": (1, "1", 1),
    "safe_text": ("flag", "flag", "flag"),
    "max_output_bytes": (2048, "2048", 2048),
    "max_result_bytes": (2048, "2048", 2048),
    "max_json_depth": (1, "1", 1),
    "max_json_values": (100, "100", 100),
    "max_json_digits": (17, "17", 17),
    "max_header_bytes": (1024, "1024", 1024),
    "header_timeout_s": (1, "1", 1.0),
    "body_timeout_s": (1, "1", 1.0),
    "keep_alive_s": (1, "1", 1.0),
    "drain_s": (0, "0", 0.0),
    "grace_s": (1, "1", 1.0),
}


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {as_toml(below)}" for name, below in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


@pytest.mark.parametrize("name", [row.name for row in rows()])
def test_every_setting_is_read_from_the_file_and_the_environment(name: str) -> None:
    in_file, in_environment, read = SAMPLES[name]
    assert vars(load_settings({}, {f"TOOLYARD_{name.upper()}": in_environment}))[name] == read
    write(f"{name} = {as_toml(in_file)}")
    assert vars(load_settings({}, {}))[name] == read
    assert vars(exactly(**{name: in_file}))[name] == read


@pytest.mark.parametrize(
    ("word", "means"),
    [
        ("true", True),
        ("1", True),
        ("Yes", True),
        ("ON", True),
        ("false", False),
        ("0", False),
        ("no", False),
        ("off", False),
    ],
)
def test_a_switch_has_many_words(word: str, means: bool) -> None:
    assert load_settings({}, {"TOOLYARD_RELOAD": word}).reload is means


def test_an_empty_list_in_the_environment_is_empty() -> None:
    assert load_settings({}, {"TOOLYARD_API_KEYS": ""}).api_keys == []


# --- names nobody knows --------------------------------------------------------------------------


def test_an_unknown_key_in_the_file_is_refused_with_its_line() -> None:
    write("# comment\nhost = '127.0.0.1'\n\nprot = 1\n")
    with pytest.raises(SettingsError, match=r"^toolyard\.toml:4: there is no setting 'prot'; did you mean port\?$"):
        load_settings({}, {})


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("[server]\nport = 1", 1, "server"),
        ('host = "a"\n"odd key" = 1', 2, "odd key"),
        ("\n\n[[zzz]]\na = 1", 3, "zzz"),
    ],
)
def test_tables_and_quoted_keys_have_lines_too(text: str, line: int, name: str) -> None:
    write(text)
    with pytest.raises(
        SettingsError, match=f"^toolyard.toml:{line}: there is no setting '{name}'; 'toolyard settings'"
    ):
        load_settings({}, {})


def test_an_unknown_variable_is_refused_by_its_own_name() -> None:
    with pytest.raises(SettingsError, match=r"^there is no setting 'TOOLYARD_LOG_LEVLE'; did you mean log_level\?$"):
        load_settings({}, {"TOOLYARD_LOG_LEVLE": "info"})
    with pytest.raises(SettingsError, match=r"^there is no setting 'TOOLYARD_QQQ'; 'toolyard settings' lists them$"):
        load_settings({}, {"TOOLYARD_QQQ": "1"})


def test_an_unknown_setting_of_a_mounted_app_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"there is no setting 'prot'; did you mean port\?"):
        App(Toolkit("Kit")).asgi(prot=1)
    with pytest.raises(SettingsError, match=r"there is no setting 'prot'; did you mean port\?"):
        exactly(prot=1)


KUBERNETES = {
    "TOOLYARD_PORT": "tcp://10.0.0.1:8000",
    "TOOLYARD_SERVICE_HOST": "10.0.0.1",
    "TOOLYARD_SERVICE_PORT": "8000",
    "TOOLYARD_SERVICE_PORT_HTTP": "8000",
    "TOOLYARD_PORT_8000_TCP": "tcp://10.0.0.1:8000",
    "TOOLYARD_PORT_8000_TCP_ADDR": "10.0.0.1",
    "TOOLYARD_PORT_8000_TCP_PORT": "8000",
    "TOOLYARD_PORT_8000_TCP_PROTO": "tcp",
    "TOOLYARD_POSTGRES_SERVICE_HOST": "10.0.0.2",
    "TOOLYARD_POSTGRES_SERVICE_PORT": "5432",
    "TOOLYARD_POSTGRES_PORT": "tcp://10.0.0.2:5432",
    "TOOLYARD_POSTGRES_PORT_5432_TCP_PROTO": "tcp",
}


@pytest.mark.parametrize("variable", KUBERNETES)
def test_what_kubernetes_says_of_a_service_called_toolyard_is_not_a_setting(variable: str) -> None:
    assert load_settings({}, {variable: KUBERNETES[variable]}) == Settings()


def test_variables_of_others_are_not_settings() -> None:
    others = {
        "TOOLYARD_SERVER": "http://a",
        "TOOLYARD_KEY": SECRET,
        "TOOLYARD_CA": "a",
        "TOOLYARD_TRUST": "b",
        "PORT": "1",
        "toolyard_port": "2",
    }
    assert load_settings({}, others) == Settings()


# --- values that cannot be -----------------------------------------------------------------------

HOST = "an address of this machine, such as 127.0.0.1, or one of its names"
HOSTS = "a list of names such as tools.example.com, without port and path (in the environment: with commas)"
STORE = "sqlite:FILE or postgresql://USER@HOST/DATABASE"
WRONG: list[tuple[str, Any, str]] = [
    ("port", "x", "a whole number from 0 to 65535"),
    ("port", 65536, "a whole number from 0 to 65535"),
    ("port", -1, "a whole number from 0 to 65535"),
    ("port", True, "a whole number from 0 to 65535"),
    ("port", 80.0, "a whole number from 0 to 65535"),
    ("port", "", "a whole number from 0 to 65535"),
    ("port", "9" * 30, "a whole number from 0 to 65535"),
    ("threads", 0, "a whole number from 1 to 10000"),
    ("host", "", HOST),
    ("host", 3, HOST),
    ("host", "not a host", HOST),
    ("host", "http://127.0.0.1", HOST),
    ("allowed_hosts", ["http://x/"], HOSTS),
    ("allowed_hosts", ["x:8000"], HOSTS),
    ("allowed_hosts", ["good.example", "*"], HOSTS),
    ("store", "sqlite:.", STORE),
    ("store", "sqlite:", STORE),
    ("store", "toolyard.db", STORE),
    ("call_timeout_s", 0, "a number of seconds greater than 0"),
    ("call_timeout_s", "-1", "a number of seconds greater than 0"),
    ("call_timeout_s", True, "a number of seconds greater than 0"),
    ("call_timeout_s", float("inf"), "a number of seconds greater than 0"),
    ("call_timeout_s", float("nan"), "a number of seconds greater than 0"),
    ("call_timeout_s", "soon", "a number of seconds greater than 0"),
    ("reload", "maybe", "true or false"),
    ("reload", 2, "true or false"),
    ("log_level", "loud", "one of debug, info, warning, error"),
    ("auth_failure_status", 403, "one of 401, 400"),
    ("tools", 3, "a list of texts (in the environment: separated by commas)"),
    ("tools", [3], "a list of texts (in the environment: separated by commas)"),
    ("public_url", "tools.example.com", "an address such as https://tools.example.com"),
    ("public_url", "https://a b", "an address such as https://tools.example.com"),
    ("public_url", "https://a?b=c", "an address such as https://tools.example.com"),
]


@pytest.mark.parametrize(("name", "value", "must_be"), WRONG, ids=str)
def test_a_value_that_cannot_be_is_refused_with_what_it_must_be(name: str, value: Any, must_be: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        exactly(**{name: value})
    assert str(refusal.value) == f"{name} must be {must_be}, got {value!r}"


def test_names_and_addresses_of_a_server() -> None:
    for host in ("0.0.0.0", "::", "fe80::1%eth0", "localhost", "my-host.example.com"):
        assert exactly(host=host).host == host
    names = ["a.example", "127.0.0.2", "[::1]", "::1", "https://app.example", "http://app.example:3000"]
    assert exactly(allowed_hosts=names).allowed_hosts == names


TABLES = """
port = 1

[[access]]
tools = "A.*"
[access.who]
subject = "ada"

[[ access ]]
who = { subjct = "bob" }

[[limits]]
per = "planet"
at_once = 1
"""


def test_a_table_that_is_not_right_is_named_with_its_line() -> None:
    write(TABLES)
    with pytest.raises(SettingsError) as refusal:
        load_settings({}, {})
    assert str(refusal.value) == (
        "toolyard.toml:9: access[2].who has no 'subjct'; it has subject, tenant, key, scope, claim"
    )
    write(TABLES.replace("subjct", "subject"))
    with pytest.raises(SettingsError) as refusal:
        load_settings({}, {})
    assert str(refusal.value) == (
        "toolyard.toml:12: limits[1].per must be one or some of caller, tenant, address, tool, got 'planet'"
    )
    write("access = [{}, {allow = 'no'}]")
    with pytest.raises(SettingsError, match=r"^toolyard\.toml:1: access\[2\]\.allow must be true or false, got 'no'$"):
        load_settings({}, {})


def test_tables_in_the_environment_are_named_with_their_variable() -> None:
    with pytest.raises(
        SettingsError, match=r"^TOOLYARD_PROVIDERS: providers\[1\]\.client_id is missing; it must be text$"
    ):
        load_settings({}, {"TOOLYARD_PROVIDERS": '[{"preset": "github"}]'})
    with pytest.raises(
        SettingsError, match=r"^TOOLYARD_ACCESS must be a list of tables as JSON \(Expecting value.*\), got"
    ):
        load_settings({}, {"TOOLYARD_ACCESS": "x"})
    with pytest.raises(SettingsError, match=r"^TOOLYARD_ACCESS must be a list of tables: \[\[access\]\], got '7'$"):
        load_settings({}, {"TOOLYARD_ACCESS": "7"})


def test_each_source_is_named_in_its_own_words() -> None:
    with pytest.raises(SettingsError, match=r"^--log-level must be one of debug, info, warning, error, got 'loud'$"):
        load_settings({"log_level": "loud"}, {})
    with pytest.raises(SettingsError, match=r"^TOOLYARD_LOG_LEVEL must be one of .*, got 'loud'$"):
        load_settings({}, {"TOOLYARD_LOG_LEVEL": "loud"})
    write("# first\nlog_level = 'loud'")
    with pytest.raises(SettingsError, match=r"^toolyard\.toml:2: log_level must be one of .*, got 'loud'$"):
        load_settings({}, {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_keys", 12345678901),
        ("api_keys", [12345678901]),
        ("api_keys", {"key": SECRET}),
        ("jwt_secret", 12345678901),
        ("secret_key", 12345678901),
        ("secret_key", ""),
        ("secret_key", []),
    ],
)
def test_a_wrong_secret_is_never_shown(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=r"got something else$") as refusal:
        exactly(**{name: value})
    assert "12345678901" not in str(refusal.value)
    assert SECRET not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_a_key_that_is_none_is_never_shown() -> None:
    with pytest.raises(SettingsError, match=r"api_keys: entry 2 is not a key") as refusal:
        App(Toolkit("Kit")).asgi(api_keys=[SECRET, "hunter2"])
    assert "hunter2" not in str(refusal.value)
    with pytest.raises(SettingsError, match="jwt_secret is too short") as refusal:
        App(Toolkit("Kit")).asgi(jwt_secret="hunter2")
    assert "hunter2" not in str(refusal.value)


# --- the file itself -----------------------------------------------------------------------------


def test_a_file_that_was_asked_for_must_be_there() -> None:
    for environment, config in (({}, "none.toml"), ({"TOOLYARD_CONFIG": "none.toml"}, None)):
        with pytest.raises(SettingsError, match=r"^the configuration file none\.toml does not exist$"):
            load_settings({}, environment, config)


def test_a_file_that_is_not_toml_is_refused_with_its_line() -> None:
    write("port = 1\nhost = \n")
    with pytest.raises(SettingsError, match=r"^toolyard\.toml: this is not TOML: .*line 2"):
        load_settings({}, {})
    Path("toolyard.toml").write_bytes(b"host = '\xff'")
    with pytest.raises(SettingsError, match=r"^toolyard\.toml: this is not TOML: "):
        load_settings({}, {})


def test_a_folder_is_not_a_file() -> None:
    Path("toolyard.toml").mkdir()
    with pytest.raises(SettingsError, match=r"the configuration file toolyard\.toml cannot be read: Is a directory"):
        load_settings({}, {})


def test_authentication_is_what_keys_or_a_secret_make() -> None:
    assert not Settings().has_authentication
    assert Settings(api_keys=[SECRET]).has_authentication
    assert Settings(jwt_secret="s" * 16).has_authentication
    assert exactly(issuers=["https://id.example"]).has_authentication


# --- issuers -------------------------------------------------------------------------------------


def test_an_issuer_may_be_a_table() -> None:
    write(
        "[[issuers]]\nissuer = 'https://id.example/'\naudience = 'yard'\njwks_url = 'https://id.example/keys'\n"
        "tenant_claim = 'org'\nsubject_claim = 'email'\nalgorithms = ['ES256']\nmax_ttl_s = 60\n"
    )
    whole = TrustedIssuer("https://id.example/", "yard", "https://id.example/keys", "org", "email", ("ES256",), 60.0)
    assert load_settings({}, {}).issuers == [whole]


@pytest.mark.parametrize(
    ("entry", "must_be"),
    [
        ("http://id.example", "issuer must be an https address (http on this machine alone), got 'http://id.example'"),
        ("https://user@id.example", "issuer must be an https address"),
        ("https://id.example?a=b", "issuer must be an https address"),
        ("http://127.0.0.1.example", "issuer must be an https address"),
        (7, "issuer must be an https address (http on this machine alone), got 7"),
        ({}, "issuer is missing; it must be an https address"),
        ({"issuer": "https://a", "jwks_url": "ftp://a"}, "jwks_url must be an https address"),
        ({"issuer": "https://a", "audience": ""}, "audience must be text, got ''"),
        ({"issuer": "https://a", "subject_claim": 7}, "subject_claim must be text, got 7"),
        ({"issuer": "https://a", "algorithms": ["HS256"]}, "algorithms must be a list of some of RS256, PS256, ES256"),
        ({"issuer": "https://a", "algorithms": []}, "algorithms must be a list of some of RS256"),
        ({"issuer": "https://a", "max_ttl_s": 0}, "max_ttl_s must be a number of seconds greater than 0, got 0"),
        ({"issuer": "https://a", "speaks_for_users": 1}, "speaks_for_users must be true or false, got 1"),
        ({"issuer": "https://a", "speaks_for_users": "no"}, "speaks_for_users must be true or false, got 'no'"),
        ({"issuer": "https://a", "audiance": "x"}, "has no 'audiance'; it has issuer, audience"),
        ({"issuer": "https://a", "client_id": 7}, "client_id must be text"),
        ({"issuer": "https://a", "client_secret": "hush"}, "client_secret stands beside a client_id"),
        ({"issuer": "https://a", "scopes": ["email"]}, "scopes stands beside a client_id"),
        (
            {"issuer": "https://a", "client_id": "me", "client_secret": "hush", "client_secret_env": "HUSH"},
            " must have only one of client_secret, client_secret_env, client_secret_file",
        ),
        ({"issuer": "https://a", "client_id": "me", "client_secret": 7}, "client_secret must be text"),
        ({"issuer": "https://a", "client_id": "me", "scopes": ["a b"]}, "scopes must be a list of scopes, each "),
        ({"issuer": "https://a", "client_id": "me", "parameters": {"state": "x"}}, "parameters must not have state"),
    ],
    ids=str,
)
def test_an_issuer_that_cannot_be_is_refused_with_what_is_wrong(entry: Any, must_be: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        exactly(issuers=["https://good.example", entry])
    assert str(refusal.value).startswith("issuers[2]")
    assert must_be in str(refusal.value)
    assert "hush" not in str(refusal.value)


def test_people_sign_in_at_an_issuer_where_this_server_is_a_client() -> None:
    table = {
        "issuer": "https://id.example", "client_id": "me", "client_secret": "hush", "scopes": ["email", "openid"],
        "parameters": {"prompt": "select_account"},
    }  # fmt: skip
    (bare, read) = exactly(issuers=["https://other.example", table]).issuers
    assert bare.client is None
    assert read.client is not None
    assert (read.client.client_id, read.client.secret()) == ("me", "hush")
    assert (read.client.scopes, read.client.parameters) == (("openid", "email"), {"prompt": "select_account"})
    assert "hush" not in repr(read)
    assert load_settings({}, {"TOOLYARD_ISSUERS": json.dumps([table])}).issuers == [read]
    with pytest.raises(
        SettingsError, match=r"^TOOLYARD_ISSUERS must be a list of issuers; as JSON it cannot be read: "
    ):
        load_settings({}, {"TOOLYARD_ISSUERS": "[nonsense"})


def test_a_client_of_an_issuer_without_its_secret_is_refused_at_the_start() -> None:
    kit, given = App(Toolkit("Kit")), {"issuer": "https://id.example", "audience": "yard", "client_id": "me"}
    with pytest.raises(
        SettingsError, match=r"^issuers: client_secret_env of https://id\.example must name a variable "
    ):
        kit.asgi(issuers=[{**given, "client_secret_env": "NOWHERE"}])
    kit.asgi(issuers=[given])
    other = {**given, "issuer": "https://other.example", "client_secret": "hush"}
    with pytest.raises(
        SettingsError, match=r"^issuers: https://id\.example has a client_id and no client_secret; where "
    ):
        kit.asgi(issuers=[given, other])
    kit.asgi(issuers=[{**given, "client_secret": "hush"}, other])


def test_an_issuer_without_an_audience_is_refused_at_the_start() -> None:
    kit = App(Toolkit("Kit"))
    with pytest.raises(SettingsError, match=r"^issuers: https://id\.example needs an audience; set jwt_audience to "):
        kit.asgi(issuers=["https://id.example"])
    kit.asgi(issuers=["https://id.example"], jwt_audience="yard")
    kit.asgi(issuers=[{"issuer": "https://id.example", "audience": "yard"}])
    with pytest.raises(SettingsError, match=r"^issuers: https://id\.example is named twice$"):
        kit.asgi(issuers=["https://id.example", "https://id.example"], jwt_audience="yard")
