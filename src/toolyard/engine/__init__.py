"""The one path that every call takes, whichever wire it came over: check, record, run, answer; and what becomes of
calls that wait, are lost, or are worked on elsewhere. It knows no wire and no status code; `server` builds it and
hands calls to it.
"""
