"""How often do columns that mean nothing look relevant in a report?

`python -m benchmarks.relevance [--sims 100]` makes data in which the first of six columns matters,
fits, asks for the relevance as a report does, and counts the verdicts "relevant".
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.report import Ask, Context
from holdfast.report.context import make_case
from holdfast.report.relevance import ask_relevance

COLUMNS, GROUP_SIZE = 6, 6


@dataclass(frozen=True)
class World:
    """Data and a way of holding out.

    Attributes
    ----------
    name : str
    rows : int
    cv : int, splitter or None
    grouped, classes : bool
        Whether rows come in groups that resemble each other, and targets are two classes.
    """

    name: str
    rows: int
    cv: Any
    grouped: bool = False
    classes: bool = False


WORLDS = (
    World("leave-one-out, 30 rows", 30, None),
    World("leave-one-out, 120 rows", 120, None),
    World("5 folds, 120 rows", 120, 5),
    World("5 folds, 600 rows", 600, 5),
    World("5 folds, 120 rows, two classes", 120, 5, classes=True),
    World("8 groups held out, 48 rows", 48, LeaveOneGroupOut(), grouped=True),
    World("20 groups held out, 120 rows", 120, LeaveOneGroupOut(), grouped=True),
    World("60 groups held out, 360 rows", 360, LeaveOneGroupOut(), grouped=True),
)


def looks_relevant(world: World, seed: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which columns look relevant in one draw of the data; only the first is."""
    rng = np.random.default_rng(seed)
    m, groups = world.rows, np.arange(world.rows) // GROUP_SIZE
    X, noise = rng.normal(size=(m, COLUMNS)), 0.5 * rng.normal(size=m)
    if world.grouped:
        X = 0.5 * X + rng.normal(size=(m, COLUMNS))[groups]
        noise += 0.5 * rng.normal(size=m)[groups]
    y = np.sin(X[:, 0]) + noise
    kind = KernelRidgeClassifierCV if world.classes else KernelRidgeCV
    model: Any = kind(gamma=0.1, cv=world.cv)
    model.fit(X, y > 0 if world.classes else y, groups=groups if world.grouped else None)
    names = tuple(str(j) for j in range(COLUMNS))
    found = ask_relevance(make_case(model, Context(feature_names=names), Ask(seed=seed)))
    assert found is not None
    return np.array([found.verdicts[found.names.index(name)] == "relevant" for name in names])


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sims", type=int, default=100, help="draws of each data set")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | looks relevant: the column that is | a column that means nothing |")
    print("|---|---|---|")
    for world in WORLDS:
        seen = np.array([looks_relevant(world, seed) for seed in range(options.sims)])
        print(f"| {world.name} | {seen[:, 0].mean():.0%} | {seen[:, 1:].mean():.1%} |", flush=True)


if __name__ == "__main__":
    main()
