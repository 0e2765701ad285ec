"""The estimators as citizens of scikit-learn."""

import pickle
import tracemalloc
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.basis import Random
from holdfast.exceptions import KernelError, SelectionBiasWarning
from holdfast.kernels import RBF, Linear

SEED = 1
RNG = np.random.default_rng(SEED)
M, D = 50, 4
X = RNG.normal(size=(M, D))
Y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=M)
Y2 = np.c_[Y, X[:, 3] ** 2]
LABELS = np.where(Y > 0, "up", "down")
WEIGHTS = RNG.integers(1, 4, size=M).astype(float)
GROUPS = np.arange(M) % 5
ALPHAS = np.logspace(-3, 2, 6)

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")


def model(**options):
    return KernelRidgeCV(**{"alphas": ALPHAS, "cv": 5, "random_state": 0, **options})


# -- scikit-learn's own checks ---------------------------------------------------------------------

RANDOM_ROWS = (
    "repeating a row changes which rows are drawn, so that weights and repetitions give models "
    "with different basis rows"
)
SETTINGS = {
    "dense": ({}, None),
    "folds": ({"cv": 3}, None),
    "basis": ({"basis": 0.5}, RANDOM_ROWS),
    "linear": ({"kernel": "linear", "alphas": [0.1, 1.0]}, None),
    "streamed": ({"basis": 0.3, "memory_limit": 1, "path": "spectral"}, RANDOM_ROWS),
    "plain": ({"fit_intercept": False, "path": "cholesky", "alphas": [0.5, 2.0]}, None),
    "grid": ({"gamma": [0.1, 1.0], "path": "per_fold", "cv": 3, "rule": "1se"}, None),
    "sums": ({"kernel": RBF(0.3) + RBF(2.0), "pooled": False, "cv": 4}, None),
}


CHECKED = {
    "regressor": KernelRidgeCV(),
    "classifier": KernelRidgeClassifierCV(calibration=None),
}
BY_DECISION = (
    "labels are those of the decision values; a sigmoid for each class may find another one more "
    "probable, as in SVC(probability=True)"
)

IN_THE_FIT = (
    "weights of 1000 and 0.0001 count in the fit and not in the score that the penalty is chosen "
    "by, so that a penalty may be chosen that lets the rows of little weight speak"
)


@pytest.mark.parametrize("kind", CHECKED)
@pytest.mark.parametrize("setting", SETTINGS)
def test_check_estimator(kind, setting):
    options, reason = SETTINGS[setting]
    expected = {} if kind == "regressor" else {"check_class_weight_classifiers": IN_THE_FIT}
    run_checks(clone(CHECKED[kind]).set_params(random_state=0, **options), reason, expected)


def test_check_estimator_with_calibrated_probabilities():
    kinds = ("", "(readonly_memmap=True)", "(readonly_memmap=True,X_dtype=float32)")
    checks = dict.fromkeys(["check_classifiers_train" + kind for kind in kinds], BY_DECISION)
    checks["check_class_weight_classifiers"] = IN_THE_FIT
    run_checks(KernelRidgeClassifierCV(random_state=0), None, checks)


def run_checks(estimator, reason, expected=None):
    expected = {} if expected is None else expected
    if reason is not None:
        expected |= {
            f"check_sample_weight_equivalence_on_{kind}_data": reason
            for kind in ("dense", "sparse")
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            estimator,
            expected_failed_checks=expected,
            on_skip=None,
        )
    assert len(results) > 50
    # scikit-learn skips this one unless SCIPY_ARRAY_API is set before scipy is imported.
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}
    failed = {r["check_name"] for r in results if r["status"] == "xfail"}
    assert failed <= set(expected)
    assert (reason is None) or any(expected[name] is reason for name in failed)


def test_kinds():
    assert is_regressor(KernelRidgeCV())
    assert is_classifier(KernelRidgeClassifierCV())
    tags = KernelRidgeCV().__sklearn_tags__()
    assert tags.input_tags.sparse
    assert not tags.input_tags.pairwise
    assert tags.target_tags.multi_output
    tags = KernelRidgeCV(kernel="precomputed").__sklearn_tags__()
    assert tags.input_tags.pairwise
    assert not tags.input_tags.sparse


# -- copies ----------------------------------------------------------------------------------------


OF_CLASSES = ("calibration", "class_weight")


