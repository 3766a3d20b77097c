"""For every test: apps that are mounted in this process keep their ledger in memory, and Ctrl-C means what it means in
a terminal, also where the tests were started in the background (there it is ignored, and children inherit that)."""

import os
import signal

os.environ["TOOLYARD_STORE"] = "sqlite::memory:"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
