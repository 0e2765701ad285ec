"""The targets of a permutation test, as a scorer of one's own sees them."""

import numpy as np
from sklearn.base import clone


def permuted(model, n, seed, *, X, y, weights=None, groups=None, cv=None, **asked):
    """Return the targets of each of the permutations that a model makes of its own, (n, m, …).

    Parameters
    ----------
    model : estimator
        Fitted to the other arguments; what changes places depends on them, not on the scorer.
    n, seed : int
        As in `permutation_test`.
    cv : optional
        Experiments that exchange the same as those of the model, and test every row. A row that
        is never tested seems to keep its target.
    **asked
        For `permutation_test`: `within`, `groups_asked` for its `groups`.
    """
    y, seen = np.asarray(y), []
    live = np.ones(len(y), bool) if weights is None else weights > 0

    def watch(estimator, p, targets):
        seen.append(np.array(targets))
        return 0.0

    watched = clone(model).set_params(
        scoring=watch, alphas=[1.0], cv=model.cv if cv is None else cv
    )
    watched.set_params(kernel="linear", gamma=None, rule="best", pooled=True)
    watched.set_params(basis=None, held_out_basis="remove")
    watched.fit(X, y, sample_weight=weights, groups=groups)
    rows = watched.held_out().rows
    rows = rows[live[rows]]
    seen.clear()
    if "groups_asked" in asked:
        asked["groups"] = asked.pop("groups_asked")
    watched.permutation_test(n, random_state=seed, **asked)
    whole = [targets for targets in seen if targets.shape == (rows.size, *y.shape[1:])]
    assert len(whole) == n
    found = np.repeat(y[None], n, axis=0)
    found[:, rows] = whole
    return found


def orders(model, n, seed, **given):
    """Return which row's target each row gets in each permutation, (n, m); targets are distinct."""
    y = np.asarray(given["y"])
    by_size = np.argsort(y)
    return by_size[np.searchsorted(y[by_size], permuted(model, n, seed, **given))]
