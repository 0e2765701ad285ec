"""Log loss and accuracy on new rows of six data sets: ours, logistic regression, SVC.

    python benchmarks/classification.py --data DIR

prints the table of docs/classification.md. Each data set is split at random into training rows (at
most 1,000) and new rows (at most 2,000), five times; columns are standardised by the training rows.
Seconds are processor time of a fit.
DIR holds pima.npz, german_numeric.npz and banana.npz, with X and y; the others come with
scikit-learn.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

from holdfast import KernelRidgeClassifierCV

OWN = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
FILES = {"diabetes (Pima)": "pima", "credit (German)": "german_numeric", "banana": "banana"}


def holdfast_(X, y):
    return KernelRidgeClassifierCV(gamma="search", cv=5).fit(X, y)


def logistic(X, y):
    return LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=2000).fit(X, y)


def support_vectors(X, y):
    gammas = np.logspace(-2, 1, 4) / X.shape[1]
    search = GridSearchCV(SVC(), {"C": np.logspace(-1, 3, 5), "gamma": gammas}, cv=5).fit(X, y)
    return CalibratedClassifierCV(search.best_estimator_, ensemble=False, cv=5).fit(X, y)


MODELS = {
    "`KernelRidgeClassifierCV`": holdfast_,
    "`LogisticRegressionCV`": logistic,
    "`SVC`, calibrated": support_vectors,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("HOLDFAST_DATA", "."))
    folder = Path(parser.parse_args().data)
    warnings.simplefilter("ignore")
    print("| data | rows, classes |", " | ".join(MODELS), "|\n|---|---|" + "---|" * len(MODELS))
    for name in [*OWN, *FILES]:
        if name in OWN:
            X, y = OWN[name](return_X_y=True)
        else:
            with np.load(folder / f"{FILES[name]}.npz") as file:
                X, y = file["X"].astype(float), file["y"]
        found = {model: [] for model in MODELS}
        for seed in range(5):
            size = min(1000, len(y) // 2)
            A, B, a, b = train_test_split(X, y, train_size=size, random_state=seed, stratify=y)
            scale = A.std(axis=0) + (A.std(axis=0) == 0)
            A, B, b = (A - A.mean(axis=0)) / scale, ((B - A.mean(axis=0)) / scale)[:2000], b[:2000]
            for model, fit in MODELS.items():
                start = time.process_time()
                fitted = fit(A, a)
                seconds = time.process_time() - start
                p = fitted.predict_proba(B)
                scores = log_loss(b, p), accuracy_score(b, fitted.predict(B)), seconds
                found[model].append(scores)
        cells = [
            f"{loss:.3f}, {hits:.1%}, {seconds:.2f} s"
            for loss, hits, seconds in (np.mean(found[model], axis=0) for model in MODELS)
        ]
        print(f"| {name} | {size}, {np.unique(y).size} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
