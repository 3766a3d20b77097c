"""One state machine with everything on: any caller, any wire, any tool, workers, sessions, people who decide, a clock
that goes both ways, servers that start again. After every step the oracle looks at all of it.

A rule does something that somebody could do from outside, and writes down what it did. Whether that was answered as it
should be is for the oracle to say; a rule asserts nothing.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from . import wires
from .ledgers import Ledger
from .oracle import ONCE, BrokenPromise, Oracle, Seen
from .stage import HOME, PATIENCE_S, TOTAL_S, Options, Stage, within
from .tools import GITHUB, HELD
from .wires import FAMILY, Request
from .world import (
    ADA,
    ANY,
    BEN,
    BOSS,
    CALLERS,
    EVE,
    MALLORY,
    PROBER,
    TRUSTY,
    USERS,
    Approval,
    Challenge,
    Claim,
    Heard,
    Listener,
    Person,
    Sent,
    Told,
    World,
    family_of,
)

GATED = ("Desk.Wait", "Desk.Again", "Desk.Single")
"""Run until somebody lets them end."""
ASKING = ("Desk.Ask", "Desk.Pay", "Desk.Read")
"""May wait for a person."""
PATIENT = ("mcp-new", "mcp-old")
"""Wires on which a client waits for the end, however long that takes."""
SETTLE_S = 0.05
MOMENT_S = 5.0
"""Longer than a call waits to be written. Its end is that long ago by the ledger's clock, which stands still meanwhile,
so that it would have ended before what it came after."""
TROUBLED_S = 3.0
"""So long a call is tried that is expected to fail."""
WORKERS_TOOLS = ("Fax.Steal", "Sms.Steal", "Job.Do")
"""What workers offer: one whose name fits a pattern of a secret, one in a toolkit of the server's own, any other."""
CHAIN = 477
FLAGS = (None, True, 1, 1.0, "1")

F = TypeVar("F", bound=Callable[..., None])
PEOPLE = (ADA, *CALLERS)
WITHOUT_TASKS = [wire for wire in wires.WIRES if "-task" not in wire]
"""Each task that a client asks for is a call of its own, however alike they are."""
FOR_WHOM = (None, *USERS)
KEYS = (None, None, "a", "b", "c")
WHICH = (0, 0, 0, 1, 1, 2, 3, 5, 8)
"""Of several, counted from the last."""
NODES = (0, 1)
MAYBE = (False, True)
NOT_READY = "The server is not ready"
"""How whoever comes to a server that starts or leaves is refused."""
ANY_WIRE = (None, None, *wires.WIRES)
Step = tuple[str, dict[str, Any]]
"""A rule and its values."""
MOVES: dict[str, tuple[int, dict[str, Sequence[Any]]]] = {}
"""All rules: how often each is wanted, and what its values are chosen from."""


def move(often: int = 2, **choices: Sequence[Any]) -> Callable[[F], F]:
    """A rule, for hypothesis and for a walk at random."""

    def decorate(function: F) -> F:
        MOVES[function.__name__] = (often, choices)
        strategies: Any = {name: st.sampled_from(values) for name, values in choices.items()}
        make: Any = rule(**strategies)
        return cast(F, make(function))

    return decorate


@dataclass(eq=False)
class Question:
    """What a call asked its client."""

    sent: Sent
    session: str
    id: Any
    """In the older era: of the request that asks. In the newer one: the state to come back with."""


