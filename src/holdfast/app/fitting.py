"""Fits within a time budget, and what each doubt about the data does to the score.

A fit climbs a ladder of basis sizes: the width is searched on the first rung, and each rung takes
about four times as long as the one before, so what a machine can do in a minute is found by doing
it. The errors of the rungs say whether more basis rows would help.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.app.columns import Suspicion, Task
from holdfast.app.words import BadData, BadOption, count, number, percent, quoted

__all__ = [
    "Answer",
    "Clock",
    "Contrast",
    "Holding",
    "Interval",
    "Settings",
    "answer_of",
    "make_holding",
]

Array = NDArray[Any]

_LAST = "repeating the last value"
#: Sizes of the basis that are tried, in turn; then all rows, if they are not more than this.
_RUNGS = (250, 500, 1000, 2000, 4000)
_DENSE = 8000
#: Up to here all rows are the first rung; from here on the width is searched on some of them.
_SMALL, _MANY = 700, 20_000
#: A larger basis that brings less than this is the last.
_WORTH = 0.003


@dataclass(frozen=True)
class Settings:
    """What the command line says of the model."""

    kernel: str = "rbf"
    gamma: Any = None  #: None: searched
    alphas: Any = None
    basis: int | None = None  #: None: as many rows as the time allows
    scoring: str | None = None
    level: float = 0.9
    seed: int = 0


class Clock:
    """A budget of seconds, and a listener who is told what is done with it."""

    def __init__(self, budget: float, tell: Callable[[str], None] = lambda text: None) -> None:
        self.budget, self.tell, self.started = budget, tell, time.monotonic()
        self.skipped: list[str] = []

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def left(self, share: float = 1.0) -> float:
        """Seconds until a share of the budget is spent."""
        return share * self.budget - self.spent


# --- ways of holding out --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Holding:
    """A way of holding out rows, of one task."""

    kind: str  #: "rows", "groups" or "time"
    words: str  #: What follows "held out:"
    short: str  #: The same as a label
    cv: Any
    groups: Array | None = None
    times: Array | None = None
    folds: int | None = None  #: None: each row, or group, by itself


def make_holding(
    task: Task,
    asked: str | None = None,
    *,
    groups: Array | None = None,
    times: Array | None = None,
    name: str = "",
    seed: int = 0,
) -> Holding:
    """Return the way of holding out that was asked for, or that fits the task.

    Parameters
    ----------
    task : Task
    asked : str, optional
        ``loo``, a number of folds, ``groups``, ``groups:5`` or ``time:5``.
    groups, times : ndarray, optional
        Instead of those of the task.
    name : str
        Of the groups.
    seed : int
        Of random folds.
    """
    asked = (asked or "").strip().lower()
    matched = re.fullmatch(r"(loo|groups|time)?:?(\d+)?", asked)
    if not matched:
        raise BadOption(f"--cv: {asked!r} is none of loo, 10, groups, groups:5, time:5.")
    kind, folds = matched[1], int(matched[2]) if matched[2] else None
    groups = task.groups if groups is None else groups
    times = task.times if times is None else times
    name = name or (task.group or "group")
    if kind is None and folds is None:
        if groups is not None and times is not None:
            raise BadOption(
                "--group and --time both say how to hold out: add --cv groups or time:5."
            )
        kind = "groups" if groups is not None else "time" if times is not None else None
    if kind == "groups" and groups is None:
        raise BadOption(
            "--cv groups needs --group, the column that says which rows belong together."
        )
    if folds is not None and folds < 2:
        raise BadOption(f"--cv: at least 2 folds are needed; got {folds}.")
    if kind == "time":
        return _steps(task, times, folds or 5)
    if kind != "loo" and groups is not None:
        return _of_groups(groups, name, folds)
    return _of_rows(task, kind, folds, seed)


def fold_cv(kind: str, folds: int | None, times: Any, seed: int, *, classify: bool) -> Any:
    """Return the splitter of a way of holding out; None: each row by itself."""
    from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, StratifiedKFold

    from holdfast.splitters import TimeSteps

    if kind == "time":
        return TimeSteps(times, folds or 5)
    if kind == "groups":
        return LeaveOneGroupOut() if folds is None else GroupKFold(folds)
    if folds is None:
        return None
    kfold = StratifiedKFold if classify else KFold
    return kfold(folds, shuffle=True, random_state=seed)


def _steps(task: Task, times: Array | None, folds: int) -> Holding:
    m = len(task.y)
    times = np.arange(m, dtype=float) if times is None else times
    if m < 2 * (folds + 1):
        raise BadOption(f"--cv time:{folds}: {count(m, 'row')} are too few for {folds} steps.")
    words = f"{folds} steps in time, each predicted from what came before"
    cv = fold_cv("time", folds, times, 0, classify=False)
    return Holding("time", words, "later rows", cv, times=times, folds=folds)


def _of_groups(groups: Array, name: str, folds: int | None) -> Holding:
    n = len(np.unique(groups))
    if folds is None and n > 1000:
        folds = 20
    if folds is not None and folds > n:
        raise BadOption(f"--cv: {folds} folds need as many groups; there are {n}.")
    words = f"one {quoted(name)} at a time, with all its rows"
    if folds is not None:
        words = f"{folds} folds of whole {quoted(name)}s"
    cv = fold_cv("groups", folds, None, 0, classify=False)
    return Holding("groups", words, f"whole {name}s", cv, groups=groups, folds=folds)


def _of_rows(task: Task, kind: str | None, folds: int | None, seed: int) -> Holding:
    m = len(task.y)
    if m < 3:
        raise BadData(f"{count(m, 'row')} with a target: too few to hold any out.")
    if folds is None and (kind == "loo" or not task.classify):
        return Holding("rows", "one row at a time, by a model of all others", "single rows", None)
    there, what = m, "rows"
    if task.classify:
        there = int(np.unique(task.y, return_counts=True)[1].min())
        what = "rows of each class"
        folds = folds or min(10, there)
    assert folds is not None
    if folds > there:
        raise BadOption(f"--cv: {folds} folds need as many {what}; there are {there:,}.")
    cv = fold_cv("rows", folds, None, seed, classify=task.classify)
    return Holding("rows", f"{folds} random folds", f"{folds} random folds", cv, folds=folds)


# --- one fit --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model and what it predicted for rows that it had not seen."""

    model: Any
    held: Any  #: Its held-out predictions, at its penalty
    error: float  #: In the measure of the command; smaller is better
    value: float  #: The same as it is shown
    rungs: list[tuple[int, float, float]] = field(default_factory=list)  #: Basis, error, seconds
    messages: list[str] = field(default_factory=list)

    @property
    def basis(self) -> int:
        """How many basis rows the model has."""
        return int(np.size(self.model.basis_indices_))


