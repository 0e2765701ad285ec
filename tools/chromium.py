"""Print the path of a Chromium for the browser tests, installing one if there is none.

    python tools/chromium.py            find or install
    python tools/chromium.py --find     only find

Looks at HOLDFAST_CHROMIUM, then at the usual names and places. Installs with apt-get (Debian,
Ubuntu), else with Playwright's own download. Leaves with 1, and says why, if there is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PLACES = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
)


def find() -> str | None:
    """Return the path of a Chromium that is there already."""
    named = os.environ.get("HOLDFAST_CHROMIUM")
    if named:
        return named if os.path.exists(named) else None
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    return next((place for place in PLACES if os.path.exists(place)), _downloaded())


def install() -> str | None:
    """Return the path of a Chromium after trying to install one."""
    for command in _recipes():
        print("+", " ".join(command), file=sys.stderr)
        try:
            subprocess.run(command, check=True, stdout=sys.stderr)
        except (OSError, subprocess.CalledProcessError) as error:
            print(error, file=sys.stderr)
            continue
        found = find()
        if found:
            return found
    return None


def _recipes() -> list[list[str]]:
    recipes = []
    if shutil.which("apt-get"):
        root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        get = [*root, "apt-get", "install", "-y", "--no-install-recommends", "chromium"]
        recipes += [get, [*root, "apt-get", "update"], get]
    recipes.append([sys.executable, "-m", "playwright", "install", "chromium"])
    return recipes


def _downloaded() -> str | None:
    """Return the Chromium that Playwright downloaded, if it did."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as driver:
        path = driver.chromium.executable_path
    return path if os.path.exists(path) else None


def main() -> int:
    """Print the path."""
    found = find() or (None if "--find" in sys.argv[1:] else install())
    if found is None:
        print(
            "There is no Chromium, and none could be installed. Install one (Debian: apt install "
            "chromium) or name it: HOLDFAST_CHROMIUM=/path/to/chromium.",
            file=sys.stderr,
        )
        return 1
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
