"""What a tool asks its client while it runs: the question that is put, and what the tool makes of the answer."""

import asyncio
import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, NotRequired

import pytest
from pydantic import AnyUrl, BaseModel, Field, SecretStr, StringConstraints, WithJsonSchema, field_validator
from typing_extensions import TypedDict

from toolyard import Caller, Context, Declined, ToolError
from toolyard.model.channel import Question, QuietChannel
from toolyard.model.run import Run

from .trying import named, tool_of


async def asker() -> None:
    """Asks."""


def plain() -> None:
    """Cannot ask."""


class Client:
    """Answers every question alike, and keeps them."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, list[Question]()

    async def __call__(self, run: Run, question: Question) -> Any:
        self.asked.append(question)
        await asyncio.sleep(0)
        return self.answer


def context(client: Client | None, function: Callable[..., Any] = asker) -> Context:
    return Context(Run(tool_of(function), "c-1", Caller("default", "local"), {}, QuietChannel(), asking=client))


def asked(answer: Any, ask: Callable[[Context], Awaitable[Any]]) -> tuple[Any, Question]:
    """What a tool gets, and the question that was put."""
    client = Client(answer)

    async def tool() -> Any:
        return await ask(context(client))

    return asyncio.run(tool()), client.asked[0]


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def filled_in(schema: Any, **content: Any) -> Any:
    return asked(accept(**content), lambda ctx: ctx.ask("Well?", schema))[0]


def form(schema: Any) -> dict[str, Any]:
    """What is asked for a type."""
    question: list[Question] = []

    async def keep(run: Run, put: Question) -> Any:
        question.append(put)
        return {"action": "cancel"}

    async def tool() -> None:
        run = Run(tool_of(asker), "c-1", Caller("default", "local"), {}, QuietChannel(), asking=keep)
        with pytest.raises(Declined):
            await Context(run).ask("Well?", schema)

    asyncio.run(tool())
    return dict(question[0].schema)


# --- forms from types ----------------------------------------------------------------------------


class Size(enum.Enum):
    small = "S"
    large = "L"


class Person(BaseModel):
    name: Annotated[str, Field(title="Your name", description="As on the door.", min_length=1, max_length=9)]
    age: Annotated[int, Field(gt=0, le=150)]
    height: Annotated[float, Field(ge=0.5)] = 1.5
    born: date | None = None
    nick: str | None
    page: AnyUrl = AnyUrl("https://example.com/")
    friendly: bool = True


@dataclass
class Order:
    size: Size
    extras: list[Literal["jam", "tea"]]
    speed: Literal["slow", "fast"] = "slow"


class Address(TypedDict):
    city: str
    zip: NotRequired[str]


TITLED = Annotated[Literal["r"], Field(title="Red")] | Annotated[Literal["g"], Field(title="Green")]
RED_OR_GREEN = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]


def test_a_model_is_a_flat_form() -> None:
    assert form(Person) == {
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "minLength": 1,
                "maxLength": 9,
                "title": "Your name",
                "description": "As on the door.",
            },
            "age": {"type": "integer", "minimum": 1, "maximum": 150},
            "height": {"type": "number", "minimum": 0.5, "default": 1.5},
            "born": {"type": "string", "format": "date"},
            "nick": {"type": "string"},
            "page": {"type": "string", "format": "uri", "minLength": 1, "default": "https://example.com/"},
            "friendly": {"type": "boolean", "default": True},
        },
        "required": ["name", "age"],
    }


def test_a_dataclass_is_a_form_with_choices() -> None:
    assert form(Order) == {
        "type": "object",
        "properties": {
            "size": {"type": "string", "enum": ["S", "L"], "title": "Size"},
            "extras": {"type": "array", "items": {"type": "string", "enum": ["jam", "tea"]}},
            "speed": {"type": "string", "enum": ["slow", "fast"], "default": "slow"},
        },
        "required": ["size", "extras"],
    }


def test_a_typed_dict_is_a_form() -> None:
    fields = {"city": {"type": "string"}, "zip": {"type": "string"}}
    assert form(Address) == {"type": "object", "properties": fields, "required": ["city"]}


@pytest.mark.parametrize(
    ("type_", "field"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (Size, {"type": "string", "enum": ["S", "L"], "title": "Size"}),
        (TITLED, {"type": "string", "oneOf": RED_OR_GREEN}),
        (list[TITLED], {"type": "array", "items": {"anyOf": RED_OR_GREEN}}),
        (
            Annotated[set[Size], Field(min_length=1, max_length=2)],
            {"type": "array", "items": {"type": "string", "enum": ["S", "L"]}, "minItems": 1, "maxItems": 2},
        ),
        (Annotated[int, Field(lt=5)], {"type": "integer", "maximum": 4}),
        (Annotated[float, Field(gt=0)], {"type": "number"}),
        (Annotated[str, StringConstraints(pattern="^a")], {"type": "string"}),
        (Annotated[str, Field(json_schema_extra={"format": "email"})], {"type": "string", "format": "email"}),
        (Annotated[str, Field(json_schema_extra={"format": "hostname"})], {"type": "string"}),
    ],
    ids=named,
)
def test_a_plain_type_is_a_form_with_one_value(type_: Any, field: dict[str, Any]) -> None:
    assert form(type_) == {"type": "object", "properties": {"value": field}, "required": ["value"]}


def test_what_may_be_none_may_be_left_out() -> None:
    assert form(str | None) == {"type": "object", "properties": {"value": {"type": "string"}}}
    assert form(Literal["a", None]) == {"type": "object", "properties": {"value": {"type": "string", "enum": ["a"]}}}
    assert filled_in(str | None) is None
    assert filled_in(str | None, value="a") == "a"


def test_a_json_schema_is_taken_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mine": 1}}}
    assert form(schema) == schema
    assert filled_in(schema, a="b") == {"a": "b"}


class Inner(BaseModel):
    person: Person


class Endless(BaseModel):
    again: "Endless | None"


@dataclass
class Calls:
    back: Callable[[], None]


@pytest.mark.parametrize(
    ("type_", "sentence"),
    [
        (Inner, "Inner cannot be a form: 'person' is an object; forms have texts, numbers, yes or no, and choices"),
        (Endless, "Endless cannot be a form: 'again' is not of one plain type"),
        (Calls, "Calls cannot be a form: 'back': Cannot generate"),
        (list[str], r"list\[str\] cannot be a form: 'value' is a list of what is not a choice"),
        (dict[str, str], "'value' is an object"),
        (str | int, "'value' is not of one plain type"),
        (Any, "'value' is not of one plain type"),
        (Literal[1, 2], "'value' is a choice from what is not text"),
        (SecretStr, "'value' is a secret, which no form may ask for; .*ask_url"),
        (Annotated[str, WithJsonSchema({"$ref": "https://example.com/a"})], "a reference to https://example.com/a"),
        (3, "3 cannot be a form: Unable to generate"),
    ],
    ids=named,
)
def test_a_type_that_cannot_be_a_form_is_refused_by_its_field(type_: Any, sentence: str) -> None:
    client = Client(accept())

    async def tool() -> None:
        with pytest.raises(TypeError, match=sentence):
            await context(client).ask("Well?", type_)

    asyncio.run(tool())
    assert client.asked == []


# --- answers -------------------------------------------------------------------------------------


def test_a_form_is_put_as_a_question() -> None:
    answer, question = asked(accept(value="blue"), lambda ctx: ctx.ask("Which colour?", name="colour"))
    assert answer == "blue"
    assert question == Question(
        "colour",
        "form",
        "Which colour?",
        {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]},
    )


def test_an_answer_is_of_the_type_that_was_asked_for() -> None:
    person = filled_in(Person, name="Ada", age=36.0, born="1815-12-10")
    assert person == Person(name="Ada", age=36, born=date(1815, 12, 10), nick=None)
    assert filled_in(Order, size="L", extras=["tea"]) == Order(Size.large, ["tea"])
    assert filled_in(Address, city="Oslo") == {"city": "Oslo"}
    assert filled_in(Size, value="S") is Size.small
    assert filled_in(int, value=3.0) == 3
    assert filled_in(bool, value=False) is False
    assert filled_in(set[Literal["a", "b"]], value=["b"]) == {"b"}


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("Must be even")
        return value


@pytest.mark.parametrize(
    ("type_", "answer", "reason"),
    [
        (int, accept(value="3"), "value: Input should be a valid integer"),
        (str, accept(), "value: Field required"),
        (str, {"action": "accept"}, "value: Field required"),
        (Size, accept(value="M"), "value: Input should be 'S' or 'L'"),
        (Even, accept(number=3), "number: Must be even"),
        (Person, accept(name="", age=0), "name: .*; age: .*"),
        (str, {"action": "maybe"}, "Invalid enum value 'maybe'"),
        (str, {"action": "accept", "content": ["a"]}, "Expected `object"),
        (str, "yes", "Expected `object`"),
        (str, {}, "missing required field `action`"),
    ],
    ids=named,
)
def test_an_answer_that_does_not_fit_fails_the_tool(type_: Any, answer: Any, reason: str) -> None:
    with pytest.raises(ToolError, match=rf"The answer to 'question-1' cannot be used: .*{reason}") as failure:
        asked(answer, lambda ctx: ctx.ask("Well?", type_))
    assert not isinstance(failure.value, Declined)


@pytest.mark.parametrize(("action", "done"), [("decline", "declined"), ("cancel", "cancelled")])
@pytest.mark.parametrize(
    "ask", [lambda ctx: ctx.ask("Well?", name="it"), lambda ctx: ctx.ask_url("Well?", "https://a.test", name="it")]
)
def test_a_person_may_decline(action: str, done: str, ask: Callable[[Context], Awaitable[Any]]) -> None:
    with pytest.raises(Declined, match=f"The question 'it' was {done}") as declined:
        asked({"action": action}, ask)
    assert (declined.value.action, declined.value.code) == (action, "tool_failed")
    assert isinstance(declined.value, ToolError)


def test_a_person_is_sent_to_an_address() -> None:
    answer, question = asked({"action": "accept"}, lambda ctx: ctx.ask_url("Please sign in", "https://a.test/in"))
    assert answer is None
    assert question == Question("question-1", "url", "Please sign in", url="https://a.test/in")


def test_the_clients_model_is_asked() -> None:
    result = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "a haiku"}}
    answer, question = asked(result, lambda ctx: ctx.sample("Write a haiku"))
    assert answer == "a haiku"
    messages = [{"role": "user", "content": {"type": "text", "text": "Write a haiku"}}]
    assert question == Question("question-1", "sampling", request={"messages": messages, "maxTokens": 1000})


def test_what_else_is_said_to_the_model_is_sent_as_it_is() -> None:
    messages = [{"role": "assistant", "content": {"type": "text", "text": "Hm"}}]
    result = {"role": "assistant", "model": "m", "content": {"type": "image", "data": "", "mimeType": "image/png"}}
    answer, question = asked(
        result, lambda ctx: ctx.sample(messages, max_tokens=5, system="Be brief", name="it", temperature=0.5)
    )
    assert answer == result
    assert question.name == "it"
    assert question.request == {"messages": messages, "maxTokens": 5, "systemPrompt": "Be brief", "temperature": 0.5}


def test_the_client_says_where_it_works() -> None:
    answer, question = asked({"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]}, Context.roots)
    assert answer == ["file:///a", "file:///b"]
    assert question == Question("question-1", "roots")


@pytest.mark.parametrize("ask", [Context.roots, lambda ctx: ctx.sample("Hm")])
def test_what_is_no_answer_fails_the_tool(ask: Callable[[Context], Awaitable[Any]]) -> None:
    with pytest.raises(ToolError, match="The answer to 'question-1' cannot be used"):
        asked(["file:///a"], ask)


# --- names ---------------------------------------------------------------------------------------


def test_questions_without_a_name_are_counted_in_the_order_in_which_they_stand() -> None:
    client = Client(accept(value="a"))

    async def tool() -> None:
        ctx = context(client)
        first, second = ctx.ask("First?"), ctx.ask("Second?")
        await asyncio.gather(second, ctx.ask("Mine?", name="mine"), first)
        await ctx.ask_url("Third?", "https://a.test")

    asyncio.run(tool())
    assert {question.message: question.name for question in client.asked} == {
        "First?": "question-1",
        "Second?": "question-2",
        "Third?": "question-3",
        "Mine?": "mine",
    }


def test_one_name_is_one_question() -> None:
    client = Client(accept(value="a"))

    async def tool() -> None:
        ctx = context(client)
        assert await ctx.ask("Well?", name="it") == await ctx.ask("Well?", name="it")
        with pytest.raises(ToolError, match=r"Kit\.Tried asks two questions with the name 'it'"):
            await ctx.ask("Well?", int, name="it")

    asyncio.run(tool())
    assert len(client.asked) == 2


# --- where a tool can ask ------------------------------------------------------------------------

ASKING: list[Callable[[Context], Any]] = [
    lambda ctx: ctx.ask("Well?"),
    lambda ctx: ctx.ask_url("Well?", "https://a.test"),
    lambda ctx: ctx.sample("Well?"),
    Context.roots,
]


@pytest.mark.parametrize("ask", ASKING)
def test_a_tool_that_cannot_wait_is_told_so(ask: Callable[[Context], Any]) -> None:
    client = Client(accept())
    with pytest.raises(RuntimeError, match=r"Kit\.Tried asks 'question-1', and to ask needs an async tool"):
        ask(context(client, plain))
    with pytest.raises(RuntimeError, match="needs an async tool"):
        ask(context(client, asker))

    async def inline() -> None:
        with pytest.raises(RuntimeError, match="needs an async tool"):
            ask(context(client, plain))

    asyncio.run(inline())
    assert client.asked == []


@pytest.mark.parametrize("ask", ASKING)
def test_where_nobody_can_be_asked_the_tool_fails(ask: Callable[[Context], Any]) -> None:
    async def tool() -> None:
        with pytest.raises(ToolError, match="has to ask 'question-1', which cannot be done where it runs"):
            await ask(context(None))

    asyncio.run(tool())


class FormsOnly(QuietChannel):
    def can_ask(self, kind: str) -> bool:
        return kind == "form"


def test_a_tool_can_look_whether_it_can_ask() -> None:
    client = Client(None)
    run = Run(tool_of(asker), "c-1", Caller("default", "local"), {}, FormsOnly(), asking=client)
    assert Context(run).can_ask("form") is True
    assert Context(run).can_ask("sampling") is False
    run.asking = None
    assert Context(run).can_ask("form") is False
    assert context(client).can_ask("form") is False
