"""Whole files of each kind, to be spoilt."""

from __future__ import annotations

import gzip
import io
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

RNG = np.random.default_rng(8)
M = 14
X = RNG.normal(size=(M, 2))
Y = X[:, 0] + 0.3 * RNG.normal(size=M)
ALPHAS = [0.01, 0.1, 1.0]


@cache
def models(folder: str) -> list[Path]:
    """Return model files: dense, sparse, linear, classes, ranks."""
    from holdfast import KernelRankerCV, KernelRidgeClassifierCV, KernelRidgeCV
    from holdfast.basis import FarthestPoint

    common: dict[str, Any] = {"alphas": ALPHAS, "cv": 3, "random_state": 0}
    made = [
        KernelRidgeCV(**common).fit(X, Y, groups=np.arange(M) % 3),
        KernelRidgeCV(basis=FarthestPoint(4), **common).fit(X, Y),
        KernelRidgeCV("linear", **common).fit(X, np.c_[Y, X]),
        KernelRidgeClassifierCV(gamma=[0.1, 1.0], **common).fit(X, np.where(Y > 0, "up", "down")),
        KernelRankerCV(basis=4, **common).fit(X, Y, np.arange(M) % 5),
    ]
    paths = [Path(folder) / f"whole-{i}.holdfast" for i in range(len(made))]
    for model, path in zip(made, paths, strict=True):
        model.save(path)
    return paths


def search(folder: Path) -> Any:
    """Fit a small grid with a checkpoint in the folder, and return the model."""
    from holdfast import KernelRidgeCV

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KernelRidgeCV(alphas=ALPHAS, cv=3, gamma=[0.1, 1.0], checkpoint=folder)
        return model.fit(X, Y)


@cache
def table(kind: str) -> bytes:
    """Return a table as a file of this kind."""
    rng = np.random.default_rng(0)
    names = ["a", "b", "t", "n", "w"]
    rows = [
        [f"{rng.normal():.5g}", str(i % 4), f"text {i % 5}", "" if i % 7 == 0 else f"{i}", "1e-3"]
        for i in range(40)
    ]
    if kind in ("csv", "csv.gz"):
        text = "\n".join([",".join(names), *(",".join(row) for row in rows)]) + '\n1,"2",x,,3\n'
        return gzip.compress(text.encode(), mtime=0) if kind == "csv.gz" else text.encode()
    buffer = io.BytesIO()
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    _arrow(kind, columns, buffer)
    return buffer.getvalue()


def _arrow(kind: str, columns: dict[str, Any], buffer: io.BytesIO) -> None:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.ipc
    import pyarrow.parquet

    numbers = {name: [float(v) if v else None for v in columns[name]] for name in ("a", "b", "n")}
    numbers["t"] = list(columns["t"])
    numbers["d"] = pa.array(columns["t"]).dictionary_encode()
    numbers["f"] = [v > "text 2" for v in columns["t"]]
    made = pa.table(numbers)
    if kind == "parquet":
        pyarrow.parquet.write_table(made, buffer)
    elif kind == "stream":
        with pyarrow.ipc.new_stream(buffer, made.schema) as writer:
            writer.write_table(made)
    elif kind == "feather-lz4":
        pyarrow.feather.write_feather(made, buffer, compression="lz4")
    else:
        pyarrow.feather.write_feather(made, buffer, compression="uncompressed")
