"""A made-up study in which rows of one subject resemble each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEATURES", "Study", "make_study"]

FEATURES = ("age", "height", "resting_pulse", "voice_pitch", "jitter", "dose")


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