def test_parameters():
    names = list(KernelRidgeCV().get_params())
    more = [name for name in KernelRidgeClassifierCV().get_params() if name not in OF_CLASSES]
    assert names == more
    changed = KernelRidgeCV().set_params(gamma=3.0, basis=Random(5))
    assert changed.gamma == 3.0
    assert changed.get_params(deep=True)["basis__n"] == 5
    assert changed.set_params(basis__n=7).basis.n == 7
    with pytest.raises(ValueError, match="Invalid parameter 'lambda_'"):
        changed.set_params(lambda_=1)
    assert "gamma=3.0" in repr(changed)


def test_clone():
    original = model(basis=Random(9), kernel=RBF(0.3)).fit(X, Y)
    copied = clone(original)
    assert not hasattr(copied, "alpha_")
    assert copied.basis is not original.basis
    assert copied.kernel == original.kernel
    np.testing.assert_array_equal(copied.fit(X, Y).predict(X), original.predict(X))


def test_parameters_changed_after_fit_do_not_reach_the_fitted_model():
    for basis in (None, 12):
        fitted = model(basis=basis).fit(X, Y)
        predictions, held_out = fitted.predict(X), fitted.held_out().values
        fitted.set_params(basis=[1, 2, 3], kernel="linear", gamma=9.0, fit_intercept=False)
        np.testing.assert_array_equal(fitted.predict(X), predictions)
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_allclose(again.held_out().values, held_out, rtol=1e-8)


def test_two_fits_with_one_seed_are_the_same_model():
    first, second = (model(basis=10).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)
    other = model(basis=10, random_state=1).fit(X, Y)
    assert first.basis_indices_.tolist() != other.basis_indices_.tolist()
    state = np.random.RandomState(0)
    draws = [model(basis=10, random_state=state).fit(X, Y).basis_indices_ for _ in range(2)]
    assert draws[0].tolist() != draws[1].tolist()


# -- pipelines and searches ------------------------------------------------------------------------


def test_pipeline():
    pipeline = make_pipeline(StandardScaler(), model())
    pipeline.fit(X, Y)
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(pipeline.predict(X), model().fit(scaled, Y).predict(scaled))
    pipeline.set_params(kernelridgecv__basis=9)
    assert pipeline.fit(X, Y)[-1].basis_indices_.shape == (9,)


def test_transformed_target():
    wrapped = TransformedTargetRegressor(model(), func=np.arcsinh, inverse_func=np.sinh)
    expected = np.sinh(model().fit(X, np.arcsinh(Y)).predict(X))
    np.testing.assert_allclose(wrapped.fit(X, Y).predict(X), expected)


@pytest.mark.parametrize(
    "grid",
    [
        {"kernel": ["rbf", "linear", RBF(0.5)]},
        {"gamma": [0.1, 1.0, [0.1, 1.0]]},
        {"basis": [None, 5, 0.5, Random(7)]},
        {"basis": [10], "held_out_basis": ["remove", "keep", "train", "skip", "reselect"]},
        {"fit_intercept": [True, False], "rule": ["best", "1se"]},
        {"alphas": [1.0, [0.1, 1.0]], "cv": [None, 3, KFold(4)]},
    ],
)
def test_grid_search(grid):
    search = GridSearchCV(model(), grid, cv=3, error_score="raise").fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.predict(X).shape == (M,)


def test_grid_search_in_threads_with_a_precomputed_kernel():
    K = rbf_kernel(X, gamma=0.3)
    grid = {"fit_intercept": [True, False]}
    with joblib.parallel_backend("threading"):
        search = GridSearchCV(model(kernel="precomputed"), grid, cv=3, n_jobs=2).fit(K, Y)
    plain = GridSearchCV(model(gamma=0.3), {"fit_intercept": [True, False]}, cv=3).fit(X, Y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], rtol=1e-8
    )


def test_cross_val_predict_is_held_out_of_the_same_folds():
    folds = KFold(5, shuffle=True, random_state=3)
    fitted = model(cv=folds, alphas=0.1).fit(X, Y)
    outside = cross_val_predict(KernelRidgeCV(alphas=0.1), X, Y, cv=folds)
    np.testing.assert_allclose(fitted.held_out().matrix()[0, :, 0], outside, rtol=1e-9)


def test_cross_val_score_with_groups():
    fitted = model(cv=GroupKFold(5), alphas=0.1, scoring="r2").fit(X, Y, groups=GROUPS)
    outside = cross_val_score(
        KernelRidgeCV(alphas=0.1), X, Y, cv=GroupKFold(5), groups=GROUPS, scoring="r2"
    )
    splits = [fitted.cv_results_[f"split{i}_test_score"][0] for i in range(5)]
    np.testing.assert_allclose(splits, outside, rtol=1e-9)
    inner = cross_validate(
        model(cv=GroupKFold(3)), X, Y, cv=3, params={"groups": GROUPS}, error_score="raise"
    )
    assert np.isfinite(inner["test_score"]).all()


