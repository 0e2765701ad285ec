"""Fits within a time budget, and what each doubt about the data does to the score.

A fit climbs a ladder of basis sizes: the width is searched on the first rung, and what a machine
can do in a minute is found by doing it. The errors of the rungs say whether more basis rows would
help.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.app.columns import Suspicion, Task
from holdfast.app.holding import Holding, make_holding
from holdfast.app.measures import Measure, last_value, loss_of, probabilities
from holdfast.exceptions import HoldfastError

__all__ = ["Answer", "Clock", "Contrast", "Fit", "Interval", "Settings", "answer_of"]

Array = NDArray[Any]
T = TypeVar("T")

#: Sizes of the basis that are tried, in turn; then all rows, if they are not more than this.
_RUNGS = (250, 500, 1000, 2000, 4000)
_DENSE = 8000
#: Up to here all rows are the first rung; from here on the width is searched on some of them.
_SMALL, _MANY = 700, 20_000
#: Up to here a score has more to it than the standard error over rows.
_FEW = 3000
#: A larger basis that brings less than this is the last.
_WORTH = 0.003
#: Until which share of the budget fits may go on, comparisons, and questions about the score.
_FITS, _COMPARISONS, _QUESTIONS = 0.7, 0.85, 0.95
_MOST_COLUMNS = 60


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
    """A budget of seconds, a listener who is told what is done with it, and what was left out."""

    def __init__(self, budget: float, tell: Callable[[str], None] = lambda text: None) -> None:
        self.budget, self.tell, self.started = budget, tell, time.monotonic()
        self.skipped: list[str] = []  #: For want of time
        self.refused: list[str] = []  #: Because the library refused
        self.next_rung: int | None = None  #: The basis size that there was no time for

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def left(self, share: float = 1.0) -> float:
        """Seconds until a share of the budget is spent."""
        return share * self.budget - self.spent

    def attempt(self, what: str, ask: Callable[[], T]) -> T | None:
        """Return what `ask` finds; None where it cannot be had, which is no reason to give up."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ask()
        except (HoldfastError, ValueError, np.linalg.LinAlgError, MemoryError):
            self.refused.append(what)
            return None


# --- fits -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model and what it predicted for rows that it had not seen."""

    model: Any
    held: Any  #: Its held-out predictions, at its penalty
    value: float  #: In the measure of the command
    error: float  #: The same, smaller is better
    rungs: list[tuple[int, float, float]] = field(default_factory=list)  #: Basis, error, seconds

    @property
    def basis(self) -> int:
        """How many basis rows the model has."""
        return int(np.size(self.model.basis_indices_))

    @property
    def gamma(self) -> float | None:
        """The width, if the kernel has one that was chosen."""
        value = self.model.best_params_.get("gamma")
        return None if value is None else float(value)

    @property
    def alpha(self) -> float:
        """The penalty."""
        return float(np.ravel(self.model.alpha_)[0])


