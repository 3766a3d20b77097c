"""The server that the official MCP conformance suite is run against: `python …/mcp_fixture.py --port N`.

Every name, argument and text here is one that a scenario of the suite calls by, sends or looks for; what a tool is
for stands in the description of its scenario (`conformance list`, and the suite's `src/scenarios/server`).
"""

import argparse
import asyncio
import json
from base64 import b64decode
from typing import Annotated, Any

from mcp.server.mcpserver import Context as McpContext
from mcp.server.mcpserver import Image as McpImage
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp_types import (
    Completion,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    InputRequiredResult,
    TextResourceContents,
)
from pydantic import BaseModel, Field

from toolyard import App, Audio, Context, Embedded, Image, ToolError, Toolkit
from toolyard.server.app.compose import Yard
from toolyard.server.app.run import listen, listening_at, serve
from toolyard.server.http.logs import set_up_logging
from toolyard.server.mcp.transports.http_stream import SOON_S
from toolyard.server.settings.table import exactly

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
WAV = b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
STREAM_S = 1.0
"""How long a stream is held."""
SYNC_WAIT_S = 1.0
"""After which a call becomes a task, if it may and its client knows tasks."""
STEP_S = 0.05

test = Toolkit("Test", description="What the scenarios call.")
app = App(test)
sdk: MCPServer[Any] = app.mcp


def form(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


NAME = form(name={"type": "string"})
OK = form(ok={"type": "boolean"})


# --- results -------------------------------------------------------------------------------------


@test.tool(wire_name="test_simple_text")
def simple_text() -> str:
    """Returns a text."""
    return "This is a simple text response for testing."


@test.tool(wire_name="test_image_content")
def image_content() -> Image:
    """Returns a picture."""
    return Image(PNG, "image/png")


@test.tool(wire_name="test_audio_content")
def audio_content() -> Audio:
    """Returns a sound."""
    return Audio(WAV, "audio/wav")


@test.tool(wire_name="test_embedded_resource")
def embedded_resource() -> Embedded:
    """Returns a resource."""
    return Embedded("test://embedded-resource", text="This is an embedded resource content.", mime_type="text/plain")


@test.tool(wire_name="test_multiple_content_types")
def multiple_content_types() -> list[str | Image | Embedded]:
    """Returns a text, a picture and a resource."""
    data = Embedded(
        "test://mixed-content-resource", text=json.dumps({"test": "data", "value": 123}), mime_type="application/json"
    )
    return ["Multiple content types test:", Image(PNG, "image/png"), data]


@test.tool(wire_name="test_error_handling")
def error_handling() -> str:
    """Fails."""
    raise ToolError("This tool intentionally returns an error for testing")


@test.tool(wire_name="test_header_parameter")
def header_parameter(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Has a parameter that clients repeat in a header."""
    return f"Region: {region}"


# --- while they run ------------------------------------------------------------------------------


@test.tool(wire_name="test_tool_with_logging")
async def tool_with_logging(ctx: Context) -> str:
    """Logs three times."""
    ctx.log("Tool execution started")
    await asyncio.sleep(STEP_S)
    ctx.log("Tool processing data")
    await asyncio.sleep(STEP_S)
    ctx.log("Tool execution completed")
    return "Tool with logging executed successfully"


@test.tool(wire_name="test_logging_tool")
async def logging_tool(ctx: Context) -> str:
    """Logs, if its client wants to hear it."""
    ctx.log("Diagnostic trace logging activated")
    return "Logging evaluated"


@test.tool(wire_name="test_tool_with_progress")
async def tool_with_progress(ctx: Context) -> str:
    """Says three times how far it is."""
    for done in (0, 50, 100):
        ctx.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(STEP_S)
    return "Tool with progress executed successfully"


@test.tool(wire_name="test_streaming_elicitation")
async def streaming_elicitation(ctx: Context) -> str:
    """Says how far it is, and asks."""
    ctx.progress(50, 100)
    await ctx.ask("Please confirm", OK, name="confirm")
    return "Streaming complete"


@test.tool(wire_name="test_reconnection")
async def reconnection() -> str:
    """Takes so long that its client is sent away and comes back."""
    await asyncio.sleep(SOON_S + STREAM_S + 1)
    return "Reconnection test completed successfully"


# --- questions, as requests to the client --------------------------------------------------------


@test.tool(wire_name="test_sampling")
async def sampling(prompt: str, ctx: Context) -> str:
    """Asks the client's model."""
    return f"LLM response: {await ctx.sample(prompt, max_tokens=100)}"


@test.tool(wire_name="test_elicitation")
async def elicitation(message: str, ctx: Context) -> str:
    """Asks the client's person."""
    username = {"type": "string", "description": "User's response"}
    email = {"type": "string", "description": "User's email address"}
    content = await ctx.ask(message, form(username=username, email=email))
    return f"User response: action=accept, content={json.dumps(content)}"


@test.tool(wire_name="test_elicitation_sep1034_defaults")
async def elicitation_defaults(ctx: Context) -> str:
    """Asks with a form that is filled in."""
    fields: dict[str, Any] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await completed(ctx, "Please review and update the form fields with defaults", fields)


@test.tool(wire_name="test_elicitation_sep1330_enums")
async def elicitation_enums(ctx: Context) -> str:
    """Asks with every kind of choice."""
    options, values = ["option1", "option2", "option3"], ["value1", "value2", "value3"]
    fields: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled(values, "Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "enum": options}
        },
        "titledMulti": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"anyOf": titled(values, "Choice")}},
    }  # fmt: skip
    return await completed(ctx, "Please select options from the enum fields", fields)


