"""Formulas as MathML with a font of their own: no script, no network, real text.

Browsers lay MathML out by themselves, but stretch brackets and roots only with a font that has
a mathematical table, and many systems have none. So the pages carry one: a part of STIX Two Math
(SIL Open Font License 1.1), cut when the documentation is built from the copy in ``ziamath``.
"""

from __future__ import annotations

import re
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from fontTools import subset
from fontTools.ttLib import TTFont
from sphinx.locale import _
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata
    from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

FONT = "stix-two-math.woff"
# What the pages may use: Latin, Greek, accents, arrows, operators, brackets, mathematical letters.
CHARACTERS = (
    (0x20, 0x17F), (0x2B0, 0x36F), (0x370, 0x3FF), (0x2010, 0x209F), (0x2100, 0x214F),
    (0x2190, 0x232A), (0x25A0, 0x25FF), (0x27E6, 0x27EF), (0x1D400, 0x1D7FF),
)  # fmt: skip


def tidy(mathml: str) -> str:
    """Return the formula with bars of one height and a colon that is a letter, not a relation."""
    mathml = re.sub(
        r'<mo class="mathopen">([|‖])', r'<mo form="prefix" stretchy="false">\1', mathml
    )
    mathml = re.sub(r"<mo>([|‖])", r'<mo form="postfix" stretchy="false">\1', mathml)
    return mathml.replace("<mo>\N{RATIO}", '<mo lspace="0" rspace="0">:')


def convert(node: nodes.Element, *, as_block: bool) -> str:
    r"""Return the MathML of a formula; what would come out wrong is a warning that names the page.

    Two things the converter reads otherwise than TeX does: ``\frac12`` is spelt out for it, and a
    subscript on an accented letter, which it would put below, is refused.
    """
    tex = re.sub(
        r"\\frac(\d)(\d|(?=\{))",
        lambda m: rf"\frac{{{m[1]}}}" + (m[2] and f"{{{m[2]}}}"),
        node.astext(),
    )
    try:
        if re.search(r"\\(?:hat|bar|(?:wide)?tilde) ?(?:\w|\{\w\})\}?_", tex):
            raise MathError("a subscript on an accented letter; give the letter another name")
        return tidy(str(tex2mathml(tex, as_block=as_block)))
    except MathError as error:
        logger.warning("formula not understood: %s: %s", tex, error, location=node)
        return f"<code>{nodes.unescape(tex)}</code>"


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(convert(node, as_block=False))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math-block"))
    self.body.append(convert(node, as_block=True))
    if node["number"]:
        number = get_node_equation_number(self, node)
        self.body.append(f'<span class="eqno">({number})')
        self.add_permalink_ref(node, _("Link to this equation"))
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def write_font(app: Sphinx, error: Exception | None) -> None:
    """Cut the font to the characters of ``CHARACTERS`` and put it beside the style sheets."""
    if error is not None or app.builder.format != "html":
        return
    target = Path(app.outdir) / "_static" / FONT
    if target.exists():
        return
    options = subset.Options(hinting=False, layout_features=["ssty", "dtls", "flac"])
    options.name_IDs = ["*"]  # the licence travels in the font
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[c for lo, hi in CHARACTERS for c in range(lo, hi + 1)])
    with as_file(files("ziamath.fonts") / "STIXTwoMath-Regular.ttf") as source:
        font = TTFont(source)
        subsetter.subset(font)
        font.flavor = "woff"
        font.save(target)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("build-finished", write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