# -- metadata routing ------------------------------------------------------------------------------


def test_metadata_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        inner = model(cv=GroupKFold(4)).set_fit_request(sample_weight=True, groups=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, inner)
        pipeline.fit(X, Y, sample_weight=WEIGHTS, groups=GROUPS)
        scaled = StandardScaler().fit_transform(X)
        plain = model(cv=GroupKFold(4)).fit(scaled, Y, sample_weight=WEIGHTS, groups=GROUPS)
        np.testing.assert_allclose(pipeline.predict(X), plain.predict(scaled), rtol=1e-10)
        assert pipeline[-1].alpha_ == plain.alpha_

        scored = cross_validate(
            inner.set_score_request(sample_weight=False),
            X,
            Y,
            cv=GroupKFold(5),
            params={"sample_weight": WEIGHTS, "groups": GROUPS},
            return_estimator=True,
            return_indices=True,
            error_score="raise",
        )
        train = scored["indices"]["train"][0]
        alone = model(cv=GroupKFold(4)).fit(
            X[train], Y[train], sample_weight=WEIGHTS[train], groups=GROUPS[train]
        )
        assert scored["estimator"][0].alpha_ == alone.alpha_
        np.testing.assert_allclose(scored["estimator"][0].predict(X), alone.predict(X), rtol=1e-10)

        unasked = model().set_fit_request(sample_weight=False, groups=False)
        search = GridSearchCV(unasked, {"gamma": [0.1, 1.0]}, cv=GroupKFold(3))
        search.fit(X, Y, groups=GROUPS)
        with pytest.raises(Exception, match="sample_weight"):
            GridSearchCV(model(), {"gamma": [0.1]}).fit(X, Y, sample_weight=WEIGHTS)


def test_routing_of_groups_through_a_grid_search():
    with sklearn.config_context(enable_metadata_routing=True):
        inner = model(cv=GroupKFold(3)).set_fit_request(groups=True, sample_weight=True)
        inner.set_score_request(sample_weight=True)
        search = GridSearchCV(inner, {"gamma": [0.1, 1.0]}, cv=GroupKFold(5), error_score="raise")
        search.fit(X, Y, groups=GROUPS, sample_weight=WEIGHTS)
        best = model(cv=GroupKFold(3), **search.best_params_)
        best.fit(X, Y, groups=GROUPS, sample_weight=WEIGHTS)
        np.testing.assert_allclose(search.predict(X), best.predict(X), rtol=1e-10)


# -- sparse rows -----------------------------------------------------------------------------------

WIDE = 1_000_000  # made dense, these rows would take 400 MB


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "linear"},
        {"kernel": "linear", "basis": 12},
        {"kernel": "rbf", "gamma": 0.01},
        {"kernel": "rbf", "gamma": [0.01, 0.1], "basis": 12},
        {"kernel": "poly", "degree": 2},
        {"kernel": "matern52", "gamma": 0.01},
        {"kernel": "cosine", "basis": 12, "memory_limit": 1},
    ],
)
def test_sparse_rows_are_never_made_dense(container, options):
    rows = sp.random_array((M, WIDE), density=1e-4, rng=np.random.default_rng(9), format="csr")
    given = container(rows)
    before = given.copy()
    tracemalloc.start()
    try:
        fitted = model(**options).fit(given, Y, sample_weight=WEIGHTS)
        fitted.held_out(cv=3)
        fitted.predict_without([1, 2])
        assert fitted.verify(2).max_relative_error < 1e-8
        assert fitted.predict(given).shape == (M,)
        assert tracemalloc.get_traced_memory()[1] < 8 * M * WIDE / 10
    finally:
        tracemalloc.stop()
    assert (given != before).nnz == 0


def test_sparse_equals_dense():
    rows = sp.random_array((M, 40), density=0.2, rng=np.random.default_rng(9), format="csr")
    for options in ({"kernel": "linear"}, {"kernel": "linear", "basis": 9}, {}, {"basis": 9}):
        sparse, dense = model(**options).fit(rows, Y), model(**options).fit(rows.toarray(), Y)
        expected = dense.held_out().values
        np.testing.assert_allclose(
            sparse.held_out().values, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max()
        )
        np.testing.assert_allclose(sparse.predict(rows), dense.predict(rows.toarray()), rtol=1e-8)


