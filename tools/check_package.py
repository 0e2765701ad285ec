"""Check what would be published: versions agree, and the wheel holds nothing but the package.

python tools/check_package.py dist             the built files
python tools/check_package.py dist --publish   the same, and all that a release needs
"""

from __future__ import annotations

import re
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Files of the package that no import would miss.
NEEDED = (
    "py.typed",
    "app/page.html",
    "app/page.css",
)


def version() -> str:
    """Return the version that the package names."""
    text = (ROOT / "src" / "holdfast" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("src/holdfast/__init__.py names no version")
    return found[1]


def troubles(folder: Path, publish: bool) -> list[str]:
    """Return what is wrong with the built files."""
    name = f"holdfast-{version()}"
    wheels, archives = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    found = []
    if f"\nversion: {version()}\n" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"):
        found.append(f"CITATION.cff names another version than {version()}")
    if [w.name for w in wheels] != [f"{name}-py3-none-any.whl"]:
        found.append(f"{folder}: expected one wheel of {name}; there is {[w.name for w in wheels]}")
    if [a.name for a in archives] != [f"{name}.tar.gz"]:
        found.append(f"{folder}: expected one archive of {name}; {[a.name for a in archives]}")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as opened:
            inside = opened.namelist()
        foreign = [n for n in inside if not n.startswith(("holdfast/", f"{name}.dist-info/"))]
        found += [f"{wheel.name} holds {n}, which is not the package" for n in foreign]
        needed = [f"holdfast/{path}" for path in NEEDED]
        found += [f"{wheel.name} lacks {path}" for path in needed if path not in inside]
    if publish:
        found += _release_troubles()
    return found


def _release_troubles() -> list[str]:
    found = []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if not project.get("urls"):
        found.append("pyproject.toml: [project.urls] has to name the public repository")
    if f"## {version()}" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        found.append(f"CHANGELOG.md has no heading for {version()}")
    return found


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    found = troubles(Path(arguments[0] if arguments else "dist"), "--publish" in sys.argv)
    print("\n".join(found) or f"holdfast {version()}: well packed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
