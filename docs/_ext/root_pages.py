"""Pages of the site that are files of the repository: the changelog and how to contribute."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

ROOT = Path(__file__).parents[2]
PAGES = {"changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md"}
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def rewritten(match: re.Match[str]) -> str:
    """Return a link as seen from `docs`; text alone where the site has no such page."""
    text, target = match[1], match[2]
    if re.match(r"[a-z]+:|#", target):
        return match[0]
    if target.startswith("docs/"):
        return f"[{text}]({target.removeprefix('docs/')})"
    for page, file in PAGES.items():
        if target == file:
            return f"[{text}]({page}.md)"
    return f"{text} (`{target}`)"


def from_root(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the file in the place of its page."""
    if docname in PAGES:
        text = (ROOT / PAGES[docname]).read_text("utf-8")
        source[0] = LINK.sub(rewritten, text)
        app.env.note_dependency(str(ROOT / PAGES[docname]))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Tell Sphinx, before mentions of papers become links."""
    app.connect("source-read", from_root, priority=100)
    return {"parallel_read_safe": True}
