"""Bearer tokens: what good ones say, and every way to forge or break one that we could think of. Each bad token differs
from a good one in what its name says, and is refused for that reason and no other."""

import asyncio
import hashlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from toolyard.model.errors import NotAuthenticated
from toolyard.trust.access.identity import Identity
from toolyard.trust.credentials.claims import ClaimRules, identity_of
from toolyard.trust.credentials.hs256 import Hs256, signed
from toolyard.trust.credentials.issuers import Issuers
from toolyard.trust.issuer_settings import TrustedIssuer

from .forging import AUDIENCE, CLAIMS, NOW, SECRET, Sign, hs256, jwk, key, part, pem, signing, token, unsigned
from .issuing import KEYS, Site, issuing

ISSUER = "https://id.example/"
OTHER = "https://other.example"
NAMES = {"RS256": "rsa", "PS256": "rsa", "ES256": "p256", "ES384": "p384", "EdDSA": "ed25519"}
PUBLISHED = [
    *(jwk(name, key(name)) for name in ("rsa", "p256", "p384", "ed25519", "weak")),
    jwk("rsa-for-ps256", key("rsa"), alg="PS256"),
    jwk("for-encryption", key("rsa"), use="enc"),
    jwk("cannot-verify", key("rsa"), key_ops=["encrypt"]),
    {"kid": "symmetric", "kty": "oct", "k": part(SECRET.encode()).decode()},
    {"kid": "of-tomorrow", "kty": "AKP", "pub": "abc"},
    {"kid": "broken", "kty": "EC", "crv": "P-256", "x": 5, "y": []},
    {
        "kid": "off-the-curve",
        "kty": "EC",
        "crv": "P-256",
        "x": part(b"\1" * 32).decode(),
        "y": part(b"\1" * 32).decode(),
    },
    "no key at all",
]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with issuing() as made:
        made.publish(*PUBLISHED)  # type: ignore[arg-type]
        yield made


@pytest.fixture(scope="module")
def tokens(site: Site) -> Issuers:
    """Two issuers with the same keys, and a shared secret."""
    issuers = [
        TrustedIssuer(ISSUER, jwks_url=site.address + KEYS),
        TrustedIssuer(OTHER, "other", site.address + KEYS, "org", "email", algorithms=("ES256",), max_ttl_s=60),
    ]
    return Issuers(Hs256(SECRET, AUDIENCE, 900, lambda: NOW), issuers, AUDIENCE, lambda: NOW)


def verify(tokens: Issuers, credential: bytes) -> Identity:
    verified = tokens.verify(credential)
    return verified if isinstance(verified, Identity) else asyncio.run(finished(verified))


async def finished(verified: Any) -> Identity:
    identity = await verified
    assert isinstance(identity, Identity)
    return identity


def issued(alg: str = "RS256", *, header: Any = None, by: Sign | None = None, raw: Any = None, **claims: Any) -> bytes:
    """A good token of the issuer, with these differences."""
    given = {"alg": alg, "kid": NAMES.get(alg, "rsa"), "typ": "at+jwt"} | (header or {})
    given = {name: value for name, value in given.items() if value is not ...}
    body = CLAIMS | {"iss": ISSUER} | claims if raw is None else raw
    return token(given, body, by or signing(alg, key(NAMES.get(alg, "rsa"))))


def shared(*, header: Any = None, by: Sign | None = None, raw: Any = None, **claims: Any) -> bytes:
    """A good token of the shared secret, with these differences."""
    body = CLAIMS | claims if raw is None else raw
    return token({"alg": "HS256", "typ": "JWT"} | (header or {}), body, by or hs256())


# --- good ones -----------------------------------------------------------------------------------


@pytest.mark.parametrize("alg", NAMES)
def test_a_token_of_an_issuer_is_taken_whatever_its_algorithm(alg: str, tokens: Issuers) -> None:
    identity = verify(tokens, issued(alg, scope="read write", team="a"))
    assert (identity.tenant, identity.subject, identity.how) == ("default", "user-1", "token")
    assert (identity.scopes, identity.expires) == (frozenset({"read", "write"}), NOW + 300)
    assert identity.claims["team"] == "a"


def test_a_token_of_the_shared_secret_is_taken_beside_them(tokens: Issuers) -> None:
    assert verify(tokens, shared(tenant="acme")).tenant == "acme"
    assert verify(tokens, shared(aud=...)).subject == "user-1"


