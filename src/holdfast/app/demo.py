"""The demonstration: a made-up study where holding out single rows is badly wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLUMNS", "make_study", "tell_story"]

COLUMNS = ("age", "height", "resting_pulse", "voice_pitch", "jitter", "dose")

# Any seed tells the same story; the tests run others.
_SEED, _SUBJECTS, _VISITS, _NEW = 3, 60, 12, 1000


def make_study(
    n_subjects: int, n_visits: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.str_]]:
    """Return measurements, symptom scores and subjects of a study.

    Parameters
    ----------
    n_subjects, n_visits : int
        Sizes.
    seed : int
        Of the random numbers.

    Notes
    -----
    The score is ``40 + 6·level(subject) + 3·jitter + 4·dose + noise``, where the level has nothing
    to do with the traits. The traits identify the subject, so a model that has seen other rows of
    a subject can look its level up; for a new subject there is nothing to look up.
    """
    rng = np.random.default_rng(seed)
    traits, level = rng.normal(size=(n_subjects, 4)), rng.normal(size=n_subjects)
    who = np.repeat(np.arange(n_subjects), n_visits)
    visit = rng.normal(size=(len(who), 2))
    X = np.hstack([traits[who] + 0.05 * rng.normal(size=(len(who), 4)), visit])
    y = 40 + 6 * level[who] + 3 * visit[:, 0] + 4 * visit[:, 1] + 1.5 * rng.normal(size=len(who))
    centre, unit = np.array([60, 170, 70, 150, 0.6, 5]), np.array([9, 9, 8, 40, 0.2, 2])
    return X * unit + centre, y, np.array([f"S{i + 1:02d}" for i in range(n_subjects)])[who]


def tell_story(folder: Path, tell: Callable[[str], None], seed: int = _SEED) -> str:
    """Write the study and its page into a folder, and return the story in a few lines."""
    import pandas as pd

    from holdfast.app.columns import make_task, suspicions
    from holdfast.app.findings import findings_of
    from holdfast.app.fitting import Clock, Settings, answer_of
    from holdfast.app.page import page_of
    from holdfast.app.reading import read_table

    X, y, subject = make_study(_SUBJECTS, _VISITS, seed)
    frame = pd.DataFrame(
        {"subject": subject, **dict(zip(COLUMNS, X.T.round(4), strict=True)), "score": y.round(4)}
    )
    data, report = folder / "study.csv", folder / "report.html"
    frame.to_csv(data, index=False)
    task = make_task(read_table(str(data)), "score", group="subject")
    answer = answer_of(task, Settings(), None, suspicions(task), Clock(60.0, tell))
    command = f"holdfast cv {data} --target score --group subject --report {report}"
    report.write_text(page_of(findings_of(answer, command), answer), encoding="utf-8")
    X_new, y_new, _ = make_study(_NEW, 3, seed + 1000)
    new = task.preparation.transform(pd.DataFrame(dict(zip(COLUMNS, X_new.T, strict=True))))
    truth = float(np.sqrt(np.mean((answer.fit.model.predict(np.asarray(new)) - y_new) ** 2)))
    single = next(c.value for c in answer.contrasts if c.kind == "single")
    return "\n".join([
        f"A made-up study: {_SUBJECTS} subjects, {_VISITS} visits each. Age, height and voice",
        "identify the subject; the score depends on dose, jitter and each subject's own level.",
        "How far off is a prediction for a new subject?",
        f"  single rows held out      {single:5.2f}   other visits stay: too good to be true",
        f"  whole subjects held out   {answer.fit.value:5.2f}",
        f"  the truth                 {truth:5.2f}   on {_NEW:,} new subjects",
        f"The page: {report}",
        f"The same from the shell: {command}",
    ])  # fmt: skip