def _criterion(task: Task, settings: Settings) -> str | None:
    """Return what penalty and width are chosen by."""
    if settings.scoring or not task.classify:
        return settings.scoring
    # Accuracy is flat, and blind where one class is rare; how rows are ranked is neither.
    return "roc_auc" if len(np.unique(task.y)) == 2 else None


def _model(task: Task, holding: Holding, settings: Settings, basis: int | None, gamma: Any) -> Any:
    from holdfast import KernelRidgeClassifierCV, KernelRidgeCV

    common: dict[str, Any] = {
        "gamma": gamma,
        "alphas": settings.alphas,
        "basis": basis,
        "cv": holding.cv,
        "scoring": _criterion(task, settings),
        "random_state": settings.seed,
    }
    if task.classify:
        return KernelRidgeClassifierCV(settings.kernel, calibration="sigmoid", **common)
    return KernelRidgeCV(settings.kernel, **common)


def _fit(
    task: Task,
    holding: Holding,
    settings: Settings,
    basis: int | None,
    gamma: Any,
    measure: Measure,
) -> Fit:
    from holdfast.exceptions import HoldfastWarning

    model = _model(task, holding, settings, basis, gamma)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(task.X, task.y, sample_weight=task.weights, groups=holding.groups)
        held = model.held_out(alphas=np.atleast_1d(model.alpha_)[:1])
    messages = [str(w.message) for w in caught if issubclass(w.category, HoldfastWarning)]
    value = measure.value(task, holding, model, held)
    return Fit(model, held, -value if measure.higher_is_better else value, value, messages=messages)


def _widths(settings: Settings, gamma: float | None, *, few: bool) -> Any:
    """Return the widths to compare: those asked for, all, or some from the best so far on."""
    if settings.kernel not in ("rbf", "laplacian"):
        return settings.gamma
    if settings.gamma is not None:
        return settings.gamma
    if gamma is None:
        return "search"
    # More basis rows can follow finer detail.
    return [gamma, 2 * gamma] if few else [gamma / 2, gamma, 2 * gamma, 4 * gamma]