def fit_once(
    task: Task,
    holding: Holding,
    settings: Settings,
    measure: Measure,
    basis: int | None,
    gamma: Any,
) -> Fit:
    """Return a fit with so many basis rows (None: all) and these widths."""
    from holdfast import KernelRidgeClassifierCV, KernelRidgeCV

    common: dict[str, Any] = {
        "gamma": gamma,
        "alphas": settings.alphas,
        "basis": None if basis is None or basis >= len(task.y) else basis,
        "cv": holding.cv,
        "scoring": _criterion(task, settings),
        "random_state": settings.seed,
    }
    model: Any
    if task.classify:
        model = KernelRidgeClassifierCV(settings.kernel, calibration="sigmoid", **common)
    else:
        model = KernelRidgeCV(settings.kernel, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ends of a grid are advised on in words of this command
        model.fit(task.X, task.y, sample_weight=task.weights, groups=holding.groups)
        held = model.held_out(alphas=np.atleast_1d(model.alpha_)[:1])
        value = measure.value(task, holding, model, held)
    return Fit(model, held, value, -value if measure.higher_is_better else value)


def _criterion(task: Task, settings: Settings) -> str | None:
    """Return what penalty and width are chosen by."""
    if settings.scoring or not task.classify:
        return settings.scoring
    # Accuracy is flat, and blind where one class is rare; how rows are ranked is neither.
    return "roc_auc" if len(np.unique(task.y)) == 2 else None


def _widths(settings: Settings, best: float | None, *, few: bool = False) -> Any:
    """Return the widths to compare: those asked for, all, or some from the best so far on."""
    if settings.kernel not in ("rbf", "laplacian") or settings.gamma is not None:
        return settings.gamma
    if best is None:
        return "search"
    # More basis rows can follow finer detail.
    return [best, 2 * best] if few else [best / 2, best, 2 * best, 4 * best]


def climb(
    task: Task,
    holding: Holding,
    settings: Settings,
    measure: Measure,
    clock: Clock,
    make: Callable[[Task], Holding],
) -> Fit:
    """Return the best fit that the time allows."""
    m = len(task.y)
    fit = partial(fit_once, settings=settings, measure=measure)
    if settings.kernel == "linear" or settings.basis is not None:
        return fit(task, holding, basis=settings.basis, gamma=_widths(settings, None))
    sizes = [n for n in _RUNGS if n < 0.7 * m] if m > _SMALL else []
    sizes += [m] if m <= _DENSE else []
    gamma = None
    if m > _MANY and _widths(settings, None) == "search":
        clock.tell("searching the width on some of the rows")
        some = task.some(np.sort(np.random.default_rng(settings.seed).permutation(m)[:_MANY]))
        gamma = fit(some, make(some), basis=sizes[0], gamma="search").gamma
    best: Fit | None = None
    done: list[tuple[int, float, float]] = []
    each: list[float] = []  # seconds per width
    for step, n in enumerate(sizes):
        widths = _widths(settings, gamma, few=step > 1 or m > _MANY)
        tries = 8 if isinstance(widths, str) else max(1, np.size(widths))
        if best is not None:
            if tries * _expected(done, each, n) > clock.left(_FITS):
                clock.next_rung = n
                break
            if (done[-2:][0][1] - best.error) < _WORTH * abs(best.error) and len(done) > 1:
                break
        clock.tell(f"fitting with {n:,} basis rows" if n < m else f"fitting {m:,} rows")
        start = time.monotonic()
        found = fit(task, holding, basis=n, gamma=widths)
        took = time.monotonic() - start
        done.append((n, found.error, took))
        each.append(took / tries)
        if best is None or found.error <= best.error:
            best = found
            gamma = found.gamma or gamma
    assert best is not None
    return replace(best, rungs=done)


def _expected(done: list[tuple[int, float, float]], each: list[float], n: int) -> float:
    """Return about how many seconds a width takes on the next rung."""
    power = 1.5
    if len(done) > 1:
        grown = math.log(each[-1] / each[-2]) / math.log(done[-1][0] / done[-2][0])
        power = min(2.7, max(1.0, grown + 0.4))  # small sizes are mostly overhead
    return float(each[-1] * (n / done[-1][0]) ** power)


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
    beside: float  #: The error of the answer, with as many basis rows
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
    clock: Clock
    baseline: float | None = None  #: The value without any column
    interval: Interval | None = None
    contrasts: list[Contrast] = field(default_factory=list)
    suspicions: list[Suspicion] = field(default_factory=list)  #: Those that were not measured
    optimism: float | None = None  #: By how much choosing on the same rows flatters the score
    #: Columns, and the error when their values are shuffled; and the error before
    importance: list[tuple[str, float]] = field(default_factory=list)
    importance_base: float = float("nan")
    verified: Any = None

    @property
    def truth(self) -> Array:
        """The targets of the tested rows."""
        return np.asarray(self.task.y[self.fit.held.rows])

    @property
    def predictions(self) -> Array:
        """Held-out predictions: numbers, or the likeliest classes."""
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
    """Return the answer, with all that the time allows to find out about it.

    Parameters
    ----------
    task : Task
    settings : Settings
    asked : str or None
        How to hold out, as in `make_holding`.
    suspected : sequence of Suspicion
        What may be wrong with the answer.
    clock : Clock
    """
    make = partial(make_holding, asked=asked, seed=settings.seed)
    holding, measure = make(task), Measure(settings.scoring, task.classify)
    measure.check()
    fit = climb(task, holding, settings, measure, clock, make)
    answer = Answer(task, holding, settings, measure, fit, clock)
    baseline = measure.baseline(task, holding, fit.held)
    contrasts = [Contrast("this model", fit.value, fit.error, "this", fit.error)]
    if baseline is not None:
        error = -baseline if measure.higher_is_better else baseline
        label = "class shares only" if task.classify else "the mean, no columns"
        contrasts.append(Contrast(label, baseline, error, "none", fit.error))
    contrasts += _simpler(answer)
    measured, rest = _measured(answer, suspected)
    clock.tell("asking how sure the score is")
    importance, base = _importance(answer)
    return replace(
        answer,
        baseline=baseline,
        contrasts=contrasts + measured,
        suspicions=rest,
        interval=_interval(answer),
        optimism=_optimism(answer),
        importance=importance,
        importance_base=base,
        verified=_verified(answer),
    )


# --- comparisons ----------------------------------------------------------------------------------


def _simpler(answer: Answer) -> list[Contrast]:
    """Return what a linear model would give, and repeating the last value of a series."""
    task, settings, fit, clock = answer.task, answer.settings, answer.fit, answer.clock
    found = _last(answer, answer.holding, fit)
    m, d = task.X.shape
    if settings.kernel != "linear" and m * d * d < 1e10 and clock.left(_COMPARISONS) > 0:
        plain = replace(settings, kernel="linear", gamma=None, alphas=None)
        linear = clock.attempt(
            "a linear model",
            lambda: fit_once(task, answer.holding, plain, answer.measure, None, None),
        )
        if linear is not None:
            made = Contrast("a linear model", linear.value, linear.error, "linear", fit.error)
            found.append(made)
    return found


def _last(
    answer: Answer, holding: Holding, fit: Fit, label: str = "the last value repeated"
) -> list[Contrast]:
    """Return what repeating the last known value would give, where steps in time are held out."""
    task = answer.task
    if holding.kind != "time" or task.classify or answer.measure.scoring is not None:
        return []
    error = task.y[fit.held.rows] - last_value(task, holding, fit.held)
    rmse = float(np.sqrt(np.mean(error**2)))
    return [Contrast(label, rmse, rmse, "last", fit.error)]


def _measured(
    answer: Answer, suspected: Sequence[Suspicion]
) -> tuple[list[Contrast], list[Suspicion]]:
    """Return what each suspicion does to the error, and those that were not measured."""
    found: list[Contrast] = []
    rest: list[Suspicion] = []
    task, clock = answer.task, answer.clock
    if answer.holding.kind == "groups":
        alone = replace(task, groups=None, times=None, group=None, time=None)
        way = make_holding(alone, None if task.classify else "loo", seed=answer.settings.seed)
        made = _again(answer, task, way, "single rows held out")
        if made is not None:
            other, beside = made
            label = "single rows held out"
            found.append(Contrast(label, other.value, other.error, "single", beside))
    for one in suspected:
        changed = _changed(answer, one)
        if changed is None:
            rest.append(one)
            continue
        new_task, way, label = changed
        clock.tell(f"asking what changes: {label}")
        made = _again(answer, new_task, way, label)
        if made is None:
            rest.append(one)
            continue
        other, beside = made
        found.append(Contrast(label, other.value, other.error, one.kind, beside, one))
        if one.kind == "time":
            found += _last(answer, way, other, "later rows: the last value")
    return found, rest


def _changed(answer: Answer, one: Suspicion) -> tuple[Task, Holding, str] | None:
    """Return the task and the way of holding out that take a suspicion seriously; None: no way."""
    task, holding = answer.task, answer.holding
    alone = len(task.features) < 2
    if one.kind == "code" and one.column in task.features:
        return _read_as_missing(task, one), holding, f"{one.option[5:]} read as missing"
    if one.kind == "leak" and not alone:
        return task.without([one.column]), holding, f"without {one.column}"
    if holding.kind != "rows" or one.kind not in ("time", "group", "copies"):
        return None
    if one.kind == "time":
        return task, make_holding(task, "time:5", times=one.times), "later rows held out"
    how = "groups" if len(np.unique(np.asarray(one.groups))) <= 300 else "groups:10"
    way = make_holding(task, how, groups=one.groups, name=one.column or "copies")
    if one.kind == "copies":
        return task, way, "copies held out together"
    if one.column in task.features and not alone:
        task = task.without([one.column])  # as --group would
    return task, way, f"whole {one.column}s held out"


def _read_as_missing(task: Task, one: Suspicion) -> Task:
    """Return the task with a code of a column read as missing, and filled in."""
    from sklearn.base import clone

    frame = task.table.frame[list(task.features)].copy()
    frame[one.column] = frame[one.column].mask(frame[one.column] == float(one.option[5:]))
    X = clone(task.preparation).fit_transform(frame)
    return replace(task, X=np.asarray(X, dtype=float))


def _again(answer: Answer, task: Task, holding: Holding, what: str) -> tuple[Fit, float] | None:
    """Return a fit with a width and penalty of its own, and the answer's error beside it.

    The basis is the largest of the rungs for which there is time, and the error beside it is that
    of the same rung. None if there is no time, or it cannot be done.
    """
    settings, fit, clock = answer.settings, answer.fit, answer.clock
    basis, beside, gamma = settings.basis, fit.error, _widths(settings, None)
    if fit.rungs:
        allowed = max(0.0, clock.left(_COMPARISONS)) / 3
        fits = [rung for rung in fit.rungs if 3 * rung[2] <= allowed]
        basis, beside, took = fits[-1] if fits else fit.rungs[0]
        if not fits and took > clock.left(_QUESTIONS):
            clock.skipped.append(f"the error with {what}")
            return None
        if len(task.y) > _MANY and gamma == "search" and fit.gamma is not None:
            gamma = [fit.gamma / 8, fit.gamma / 2, fit.gamma]
    made = clock.attempt(
        what, lambda: fit_once(task, holding, settings, answer.measure, basis, gamma)
    )
    return None if made is None else (made, beside)


# --- questions about the score --------------------------------------------------------------------


def _interval(answer: Answer) -> Interval | None:
    """Return an interval of the score, by the library where the score is one of the fit's."""
    measure, fit, settings, clock = answer.measure, answer.fit, answer.settings, answer.clock
    if measure.scoring is None and measure.classify:
        return _bootstrap(answer)
    if clock.left(_QUESTIONS) < 0:
        clock.skipped.append("an interval of the score")
        return None
    seed, refused = settings.seed, len(clock.refused)

    def ask(method: str, n: int) -> Any:
        return clock.attempt(
            "an interval of the score",
            lambda: fit.model.score_interval(
                settings.level, method, n_partitions=n, random_state=seed
            ),
        )

    # Random partitions make the interval right for few rows; for many it is right without.
    found = None
    if len(answer.task.y) <= _FEW:
        start = time.monotonic()
        found = ask("auto", 2)
        each = (time.monotonic() - start) / 2
        n = min(50, int(clock.left(_QUESTIONS) / 3 / max(each, 1e-3)))
        found = found and (ask("auto", n) if n >= 10 else None)
    found = found or ask("asymptotic", 1)
    if found is None:
        return None
    del clock.refused[refused:]  # the first way may be refused where the second is not
    low, high = float(np.ravel(found.low)[0]), float(np.ravel(found.high)[0])
    if measure.scoring is None:
        low, high = math.sqrt(max(0.0, -high)), math.sqrt(max(0.0, -low))
    elif not measure.higher_is_better:
        low, high = -high, -low
    if not np.isfinite([low, high]).all():
        return None
    return Interval(min(low, fit.value), max(high, fit.value), settings.level, str(found.units))


def _bootstrap(answer: Answer) -> Interval | None:
    """Return an interval of the log loss, from drawing rows, or groups, with replacement."""
    task, holding, held = answer.task, answer.holding, answer.fit.held
    rows, labels = held.rows, answer.truth
    P, classes = answer.probabilities
    loss = -np.log(np.clip(P[np.arange(len(rows)), np.searchsorted(classes, labels)], 1e-12, 1.0))
    w = np.ones(len(rows)) if task.weights is None else task.weights[rows]
    if holding.kind == "time":
        unit, units = held.experiments.test.owners, "steps in time"
    elif holding.groups is not None:
        unit, units = np.unique(holding.groups[rows], return_inverse=True)[1], "groups"
    else:
        unit, units = np.arange(len(rows)), "rows"
    n, level = int(unit.max()) + 1, answer.settings.level
    if n < 5:
        return None
    total, weight = np.bincount(unit, w * loss, n), np.bincount(unit, w, n)
    rng = np.random.default_rng(answer.settings.seed)
    draws = [rng.multinomial(n, np.full(n, 1 / n)) for _ in range(500)]
    means = [float(d @ total) / max(float(d @ weight), 1e-300) for d in draws]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, units)


