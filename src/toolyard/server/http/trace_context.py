"""W3C Trace Context: the caller's `traceparent` in, ours out, in the same trace. What is not valid is ignored, as the
specification wants it: a broken header costs nobody a call.
"""

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
    # Version ff is forbidden, ids of zeros are not valid, and version 00 has nothing behind the flags.
    version, trace, parent, flags, rest = matched.groups()
    if version == b"ff" or not trace.strip(b"0") or not parent.strip(b"0") or (version == b"00" and rest):
        return None
    return trace.decode(), b"00-%b-%b-%b" % (trace, os.urandom(8).hex().encode(), flags)
