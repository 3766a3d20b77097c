"""The one pipeline that every call goes through, whichever wire it came in on."""