def _optimism(answer: Answer) -> float | None:
    """Return by how much choosing penalty and width on the same rows flatters the RMSE."""
    fit, measure = answer.fit, answer.measure
    if answer.holding.kind != "rows" or measure.classify or measure.scoring is not None:
        return None
    few = len(answer.task.y) <= _SMALL  # for many rows the choice costs next to nothing
    if not few or not fit.rungs or 12 * fit.rungs[-1][2] > answer.clock.left(_QUESTIONS):
        return None
    from sklearn.model_selection import KFold

    folds = KFold(min(10, len(answer.task.y)), shuffle=True, random_state=answer.settings.seed)
    # The same folds with the choice made inside, and made once on all rows.
    found = answer.clock.attempt(
        "what choosing penalty and width on the same rows does",
        lambda: (
            fit.model.nested(folds).score(),
            fit.model.held_out(folds, alphas=[fit.alpha]).score(),
        ),
    )
    if found is None:
        return None
    inside, once = (math.sqrt(max(0.0, -float(np.ravel(score)[0]))) for score in found)
    return max(0.0, inside - once)


def _importance(answer: Answer) -> tuple[list[tuple[str, float]], float]:
    """Return the error of held-out rows when the values of a column are shuffled, per column.

    By five models of the chosen width and penalty, each fitted without a fifth of the rows (or
    groups); by one where rows are many, or ordered in time.
    """
    task, fit, clock = answer.task, answer.fit, answer.clock
    columns = list(dict.fromkeys(task.made_of))
    nothing: tuple[list[tuple[str, float]], float] = ([], float("nan"))
    if len(columns) < 2:
        return nothing
    rng = np.random.default_rng(answer.settings.seed)
    folds = _fifths(answer, rng)
    tested = [np.sort(rng.permutation(rows)[:2000]) for rows in folds]
    if len(columns) > _MOST_COLUMNS:
        columns = _strongest(task, columns)
    work = sum(map(len, tested)) * len(columns) * fit.basis
    took = fit.rungs[-1][2] / 4 if fit.rungs else 1.0
    if work > 2e9 * max(1.0, clock.left()) or len(folds) * took > clock.left():
        clock.skipped.append("what each column is worth")
        return nothing
    made_of, held = np.array(task.made_of), []
    for rows, some in zip(folds, tested, strict=True):
        stack = [task.X[some]]
        for column in columns:
            other = task.X[some].copy()
            mine = np.flatnonzero(made_of == column)
            other[:, mine] = task.X[rng.permutation(some)][:, mine]
            stack.append(other)
        found = clock.attempt(
            "what each column is worth", partial(_decisions_without, answer, rows, np.vstack(stack))
        )
        if found is None:
            return nothing
        held.append(np.split(found, len(stack)))
    loss = loss_of(task, task.y[np.concatenate(tested)])
    base, *errors = (loss(np.concatenate(parts)) for parts in zip(*held, strict=True))
    return sorted(zip(columns, errors, strict=True), key=lambda pair: -pair[1]), base


