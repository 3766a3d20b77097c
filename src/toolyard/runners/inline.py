"""On the event loop: async functions, and plain ones whose author promises that they are quick."""

from typing import Any

from ..model.run import Run


class Inline:
    """Async functions are awaited, plain ones called."""

    async def run(self, arguments: dict[str, Any], run: Run) -> Any:
        code = run.tool.code
        value = code.invoke(arguments, run)
        if code.is_async:
            value = await value
        return code.dump(value)
