"""On the event loop: async functions, and plain ones whose author promises that they are quick."""

from typing import Any

from ..model.run import Run


class Inline:
    """Runs a tool in the task of its call: an async function is awaited, a plain one called."""

    waits_for_claim = has_foreign_schemas = takes_meta = False
    can_ask = True
    place = "here, on the event loop"

    async def run(self, arguments: dict[str, Any], run: Run) -> Any:
        code = run.tool.code
        value = code.invoke(arguments, run)
        if code.is_async:
            value = await value
        return code.dump(value)

    async def close(self) -> None:
        """Nothing is kept between calls."""
