"""Every python block of the README and the documentation runs and prints what the page says.

The blocks of a page share one namespace, as a reader would type them. A block after the comment
``<!-- skip: reason -->`` is not run. A ``text`` block after the comment ``<!-- output -->`` is what
the block before it prints.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import holdfast.exceptions

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"(?P<comment><!-- (?:skip: [^\n]+|output) -->\n+)?"
    r"^```(?P<language>python|text)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass
class Block:
    line: int
    source: str
    output: str | None = None


def blocks(text: str) -> list[Block]:
    """Return the blocks to run, each with the output that the page promises, if any."""
    found: list[Block] = []
    for match in FENCE.finditer(text):
        comment, body = match["comment"] or "", match["body"]
        if match["language"] == "python" and not comment.startswith("<!-- skip"):
            found.append(Block(text.count("\n", 0, match.start("body")) + 1, body))
        elif match["language"] == "text" and comment.startswith("<!-- output"):
            found[-1].output = body
    return found


def pages() -> list[Path]:
    written = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]
    return [
        page for page in [ROOT / "README.md", *sorted(written)] if blocks(page.read_text("utf-8"))
    ]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page.read_text("utf-8")):
        # Blank lines first: a traceback then names the line of the page.
        code = compile("\n" * (block.line - 1) + block.source, str(page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        if block.output is not None:
            assert printed.getvalue().rstrip() == block.output.rstrip(), f"{page}:{block.line}"


def links(text: str) -> list[str]:
    """Return the targets of Markdown links that point into the repository."""
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [t.partition("#")[0] for t in targets if not re.match(r"[a-z]+:|#", t)]


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")], ids=lambda page: page.stem
)
def test_links_lead_somewhere(page: Path) -> None:
    """In the repository, where the README leads."""
    targets = links(page.read_text("utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def messages() -> str:
    """Return all text of the package's string literals, pieces of one f-string joined by a gap."""
    texts = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                pieces = [v.value if isinstance(v, ast.Constant) else "\0" for v in node.values]
                texts.append("".join(map(str, pieces)))
    return "\n".join(texts)


def test_troubleshooting_quotes_messages_that_exist() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    quoted = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    known = messages() + "\n".join(dir(holdfast.exceptions))
    assert len(quoted) > 10
    assert [text for text in quoted if text not in known] == []
