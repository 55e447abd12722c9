"""Sphinx settings. What they build is under docs/, what checks it under src/fsdp_demo/pins/."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # tools/ is not installed

project = "FSDP, measured"
author = "The fsdp-demo developers"
copyright = f"2026, {author}"
html_title = "FSDP, measured"
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",
    "fsdp_demo.pins",  # compares what the cells print with what was reviewed
    "fsdp_demo.prose",  # sentences take their numbers from the run
    "fsdp_demo.comparisons",  # each lesson's programs equal the plain model
    "fsdp_demo.citations",  # quotes torch from the installed torch
    "tools.api_reference",  # short names of types, classes without their constructors
    "fsdp_demo.warm",  # imports torch once a build
    "tools.measured",  # figures of `nox -s bench`, in a page about them
    "tools.execution_cache",  # where `nox -s live` keeps outputs, and for how long
    "tools.progress",
]
exclude_patterns = ["_pins"]
default_role = "code"  # in docstrings `x` is code, as in Markdown
measured_kernel = "torch-2.2.2"  # what the pages run on: figures from another torch fail the build
nitpicky = True  # a reference to nothing is an error
smartquotes = False  # prose quotes what torch prints: its quotes and dashes stay as they are

# Pages and cells
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
prose_checked = ["lessons/*", "reference/costs"]
pins_required = ["lessons/*"]  # a lesson without a run is no lesson
comparisons_required = ["lessons/*"]
cited_required = ["lessons/*"]
nb_render_plugin = "pins"  # shows a page's outputs and hands them to be compared
nb_execution_in_temp = True  # what a cell writes does not land in docs/
nb_execution_timeout = 120  # seconds a cell: a loaded machine is slow, a deadlock must end
nb_render_error_lexer = "none"  # an error is words and code: a lexer stumbles over the words
nb_execution_show_tb = False  # the extension reports a failed cell, with its line

# The API reference: docstrings, read where no torch is installed
autodoc_mock_imports = ["torch"]
napoleon_use_ivar = True
python_maximum_signature_line_length = 60  # a longer signature has a line for each parameter
intersphinx_mapping = {  # `python -m tools.inventories` makes the files: a build asks no network
    "python": ("https://docs.python.org/3", "_inventories/python.inv"),
    "torch": ("https://pytorch.org/docs/2.2", "_inventories/torch.inv"),
}

# The site
html_theme = "sphinx_book_theme"
html_static_path = ["docs/_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "docs/_static/favicon.svg"
html_copy_source = False  # the page's source is the file in the repository
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = None  # no time anywhere: the same sources build the same bytes
# The default selector puts a button on outputs too.
copybutton_selector = "div:not(.output) > div.highlight pre"

html_theme_options = {
    "show_navbar_depth": 2,
    "show_toc_level": 2,
    "navbar_persistent": [],  # the theme's own default shows a second search button here
    "use_download_button": False,
    "use_fullscreen_button": False,
}

# The public repository, "https://github.com/owner/name": known where the site is published.
if repository := os.environ.get("FSDP_DEMO_REPOSITORY"):
    html_theme_options |= {
        "repository_url": repository,
        "path_to_docs": "docs",
        "repository_branch": "main",
        "use_repository_button": True,
        "use_edit_page_button": True,
        "use_issues_button": True,
    }