def _decisions_without(answer: Answer, rows: Array, X: Array) -> Array:
    """Return what a model fitted without some rows, at the chosen penalty, says of others."""
    from holdfast import KernelRidgeClassifierCV, KernelRidgeCV

    task, fit, settings = answer.task, answer.fit, answer.settings
    rest = np.setdiff1d(np.arange(len(task.y)), rows)
    common: dict[str, Any] = {
        "gamma": settings.gamma if fit.gamma is None else fit.gamma,
        "alphas": [fit.alpha],
        "basis": fit.basis if fit.basis < len(rest) else None,
        "cv": 2,
        "random_state": settings.seed,
    }
    weights = None if task.weights is None else task.weights[rest]
    if not task.classify:
        model = KernelRidgeCV(settings.kernel, **common)
        return np.asarray(model.fit(task.X[rest], task.y[rest], weights).predict(X))
    model = KernelRidgeClassifierCV(settings.kernel, **common)
    fitted = model.fit(task.X[rest], task.y[rest], weights)
    if len(fitted.classes_) < len(np.unique(task.y)):
        raise ValueError("a class has no rows left")
    return np.asarray(fitted.decision_function(X))


def _verified(answer: Answer) -> Any:
    """Return how far held-out predictions are from those of refitted models."""
    if answer.clock.left() < 0:
        return None
    return answer.clock.attempt("a check against refits", lambda: answer.fit.model.verify(3))


