"""The worker's heartbeat: a thread with a connection of its own, so that no tool can hold it up.

It registers the worker, and again whenever the server has forgotten it; it renews the registration and, in one request,
the lease of every request that the worker holds; and it stops the runs of requests that the worker has lost.
"""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from ..client.client import Transport
from ..model.errors import NotAuthenticated, PathNotFound, RequestError, ServerError, ToolyardError
from ..model.worker import ToolDefinition
from ..supervision import SupervisedThread, Supervisor
from ..wires.contract import Reply, Request
from ..wires.lifecycle.requests import MOST_RENEWED
from ..wires.lifecycle.worker_client import (
    decode_registered,
    decode_taken,
    decode_verdicts,
    encode_beat_worker,
    encode_heartbeats,
    encode_put_worker,
)
from .held_request import HeldRequest
from .reachability import Reachability, pause_after, pauses

LONGEST_S = 5.0
"""The longest time between two heartbeats; less where a lease is short."""
BEATS_A_LEASE = 3
"""So many heartbeats fit into a lease: two may fail before it runs out."""
LEAVE_S = 1.0
NOT_SERVED = (404, 405, 501)
"""Statuses by which a server that is no toolyard shows that it has no such route."""
_log = logging.getLogger("toolyard.worker")


class HeartbeatLoop:
    """Registers a worker and keeps it and its requests alive. `registered` is done once the server knows the worker,
    `refused` once it has refused it for good. Methods may be called from any thread."""

    def __init__(
        self, transport: Transport, name: str, tools: Sequence[ToolDefinition], reachability: Reachability
    ) -> None:
        self._transport, self._reachability = transport, reachability
        self._name, self._tools = name, tools
        self.registered: Future[None] = Future()
        self.refused: Future[RequestError] = Future()
        self._held: dict[tuple[str, str, int], HeldRequest] = {}
        self._lock = threading.Lock()
        self._waiting: list[Future[None]] = []
        self._wake = threading.Event()
        self._is_known = self._is_leaving = False
        self._every_s = LONGEST_S
        self._thread: SupervisedThread | None = None

    def start(self) -> None:
        self._thread = Supervisor().thread("pulse", self._live)

    def stop(self) -> None:
        """Ends the thread, after a heartbeat that may be under way, if that does not hang."""
        self._is_leaving = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(LEAVE_S)

    def hold(self, held: HeldRequest) -> None:
        """Renews a request's lease from now on."""
        with self._lock:
            self._held[_id(held)] = held
        if held.claimed.lease_s / BEATS_A_LEASE < self._every_s:
            self._every_s = held.claimed.lease_s / BEATS_A_LEASE
            self._wake.set()

    def release(self, held: HeldRequest) -> None:
        with self._lock:
            self._held.pop(_id(held), None)

    def beat_now(self) -> "Future[None]":
        """Sends a heartbeat at once. The result is done after it, when the server knows this worker again."""
        waiting: Future[None] = Future()
        with self._lock:
            self._waiting.append(waiting)
        self._wake.set()
        if self.refused.done():  # there will be no other heartbeat
            self._answer()
        return waiting

    # -- the thread --------------------------------------------------------------------------------

    def _live(self) -> None:
        """Sends heartbeats until the worker leaves, or is refused for good: the first registration failed, or the
        credentials are not valid any more."""
        waits = pauses()
        while not self._is_leaving:
            self._wake.clear()
            try:
                self._beat()
            except ServerError as error:
                self._reachability.failed(error)
                pause = min(pause_after(error, next(waits)), self._every_s)
            except RequestError as error:
                if not self._is_known or isinstance(error, NotAuthenticated):
                    self.refused.set_result(error)
                    self._answer()
                    return
                self._reachability.failed(error)
                pause = self._every_s
            except Exception:  # the outermost shell: without this thread, every request would be lost
                _log.exception("a sign of life failed")
                pause = self._every_s
            else:
                self._reachability.worked()
                waits, pause = pauses(), self._every_s
            self._wake.wait(pause)

    def _beat(self) -> None:
        # Counted first: whoever asks for a heartbeat while this one is under way waits for the next.
        with self._lock:
            waiting = len(self._waiting)
        if self._is_known:
            self._is_known = self._is_still_known()
        if not self._is_known:
            self._register()
        self._answer(waiting)
        self._renew()

    def _answer(self, many: int | None = None) -> None:
        """Completes the first so many of the futures that `beat_now` returned; None: all of them."""
        with self._lock:
            answered, self._waiting = self._waiting[:many], self._waiting[many:] if many is not None else []
        for each in answered:
            if each.set_running_or_notify_cancel():
                each.set_result(None)

    def _is_still_known(self) -> bool:
        try:
            decode_taken(self._transport.send(encode_beat_worker(self._name)))
        except PathNotFound:
            return False
        return True

    def _register(self) -> None:
        request = encode_put_worker(self._name, self._tools)
        reply = self._transport.send(request)
        try:
            lease_s = decode_registered(reply).lease_s
        except ToolyardError:
            if reply.status < 400 or reply.status in NOT_SERVED:
                raise _not_a_yard(self._reachability.url, request, reply) from None
            raise
        self._is_known = True
        self._every_s = min(LONGEST_S, lease_s / BEATS_A_LEASE)
        if self.registered.done():
            _log.info("%s is registered again", self._name)
        else:
            self.registered.set_result(None)

    def _renew(self) -> None:
        with self._lock:
            held = list(self._held.values())
        for start in range(0, len(held), MOST_RENEWED):
            some = held[start : start + MOST_RENEWED]
            reply = self._transport.send(encode_heartbeats([each.renewal() for each in some], self._name))
            for each, verdict in zip(some, decode_verdicts(reply), strict=True):
                if verdict.status == 200:
                    each.renewed()
                else:
                    self.release(each)
                    each.lose(verdict.reason or "the server does not know it")


def _id(held: HeldRequest) -> tuple[str, str, int]:
    claimed = held.claimed
    return claimed.session, claimed.request, claimed.attempt


def _not_a_yard(url: str, request: Request, reply: Reply) -> RequestError:
    """The error for a server that has no workers, most likely because it is no toolyard."""
    moved = dict(reply.headers).get(b"location")
    return RequestError(
        f"{url} does not take workers; is it a toolyard server?",
        developer_message=f"{request.method} {request.path} was answered with {reply.status}"
        + (f" and sent to {moved.decode('latin-1')}" if moved else ""),
    )
