"""From the arguments of a function of scikit-learn to the answers that it needs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import hash as content_hash
from sklearn import get_config
from sklearn.base import clone, is_classifier
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.model_selection import GridSearchCV, LeaveOneOut, check_cv
from sklearn.utils import indexable
from sklearn.utils.metadata_routing import get_routing_for_object

from holdfast._typing import FloatArray
from holdfast.core.experiments import Experiments
from holdfast.estimators.regression import KernelRidgeCV
from holdfast.exceptions import HoldfastError, HoldfastWarning, warn
from holdfast.model_selection.held_out import experiments_of, predictions
from holdfast.model_selection.recognise import Form, Refit, form_of, is_known, penalty_of
from holdfast.model_selection.stand_in import (
    Answers,
    Case,
    KnownSplits,
    LeaveOneOutSplits,
    on_rows,
    same_splits,
    stand_in,
)
from holdfast.model_selection.transformers import (
    Parts,
    parts_of,
    standardised,
    transformed,
    transformed_targets,
    weights_of,
)

__all__ = [
    "Job",
    "case_of",
    "form_and_penalty",
    "job_of",
    "refitting",
    "routed",
    "with_closed_forms_inside",
]

#: Numbers that held-out predictions of all candidates may take (1 GB).
MOST_DOUBLES = 2**27
#: Leave-one-out of more rows is never kept as pairs of training and test rows.
MANY_ROWS = 1000


def routed() -> bool:
    """Whether scikit-learn routes metadata by request."""
    return bool(get_config()["enable_metadata_routing"])


@dataclass(frozen=True, eq=False)
class Job:
    """What a function of scikit-learn is run with: stand-ins that know their predictions.

    Where there is no closed form, `given` is what the user gave, and `refit` says why.
    """

    name: str
    given: Mapping[str, Any]
    answers: Answers | None = None
    refit: Refit | None = None

    def run(self, function: Callable[..., Any], jobs: Mapping[str, Any], **arguments: Any) -> Any:
        """Return what a function says; `jobs` are arguments that matter for refits only."""
        if self.answers is None:
            found = function(**self.given, **jobs, **arguments)
            self.tell_late()
            return found
        if "scoring" in arguments:
            arguments["scoring"] = on_rows(arguments["scoring"], self.answers.case)
        return function(**self.given, **arguments)

    def tell_late(self) -> None:
        """Warn if scikit-learn refitted where it was expected to raise an error."""
        if self.refit is not None and not self.refit.reason and self.refit.instead is None:
            cause = str(self.refit.__cause__ or "of its arguments").split("\n")[0].rstrip(".")
            warn(
                f"{self.name} was left to scikit-learn, which refitted the model for every split, "
                f"because {cause}.",
                HoldfastWarning,
            )


def job_of(
    name: str,
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any,
    cv: Any,
    params: Mapping[str, Any] | None,
    candidates: Sequence[Mapping[str, Any]] = ({},),
    *,
    everything: bool = False,
    refit: Refit | None = None,
) -> Job:
    """Return what the function of this name is run with; a known `refit` asks for nothing else."""
    case = None
    try:
        if refit is not None:
            raise refit
        case = case_of(estimator, X, y, groups, cv, params)
        answers = answers_of(case, candidates, everything=everything)
    except Refit as found:
        return refitting(name, found, estimator, X, y, same_splits(case, cv))
    numbers, splits = np.arange(len(case))[:, None], KnownSplits(case.cv, case.splits)
    given = {"estimator": stand_in(answers), "X": numbers, "y": case.y, "cv": splits}
    return Job(name, given, answers)


def refitting(name: str, refit: Refit, estimator: Any, X: Any, y: Any, cv: Any) -> Job:
    """Return a job that is left to scikit-learn, and warn that it is."""
    if refit.reason:
        warn(
            f"{name} is left to scikit-learn, which refits the model for every split: there is no "
            f"closed form, since {refit.reason}.",
            HoldfastWarning,
        )
    given = {"estimator": refit.instead or estimator, "X": X, "y": y, "cv": cv}
    return Job(name, given, refit=refit)


def with_closed_forms_inside(estimator: Any) -> Any:
    """Return a `GridSearchCV` or a `RidgeCV` with folds as one that refits nothing inside.

    None for other estimators. Every outer split fits it; the leave-one-out of `RidgeCV` has a
    closed form in scikit-learn already.
    """
    from holdfast.model_selection import search  # which asks this module, too

    if isinstance(estimator, search.GridSearchCV | search.RidgeCV):
        return estimator
    folds = type(estimator) is RidgeCV and estimator.cv is not None and not routed()
    if folds or type(estimator) is GridSearchCV:
        kind = search.RidgeCV if folds else search.GridSearchCV
        return clone(kind(**estimator.get_params(deep=False)))
    return None


def case_of(
    estimator: Any, X: Any, y: Any, groups: Any, cv: Any, params: Mapping[str, Any] | None
) -> Case:
    """Return what is asked, with the splits made."""
    params = {} if params is None else params
    if (inside := with_closed_forms_inside(estimator)) is not None:
        raise Refit(instead=inside)
    parts = parts_of(estimator)
    if type(estimator) in (RidgeCV, RidgeClassifierCV):
        raise Refit(f"{type(estimator).__name__} chooses its penalty in every split")
    if not (is_known(parts.model) or type(estimator) is KernelRidgeCV):
        raise Refit(f"{type(parts.model).__name__} is not a linear smoother that holdfast knows")
    if y is None or (routed() and groups is not None):
        raise Refit
    try:
        X, y = indexable(X, y)
        splitter = check_cv(cv, y, classifier=is_classifier(estimator))
        asked = _split_params(splitter, params) if routed() else {"groups": groups}
        splits = _made(splitter, X, y, asked)
    except Exception as error:  # whatever it is, scikit-learn says it better
        raise Refit from error
    return Case(estimator, X, y, params, splitter, splits)


def _made(splitter: Any, X: Any, y: Any, asked: Mapping[str, Any]) -> Sequence[Any]:
    """Return the splits; those of single rows, if they are many, are made when they are needed."""
    m = X.shape[0] if hasattr(X, "shape") else len(X)
    if type(splitter) is LeaveOneOut and m > MANY_ROWS:
        return LeaveOneOutSplits(m)
    return list(splitter.split(X, y, **asked))


def _split_params(splitter: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a splitter has asked for, under metadata routing."""
    found = {}
    for name, asked in get_routing_for_object(splitter).split.requests.items():
        key = name if asked is True else asked
        if isinstance(key, str) and params.get(key) is not None:
            found[name] = params[key]
    return found


