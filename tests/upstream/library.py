"""An MCP server of any one revision, over pipes or HTTP, with prompts, resources and completions: `bazaar.py` with
books. `python -m tests.upstream.library REVISION [PORT]`; what it is asked for stands in its notes.
"""

import asyncio
import json
import sys
from typing import Any

from .bazaar import FORM, PICTURE, Bazaar, Http, Message, Refused, Request, note, over_pipes, text

PAGE = "<script>let \u200b = '\u202e'</script>"
"""Of an application: its program reads it, and no model."""
GREET = {
    "name": "greet",
    "title": "Greeting",
    "description": "Greets somebody.",
    "arguments": [{"name": "who", "description": "Whom.", "required": True}],
    "icons": [{"src": "https://example.com/greet.png"}],
    "_meta": {"vendor/colour": "blue"},
}
BOOKS: list[Message] = [
    {"uri": "shelf://1", "name": "one", "title": "The first", "mimeType": "text/plain", "_meta": {"vendor/row": 7}},
    {"uri": "shelf://picture", "name": "picture", "mimeType": "image/png", "size": 68},
    {"uri": "ui://library/page", "name": "page", "mimeType": "text/html;profile=mcp-app"},
    {"uri": "shelf://whisper", "name": "whisper", "description": "Says \u200bnothing."},
]
TEMPLATE = {"uriTemplate": "shelf://{number}/lines/{+lines}", "name": "lines", "title": "Some lines"}
prompts: list[Message] = [{**GREET}, {"name": "code review"}, {"name": "asks"}, {"name": "whispers"}, {"name": "waits"}]
books = [*BOOKS]
followed: set[str] = set()
"""Sessions share what the library has."""


class Library(Bazaar):
    """Beside the bazaar's tools: some that change the library, and one that points to what nobody lists."""

    def __init__(self, revision: str) -> None:
        super().__init__(revision)
        self.names += ["write", "touch", "point"]

    async def result(self, method: str, request: Request) -> Message:
        if method in ("initialize", "server/discover"):
            made = await super().result(method, request)
            more = {"prompts": {"listChanged": True}, "resources": {"listChanged": True, "subscribe": True}}
            made["capabilities"] |= {**more, "completions": {}}
            return made
        named = {"prompts/get": "name", "resources/read": "uri"}.get(method)
        if method.startswith(("prompts/", "resources/", "completion/")) and not method.endswith("/list"):
            note(f"{method} {request.params.get(named or 'uri')} {json.dumps(request.meta, sort_keys=True)}")
        answers: dict[str, Any] = {
            "prompts/list": self.list_prompts,
            "prompts/get": self.get_prompt,
            "resources/list": lambda request: {"resources": books, **self.cached},
            "resources/templates/list": lambda request: {"resourceTemplates": [TEMPLATE], **self.cached},
            "resources/read": self.read,
            "resources/subscribe": self.subscribe,
            "resources/unsubscribe": self.unsubscribe,
            "completion/complete": self.complete,
        }
        if method in answers:
            result = answers[method](request)
            return dict(await result if asyncio.iscoroutine(result) else result)
        return await super().result(method, request)

    cached = {"ttlMs": 0, "cacheScope": "public"}

    def listens(self, wanted: Message) -> None:
        followed.clear()
        followed.update(wanted.get("resourceSubscriptions") or ())
        note(f"listens {sorted(followed)}")

    # -- prompts -------------------------------------------------------------------------------------

    def list_prompts(self, request: Request) -> Message:
        """In two pages."""
        if request.params.get("cursor") == "rest":
            return {"prompts": prompts[1:], **self.cached}
        return {"prompts": prompts[:1], "nextCursor": "rest", **self.cached}

    async def get_prompt(self, request: Request) -> Message:
        name, arguments = request.params["name"], request.params.get("arguments") or {}
        if name == "greet":
            if "who" not in arguments:
                raise Refused(-32602, "who is missing")
            return said(f"Hello {arguments['who']}") | {"description": "A greeting", "_meta": {"vendor/mood": "good"}}
        if name == "asks":
            mode = {"mode": "form"} if self.has_tasks else {}
            question = {**mode, "message": "Which colour?", "requestedSchema": FORM}
            answer = await request.ask("colour", "elicitation/create", question)
            return said(f"{answer['content']['colour']} it is")
        if name == "whispers":
            return said("Nothing \u200bhere")
        if name == "waits":
            await self.do_wait(request, {})
        if name not in [each["name"] for each in prompts]:
            raise Refused(-32602, f"Unknown prompt: {name}")
        return said(f"This is {name}")

    def complete(self, request: Request) -> Message:
        ref, argument = request.params["ref"], request.params["argument"]
        about = ref.get("name") or ref.get("uri")
        return {"completion": {"values": [f"{about} {argument['name']} {argument['value']}"], "total": 1}}

    # -- resources -----------------------------------------------------------------------------------

    def read(self, request: Request) -> Message:
        uri = request.params["uri"]
        if uri == "shelf://picture":
            return contents(uri, mimeType="image/png", blob=PICTURE)
        if uri == "ui://library/page":
            meta = {"ui": {"csp": {"connectDomains": ["https://example.com"]}}}
            return contents(uri, mimeType="text/html;profile=mcp-app", text=PAGE, _meta=meta)
        if uri == "shelf://none":
            raise Refused(-32602 if self.is_modern else -32002, "There is no such book")
        hidden = "\u200b" if uri.endswith("/hidden") else ""
        return contents(uri, text=f"read {uri}{hidden}") | {"_meta": {"vendor/shelf": 1}}

    def subscribe(self, request: Request) -> Message:
        followed.add(request.params["uri"])
        return {}

    def unsubscribe(self, request: Request) -> Message:
        followed.discard(request.params["uri"])
        return {}

    # -- tools ---------------------------------------------------------------------------------------

    async def do_write(self, request: Request, arguments: Message) -> Message:
        prompts.append({"name": "written"})
        books.append({"uri": "shelf://written", "name": "written"})
        for kind in ("prompts", "resources"):
            await self.tell_all(f"notifications/{kind}/list_changed", {})
        return text("written")

    async def do_touch(self, request: Request, arguments: Message) -> Message:
        """Tells of what is followed, and of what is not."""
        for uri in (*sorted(followed), "shelf://not-followed"):
            await self.tell_all("notifications/resources/updated", {"uri": uri})
        return text("touched")

    async def do_point(self, request: Request, arguments: Message) -> Message:
        uri = arguments.get("uri", "cellar://7")
        if not self.has_structured:
            return {"content": [{"type": "resource", "resource": {"uri": uri, "text": "as it was"}}]}
        return {"content": [{"type": "resource_link", "uri": uri, "name": "seven"}]}

    async def tell_all(self, method: str, params: Message) -> None:
        for send in self.streams:
            await send({"jsonrpc": "2.0", "method": method, "params": params})


def said(words: str) -> Message:
    return {"messages": [{"role": "user", "content": {"type": "text", "text": words}}]}


def contents(uri: str, **more: Any) -> Message:
    return {"contents": [{"uri": uri, **more}], "ttlMs": 1234, "cacheScope": "public"}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        import uvicorn

        uvicorn.run(Http(sys.argv[1], Library), port=int(sys.argv[2]), log_level="error")
    else:
        asyncio.run(over_pipes(Library(sys.argv[1])))
