"""A parent of processes that are no servers, in a process of its own, because it handles signals: what is tested is how
it starts them and ends, which takes no toolyard.

    python parenting.py COUNT FOLDER SCRIPT
"""

import logging
import socket
import sys
from pathlib import Path

from toolyard.server.group.member import GroupMember
from toolyard.server.group.parent import Group


def main(count: int, folder: Path, script: str) -> int:
    logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stdout)
    listener = socket.create_server(("127.0.0.1", 0))

    def command(member: GroupMember) -> list[str]:
        return [sys.executable, "-IS", "-c", script, member.written()]

    return Group(command, listener, count, folder, "", logging.info).run()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
