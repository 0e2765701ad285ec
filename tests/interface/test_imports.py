"""Optional packages stay optional: importing holdfast imports none of them."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

# Part of the source, not of what is installed.
BESIDE = ("benchmarks", "reproduce", "reference")
OPTIONAL = (
    "pandas", "polars", "pyarrow", "matplotlib", "dask", "distributed",
    "jinja2", "skops", "skrub", "tqdm",
)  # fmt: skip
SOURCE = Path(holdfast.__file__).parent
# What every user of holdfast has loaded: the estimators, files, displays, reports, the commands.
MODULES = (
    "holdfast",
    "holdfast.estimators.regression",
    "holdfast.estimators.classification",
    "holdfast.displays",
    "holdfast.app",
    "holdfast.app.command",
    "holdfast.app.fitting",
    "holdfast.app.page",
    "holdfast.progress",
)


def loaded_by(*imports):
    """Return the modules that a fresh interpreter has after these imports."""
    code = (
        f"import importlib, json, sys\n"
        f"for name in {imports!r}: importlib.import_module(name)\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


def test_no_optional_package_is_imported():
    """scikit-learn may import pandas by itself; what holdfast adds to it has none of them."""
    ground = loaded_by("sklearn.kernel_ridge", "sklearn.model_selection", "sklearn.metrics")
    added = loaded_by(*MODULES) - ground
    found = {name for name in added if name.split(".")[0] in OPTIONAL}
    assert found == set()


def test_importing_holdfast_is_light():
    """Counted in modules, which a busy machine cannot change: at most 1.3 times kernel_ridge."""
    ground = loaded_by("sklearn.kernel_ridge")
    assert len(loaded_by("holdfast")) <= 1.3 * len(ground)
    assert "sklearn" not in loaded_by("holdfast")
    with_estimator = loaded_by("holdfast.estimators.regression")
    ours = {name for name in with_estimator if name.split(".")[0] == "holdfast"}
    assert len(with_estimator - ours) <= 1.3 * len(ground)


def test_help_and_version_need_no_numbers():
    """What is asked for often must not load SciPy."""
    loaded = loaded_by("holdfast.app", "holdfast.app.command")
    assert "sklearn" not in loaded
    assert "scipy" not in loaded


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.name)
def test_optional_imports_are_inside_functions(path):
    """The only door is a function, or `if TYPE_CHECKING`; Dask may have a module of its own."""
    forbidden = set(OPTIONAL) - {"dask", "distributed"}
    relative = path.relative_to(SOURCE).parts
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            assert name.split(".")[0] not in forbidden, f"{'/'.join(relative)}:{node.lineno}"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.name)
def test_nothing_beside_the_package_is_imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        assert not {name.split(".")[0] for name in names} & set(BESIDE), f"line {node.lineno}"
