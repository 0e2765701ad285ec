"""How the held-out error falls with the number of basis rows, for several ways to choose them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.held_out import held_out
from holdfast.basis.base import Selector, how_many
from holdfast.basis.greedy import Greedy
from holdfast.basis.pivoted_cholesky import RandomlyPivotedCholesky
from holdfast.basis.random import Random
from holdfast.basis.resolve import resolve_basis
from holdfast.data.frames import make_frame
from holdfast.data.numbers import whole_number
from holdfast.data.seeds import seed_of
from holdfast.exceptions import (
    HoldfastWarning,
    InvalidInputError,
    SelectionBiasWarning,
)
from holdfast.experiments import POLICIES

#: How many sizes are tried by default, and the largest of them.
SIZES, LARGEST = 6, 1000


@dataclass(frozen=True, eq=False, repr=False)
class BasisCurve:
    """Held-out scores by selector, policy for held-out basis rows, repeat and size.

    Attributes
    ----------
    selectors : tuple of str
        Names of the ways to choose.
    policies : tuple of str
        Policies for basis rows that are held out.
    sizes : (k,) int array
        Numbers of basis rows.
    scores : (selectors, policies, repeats, k) array
        Held-out score at the best penalty of the grid, greater is better; NaN where a selector
        could not find that many rows.
    alphas : array of the same shape
        That penalty.
    seconds : (selectors, repeats) array
        Time to choose the largest basis.
    scoring : str, callable or None
        What was scored.
    classifier : bool
        Whether the model is a classifier.
    """

    selectors: tuple[str, ...]
    policies: tuple[str, ...]
    sizes: IntArray
    scores: FloatArray
    alphas: FloatArray
    seconds: FloatArray
    scoring: Any
    classifier: bool

    def __repr__(self) -> str:
        name = self.scoring if isinstance(self.scoring, str) else None
        if self.scoring is None:
            name = "accuracy" if self.classifier else "neg_mean_squared_error"
        head = ["selector", "policy", *map(str, self.sizes.tolist())]
        rows = [
            [selector, policy, *(f"{score:.4g}" for score in self.scores[s, p].mean(axis=0))]
            for s, selector in enumerate(self.selectors)
            for p, policy in enumerate(self.policies)
        ]
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = [
            "  ".join(
                f"{cell:<{width}}" if i < 2 else f"{cell:>{width}}"
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in [head, *rows]
        ]
        scored = name or getattr(self.scoring, "__name__", "score")
        return "\n  ".join([f"<held-out {scored} by number of basis rows", *lines]) + ">"

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Return the curves as a `holdfast.displays.BasisSizeDisplay`, plotted.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the lines.
        """
        from holdfast.displays.basis_size import BasisSizeDisplay

        return BasisSizeDisplay(self).plot(ax, **kwargs)

    def to_frame(self, library: str | None = None) -> Any:
        """Return a long table: selector, policy, repeat, size, score, alpha.

        Parameters
        ----------
        library : {"pandas", "polars"} or None
            Whose frame; None: pandas.
        """
        selector, policy, repeat, size = np.indices(self.scores.shape).reshape(4, -1)
        columns: dict[str, AnyArray] = {
            "selector": np.array(self.selectors, dtype=object)[selector],
            "policy": np.array(self.policies, dtype=object)[policy],
            "repeat": repeat,
            "size": self.sizes[size],
            "score": self.scores.ravel(),
            "alpha": self.alphas.ravel(),
        }
        return make_frame(columns, library)


