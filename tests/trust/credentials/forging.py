"""Tokens and keys made by hand, good and bad, so that the tests share no code with what they test."""

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

NOW = 1_750_000_000.0
SECRET = "a-shared-secret-of-some-length!!"
AUDIENCE = "https://tools.example"
CLAIMS = {"sub": "user-1", "aud": AUDIENCE, "iat": NOW - 10, "exp": NOW + 300}
"""Of a good token, but for its issuer."""

Sign = Callable[[bytes], bytes]
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def part(content: bytes) -> bytes:
    return urlsafe_b64encode(content).rstrip(b"=")


def token(header: Any, claims: Any, sign: Sign) -> bytes:
    """Texts and bytes are taken as they are; `...` as a claim leaves it out."""
    if isinstance(claims, dict):
        claims = {name: value for name, value in claims.items() if value is not ...}
    signed = part(as_bytes(header)) + b"." + part(as_bytes(claims))
    return signed + b"." + part(sign(signed))


def as_bytes(content: Any) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


def hs256(secret: bytes = SECRET.encode()) -> Sign:
    return lambda signed: hmac.new(secret, signed, hashlib.sha256).digest()


def unsigned(signed: bytes) -> bytes:
    return b""


def signing(alg: str, key: Key) -> Sign:
    """With this key, as that algorithm has it."""

    def sign(signed: bytes) -> bytes:
        if isinstance(key, ed25519.Ed25519PrivateKey):
            return key.sign(signed)
        if isinstance(key, rsa.RSAPrivateKey):
            pss = padding.PSS(padding.MGF1(SHA256()), SHA256.digest_size)
            return key.sign(signed, pss if alg == "PS256" else padding.PKCS1v15(), SHA256())
        size = (key.key_size + 7) // 8
        r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(SHA384() if alg == "ES384" else SHA256())))
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")

    return sign


@cache
def key(name: str) -> Key:
    """The same one whenever it is asked for by the same name: `rsa`, `rsa-other`, `weak`, `p256`, `p384`, `ed25519`."""
    kind = name.partition("-")[0]
    if kind in ("rsa", "weak"):
        return rsa.generate_private_key(65537, 1024 if kind == "weak" else 2048)
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key({"p256": ec.SECP256R1, "p384": ec.SECP384R1}[kind]())


def jwk(kid: str | None, private: Key, **members: Any) -> dict[str, Any]:
    """Its public half, as an issuer publishes it."""
    return ({} if kid is None else {"kid": kid}) | _public(private) | members


def _public(private: Key) -> dict[str, Any]:
    public = private.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        numbers = public.public_numbers()
        return {"kty": "RSA", "n": number(numbers.n, public.key_size), "e": number(numbers.e, 24)}
    if isinstance(public, ed25519.Ed25519PublicKey):
        return {"kty": "OKP", "crv": "Ed25519", "x": part(public.public_bytes_raw()).decode()}
    point, size = public.public_numbers(), public.key_size
    return {"kty": "EC", "crv": f"P-{size}", "x": number(point.x, size), "y": number(point.y, size)}


def number(value: int, bits: int) -> str:
    return part(value.to_bytes((bits + 7) // 8, "big")).decode()


def pem(private: Key) -> bytes:
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
