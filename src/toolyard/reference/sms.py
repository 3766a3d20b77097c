"""A tool that needs a secret."""

from toolyard import Context, Toolkit, secret

sms = Toolkit("Sms", version="0.1.2", description="Text messages.")


@sms.tool(requires=secret("TWILIO_API_KEY"))
async def send(to: str, message: str, ctx: Context) -> str:
    """Pretends to send a text message. It needs an API key, and sends nothing.

    Args:
        to: The phone number.
        message: What to say.
    """
    ctx.secret("TWILIO_API_KEY")  # a real tool would sign its request with it
    return f"Nothing was sent: this is an example. It would have gone to {to}."