def basis_curve(
    estimator: Any,
    X: Any,
    y: Any,
    sizes: ArrayLike | None = None,
    selectors: Mapping[str, Selector] | Sequence[Selector] | None = None,
    *,
    policies: Sequence[str] = ("remove", "keep"),
    repeats: int = 1,
    sample_weight: Any = None,
    groups: Any = None,
    random_state: Any = 0,
) -> BasisCurve:
    """Return held-out scores against the number of basis rows, per selector and policy.

    Parameters
    ----------
    estimator : KernelRidgeCV or KernelRidgeClassifierCV
        The model: its kernel, penalties, cv and scoring are used; its ``basis`` and
        ``held_out_basis`` are not. It is not fitted itself.
    X, y, sample_weight, groups
        As for ``estimator.fit``.
    sizes : sequence of int or of float, optional
        Numbers of basis rows, or fractions of the rows. Default: six, in equal ratios, up to half
        of the rows or 1,000.
    selectors : sequence of selectors, or mapping from names to them, optional
        Ways to choose; their own sizes are ignored. Default: `Random`,
        `RandomlyPivotedCholesky` and `Greedy`.
    policies : sequence of str
        What happens to held-out basis rows: they are removed (``"remove"``), stay (``"keep"``), or
        any other ``held_out_basis``. ``"reselect"`` retrains for every experiment.
    repeats : int
        How often to choose and score, each time with another seed.
    random_state : int, RandomState or None, default 0
        Seed.

    Returns
    -------
    BasisCurve
        ``.plot()``, ``.to_frame()``; printed, a table of scores.

    Notes
    -----
    Selectors that add rows one by one (``nested``) choose once, for the largest size; its first
    rows are the smaller bases. Each size is one fit; all policies but ``"reselect"`` share its
    factors. The score shown is that of the best penalty of the grid.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KernelRidgeCV
    >>> from holdfast.basis import Random, basis_curve
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(200, 2))
    >>> y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=200)
    >>> model = KernelRidgeCV(gamma=0.5, cv=5)
    >>> curve = basis_curve(model, X, y, selectors=[Random()], policies=["remove"])
    >>> curve.sizes.tolist()
    [10, 16, 25, 40, 63, 100]
    >>> bool(curve.scores[0, 0, 0, -1] > curve.scores[0, 0, 0, 0])
    True
    """
    named = _named(selectors)
    _check_policies(policies)
    repeats, first_seed = whole_number("repeats", repeats), seed_of(random_state)
    template = _fit(estimator, X, y, sample_weight, groups, basis=1, held_out_basis="keep")
    training, data = template._problem, template._fitted_model().data
    counts = _counts(sizes, int(np.count_nonzero(training.weights)))
    _warn_once(named, policies)
    shape = (len(named), len(policies), repeats, len(counts))
    scores, alphas = np.full(shape, np.nan), np.full(shape, np.nan)
    seconds = np.zeros((len(named), repeats))
    for s, selector in enumerate(named.values()):
        for r in range(repeats):
            seed = np.random.SeedSequence([first_seed, r]).generate_state(1)[0]
            chosen: IntArray | None = None
            for k in range(len(counts) - 1, -1, -1):  # the largest first: it holds the others
                if chosen is None or not selector.nested:
                    sized = resized(selector, int(counts[k]))
                    start = time.perf_counter()
                    chosen = _choose(sized, data, training, seed)
                    seconds[s, r] = max(seconds[s, r], time.perf_counter() - start)
                if len(chosen) < counts[k]:
                    continue
                scores[s, :, r, k], alphas[s, :, r, k] = _scores(
                    estimator,
                    (X, y, sample_weight, groups),
                    chosen[: counts[k]],
                    policies,
                    (resized(selector, int(counts[k])), int(seed % 2**31)),
                )
    classifier = template._classes is not None
    return BasisCurve(
        tuple(named),
        tuple(policies),
        counts,
        scores,
        alphas,
        seconds,
        estimator.scoring,
        classifier,
    )


def resized(selector: Selector, n: int) -> Selector:
    """Return a copy of the selector that asks for n rows."""
    parameters = selector.get_params(deep=False)
    for name in ("n", "max_size"):
        if name in parameters:
            twin: Selector = clone(selector).set_params(**{name: n})
            return twin
    raise InvalidInputError(
        f"{type(selector).__name__} has no parameter n or max_size, so it cannot be asked for a "
        "number of rows. Leave it out of the curve.",
        argument="selectors",
    )


