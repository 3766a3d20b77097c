"""Sphinx's configuration. Nothing is loaded from elsewhere: the site works without a network, and from a folder."""

from typing import Any

from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon.docstring import GoogleDocstring

from toolyard.version import VERSION

project = "toolyard"
version = release = VERSION
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]

myst_heading_anchors = 4

default_role = "py:obj"  # docstrings have `names` in single backquotes, as Markdown has them
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 120

html_theme = "furo"
html_title = f"toolyard {VERSION}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_use_index = False
html_domain_indices = False
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True


def setup(app: Sphinx) -> None:
    app.connect("missing-reference", public_name)
    app.connect("autodoc-process-signature", without_empty_signature)
    app.connect("autodoc-process-docstring", read_sections)


def public_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: Element) -> Element | None:
    """A type hint names a class by the module that defines it; the reference has it by the name that is imported."""
    if node.get("refdomain") != "py":
        return None
    name = f"toolyard.{node['reftarget'].rpartition('.')[2]}"
    python = env.domains.python_domain
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, contnode)


def without_empty_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, None] | None:
    """Of what a reader is given and never makes, no constructor is shown."""
    return ("", None) if what == "class" and signature == "()" else None


def read_sections(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Reads `Args:` and `Raises:`. As an extension of its own, Napoleon would also take what stands before a colon in
    an attribute's docstring for the attribute's type."""
    lines[:] = GoogleDocstring(lines).lines()
