"""The addresses at which a person completes a challenge by connecting an account. Their handlers are loaded with the
first request for one (`handlers.py`), because most servers have no providers."""

from functools import cache
from typing import TYPE_CHECKING

from ...lazy import load
from ...trust.limits.credential_failures import CredentialFailures
from ...trust.sealing.ring import KeyRing
from ..intake.witness import Witness
from ..pages.page_routes import Address, page_routes

if TYPE_CHECKING:
    from .parts import AccountParts

CHALLENGE, STATUS = "/authorize/{challenge}", "/authorize/{challenge}/status"
CALLBACK = "/connections/{provider}/callback"
SIGNED_IN = "/connections/signed-in"
"""Where an issuer sends a person back to. A provider's callback has one segment more, so the two paths never meet."""
SHOWN: tuple[Address, ...] = (("GET", CHALLENGE), ("GET", STATUS))
LED_TO: tuple[Address, ...] = (("POST", CHALLENGE), ("GET", CALLBACK), ("GET", SIGNED_IN))


class AccountRoutes:
    """The routes about accounts. `connecting` is None where no provider is set up; `failures` limits wrong codes by
    address."""

    def __init__(
        self, connecting: "AccountParts | None", ring: KeyRing, failures: CredentialFailures | None, witness: Witness
    ) -> None:
        handlers = cache(lambda: load("account_handlers")(connecting, ring, failures, witness).handlers())
        self.documented = page_routes(SHOWN, handlers)
        """Those that the OpenAPI document has."""
        self.forms = [] if connecting is None else page_routes(LED_TO, handlers)
        """Those that only a browser is led to."""
