"""Sphinx settings of the documentation: `sphinx-build -W -n -c docs . site`.

The root of the repository is the source, so that a link such as ../benchmarks/LOG.md works on the site as it does where the
repository is read. Nothing is fetched, neither by the build nor by the pages.
"""

import importlib.metadata
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

project = "softmatch"
release = version = importlib.metadata.version("softmatch")
copyright = "the softmatch developers"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "benchmarks/**.md"]
exclude_patterns = [".*", "site", "runs", "dist", "softmatch", "tests", "tools", "**/__pycache__"]

myst_heading_anchors = 4
myst_links_external_new_tab = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(torch|numpy|np|PIL|sklearn|collections|pathlib|typing|nn|pydantic|argparse)\b.*"),  # other projects' names
    (
        "py:.*",
        r"(softmatch\..*\.)?(Encoded|Labeled|Neighbours|Preparation|Reading|Stopped|Unseen|Watcher|WordStatistics|Records|Predicted)",
    ),  # inner types
]
default_role = "code"

html_theme = "furo"
html_title = f"softmatch {release}"
html_show_search_summary = False  # a browser does not read other pages of a folder to make summaries
html_show_sphinx = False
html_copy_source = html_show_sourcelink = False
html_additional_pages = {"index": "to_start.html"}
templates_path = ["site"]

BELOW = {
    "docs/methods": ("Cards", "methods/*"),
    "docs/results/README": ("Tables and figures", "laptop/*"),
    "docs/engineers": ("Notebooks", "notebooks/*"),
}
"""Pages below a page in the table of contents; its text stays free of Sphinx's directives."""


def add_pages_below(app: Sphinx, name: str, source: list[str]) -> None:
    """Append a hidden table of contents to the pages of `BELOW`."""
    caption, pages = BELOW.get(name, ("", ""))
    if pages and any((ROOT / name).parent.glob(f"{pages}.md")):
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n\n{pages}\n```\n"


def setup(app: Sphinx) -> None:
    """Connect the hooks."""
    app.connect("source-read", add_pages_below)
