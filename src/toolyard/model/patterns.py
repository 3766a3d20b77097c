"""What a pattern of tools, prompts and resources may look like, in access rules, limits and API keys alike."""

import re

MARKS = ("read_only", "idempotent", "destructive", "open_world")
"""What `@…` may name."""
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
    """Raises ValueError with a sentence."""
    if not isinstance(given, str) or not _pattern(given):
        raise ValueError(_SENTENCE)
    return given
