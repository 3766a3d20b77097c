"""MCP's composition root: the one place that names its concrete parts and puts them together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ...catalogue import Catalogue
from ...engine.engine import Engine
from ...engine.node import Node
from ...lazy import load
from ...model.clock import Clock
from ...model.errors import SettingsError
from ...model.run import Source
from ...trust.limits.quotas import Quotas
from ...trust.sealing.ring import KeyRing
from ...wires.model_text import ModelText
from ..http.reply_budget import ReplyBudget
from ..http.routes import Route
from ..http.streams import StreamCount
from ..intake.intake import Intake
from ..intake.witness import Witness
from ..settings.table import Settings
from .methods.client_answers import ClientAnswers
from .methods.client_requests import Asking
from .methods.dispatcher import Dispatcher, McpParts, ServerInfo
from .methods.offers import Lane, Offers
from .methods.resources import GivenResources, NamedResources
from .methods.resumed_calls import Following
from .methods.subscriptions import Subscriptions
from .methods.tasks import Tasks
from .methods.tools_call import Calling, CallParts
from .methods.tools_list import ToolPages
from .methods.url_completions import Completions
from .protocol.event_ids import Places
from .protocol.question_ids import QuestionIds
from .protocol.request_state import States, UpstreamStates
from .protocol.sessions import McpSessions
from .transports.cancellation import RunningRequests
from .transports.http import McpHttp
from .transports.http_stream import Keeping
from .transports.resumed_streams import OlderStreams

if TYPE_CHECKING:
    from .methods.upstream_offers import Gateway, UpstreamOffers


class McpDependencies(Struct, frozen=True):
    """What MCP is built on: the parts of the server that its wires share."""

    settings: Settings
    sources: Sequence[Source]
    catalogue: Catalogue
    engine: Engine
    node: Node
    ring: KeyRing
    intake: Intake
    witness: Witness
    streams: StreamCount
    telling: ModelText
    quotas: Quotas
    replies: ReplyBudget
    gateway: "Gateway | None" = None
    """The upstreams, where there are any."""
    named: NamedResources | None = None


def assembled(ground: McpDependencies, clock: Clock) -> tuple[McpParts, list[Route]]:
    """The parts for any transport, and the routes of HTTP's. Each part is complete when it is made, so their order is
    that of who needs whom. Raises SettingsError for two authors' servers."""
    settings, engine, node, catalogue = ground.settings, ground.engine, ground.node, ground.catalogue
    store, questions, telling = node.store, engine.questions, ground.telling
    ttl_ms, most = int(settings.retention_s * 1000), ground.quotas.most("subscriptions")
    states = States(ground.ring, settings.answer_wait_s, clock.now)
    own = engine.own_calls
    gateway = ground.gateway
    owners = () if gateway is None else frozenset(gateway.owners)
    given = GivenResources(node, own, settings.retention_s, telling, owners)
    ids = QuestionIds(ground.ring)
    following = Following(engine, node, states, ids, given, settings.sync_wait_s, ttl_ms, telling)
    tasks = Tasks(store, own, catalogue, following, questions, ground.witness, ttl_ms, telling)
    tells_of = _of_any if gateway is None else gateway.tells_of
    subscriptions = Subscriptions(catalogue, store, own, tasks, ground.streams, most, tells_of)
    completions = Completions(node, subscriptions, own)
    parts = CallParts(
        ground.intake, engine, catalogue, node, states, given, following, telling, ids, ttl_ms,
        on_task=subscriptions.follow, on_sent=completions.expect,
    )  # fmt: skip
    asking = Asking(store, clock.new_id)
    lane = _authors_lane(ground.sources, subscriptions, asking, ground.ring)
    upstreams: UpstreamOffers | None = None
    if gateway is not None:
        made = load("upstream_offers")
        made.FollowedResources(gateway, subscriptions)
        asked = UpstreamStates(ground.ring, settings.answer_wait_s, clock.now)
        upstreams = made.UpstreamOffers(
            made.UpstreamParts(gateway, ground.named, own, asked, asking, ids, telling, settings.mcp_page_size)
        )
    offers = Offers(lane, given, engine, ground.intake, upstreams)
    identity = ServerInfo(settings.name, settings.shown_title, settings.instructions)
    pages = ToolPages(catalogue, settings.mcp_page_size)
    dispatcher = Dispatcher(Calling(parts), pages, tasks, subscriptions, offers, identity)
    answers = ClientAnswers(store, own, questions, asking, ids)
    keeping = Keeping(store, Places(ground.ring), settings.mcp_stream_s)
    sessions = McpSessions(store, ground.ring, clock.new_id, ground.quotas)
    streams = OlderStreams(keeping, own, subscriptions, answers, tasks, completions, ground.replies, sessions, node)
    running = RunningRequests(node, own)
    http = McpHttp(dispatcher, sessions, streams, answers, keeping, ground.replies, running, catalogue)
    return McpParts(dispatcher, subscriptions, answers), http.routes()


def _of_any(uri: str) -> bool:
    """Without upstreams, whatever is followed is the author's."""
    return True


def _authors_lane(
    sources: Sequence[Source], subscriptions: Subscriptions, asking: Asking, ring: KeyRing
) -> Lane | None:
    """The SDK's part, where an author uses it. Raises SettingsError for two of them."""
    servers = [server for source in sources if (server := getattr(source, "authors_mcp", None)) is not None]
    if len(servers) > 1:
        raise SettingsError("two of the apps have prompts or resources of their own; serve one of them")
    lane: Lane | None = load("mcp_lane")(servers[0], subscriptions, asking, ring) if servers else None
    return lane
