"""How the documentation is built: Sphinx and MyST; only Read the Docs fetches from the network."""

import os
import re
import warnings
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent

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
]
# Records and the papers' pages are for readers of the repository.
exclude_patterns = [
    "_build",
    "_templates",
    "api/names.rst",
    "decisions",
    "pictures",
    "reproduce",
    "**/GALLERY_*",
]
suppress_warnings = [
    "config.cache",  # sphinx-gallery puts functions into the configuration
    "ref.term",  # a word of scikit-learn's glossary is plain text
]
if os.environ.get("READTHEDOCS"):  # elsewhere nothing is fetched from the network
    extensions.append("sphinx.ext.intersphinx")
    numpydoc_xref_param_type = True
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }

# --- pages ---------------------------------------------------------------------------------------
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True
myst_links_external_new_tab = False

# --- API -----------------------------------------------------------------------------------------
autosummary_generate = ["api/names.rst"]
templates_path = ["_templates"]
toc_object_entries_show_parents = "hide"
autodoc_default_options = {"members": True, "inherited-members": True}
autodoc_typehints = "none"  # the docstrings say it in words
numpydoc_show_class_members = False

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


def write_names():
    """Write the list of public names, by module, for autosummary; those of two only once."""
    package, shown, parts = import_module("holdfast"), set(), []
    names = [name for name in package.__all__ if not name.startswith("_")]
    modules = [name for name in names if type(getattr(package, name)) is type(package)]
    for module in [package, *(getattr(package, name) for name in modules)]:
        classes = {n: v for n, v in vars(module).items() if isinstance(v, type)}
        own = [n for n, v in classes.items() if v.__module__ == module.__name__]
        every = getattr(module, "__all__", own)
        new = [n for n in every if n not in {*modules, *shown} and not n.startswith("_")]
        shown.update(new)
        if new:
            title = f"``{module.__name__}``"
            parts += [title, "-" * len(title), "", f".. currentmodule:: {module.__name__}", ""]
            parts += [".. autosummary::", "   :toctree: generated", ""]
            parts += [*(f"   {name}" for name in new), ""]
    (HERE / "api" / "names.rst").write_text("\n".join(parts), encoding="utf-8")


def links_of_the_site(app, docname, source):
    """Turn links that work in the repository into those of the site.

    An example is its page of the gallery. Records and papers' pages are shown as paths.
    """
    text = re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](gallery/\1.rst)", source[0])
    link = re.compile(r"\[([^\]]+)\]\((?:docs/)?((?:decisions|reproduce)/[^)]+)\)")
    source[0] = link.sub(r"\1 (`docs/\2`)", text)


def plain_bars(app, what, name, obj, options, lines):
    """Let docstrings write |H| for a size, which reStructuredText takes for a substitution."""
    lines[:] = [
        line if line.lstrip().startswith((">>>", "...")) else line.replace("|", "\N{DIVIDES}")
        for line in lines
    ]


def only_ours(app, what, name, obj, skip, options):
    """Leave out methods that come from Python or scikit-learn: they are documented there."""
    inside = (getattr(obj, "__module__", None) or "").startswith("holdfast")
    return True if callable(obj) and not inside else None


def setup(app):
    """Connect these to Sphinx."""
    app.connect("source-read", links_of_the_site)
    app.connect("autodoc-process-docstring", plain_bars, priority=900)  # after numpydoc
    app.connect("autodoc-skip-member", only_ours)


write_names()
