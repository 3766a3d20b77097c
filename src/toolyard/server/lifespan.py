"""ASGI's word for the life of an application."""

from collections.abc import Awaitable, Callable

from .shell import Lifespan, Receive, Send


def lifespan(start: Callable[[], Awaitable[None]], stop: Callable[[], Awaitable[None]]) -> Lifespan:
    """Starts and stops when the server says so."""

    async def live(receive: Receive, send: Send) -> None:
        await receive()
        try:
            await start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await stop()
        await send({"type": "lifespan.shutdown.complete"})

    return live
