"""What a tool asks its client, in both eras."""

from typing import Any

import pytest

from .conftest import Connect
from .schemas import MODERN, OLDER
from .serving import ALICE, BOB, Server, Start
from .stage import Stage
from .talking import Newer, Older, accepted, connect, text_of

ALL: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
SAMPLE = {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "m"}
ROOTS = {"roots": [{"uri": "file:///home"}]}
KINDS = [
    ("ask", "elicitation/create", accepted(name="Ada"), "Ada"),
    ("ask_url", "elicitation/create", {"action": "accept"}, None),
    ("sample", "sampling/createMessage", SAMPLE, "42"),
    ("roots", "roots/list", ROOTS, ["file:///home"]),
]


# --- the older era -------------------------------------------------------------------------------


@pytest.mark.parametrize(("what", "method", "answer", "heard"), KINDS)
def test_a_question_is_a_request_to_the_client(
    client: Connect, stage: Stage, name: str, what: str, method: str, answer: Any, heard: Any
) -> None:
    older = client("2025-11-25", **ALL)
    assert isinstance(older, Older)
    exchange = older.act(name)
    visit = stage.visit(name)
    visit.tell(what, "who")
    question = exchange.next()
    assert question["method"] == method
    older.answer(question, answer)
    assert visit.hear() == heard
    visit.ends()
    assert text_of(exchange.result()) == "done"


@pytest.mark.parametrize("revision", OLDER[1:])
def test_a_form_is_as_its_revision_has_it(client: Connect, stage: Stage, name: str, revision: str) -> None:
    older = client(revision, elicitation={})
    assert isinstance(older, Older)
    exchange = older.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    question = exchange.next()
    assert ("mode" in question["params"]) == (revision == "2025-11-25")
    assert question["params"]["message"] == "Who is who?"
    assert question["params"]["requestedSchema"]["required"] == ["name"]
    older.answer(question, accepted(name="Ada"))
    assert visit.hear() == "Ada"
    visit.ends()
    exchange.result()


@pytest.mark.parametrize("answer", [{"action": "decline"}, {"action": "cancel"}])
def test_who_declines_is_heard(client: Connect, stage: Stage, name: str, answer: Any) -> None:
    older = client("2025-11-25", **ALL)
    assert isinstance(older, Older)
    exchange = older.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    older.answer(exchange.next(), answer)
    assert "refused" in visit.hear()
    assert exchange.result()["isError"] is True


