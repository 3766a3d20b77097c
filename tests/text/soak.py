"""How long to try at random: a little every time, a lot with TOOLYARD_TEST_SOAK=1 (or more, as a factor)."""

import os

FACTOR = max(1, 20 * int(os.environ.get("TOOLYARD_TEST_SOAK") or 0))
MANY = 120 * FACTOR
"""Examples of a pure function."""
