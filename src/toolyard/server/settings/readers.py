"""What a setting's value may be. A reader takes a value as it stands in a file, a variable or a flag, and gives it back
as the server uses it; for any other it raises Wrong with what the value must be, and the table makes a sentence of
that.

A value in the environment is text, so readers of numbers and switches take that, too. Tables ([[access]] and the like)
are read by `trust`, beside what they become; in the environment they are JSON.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ...model.upstream import Upstream, refuse_alike
from ...text.addresses import is_safe
from ...trust.access.access import Rule, read_rules
from ...trust.access.worker_rules import WorkerRule, read_worker_rules
from ...trust.approvals.rules import ApprovalRule, read_approvals
from ...trust.issuer_settings import ALGORITHMS, TrustedIssuer
from ...trust.limits.limits import Limit, read_limits
from ...trust.limits.quotas import read_quotas
from ...trust.provider_settings import CLIENT, Provider, read_client, read_providers
from ...trust.tables import WrongTable, each_table, only

T = TypeVar("T")
HTTPS = "an https address (http on this machine alone)"
# Underscores are not for names of hosts, and yet container networks have them.
_NAME = r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?"
_IPV6 = r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"
_host = re.compile(rf"{_NAME}|{_IPV6}(%[A-Za-z0-9]+)?").fullmatch
_allowed_host = re.compile(rf"(https?://)?({_NAME}|\[{_IPV6}\])|{_IPV6}|https?://[^/\s?#@*]+:[0-9]{{1,5}}").fullmatch


class Wrong(ValueError):
    """A value is not what it must be; the text is what it must be, in words that follow "must be"."""


def text(value: Any) -> str:
    """Any text but the empty one, which is a variable that somebody forgot to fill."""
    if isinstance(value, str) and value:
        return value
    raise Wrong("text")


def whole(lowest: int, highest: int) -> Callable[[Any], int]:
    """A reader of whole numbers within bounds."""

    def read(value: Any) -> int:
        # `int` alone would also take spaces, underscores and the digits of other scripts.
        if isinstance(value, str) and re.fullmatch("-?[0-9]{1,18}", value):
            value = int(value)
        # True and False are ints to Python, and no numbers to whoever wrote them.
        if isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest:
            return value
        raise Wrong(f"a whole number from {lowest} to {highest}")

    return read


def seconds(value: Any) -> float:
    """A time span. There is no value for "forever": every wait of this server ends."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", value):
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value)
    raise Wrong("a number of seconds greater than 0")


def seconds_or_none(value: Any) -> float:
    """A time span that may be no time at all."""
    try:
        return 0.0 if value in (0, "0") and value is not False else seconds(value)
    except Wrong:
        raise Wrong("a number of seconds, or 0") from None


def switch(value: Any) -> bool:
    """On or off, in the words that people use in environments and on command lines."""
    known = {
        "true": True,
        "1": True,
        "yes": True,
        "on": True,
        "false": False,
        "0": False,
        "no": False,
        "off": False,
    }
    chosen = known.get(str(value).lower())
    if chosen is None:
        raise Wrong("true or false")
    return chosen


def flag(value: Any) -> bool:
    """On or off in a table, where TOML and JSON have a value for it and words are mistakes."""
    if isinstance(value, bool):
        return value
    raise Wrong("true or false")


def choice(*options: Any) -> Callable[[Any], Any]:
    """A reader of one of a few values."""

    def read(value: Any) -> Any:
        for option in options:
            if str(value).lower() == str(option):  # 401 is a text in the environment
                return option
        raise Wrong(f"one of {', '.join(map(str, options))}")

    return read


def texts(value: Any) -> list[str]:
    """A list of texts; in the environment, one text with commas."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return list(value)
    raise Wrong("a list of texts (in the environment: separated by commas)")


def master_keys(value: Any) -> list[str]:
    """At least one key: whoever sets it to nothing has made a mistake, and must not get another key instead."""
    if keys := texts(value):
        return keys
    raise Wrong("64 hexadecimal digits, or several of that, separated by commas")


def server_name(value: Any) -> str:
    """A name for programs, MCP clients above all."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", value):
        return value
    raise Wrong("1 to 64 letters, digits, '_', '.' or '-'; what people read is the title")


def operator_token(value: Any) -> str:
    """The operator's token. It opens everything, so nobody must be able to guess it."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.~+/=-]{32,}", value):
        return value
    raise Wrong("at least 32 letters, digits or any of _.~+/=-; 'openssl rand -hex 32' makes one")


def address(value: Any) -> str:
    """This server's own address; without the slash at its end, since paths are put after it."""
    if isinstance(value, str) and re.fullmatch(r"https?://[^/\s?#]+(/[^\s?#]*)?", value):
        return value.rstrip("/")
    raise Wrong("an address such as https://tools.example.com")


def host(value: Any) -> str:
    """Where to listen. Whether the name or the address is this machine's, the system says when it is tried."""
    if isinstance(value, str) and _host(value):
        return value
    raise Wrong("an address of this machine, such as 127.0.0.1, or one of its names")


