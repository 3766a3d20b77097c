"""The code that lets a browser into the console, once, as `toolyard console` asks for it, in both directions."""

from ..contract import JSON, Reply, Request
from ..errors import encode

PATH = "/v1/admin/console"


def encode_code(url: str, code: str, good_for_s: float) -> Reply:
    return Reply(200, encode({"url": url, "code": code, "goodForS": good_for_s}), [JSON])


def encode_ask() -> Request:
    return Request("POST", PATH)
