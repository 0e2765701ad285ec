"""Model files of version 0.1.0 and the numbers that they gave: run with that version, once.

    PYTHONPATH=<a checkout of version 0.1.0>/src python tests/files/golden/make.py

They are never written again: what they are for is to be old.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold

import holdfast
from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.basis import FarthestPoint
from holdfast.kernels import RBF, Linear

HERE = Path(__file__).parent
M = 12
RNG = np.random.default_rng(20)
X = RNG.normal(size=(M, 3)).round(3)
Y = (np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=M)).round(3)
NEW = RNG.normal(size=(5, 3)).round(3)
LABELS = np.array(["žlutá", "modrá", "bílá"])[np.argsort(np.argsort(Y)) * 3 // M]
ALPHAS = [0.01, 0.1, 1.0]
FRAME = pd.DataFrame(X, columns=["a", "b", "číslo"])
GROUPS = np.arange(M) % 4


def models():
    """Yield a name, a model and the arguments of its fit."""
    yield "dense", KernelRidgeCV(alphas=ALPHAS, gamma=0.4), (X, Y), {}
    yield (
        "dense-two-targets",
        KernelRidgeCV(Linear() + RBF(0.5), alphas=ALPHAS, alpha_per_target=True, cv=GroupKFold(4)),
        (X, np.c_[Y, X[:, 2]]),
        {"groups": GROUPS, "sample_weight": np.linspace(0.5, 2, M)},
    )
    yield (
        "sparse",
        KernelRidgeCV(alphas=ALPHAS, basis=FarthestPoint(5), cv=4, random_state=3),
        (X, Y),
        {},
    )
    yield "linear", KernelRidgeCV("linear", alphas=ALPHAS, cv=3), (X, Y), {}
    yield "classifier", KernelRidgeClassifierCV(alphas=ALPHAS, cv=3), (X, LABELS), {}
    yield "widths", KernelRidgeCV(alphas=ALPHAS, gamma=[0.1, 1.0], cv=4), (X, Y), {}
    yield "frame", KernelRidgeCV(alphas=ALPHAS, basis=[1, 5, 9, 11], cv=3), (FRAME, Y), {}


def main():
    expected = {"version": holdfast.__version__, "new": NEW.tolist(), "models": {}}
    for name, model, data, fit in models():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(*data, **fit)
        model.save(HERE / f"{name}.holdfast")
        new = pd.DataFrame(NEW, columns=FRAME.columns) if name == "frame" else NEW
        expected["models"][name] = {
            "predict": model.predict(new).tolist(),
            "held_out": model.held_out().values.tolist(),
            "alpha": np.asarray(model.alpha_).tolist(),
        }
    text = json.dumps(expected, ensure_ascii=False, indent=1)
    (HERE / "expected.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
