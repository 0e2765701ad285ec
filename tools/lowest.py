"""Print pip constraints that pin each core dependency at its lower bound in pyproject.toml."""

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


def lowest(requirement: str) -> str:
    """Return the pin for a bound: ``"numpy>=2.0"`` gives ``"numpy==2.0.0"``."""
    match = re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+)", requirement)
    if match is None:
        raise SystemExit(
            f"{requirement!r}: a core dependency needs exactly one bound, name>=version"
        )
    name, version = match.groups()
    return f"{name}=={version}" if version.count(".") > 1 else f"{name}=={version}.0"


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    print("\n".join(lowest(requirement) for requirement in project["dependencies"]))
