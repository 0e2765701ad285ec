"""Mentions of the papers, in pages and docstrings, lead to the page of references."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

PAPERS = {
    r"Pahikkala et al\. \(?2012": "pahikkala2012",
    r"Pahikkala et al\. \(?2009": "pahikkala2009",
    r"Pahikkala et al\. \(?2006": "pahikkala2006",
    r"Cawley (?:and|&) Talbot \(?2004": "cawley2004",
    r"Tanaka (?:and|&) Imai \(?2019": "tanaka2019",
    r"An et al\. \(?2007": "an2007",
    r"Bates, Hastie (?:and|&) Tibshirani \(?2024": "bates2024",
    r"Liland, Skogholt (?:and|&) Indahl \(?2024": "liland2024",
}
#: What is left alone: code blocks, code, formulas, links, headings, and the page itself.
ALONE = r"```.*?```|~~~.*?~~~|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$|\[[^\]]*\]\([^)]*\)|^#[^\n]*$"
MENTION = re.compile(
    f"(?P<alone>{ALONE})|" + "|".join(f"(?P<{key}>{text})" for text, key in PAPERS.items()),
    re.MULTILINE | re.DOTALL,
)


def linked(text: str, form: str) -> str:
    """Return a text with each mention in the form of a link."""

    def one(match: re.Match[str]) -> str:
        if match["alone"] is not None or match.lastgroup is None:
            return match[0]
        return form.format(text=match[0], target=f"ref-{match.lastgroup}")

    return MENTION.sub(one, text)


def in_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Link the mentions of a Markdown page."""
    if docname != "references" and app.env.doc2path(docname).suffix == ".md":
        source[0] = linked(source[0], "{{ref}}`{text} <{target}>`")


def in_docstring(
    app: Sphinx, what: str, name: str, obj: object, _: object, lines: list[str]
) -> None:
    """Link the mentions of a docstring, line by line."""
    for i, line in enumerate(lines):
        lines[i] = linked(line, ":ref:`{text} <{target}>`")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Tell Sphinx."""
    app.connect("source-read", in_page)
    app.connect("autodoc-process-docstring", in_docstring)
    return {"parallel_read_safe": True}