def titled(values: list[str], noun: str) -> list[dict[str, str]]:
    ordinals = ("First", "Second", "Third")
    return [{"const": value, "title": f"{each} {noun}"} for value, each in zip(values, ordinals, strict=True)]


async def completed(ctx: Context, message: str, fields: dict[str, Any]) -> str:
    content = await ctx.ask(message, {"type": "object", "properties": fields, "required": []})
    return f"Elicitation completed: action=accept, content={json.dumps(content)}"


# --- questions, as results that need input --------------------------------------------------------


@test.tool(wire_name="test_input_required_result_elicitation")
async def input_elicitation(ctx: Context) -> str:
    """Asks for a name."""
    answer = await ctx.ask("What is your name?", NAME, name="user_name")
    return f"Hello, {answer['name']}!"


@test.tool(wire_name="test_input_required_result_sampling")
async def input_sampling(ctx: Context) -> str:
    """Asks the client's model."""
    return f"Sampling result: {await ctx.sample('What is the capital of France?', name='capital_question')}"


@test.tool(wire_name="test_input_required_result_list_roots")
async def input_list_roots(ctx: Context) -> str:
    """Asks for the client's folders."""
    return f"Found {', '.join(await ctx.roots(name='client_roots'))}"


@test.tool(wire_name="test_input_required_result_request_state")
async def input_request_state(ctx: Context) -> str:
    """Asks, and goes on where it was."""
    await ctx.ask("Please confirm", OK, name="confirm")
    return "state-ok: requestState validated"


@test.tool(wire_name="test_input_required_result_tampered_state")
async def input_tampered_state(ctx: Context) -> str:
    """Asks, and does not go on from what it did not say."""
    await ctx.ask("Please confirm", OK, name="confirm")
    return "integrity-ok: state verified"


@test.tool(wire_name="test_input_required_result_multiple_inputs")
async def input_multiple(ctx: Context) -> str:
    """Asks three things at once."""
    answer, greeting, roots = await asyncio.gather(
        ctx.ask("What is your name?", NAME, name="user_name"),
        ctx.sample("Generate a greeting", max_tokens=50, name="greeting"),
        ctx.roots(name="client_roots"),
    )
    return f"Name: {answer['name']}; Greeting: {greeting}; Roots: {len(roots)}"


@test.tool(wire_name="test_input_required_result_multi_round")
async def input_multi_round(ctx: Context) -> str:
    """Asks one thing, then another."""
    first = await ctx.ask("Step 1: What is your name?", NAME, name="step1")
    second = await ctx.ask("Step 2: What is your favorite color?", form(color={"type": "string"}), name="step2")
    return f"Multi-round complete for {first['name']} who likes {second['color']}"


@test.tool(wire_name="test_input_required_result_capabilities")
async def input_capabilities(ctx: Context) -> str:
    """Asks what its client can be asked."""
    value = form(value={"type": "string"})
    questions: list[Any] = []
    if ctx.can_ask("form"):
        questions.append(ctx.ask("Elicitation input", value, name="elicit_input"))
    if ctx.can_ask("sampling"):
        questions.append(ctx.sample("Sample request", max_tokens=50, name="sample_input"))
    return f"capabilities-ok: received {len(await asyncio.gather(*questions))}"


@test.tool(wire_name="test_missing_capability", asks=("sampling",))
async def missing_capability(ctx: Context) -> str:
    """Cannot do without the client's model."""
    return f"Sampling result: {await ctx.sample('Sample request', name='sample_input')}"


# --- tasks ---------------------------------------------------------------------------------------


@test.tool(wire_name="greet", task="forbidden")
def greet(name: str) -> str:
    """Greets."""
    return f"Hello, {name}!"


@test.tool(wire_name="slow_compute", task="preferred")
async def slow_compute(seconds: Annotated[float, Field(ge=0, le=120)], label: str = "") -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return f"Computed {label} in {seconds:g} seconds"


@test.tool(wire_name="failing_job", task="required")
async def failing_job() -> str:
    """Fails after a while."""
    await asyncio.sleep(STEP_S * 4)
    raise ToolError("This job intentionally fails")


@test.tool(wire_name="protocol_error_job", task="preferred", timeout=STEP_S * 4)
async def protocol_error_job() -> None:
    """Never ends by itself, and so not with an error of its own."""
    await asyncio.Event().wait()


