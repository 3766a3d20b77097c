"""For every test: apps that are mounted in this process keep their ledger in memory."""

import os

os.environ["TOOLYARD_STORE"] = "sqlite::memory:"
