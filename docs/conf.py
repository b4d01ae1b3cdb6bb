"""Sphinx configuration. The site loads nothing from other hosts, and its figures are drawn by the code of its pages."""

import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import api_pages
import claims_table
import cli_page
import concordance
import gallery
import make_figures
import notebooks
import settings_tables

make_figures.main()
claims_table.main()
settings_tables.main()
api_pages.main()
cli_page.main()
concordance.main()
gallery.main()
notebooks.main()

project = "factorax"
author = "The factorax developers"
copyright = "The factorax developers"
version = release = version_of("factorax")
language = "en-GB"
smartquotes_action = "qe"  # quotes and ellipses; dashes would change the names of options

extensions = [
    "katex_math",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "_generated"]
templates_path = ["_templates"]
html_math_renderer = "katex"
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div.highlight:not(.highlight-text div.highlight) pre"  # without the output of blocks

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

# Our docstrings say `like this` of arguments and functions alike; names that are documented become links.
default_role = "py:obj"
autodoc_typehints = "none"  # shapes, which types do not tell, are in the docstrings
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
add_module_names = False

html_theme = "pydata_sphinx_theme"
html_title = "factorax"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["factorax.css"]
html_js_files = [("figures.js", {"defer": "defer"})]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark, as the browser prefers
html_sidebars = {"**": ["sections"]}
html_theme_options = {
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_center": [],
    "navigation_depth": 3,
    "footer_start": ["copyright"],
    "footer_end": [],
}

# Literals and examples, in which nothing may be changed.
_AS_IT_IS = re.compile(r"(``.*?``|`.*?`|^[ ]*>>>.*?(?:^[ ]*$|\Z))", re.MULTILINE | re.DOTALL)


def escape_bars(app, what, name, obj, options, lines):
    """Escape bars: |z|² is a norm, which reStructuredText would read as a substitution."""
    parts = _AS_IT_IS.split("\n".join(lines))
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars)
    app.connect("missing-reference", api_pages.resolve_alias)
