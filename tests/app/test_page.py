"""The page: what is on it, what is not, and that names of the data do no harm."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from app.messy import write

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>$x$"


def hostile_file(folder):
    """Write a file whose names, cells, groups and classes are all hostile."""
    rng = np.random.default_rng(0)
    groups = np.repeat([HOSTILE, "b<b>", "$c$", "%{x}", "e&amp;", "\u202ef\x1b[31m"], 20)
    frame = pd.DataFrame(rng.normal(size=(120, 2)), columns=[f"x{HOSTILE}", "plain"]).round(3)
    frame[f"text{HOSTILE}"] = rng.choice([HOSTILE, "<svg onload=alert(1)>", "c"], 120)
    frame[f"g{HOSTILE}"] = groups
    frame[f"y{HOSTILE}"] = (np.sin(frame.plain) + 0.2 * rng.normal(size=120)).round(3)
    frame["class"] = np.where(frame[f"y{HOSTILE}"] > 0, HOSTILE, '"><b onclick=x>')
    frame.to_csv(folder / "hostile.csv", index=False)
    return folder / "hostile.csv"


class Elements(HTMLParser):
    """The elements of a page, and the attributes that they have."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture
def page(tmp_path, ask):
    def make(*arguments):
        path = tmp_path / "report.html"
        code, _, err = ask(*arguments, "--gamma", "0.1", "--report", path, "--quiet")
        assert code == 0, err
        return path.read_text(encoding="utf-8")

    return make


@pytest.mark.parametrize("target", [f"y{HOSTILE}", "class"])
def test_hostile_names_are_text(tmp_path, page, target):
    path = hostile_file(tmp_path)
    text = page("cv", path, "--target", target, "--group", f"g{HOSTILE}")
    found = Elements(text)
    assert not {"script", "img", "b", "iframe", "object", "form"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert any(HOSTILE[:30] in words for words in found.words)


def test_a_page_of_groups(tmp_path, page):
    """It asks for nothing, is small, and has at most five charts with a description each."""
    text = page(*write(tmp_path, "groups"), "--group", "building")
    assert len(text.encode()) < 400_000
    assert "default-src 'none'" in text
    links = re.findall(r"(?:src|href)=\"([^\"]*)\"", text)
    assert all(link.startswith("#") for link in links)  # parts of the drawings
    assert not re.findall(r"url\((?!#)", text)
    assert 3 <= text.count("<figure") <= 5
    assert text.count('role="img" aria-label="') == text.count("<figure")
    names = re.findall(r'\sid="([^"]+)"', text)
    assert len(names) == len(set(names))


def test_the_page_says_what_programs_are_told(tmp_path, found):
    findings = found(*write(tmp_path, "dates"), "--report", tmp_path / "r.html")
    page = Elements((tmp_path / "r.html").read_text(encoding="utf-8"))
    words = " ".join("".join(page.words).replace("\u00a0", " ").split())
    for text in [findings["headline"], findings["verdict"], findings["warnings"][0]["text"]]:
        assert text in words


def test_lines_of_the_hardest_rows_are_those_of_the_file(tmp_path, page):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"]).round(3)
    frame["y"] = (frame.a + 0.1 * rng.normal(size=80)).round(3)
    frame.loc[41, "y"] = 50.0  # line 43: one for the header, and lines count from 1
    frame.to_csv(tmp_path / "d.csv", index=False)
    text = page("cv", tmp_path / "d.csv", "--target", "y")
    assert re.search(r'furthest off.*?<th scope="row">43</th>', text, re.S)