def _fifths(answer: Answer, rng: np.random.Generator) -> list[Array]:
    """Return rows that leave together: fifths, of whole groups; the last where time counts."""
    m, holding = len(answer.task.y), answer.holding
    if holding.times is not None:
        return [np.sort(np.argsort(holding.times, kind="stable")[-(m // 5) :])]
    units = np.arange(m)
    if holding.groups is not None:
        units = np.unique(holding.groups, return_inverse=True)[1]
    part = (rng.permutation(int(units.max()) + 1) % 5)[units]
    folds = [np.flatnonzero(part == k) for k in range(5) if (part == k).any()]
    if m <= 5000:
        return folds
    return [np.sort(rng.permutation(folds[0])[:2000])] if holding.groups is None else folds[:1]


def _strongest(task: Task, columns: list[str]) -> list[str]:
    """Return the columns that vary together with the target most: the others are not asked."""
    target = np.unique(task.y, return_inverse=True)[1] if task.classify else task.y
    with np.errstate(invalid="ignore", divide="ignore"):
        strength = np.abs(np.nan_to_num([np.corrcoef(x, target)[0, 1] for x in task.X.T]))
    made_of = np.array(task.made_of)
    best = {column: float(strength[made_of == column].max()) for column in columns}
    return sorted(columns, key=lambda column: -best[column])[:_MOST_COLUMNS]
