"""The demonstration: a study where leave-one-out is badly wrong, told in ten lines."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.cli.console import bold, showing_progress
from holdfast.tables import write_columns

__all__ = ["FEATURES", "Study", "make_study", "run_demo", "tell"]

FEATURES = ("age", "height", "resting_pulse", "voice_pitch", "jitter", "dose")

# Any seed tells the same story; the tests run others.
SEED, N_SUBJECTS, N_VISITS, N_BASIS, N_NEW = 3, 60, 12, 300, 1000


@dataclass(frozen=True, eq=False)
class Study:
    """Repeated measurements of subjects."""

    #: Four traits of the subject, measured with a little noise, then two that vary by visit
    X: NDArray[np.float64]
    y: NDArray[np.float64]  #: A symptom score
    subject: NDArray[np.str_]  #: Who was measured


def make_study(n_subjects: int, n_visits: int, seed: int) -> Study:
    """Return a study with so many subjects and visits each.

    Parameters
    ----------
    n_subjects, n_visits : int
        Sizes.
    seed : int
        Of the random numbers.

    Notes
    -----
    The score is ``40 + 6·level(subject) + 3·jitter + 4·dose + noise``, where the level has nothing
    to do with the traits. The traits identify the subject, so a model that has seen other rows of a
    subject can look its level up; for a new subject there is nothing to look up.
    """
    rng = np.random.default_rng(seed)
    traits = rng.normal(size=(n_subjects, 4))
    level = rng.normal(size=n_subjects)
    who = np.repeat(np.arange(n_subjects), n_visits)
    visit = rng.normal(size=(len(who), 2))
    X = np.hstack([traits[who] + 0.05 * rng.normal(size=(len(who), 4)), visit])
    noise = 1.5 * rng.normal(size=len(who))
    y = 40 + 6 * level[who] + 3 * visit[:, 0] + 4 * visit[:, 1] + noise
    subject = np.array([f"S{i + 1:02d}" for i in range(n_subjects)])[who]
    centre, unit = np.array([60, 170, 70, 150, 0.6, 5]), np.array([9, 9, 8, 40, 0.2, 2])
    return Study(X * unit + centre, y, subject)


def run_demo(options: argparse.Namespace) -> int:
    """Make up a study, ask how well new subjects are predicted, compare with the truth."""
    folder = Path(options.out)
    with showing_progress(options.quiet):
        story = tell(SEED)
    folder.mkdir(parents=True, exist_ok=True)
    study: Study = story["study"]
    columns = {name: study.X[:, j].round(4) for j, name in enumerate(FEATURES)}
    data = folder / "study.csv"
    write_columns(str(data), {"subject": study.subject, **columns, "score": study.y.round(4)})
    report = _write_report(folder, story, str(data))
    claim, loo, truth = story["group_error"], story["loo_error"], story["truth"]
    lines = [
        f"A study: {N_SUBJECTS} subjects, {N_VISITS} visits each. Age, height and voice tell who "
        "it is;",
        "the score depends on dose, on jitter, and on a level of each subject's own.",
        f"Question: how far off is a prediction for a {bold('new')} subject?",
        f"  leave-one-out claims                   {loo:5.2f}   (other visits of the subject stay)",
        f"  leave-one-subject-out, basis removed   {claim:5.2f}   ± {story['group_se']:.2f}",
        f"  the truth, on {N_NEW:,} new subjects       {truth:5.2f}",
        f"  with the penalty leave-one-out chose   {story['loo_truth']:5.2f}   "
        f"({story['loo_truth'] / loo:.1f} × its claim)",
        "± is one standard error. "
        f"Each of the {story['experiments']} experiments × 30 penalties is exact: "
        f"{story['verified']} retrained for real, deviation {story['deviation']:.0e}.",
        f"Report: {report}",
        f"The same from the shell: holdfast cv {data} --target score --group subject "
        f"--basis {N_BASIS} --gamma features",
    ]
    print("\n".join(lines))
    return 0


def tell(seed: int) -> dict[str, Any]:
    """Return the numbers of the story for one seed."""
    from sklearn.model_selection import LeaveOneGroupOut
    from sklearn.preprocessing import StandardScaler

    from holdfast import KernelRidgeCV

    study = make_study(N_SUBJECTS, N_VISITS, seed)
    new = make_study(N_NEW, 3, seed + 1000)
    scaler = StandardScaler().fit(study.X)
    X, X_new = scaler.transform(study.X), scaler.transform(new.X)
    model = KernelRidgeCV(cv=LeaveOneGroupOut(), basis=N_BASIS, random_state=0)
    model.fit(X, study.y, groups=study.subject)
    loo = KernelRidgeCV(basis=model.basis_indices_).fit(X, study.y)
    found = model.verify(5)
    error = float(np.sqrt(-model.best_score_))
    return {
        "study": study,
        "model": model,
        "group_error": error,
        "group_se": float(model.cv_results_["se_test_score"][model.best_index_]) / (2 * error),
        "loo_error": float(np.sqrt(-loo.best_score_)),
        "truth": _rmse(new.y, model.predict(X_new)),
        "loo_truth": _rmse(new.y, loo.predict(X_new)),
        "experiments": model.n_splits_,
        "verified": found.experiments.size,
        "deviation": found.max_relative_error,
    }


def _rmse(y: Any, prediction: Any) -> float:
    return float(np.sqrt(np.mean((y - prediction) ** 2)))


def _write_report(folder: Path, story: dict[str, Any], data: str) -> Path:
    from holdfast.report import Context, summarise, write_report
    from holdfast.report.answer import Contrast

    context = Context(
        title="A made-up study: how well would a new subject be predicted?",
        target="score",
        feature_names=FEATURES,
        group="subject",
        preparation=("Columns of numbers were centred and scaled to standard deviation 1.",),
        command=f"holdfast demo --out {folder}",
        data=data,
    )
    model = story["model"]
    summary = summarise(model, context)
    # Only a made-up study knows the truth; it belongs beside what was claimed.
    truth = Contrast(
        f"truth: {N_NEW:,} new subjects", story["truth"], model.alpha_, asked=False, truth=True
    )
    summary = dataclasses.replace(summary, contrasts=(*summary.contrasts, truth))
    path = folder / "report.html"
    write_report(summary, path)
    return path
