"""The code that lets a browser into the console, once, as `toolyard console` asks for it, in both directions."""

from msgspec import Struct

from ..contract import JSON, Reply, Request
from ..errors import encode

PATH = "/v1/admin/console"


class ConsoleCode(Struct, frozen=True, rename="camel"):
    """A code, the address of the page that asks for it, and for how many seconds it is good."""

    url: str
    code: str
    good_for_s: float


def encode_code(made: ConsoleCode) -> Reply:
    return Reply(200, encode(made), [JSON])


def encode_ask() -> Request:
    return Request("POST", PATH)