def hosts(value: Any) -> list[str]:
    """Names of this server, as they stand in `Host`; an origin with its port is taken, too, for the page that it
    names."""
    given = texts(value)
    if all(map(_allowed_host, given)):
        return given
    raise Wrong("a list of names such as tools.example.com, without port and path (in the environment: with commas)")


def store(value: Any) -> str:
    """The address of a ledger. Whether there is such a one is found out by whoever opens it."""
    kind, _, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    if (kind == "sqlite" and Path(rest).name not in ("", "..")) or (kind in ("postgresql", "postgres") and rest):
        return str(value)
    raise Wrong("sqlite:FILE or postgresql://USER@HOST/DATABASE")


def origins(value: Any) -> list[str]:
    """Origins of pages, as browsers write them: a scheme, a host, perhaps a port, and no path; or `*`."""
    given = texts(value)
    if all(each == "*" or re.fullmatch(r"https?://[^/\s?#@*]+", each) for each in given):
        return given
    raise Wrong("a list of origins such as https://app.example.com, without a path (in the environment: with commas)")


def rules(value: Any) -> list[Rule]:
    return _tables(value, read_rules)


def approvals(value: Any) -> list[ApprovalRule]:
    return _tables(value, read_approvals)


def limits(value: Any) -> list[Limit]:
    return _tables(value, read_limits)


def quotas(value: Any) -> dict[str, dict[str, int | None]]:
    return _tables(value, read_quotas)


def worker_rules(value: Any) -> list[WorkerRule]:
    return _tables(value, read_worker_rules)


def upstreams(value: Any) -> list[Upstream]:
    """`[[upstreams]]` tables."""
    made = _tables(value, lambda given: each_table(given, "upstreams", _upstream))
    try:
        refuse_alike(tuple(made))
    except ValueError as error:
        raise WrongTable(str(error)) from None
    return made


def _upstream(table: Mapping[str, Any], at: str) -> Upstream:
    known = Upstream.__struct_fields__
    only(table, at, *known)
    if "name" not in table:
        raise ValueError(f"{at} must have a name")
    try:
        return msgspec.convert(dict(table), Upstream)
    except msgspec.ValidationError as error:
        raise ValueError(f"{at}: {error}") from None


def providers(value: Any) -> list[Provider]:
    return _tables(value, read_providers)


def _tables(value: Any, read: Callable[[Any], T]) -> T:
    """Tables, which are JSON in the environment. Raises WrongTable for what is wrong with one of them, which is a whole
    sentence already, and Wrong where they are no tables at all."""
    try:
        return read(json.loads(value) if isinstance(value, str) else value)
    except WrongTable:
        raise
    except json.JSONDecodeError as error:
        raise Wrong(f"a list of tables as JSON ({error})") from None
    except ValueError as error:
        raise Wrong(str(error)) from None


def issuers(value: Any) -> list[TrustedIssuer]:
    """Issuers, each an address or a table; in the environment, addresses with commas between them, or JSON."""
    if isinstance(value, str):
        value = _from_json(value) if value.lstrip().startswith("[") else texts(value)
    if not isinstance(value, list | tuple):
        raise Wrong("a list of issuers, each an https address or a table (in the environment: with commas, or as JSON)")
    return each_table([entry if isinstance(entry, dict) else {"issuer": entry} for entry in value], "issuers", _issuer)


def _issuer(entry: Mapping[str, Any], at: str) -> TrustedIssuer:
    """One issuer's table: how its tokens are read, and this server as its client, where people sign in there."""
    only(entry, at, *ISSUER, *CLIENT)
    if "issuer" not in entry:
        raise ValueError(f"{at}.issuer is missing; it must be {HTTPS}")
    client = {name: value for name, value in entry.items() if name in CLIENT}
    read: dict[str, Any] = {}
    for name, value in entry.items():
        try:
            if name not in client:
                read[name] = ISSUER[name](value)
        except Wrong as wrong:
            raise ValueError(f"{at}.{name} must be {wrong}, got {value!r}") from None
    return TrustedIssuer(**read, client=read_client(read["issuer"], client, at))


def _from_json(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise Wrong(f"a list of issuers; as JSON it cannot be read: {error}") from None


def https(value: Any) -> str:
    """An issuer's address, exactly as it is: issuers are compared letter for letter, and some end with a slash."""
    if isinstance(value, str) and re.fullmatch(r"https?://[^/\s?#@]+(/[^\s?#]*)?", value) and is_safe(value):
        return value
    raise Wrong(HTTPS)


def algorithms(value: Any) -> tuple[str, ...]:
    """Some of the algorithms that tokens may be signed with, and at least one."""
    given = texts(value) if isinstance(value, list | str) else []
    if given and set(given) <= set(ALGORITHMS):
        return tuple(given)
    raise Wrong(f"a list of some of {', '.join(ALGORITHMS)}")


ISSUER: dict[str, Callable[[Any], Any]] = {
    "issuer": https,
    "audience": text,
    "jwks_url": https,
    "tenant_claim": text,
    "subject_claim": text,
    "algorithms": algorithms,
    "max_ttl_s": seconds,
    "speaks_for_users": flag,
}
"""What the table of an issuer may have, and how each member is read."""
