"""The parts that lead from a challenge to a user's token, put together from the settings.

Made where the settings name providers, and for an operator who lists or disconnects accounts. Loaded late (`lazy.py`):
the OAuth client is heavy.
"""

from collections.abc import Callable

from msgspec.structs import replace

from ...model.caller import Caller
from ...model.tool import Authorization, Tool
from ...store.contract import Store
from ...trust.issuer_settings import TrustedIssuer
from ...trust.requirements import connect_flow, sign_in_flow
from ...trust.requirements.accounts import Accounts, Did
from ...trust.requirements.challenges import Challenges
from ...trust.requirements.provider import OAuthProvider
from ...trust.requirements.redirects import Redirects
from ...trust.sealing.ring import KeyRing
from ...trust.sealing.vault import Vault
from ..settings.table import Settings


class AccountParts:
    """The accounts in the vault, the flow that connects one, and the flow by which a user signs in first. `did` is told
    of each step that belongs in the audit log."""

    def __init__(self, settings: Settings, store: Store, ring: KeyRing, now: Callable[[], float], did: Did) -> None:
        providers = {each.id: OAuthProvider(each, now) for each in settings.providers}
        issuers = {each.issuer: found for each in settings.issuers if (found := _at(each, now)) is not None}
        self._providers, self._challenges = providers, Challenges(store, ring, now)
        self.connections = Accounts(Vault(store.sealed, ring), providers, now, did)
        self.authorizing = connect_flow.ConnectFlow(
            providers, self._challenges, self.connections, Redirects(connect_flow.KIND, store, ring), did
        )
        self.signing_in = sign_in_flow.SignInFlow(
            issuers, self._challenges, Redirects(sign_in_flow.KIND, store, ring), did
        )

    def challenge(self, caller: Caller, wanted: Authorization, tool: Tool) -> tuple[str, str] | None:
        """The address and code at which a user can connect an account that a call lacks; None where no provider is set
        up for it. `RequirementResolver` asks for it."""
        if wanted.id not in self._providers:
            return None
        issuers = self.signing_in.issuers_of(caller)
        return self._challenges.make(caller, wanted.id, wanted.scopes, tool.id, issuers)


def _at(issuer: TrustedIssuer, now: Callable[[], float]) -> OAuthProvider | None:
    """An issuer at which people sign in, if it is set up for that. How long its ID tokens live does not matter: each is
    looked at once."""
    return None if issuer.client is None else OAuthProvider(issuer.client, now, replace(issuer, max_ttl_s=None))
