"""The credentials that rows name: API keys, and JSON Web Tokens made by hand.

HS256 is written out here with `hmac`, so that the tests share no library, and no mistakes, with the server.
"""

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping

API_KEY = "ty_conformance_key_0123456789"
CALLERS = {"ada": "ty_conformance_ada_0123456789", "bob": "ty_conformance_bob_0123456789"}
"""Two callers that have nothing to do with each other."""
JWT_SECRET = "conformance-secret-0123456789abcdef"
FOREIGN_SECRET = "a-secret-the-server-never-saw-0123456789"

PLACEHOLDER = re.compile(r"<jwt:([a-z-]+)>")


def part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def sign(claims: Mapping[str, object], secret: str) -> str:
    header = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    payload = part(json.dumps(claims).encode())
    signature = hmac.new(secret.encode(), f"{header}.{payload}".encode(), hashlib.sha256).digest()
    return f"{header}.{payload}.{part(signature)}"


def unsigned(claims: Mapping[str, object]) -> str:
    header = part(json.dumps({"alg": "none", "typ": "JWT"}).encode())
    return f"{header}.{part(json.dumps(claims).encode())}."


def mint(name: str, now: int) -> str:
    claims = {"sub": "conformance", "iat": now}
    soon = {**claims, "exp": now + 600}
    tokens = {
        "valid": lambda: sign(soon, JWT_SECRET),
        "expired": lambda: sign({**claims, "iat": now - 1200, "exp": now - 600}, JWT_SECRET),
        "too-long": lambda: sign({**claims, "exp": now + 3600}, JWT_SECRET),
        "no-exp": lambda: sign(claims, JWT_SECRET),
        "foreign-secret": lambda: sign(soon, FOREIGN_SECRET),
        "unsigned": lambda: unsigned(soon),
    }
    return tokens[name]()


def fill(text: str, now: int | None = None) -> str:
    """A header's value, with `<jwt:...>` replaced by a token that is fresh now."""
    moment = int(time.time()) if now is None else now
    return PLACEHOLDER.sub(lambda found: mint(found[1], moment), text)