def climb(
    task: Task,
    holding: Holding,
    settings: Settings,
    measure: Measure,
    clock: Clock,
    until: float,
    make: Callable[[Task], Holding],
) -> Fit:
    """Return the best fit that the time allows: until a share of the budget is spent."""
    m = len(task.y)
    if settings.kernel == "linear":
        return _fit(task, holding, settings, None, settings.gamma, measure)
    if settings.basis is not None:
        basis = None if settings.basis >= m else settings.basis
        return _fit(task, holding, settings, basis, _widths(settings, None, few=False), measure)
    rungs: list[int | None] = [n for n in _RUNGS if n < 0.7 * m] if m > _SMALL else []
    if m <= _DENSE:
        rungs.append(None)
    gamma = None
    if m > _MANY:
        clock.tell("searching the width on some of the rows")
        some = task.some(np.sort(np.random.default_rng(settings.seed).permutation(m)[:_MANY]))
        found = _fit(
            some, make(some), settings, rungs[0], _widths(settings, None, few=False), measure
        )
        gamma = _gamma(found.model)
    best: Fit | None = None
    done: list[tuple[int, float, float]] = []
    seconds, size, worth = 0.0, 1, 1.0
    for step, basis in enumerate(rungs):
        n = basis or m
        widths = _widths(settings, gamma, few=step > 1 or m > _MANY)
        tries = 8 if isinstance(widths, str) else np.size(widths)
        if best is not None:
            expected = seconds * tries * (n / size) ** 2 * (1.5 if basis is None else 1.0)
            if expected > clock.left(until):
                clock.skipped.append(f"{n:,} basis rows (about {expected:.0f} s)")
                break
            if worth < _WORTH and size >= min(1000, m // 4):
                break
        clock.tell(f"fitting with {n:,} basis rows" if basis else f"fitting {m:,} rows")
        start = time.monotonic()
        found = _fit(task, holding, settings, basis, widths, measure)
        took = time.monotonic() - start
        done.append((n, found.error, took))
        if best is not None:
            worth = (best.error - found.error) / (abs(best.error) or 1.0)
        if best is None or found.error <= best.error:
            best = found
        gamma = _gamma(found.model) or gamma
        seconds, size = took / tries, n
    assert best is not None
    return Fit(best.model, best.held, best.error, best.value, done, best.messages)


def _gamma(model: Any) -> float | None:
    value = model.best_params_.get("gamma")
    return None if value is None else float(value)


# --- measures -------------------------------------------------------------------------------------

_NAMES = {
    "neg_mean_squared_error": "mean squared error",
    "neg_mean_absolute_error": "mean absolute error",
    "neg_median_absolute_error": "median absolute error",
    "neg_root_mean_squared_error": "RMSE",
    "neg_log_loss": "log loss",
    "neg_brier_score": "Brier score",
    "r2": "R²",
    "roc_auc": "AUC",
    "roc_auc_ovr": "AUC (one class against the rest)",
    "kendall_tau": "Kendall's τ",
    "explained_variance": "explained variance",
}
_SHARES = ("accuracy", "balanced_accuracy", "precision", "recall")


@dataclass(frozen=True)
class Measure:
    """The score that the answer is about."""

    scoring: str | None  #: As it was asked for; None: RMSE, or the log loss of probabilities
    classify: bool

    @property
    def name(self) -> str:
        """What it is called."""
        if self.scoring is None:
            return "log loss" if self.classify else "RMSE"
        plain = self.scoring.removeprefix("neg_").replace("_", " ")
        return _NAMES.get(self.scoring, plain)

    @property
    def higher_is_better(self) -> bool:
        """Whether it is a score, not an error."""
        return self.scoring is not None and not self.scoring.startswith("neg_")

    def shown(self, value: float) -> str:
        """Return a value as it is written."""
        if self.scoring in _SHARES:
            return percent(value)
        if self.scoring in ("roc_auc", "r2", "kendall_tau", "concordance"):
            return f"{value:.3f}"
        return number(value)

    def value(self, task: Task, holding: Holding, model: Any, held: Any) -> float:
        """Return the value for held-out predictions."""
        if self.scoring is not None:
            score = float(np.ravel(model.best_score_)[0])
            return score if self.higher_is_better else -score
        truth, w = task.y[held.rows], _weights_of(task, held.rows)
        if not self.classify:
            return float(np.sqrt(np.average((truth - held.values[0, :, 0]) ** 2, weights=w)))
        P, classes = probabilities(task, holding, held)
        return log_loss(truth, P, classes, w)

    def baseline(self, task: Task, holding: Holding, held: Any) -> float | None:
        """Return the value of predictions that use no column; None if that has no meaning."""
        if self.scoring is None:
            truth, w = task.y[held.rows], _weights_of(task, held.rows)
            naive = naive_predictions(task, holding, held)
            if not self.classify:
                return float(np.sqrt(np.average((truth - naive) ** 2, weights=w)))
            return log_loss(truth, naive, np.unique(task.y), w)
        from sklearn.dummy import DummyClassifier, DummyRegressor
        from sklearn.metrics import get_scorer

        if self.scoring == "kendall_tau":
            return 0.0
        if self.scoring == "concordance":
            return 0.5
        try:
            scorer = get_scorer(self.scoring)
            dummy = DummyClassifier(strategy="prior") if self.classify else DummyRegressor()
            blank = np.zeros((len(task.y), 1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                score = float(scorer(dummy.fit(blank, task.y), blank, task.y))
        except (ValueError, TypeError):
            return None
        return score if self.higher_is_better else -score


def _weights_of(task: Task, rows: Array) -> Array | None:
    return None if task.weights is None else task.weights[rows]


def log_loss(labels: Array, P: Array, classes: Array, weights: Array | None = None) -> float:
    """Return the mean of −log of the probability that the right class was given."""
    found = P[np.arange(len(labels)), np.searchsorted(classes, labels)]
    return float(np.average(-np.log(np.clip(found, 1e-12, 1.0)), weights=weights))


def naive_predictions(task: Task, holding: Holding, held: Any) -> Array:
    """Return predictions of the training rows' mean, or of their shares of classes."""
    rows, experiment = held.rows, held.experiments.test.owners
    m = len(task.y)
    w = np.ones(m) if task.weights is None else task.weights
    classes = np.unique(task.y) if task.classify else None
    Y = task.y[:, None] if classes is None else (task.y[:, None] == classes).astype(float)
    Y = Y.astype(float)
    if holding.kind == "time":
        assert holding.times is not None
        made = np.empty((len(rows), Y.shape[1]))
        for e in np.unique(experiment):
            here = experiment == e
            before = holding.times < holding.times[rows[here]].min()
            made[here] = np.average(Y[before], axis=0, weights=w[before])
    else:
        n = int(experiment.max()) + 1
        inside = np.column_stack(
            [np.bincount(experiment, w[rows] * Y[rows, j], n) for j in range(Y.shape[1])]
        )
        weight = w.sum() - np.bincount(experiment, w[rows], n)
        outside = (w @ Y)[None] - inside
        made = (outside / np.maximum(weight, 1e-300)[:, None])[experiment]
    return made[:, 0] if classes is None else made


def last_value(task: Task, holding: Holding, held: Any) -> Array:
    """Return, for every tested row, the target of the row just before the training rows end."""
    assert holding.times is not None
    order = np.argsort(holding.times, kind="stable")
    made = np.empty(len(held.rows))
    owners = held.experiments.test.owners
    for e in np.unique(owners):
        here = owners == e
        before = order[holding.times[order] < holding.times[held.rows[here]].min()]
        made[here] = task.y[before[-1]]
    return made


def probabilities(task: Task, holding: Holding, held: Any) -> tuple[Array, Array]:
    """Return probabilities of the classes for the tested rows, and the classes.

    A sigmoid per class on held-out decisions, learned without the rows that it is applied to.
    """
    from sklearn.model_selection import GroupKFold, StratifiedKFold

    classes, labels = np.unique(task.y), task.y[held.rows]
    decisions = held.values[0]
    if holding.groups is not None:
        groups = holding.groups[held.rows]
        k = min(5, len(np.unique(groups)))
        splits = list(GroupKFold(k).split(decisions, labels, groups)) if k > 1 else []
    else:
        least = int(np.unique(labels, return_counts=True)[1].min())
        folds = StratifiedKFold(max(2, min(5, least)), shuffle=True, random_state=0)
        splits = list(folds.split(decisions, labels)) if least > 1 else []
    everything = np.arange(len(labels))
    P = np.empty((len(labels), decisions.shape[1]))
    for train, test in splits or [(everything, everything)]:
        for j in range(decisions.shape[1]):
            positive = labels[train] == (classes[1] if len(classes) == 2 else classes[j])
            P[test, j] = _sigmoid(decisions[train, j], positive, decisions[test, j])
    if len(classes) == 2:
        return np.column_stack([1 - P[:, 0], P[:, 0]]), classes
    total = P.sum(axis=1, keepdims=True)
    return np.where(total > 0, P / np.where(total > 0, total, 1.0), 1 / len(classes)), classes


def _sigmoid(decisions: Array, positive: Array, new: Array) -> Array:
    """Return the probability that a decision value means: a sigmoid that never falls."""
    from sklearn.linear_model import LogisticRegression

    share = (positive.sum() + 1) / (len(positive) + 2)
    scale = float(np.std(decisions)) or 1.0
    if positive.all() or not positive.any():
        return np.full(len(new), share)
    fitted = LogisticRegression(C=100.0).fit(decisions[:, None] / scale, positive)
    if fitted.coef_[0, 0] <= 0:
        return np.full(len(new), share)
    return np.asarray(fitted.predict_proba(new[:, None] / scale)[:, 1])


# --- the answer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """Where a score may lie on other data of the same kind."""

    low: float
    high: float
    level: float
    units: str  #: What counts as independent


@dataclass(frozen=True)
class Contrast:
    """What another way of holding out, or another model, gives."""

    label: str
    value: float
    error: float
    kind: str  #: "this", "none", "linear", "last", "single" or the kind of a suspicion
    beside: float = float("nan")  #: The error of the same model as it was asked for
    suspicion: Suspicion | None = None

    @property
    def worse(self) -> float:
        """By what share the error is larger than that of the answer."""
        return (self.error - self.beside) / (abs(self.beside) or 1.0)


@dataclass(frozen=True, eq=False)
class Answer:
    """All that was found out."""

    task: Task
    holding: Holding
    settings: Settings
    measure: Measure
    fit: Fit
    baseline: float | None
    interval: Interval | None
    contrasts: list[Contrast]
    suspicions: list[Suspicion]  #: Those that were not measured
    optimism: float | None  #: By how much choosing on the same rows flatters the score
    importance: list[tuple[str, float]]  #: Columns, and the error when their values change rows
    importance_base: float  #: The error before they do, in the same folds
    verified: Any
    clock: Clock

    @property
    def truth(self) -> Array:
        """The targets of the tested rows."""
        return np.asarray(self.task.y[self.fit.held.rows])

    @property
    def predictions(self) -> Array:
        """Held-out predictions: numbers, or classes."""
        if self.task.classify:
            P, classes = self.probabilities
            return np.asarray(classes[P.argmax(axis=1)])
        return np.asarray(self.fit.held.values[0, :, 0])

    @property
    def probabilities(self) -> tuple[Array, Array]:
        """Held-out probabilities of the classes, and the classes."""
        return probabilities(self.task, self.holding, self.fit.held)


def answer_of(
    task: Task,
    settings: Settings,
    asked: str | None,
    suspected: Sequence[Suspicion],
    clock: Clock,
) -> Answer:
    """Return the answer, with all that the time allows to find out about it."""
    make = partial(make_holding, asked=asked, seed=settings.seed)
    holding = make(task)
    measure = Measure(settings.scoring, task.classify)
    _check_scoring(measure, task)
    fit = climb(task, holding, settings, measure, clock, 0.5, make)
    baseline = measure.baseline(task, holding, fit.held)
    contrasts = [Contrast("this model", fit.value, fit.error, "this", fit.error)]
    if baseline is not None:
        sign = -1 if measure.higher_is_better else 1
        label = "class shares only" if task.classify else "the mean, no columns"
        contrasts.append(Contrast(label, baseline, sign * baseline, "none", fit.error))
    contrasts += _simpler(task, holding, settings, measure, fit, clock)
    measured, unmeasured = _measured(task, holding, settings, measure, fit, suspected, clock)
    contrasts += measured
    clock.tell("asking how sure the score is")
    interval = _interval(task, holding, settings, measure, fit, clock)
    optimism = _optimism(holding, measure, fit, clock)
    clock.tell("asking what the columns are worth")
    importance, base = _importance(task, holding, measure, fit, clock)
    verified = None
    try:
        verified = fit.model.verify(3)
    except Exception:  # a check of arithmetic is no reason to lose the answer
        clock.skipped.append("the check of held-out predictions against refits")
    return Answer(
        task, holding, settings, measure, fit, baseline, interval, contrasts, unmeasured,
        optimism, importance, base, verified, clock,
    )  # fmt: skip


def _check_scoring(measure: Measure, task: Task) -> None:
    if measure.scoring is None or measure.scoring in ("kendall_tau", "concordance", "log_density"):
        return
    from sklearn.metrics import get_scorer_names

    names = get_scorer_names()
    if measure.scoring not in names:
        import difflib

        near = difflib.get_close_matches(measure.scoring, names, 3, 0.4)
        meant = f" Did you mean {', '.join(near)}?" if near else ""
        raise BadOption(f"--scoring: there is no score {measure.scoring!r}.{meant}")


def _simpler(
    task: Task, holding: Holding, settings: Settings, measure: Measure, fit: Fit, clock: Clock
) -> list[Contrast]:
    """Return what a straight line would give, and repeating the last value."""
    found = []
    m, d = task.X.shape
    if holding.kind == "time" and not task.classify and measure.scoring is None:
        error = task.y[fit.held.rows] - last_value(task, holding, fit.held)
        rmse = float(np.sqrt(np.mean(error**2)))
        found.append(Contrast(_LAST, rmse, rmse, "last", fit.error))
    if settings.kernel != "linear" and m * d * d < 1e10 and clock.left(0.6) > 0:
        plain = Settings(
            "linear", None, None, None, settings.scoring, settings.level, settings.seed
        )
        try:
            linear = _fit(task, holding, plain, None, None, measure)
        except Exception:  # a comparison is no reason to lose the answer
            return found
        found.append(Contrast("a linear model", linear.value, linear.error, "linear", fit.error))
    return found


def _measured(
    task: Task,
    holding: Holding,
    settings: Settings,
    measure: Measure,
    fit: Fit,
    suspected: Sequence[Suspicion],
    clock: Clock,
) -> tuple[list[Contrast], list[Suspicion]]:
    """Return what each suspicion does to the error, and those that were not measured."""
    found, rest = [], []
    if holding.kind == "groups":
        single = _again(
            task,
            make_holding(_plain(task), "loo" if not task.classify else None, seed=settings.seed),
            settings,
            measure,
            fit,
            clock,
        )
        if single is not None:
            other, beside = single
            found.append(
                Contrast("single rows held out", other.value, other.error, "single", beside)
            )
    for one in suspected:
        if one.kind == "code" and one.column in task.features:
            changed, way, label = (
                _read_as_missing(task, one),
                holding,
                f"{one.option[5:]} read as missing",
            )
        elif one.kind not in ("leak", "copies", "group", "time") or (
            holding.kind == "time" and one.kind == "time"
        ):
            rest.append(one)
            continue
        elif holding.kind != "rows" and one.kind in ("group", "copies", "time"):
            if one.kind != "time":
                rest.append(one)
            continue
        elif one.kind == "leak" and len(task.features) < 2:
            rest.append(one)
            continue
        elif one.kind == "leak":
            changed, way, label = task.without([one.column]), holding, f"without {one.column}"
        elif one.kind == "time":
            changed, label = task, "later rows held out"
            way = make_holding(task, "time:5", times=one.times)
        else:
            label = "copies held out together"
            changed = task
            if one.kind == "group":
                label = f"whole {one.column}s held out"
                if one.column in task.features and len(task.features) > 1:
                    changed = task.without([one.column])  # as --group would
            n = len(np.unique(np.asarray(one.groups)))
            folds = "groups" if n <= 300 else "groups:10"
            way = make_holding(task, folds, groups=one.groups, name=one.column or "copies")
        clock.tell(f"asking what changes: {label}")
        made = _again(changed, way, settings, measure, fit, clock)
        if made is None:
            clock.skipped.append(f"the error with {label}")
            rest.append(one)
        else:
            other, beside = made
            found.append(Contrast(label, other.value, other.error, one.kind, beside, one))
            if one.kind == "time" and not task.classify and measure.scoring is None:
                error = task.y[other.held.rows] - last_value(task, way, other.held)
                rmse = float(np.sqrt(np.mean(error**2)))
                found.append(Contrast(_LAST, rmse, rmse, "last", other.error))
    return found, rest


def _read_as_missing(task: Task, one: Suspicion) -> Task:
    """Return the task with a code of a column read as missing, and filled in."""
    from dataclasses import replace

    from sklearn.base import clone

    frame = task.table.frame[list(task.features)].copy()
    frame[one.column] = frame[one.column].mask(frame[one.column] == float(one.option[5:]))
    X = clone(task.preparation).fit_transform(frame)
    return replace(task, X=np.asarray(X, dtype=float))


def _plain(task: Task) -> Task:
    from dataclasses import replace

    return replace(task, groups=None, times=None, group=None, time=None)


def _again(
    task: Task, holding: Holding, settings: Settings, measure: Measure, fit: Fit, clock: Clock
) -> tuple[Fit, float] | None:
    """Return a fit of its own width and penalty, and the error of the answer at as many basis rows.

    None if there is no time, or it cannot be done.
    """
    seconds = {n: took for n, _, took in fit.rungs}
    errors = {n: error for n, error, _ in fit.rungs}
    allowed = max(clock.left(0.75), 0.0) / 3
    m = len(task.y)
    n = max((n for n in seconds if 3 * seconds[n] <= allowed), default=None)
    if n is None and fit.rungs:
        n = min(seconds)
        if seconds[n] > clock.left(0.9):
            return None
    basis = settings.basis if n is None else n
    gamma = settings.gamma
    if n is not None and m > _MANY:
        best = _gamma(fit.model)
        gamma = None if best is None else [best / 8, best / 2, best]
    gamma = _widths(settings, None, few=False) if gamma is None else gamma
    try:
        found = _fit(
            task, holding, settings, None if basis is None or basis >= m else basis, gamma, measure
        )
    except Exception:  # a comparison is no reason to lose the answer
        return None
    return found, errors.get(n, fit.error) if n is not None else fit.error


def _interval(
    task: Task, holding: Holding, settings: Settings, measure: Measure, fit: Fit, clock: Clock
) -> Interval | None:
    """Return an interval of the score, by the library where the score is one of the fit's."""
    level = settings.level
    if measure.scoring is None and task.classify:
        return _bootstrap(task, holding, measure, fit, level)
    if clock.left(0.95) < 0:
        clock.skipped.append("an interval of the score")
        return None
    partitions = 50 if fit.basis * len(task.y) < 5e6 else 5
    method = "auto" if len(task.y) <= _MANY else "asymptotic"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fit.model.score_interval(
                level, method, n_partitions=partitions, random_state=settings.seed
            )
    except Exception:  # no interval for this score, or this way of holding out
        return None
    low, high = float(np.ravel(found.low)[0]), float(np.ravel(found.high)[0])
    if measure.scoring is None:
        low, high = np.sqrt(max(0.0, -high)), np.sqrt(max(0.0, -low))
    elif not measure.higher_is_better:
        low, high = -high, -low
    if not np.isfinite([low, high]).all():
        return None
    low, high = min(low, fit.value), max(high, fit.value)
    return Interval(float(low), float(high), level, str(found.units))


def _bootstrap(
    task: Task, holding: Holding, measure: Measure, fit: Fit, level: float
) -> Interval | None:
    """Return an interval from drawing rows, or groups, again with replacement."""
    rows, labels = fit.held.rows, task.y[fit.held.rows]
    P, classes = probabilities(task, holding, fit.held)
    loss = -np.log(np.clip(P[np.arange(len(rows)), np.searchsorted(classes, labels)], 1e-12, 1.0))
    w = np.ones(len(rows)) if task.weights is None else task.weights[rows]
    if holding.kind == "time":
        unit, units = fit.held.experiments.test.owners, "steps in time"
    elif holding.groups is not None:
        unit, units = np.unique(holding.groups[rows], return_inverse=True)[1], "groups"
    else:
        unit, units = np.arange(len(rows)), "rows"
    n = int(unit.max()) + 1
    if n < 5:
        return None
    total, weight = np.bincount(unit, w * loss, n), np.bincount(unit, w, n)
    rng = np.random.default_rng(0)
    draws = [rng.multinomial(n, np.full(n, 1 / n)) for _ in range(500)]
    means = [float(d @ total) / max(float(d @ weight), 1e-300) for d in draws]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, units)


def _optimism(holding: Holding, measure: Measure, fit: Fit, clock: Clock) -> float | None:
    """Return by how much choosing penalty and width on the same rows flatters the score."""
    if holding.kind == "time" or measure.classify or measure.scoring is not None:
        return None
    took = fit.rungs[-1][2] if fit.rungs else 1.0
    from sklearn.model_selection import KFold

    if holding.groups is not None or 12 * took > clock.left(0.9):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            folds = KFold(10, shuffle=True, random_state=0)
            chosen = fit.model.nested(folds).score()
            fixed = fit.model.held_out(folds, alphas=np.atleast_1d(fit.model.alpha_)[:1]).score()
    except Exception:  # a comparison is no reason to lose the answer
        return None
    # The same folds with the choice made inside, and made once on all rows.
    inside, once = (float(np.sqrt(max(0.0, -np.ravel(each)[0]))) for each in (chosen, fixed))
    return max(0.0, inside - once)


def _importance(
    task: Task, holding: Holding, measure: Measure, fit: Fit, clock: Clock
) -> tuple[list[tuple[str, float]], float]:
    """Return the error of held-out rows when the values of a column change rows, per column.

    Five models, each without a fifth of the rows (or groups, or the last steps), by the library's
    identity: nothing is fitted again.
    """
    columns = list(dict.fromkeys(task.made_of))
    m = len(task.y)
    if m * len(columns) * fit.basis > 3e10 or clock.left(1.0) < 0 or len(columns) < 2:
        if len(columns) > 1:
            clock.skipped.append("what each column is worth")
        return [], float("nan")
    rng = np.random.default_rng(0)
    if holding.groups is not None:
        units = np.unique(holding.groups, return_inverse=True)[1]
    else:
        units = np.arange(m)
    part = rng.permutation(int(units.max()) + 1) % 5
    made_of = np.array(task.made_of)
    folds = [np.flatnonzero(part[units] == k) for k in range(5)]
    if m > 5000:
        folds = [rng.permutation(folds[0])[:2000]] if holding.groups is None else folds[:1]
    if holding.times is not None:
        order = np.argsort(holding.times, kind="stable")
        folds = [np.sort(order[-(m // 5) :])]
    truths, plain, shuffled = [], [], []
    if len(columns) > 60:  # those that vary together with the target least are not asked
        with np.errstate(invalid="ignore", divide="ignore"):
            target = task.y if not task.classify else np.unique(task.y, return_inverse=True)[1]
            strength = np.abs(np.nan_to_num([np.corrcoef(x, target)[0, 1] for x in task.X.T]))
        best = {c: strength[made_of == c].max() for c in columns}
        columns = sorted(columns, key=lambda c: -best[c])[:60]
    for rows in folds:
        tested = np.sort(rng.permutation(rows)[:2000]) if len(rows) > 2000 else rows
        if not len(tested):
            continue
        stack = [task.X[tested]]
        for column in columns:
            other = task.X[tested].copy()
            mine = np.flatnonzero(made_of == column)
            other[:, mine] = task.X[rng.permutation(tested)][:, mine]
            stack.append(other)
        try:
            found = np.asarray(fit.model.predict_without(rows, np.vstack(stack)))
        except Exception:  # what columns are worth is no reason to lose the answer
            return [], float("nan")
        parts = np.split(found, len(stack))
        truths.append(task.y[tested])
        plain.append(parts[0])
        shuffled.append(parts[1:])
    if not truths:
        return [], float("nan")
    truth = np.concatenate(truths)
    loss = _loss_of(task, truth)
    base = loss(np.concatenate(plain))
    worth = [
        (column, loss(np.concatenate([s[j] for s in shuffled]))) for j, column in enumerate(columns)
    ]
    return sorted(worth, key=lambda pair: -pair[1]), base


def _loss_of(task: Task, truth: Array) -> Callable[[Array], float]:
    """Return the error of decisions: RMSE, or the share of wrong pairs, or of wrong rows."""
    if not task.classify:
        return lambda values: float(np.sqrt(np.mean((truth - np.ravel(values)) ** 2)))
    classes = np.unique(task.y)
    if len(classes) == 2:
        from sklearn.metrics import roc_auc_score

        if len(np.unique(truth)) < 2:
            return lambda values: float("nan")
        return lambda values: 1 - float(roc_auc_score(truth == classes[1], np.ravel(values)))
    return lambda values: float(np.mean(classes[np.argmax(values, axis=1)] != truth))
