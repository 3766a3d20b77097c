"""Tools that need accounts."""

from hashlib import sha256

from toolyard import Context, Toolkit, authorization, secret

kit = Toolkit("Post")
keyed = Toolkit("Keyed")


def digest_of(token: str) -> str:
    return sha256(token.encode()).hexdigest()


@kit.tool(requires=authorization("idp", scopes=["mail.read"]))
async def read(ctx: Context) -> str:
    """Shows which token it was given: what it was given in confidence cannot leave it."""
    return digest_of(ctx.token("idp"))


@kit.tool(requires=authorization("idp", scopes=["mail.send"]))
async def send(ctx: Context) -> str:
    """Shows which token it was given: what it was given in confidence cannot leave it."""
    return digest_of(ctx.token("idp"))


@kit.tool
async def nothing(ctx: Context) -> str | None:
    """Needs no account."""
    return ctx.user_id


@kit.tool(requires=authorization("elsewhere"))
async def other(ctx: Context) -> str:
    """Needs an account where none can be connected."""
    return ctx.token("elsewhere")


@keyed.tool(requires=secret("KEY"))
async def show(ctx: Context) -> str:
    """Shows which secret it was given, in the same way."""
    return digest_of(ctx.secret("KEY"))
