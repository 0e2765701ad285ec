"""How the documentation is built: Sphinx and MyST; only Read the Docs fetches from the network."""

import os
import sys
import warnings
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "holdfast"
author = "The holdfast developers"
copyright = f"2026, {author}"
version = release = installed_version("holdfast")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "mathml",
    "references",
    "root_pages",
]
exclude_patterns = ["_build", "_ext", "pictures", "**/GALLERY_HEADER.*"]
nitpicky = False
suppress_warnings = ["config.cache"]  # sphinx-gallery puts functions into the configuration
if os.environ.get("READTHEDOCS"):  # elsewhere nothing is fetched from the network
    extensions.append("sphinx.ext.intersphinx")
    numpydoc_xref_param_type = True
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }
    suppress_warnings.append("ref.term")  # a word that their glossaries lack is plain text

# --- pages ---------------------------------------------------------------------------------------
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True
myst_links_external_new_tab = False
html_math_renderer = "mathml"
math_number_all = False

# --- API -----------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_typehints = "none"  # the docstrings say it in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# --- gallery -------------------------------------------------------------------------------------
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # that page would load scripts from elsewhere
    "show_signature": False,
    "min_reported_time": 1e9,
    "matplotlib_animations": False,
    "plot_gallery": True,
}

# --- appearance ----------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "holdfast"
html_static_path = ["_static"]
html_css_files = ["holdfast.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
