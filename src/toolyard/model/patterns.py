"""The syntax of patterns of tools, prompts and resources, the same in access rules, limits and API keys.

Only the syntax is checked here: what a pattern matches is decided in `trust.access`. The lengths are bounded because a
pattern may come over the wire, with an API key.
"""

import re

MARKS = ("read_only", "idempotent", "destructive", "open_world")
"""The hints that `@…` may name."""
# Calculator.Add, with stars and question marks; without a dot there has to be a star, as in *.
_id = r"[A-Za-z0-9_?]{0,128}\*[A-Za-z0-9_*?]{0,128}|[A-Za-z0-9_*?]{1,128}\.[A-Za-z0-9_*?]{1,128}"
_part = "[0-9*]{1,9}"
_version = rf"{_part}|{_part}\.\*|{_part}\.{_part}\.{_part}"
_pattern = re.compile(
    rf"({_id})(@({_version}))?|#[^\s\x00-\x1f\x7f#@]{{1,128}}|@({'|'.join(MARKS)})"
    r"|(prompts|resources)/[\x21-\x7e]{1,256}"
).fullmatch
_SENTENCE = (
    "Must be a tool's id, with * where anything may stand (Calculator.Add, Calculator.*, Calculator.Add@1.*), a tag "
    f"(#math), one of {', '.join('@' + mark for mark in MARKS)}, or prompts/… or resources/…"
)


def tool_pattern(given: object) -> str:
    """The given pattern. Raises ValueError with a sentence for what cannot be one."""
    if not isinstance(given, str) or not _pattern(given):
        raise ValueError(_SENTENCE)
    return given
