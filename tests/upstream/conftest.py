"""What of these tests `make test` runs: a short version. `make interop` runs all of them, which takes minutes."""

import os
from pathlib import Path

INTEROP = "TOOLYARD_TEST_INTEROP"
SHORT = {
    "test_assets.py",
    "test_cancelling.py",
    "test_eras.py",
    "test_http_client.py",
    "test_uri_templates.py",
    "test_what_leaves.py",
}
collect_ignore = (
    []
    if INTEROP in os.environ
    else [each.name for each in Path(__file__).parent.glob("test_*.py") if each.name not in SHORT]
)