@pytest.mark.parametrize(
    ("what", "answer"),
    [
        ("ask", accepted(name=7)), ("ask", accepted()), ("ask", {"action": "accept"}), ("ask", {"action": "maybe"}),
        ("ask", {}), ("ask_url", {}), ("sample", {}), ("roots", {}), ("roots", {"roots": 7}),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_ends_the_call_with_a_sentence(
    client: Connect, stage: Stage, name: str, what: str, answer: Any
) -> None:
    older = client("2025-11-25", **ALL)
    assert isinstance(older, Older)
    exchange = older.act(name)
    visit = stage.visit(name)
    visit.tell(what, "who")
    older.answer(exchange.next(), answer)
    assert "refused" in visit.hear()
    result = exchange.result()
    assert result["isError"] is True
    assert "who" in text_of(result)


@pytest.mark.parametrize("what", ["ask", "ask_url", "sample", "roots"])
def test_a_client_that_answers_with_an_error_ends_the_call(client: Connect, stage: Stage, name: str, what: str) -> None:
    older = client("2025-11-25", **ALL)
    assert isinstance(older, Older)
    exchange = older.act(name)
    visit = stage.visit(name)
    visit.tell(what, "who")
    older.refuse(exchange.next())
    assert "refused" in visit.hear()
    assert exchange.result()["isError"] is True


@pytest.mark.parametrize("revision", [*OLDER, MODERN])
def test_a_client_that_cannot_be_asked_is_not_asked(client: Connect, stage: Stage, name: str, revision: str) -> None:
    exchange = client(revision).act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    assert "cannot" in visit.hear()["refused"]
    result = exchange.result()
    assert result["isError"] is True
    assert not exchange.is_stream


def test_several_questions_are_asked_at_once_and_answered_in_any_order(
    client: Connect, stage: Stage, name: str
) -> None:
    older = client("2025-11-25", **ALL)
    assert isinstance(older, Older)
    exchange = older.act(name)
    visit = stage.visit(name)
    visit.tell("together", "a", "b", "c")
    questions = [exchange.next() for _ in range(3)]
    for question in reversed(questions):
        older.answer(question, accepted(name=question["params"]["message"]))
    assert visit.hear() == ["Who is a?", "Who is b?", "Who is c?"]
    visit.ends()
    exchange.result()


def test_an_answer_of_another_caller_does_not_count(keyed: Server, stage: Stage, name: str) -> None:
    alice, bob = (Older(keyed.url, "2025-11-25", key, **ALL).initialize() for key in (ALICE, BOB))
    exchange = alice.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    question = exchange.next()
    bob.answer(question, accepted(name="Eve"))
    alice.answer(question, accepted(name="Ada"))
    alice.answer(question, accepted(name="Too late"))
    assert visit.hear() == "Ada"
    visit.ends()
    exchange.result()


def test_an_answer_from_another_session_of_the_same_caller_does_not_count(
    client: Connect, stage: Stage, name: str
) -> None:
    mine, other = client("2025-11-25", **ALL), client("2025-11-25", **ALL)
    assert isinstance(mine, Older)
    assert isinstance(other, Older)
    exchange = mine.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    question = exchange.next()
    _, seq, _, asked = question["id"].split(".", 3)
    for id in (question["id"], f"question.{seq}..{asked}", "question.x.y.z", "question.1"):
        other.answer({"id": id}, accepted(name="Eve"))
    other.refuse(question)
    mine.answer(question, accepted(name="Ada"))
    assert visit.hear() == "Ada"
    visit.ends()
    exchange.result()


def test_a_question_waits_while_its_stream_is_taken_up_again(client: Connect, stage: Stage, name: str) -> None:
    older = client("2025-11-25", **ALL)
    assert isinstance(older, Older)
    exchange = older.act(name, meta={"progressToken": 1})
    visit = stage.visit(name)
    visit.tell("progress", 1)
    exchange.next()
    visit.hear()
    exchange.close()
    visit.tell("ask", "who")
    rest = older.get(exchange.last_event, {"id": exchange.id, "method": "tools/call"})
    older.answer(rest.next(), accepted(name="Ada"))
    assert visit.hear() == "Ada"
    visit.ends()
    assert text_of(rest.result()) == "done"


def test_what_was_asked_is_asked_again_once_the_server_was_killed(start: Start, stage: Stage, name: str) -> None:
    """Nothing that a client may have missed is lost: what was answered counts, what was not is put again."""
    server = start()
    older = Older(server.url, "2025-11-25", **ALL).initialize()
    exchange = older.act(name, "Play_Again", meta={"progressToken": 1})
    visit = stage.visit(name)
    visit.tell("ask", "first")
    question = exchange.next()
    last = exchange.last_event
    older.answer(question, accepted(name="Ada"))
    assert visit.hear() == "Ada"
    server.restart()
    again = stage.visit(name)
    again.tell("ask", "first")
    assert again.hear() == "Ada"
    rest = older.get(last, {"id": exchange.id, "method": "tools/call"})
    again.tell("ask", "second")
    older.answer(rest.next(), accepted(name="Bea"))
    assert again.hear() == "Bea"
    again.ends("both")
    assert text_of(rest.result()) == "both"


# --- the newer era -------------------------------------------------------------------------------


@pytest.mark.parametrize(("what", "method", "answer", "heard"), KINDS)
def test_a_question_is_a_result_that_needs_input(
    client: Connect, stage: Stage, name: str, what: str, method: str, answer: Any, heard: Any
) -> None:
    newer = client(MODERN, **ALL)
    assert isinstance(newer, Newer)
    exchange = newer.act(name)
    visit = stage.visit(name)
    visit.tell(what, "who")
    asked = exchange.result()
    assert asked["resultType"] == "input_required"
    assert {key: value["method"] for key, value in asked["inputRequests"].items()} == {"who": method}
    second = newer.go_on("Play_Act", name, asked, {"who": answer})
    assert visit.hear() == heard
    visit.ends()
    assert text_of(second.result()) == "done"
    assert stage.is_empty(name)


def test_a_tool_asks_one_thing_after_another(client: Connect, stage: Stage, name: str) -> None:
    newer = client(MODERN, **ALL)
    assert isinstance(newer, Newer)
    exchange = newer.act(name)
    visit = stage.visit(name)
    for who in ("first", "second", "third"):
        visit.tell("ask", who)
        asked = exchange.result()
        assert list(asked["inputRequests"]) == [who]
        exchange = newer.go_on("Play_Act", name, asked, {who: accepted(name=who)})
        assert visit.hear() == who
    visit.ends()
    assert text_of(exchange.result()) == "done"


def test_several_questions_are_put_together_and_may_be_answered_one_by_one(
    client: Connect, stage: Stage, name: str
) -> None:
    newer = client(MODERN, **ALL)
    assert isinstance(newer, Newer)
    exchange = newer.act(name)
    visit = stage.visit(name)
    visit.tell("together", "a", "b", "c")
    asked = exchange.result()
    assert sorted(asked["inputRequests"]) == ["a", "b", "c"]
    asked = newer.go_on("Play_Act", name, asked, {"b": accepted(name="B")}).result()
    assert sorted(asked["inputRequests"]) == ["a", "c"]
    last = newer.go_on("Play_Act", name, asked, {"c": accepted(name="C"), "a": accepted(name="A"), "x": {}})
    assert visit.hear() == ["A", "B", "C"]
    visit.ends()
    assert text_of(last.result()) == "done"


@pytest.mark.parametrize(
    ("what", "answer"),
    [
        ("ask", accepted(name=7)), ("ask", accepted()), ("ask", {"action": "accept"}), ("ask", {"action": "maybe"}),
        ("ask", {}), ("ask", 7), ("ask_url", {}), ("sample", {}), ("roots", {}), ("roots", {"roots": 7}),
        ("roots", {"roots": [5]}), ("roots", {"roots": [{"uri": 5}]}), ("sample", {**SAMPLE, "content": 5}),
        ("sample", {**SAMPLE, "content": [5]}), ("sample", {**SAMPLE, "content": {"type": "text", "text": 5}}),
        ("sample", {**SAMPLE, "model": 5}),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_refused_and_another_may_follow(
    client: Connect, stage: Stage, name: str, what: str, answer: Any
) -> None:
    newer = client(MODERN, **ALL)
    assert isinstance(newer, Newer)
    exchange = newer.act(name)
    visit = stage.visit(name)
    visit.tell(what, "who")
    asked = exchange.result()
    assert newer.go_on("Play_Act", name, asked, {"who": answer}).error()["code"] == -32602
    good = {"ask": accepted(name="Ada"), "ask_url": {"action": "accept"}, "sample": SAMPLE, "roots": ROOTS}[what]
    last = newer.go_on("Play_Act", name, asked, {"who": good})
    visit.hear()
    visit.ends()
    assert text_of(last.result()) == "done"


def test_answers_that_come_with_the_first_request_are_used(client: Connect, stage: Stage, name: str) -> None:
    newer = client(MODERN, **ALL)
    exchange = newer.act(name, inputResponses={"who": accepted(name="Ada"), "other": 7})
    visit = stage.visit(name)
    visit.tell("ask", "who")
    assert visit.hear() == "Ada"
    visit.ends()
    assert text_of(exchange.result()) == "done"


def test_an_answer_that_comes_too_early_and_does_not_fit_is_asked_for(client: Connect, stage: Stage, name: str) -> None:
    newer = client(MODERN, **ALL)
    for early in ({"who": 7}, {"who": accepted(name=7)}, {"who": {"action": "accept"}}):
        exchange = newer.act(name, inputResponses=early)
        visit = stage.visit(name)
        visit.tell("ask", "who")
        assert list(exchange.result().get("inputRequests", ())) == ["who"], early


def test_an_answer_without_any_is_asked_again(small: Server, stage: Stage, name: str) -> None:
    """After a while."""
    newer = connect(small.url, MODERN, **ALL)
    exchange = newer.act(name)
    stage.visit(name).tell("ask", "who")
    asked = exchange.result()
    again = newer.act(name, requestState=asked["requestState"]).result()
    assert list(again["inputRequests"]) == ["who"]
    newer.close()


def test_who_comes_back_without_an_answer_is_told_what_is_new(client: Connect, stage: Stage, name: str) -> None:
    """And not, again and again, what it was asked before."""
    newer, other = client(MODERN, **ALL), client(MODERN, **ALL)
    exchange = newer.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    state = exchange.result()["requestState"]
    held = newer.act(name, requestState=state)
    answered = other.act(name, requestState=state, inputResponses={"who": accepted(name="Ada")})
    assert visit.hear() == "Ada"
    visit.ends()
    assert {text_of(each.result()) for each in (held, answered)} == {"done"}


@pytest.mark.parametrize("revision", [MODERN, "2025-11-25"])
def test_another_users_running_call_is_not_joined(client: Connect, stage: Stage, name: str, revision: str) -> None:
    """The key is the same, and the call is not: the other user would have its result, and be asked its questions."""
    of_ada, of_bob = ({"toolyard/callId": name, "toolyard/userId": user} for user in ("ada", "bob"))
    calling = client(revision, **ALL).act(name, meta=of_ada)
    visit = stage.visit(name)
    other = client(revision, **ALL).act(name, meta=of_bob)
    visit.ends()
    assert "call_id was used for another call" in other.error()["message"]
    assert text_of(calling.result()) == "done"


def test_a_state_counts_for_its_request_alone(client: Connect, stage: Stage, name: str) -> None:
    newer = client(MODERN, **ALL)
    exchange = newer.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    state = exchange.result()["requestState"]
    answers = {"who": accepted(name="Eve")}
    turned = state[:-6] + ("A" if state[-6] != "A" else "B") + state[-5:]
    for wrong in (turned, state[:-4], state + "AAAA", "", "é", "x"):
        error = newer.act(name, requestState=wrong, inputResponses=answers).error()
        assert error["code"] == -32602, wrong
    other = newer.call("Play_Act", {"name": "other"}, requestState=state, inputResponses=answers)
    assert other.error()["code"] == -32602
    again = newer.act(name, "Play_Again", requestState=state, inputResponses=answers)
    assert again.error()["code"] == -32602
    last = newer.act(name, requestState=state, inputResponses={"who": accepted(name="Ada")})
    assert visit.hear() == "Ada"
    visit.ends()
    last.result()


def test_a_state_counts_for_its_user_alone(client: Connect, stage: Stage, name: str) -> None:
    newer, of_ada = client(MODERN, **ALL), {"toolyard/userId": "ada"}
    exchange = newer.act(name, meta=of_ada)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    state = exchange.result()["requestState"]
    for other in ({"toolyard/userId": "bob"}, {}):
        answers = {"who": accepted(name="Eve")}
        refused = newer.act(name, meta=other, requestState=state, inputResponses=answers)
        assert refused.error()["code"] == -32602, other
    last = newer.act(name, meta=of_ada, requestState=state, inputResponses={"who": accepted(name="Ada")})
    assert visit.hear() == "Ada"
    visit.ends()
    last.result()


def test_a_state_counts_for_its_caller_alone(keyed: Server, stage: Stage, name: str) -> None:
    alice, bob = (Newer(keyed.url, key=key, **ALL) for key in (ALICE, BOB))
    exchange = alice.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    asked = exchange.result()
    assert bob.go_on("Play_Act", name, asked, {"who": accepted(name="Eve")}).error()["code"] == -32602
    last = alice.go_on("Play_Act", name, asked, {"who": accepted(name="Ada")})
    assert visit.hear() == "Ada"
    visit.ends()
    last.result()


def test_a_state_runs_out_and_so_does_its_run(start: Start, stage: Stage, name: str) -> None:
    server = start(answer_wait_s="0.5")
    newer = Newer(server.url, **ALL)
    exchange = newer.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    asked = exchange.result()
    assert "Nobody answered" in visit.hear()["refused"]
    late = newer.go_on("Play_Act", name, asked, {"who": accepted(name="Ada")}).response()
    assert "error" in late or late["result"]["isError"]


def test_the_parked_run_goes_on_with_its_new_request(client: Connect, stage: Stage, name: str) -> None:
    """Progress and logs are told to whoever waits now; who closes that stream gives the call up."""
    newer = client(MODERN, **ALL)
    assert isinstance(newer, Newer)
    exchange = newer.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    asked = exchange.result()
    exchange.close()
    second = newer.go_on("Play_Act", name, asked, {"who": accepted(name="Ada")}, meta={"progressToken": "t"})
    assert visit.hear() == "Ada"
    visit.tell("progress", 1)
    assert second.next()["params"]["progressToken"] == "t"
    visit.hear()
    second.close()
    assert visit.hear() == "stopped"


def test_the_same_answer_twice_is_one_answer(client: Connect, stage: Stage, name: str) -> None:
    """At once, and also when all is over."""
    newer = client(MODERN, **ALL)
    assert isinstance(newer, Newer)
    exchange = newer.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    asked, answers = exchange.result(), {"who": accepted(name="Ada")}
    both = [newer.go_on("Play_Act", name, asked, answers) for _ in range(2)]
    assert visit.hear() == "Ada"
    visit.ends()
    assert [text_of(each.result()) for each in both] == ["done", "done"]
    assert text_of(newer.go_on("Play_Act", name, asked, answers).result()) == "done"
    assert stage.is_empty(name)


# --- the same call again -------------------------------------------------------------------------


def test_a_client_that_missed_the_question_asks_again_with_its_key(client: Connect, stage: Stage, name: str) -> None:
    """A retry is harmless: it is told what the call waits for."""
    newer = client(MODERN, **ALL)
    assert isinstance(newer, Newer)
    meta = {"toolyard/callId": name}
    missed = newer.act(name, meta=meta)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    assert missed.status == 200
    missed.close()
    asked = newer.act(name, meta=meta).result()
    assert list(asked["inputRequests"]) == ["who"]
    last = newer.go_on("Play_Act", name, asked, {"who": accepted(name="Ada")}, meta=meta)
    assert visit.hear() == "Ada"
    visit.ends()
    assert text_of(last.result()) == "done"
    assert stage.is_empty(name)


def test_an_older_client_that_missed_the_question_asks_again_with_its_key(
    client: Connect, stage: Stage, name: str
) -> None:
    older = client("2025-11-25", **ALL)
    assert isinstance(older, Older)
    meta = {"toolyard/callId": name}
    missed = older.act(name, meta=meta)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    assert missed.is_stream
    missed.close()
    again = older.act(name, meta=meta)
    older.answer(again.next(), accepted(name="Ada"))
    assert visit.hear() == "Ada"
    visit.ends()
    assert text_of(again.result()) == "done"


def test_an_older_client_that_has_joined_is_asked_each_thing_once(client: Connect, stage: Stage, name: str) -> None:
    """By the run, which speaks to who joined last, or by whoever reads the ledger for it, and never by both."""
    older = client("2025-11-25", **ALL)
    assert isinstance(older, Older)
    meta = {"toolyard/callId": name}
    older.act(name, meta=meta)
    visit = stage.visit(name)
    again = older.act(name, meta=meta)
    for asked in ("who", "whose", "whom"):  # once it has the first of them, it has joined
        visit.tell("ask", asked)
        question = again.next()
        assert question["params"]["message"] == f"Who is {asked}?"
        older.answer(question, accepted(name="Ada"))
        assert visit.hear() == "Ada"
    visit.ends()
    (response,) = again.rest()
    assert text_of(response["result"]) == "done"


# --- what becomes of a parked run ----------------------------------------------------------------


def test_a_parked_run_that_may_be_run_again_keeps_its_answers(start: Start, stage: Stage, name: str) -> None:
    server = start()
    newer = Newer(server.url, **ALL)
    exchange = newer.act(name, "Play_Again")
    visit = stage.visit(name)
    visit.tell("ask", "first")
    second = newer.go_on("Play_Again", name, exchange.result(), {"first": accepted(name="Ada")})
    assert visit.hear() == "Ada"
    visit.tell("ask", "second")
    asked = second.result()
    server.restart()
    again = stage.visit(name)
    again.tell("ask", "first")
    assert again.hear() == "Ada"
    again.tell("ask", "second")
    last = newer.go_on("Play_Again", name, asked, {"second": accepted(name="Bea")})
    assert again.hear() == "Bea"
    again.ends("both")
    assert text_of(last.result()) == "both"


def test_a_client_that_comes_back_before_the_second_run_asks_again(start: Start, stage: Stage, name: str) -> None:
    """The answer is taken when the question is there, and not thrown away before."""
    server = start()
    newer = Newer(server.url, **ALL)
    exchange = newer.act(name, "Play_Again")
    visit = stage.visit(name)
    visit.tell("ask", "who")
    asked = exchange.result()
    server.restart()
    again = stage.visit(name)
    last = newer.go_on("Play_Again", name, asked, {"who": accepted(name="Ada")})
    newer.result("tools/list")  # by now that was heard
    again.tell("ask", "who")
    assert again.hear() == "Ada"
    again.ends()
    assert text_of(last.result()) == "done"


def test_a_parked_run_that_may_not_be_run_again_is_said_not_to_be_known(start: Start, stage: Stage, name: str) -> None:
    server = start()
    newer = Newer(server.url, **ALL)
    exchange = newer.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "who")
    asked = exchange.result()
    server.restart()
    result = newer.go_on("Play_Act", name, asked, {"who": accepted(name="Ada")}).result()
    assert result["isError"] is True
    assert "not known" in text_of(result)
    assert stage.is_empty(name)