def test_a_persons_token_says_which_issuer_knows_them(tokens: Issuers) -> None:
    """A program's own has its client as the subject, and a token of the shared secret may say what it likes."""
    assert verify(tokens, issued()).issuer == ISSUER
    assert verify(tokens, issued(client_id="agent")).issuer == ISSUER
    assert verify(tokens, issued(client_id="user-1")).issuer is None
    assert verify(tokens, shared(iss=ISSUER)).issuer is None


def test_what_is_signed_here_is_taken_here(tokens: Issuers) -> None:
    made = signed({"sub": "ü", "exp": NOW + 60, "scope": "a"}, SECRET).encode()
    assert verify(tokens, made).subject == "ü"


def test_an_issuer_has_its_own_rules(tokens: Issuers) -> None:
    identity = verify(tokens, issued("ES256", iss=OTHER, aud=["x", "other"], email="a@b", org="acme", exp=NOW + 60))
    assert (identity.tenant, identity.subject) == ("acme", "a@b")


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({}, set()),
        ({"scope": ""}, set()),
        ({"scope": "a  b "}, {"a", "b"}),
        ({"scp": "a b"}, {"a", "b"}),
        ({"scp": ["a", "b"]}, {"a", "b"}),
        ({"scope": "a", "scp": ["b"]}, {"a"}),
    ],
)
def test_scopes_are_those_that_the_token_names(claims: dict[str, Any], scopes: set[str], tokens: Issuers) -> None:
    assert verify(tokens, issued(**claims)).scopes == frozenset(scopes)
    assert verify(tokens, shared(**claims)).scopes == frozenset(scopes)


@pytest.mark.parametrize("claims", [{"nbf": NOW + 29}, {"iat": NOW + 29}, {"exp": NOW + 0.5}, {"iat": ...}])
def test_clocks_may_differ_a_little(claims: dict[str, Any], tokens: Issuers) -> None:
    assert verify(tokens, issued(**claims)).subject == verify(tokens, shared(**claims)).subject == "user-1"


@pytest.mark.parametrize("header", [{"typ": ...}, {"typ": "JWT"}, {"x5t": "a"}, {"nonce": "b"}, {"b64": True}])
def test_headers_that_change_nothing_are_let_be(header: dict[str, Any], tokens: Issuers) -> None:
    assert verify(tokens, issued(header=header)).subject == "user-1"


def test_a_token_without_a_key_id_is_taken_where_one_key_alone_can_be_meant(tokens: Issuers) -> None:
    assert verify(tokens, issued("ES384", header={"kid": ...})).subject == "user-1"


def test_it_is_verified_at_once_when_the_keys_are_at_hand(tokens: Issuers, site: Site) -> None:
    verify(tokens, issued())
    asked = site.asked[KEYS]
    assert not inspect.isawaitable(tokens.verify(issued("ES256")))
    assert site.asked[KEYS] == asked


# --- bad ones ------------------------------------------------------------------------------------

RSA, P256 = signing("RS256", key("rsa")), signing("ES256", key("p256"))
GOOD = issued()
HEADER, PAYLOAD, SIGNATURE = GOOD.split(b".")

