"""`toolyard`, as a shell finds it where tests say so: a process that was loaded before does what it was asked for.

It says so at the door beside this file (`tests/warm.py` listens there), tells that process the signals that it gets
itself, and ends as that process ends. It imports little: it should start in no time.
"""

import json
import os
import signal
import socket
import sys


def main(door: str) -> None:
    wanted = {"arguments": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}
    message = json.dumps(wanted).encode()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(door)
        socket.send_fds(line, [len(message).to_bytes(4)], [0, 1, 2])
        line.sendall(message)
        process = int.from_bytes(line.recv(4))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: os.kill(process, number))
        code = int.from_bytes(line.recv(4), signed=True)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main(os.path.join(os.path.dirname(__file__), "door"))
