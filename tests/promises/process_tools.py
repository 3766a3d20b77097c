"""Tools that run in a child process, which knows nothing of the world: each run leaves a line in a file."""

from pathlib import Path

from toolyard import Toolkit

kit = Toolkit("Far")


@kit.tool(runs="process")
def tally(mark: str, file: str) -> dict[str, str]:
    """Counts itself."""
    with Path(file).open("a", encoding="utf-8") as lines:
        lines.write(f"{mark}\n")
    return {"mark": mark}
