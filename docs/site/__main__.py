"""Builds the site: `python -m docs.site [FOLDER]`. Every warning of Sphinx is an error."""

import sys
from pathlib import Path

from sphinx.cmd.build import main

from .pages import ROOT, write_sources


def build(folder: Path) -> int:
    """Builds into `folder`, with the sources and Sphinx's own notes in a folder beside it. Returns the exit code."""
    work = folder.with_name(f"{folder.name}-sources")
    work.mkdir(parents=True, exist_ok=True)
    write_sources(work / "pages")
    conf = str(Path(__file__).parent)
    return main(["-q", "-W", "--keep-going", "-c", conf, "-d", f"{work}/doctrees", f"{work}/pages", str(folder)])


sys.exit(build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"))
