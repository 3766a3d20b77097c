"""Tools that wait for a person, or need a secret."""

import hashlib
import os

from toolyard import Context, Toolkit, secret

held = Toolkit("Held", version="1.0.0")


@held.tool(approval="always")
async def pay(cents: int) -> str:
    """Waits for a person's yes, and says which program ran it."""
    return f"{cents}, {os.environ['YARD_PROGRAM']}"


@held.tool(requires=secret("SMS_KEY"))
async def send(ctx: Context) -> str:
    """Shows that it was given the secret, without showing it."""
    return hashlib.sha256(ctx.secret("SMS_KEY").encode()).hexdigest()