# -- what the model is -----------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", 3.0 * Linear()], ids=["linear", "scaled"])
@pytest.mark.parametrize("basis", [None, 3])
@pytest.mark.parametrize("rows", [X, sp.csr_array(X), X[:3]], ids=["dense", "sparse", "wide"])
def test_coef_of_a_linear_kernel(kernel, basis, rows):
    m = rows.shape[0]
    for y in (Y[:m], Y2[:m]):
        fitted = model(kernel=kernel, basis=basis, cv=3, held_out_basis="keep").fit(rows, y)
        assert fitted.coef_.shape == (*y.shape[1:], rows.shape[1])
        expected = rows @ fitted.coef_.T + fitted.intercept_
        np.testing.assert_allclose(fitted.predict(rows), expected, rtol=1e-8, atol=1e-10)


def test_coef_as_scikit_learn_has_it():
    ours, theirs = model(kernel="linear", alphas=[0.5]).fit(X, Y2), Ridge(alpha=0.5).fit(X, Y2)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-8)
    labels = np.arange(M) % 3
    for classes in (LABELS, labels):
        judge = KernelRidgeClassifierCV("linear", alphas=ALPHAS, cv=5).fit(X, classes)
        decision = X @ judge.coef_.T + judge.intercept_
        np.testing.assert_allclose(judge.decision_function(X), decision, rtol=1e-8, atol=1e-10)


def test_coef_of_another_kernel_is_not_there():
    for kernel in ("rbf", Linear() + 1.0, "precomputed"):
        fitted = model(kernel=kernel).fit(X @ X.T if kernel == "precomputed" else X, Y)
        assert not hasattr(fitted, "coef_")
    with pytest.raises(AttributeError, match=r"coef_ is there for a linear kernel only.*dual_coef"):
        model().fit(X, Y).coef_  # noqa: B018  # asking is the point
    with pytest.raises(NotFittedError):
        model(kernel="linear").coef_  # noqa: B018


def test_a_linear_kernel_is_ridge_cv():
    """Leave-one-out of scikit-learn's RidgeCV, which centres by the weighted mean as well."""
    theirs = RidgeCV(alphas=ALPHAS, store_cv_results=True).fit(X, Y)
    ours = model(kernel="linear", cv=None).fit(X, Y)
    assert ours.alpha_ == theirs.alpha_
    errors = (ours.held_out().matrix()[:, :, 0] - Y) ** 2
    np.testing.assert_allclose(errors.T, theirs.cv_results_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-9)


def test_rows_of_weight_zero_are_predicted_and_never_trained_on():
    weights = WEIGHTS * (np.arange(M) % 3 > 0)
    live = weights > 0
    for options in ({}, {"kernel": "linear"}, {"basis": [1, 4, 7, 10, 13]}):
        with_them = model(cv=None, **options).fit(X, Y, sample_weight=weights)
        basis = options.get("basis")
        rest = {**options}
        if basis is not None:
            rest["basis"] = np.searchsorted(np.flatnonzero(live), basis)
        without = model(cv=None, **rest).fit(X[live], Y[live], sample_weight=weights[live])
        np.testing.assert_allclose(with_them.predict(X), without.predict(X), rtol=1e-8)
        held = with_them.held_out(alphas=[0.1]).matrix()[0]
        alone = model(alphas=0.1, cv=None, **rest)
        alone.fit(X[live], Y[live], sample_weight=weights[live])
        np.testing.assert_allclose(held[~live, 0], alone.predict(X[~live]), rtol=1e-8)


def test_objects_of_any_kind():
    words = ["ant", "bee", "cow", "doe", "eel", "fox", "gnu", "hen"] * 4
    y = np.array([len(set(word)) + ord(word[0]) / 50 for word in words])

    def letters(A, B):
        return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])

    for rows in (words, np.array(words), np.array(words, dtype=object), tuple(words)):
        for basis in (None, 6):
            fitted = model(kernel=letters, basis=basis).fit(rows, y)
            assert fitted.predict(["owl", "ant"]).shape == (2,)
            assert fitted.verify(3).max_relative_error < 1e-8
    assert not hasattr(fitted, "n_features_in_")

    def overlap(A, B):
        return np.array([[float(len({*a} & {*b})) for b in B] for a in A])

    ragged = [[1, 2], [2, 3, 4], [1], [4, 5, 6, 7], [2, 7], [1, 3]] * 3
    fitted = model(kernel=overlap, cv=3).fit(ragged, np.arange(18.0))
    assert fitted.predict([[1, 2, 3]]).shape == (1,)


