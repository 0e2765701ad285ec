"""Model files with right checksums and wrong contents, as a forger would write them."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.files import FORMAT_VERSION, read_archive, write_archive

RNG = np.random.default_rng(5)
X = RNG.normal(size=(12, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=12)


def saved(path: Path, classifier: bool = False, **options: Any) -> Path:
    """Save a small model and return where."""
    kind, y = (KernelRidgeClassifierCV, Y > 0) if classifier else (KernelRidgeCV, Y)
    options = {"alphas": [0.01, 0.1, 1.0], "cv": 3, "random_state": 0, **options}
    kind(**options).fit(X, y).save(path)
    return path


def forge(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Path:
    """Let `change` alter the document and the arrays of a file, and write it with new checksums."""
    archive = read_archive(path)
    content, arrays = archive.content, dict(archive.arrays)
    change(content, arrays)
    write_archive(path, archive.kind, content, arrays)
    return path


def fitted(change: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """Return a change of the fitted part of the document."""
    return lambda content, arrays: change(content["fitted"])


def problem(change: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """Return a change of the problem that the model was fitted on."""
    return lambda content, arrays: change(content["fitted"]["_problem"]["fields"])


def array(name: str, change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a change of one array, by the name that it has in the file."""

    def run(content: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = np.asarray(change(arrays[name].copy()))

    return run


def put(array: Any, index: Any, value: Any) -> Any:
    """Return the array with one value replaced."""
    array[index] = value
    return array


def raw_manifest(path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Alter the manifest itself, with a fitting checksum."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    manifest = json.loads(members["manifest.json"])
    members["manifest.json"] = json.dumps(change(manifest) or manifest).encode()
    digest = hashlib.sha256(members["manifest.json"]).hexdigest()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = f"holdfast {FORMAT_VERSION} sha256:{digest}".encode()
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def nested(depth: int) -> Any:
    """Return tuples inside each other."""
    value: Any = 1
    for _ in range(depth):
        value = {"$tuple": [value]}
    return value


def _ptr(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    for name in list(arrays):
        if name.endswith("held_out.ptr"):
            arrays[name] = arrays[name][::-1].copy()


#: What is forged, how, and what the refusal says.
FORGERIES: dict[str, tuple[Callable[..., Any], str]] = {
    "coefficients too short": (array("_dual_coef", lambda a: a[:-1]), "coefficients"),
    "coefficients of another kind": (array("_dual_coef", lambda a: a.astype(str)), "coefficients"),
    "coefficients of half precision": (
        array("_dual_coef", lambda a: a.astype(np.float16)),
        "doubles",
    ),
    "coefficients not finite": (array("_dual_coef", lambda a: put(a, 0, np.nan)), "finite"),
    "dual_coef_ too long": (array("dual_coef_", lambda a: np.append(a, 1.0)), "dual_coef_"),
    "no coefficients": (fitted(lambda f: f.pop("_dual_coef")), "_dual_coef missing"),
    "no problem": (fitted(lambda f: f.pop("_problem")), "_problem missing"),
    "no kernel": (fitted(lambda f: f.update(_kernel=None)), "kernel"),
    "a kernel that is a number": (fitted(lambda f: f.update(kernel_=3)), "kernel_"),
    "a width for another number of columns": (
        fitted(lambda f: f["_kernel"]["fields"].update(gamma={"$tuple": [1.0, 2.0, 3.0]})),
        "fit together",
    ),
    "a negative width": (fitted(lambda f: f["_kernel"]["fields"].update(gamma=-1.0)), "gamma"),
    "no plan": (fitted(lambda f: f.update(_plan=None)), "plan"),
    "a plan without costs": (fitted(lambda f: f["_plan"]["fields"].update(costs=[])), "plan"),
    "an intercept that is text": (fitted(lambda f: f.update(intercept_="1")), "intercept_"),
    "a penalty that is negative": (fitted(lambda f: f.update(alpha_=-1.0)), "alpha_"),
    "an index outside": (fitted(lambda f: f.update(best_index_=99)), "best_index_"),
    "an index that is a fraction": (fitted(lambda f: f.update(best_index_=0.5)), "best_index_"),
    "experiments miscounted": (fitted(lambda f: f.update(n_splits_=4)), "n_splits_"),
    "columns miscounted": (fitted(lambda f: f.update(n_features_in_=7)), "n_features_in_"),
    "results of another length": (
        fitted(lambda f: f["cv_results_"].update(mean_test_score=[1.0])),
        "cv_results_",
    ),
    "nested tuples": (fitted(lambda f: f.update(best_params_=nested(400))), "deep"),
    "nested lists": (
        fitted(lambda f: f.update(extra_=json.loads("[" * 300 + "]" * 300))),
        "deep",
    ),
    "fewer targets": (array("_problem.Y", lambda a: a[:-1]), "fit together"),
    "targets not finite": (array("_problem.Y", lambda a: put(a, 0, np.inf)), "finite"),
    "targets of half precision": (
        array("_problem.Y", lambda a: a.astype(np.float16)),
        "doubles",
    ),
    "weights that are whole numbers": (
        array("_problem.weights", lambda a: a.astype(np.int8)),
        "doubles",
    ),
    "fewer weights": (array("_problem.weights", lambda a: a[:-1]), "weights"),
    "negative weights": (array("_problem.weights", lambda a: -a), "weights"),
    "fewer rows": (array("_problem.X", lambda a: a[:-1]), "X"),
    "rows not finite": (array("_problem.X", lambda a: put(a, 0, np.nan)), "finite"),
    "rows of half precision": (
        array("_problem.X", lambda a: a.astype(np.float16)),
        "single or double",
    ),
    "rows of text": (array("_problem.X", lambda a: a.astype(str)), "numbers"),
    "rows of one dimension": (array("_problem.X", lambda a: a[:, 0]), "dimension"),
    "penalties of half precision": (
        array("_problem.alphas", lambda a: a.astype(np.float16)),
        "doubles",
    ),
    "penalties unsorted": (array("_problem.alphas", lambda a: a[::-1]), "increasing"),
    "basis rows outside": (array("basis_indices_", lambda a: a + 100), "basis rows"),
    "basis rows negative": (array("basis_indices_", lambda a: a - 1), "basis rows"),
    "basis rows repeated": (array("basis_indices_", lambda a: a * 0), "twice"),
    "experiments outside": (
        array("_problem.experiments.held_out.values", lambda a: a + 100),
        "not there",
    ),
    "experiments negative": (
        array("_problem.experiments.held_out.values", lambda a: a - 5),
        "not there",
    ),
    "experiments of fractions": (
        array("_problem.experiments.held_out.values", lambda a: a + 0.5),
        "row numbers",
    ),
    "experiments out of order": (_ptr, "experiment"),
    "a policy unknown": (problem(lambda p: p.update(policy="steal")), "policy"),
    "a path unknown": (problem(lambda p: p.update(path="fast")), "path"),
    "a bias of two": (problem(lambda p: p.update(bias=2)), "bias"),
    "a seed of text": (problem(lambda p: p.update(seed="0")), "seed"),
    "jitter not a number": (problem(lambda p: p.update(jitter={"$number": "nan"})), "jitter"),
    "a class that is not on the list": (
        fitted(lambda f: f.update(_kernel={"$object": "os:system", "fields": {}})),
        "not among the classes",
    ),
    "a function": (
        fitted(lambda f: f.update(_kernel={"$function": "os:system"})),
        "allow_callables=True",
    ),
    "a method overwritten": (fitted(lambda f: f.update(predict=1)), "'predict'"),
    "an array that is not there": (fitted(lambda f: f.update(x_={"$array": "no"})), "malformed"),
    "a random state outside itself": (
        fitted(
            lambda f: f.update(
                x_={
                    "$random": {
                        "bit_generator": "MT19937",
                        "state": {"key": [0] * 624, "pos": 10**6},
                        "has_gauss": 0,
                        "gauss": 0.0,
                    }
                }
            )
        ),
        "random generator",
    ),
    "a parameter unknown": (lambda c, a: c["parameters"].update(speed=9), "speed"),
    "a parameter impossible": (lambda c, a: c["parameters"].update(rule="worst"), "rule"),
    "no parameters": (lambda c, a: c.pop("parameters"), "parameters"),
}
