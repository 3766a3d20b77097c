"""Everything between a challenge and a token, put together where the settings name providers."""

from collections.abc import Callable

from ..model.caller import Caller
from ..model.tool import Authorization, Tool
from ..store.contract import Store
from ..trust.authorizing import Authorizing
from ..trust.challenges import Challenges
from ..trust.connections import Connections, Did
from ..trust.keys import KeyRing
from ..trust.oauth import OAuthProvider
from ..trust.vault import Vault
from .settings import Settings


class Connecting:
    """Its parts."""

    def __init__(self, settings: Settings, store: Store, ring: KeyRing, now: Callable[[], float], did: Did) -> None:
        providers = {each.id: OAuthProvider(each, now) for each in settings.providers}
        self._providers, self._challenges = providers, Challenges(store, ring, now)
        self.connections = Connections(Vault(store, ring), providers, now, did)
        self.authorizing = Authorizing(providers, self._challenges, self.connections, store, ring, did)

    def challenge(self, caller: Caller, wanted: Authorization, tool: Tool) -> tuple[str, str] | None:
        """For the desk that says what a call lacks."""
        if wanted.id not in self._providers:
            return None
        return self._challenges.make(caller, wanted.id, wanted.scopes, tool.id)