def test_a_precomputed_kernel_with_the_basis_rows_only():
    basis = [3, 8, 20, 33, 41]
    K = rbf_kernel(X, gamma=0.3)
    whole = model(kernel="precomputed", basis=basis).fit(K, Y)
    plain = model(gamma=0.3, basis=basis).fit(X, Y)
    for given in (basis, np.array(basis), np.isin(np.arange(M), basis)):
        part = model(kernel="precomputed", basis=given).fit(K[:, basis], Y)
        np.testing.assert_allclose(part.held_out().values, plain.held_out().values, rtol=1e-8)
        np.testing.assert_allclose(part.predict(K[:6][:, basis]), plain.predict(X[:6]), rtol=1e-8)
    np.testing.assert_allclose(whole.predict(K[:6]), plain.predict(X[:6]), rtol=1e-8)


@pytest.mark.parametrize("path", ["spectral", "per_fold", "cholesky"])
@pytest.mark.parametrize("kernel", ["cosine", "precomputed"])
def test_data_far_from_the_origin_are_no_indefinite_kernel(kernel, path):
    """The bias takes nearly all of such a kernel; what is left is small, its rounding is not."""
    far = X + 100.0
    rows = far @ far.T if kernel == "precomputed" else far
    fitted = model(kernel=kernel, path=path, alphas=[1e-2, 1.0]).fit(rows, Y)
    assert np.isfinite(fitted.best_score_)


def test_a_kernel_rounded_to_float32_is_refused():
    K = (X @ X.T).astype(np.float32)
    with pytest.raises(KernelError, match="not positive semidefinite"):
        model(kernel="precomputed", path="spectral").fit(K, Y)


# -- how it shows itself ---------------------------------------------------------------------------


def test_html():
    html = model(gamma=0.25)._repr_html_()
    assert "KernelRidgeCV" in html
    assert "gamma" in html
    assert "not fitted" in html.lower()
    assert "fitted" in model().fit(X, Y)._repr_html_()
    assert "KernelRidgeCV" in make_pipeline(StandardScaler(), model())._repr_html_()


def test_answers_show_themselves():
    fitted = model(basis=9).fit(X, Y2)
    held = fitted.held_out(cv=[HoldOut([1, 2, 3], [2]), HoldOut([7, 8])])
    assert [part.shape for part in held.predictions] == [(6, 1, 2), (6, 2, 2)]
    np.testing.assert_array_equal(held.rows, [2, 7, 8])
    table = held.to_frame()
    assert len(table) == 6 * 3 * 2
    row = table[(table.row == 7) & (table.target == 1) & (table.alpha == ALPHAS[2])].iloc[0]
    assert row.prediction == held.predictions[1][2, 0, 1]
    assert row.y == Y2[7, 1]
    assert row.experiment == 1
    assert repr(fitted.verify(2)).startswith("<verified: 2 experiments")
    assert "taken:" in str(fitted.explain())


def test_explain_tells_the_rounding_errors_of_the_chosen_penalty():
    rng, site = np.random.default_rng(0), np.repeat(np.arange(30), 6)
    rows = rng.normal(size=(30, 3))[site] + 0.3 * rng.normal(size=(180, 3))
    y = np.sin(rows[:, 0]) + 0.5 * rng.normal(size=30)[site] + 0.2 * rng.normal(size=180)
    fitted = KernelRidgeCV(gamma=0.05, cv=GroupKFold(30), scoring="r2").fit(rows, y, groups=site)
    expected = fitted.cv_results_["rounding"][fitted.best_index_]
    assert f"{expected:.0e}" in fitted.explain().facts["rounding"]


def test_held_out_asks_new_questions_without_a_new_fit():
    fitted = model().fit(X, Y2)
    by_group = fitted.held_out(GroupKFold(5), groups=GROUPS, alphas=[0.3])
    assert by_group.values.shape == (1, M, 2)
    np.testing.assert_allclose(
        fitted.predict_without(np.flatnonzero(GROUPS == 2), alpha=0.3),
        by_group.matrix()[0, GROUPS == 2],
        rtol=1e-9,
    )
    each = fitted.predict_without([4, 5], alpha=[0.1, 10.0])
    np.testing.assert_allclose(
        each[:, 0], fitted.predict_without([4, 5], alpha=0.1)[:, 0], rtol=1e-9
    )
    np.testing.assert_allclose(
        each[:, 1], fitted.predict_without([4, 5], alpha=10.0)[:, 1], rtol=1e-9
    )


def test_warnings_point_at_the_line_that_called_fit():
    from holdfast.basis import FeatureVectors

    with pytest.warns(SelectionBiasWarning, match="reselect") as caught:
        model(basis=FeatureVectors(5)).fit(X, Y)
    assert [w.filename for w in caught if w.category is SelectionBiasWarning] == [__file__]