class Machine(RuleBasedStateMachine):
    """On a new ledger for each example, which `new_ledger` makes."""

    def new_ledger(self) -> Ledger:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.stage: Stage | None = None
        self.questions: list[Question] = []
        self._before: Seen | None = None
        self.is_troubled = False
        """Whether each look is to see that something new can be written."""
        self.is_broken = False
        """Whether a promise was broken: nothing more is asked then."""
        self.numbers = count(1)
        self._folder = TemporaryDirectory(prefix="promises-")
        self.tally = Path(self._folder.name) / "tally"

    @initialize(audit=st.sampled_from(["on", "on", "strict"]), trusts=st.booleans())
    def set_up(self, audit: str, trusts: bool) -> None:
        self.oracle = Oracle()
        self.stage = Stage(self.new_ledger(), Options(audit, trusts))

    @property
    def on(self) -> Stage:
        assert self.stage is not None
        return self.stage

    @property
    def world(self) -> World:
        return self.on.world

    # -- calls -------------------------------------------------------------------------------------

    async def _call(
        self, person: Person, wire: str, tool: str, input: dict[str, Any], key: str | None, user: str | None,
        node: int, brought: dict[str, str] | None = None,
    ) -> Sent:  # fmt: skip
        stage, world = self.on, self.world
        session = await stage.mcp_session(person, node) if wire.startswith("mcp-old") else ""
        mark = str(input["mark"])
        world.shared[mark] |= world.offers[tool]  # also where it is the same call again: they may be others now
        listener = Listener(person, user, knows=frozenset({mark}))
        heard = stage.send(listener, wires.call(wire, tool, input, key, user, session, brought), node)
        sent = Sent(person, user, tool, wire, input, key, world.clock.now, world.clock.elapsed, heard)
        world.sent.append(sent)
        await self._answered(sent)
        return sent

    async def _answered(self, sent: Sent) -> None:
        """Waits for the answer, where one can be expected now."""
        heard, tool = sent.heard, sent.tool
        may_wait = sent.wire in PATIENT and tool in (*GATED, *ASKING, *WORKERS_TOOLS)
        if tool == "Desk.Single":  # it may have to stand in line
            await within(heard.done.wait(), 3 * SETTLE_S)
        elif not may_wait:
            if not await within(heard.done.wait(), PATIENCE_S):
                self.world.troubles.append(f"nobody answered {heard.request}")
        elif tool not in WORKERS_TOOLS:
            await _first(heard.done, heard.begun, self.world.begin(sent.mark))
            await within(heard.done.wait(), SETTLE_S)
        else:
            await within(heard.done.wait(), SETTLE_S)
        self._read()

    def _read(self) -> None:
        """Understands the answers that have come."""
        for sent in self.world.sent:
            if sent.told is None and sent.wire != "session" and (told := wires.told(sent.wire, sent.heard)):
                sent.told = told
                sent.call_id = told.call_id or sent.key
                if told.link is not None and "/authorize/" in told.link and told.code is not None:
                    text = told.link.partition("/authorize/")[2].partition("?")[0]
                    self.world.challenges.append(Challenge(text, told.code))
                if told.kind == "asked":
                    self.questions.append(Question(sent, "", told.state))

    def _input(self, tool: str, person: Person, user: str | None, **more: Any) -> dict[str, Any]:
        return {"mark": self.world.new_mark(person, user, *self.world.offers.get(tool, ())), **more}

    @move(person=PEOPLE, wire=wires.WIRES, thread=MAYBE, key=KEYS, user=FOR_WHOM, node=NODES)
    def call(
        self, person: Person = ADA, wire: str = "oxp", thread: bool = False, key: str | None = None,
        user: str | None = None, node: int = 0,
    ) -> None:  # fmt: skip
        """A tool that answers at once."""
        tool = "Desk.Look" if thread else "Desk.Note"
        input = self._input(tool, person, user, details={"a": [1, {"b": None}]})
        self.on.run(self._call(person, wire, tool, input, key, user, node))

    @move(
        4, person=PEOPLE, wire=wires.WIRES, tool=GATED, key=KEYS, user=FOR_WHOM,
        flag=FLAGS, node=NODES,
    )  # fmt: skip
    def call_slowly(
        self, person: Person = ADA, wire: str = "oxp", tool: str = "Desk.Wait", key: str | None = None,
        user: str | None = None, flag: Any = None, node: int = 0,
    ) -> None:  # fmt: skip
        """A tool that runs until somebody lets it end."""
        input = self._input(tool, person, user, flag=flag)
        self.on.run(self._call(person, wire, tool, input, key, user, node))

    @move(4, person=PEOPLE, wire=wires.WIRES, tool=["Desk.Retry", "Desk.Picky", "Desk.Pay", "Desk.Pay"], key=KEYS,
          user=FOR_WHOM, node=NODES)  # fmt: skip
    def call_another(
        self, person: Person = ADA, wire: str = "oxp", tool: str = "Desk.Pay", key: str | None = None,
        user: str | None = None, node: int = 0,
    ) -> None:  # fmt: skip
        """One that fails at first, one with a validator, one that a person has to agree to."""
        self.on.run(self._call(person, wire, tool, self._input(tool, person, user), key, user, node))

    @move(person=PEOPLE, wire=wires.WIRES, how=["secret", "object", "cycle", "empty"], key=KEYS,
          node=NODES)  # fmt: skip
    def call_what_changes_its_input(
        self, person: Person = ADA, wire: str = "oxp", how: str = "secret", key: str | None = None, node: int = 0
    ) -> None:
        input = self._input("Desk.Mutate", person, None, how=how, request={"headers": {"accept": "*/*"}})
        self.on.run(self._call(person, wire, "Desk.Mutate", input, key, None, node))

    @move(person=PEOPLE, wire=wires.WIRES, how=["return", "fail", "crash"], key=KEYS,
          brings=MAYBE, node=NODES)  # fmt: skip
    def call_what_says_its_secret(
        self, person: Person = ADA, wire: str = "oxp", how: str = "return", key: str | None = None,
        brings: bool = False, node: int = 0,
    ) -> None:  # fmt: skip
        """One that the server holds, or that its caller brings."""
        input = self._input("Sms.Send", person, None, how=how)
        brought = self._bring("Sms.Send", HELD) if brings else {}
        self.on.run(self._call(person, wire, "Sms.Send", input, key, None, node, brought))

    def _bring(self, tool: str, id: str) -> dict[str, str]:
        """A secret that nobody but this tool should know."""
        name = f"brought {next(self.numbers)}"
        self.world.brought[name] = {*self.world.offers.get(tool, ())}
        return {id: self.world.new_secret(name)}

    @move(1, chance=range(4), person=PEOPLE, wire=FAMILY, key="ab", node=NODES)
    def call_in_a_process(
        self, chance: int = 0, person: Person = ADA, wire: str = "oxp", key: str = "a", node: int = 0
    ) -> None:
        """Now and then: to start one takes a while."""
        if chance == 0:
            input = self._input("Far.Tally", person, None, file=str(self.tally))
            self.on.run(self._call(person, wire, "Far.Tally", input, key, None, node))

    @move(person=PEOPLE, wire=WITHOUT_TASKS, user=FOR_WHOM, node=NODES)
    def call_the_same_at_once(
        self, person: Person = ADA, wire: str = "oxp", user: str | None = None, node: int = 0
    ) -> None:
        """Without a key, and it needs a yes: however many come at once, on both nodes, one waits."""
        self.on.run(self._at_once(person, wire, user, node))

    async def _at_once(self, person: Person, wire: str, user: str | None, node: int) -> None:
        input = self._input("Desk.Pay", person, user)
        places = (node, 1 - node, node)
        await asyncio.gather(*(self._call(person, wire, "Desk.Pay", input, None, user, each) for each in places))
        heard = await self.on.operate("GET", "/v1/admin/approvals", node=node)
        waiting = heard.json["approvals"] if heard.status == 200 else []
        if len([each for each in waiting if each["input"].get("mark") == input["mark"]]) > 1:
            self.world.troubles.append(f"one call, and several wait for a yes: {waiting}")

    @move(4, index=WHICH, wire=ANY_WIRE, node=NODES)
    def call_the_same_again(self, index: int = 0, wire: str | None = None, node: int = 0) -> None:
        """As somebody does who did not hear the answer; perhaps over another wire on which it is the same."""
        if self.world.sent:
            self.on.run(self._again(self._pick(index), wire, node))

    async def _again(self, sent: Sent, wire: str | None, node: int) -> Sent:
        if sent.wire == "session":
            return sent
        if sent.key is None or wire is None or family_of(wire) != sent.family:
            wire = sent.wire  # anywhere else it would be another call
        return await self._call(sent.person, wire, sent.tool, sent.input, sent.key, sent.user, node)

    @move(3, index=WHICH, user=FOR_WHOM, flag=FLAGS, wire=ANY_WIRE, node=NODES)
    def call_almost_the_same(
        self, index: int = 0, user: str | None = None, flag: Any = None, wire: str | None = None, node: int = 0
    ) -> None:
        """With the key of another call, for another user or with another value."""
        alike = [sent for sent in self.world.sent if sent.tool in GATED and sent.key is not None]
        if alike:
            before = alike[index % len(alike)]
            input = self._input(before.tool, before.person, user) | {"flag": flag}
            if flag is not None and isinstance(before.input["flag"], type(flag)) is False:
                input["mark"] = before.mark  # all is the same but for the kind of this value
            elif user != before.user:
                input = dict(before.input)
            if wire is None or family_of(wire) != before.family:
                wire = before.wire
            self.on.run(self._call(before.person, wire, before.tool, input, before.key, user, node))

    @move(3, index=WHICH)
    def let_it_end(self, index: int = 0) -> None:
        """A tool that runs."""
        waiting = [run.mark for run in self.world.runs if run.tool in GATED and not self.world.gate(run.mark).is_set()]
        if waiting:
            mark = waiting[index % len(waiting)]
            self.world.gate(mark).set()
            self.on.run(self._ended(mark))

    async def _ended(self, mark: str) -> None:
        """Who waited for it is told."""
        for sent in self.world.sent:
            if sent.mark == mark and sent.told is None:
                await within(sent.heard.done.wait(), 1.0)
        self._read()

    @move(1)
    def the_author_breaks_the_validator(self) -> None:
        self.world.is_picky = not self.world.is_picky

    def _pick(self, index: int) -> Sent:
        """The last ones come first."""
        return self.world.sent[-1 - index % len(self.world.sent)]

    @move(person=PEOPLE, wire=["mcp-new", "mcp-old", "mcp-new-tasks"], key=KEYS, user=FOR_WHOM,
          node=NODES)  # fmt: skip
    def call_what_asks(
        self, person: Person = ADA, wire: str = "mcp-new", key: str | None = None, user: str | None = None,
        node: int = 0,
    ) -> None:  # fmt: skip
        input = self._input("Desk.Ask", person, user)
        self.on.run(self._call(person, wire, "Desk.Ask", input, key, user, node))
        self._hear_questions()

    def _hear_questions(self) -> None:
        """Of the older era, on streams."""
        known = {question.sent for question in self.questions}
        for sent in self.world.sent:
            if sent.wire == "mcp-old" and sent.tool == "Desk.Ask" and sent.told is None and sent not in known:
                for event in sent.heard.events():
                    if event.get("method") == "elicitation/create":
                        session = self.on.mcp_sessions.get(sent.person, "")
                        self.questions.append(Question(sent, session, event["id"]))

    @move(index=WHICH, node=NODES)
    def somebody_answers(self, index: int = 0, node: int = 0) -> None:
        """What a call asked; perhaps more than once."""
        self._hear_questions()
        if self.questions:
            self.on.run(self._answer(self.questions[-1 - index % len(self.questions)], node))

    async def _answer(self, question: Question, node: int) -> None:
        sent, stage = question.sent, self.on
        listener = sent.heard.to
        if question.session:
            await stage.ask(listener, wires.answer(question.session, question.id, {"name": "Ada"}), node)
            await within(sent.heard.done.wait(), 1.0)
        else:
            responses = {"who": {"action": "accept", "content": {"name": "Ada"}}}
            request = wires.call(sent.wire, sent.tool, sent.input, sent.key, sent.user)
            request.body["params"] |= {"requestState": question.id, "inputResponses": responses}
            heard = await stage.ask(listener, request, node)
            if (told := wires.told(sent.wire, heard)) is not None and told.kind == "success":
                sent.heard, sent.told = heard, told
        self._read()

    @move(person=PEOPLE, index=WHICH, node=NODES, how=["show", "cancel", "list"])
    def look_at_calls(self, person: Person = ADA, index: int = 0, node: int = 0, how: str = "show") -> None:
        """One's own, or, more likely, somebody else's."""
        ids = [sent.call_id for sent in self.world.sent if sent.call_id is not None]
        listener = Listener(person, ANY)
        if how == "list" or not ids:
            self.on.run(self.on.ask(listener, Request("GET", "/v1/calls"), node))
            return
        path = f"/v1/calls/{ids[-1 - index % len(ids)]}"
        request = Request("GET", path) if how == "show" else Request("POST", f"{path}/cancel")
        self.on.run(self.on.ask(listener, request, node))

    # -- sessions ----------------------------------------------------------------------------------

    @move(3, person=PEOPLE, index=WHICH, tool=["Desk_Note", "find", "Desk_Pay", "Job_Do"], node=NODES)
    def a_model_uses_a_tool(self, person: Person = ADA, index: int = 0, tool: str = "find", node: int = 0) -> None:
        """In a session, of the server's tools or of one that the session brought; in a new one if there is none."""
        self.on.run(self._use(person, index, tool, node))

    async def _use(self, person: Person, index: int, tool: str, node: int) -> None:
        stage, world, listener = self.on, self.world, Listener(person, ANY)
        mine = [session for owner, session in world.sessions if owner == person]
        if not mine or index > 8:
            brought = {"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}
            opened = await stage.ask(listener, Request("POST", "/v1/sessions", {"tools": [brought]}), node)
            if opened.status != 201:
                return
            mine = [opened.json["sessionId"]]
            world.sessions.append((person, mine[0]))
        id, name = f"use-{next(self.numbers)}", tool.replace("_", ".")
        input = self._input(name, person, None)
        if tool == "Desk_Note":
            input["details"] = {}
        use = {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": tool, "input": input}]}
        heard = await stage.ask(listener, Request("POST", f"/v1/sessions/{mine[0]}/messages", use), node)
        sent = Sent(person, None, name, "session", input, id, world.clock.now, world.clock.elapsed, heard, id)
        sent.told = Told("accepted" if heard.status == 200 else "refused", id, is_limit=heard.status == 429)
        world.sent.append(sent)

    @move(person=PEOPLE, index=WHICH, what=["", "/results", "/events"], node=NODES)
    def look_at_a_session(self, person: Person = ADA, index: int = 0, what: str = "/results", node: int = 0) -> None:
        """Anybody's."""
        if self.world.sessions:
            _, session = self.world.sessions[index % len(self.world.sessions)]
            look = self.on.glance if what == "/events" else self.on.ask
            self.on.run(look(Listener(person, ANY), Request("GET", f"/v1/sessions/{session}{what}"), node))

    @move(person=PEOPLE, index=WHICH, verb=["get", "result", "cancel"], is_new=MAYBE,
          node=NODES)  # fmt: skip
    def look_at_a_task(
        self, person: Person = ADA, index: int = 0, verb: str = "get", is_new: bool = True, node: int = 0
    ) -> None:
        """Anybody's, by its id."""
        ids = [sent.call_id for sent in self.world.sent if sent.call_id is not None and sent.family == "mcp"]
        if ids:
            self.on.run(self._look_at_task(person, ids[-1 - index % len(ids)], verb, is_new, node))

    async def _look_at_task(self, person: Person, id: str, verb: str, is_new: bool, node: int) -> None:
        listener = Listener(person, ANY)
        if is_new:
            request = wires.newer(
                f"tasks/{'cancel' if verb == 'cancel' else 'get'}", {"taskId": id}, id, has_tasks=True
            )
        else:
            request = wires.older(f"tasks/{verb}", {"taskId": id}, await self.on.mcp_session(person, node))
        await self.on.glance(listener, request, node)

    # -- workers -----------------------------------------------------------------------------------

    @move(
        4, person=[MALLORY, MALLORY, TRUSTY, TRUSTY, EVE], tool=(*WORKERS_TOOLS, "Job.Do"),
        needs=["", "", "", HELD, "FAX_KEY", GITHUB], node=NODES,
    )  # fmt: skip
    def offer(self, person: Person = MALLORY, tool: str = "Job.Do", needs: str = "", node: int = 0) -> None:
        """A worker comes, perhaps with a tool that wants to know something."""
        self.on.run(self._offer(person, "w", [_definition(tool, needs)], node))

    @move(1, person=[MALLORY, EVE], how=["chain", "twice", "clash"], node=NODES)
    def offer_something_hostile(self, person: Person = EVE, how: str = "chain", node: int = 0) -> None:
        """A definition that should hurt nobody but whoever brings it."""
        if how == "chain":
            defs: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(CHAIN)}
            schema = {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{CHAIN}": {"type": "object"}}}
            tools = [{"id": "Bad.Chain", "input_schema": schema}]
        elif how == "twice":
            tools = [_definition("Bad.Twice"), _definition("Bad.Twice")]
        else:
            tools = [_definition("Bad.Clash") | {"name": "Desk_Note"}]
        self.on.run(self._offer(person, "bad", tools, node))

    async def _offer(self, person: Person, name: str, tools: list[dict[str, Any]], node: int) -> Heard:
        world = self.world
        heard = await self.on.ask(Listener(person, ANY), Request("PUT", f"/v1/workers/{name}", {"tools": tools}), node)
        if heard.status == 200:
            for tool in tools:
                world.offers[tool["id"]].add(person)
        return heard

    @move(2, person=[MALLORY, TRUSTY, EVE], node=NODES)
    def a_worker_leaves(self, person: Person = MALLORY, node: int = 0) -> None:
        """And leaves its tools' names to whoever comes next."""
        self.on.run(self.on.ask(Listener(person, ANY), Request("DELETE", "/v1/workers/w"), node))

    @move(2, person=[MALLORY, TRUSTY, EVE, BEN], state=["PENDING", "PROCESSING", "COMPLETE", "ERROR"], node=NODES)
    def a_worker_looks_around(self, person: Person = TRUSTY, state: str = "COMPLETE", node: int = 0) -> None:
        """At all that it is told of by the tools that it offers."""
        asked = [Request("GET", f"/v1/tools/requests?state={state}")]
        asked += [Request("GET", f"/v1/tools/request/{each.session}/{each.request}") for each in self.world.claims[-3:]]
        for request in asked:
            self.on.run(self.on.ask(Listener(person, ANY), request, node, **{"toolyard-worker": "w"}))

    @move(3, person=[MALLORY, TRUSTY, EVE], index=WHICH, node=NODES, how=["answer", "beat", "release"])
    def a_worker_meddles(self, person: Person = TRUSTY, index: int = 0, node: int = 0, how: str = "answer") -> None:
        """With what another has claimed, whose attempt it counts right."""
        others = [claim for claim in self.world.claims if claim.person != person]
        if others:
            self.on.run(self._meddle(person, others[-1 - index % len(others)], node, how))

    async def _meddle(self, person: Person, claim: Claim, node: int, how: str) -> None:
        at = f"{claim.session}/{claim.request}"
        bodies = {
            "answer": (f"/v1/tools/response/{at}", {"response": {"state": "COMPLETE", "value": "forged"}}),
            "beat": (f"/v1/tools/request/{at}/heartbeat", {"state": "PROCESSING", "heartbeat": 1}),
            "release": (f"/v1/tools/request/{at}/release", {}),
        }
        headers = {"toolyard-worker": claim.worker, "toolyard-attempt": str(claim.attempt)}
        heard = await self.on.ask(Listener(person, ANY), Request("POST", *bodies[how]), node, **headers)
        if heard.status == 200:
            self.world.meddled.append(f"{person} said {how} of {at}, which {claim.person} has claimed")

    @move(5, person=PEOPLE, wire=wires.WIRES, tool=WORKERS_TOOLS, key=KEYS, user=FOR_WHOM,
          brings=MAYBE, node=NODES)  # fmt: skip
    def call_a_workers_tool(
        self, person: Person = ADA, wire: str = "oxp", tool: str = "Job.Do", key: str | None = None,
        user: str | None = None, brings: bool = False, node: int = 0,
    ) -> None:  # fmt: skip
        """Perhaps with a secret of the caller's own: then that is what its worker gets."""
        offered = [name for name in WORKERS_TOOLS if self.world.offers.get(name)]
        if offered and tool not in offered:
            tool = offered[-1]  # one that nobody offers is only refused
        brought = self._bring(tool, "FAX_KEY") if brings else {}
        self.on.run(self._call(person, wire, tool, self._input(tool, person, user), key, user, node, brought))

    @move(6, person=[MALLORY, MALLORY, TRUSTY, TRUSTY, EVE, ADA], worker=["w", "w", "v"], node=NODES)
    def claim(self, person: Person = MALLORY, worker: str = "w", node: int = 0) -> None:
        """Somebody takes work, and is given what belongs to it."""
        self.on.run(self._claim(person, worker, node))

    async def _claim(self, person: Person, worker: str, node: int) -> None:
        listener = self._claimant(person)
        request = Request("POST", "/v1/tools/claim", {"limit": 3})
        self._keep_claims(await self.on.ask(listener, request, node, **{"toolyard-worker": worker}), worker)

    def _claimant(self, person: Person) -> Listener:
        """With the secrets that are meant for what this worker is given."""
        world = self.world
        meant = {name for name, those in world.brought.items() if person in those}
        if self.on.options.trusts and person == TRUSTY:
            meant |= set(world.secrets) - set(world.brought)
        return Listener(person, ANY, secrets=frozenset(meant))

    @move(2, tool=WORKERS_TOOLS, node=NODES)
    def a_key_is_revoked_during_a_claim(self, tool: str = "Job.Do", node: int = 0) -> None:
        """Whatever comes after that is not for who had it: to them it is as if they had none."""
        self.on.run(self._claim_without_a_key(tool, node))

    async def _claim_without_a_key(self, tool: str, node: int) -> None:
        stage = self.on
        name, key = await stage.new_key(TRUSTY, node)
        request = Request("POST", "/v1/tools/claim", {"limit": 3, "wait": 30})
        headers = {"toolyard-worker": "w", "authorization": f"Bearer {key}"}
        heard = stage.send(Listener(None, ANY), request, node, **headers)
        if await within(heard.done.wait(), SETTLE_S):  # there was work already
            heard.to = self._claimant(TRUSTY)
            self._keep_claims(heard, "w")
        revoked = await stage.operate("POST", f"/v1/admin/keys/{name}/revoke", {}, node)
        if revoked.status == 200:
            self.world.revoked.append(key)
        await self._call(ADA, "oxp", tool, self._input(tool, ADA, None), None, None, node)
        if not await within(heard.done.wait(), PATIENCE_S):
            self.world.troubles.append(f"nobody answered {heard.request}")

    def _keep_claims(self, heard: Heard, worker: str) -> None:
        world, person = self.world, heard.to.person
        assert person is not None
        for each in (heard.json or {}).get("claims", ()) if heard.status == 200 else ():
            at = (each["sessionId"], each["requestId"])
            claim = Claim(person, worker, *at, each["attempt"], each["tool"], each["input"])
            given = each.get("context", {})
            claim.given = [secret["value"] for secret in given.get("secrets", ())]
            claim.given += [account["token"] for account in given.get("authorization", ())]
            mark = each["input"].get("mark", "")
            if mark in world.owners:
                world.owners[claim.run] = world.owners[mark]
                world.shared[claim.run] = {*world.shared[mark], person}
            world.claims.append(claim)
            world.newest[at] = max(world.newest.get(at, 0), claim.attempt)

    @move(5, index=WHICH, node=NODES, how=["answer", "answer", "beat", "fail"])
    def a_worker_says(self, index: int = 0, node: int = 0, how: str = "answer") -> None:
        """With what it claimed, however long ago that was, and saying all that it was given for it."""
        if self.world.claims:
            claim = self.world.claims[-1 - index % len(self.world.claims)]
            self.on.run(self._say(claim, node, how))

    async def _say(self, claim: Claim, node: int, how: str) -> None:
        at = f"{claim.session}/{claim.request}"
        headers = {"toolyard-worker": claim.worker, "toolyard-attempt": str(claim.attempt)}
        listener = Listener(claim.person, ANY)
        if how == "beat":
            request = Request("POST", f"/v1/tools/request/{at}/heartbeat", {"state": "PROCESSING", "heartbeat": 1})
        elif how == "fail":
            failed = {"state": "ERROR", "error": f"it broke: {claim.given}"}
            request = Request("POST", f"/v1/tools/request/{at}/heartbeat", failed)
        else:
            said = {"state": "COMPLETE", "value": {"run": claim.run, "said": claim.given}}
            request = Request("POST", f"/v1/tools/response/{at}", {"response": said})
        newest = self.world.newest.get((claim.session, claim.request), 0)
        heard = await self.on.ask(listener, request, node, **headers)
        if how == "answer" and heard.status == 200:
            claim.accepted, claim.newest_at_answer = True, newest

    # -- people who decide -------------------------------------------------------------------------

    @move(4, index=WHICH, how=["operator", "code", "boss", "reject", "look"], node=NODES)
    def somebody_decides(self, index: int = 0, how: str = "operator", node: int = 0) -> None:
        """About a call that waits, or with a link and a code from long ago."""
        self.on.run(self._learn_of_approvals(node))
        if self.world.approvals:
            known = list(self.world.approvals.values())
            self.on.run(self._decide(known[-1 - index % len(known)], how, node))

    async def _learn_of_approvals(self, node: int) -> None:
        heard = await self.on.operate("GET", "/v1/admin/approvals", node=node)
        for each in heard.json["approvals"] if heard.status == 200 else ():
            mark = each["input"].get("mark", "")
            self.world.approvals.setdefault(
                (each["id"], mark), Approval(each["id"], each["url"], each["code"], mark, self.world.clock.now)
            )

    async def _decide(self, approval: Approval, how: str, node: int) -> None:
        stage = self.on
        is_yes = how in ("operator", "code", "boss")
        if is_yes:
            self.world.approved.add(approval.mark)
        if how in ("operator", "reject"):
            verb = "approve" if is_yes else "reject"
            heard = await stage.operate("POST", f"/v1/admin/approvals/{approval.id}/{verb}", {}, node)
        elif how == "boss":
            knows = Listener(BOSS, ANY, knows=frozenset({approval.mark}))
            heard = await stage.ask(knows, Request("POST", f"/v1/approvals/{approval.id}/approve", {}), node)
        else:
            page = Page(stage, Listener(None, knows=frozenset({approval.mark})), approval.url, node)
            heard = await page.open()
            if how == "code":
                heard = await page.fill_in(code=approval.code, say="yes")
        if is_yes and heard.status == 200:
            await within(self.world.begin(approval.mark).wait(), 0.5)

    @move(1, user=USERS, node=NODES)
    def somebody_erases_calls(self, user: str = "uma", node: int = 0) -> None:
        """All that were made for a user, at every node."""
        self.on.run(self._erase(user, node))

    async def _erase(self, user: str, node: int) -> None:
        heard = await self.on.operate("POST", "/v1/admin/erasures", {"user": user}, node)
        for yard in self.on.up:  # with what they had of the user, before anything else comes
            await yard.store.behind.flush()
        await self.on.clock.advance(MOMENT_S)
        if heard.status != 200:
            return
        self._read()
        theirs = [sent for sent in self.world.sent if sent.user == user]
        under_way = {sent.mark for sent in theirs if sent.told is None or sent.told.kind not in ("success", "failure")}
        for sent in theirs:
            sent.is_erased = True  # or not, where it had not ended: then it may be there still
            if sent.mark not in under_way and sent.wire != "session":
                self.world.erased.add(sent.mark)

    # -- accounts ----------------------------------------------------------------------------------

    @move(tenant=["acme", "evil"], user=USERS)
    def somebody_connects_an_account(self, tenant: str = "acme", user: str = "uma") -> None:
        self.on.run(self.on.connect(tenant, user))

    @move(3, person=PEOPLE, wire=wires.WIRES, key=KEYS, user=FOR_WHOM, node=NODES)
    def call_with_an_account(
        self, person: Person = ADA, wire: str = "oxp", key: str | None = None, user: str | None = "uma", node: int = 0
    ) -> None:
        """If there is one; else its caller is given a link."""
        self.on.run(self._call(person, wire, "Desk.Read", self._input("Desk.Read", person, user), key, user, node))

    @move(3, index=WHICH, spelling=range(8), is_right=[False, False, False, True], node=NODES)
    def somebody_types_a_code(self, index: int = 0, spelling: int = 0, is_right: bool = False, node: int = 0) -> None:
        """At a link, spelled in one of the ways that Base64 can be."""
        if self.world.challenges:
            challenge = self.world.challenges[-1 - index % len(self.world.challenges)]
            self.on.run(self._type_code(challenge, spelling, is_right, node))

    async def _type_code(self, challenge: Challenge, spelling: int, is_right: bool, node: int) -> None:
        url = f"{HOME}/authorize/{spelled(challenge.text, spelling)}"
        page = Page(self.on, Listener(None), url, node)
        await page.open()
        heard = await page.fill_in(code=challenge.code if is_right else "AAAA-AAAA")
        if heard.status == 403 and b"name='form'" in heard.body and not is_right:
            challenge.wrong += 1
        if is_right and heard.status == 200 and b"http-equiv='refresh'" in heard.body:
            challenge.is_passed_at = max(challenge.is_passed_at or 0, challenge.wrong)

    # -- time, and servers that come and go --------------------------------------------------------

    @move(seconds=[1.0, 1.0, 20.0, 20.0, 40.0, 61.0, 140.0, 1100.0, 3100.0], sweeps=MAYBE)
    def time_passes(self, seconds: float = 140.0, sweeps: bool = True) -> None:
        self.on.run(self.on.clock.advance(seconds))
        if sweeps:
            self.on.run(self.on.sweep())

    @move(1)
    def the_clock_is_set_back(self) -> None:
        self.on.run(self.on.clock.set_back(3600.0))

    @move(1, node=NODES)
    def a_server_starts_again(self, node: int = 0) -> None:
        self.on.run(self.on.restart(node % self.on.ledger.nodes))

    @move(1)
    def somebody_copies_the_ledger(self) -> None:
        """While it is served, and whatever runs."""
        self.on.copy_ledger()

    @move(1, node=NODES)
    def the_ledger_goes_back_to_its_copy(self, node: int = 0) -> None:
        """If there is one. What was promised before it was made holds on; what was done since is unknown, and whom it
        let in by then or never knew is let in no more."""
        self.on.go_back()
        self.questions = [question for question in self.questions if not question.sent.is_forgotten]
        for key in self.world.revoked[-3:]:
            self.on.run(self._knock(key, node))

    async def _knock(self, key: str, node: int) -> None:
        heard = await self.on.ask(Listener(None), Request("GET", "/tools"), node, authorization=f"Bearer {key}")
        if heard.status != 401:
            self.world.troubles.append(f"a key that was revoked is answered {heard.status}")

    @move(1, since=["nothing", "decided", "worked"], node=NODES)
    def a_copy_of_the_ledger_takes_its_place(self, since: str = "nothing", node: int = 0) -> None:
        """What waited in it may have been done since: it is not known, and so it is not done again."""
        self.somebody_copies_the_ledger()
        if since == "decided":
            self.somebody_decides(how="operator", node=node)
        elif since == "worked":
            self.on.run(self._work_off(node))
        self._read()
        self.the_ledger_goes_back_to_its_copy(node=node)

    async def _work_off(self, node: int) -> None:
        """All that waits for workers is claimed, and answered."""
        for person in {person for those in self.world.offers.values() for person in those}:
            before = len(self.world.claims)
            await self._claim(person, "w", node)
            for claim in self.world.claims[before:]:
                await self._say(claim, node, "answer")

    @move(1, node=NODES)
    def a_node_is_upgraded(self, node: int = 0) -> None:
        """To the program of the next release, which migrates the ledger; others go on as they are."""
        if not self.on.is_upgraded:
            self.on.run(self.on.upgrade(node % self.on.ledger.nodes))

    @move(1, person=[ADA, EVE], wire=FAMILY, key=KEYS, node=NODES)
    def a_node_drains_and_is_replaced(
        self, person: Person = ADA, wire: str = "oxp", key: str | None = None, node: int = 0
    ) -> None:
        """It says that it should be sent no more calls, and takes those that come; then it takes none, and says when to
        come back."""
        self.on.run(self._drain(person, wire, key, node % self.on.ledger.nodes))

    async def _drain(self, person: Person, wire: str, key: str | None, node: int) -> None:
        stage, yard = self.on, self.on.yards[node]
        if yard is not None and len(stage.up) == len(stage.yards):
            yard.readiness.drain()
            if (await self._health(node)).status != 503:
                self.world.troubles.append("a node that drains says that it should be sent calls")
            input = self._input("Desk.Note", person, None, details={})
            has_ledger = yard.readiness.takes_calls
            taken = await self._call(person, wire, "Desk.Note", input, key, None, node)
            has_ledger = has_ledger and yard.readiness.takes_calls  # on a busy machine it may be lost for a moment
            if taken.told is not None and taken.told.message == NOT_READY and has_ledger:
                self.world.troubles.append(f"({taken}) was refused by a node that only drains")
            yard.let_go()
            input = self._input("Desk.Note", person, None, details={})
            late = await self._call(person, wire, "Desk.Note", input, f"late-{next(self.numbers)}", None, node)
            if late.told is None or late.told.message != NOT_READY or "retry-after" not in late.heard.headers:
                self.world.troubles.append(f"({late}) was not told to come back by a node that leaves")
        await stage.restart(node)

    @move(1, person=[ADA, EVE], wire=FAMILY, node=NODES)
    def the_ledger_is_locked_for_a_moment(self, person: Person = ADA, wire: str = "oxp", node: int = 0) -> None:
        """Nothing can be written; so nobody may be told that anything was."""
        self.on.run(self._call_in_vain(person, wire, node))

    async def _call_in_vain(self, person: Person, wire: str, node: int) -> None:
        stage, world = self.on, self.world
        input = self._input("Desk.Note", person, None, details={})
        key = f"vain-{next(self.numbers)}"
        await stage.ledger.block()
        try:
            heard = stage.send(Listener(person, None), wires.call(wire, "Desk.Note", input, key, None), node)
            sent = Sent(person, None, "Desk.Note", wire, input, key, world.clock.now, world.clock.elapsed, heard)
            world.sent.append(sent)
            await within(heard.done.wait(), 0.2)
            told = wires.told(wire, heard)
            if told is not None and told.kind in ("success", "running"):
                world.troubles.append(f"({sent}) was answered {told.kind} while nobody could write to the ledger")
        finally:
            await stage.ledger.unblock()
        await self._answered(sent)

    def take(self, step: Step) -> None:
        """One of the rules, and a look."""
        name, values = step
        getattr(self, name)(**values)
        self.the_promises_hold()

    # -- what is always so -------------------------------------------------------------------------

    @invariant()
    def the_promises_hold(self) -> None:
        if self.stage is not None:
            self.on.run(self._judge())

    async def _judge(self, *, is_quiet: bool = False, is_over: bool = False) -> None:
        self._read()
        if self.tally.exists():
            self.world.tallies = self.tally.read_text(encoding="utf-8").split()
        seen = await self._look()
        try:
            self.oracle.judge(replace(seen, is_quiet=is_quiet, is_over=is_over))
        except BrokenPromise:
            self.is_broken = True
            raise

    async def _look(self) -> Seen:
        stage = self.on
        probes = [await self._probe(node) for node in range(len(stage.up))]
        health, answers = [status for status, _ in probes], [is_answering for _, is_answering in probes]
        if stage.ledger.is_blocked and self._before is not None:
            return replace(self._before, health=health, is_answering=answers)  # nobody can look
        self._before = Seen(
            self.world, await stage.calls(), await stage.rows(), stage.ledger.files(), stage.log.lines, health,
            answers, await self._audited(),
        )  # fmt: skip
        return self._before

    async def _probe(self, node: int) -> tuple[int, bool]:
        """What a node says of itself, and whether it takes a call. One that does not has a while to find out."""
        key = f"probe-{next(self.numbers)}" if self.is_troubled else f"probe-{self.on.clock.now:.0f}"
        request = wires.call("oxp", "Desk.Note", {"mark": "probe", "details": {}}, key, None)
        if await within(self._until_answered(request, node), TROUBLED_S if self.is_troubled else PATIENCE_S):
            return (await self._health(node)).status, True
        for _ in range(100):
            if (await self._health(node)).status != 200:
                break
            await asyncio.sleep(0.1)
        for _ in range(20):  # and stays so, although others go on reading
            self.on.send(Listener(PROBER, ANY), Request("GET", "/v1/calls"), node)
            await asyncio.sleep(0.05)
            if (await self._health(node)).status == 200:
                return 200, False
        return 503, False

    async def _until_answered(self, request: Request, node: int) -> None:
        """With its result: that it still runs is no answer."""
        told: Told | None = None
        while told is None or told.kind != "success":
            heard = self.on.send(Listener(PROBER, None), request, node)
            await heard.done.wait()
            told = wires.told("oxp", heard)
            if told is not None and told.kind == "refused":
                await asyncio.sleep(0.05)

    async def _health(self, node: int) -> Heard:
        return await self.on.ask(Listener(None), Request("GET", "/health"), node)

    async def _audited(self) -> set[str] | None:
        """The calls in the audit log, where all of them must be in it."""
        if self.on.options.audit != "strict":
            return None
        found: set[str] = set()
        chains = await self.on.operate("GET", "/v1/admin/audit/chains")
        for chain in chains.json["chains"] if chains.status == 200 else ():
            after = 0
            while True:
                asked = urlencode({"chain": chain["name"], "after": after})
                blocks = (await self.on.operate("GET", f"/v1/admin/audit/blocks?{asked}")).json["blocks"]
                found |= {entry["call"] for block in blocks for entry in block["entries"] if entry.get("call")}
                if not blocks:
                    break
                after = blocks[-1]["number"]
        return found

    def teardown(self) -> None:
        """Everything has its time: then it has ended, and what was promised is there after a restart."""
        if self.stage is None:
            self._folder.cleanup()
            return
        try:
            if not self.is_broken:
                self.on.run(self._end())
        finally:
            self.stage.close()
            self._folder.cleanup()

    async def _end(self) -> None:
        stage, world = self.on, self.world
        world.open_gates()
        for sent in world.sent:
            if sent.tool in GATED and sent.told is None:
                await within(sent.heard.done.wait(), 2.0)
        await self._until_recorded()
        await self._judge(is_quiet=True)
        for node in range(stage.ledger.nodes):
            await stage.restart(node)
        await self._judge()
        await stage.clock.advance(max(0.0, stage.clock.latest - stage.clock.now) + TOTAL_S + 1)
        await stage.sweep()
        for sent in world.sent:
            await within(sent.heard.done.wait(), PATIENCE_S)
        for _ in range(50):
            if all(call["state"] in ("COMPLETE", "ERROR") for call in await stage.calls()):
                break
            await asyncio.sleep(0.05)
        await self._judge(is_over=True)

    async def _until_recorded(self) -> None:
        """What is written behind is written, if that ever happens."""
        self._read()
        for _ in range(20):
            there = str(await self.on.calls())
            told = [sent for sent in self.world.sent if sent.told is not None and sent.told.kind == "success"]
            if all(sent.mark in there for sent in told):
                return
            await asyncio.sleep(0.05)


class Page:
    """A page with a form, in a browser of its own."""

    def __init__(self, stage: Stage, listener: Listener, url: str, node: int) -> None:
        self._stage, self._listener, self._node = stage, listener, node
        self._path, self._cookie, self._form = "/" + url.split("/", 3)[3], "", ""

    async def open(self) -> Heard:
        heard = await self._stage.ask(self._listener, Request("GET", self._path), self._node)
        self._cookie = heard.headers.get("set-cookie", "").partition(";")[0]
        found = re.search(r"name='form' value='([^']+)'", heard.body.decode())
        self._form = found[1] if found else ""
        return heard

    async def fill_in(self, **fields: str) -> Heard:
        data = urlencode({"form": self._form, **fields}).encode()
        headers = {"cookie": self._cookie, "origin": HOME, "content-type": "application/x-www-form-urlencoded"}
        return await self._stage.ask(self._listener, Request("POST", self._path, data), self._node, **headers)


def spelled(text: str, spelling: int) -> str:
    """The same bytes, to who decodes Base64 without looking closely."""
    last = _ALPHABET.index(text[-1])
    loose = {2: 15, 3: 3}.get(len(text) % 4, 0)
    """The bits of the last character that say nothing."""
    others = [_ALPHABET[last ^ bits] for bits in range(1, loose + 1)]
    ways = [text, f"{text}=", f"{text}==", f"{text}.", f"{text[:4]}!{text[4:]}", f"~{text}", f"{text}===="]
    ways += [text[:-1] + other for other in others[:1]]
    return ways[spelling % len(ways)]


_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def _definition(tool: str, needs: str = "") -> dict[str, Any]:
    on_lost = "unknown" if tool == ONCE else "rerun"
    made: dict[str, Any] = {
        "id": tool, "description": "Does it.", "input_schema": {"type": "object"}, "on_lost": on_lost
    }  # fmt: skip
    if needs == GITHUB:
        made["requirements"] = {"authorization": [{"id": GITHUB}]}
    elif needs:
        made["requirements"] = {"secrets": [{"id": needs}]}
    return made


async def _first(*events: asyncio.Event) -> None:
    """Waits for one of them, but not for long."""
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(tasks, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


__all__ = ["BEN", "Machine", "spelled"]
