"""The public keys of a JWK Set (RFC 7517), which of them a token's signature should be made with, and whether it is.

joserfc does the cryptography. It is told which algorithm and which key, and never asks the token for either.
"""

import warnings
from collections.abc import Sequence
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from msgspec import Struct

from .jwt import ParsedToken, refused

FEWEST_RSA_BITS = 2048
"""RFC 7518, section 3.3."""
KINDS = {"RS256": {"RSA"}, "PS256": {"RSA"}, "ES256": {"P-256"}, "ES384": {"P-384"}, "EdDSA": {"Ed25519", "Ed448"}}
"""What kinds of keys an algorithm may be used with: RSA, or the name of a curve."""


class PublicKey(Struct, frozen=True):
    """A public key of an issuer. `kind` is RSA or the name of a curve; `alg` is the one algorithm that the key may be
    used with, if it says so."""

    kid: str | None
    kind: str
    alg: str | None
    bits: int
    key: RSAKey | ECKey | OKPKey

    def objection(self, alg: str) -> str | None:
        """Why a signature of this algorithm must not be checked with this key. None: it may."""
        if self.kind not in KINDS.get(alg, ()):
            return f"is of the kind {self.kind}, which is not one for {alg}"
        if self.alg is not None and self.alg != alg:
            return f"is for {self.alg}, not for {alg}"
        if self.kind == "RSA" and self.bits < FEWEST_RSA_BITS:
            return f"is weak: {self.bits} bits, and RSA needs {FEWEST_RSA_BITS}"
        return None

    def check(self, token: ParsedToken) -> None:
        """Raises NotAuthenticated where the token's signature is not made with this key."""
        if (objection := self.objection(token.alg)) is not None:
            raise refused(f"the key {self.kid!r} {objection}")
        if not JWSRegistry.algorithms[token.alg].verify(token.signed, token.signature, self.key):
            raise refused(f"the token's signature is not made with the key {self.kid!r}")


def read_keys(document: Any) -> list[PublicKey]:
    """The keys of a JWK Set. Keys of kinds that nobody here knows are left out, as RFC 7517, section 5, wants it.
    Raises ValueError for a document that is none."""
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError("it is not a JWK Set: it has no list of keys")
    return [key for key in map(_read_key, entries) if key is not None]


def choose(keys: Sequence[PublicKey], token: ParsedToken) -> PublicKey | None:
    """The key that a token names; where it names none, the only one that can be meant."""
    if token.kid is None:
        fitting = [key for key in keys if key.objection(token.alg) is None]
        return fitting[0] if len(fitting) == 1 else None
    # Two keys of one name are told apart by their algorithm; the wrong one is given back for its objection.
    named = [key for key in keys if key.kid == token.kid]
    return next((key for key in named if key.objection(token.alg) is None), named[0] if named else None)


def _read_key(entry: Any) -> PublicKey | None:
    """None for a key that cannot be used here: for encryption, of an unknown kind, or broken."""
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or "verify" not in _operations(entry):
        return None
    # The public members alone: a private key that was published by mistake is not even looked at.
    public = {name: value for name, value in entry.items() if name in ("kty", "crv", "n", "e", "x", "y")}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # a weak key is refused by name when it is needed
            key = JWKRegistry.import_key(public)
    except (JoseError, UnsupportedAlgorithm, ValueError, TypeError, KeyError):
        return None
    if not isinstance(key, RSAKey | ECKey | OKPKey):
        return None
    kid, alg = entry.get("kid"), entry.get("alg")
    kind = "RSA" if isinstance(key, RSAKey) else key.curve_name
    bits = key.public_key.key_size if isinstance(key, RSAKey) else 0
    return PublicKey(kid if isinstance(kid, str) else None, kind, alg if isinstance(alg, str) else None, bits, key)


def _operations(entry: dict[str, Any]) -> Sequence[Any]:
    operations = entry.get("key_ops", ["verify"])
    return operations if isinstance(operations, list) else ()
