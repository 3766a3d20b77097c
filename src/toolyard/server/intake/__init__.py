"""What every call passes, whichever wire it came by: readiness, audit, counters, outcome.

Knows nothing of HTTP or of a wire.
"""
