"""What every call passes, whichever wire it came by: readiness, the audit log's room, counters, outcome, audit entry.

`intake.py` is the way in for calls, `witness.py` writes the audit log's entries, `readiness.py` says whether calls are
taken, `metrics.py` counts. Knows nothing of HTTP or of a wire.
"""