def answers_of(
    case: Case, candidates: Sequence[Mapping[str, Any]] = ({},), *, everything: bool = False
) -> Answers:
    """Return the held-out predictions of all candidates in all splits.

    A candidate is what differs from the parameters of the estimator; those that differ in the
    penalty only share one smoother. With `everything`, the rows that a split trains on are
    predicted too.
    """
    experiments = experiments_of(case.splits, len(case), everything)
    if type(case.estimator) is KernelRidgeCV:
        return _nested(case, candidates, experiments, everything)
    kinds: dict[str, list[int]] = {}
    models = [_with(case.estimator, candidate) for candidate in candidates]
    parts = [parts_of(model) for model in models]
    for i, own in enumerate(parts):
        kinds.setdefault("" if len(parts) == 1 else _kind(own), []).append(i)
    values: list[FloatArray] = [np.empty(0)] * len(candidates)
    rows = _Rows(case)
    form = None
    for members in kinds.values():
        form = _form(case, parts[members[0]], rows)
        penalties = np.stack([penalty_of(parts[i].model, form) for i in members])
        if len(candidates) * experiments.test.values.size * form.Y.shape[1] > MOST_DOUBLES:
            raise Refit("predictions of all candidates and splits would take more than 1 GB")
        for i, found in zip(members, predictions(form, experiments, penalties), strict=True):
            values[i] = found if form.inverse is None else form.inverse(found)
    assert form is not None
    return Answers(case, experiments, values, form.flat, form.classes, candidates)