def _named(selectors: Mapping[str, Selector] | Sequence[Selector] | None) -> dict[str, Selector]:
    if selectors is None:
        selectors = [Random(), RandomlyPivotedCholesky(), Greedy()]
    if isinstance(selectors, Selector):
        selectors = [selectors]
    if not isinstance(selectors, Mapping):
        names = [type(selector).__name__ for selector in selectors]
        if len(set(names)) < len(names):
            names = [f"{name} {i + 1}" for i, name in enumerate(names)]
        selectors = dict(zip(names, selectors, strict=True))
    if not selectors or not all(isinstance(value, Selector) for value in selectors.values()):
        raise InvalidInputError(
            "selectors must be selectors from holdfast.basis, in a sequence or by name; got "
            f"{selectors!r}.",
            argument="selectors",
        )
    return dict(selectors)


def _check_policies(policies: Sequence[str]) -> None:
    unknown = [policy for policy in policies if policy not in POLICIES]
    if isinstance(policies, str) or not len(policies) or unknown:
        raise InvalidInputError(
            f"policies must be a sequence of {', '.join(map(repr, POLICIES))}; got {policies!r}.",
            argument="policies",
        )


def _counts(sizes: ArrayLike | None, m: int) -> IntArray:
    if sizes is None:
        most = max(1, min(LARGEST, m // 2))
        sizes = np.rint(np.geomspace(min(10, most), most, SIZES)).astype(np.int64)
    given = np.atleast_1d(np.asarray(sizes))
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iuf":
        raise InvalidInputError(
            f"sizes must be a sequence of numbers or fractions of rows; got {sizes!r}.",
            argument="sizes",
        )
    return np.unique([how_many(size, m, "sizes") for size in given.tolist()])


def _warn_once(named: Mapping[str, Selector], policies: Sequence[str]) -> None:
    looking = [name for name, selector in named.items() if selector.data_dependent]
    if looking and set(policies) != {"reselect"}:
        verb = "chooses" if len(looking) == 1 else "choose"
        warnings.warn(
            f"{', '.join(looking)} {verb} the basis rows by looking at rows that are later held "
            'out, so these scores may be optimistic: add "reselect" to policies to see by how '
            "much.",
            SelectionBiasWarning,
            stacklevel=3,
        )


def _choose(selector: Selector, data: Any, training: Any, seed: int) -> IntArray:
    with warnings.catch_warnings():
        # A selector that runs out of rows shows as missing scores.
        warnings.simplefilter("ignore", HoldfastWarning)
        rows = resolve_basis(
            selector,
            data,
            training.Y,
            training.weights,
            training.groups,
            training.experiments,
            np.random.default_rng(seed),
        )
    assert rows is not None, "a selector is never the dense model"
    return rows


def _fit(estimator: Any, X: Any, y: Any, weight: Any, groups: Any, **parameters: Any) -> Any:
    model = clone(estimator).set_params(**parameters)
    with warnings.catch_warnings():
        # Said once for the whole curve, or of no interest at every size (ends of the grid).
        warnings.simplefilter("ignore", HoldfastWarning)
        return model.fit(X, y, sample_weight=weight, groups=groups)


def _scores(
    estimator: Any,
    given: tuple[Any, Any, Any, Any],
    rows: IntArray,
    policies: Sequence[str],
    reselect: tuple[Selector, int],
) -> tuple[FloatArray, FloatArray]:
    """Return the best score and its penalty for each policy, from one fit where possible."""
    model = None
    best, alphas = np.empty(len(policies)), np.empty(len(policies))
    for p, policy in enumerate(policies):
        if policy == "reselect":
            selector, seed = reselect
            again = {"basis": selector, "held_out_basis": policy, "random_state": seed}
            fitted = _fit(estimator, *given, **again)
        elif model is None:
            fitted = model = _fit(estimator, *given, basis=rows, held_out_basis=policy)
        else:
            scores = held_out(model._asked().changed(policy=policy)).score()
            best[p], alphas[p] = scores.max(), model.cv_results_["alpha"][np.argmax(scores)]
            continue
        column = "pooled_test_score" if estimator.pooled else "mean_test_score"
        scores = fitted.cv_results_[column]
        best[p], alphas[p] = scores.max(), fitted.cv_results_["alpha"][np.argmax(scores)]
    return best, alphas
