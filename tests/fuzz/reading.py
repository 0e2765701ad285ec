"""Each kind of input: how it is made from a seed, and how a user would read it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from fuzz import seeds
from fuzz.damage import forge_array, forge_document, spoil
from holdfast.exceptions import HoldfastError


def _use(path: Path) -> None:
    """Load a model and ask it what any model can be asked."""
    from holdfast import load

    model = load(path)
    if hasattr(model, "alpha_"):
        width = model._problem.X.shape[1]
        model.predict(np.zeros((2, width)))
        model.held_out()
        model.predict_without([0])
        str(model.explain())
        model.save(path)
        with suppress(HoldfastError):  # few basis rows, or classes
            model.nested(cv=3)
            model.predict_interval(np.zeros((2, width)))


def model(folder: Path, rng: np.random.Generator) -> None:
    """A model file with some bytes changed."""
    whole = seeds.models(str(folder))
    path = folder / "spoilt.holdfast"
    path.write_bytes(spoil(whole[rng.integers(len(whole))].read_bytes(), rng))
    _use(path)


def forged(folder: Path, rng: np.random.Generator) -> None:
    """A model file with other contents and right checksums."""
    from holdfast.files import read_archive, write_archive

    whole = seeds.models(str(folder))
    archive = read_archive(whole[rng.integers(len(whole))])
    arrays = dict(archive.arrays)
    names = list(arrays)
    for _ in range(rng.integers(0, 3)):
        name = names[rng.integers(len(names))]
        arrays[name] = forge_array(arrays[name], rng)
    path = folder / "forged.holdfast"
    write_archive(path, archive.kind, forge_document(archive.content, names, rng), arrays)
    _use(path)


def checkpoint(folder: Path, rng: np.random.Generator) -> None:
    """A checkpoint with some bytes changed: the search must give what it gave."""
    place = folder / "checkpoint"
    if not place.exists():
        seeds.search(place)
    files = sorted(place.glob("scores-*.holdfast"))
    path = files[rng.integers(len(files))]
    whole = path.read_bytes()
    path.write_bytes(spoil(whole, rng))
    try:
        found = seeds.search(place)
    finally:
        path.write_bytes(whole)
    expected = seeds.search(place)
    for name in ("mean_test_score", "pooled_test_score", "std_test_score", "rank_test_score"):
        np.testing.assert_array_equal(found.cv_results_[name], expected.cv_results_[name])


def table(kind: str) -> Callable[[Path, np.random.Generator], None]:
    """A table of this kind with some bytes changed."""

    def read(folder: Path, rng: np.random.Generator) -> None:
        from holdfast.tables import TablePreparation, open_source, read_columns

        path = folder / "spoilt"
        path.write_bytes(spoil(seeds.table(kind), rng))
        with open_source(str(path)) as source:
            found = read_columns(source, source.names)
        TablePreparation(impute=True).fit_transform(found.frame())

    return read


KINDS: dict[str, Callable[[Path, np.random.Generator], Any]] = {
    "model": model,
    "forged": forged,
    "checkpoint": checkpoint,
    **{
        kind: table(kind)
        for kind in (
            "csv",
            "csv.gz",
            "parquet",
            "feather",
            "feather-lz4",
            "stream",
        )
    },
}
