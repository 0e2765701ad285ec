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


def found(change: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """Return a change of what the fit found."""
    return lambda content, arrays: change(content["found"])


def data(change: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """Return a change of what the fit was given."""
    return lambda content, arrays: change(content["data"])


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


#: What is forged, how, and what the refusal says.
FORGERIES: dict[str, tuple[Callable[..., Any], str]] = {
    "coefficients too short": (array("coefficients", lambda a: a[:-1]), "coefficients"),
    "coefficients of another kind": (array("coefficients", lambda a: a.astype(str)), "doubles"),
    "coefficients of half precision": (
        array("coefficients", lambda a: a.astype(np.float16)),
        "doubles",
    ),
    "coefficients not finite": (array("coefficients", lambda a: put(a, 0, np.nan)), "finite"),
    "no coefficients": (found(lambda f: f.pop("coefficients")), "coefficients"),
    "no rows": (data(lambda d: d.pop("X")), "X"),
    "no kernel": (found(lambda f: f.update(kernel=None)), "kernel"),
    "a kernel that is a number": (found(lambda f: f.update(kernel=3)), "kernel"),
    "a width for another number of columns": (
        found(lambda f: f["kernel"]["fields"].update(gamma={"$tuple": [1.0, 2.0, 3.0]})),
        "gamma must",
    ),
    "a negative width": (found(lambda f: f["kernel"]["fields"].update(gamma=-1.0)), "gamma"),
    "no plan": (found(lambda f: f.update(plan=None)), "cannot be rebuilt"),
    "a plan without costs": (found(lambda f: f["plan"].update(costs=[])), "cannot be rebuilt"),
    "a plan of a path unknown": (found(lambda f: f["plan"].update(path="fast")), "path"),
    "an intercept that is text": (found(lambda f: f.update(unpenalised="1")), "unpenalised"),
    "a penalty that is negative": (found(lambda f: f.update(alpha=-1.0)), "alpha"),
    "an index outside": (found(lambda f: f.update(index=99)), "index"),
    "an index that is a fraction": (found(lambda f: f.update(index=0.5)), "index"),
    "results of another length": (
        found(lambda f: f["results"].update(mean_test_score=[1.0])),
        "'mean_test_score'",
    ),
    "results of other penalties": (array("results.alpha", lambda a: a * 2), "other penalties"),
    "nested tuples": (found(lambda f: f.update(plan=nested(400))), "deep"),
    "nested lists": (found(lambda f: f.update(extra=json.loads("[" * 300 + "]" * 300))), "deep"),
    "fewer targets": (array("y", lambda a: a[:-1]), "y must"),
    "targets not finite": (array("y", lambda a: put(a, 0, np.inf)), "finite"),
    "targets of text": (array("y", lambda a: a.astype(str)), "numbers"),
    "targets of another shape": (data(lambda d: d.update(flat=2)), "flat"),
    "fewer weights": (array("sample_weight", lambda a: a[:-1]), "sample_weight"),
    "negative weights": (array("sample_weight", lambda a: -a), "negative"),
    "fewer rows": (array("X", lambda a: a[:-1]), "per row"),
    "rows not finite": (array("X", lambda a: put(a, 0, np.nan)), "finite"),
    "rows of text": (array("X", lambda a: a.astype(str)), "numbers"),
    "rows of one dimension": (array("X", lambda a: a[:, 0]), "two-dimensional"),
    "fewer columns than the kernel has": (array("X", lambda a: a[:, :0]), "cannot be rebuilt"),
    "names of other columns": (data(lambda d: d.update(names=["a"])), "names"),
    "penalties unsorted": (array("alphas", lambda a: a[::-1]), "increasing"),
    "penalties of text": (array("alphas", lambda a: a.astype(str)), "numbers"),
    "basis rows outside": (array("basis_rows", lambda a: a + 100), "dense"),
    "basis rows repeated": (array("basis_rows", lambda a: a * 0), "dense"),
    "experiments outside": (array("experiments.held_out.values", lambda a: a + 100), "held"),
    "experiments negative": (array("experiments.held_out.values", lambda a: a - 5), "not there"),
    "experiments of fractions": (
        array("experiments.held_out.values", lambda a: a + 0.5),
        "row numbers",
    ),
    "experiments out of order": (
        array("experiments.held_out.ptr", lambda a: a[::-1]),
        "overlap",
    ),
    "a seed of text": (found(lambda f: f.update(seed="0")), "random_state"),
    "frames of a library unknown": (data(lambda d: d.update(frames="os")), "library"),
    "a class that is not on the list": (
        found(lambda f: f.update(kernel={"$object": "os:system", "fields": {}})),
        "not among the classes",
    ),
    "a function": (
        found(lambda f: f.update(kernel={"$function": "os:system"})),
        "allow_callables=True",
    ),
    "an array that is not there": (found(lambda f: f.update(x={"$array": "no"})), "malformed"),
    "a random state outside itself": (
        found(
            lambda f: f.update(
                x={
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
    "a policy unknown": (
        lambda c, a: c["parameters"].update(held_out_basis="steal"),
        "held_out_basis",
    ),
    "jitter not a number": (
        lambda c, a: c["parameters"].update(jitter={"$number": "nan"}),
        "jitter",
    ),
    "no parameters": (lambda c, a: c.pop("parameters"), "parameters"),
}