MADE: tuple[Any, ...] = (issued, shared)
BAD: dict[str, tuple[bytes, str]] = {
    # no signature, or another than it says
    "not signed": (issued("none", by=unsigned), "not signed (alg none)"),
    "not signed, in other letters": (issued("nOnE", by=unsigned), "not signed (alg none)"),
    "not signed, with a good signature": (issued("none", by=RSA), "not signed (alg none)"),
    "the signature is empty": (issued(by=unsigned), "not made with the key 'rsa'"),
    "HS256 without a signature": (shared(by=unsigned), "not made with the shared secret"),
    "no algorithm": (issued(header={"alg": ...}), "does not name its algorithm"),
    "an algorithm that is no text": (issued(header={"alg": ["RS256"]}), "does not name its algorithm"),
    "an algorithm that is not taken": (issued("RS512", by=RSA), "algorithm is RS512, which is not taken"),
    "HS512": (shared(header={"alg": "HS512"}), "algorithm is HS512, which is not taken"),
    "HS256 in small letters": (shared(header={"alg": "hs256"}), "algorithm is hs256, which is not taken"),
    # one key for another
    "HS256 with the public key as the secret": (
        issued("HS256", by=hs256(pem(key("rsa")))), "not made with the shared secret"),
    "HS256 with the modulus as the secret": (
        issued("HS256", by=hs256(jwk(None, key("rsa"))["n"].encode())), "not made with the shared secret"),
    "RS256 signed with the shared secret": (issued("RS256", by=hs256()), "not made with the key 'rsa'"),
    "RS256 with the symmetric key of the set": (
        issued("RS256", header={"kid": "symmetric"}, by=hs256()), f"{ISSUER} has no key 'symmetric'"),
    "HS256 with another secret": (shared(by=hs256(b"another-secret-of-some-length!!!")), "the shared secret"),
    "HS256 with the digest of the secret": (
        shared(by=hs256(hashlib.sha256(SECRET.encode()).digest())), "not made with the shared secret"),
    "signed with another key of the same kind": (
        issued(by=signing("RS256", key("rsa-other"))), "not made with the key 'rsa'"),
    "signed as PS256, but called RS256": (issued("RS256", by=signing("PS256", key("rsa"))), "not made with the key"),
    "called ES256, with the id of an RSA key": (
        issued("ES256", header={"kid": "rsa"}), "the key 'rsa' is of the kind RSA, which is not one for ES256"),
    "ES256 on the wrong curve": (
        issued("ES256", header={"kid": "p384"}, by=signing("ES256", key("p384"))), "of the kind P-384, which is not"),
    "ES384 on the wrong curve": (
        issued("ES384", header={"kid": "p256"}, by=signing("ES384", key("p256"))), "of the kind P-256, which is not"),
    "EdDSA with a key for something else": (issued("EdDSA", header={"kid": "p256"}, by=P256), "not one for EdDSA"),
    "RS256 with a key for PS256": (issued(header={"kid": "rsa-for-ps256"}), "is for PS256, not for RS256"),
    "a key for encryption": (issued(header={"kid": "for-encryption"}), "has no key 'for-encryption'"),
    "a key that may not verify": (issued(header={"kid": "cannot-verify"}), "has no key 'cannot-verify'"),
    "a weak RSA key": (
        issued(header={"kid": "weak"}, by=signing("RS256", key("weak"))), "is weak: 1024 bits, and RSA needs 2048"),
    "a key that nobody knows": (issued(header={"kid": "nobody"}), f"{ISSUER} has no key 'nobody'"),
    "a key of a kind that nobody knows": (issued(header={"kid": "of-tomorrow"}), "has no key 'of-tomorrow'"),
    "a key that is broken": (issued("ES256", header={"kid": "broken"}), "has no key 'broken'"),
    "a key that is no point of its curve": (issued("ES256", header={"kid": "off-the-curve"}), "has no key 'off-the"),
    "a key id that is a path": (issued(header={"kid": "../../etc/passwd"}), "has no key '../../etc/passwd'"),
    "a key id that is no text": (issued(header={"kid": 7}), "kid is not text"),
    "no key id, and several keys that could be meant": (
        issued("PS256", header={"kid": ...}), f"names no key (kid), and {ISSUER} has not exactly one for PS256"),
    "an ECDSA signature of zeros": (issued("ES256", by=lambda _: bytes(64)), "not made with the key 'p256'"),
    "an ECDSA signature in another encoding": (
        issued("ES256", by=lambda signed: b"\x30\x44" + P256(signed)), "not made with the key 'p256'"),
    # keys that the token brings
    "its own key": (issued(header={"jwk": jwk("x", key("rsa-other"))}, by=signing("RS256", key("rsa-other"))), "(jwk)"),
    "its own address of keys": (issued(header={"jku": "https://evil.example/keys"}), "brings its own key (jku)"),
    "its own certificate": (issued(header={"x5c": ["MIIB"]}), "brings its own key (x5c)"),
    "its own address of a certificate": (issued(header={"x5u": "https://evil.example/c"}), "brings its own key (x5u)"),
    "HS256 with its own key": (shared(header={"jwk": {"kty": "oct", "k": "AAAA"}}), "brings its own key (jwk)"),
    # extensions
    "an extension that is not known": (issued(header={"crit": ["exp"], "exp": 1}), "needs an extension"),
    "an empty list of extensions": (issued(header={"crit": []}), "needs an extension"),
    "HS256 with an extension": (shared(header={"crit": ["x"], "x": 1}), "needs an extension"),
    "a payload that is not encoded": (issued(header={"b64": False}), "(b64)"),
    "a payload that is not encoded, said twice": (issued(header={"b64": False, "crit": ["b64"]}), "(b64)"),
    "an encryption in the header": (issued(header={"enc": "A256GCM"}), "encrypted (JWE)"),
    "something else that the issuer signed": (issued(header={"typ": "logout+jwt"}), "typ is 'logout+jwt'"),
    "a type that is no text": (issued(header={"typ": 1}), "typ is not text"),
    # not a token at all
    "encrypted, in five parts": (b".".join([HEADER, b"", PAYLOAD, PAYLOAD, SIGNATURE]), "encrypted (JWE)"),
    "two parts": (HEADER + b"." + PAYLOAD, "three parts between dots, this has 2"),
    "four parts": (GOOD + b".", "three parts between dots, this has 4"),
    "one word": (b"nonsense", "three parts between dots, this has 1"),
    "only dots": (b"..", "header is not a JSON object"),
    "beyond ASCII": (GOOD + "é".encode(), "beyond ASCII"),
    "a byte of zero": (GOOD + b"\0", "signature is not base64url"),
    "spaces inside": (HEADER + b". " + PAYLOAD + b"." + SIGNATURE, "payload is not base64url"),
    "padding": (HEADER + b"." + PAYLOAD + b"." + SIGNATURE + b"==", "signature is not base64url"),
    "the other alphabet": (HEADER + b"." + PAYLOAD + b".+/+/", "signature is not base64url"),
    "a signature that is spelt otherwise": (GOOD[:-1] + bytes([GOOD[-1] + 1]), "signature is not base64url"),
    "one character too many": (GOOD + b"AAA", "signature is not base64url"),
    "another payload": (b".".join([HEADER, issued(sub="admin").split(b".")[1], SIGNATURE]), "not made with the key"),
    "another header": (b".".join([issued("PS256").split(b".")[0], PAYLOAD, SIGNATURE]), "not made with the key 'rsa'"),
    "longer than it may be": (issued(filler="x" * 16384), "longer than 16384 bytes"),
    "a header that is a list": (token([1], CLAIMS, RSA), "header is not a JSON object"),
    "a header that is no JSON": (token(b"{", CLAIMS, RSA), "header is not a JSON object"),
    "a header that is no UTF-8": (token(b'{"alg":"\xff"}', CLAIMS, RSA), "header is not a JSON object"),
    "a payload that is a list": (issued(raw=[1]), "payload is not a JSON object"),
    "a payload that is no JSON": (issued(raw=b"{'sub': 1}"), "payload is not a JSON object"),
    "a payload that is too deep": (issued(raw=b'{"a":' + b"[" * 9000), "payload is not a JSON object"),
    "a payload with NaN": (issued(raw=b'{"exp": NaN}'), "payload is not a JSON object"),
    # from another, for another
    "no issuer": (issued(iss=...), "iss is None, which the setting issuers does not name"),
    "another issuer": (issued(iss="https://evil.example"), "iss is 'https://evil.example', which the setting"),
    "an issuer that is nearly right": (issued(iss=ISSUER[:-1]), "which the setting issuers does not name"),
    "several issuers": (issued(iss=[ISSUER]), "which the setting issuers does not name"),
    "no audience": (issued(aud=...), f"names no audience; its aud must be '{AUDIENCE}'"),
    "another audience": (issued(aud="https://other.example"), "for another audience: 'https://other.example'"),
    "the audience of another issuer": (issued(aud="other"), "for another audience: 'other'"),
    "an audience that is nearly right": (issued(aud=AUDIENCE + "/"), "for another audience"),
    "other audiences": (issued(aud=["a", "b"]), "for another audience: ['a', 'b']"),
    "no audience in a list": (issued(aud=[]), "for another audience: []"),
    "an audience that is a number": (issued(aud=7), "aud is neither text nor a list of texts"),
    "an audience that is a table": (issued(aud={AUDIENCE: 1}), "aud is neither text nor a list of texts"),
    "an audience among things": (issued(aud=[AUDIENCE, 7]), "aud is neither text nor a list of texts"),
    "HS256 for another audience": (shared(aud="other"), "for another audience: 'other'"),
    "an algorithm that this issuer does not use": (issued("RS256", iss=OTHER, aud="other"), f"of {OTHER}, ES256 are"),
    # time
    "no end": (issued(exp=...), "has no exp"),
    "ended": (issued(exp=NOW), "has expired"),
    "ended long ago": (issued(exp=0), "has expired"),
    "an end that is text": (issued(exp=str(NOW + 60)), "exp is not a number of seconds"),
    "an end that is true": (issued(exp=True), "exp is not a number of seconds"),
    **{
        f"{name} of 400 digits, {made.__name__}": (made(**number), "a number that is out of all proportion")
        for name in ("exp", "nbf", "iat", "iss", "aud", "tenant")
        for number in ({name: 10**400},)
        for made in MADE
    },
    "such a number deep inside": (issued(more={"a": [{"b": -(10**4000)}]}), "a number that is out of all proportion"),
    "not valid yet": (issued(nbf=NOW + 31), "not valid yet"),
    "made in the future": (issued(iat=NOW + 31), "not valid yet"),
    "a start that is text": (issued(nbf="now"), "nbf is not a number of seconds"),
    "a time of making that is a list": (issued(iat=[NOW]), "iat is not a number of seconds"),
    "HS256 without an end": (shared(exp=...), "has no exp"),
    "HS256 that ended": (shared(exp=NOW), "has expired"),
    "HS256 that lives too long": (shared(exp=NOW + 931), "lives too long: exp may be at most 900 s ahead"),
    "HS256 that is not valid yet": (shared(nbf=NOW + 31), "not valid yet"),
    "HS256 made in the future": (shared(iat=NOW + 31), "not valid yet"),
    "longer than this issuer's may live": (
        issued("ES256", iss=OTHER, aud="other", email="a", exp=NOW + 91), "at most 60 s ahead"),
    # of nobody
    "no subject": (issued(sub=...), "sub is missing, empty or not text"),
    "an empty subject": (issued(sub=""), "sub is missing, empty or not text"),
    "a subject that is a number": (issued(sub=7), "sub is missing, empty or not text"),
    "a subject that is null": (issued(sub=None), "sub is missing, empty or not text"),
    "a tenant that is a list": (issued(tenant=["a"]), "tenant is missing, empty or not text"),
    "an empty tenant": (issued(tenant=""), "tenant is missing, empty or not text"),
    "no subject where this issuer has it": (
        issued("ES256", iss=OTHER, aud="other", exp=NOW + 60), "email is missing, empty or not text"),
    "a scope that is a number": (issued(scope=7), "scopes (scope or scp) are neither"),
    "scopes among things": (issued(scp=["a", 7]), "scopes (scope or scp) are neither"),
    "HS256 without a subject": (shared(sub=...), "sub is missing, empty or not text"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_token_is_refused_with_the_reason_when_it_is(name: str, tokens: Issuers) -> None:
    credential, reason = BAD[name]
    with pytest.raises(NotAuthenticated, match=r"^The credentials are not valid$") as refusal:
        verify(tokens, credential)
    assert reason in str(refusal.value.developer_message)


def test_every_single_change_of_a_good_token_is_noticed(tokens: Issuers) -> None:
    credential = shared()
    for place in range(len(credential)):
        for bit in range(8):
            changed = credential[:place] + bytes([credential[place] ^ 1 << bit]) + credential[place + 1 :]
            with pytest.raises(NotAuthenticated):
                tokens.verify(changed)


def test_without_a_shared_secret_hs256_is_refused(site: Site) -> None:
    tokens = Issuers(None, [TrustedIssuer(ISSUER, jwks_url=site.address + KEYS)], AUDIENCE, lambda: NOW)
    for secret in (b"", SECRET.encode(), pem(key("rsa"))):
        with pytest.raises(NotAuthenticated) as refusal:
            tokens.verify(issued("HS256", by=hs256(secret)))
        assert "there is no shared secret" in str(refusal.value.developer_message)


def test_the_shared_secret_alone_takes_nothing_but_hs256() -> None:
    alone = Hs256(SECRET, AUDIENCE, 900, lambda: NOW)
    assert alone.verify(shared()).subject == "user-1"
    for credential in (issued(), issued("RS256", by=hs256()), shared(header={"alg": "HS384"})):
        with pytest.raises(NotAuthenticated) as refusal:
            alone.verify(credential)
        assert "only HS256 is taken here" in str(refusal.value.developer_message)


@pytest.mark.parametrize("iss", [OTHER, "", None, [ISSUER]])
def test_whoever_chose_the_issuer_its_own_rules_look_again(iss: Any) -> None:
    rules = ClaimRules(AUDIENCE, is_audience_required=True, issuer=ISSUER)
    assert identity_of(CLAIMS | {"iss": ISSUER}, rules, NOW).subject == "user-1"
    with pytest.raises(NotAuthenticated) as refusal:
        identity_of(CLAIMS | {"iss": iss}, rules, NOW)
    assert f"the token is not from {ISSUER}" in str(refusal.value.developer_message)
