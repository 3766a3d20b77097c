"""The documentation site: `python -m docs.site` builds it to `build/site`, and `make site` installs what that needs.

The pages of `docs/` are plain Markdown, whose links work on a code host. Sphinx wants all of its sources in one folder,
so `pages` makes such a folder from them, with the README and its like, and with what is made from the code: `commands`
writes the reference of the command line, `names` that of the Python API. `conf` is Sphinx's own configuration. The
navigation is `docs/index.md`, section by section.
"""
