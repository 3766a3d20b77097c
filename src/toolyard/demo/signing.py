"""The demo provider's signing key, which is made anew for each run, and the ID tokens signed with it."""

from collections.abc import Mapping
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

ALG = "ES256"
KID = "demo"


class Signer:
    """Signs ID tokens with a key of its own, and publishes the public half."""

    def __init__(self) -> None:
        self._key = ECKey.generate_key("P-256", {"kid": KID, "use": "sig", "alg": ALG})

    def public_keys(self) -> dict[str, Any]:
        """The public key, as a JWK Set."""
        return {"keys": [self._key.as_dict(private=False)]}

    def signed(self, claims: Mapping[str, Any]) -> str:
        return jwt.encode({"alg": ALG, "kid": KID}, dict(claims), self._key)
