"""SIGHUP has two meanings: somebody wants the settings to be read again, or the terminal is closed that a server was
started in. Nobody would expect such a server to stay."""

import os
import signal

TERMINAL = "/dev/tty"


class Terminal:
    """The terminal that a server was started in, if there was one. To be made before SIGHUP is handled: under nohup it
    is ignored then, and the end of the terminal is to be outlived."""

    def __init__(self) -> None:
        self._was_there = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _is_there()

    def is_closed(self) -> bool:
        """Whether there was one that could end this process, and is none any more."""
        return self._was_there and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open(TERMINAL, os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
