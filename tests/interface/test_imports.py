"""Optional packages stay optional, and importing holdfast costs nothing."""

import json
import subprocess
import sys

import holdfast

OPTIONAL = (
    "pandas", "polars", "pyarrow", "matplotlib", "dask", "distributed",
    "jinja2", "skops", "skrub", "tqdm",
)  # fmt: skip
ESTIMATORS = "from holdfast import KernelRidgeCV, KernelRidgeClassifierCV, KernelMixtureCV"
COMMAND = "from holdfast.app import main; main(['--version']); main(['--help'])"


def loaded_by(code):
    """Return the modules that a fresh interpreter has after some code."""
    code += "; import json, sys; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_no_optional_package_is_imported():
    """scikit-learn may import pandas by itself; what holdfast adds to it has none of them."""
    ground = loaded_by("import sklearn.kernel_ridge, sklearn.model_selection, sklearn.metrics")
    added = loaded_by(f"{ESTIMATORS}; import holdfast.displays") - ground
    assert {name for name in added if name.split(".")[0] in OPTIONAL} == set()


def test_importing_holdfast_is_light():
    """Counted in modules, which a busy machine cannot change: at most 1.3 times kernel_ridge."""
    ground = loaded_by("import sklearn.kernel_ridge")
    bare = loaded_by("import holdfast")
    assert "sklearn" not in bare
    assert len(bare) <= 1.3 * len(ground)
    others = [name for name in loaded_by(ESTIMATORS) if name.split(".")[0] != "holdfast"]
    assert len(others) <= 1.3 * len(ground)


def test_help_and_version_need_no_numbers():
    """What is asked for often must not load SciPy."""
    loaded = loaded_by(COMMAND)
    assert not {"sklearn", "scipy", *OPTIONAL} & loaded


def test_versions_name_what_a_bug_report_needs(capsys):
    holdfast.show_versions()
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["holdfast"] == holdfast.__version__
    assert {"python", "system", "numpy", "scipy", "scikit-learn", "pandas"} <= set(lines)
    assert "threads" in lines["blas"]
