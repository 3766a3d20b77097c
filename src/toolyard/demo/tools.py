"""Tools for the demo: one that needs nothing, one that needs a secret, one an account, and one a person's yes."""

import os

import httpx2

from toolyard import Context, ToolError, Toolkit, authorization, secret

weather = Toolkit("Weather", version="1.0.0", description="Made-up weather.")
mail = Toolkit("Mail", version="1.0.0", description="A made-up mailbox at the demo provider.")
payments = Toolkit("Payments", version="1.0.0", description="Pays nobody.")

DEGREES = {"Lima": 19, "Oslo": 4}


@weather.tool(read_only=True)
def cities() -> list[str]:
    """Lists the cities that there is weather for."""
    return list(DEGREES)


@weather.tool(read_only=True, requires=secret("WEATHER_KEY"))
def now(city: str, ctx: Context) -> str:
    """Tells how warm it is. It needs a key, and is careless enough to tell that, too.

    Args:
        city: One of those that Weather.Cities lists.
    """
    if city not in DEGREES:
        raise ToolError(f"There is no weather for {city}", additional_prompt_content=f"cities: {', '.join(DEGREES)}")
    return f"{DEGREES[city]} degrees in {city}, asked with the key {ctx.secret('WEATHER_KEY')}"


@mail.tool(read_only=True, requires=authorization("demo", scopes=["mail.read"]))
def unread(ctx: Context) -> list[str]:
    """Lists the subjects of the user's unread mail. It asks the provider for them, with the user's token."""
    address = os.environ.get("DEMO_PROVIDER")
    if address is None:
        raise ToolError("The mailbox is at the demo provider, which is there while 'toolyard demo' runs")
    token = ctx.token("demo")
    answer = httpx2.get(f"{address}/mail", headers={"authorization": f"Bearer {token}"}, trust_env=False)
    if answer.status_code != 200:
        raise ToolError(f"The demo provider answered with status {answer.status_code}", can_retry=True)
    subjects: list[str] = answer.json()["unread"]
    return subjects


@payments.tool(approval="always")
def refund(order: str, cents: int) -> str:
    """Pays a customer back, or would.

    Args:
        order: The order's number.
        cents: How much.
    """
    return f"{cents} cents for order {order}"
