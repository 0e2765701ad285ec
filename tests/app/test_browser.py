"""The page in a real browser: Debian's Chromium, driven by Playwright.

Skipped where either is missing (``make browser`` gets both); with HOLDFAST_BROWSER=required, as in
``make test-browser``, a failure. HOLDFAST_SCREENSHOTS=folder keeps pictures.
"""

import importlib.util
import os
from pathlib import Path

import pytest

from app.messy import write
from app.test_page import HOSTILE, hostile_file

REQUIRED = os.environ.get("HOLDFAST_BROWSER") == "required"


def chromium():
    """Return the path of a Chromium, by the tool that also installs one."""
    tool = Path(__file__).parents[2] / "tools" / "chromium.py"
    spec = importlib.util.spec_from_file_location("chromium", tool)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.find()


if REQUIRED:
    import playwright.sync_api as playwright
else:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = chromium()
if CHROMIUM is None:
    if REQUIRED:
        raise RuntimeError("HOLDFAST_BROWSER=required, and there is no Chromium: make browser")
    pytest.skip("no chromium on the path", allow_module_level=True)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        # Containers rarely allow Chromium's own sandbox; the page under test is ours.
        arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run"]
        running = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield running
        running.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return pages of hostile names, of groups and of classes."""
    from holdfast.app import main

    folder = tmp_path_factory.mktemp("pages")
    hostile = hostile_file(folder)
    asked = {
        "hostile": ["cv", hostile, "--target", f"y{HOSTILE}", "--group", f"g{HOSTILE}"],
        "hostile-classes": ["cv", hostile, "--target", "class"],
        "groups": [*write(folder, "groups"), "--group", "building"],
        "classes": write(folder, "imbalanced", m=600),
        "dates": write(folder, "dates"),
    }
    made = {}
    for name, arguments in asked.items():
        made[name] = folder / f"{name}.html"
        more = ["--gamma", "0.05", "--quiet", "--report", made[name]]
        assert main([str(a) for a in [*arguments, *more]]) == 0
    return made


class Visit:
    """A page with all that went wrong on it."""

    def __init__(self, browser, path, **options):
        self.page = browser.new_page(**options)
        self.trouble, self.requests = [], []
        self.page.on("console", lambda m: self.trouble.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda d: (self.trouble.append(f"dialog {d.message}"), d.dismiss()))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.goto(path.as_uri())

    def size(self):
        return self.page.evaluate(
            "() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        )


@pytest.mark.parametrize("name", ["hostile", "hostile-classes"])
def test_hostile_names_do_no_harm(browser, pages, name):
    visit = Visit(browser, pages[name])
    visit.page.wait_for_timeout(200)
    assert visit.trouble == []
    assert visit.requests == [pages[name].as_uri()]
    assert visit.page.title() != "owned"
    assert visit.page.locator("script, img, iframe").count() == 0
    visit.page.close()


def test_injected_scripts_and_requests_are_refused(browser, pages):
    """Even if some text got through: the policy of the page stops it."""
    visit = Visit(browser, pages["groups"])
    before = visit.page.title()
    visit.page.evaluate(
        "() => { const s = document.createElement('script');"
        " s.textContent = 'document.title = \"owned\"'; document.body.append(s);"
        " const i = new Image(); i.src = 'http://example.invalid/x.png'; document.body.append(i); }"
    )
    visit.page.wait_for_timeout(200)
    assert visit.page.title() == before
    assert any("Content Security Policy" in text for text in visit.trouble)
    visit.page.close()


@pytest.mark.parametrize("name", ["groups", "classes", "dates", "hostile"])
def test_sizes(browser, pages, name):
    """Nothing sticks out at the side; the page is short; the first screen has the answer."""
    wide = Visit(browser, pages[name], viewport={"width": 1280, "height": 800})
    width, height = wide.size()
    assert width <= 1280
    assert height < 3500
    for selector in ("h1", ".believe", "figure.main"):
        box = wide.page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= (800 if name != "hostile" else 1200)
    wide.page.close()
    narrow = Visit(browser, pages[name], viewport={"width": 400, "height": 800})
    assert narrow.size()[0] <= 400
    narrow.page.close()


def brightness(colour):
    red, green, blue = (float(part) for part in colour[4:-1].split(",")[:3])
    return (299 * red + 587 * green + 114 * blue) / 1000


def test_light_dark_and_print(browser, pages):
    look = (
        "() => [getComputedStyle(document.body).backgroundColor,"
        " getComputedStyle(document.body).color,"
        " getComputedStyle(document.querySelector('figure.main text')).fill]"
    )
    for scheme, dark in (("light", False), ("dark", True)):
        visit = Visit(browser, pages["groups"], color_scheme=scheme)
        back, text, chart = (brightness(colour) for colour in visit.page.evaluate(look))
        assert (back < 60) == dark
        assert abs(back - text) > 120
        assert abs(back - chart) > 120
        visit.page.emulate_media(media="print")
        assert brightness(visit.page.evaluate(look)[0]) > 250 or not dark
        visit.page.close()


def test_pictures(browser, pages):
    """Keep pictures to look at, where a folder is named."""
    folder = os.environ.get("HOLDFAST_SCREENSHOTS")
    if not folder:
        pytest.skip("HOLDFAST_SCREENSHOTS names no folder")
    for name, path in pages.items():
        for width, scheme in ((1280, "light"), (1280, "dark"), (400, "light")):
            size = {"width": width, "height": 800}
            visit = Visit(browser, path, viewport=size, color_scheme=scheme)
            visit.page.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png", full_page=True)
            visit.page.close()