def _nested(
    case: Case, candidates: Sequence[Mapping[str, Any]], experiments: Experiments, everything: bool
) -> Answers:
    """Return the held-out predictions of a `KernelRidgeCV` that chooses in every split."""
    if everything:
        raise Refit("KernelRidgeCV chooses in every split, and training rows are to be scored too")
    values, flat = [], True
    for candidate in candidates:
        model = _with(case.estimator, candidate)
        _require_same_choice(model)
        weights = weights_of(parts_of(model), case.fit_params, routed=routed()).model
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HoldfastWarning)  # about a choice that is not used
                fitted = clone(model).fit(case.X, case.y, sample_weight=weights)
                found = fitted.nested(list(experiments))
        except HoldfastError as error:
            raise Refit(f"KernelRidgeCV.nested does not answer it ({error})") from error
        values.append(np.concatenate([np.asarray(part) for part in found.predictions]))
        flat = fitted.dual_coef_.ndim == 1
    return Answers(case, experiments, values, flat, None, candidates)


def _require_same_choice(model: KernelRidgeCV) -> None:
    """Refuse a model whose grid or basis comes from the rows of each fit."""
    if model.alphas is None or isinstance(model.gamma, str):
        raise Refit(
            "KernelRidgeCV makes its grid from the rows of each split; given alphas and gamma "
            "have a closed form"
        )
    if model.basis is not None:
        raise Refit("KernelRidgeCV draws its basis rows from the rows of each split")


def form_and_penalty(case: Case) -> tuple[Form, FloatArray]:
    """Return the smoother of the estimator as it is, and the penalty of each target (v,)."""
    parts = parts_of(case.estimator)
    form = _form(case, parts, _Rows(case))
    return form, penalty_of(parts.model, form)


def _form(case: Case, parts: Parts, rows: _Rows) -> Form:
    """Return the smoother of a pipeline on the rows of a case."""
    weights = weights_of(parts, case.fit_params, routed=routed())
    y, inverse = case.y, None
    if parts.target is not None:
        y, inverse = transformed_targets(parts.target, y)
    form = replace(form_of(parts.model, rows(parts), y, weights.model), inverse=inverse)
    if parts.scaler is not None:
        form = standardised(form, parts.scaler, weights)
    if form.classes is not None:
        _require_two_classes(case)
    return form


def _with(estimator: Any, params: Mapping[str, Any]) -> Any:
    if not params:
        return estimator
    try:
        return clone(estimator).set_params(**params)
    except Exception as error:  # whatever it is, scikit-learn says it better
        raise Refit from error


def _kind(parts: Parts) -> str:
    """Return what all candidates have in common that differ in the penalty only."""
    own = parts.model.get_params(deep=True)
    alpha = own.pop("alpha", None)
    zero = np.ndim(alpha) == 0 and alpha == 0
    steps = [(type(step), step.get_params(deep=True)) for step in parts.before]
    scaler = None if parts.scaler is None else parts.scaler.get_params()
    try:
        return str(content_hash((type(parts.model), own, zero, steps, scaler)))
    except Exception as error:  # a parameter that cannot be pickled
        raise Refit("a parameter of the estimator cannot be compared") from error


class _Rows:
    """Rows after the transformers, which are applied once for all candidates that share them."""

    def __init__(self, case: Case) -> None:
        self._case, self._last, self._rows = case, None, case.X

    def __call__(self, parts: Parts) -> Any:
        if not parts.before:
            return self._case.X
        key = content_hash([(type(step), step.get_params(deep=True)) for step in parts.before])
        if key != self._last:
            self._last, self._rows = key, transformed(parts.before, self._case.X, self._case.y)
        return self._rows


def _require_two_classes(case: Case) -> None:
    """Leave splits that train on one class alone to scikit-learn."""
    labels = np.asarray(case.y)
    if all(np.unique(labels[train]).size > 1 for train, _ in case.splits):
        return
    raise Refit("a split trains on a single class")
