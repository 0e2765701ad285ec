"""Optional packages stay optional: importing holdfast imports none of them."""

import json
import subprocess
import sys

import holdfast

OPTIONAL = (
    "pandas", "polars", "pyarrow", "matplotlib", "dask", "distributed",
    "jinja2", "skops", "skrub", "tqdm",
)  # fmt: skip
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


def test_versions_name_what_a_bug_report_needs(capsys):
    holdfast.show_versions()
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["holdfast"] == holdfast.__version__
    assert {"python", "system", "numpy", "scipy", "scikit-learn", "pandas"} <= set(lines)
    assert "threads" in lines["blas"]
