"""The page in a real browser: Debian's Chromium, driven by Playwright.

Skipped where either is missing (``make browser`` gets both); with HOLDFAST_BROWSER=required, as in
``.ci/run``, a failure.
"""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.report import Context, summarise, write_report

#: Set by .ci/run: what is missing is then a failure, not a reason to skip.
REQUIRED = os.environ.get("HOLDFAST_BROWSER") == "required"


def chromium():
    """Return the path of a Chromium, by the tool that also installs one."""
    tool = Path(__file__).parents[3] / "tools" / "chromium.py"
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

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        # Containers rarely allow Chromium's own sandbox; the page under test is ours.
        running = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    rng = np.random.default_rng(0)
    groups = np.repeat([HOSTILE, "b<b>", "$c$", "%{x}", "e", "f"], 10)
    X = rng.normal(size=(60, 2))
    y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=60)
    model = KernelRidgeCV(cv=LeaveOneGroupOut(), basis=20, alphas=np.logspace(-4, 2, 9))
    model.set_params(random_state=0).fit(X, y, groups=groups)
    context = Context(
        title=f"Title {HOSTILE}",
        target=HOSTILE,
        group=HOSTILE,
        feature_names=(HOSTILE, "plain"),
        command=HOSTILE,
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(summarise(model, context), path)
    return path


class Visit:
    """A page with all that went wrong on it."""

    def __init__(self, browser, path, **options):
        self.page = browser.new_page(**options)
        self.trouble, self.requests, self.blocked = [], [], []
        self.page.on("console", lambda m: self.trouble.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda d: (self.trouble.append(f"dialog {d.message}"), d.dismiss()))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.on("requestfailed", lambda r: self.blocked.append((r.url, r.failure)))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#fig-leverage .main-svg")


@pytest.fixture
def visit(browser, page_file):
    made = Visit(browser, page_file, viewport={"width": 1100, "height": 900})
    yield made
    made.page.close()


def test_opens_without_a_complaint_and_asks_for_nothing(visit, page_file):
    visit.page.wait_for_timeout(300)
    assert visit.trouble == []
    assert visit.requests == [page_file.as_uri()]


def unfold(page):
    """Open the fold at the end."""
    page.locator("details.fold > summary").click()
    page.locator("details.fold table").first.wait_for()


def test_every_figure_is_drawn(visit):
    unfold(visit.page)
    names = visit.page.eval_on_selector_all(".plot", "all => all.map(e => e.id)")
    assert "fig-curve" in names
    for name in names:
        assert visit.page.locator(f"#{name} .main-svg").count() >= 1
    assert visit.page.locator("#fig-curve .scatterlayer path.js-line").count() >= 1
    # Nine penalties, and the two marks of the best and of one standard error.
    assert visit.page.locator("#fig-curve .scatterlayer path.point").count() >= 10


def test_hover_shows_the_value(visit):
    place = visit.page.locator("#fig-curve")
    place.scroll_into_view_if_needed()
    point = place.locator(".scatterlayer .trace").nth(1).locator("path.point").nth(4)
    spot = point.bounding_box()
    visit.page.mouse.move(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2)
    place.locator(".hovertext").first.wait_for()
    text = place.locator(".hovertext").first.text_content()
    assert "λ =" in text
    assert "RMSE" in text


def test_hostile_names_do_no_harm(visit):
    assert visit.page.title() == f"Title {HOSTILE}"
    assert visit.page.locator("img").count() == 0
    assert visit.page.locator("script").count() == 3
    shown = visit.page.locator("#fig-groups .yaxislayer-above text").all_text_contents()
    assert any("</script>" in text for text in shown)
    assert "b<b>" in shown
    assert "$c$" in shown
    point = visit.page.locator("#fig-actual path.point").first
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    visit.page.locator("#fig-actual .hovertext").first.wait_for()
    assert visit.page.title() == f"Title {HOSTILE}"
    assert visit.trouble == []


def test_injected_scripts_and_requests_are_refused(visit):
    """Even if some text got through: the policy of the page stops it."""
    visit.page.evaluate(
        "() => { const s = document.createElement('script');"
        " s.textContent = 'document.title = \"owned\"'; document.body.append(s);"
        " const i = new Image(); i.src = 'http://example.invalid/x.png'; document.body.append(i); }"
    )
    visit.page.wait_for_timeout(200)
    assert visit.page.title() != "owned"
    for url in visit.requests[1:]:
        assert (url, "csp") in visit.blocked


def brightness(colour):
    red, green, blue = (int(part) for part in colour[4:-1].split(",")[:3])
    return (299 * red + 587 * green + 114 * blue) / 1000


def test_light_and_dark(browser, page_file):
    found = {}
    for scheme in ("light", "dark"):
        made = Visit(browser, page_file, color_scheme=scheme)
        body = made.page.evaluate(
            "() => { const s = getComputedStyle(document.body);"
            " return [s.backgroundColor, s.color]; }"
        )
        axis = made.page.evaluate(
            "() => getComputedStyle(document.querySelector('#fig-curve .xtick text')).fill"
        )
        found[scheme] = [brightness(colour) for colour in (*body, axis)]
        assert made.trouble == []
        # The theme may change while the page is open.
        other = "dark" if scheme == "light" else "light"
        made.page.emulate_media(color_scheme=other)
        made.page.wait_for_function(
            "before => getComputedStyle(document.querySelector('#fig-curve .xtick text')).fill"
            " !== before",
            arg=axis,
        )
        turned = made.page.evaluate(
            "() => getComputedStyle(document.querySelector('#fig-curve .xtick text')).fill"
        )
        assert abs(brightness(turned) - found[scheme][2]) > 100
        made.page.close()
    assert found["light"][0] > 240
    assert found["light"][1] < 60
    assert found["light"][2] < 60
    assert found["dark"][0] < 40
    assert found["dark"][1] > 200
    assert found["dark"][2] > 200


def luminance(colour):
    parts = [int(part) / 255 for part in colour[4:-1].split(",")[:3]]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser, page_file, scheme):
    """Text against what lies behind it: at least 4.5 to 1 (WCAG AA)."""
    made = Visit(browser, page_file, color_scheme=scheme)
    pairs = made.page.evaluate(
        """() => [...document.querySelectorAll('main *, header *, footer *')]
          .filter(e => !e.closest('.plot') && e.checkVisibility()
                       && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
          .map(e => { let b = e, c;
            do { c = getComputedStyle(b).backgroundColor; b = b.parentElement; }
            while (b && c === 'rgba(0, 0, 0, 0)');
            return [getComputedStyle(e).color, c, e.tagName]; })"""
    )
    made.page.close()
    assert len(pairs) > 50
    for text, back, tag in pairs:
        light, dark = sorted((luminance(text), luminance(back)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (tag, text, back)


def test_keyboard_reaches_links_and_tables(visit):
    reached = []
    for _ in range(60):
        visit.page.keyboard.press("Tab")
        reached.append(visit.page.evaluate("() => document.activeElement.tagName"))
    assert reached[0] == "A"
    assert "SUMMARY" in reached
    details = visit.page.locator("#fig-curve ~ details")
    details.locator("summary").focus()
    visit.page.keyboard.press("Enter")
    assert details.locator("table").is_visible()


def test_narrow_screens_do_not_scroll_sideways(browser, page_file):
    made = Visit(browser, page_file, viewport={"width": 380, "height": 800})
    made.page.wait_for_timeout(300)
    assert made.page.evaluate("() => document.documentElement.scrollWidth") <= 390
    made.page.close()


def test_printing(visit, tmp_path):
    pdf = visit.page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    visit.page.emulate_media(media="print", color_scheme="dark")
    visit.page.wait_for_timeout(300)
    back = visit.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert brightness(back) > 240
    assert not visit.page.locator("nav").is_visible()
    assert not visit.page.locator("details.fold").is_visible()
    visit.page.evaluate("() => { document.querySelector('details.fold').open = true; }")
    assert visit.page.locator("details.fold").is_visible()
    assert not visit.page.locator("#fig-curve ~ details").is_visible()
    assert visit.trouble == []


BOXES = """() => [...document.querySelectorAll('.plot')].map(plot => {
  const box = e => { const r = e.getBoundingClientRect();
                     return [r.left, r.top, r.right, r.bottom]; };
  const all = s => [...plot.querySelectorAll(s)].map(box).filter(b => b[2] - b[0] > 1);
  return { name: plot.id, plot: box(plot), bar: all('.modebar-group'), legend: all('.legend'),
           area: all('.bglayer .bg, .cartesianlayer .plot'), titles: all('.xtitle, .ytitle'),
           ticks: all('.xtick text, .ytick text') };
})"""


def apart(one, other, slack=1.5):
    return (
        one[2] <= other[0] + slack
        or other[2] <= one[0] + slack
        or one[3] <= other[1] + slack
        or other[3] <= one[1] + slack
    )


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_covers_anything(browser, page_file, width):
    made = Visit(browser, page_file, viewport={"width": width, "height": 900})
    unfold(made.page)
    made.page.wait_for_timeout(300)
    found = made.page.evaluate(BOXES)
    assert len(found) >= 9
    assert sum(len(f["legend"]) for f in found) >= 5
    assert any(f["bar"] for f in found)
    for figure in found:
        for kind in ("bar", "legend"):
            for box in figure[kind]:
                for other in ("area", "titles", "ticks", "legend" if kind == "bar" else "bar"):
                    assert all(apart(box, b) for b in figure[other]), (figure, kind, other)
        for box in figure["legend"] + figure["titles"]:
            assert figure["plot"][0] - 1 <= box[0], figure
            assert box[2] <= figure["plot"][2] + 1, figure
    cards = made.page.eval_on_selector_all(
        ".cards li",
        "all => all.map(e => { const r = e.getBoundingClientRect(); return [r.top, r.height]; })",
    )
    for top in {round(card[0]) for card in cards}:
        assert len({round(h) for t, h in cards if round(t) == top}) == 1
    made.page.close()


def test_slider_moves_everything(visit):
    page = visit.page
    read = """() => ({
      y: document.getElementById('fig-actual').data[0].y.slice(0, 5),
      x: document.getElementById('fig-residuals').data[0].x.slice(0, 5),
      groups: document.getElementById('fig-groups').data[0].x.slice(),
      mark: document.getElementById('fig-curve').data.at(-1).x[0],
      told: document.querySelector('.slider output').textContent })"""
    before = page.evaluate(read)
    assert page.locator("#back").is_disabled()
    page.locator("#slider").focus()
    page.keyboard.press("Home")
    after = page.evaluate(read)
    for name in before:
        assert before[name] != after[name], name
    assert after["y"] == after["x"]
    assert after["mark"] == pytest.approx(1e-4)
    assert after["told"].startswith("λ = 0.00010: RMSE")
    page.locator("#back").click()
    assert page.evaluate(read) == before
    assert visit.trouble == []


def test_a_link_opens_the_fold(visit):
    visit.page.locator("nav a[href='#details']").click()
    visit.page.locator("details.fold table").first.wait_for()


def test_an_old_browser_gets_a_sentence_and_the_tables(browser, page_file):
    page = browser.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(page_file.as_uri())
    assert page.locator("#old").is_visible()
    assert "browser from 2023 or newer" in page.locator("#old").text_content()
    assert page.locator("table").count() >= 3
    page.close()


def test_classes_and_time_are_drawn(browser, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    labels = np.array(["a", HOSTILE, "c"])[
        np.digitize(X[:, 0] + 0.4 * rng.normal(size=90), [-0.5, 0.5])
    ]
    model = KernelRidgeClassifierCV(alphas=np.logspace(-3, 2, 6), cv=5).fit(X, labels)
    when = np.datetime64("2024-01-01") + np.arange(90) * np.timedelta64(1, "D")
    write_report(summarise(model, Context(time="day", moments=when)), tmp_path / "classes.html")
    made = Visit(browser, tmp_path / "classes.html")
    for name in ("roc", "recall", "calibration", "time"):
        assert made.page.locator(f"#fig-{name} .scatterlayer path.js-line").count() >= 1
    before = made.page.locator("table[data-moves=confusion] tbody").text_content()
    made.page.locator("#slider").focus()
    made.page.keyboard.press("End")
    assert made.page.locator("table[data-moves=confusion] tbody").text_content() != before
    assert made.trouble == []
    made.page.close()


def test_screenshots(browser, page_file):
    """Written for a person to look at, when a folder is named."""
    folder = os.environ.get("HOLDFAST_SCREENSHOTS")
    if not folder:
        pytest.skip("set HOLDFAST_SCREENSHOTS to a folder to get pictures")
    for scheme in ("light", "dark"):
        for width in (1280, 400):
            size = {"width": width, "height": 900}
            made = Visit(browser, page_file, color_scheme=scheme, viewport=size)
            name = f"report-{width}-{scheme}.png"
            made.page.screenshot(path=os.path.join(folder, name), full_page=True)
            made.page.close()
    made = Visit(browser, page_file)
    made.page.pdf(path=os.path.join(folder, "report.pdf"), format="A4")
    made.page.close()
