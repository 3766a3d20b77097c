"""What a setting's value may be. A reader takes it as it stands in a file, a variable or a flag, gives it back as the
server uses it, and raises Wrong for any other."""

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

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
_NAME = r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?"
_IPV6 = r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"
_host = re.compile(rf"{_NAME}|{_IPV6}(%[A-Za-z0-9]+)?").fullmatch
_allowed_host = re.compile(rf"(https?://)?({_NAME}|\[{_IPV6}\])|{_IPV6}|https?://[^/\s?#@*]+:[0-9]{{1,5}}").fullmatch


class Wrong(ValueError):
    """What a value must be, in words."""


def text(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise Wrong("text")


def whole(lowest: int, highest: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, str) and re.fullmatch("-?[0-9]{1,18}", value):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest:
            return value
        raise Wrong(f"a whole number from {lowest} to {highest}")

    return read


def seconds(value: Any) -> float:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", value):
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value)
    raise Wrong("a number of seconds greater than 0")


def switch(value: Any) -> bool:
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
    """In a table, which has no words for it."""
    if isinstance(value, bool):
        return value
    raise Wrong("true or false")


def choice(*options: Any) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        for option in options:
            if str(value).lower() == str(option):
                return option
        raise Wrong(f"one of {', '.join(map(str, options))}")

    return read


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return list(value)
    raise Wrong("a list of texts (in the environment: separated by commas)")


def master_keys(value: Any) -> list[str]:
    """At least one: who sets it to nothing has made a mistake, and must not get another key instead."""
    if keys := texts(value):
        return keys
    raise Wrong("64 hexadecimal digits, or several of that, separated by commas")


def server_name(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", value):
        return value
    raise Wrong("1 to 64 letters, digits, '_', '.' or '-'; what people read is the title")


def operator_token(value: Any) -> str:
    """It opens everything, so nobody must be able to guess it."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.~+/=-]{32,}", value):
        return value
    raise Wrong("at least 32 letters, digits or any of _.~+/=-; 'openssl rand -hex 32' makes one")


def address(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"https?://[^/\s?#]+(/[^\s?#]*)?", value):
        return value.rstrip("/")
    raise Wrong("an address such as https://tools.example.com")


def host(value: Any) -> str:
    if isinstance(value, str) and _host(value):
        return value
    raise Wrong("an address of this machine, such as 127.0.0.1, or one of its names")


def hosts(value: Any) -> list[str]:
    given = texts(value)
    if all(map(_allowed_host, given)):
        return given
    raise Wrong("a list of names such as tools.example.com, without port and path (in the environment: with commas)")


def store(value: Any) -> str:
    """Whether there is such a ledger is found out by whoever opens it."""
    kind, _, place = value.partition(":") if isinstance(value, str) else ("", "", "")
    if (kind == "sqlite" and Path(place).name not in ("", "..")) or (kind in ("postgresql", "postgres") and place):
        return str(value)
    raise Wrong("sqlite:FILE or postgresql://USER@HOST/DATABASE")


def origins(value: Any) -> list[str]:
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


def providers(value: Any) -> list[Provider]:
    return _tables(value, read_providers)


def _tables(value: Any, read: Callable[[Any], T]) -> T:
    """In the environment, as JSON. Raises WrongTable for what is wrong with one of them."""
    try:
        return read(json.loads(value) if isinstance(value, str) else value)
    except WrongTable:
        raise
    except json.JSONDecodeError as error:
        raise Wrong(f"a list of tables as JSON ({error})") from None
    except ValueError as error:
        raise Wrong(str(error)) from None


def issuers(value: Any) -> list[TrustedIssuer]:
    """In the environment, addresses with commas between them, or JSON."""
    if isinstance(value, str):
        value = _from_json(value) if value.lstrip().startswith("[") else texts(value)
    if not isinstance(value, list | tuple):
        raise Wrong("a list of issuers, each an https address or a table (in the environment: with commas, or as JSON)")
    return each_table([entry if isinstance(entry, dict) else {"issuer": entry} for entry in value], "issuers", _issuer)


def _issuer(entry: Mapping[str, Any], at: str) -> TrustedIssuer:
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
    """As it is: an issuer is compared letter for letter, and some end with a slash."""
    if isinstance(value, str) and re.fullmatch(r"https?://[^/\s?#@]+(/[^\s?#]*)?", value) and is_safe(value):
        return value
    raise Wrong(HTTPS)


def algorithms(value: Any) -> tuple[str, ...]:
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
"""What the table of an issuer may have."""
