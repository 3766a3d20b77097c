"""Tools that need accounts."""

from toolyard import Context, Toolkit, authorization

kit = Toolkit("Post")


@kit.tool(requires=authorization("idp", scopes=["mail.read"]))
async def read(ctx: Context) -> str:
    """Shows the token that it was given."""
    return ctx.token("idp")


@kit.tool(requires=authorization("idp", scopes=["mail.send"]))
async def send(ctx: Context) -> str:
    """Shows the token that it was given."""
    return ctx.token("idp")


@kit.tool(requires=authorization("elsewhere"))
async def other(ctx: Context) -> str:
    """Needs an account where none can be connected."""
    return ctx.token("elsewhere")
