"""From the arguments of a function of scikit-learn to what it is run with.

`Job.of` describes the estimator, makes the splits and predicts all test rows; the function is then
run with a stand-in that knows these predictions. Where there is no closed form it is run with what
the user gave, and one warning says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from joblib import hash as content_hash
from sklearn.base import clone

from holdfast._typing import FloatArray
from holdfast.exceptions import HoldfastWarning, warn
from holdfast.model_selection.description import Description, Refit, describe, refits_errors
from holdfast.model_selection.problem import penalties_of
from holdfast.model_selection.question import Question, number_of_rows
from holdfast.model_selection.stand_in import Answers, on_rows

#: Numbers that held-out predictions of all candidates may take (1 GB).
MOST_DOUBLES = 2**27


def answers_of(
    question: Question, candidates: Sequence[Mapping[str, Any]] = ({},), *, everything: bool = False
) -> Answers:
    """Return the held-out predictions of all candidates in all splits.

    A candidate is what differs from the parameters of the estimator; those that differ in the
    penalty only share one smoother. With `everything`, the rows that a split trains on are
    predicted too.
    """
    experiments = question.splits.experiments(everything=everything)
    described = [_with(question, candidate) for candidate in candidates]
    shared: dict[str, list[int]] = {}
    for i, candidate in enumerate(candidates):
        shared.setdefault(_all_but_penalty(candidate, described[i]), []).append(i)
    values: list[FloatArray] = [np.empty(0)] * len(candidates)
    problem = None
    for members in shared.values():
        problem = question.problem(described[members[0]])
        if len(candidates) * experiments.test.values.size * problem.Y.shape[1] > MOST_DOUBLES:
            raise Refit("predictions of all candidates and splits would take more than 1 GB")
        penalties = np.stack([penalties_of(described[i], problem) for i in members])
        for i, found in zip(members, problem.held_out(experiments, penalties), strict=True):
            values[i] = found
    assert problem is not None
    return Answers(question, problem, experiments, values, candidates)


@refits_errors
def _with(question: Question, candidate: Mapping[str, Any]) -> Description:
    if not candidate:
        return question.described
    return describe(clone(question.estimator).set_params(**candidate))


def _all_but_penalty(candidate: Mapping[str, Any], described: Description) -> str:
    """Return what all candidates have in common that differ in the penalty only."""
    path = ["regressor"] if described.target is not None else []
    penalty = "__".join([*path, described.name, "alpha"] if described.name else [*path, "alpha"])
    others = {name: value for name, value in candidate.items() if name != penalty}
    try:
        return str(content_hash((others, described.kernel is None)))
    except Exception as error:  # a parameter that cannot be pickled
        raise Refit("a parameter of the estimator cannot be compared") from error


@dataclass(frozen=True, eq=False)
class Job:
    """What a function of scikit-learn is run with: a stand-in that knows its predictions.

    Where there is no closed form, `given` is what the user gave, and `cause` is an error that
    scikit-learn is expected to raise, too.
    """

    name: str
    given: Mapping[str, Any]
    answers: Answers | None = None
    cause: Refit | None = None

    @classmethod
    def of(
        cls,
        name: str,
        given: Mapping[str, Any],
        candidates: Sequence[Mapping[str, Any]] = ({},),
        *,
        everything: bool = False,
        refit: Refit | None = None,
    ) -> Self:
        """Return what the function of this name is run with; `refit` is known to be in the way."""
        try:
            if refit is not None:
                raise refit
            question = Question.of(given)
            given = {**given, "cv": question.splits}  # an iterator or a draw happens once
            answers = answers_of(question, candidates, everything=everything)
        except Refit as found:
            return cls.left(name, given, found)
        own = {
            "estimator": answers.stand_in(),
            "X": np.arange(number_of_rows(question.X))[:, None],
            "y": question.y,
            "n_jobs": 1,
            "scoring": on_rows(given.get("scoring")),
        }
        return cls(name, {**given, **{key: v for key, v in own.items() if key in given}}, answers)

    @classmethod
    def left(cls, name: str, given: Mapping[str, Any], refit: Refit) -> Self:
        """Return a job that is left to scikit-learn, and warn that it is."""
        if refit.reason:
            warn(
                f"{name} is left to scikit-learn, which refits the model for every split: there is "
                f"no closed form, since {refit.reason}.",
                HoldfastWarning,
            )
        return cls(name, given, cause=None if refit.reason else refit)

    def run(self, function: Callable[..., Any]) -> Any:
        """Return what a function of scikit-learn says."""
        found = function(**self.given)
        if self.cause is not None:  # scikit-learn was expected to raise an error
            cause = str(self.cause.__cause__ or "of its arguments").split("\n")[0].rstrip(".")
            warn(
                f"{self.name} was left to scikit-learn, which refitted the model for every split, "
                f"because {cause}.",
                HoldfastWarning,
            )
        return found
