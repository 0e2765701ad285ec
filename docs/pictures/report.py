"""Take the picture of the page of the command for the README: ``python docs/pictures/report.py``.

The first screen of the demo's page, in a real browser (``make browser`` gets one).
"""

import importlib.util
import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from holdfast.app import main

HERE = Path(__file__).parent
TARGET = HERE.parent / "_static" / "report.png"

spec = importlib.util.spec_from_file_location("chromium", HERE.parents[1] / "tools" / "chromium.py")
chromium = importlib.util.module_from_spec(spec)
spec.loader.exec_module(chromium)

with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
    if main(["demo", "--output", folder, "--quiet"]):
        sys.exit("the demo failed")
    browser = driver.chromium.launch(executable_path=chromium.find(), args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 1180, "height": 640}, device_scale_factor=1.5)
    page.goto((Path(folder) / "report.html").as_uri())
    shot = Image.open(io.BytesIO(page.screenshot()))
    browser.close()

shot.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(TARGET, optimize=True)
print(f"{TARGET.name}: {TARGET.stat().st_size / 1000:.0f} kB")
