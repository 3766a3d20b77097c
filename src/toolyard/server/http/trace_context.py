"""W3C trace context: the caller's `traceparent` in, ours out, in the same trace."""

import os
import re
from collections.abc import Mapping

_traceparent = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?").fullmatch


def trace_of(headers: Mapping[bytes, bytes]) -> tuple[str, bytes] | None:
    """The trace id, and the `traceparent` to answer with. None without a valid one."""
    given = headers.get(b"traceparent")
    matched = _traceparent(given) if given is not None else None
    if matched is None:
        return None
    version, trace, parent, flags, rest = matched.groups()
    if version == b"ff" or not trace.strip(b"0") or not parent.strip(b"0") or (version == b"00" and rest):
        return None
    return trace.decode(), b"00-%b-%b-%b" % (trace, os.urandom(8).hex().encode(), flags)
