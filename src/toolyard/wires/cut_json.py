"""The first part of a JSON text, as JSON: what was begun is closed, and what was only named is left out."""

import re

_tokens = re.compile(r'"(?:[^"\\]++|\\.)*+"|"|[\[\]{},:]|[^\s\[\]{},:"]+').finditer
_begun_text = re.compile(r'\s*("(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)').match
_half_a_pair = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
_CLOSERS = {"{": "}", "[": "]"}


def cut_json(start: str) -> str:
    """`start` is what a longer text begins with. `{"a": [1, 2, 3` becomes `{"a": [1, 2]}`: the 3 may be a 30."""
    closers, is_name, at = "", False, 0
    safe, closing = 0, ""
    """As far as all that was begun can be closed, and by what."""
    for token in _tokens(start):
        if token[0] == '"':  # a text that does not end here
            break
        said, at = token[0], token.end()
        if said in _CLOSERS:
            closers, is_name = _CLOSERS[said] + closers, said == "{"
        elif said in ("}", "]"):
            closers, is_name = closers[1:], False
        elif said == "," or said == ":":
            is_name = said == "," and closers.startswith("}")
            continue
        elif is_name or (at == len(start) and not said.startswith('"')):
            continue
        safe, closing = at, closers
    if not is_name and (text := _begun_text(start, at)):
        return start[:at] + _half_a_pair.sub("", text[0]) + '"' + closers
    return start[:safe] + closing or "null"
