"""Print pip constraints that pin every promised lower bound of pyproject.toml.

The core dependencies, what the extra ``all`` brings, what the reproductions need, and polars; tools
for tests and pages stay free.
"""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


def lowest(requirement: str) -> str:
    """Return the pin for a bound: ``"numpy>=2.0"`` gives ``"numpy==2.0.0"``."""
    match = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?>=([0-9.]+)", requirement)
    if match is None:
        raise SystemExit(f"{requirement!r}: expected exactly one bound, name>=version")
    name, version = match.groups()
    return f"{name}=={version}{'.0' * (2 - version.count('.'))}"


def promised(pyproject: dict) -> Iterable[str]:
    """Yield the requirements of the package, of its extras and of the group ``reproduce``.

    And of polars, whose frames users may pass: what scikit-learn knows of them depends on both.
    """
    project = pyproject["project"]
    extras = project["optional-dependencies"]
    yield from project["dependencies"]
    for name in re.findall(r"[\w-]+", extras["all"][0].partition("[")[2]):
        yield from extras[name]
    groups = pyproject["dependency-groups"]
    yield from groups["reproduce"]
    yield from (one for one in groups["test"] if str(one).startswith("polars"))


if __name__ == "__main__":
    pyproject = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    print("\n".join(map(lowest, promised(pyproject))))
