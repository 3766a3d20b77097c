"""MCP's parts, put together on a ledger and a catalogue."""

from collections.abc import Sequence

from msgspec import Struct

from ...catalogue import Catalogue
from ...doors import open_door
from ...engine.engine import Engine
from ...engine.held import Node
from ...model.errors import SettingsError
from ...model.running import Source
from ...model.seam import Seam
from ...trust.keys import KeyRing
from ...trust.quotas import Quotas
from ...trust.validity import Validity
from ...wires.telling import Telling
from ..readiness import Readiness
from ..routes import Route
from ..settings import Settings
from ..stream_count import StreamCount
from ..witness import Witness
from .answers import ClientAnswers
from .asking import Asking
from .calling import Calling, Manner
from .completions import Completions
from .dispatcher import Dispatcher, Identity, McpParts
from .http import McpHttp
from .listing import ToolPages
from .offers import Lane, Offers
from .outlet import Keeping
from .places import Places
from .resources import GivenResources
from .resuming import OlderStreams
from .sessions import McpSessions
from .states import States
from .subscriptions import Subscriptions
from .tasks import Tasks


class Ground(Struct, frozen=True):
    """What MCP stands on."""

    settings: Settings
    sources: Sequence[Source]
    catalogue: Catalogue
    engine: Engine
    node: Node
    ring: KeyRing
    readiness: Readiness
    witness: Witness
    streams: StreamCount
    validity: Validity
    telling: Telling
    quotas: Quotas


def assembled(ground: Ground, seam: Seam) -> tuple[McpParts, list[Route]]:
    """The parts for any transport, and the routes of HTTP's. Raises SettingsError for two authors' servers."""
    settings, store, catalogue = ground.settings, ground.node.store, ground.catalogue
    ttl_ms, most = int(settings.retention_s * 1000), ground.quotas.most("subscriptions")
    states = States(ground.ring, settings.answer_wait_s, seam.now)
    manner = Manner(settings.sync_wait_s, ttl_ms, seam.monotonic, ground.telling)
    given = GivenResources(ground.node, settings.retention_s, ground.telling)
    calling = Calling(ground.engine, catalogue, ground.node, states, given, ground.readiness, ground.witness, manner)
    questions = ground.engine.questions
    tasks = Tasks(store, catalogue, calling.following, questions, ground.witness, ttl_ms, ground.telling)
    subscriptions = Subscriptions(catalogue, store, tasks, ground.streams, ground.validity, most)
    calling.when_task = subscriptions.follow
    asking = Asking(store, seam.new_id)
    lane = _authors_lane(ground.sources, subscriptions, asking, ground.ring)
    offers = Offers(lane, given, ground.engine, ground.witness)
    identity = Identity(settings.name, settings.shown_title, settings.instructions)
    pages = ToolPages(catalogue, settings.mcp_page_size)
    dispatcher = Dispatcher(calling, pages, tasks, subscriptions, offers, identity)
    answers = ClientAnswers(store, questions, asking)
    keeping = Keeping(store, Places(ground.ring))
    sessions = McpSessions(store, ground.ring, seam.new_id, ground.quotas)
    completions = Completions(ground.node, subscriptions)
    calling.when_sent = completions.expect
    streams = OlderStreams(keeping, subscriptions, answers, tasks, completions)
    http = McpHttp(dispatcher, sessions, streams, answers, keeping, settings.mcp_stream_s)
    return McpParts(dispatcher, subscriptions, answers), http.routes()


def _authors_lane(
    sources: Sequence[Source], subscriptions: Subscriptions, asking: Asking, ring: KeyRing
) -> Lane | None:
    """The SDK's part, where an author uses it. Raises SettingsError for two of them."""
    servers = [server for source in sources if (server := getattr(source, "authors_mcp", None)) is not None]
    if len(servers) > 1:
        raise SettingsError("two of the apps have prompts or resources of their own; serve one of them")
    lane: Lane | None = open_door("mcp_lane")(servers[0], subscriptions, asking, ring) if servers else None
    return lane