@test.tool(wire_name="confirm_delete", task="preferred")
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Asks before it would delete something."""
    answer = await ctx.ask(f"Delete {filename}?", form(confirm={"type": "boolean"}))
    return f"Deleted {filename}" if answer["confirm"] else f"Kept {filename}"


@test.tool(wire_name="multi_input", task="preferred")
async def multi_input(ctx: Context) -> str:
    """Asks two things at once, as a task."""
    answers = await asyncio.gather(ctx.ask("First name?", NAME, name="first"), ctx.ask("Last name?", NAME, name="last"))
    return " ".join(answer["name"] for answer in answers)


@test.tool(wire_name="test_tool_with_task", task="optional")
async def tool_with_task(ctx: Context) -> str:
    """Asks first, and becomes a task because of what it then does."""
    answer = await ctx.ask("What is your name?", NAME, name="user_name")
    await asyncio.sleep(SYNC_WAIT_S * 2)
    return f"Done for {answer['name']}"


# --- what changes --------------------------------------------------------------------------------


def dynamic_tool() -> str:
    """Is there every other time."""
    return "Here"


@test.tool(wire_name="test_trigger_tool_change")
async def trigger_tool_change() -> str:
    """Adds a tool, or takes it away again."""
    if any(tool.name == "DynamicTool" for tool in test.tools):
        test.remove("DynamicTool")
    else:
        test.tool(wire_name="test_dynamic_tool")(dynamic_tool)
    return "Mutation triggered"


@test.tool(wire_name="test_trigger_prompt_change")
async def trigger_prompt_change() -> str:
    """Adds a prompt, or takes it away again."""
    prompt = Prompt.from_function(simple_prompt, name="test_dynamic_prompt")
    if any(each.name == prompt.name for each in await sdk.list_prompts()):
        sdk.remove_prompt(prompt.name)
    else:
        sdk.add_prompt(prompt)
    return "Mutation triggered"


# --- a schema that no signature has ---------------------------------------------------------------

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


class Address(BaseModel):
    street: str = ""
    city: str = ""


@test.tool(wire_name="json_schema_2020_12_tool", input_schema=SCHEMA)
def json_schema_2020_12(
    name: str = "", address: Address | None = None, contactMethod: str = "", phone: str = "", email: str = ""
) -> str:
    """Has a schema with everything in it."""
    return f"{name} in {address.city if address else 'no city'}, by {contactMethod}: {phone}{email}"


# --- prompts, resources, completion ---------------------------------------------------------------


@sdk.prompt(name="test_simple_prompt")
def simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@sdk.prompt(name="test_prompt_with_arguments")
def prompt_with_arguments(
    arg1: Annotated[str, Field(description="First test argument")],
    arg2: Annotated[str, Field(description="Second test argument")],
) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@sdk.prompt(name="test_prompt_with_embedded_resource")
def prompt_with_embedded_resource(
    resourceUri: Annotated[str, Field(description="URI of the resource to embed")],
) -> list[UserMessage]:
    """A prompt with a resource in it."""
    resource = TextResourceContents(
        uri=resourceUri, mime_type="text/plain", text="Embedded resource content for testing."
    )
    return [
        UserMessage(EmbeddedResource(type="resource", resource=resource)),
        UserMessage("Please process the embedded resource above."),
    ]


@sdk.prompt(name="test_prompt_with_image")
def prompt_with_image() -> list[UserMessage]:
    """A prompt with a picture in it."""
    return [UserMessage(McpImage(data=PNG, format="png")), UserMessage("Please analyze the image above.")]


@sdk.prompt(name="test_input_required_result_prompt")
async def input_required_prompt(ctx: McpContext[Any, Any]) -> str | InputRequiredResult:
    """A prompt that asks."""
    answer = (ctx.input_responses or {}).get("user_context")
    if isinstance(answer, ElicitResult) and answer.content is not None:
        return f"Prompt with context: {answer.content['context']}"
    params = ElicitRequestFormParams(
        message="What context should the prompt use?", requested_schema=form(context={"type": "string"})
    )
    return InputRequiredResult(input_requests={"user_context": ElicitRequest(params=params)})


@sdk.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@sdk.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A picture."""
    return PNG


@sdk.resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """A text that clients subscribe to."""
    return "Watched resource content"


@sdk.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    """A text for each id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@sdk.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(ref: Any, argument: Any, context: Any) -> Completion:
    """Some values that begin as what was typed."""
    values = [value for value in ("test", "testing", "tested") if value.startswith(argument.value)]
    return Completion(values=values, total=len(values), has_more=False)


def main() -> None:
    """Serves until it is told to stop; nothing is left behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key", action="append", default=[], help="an API key that callers need")
    given = parser.parse_args()
    settings = exactly(
        port=given.port, api_keys=given.key, sync_wait_s=SYNC_WAIT_S, mcp_stream_s=STREAM_S, log_level="warning"
    )
    set_up_logging(settings.log_level)
    listener = listen(settings)
    serve(Yard([app], settings, listening=listening_at(listener, settings)), listener, lambda: None)


if __name__ == "__main__":
    main()
