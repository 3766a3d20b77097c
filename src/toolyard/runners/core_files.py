"""No core files: they would hold what running calls were given, in clear, and stay behind on a disk."""

import resource
import sys

LIMIT = 1 if sys.platform == "linux" else 0
"""In bytes. One is too little for a file, and where Linux hands cores to a program it is the one limit with which it
does not: with a limit of 0 that program is still given everything."""


def no_core_files() -> None:
    """From now on, for this process and for those that it starts. Whoever may change the limit can raise it again."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    least = LIMIT if most == resource.RLIM_INFINITY else min(LIMIT, most)
    resource.setrlimit(resource.RLIMIT_CORE, (least, most))
