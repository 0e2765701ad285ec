"""Checkpoints: finished kernels of a grid are read back, and only where nothing has changed."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import make_scorer
from sklearn.model_selection import GroupKFold, KFold

import holdfast.data.archive
from holdfast import HoldOut, KernelRidgeCV
from holdfast.basis import PerGroup, Random
from holdfast.data.archive import read_archive, write_archive
from holdfast.estimators.search import Planned
from holdfast.exceptions import HoldfastWarning
from holdfast.kernels import RBF
from holdfast.progress import listening

SEED = 20
RNG = np.random.default_rng(SEED)
M, D = 60, 3
X = RNG.normal(size=(M, D))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=M)
GROUPS = np.arange(M) % 6
ALPHAS = np.logspace(-3, 1, 5)
GAMMAS = [0.01, 0.1, 0.5, 2.0]

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")


def model(**options):
    return KernelRidgeCV(**{"alphas": ALPHAS, "cv": 5, "random_state": 3, **options})


def evaluations(monkeypatch):
    """Return a list that grows by one kernel whenever one is scored."""
    scored = []
    original = Planned.scores

    def counted(planned, alphas):
        scores = original(planned, alphas)
        scored.append(planned.fitted.model)
        return scores

    monkeypatch.setattr(Planned, "scores", counted)
    return scored


def equal_results(a, b):
    assert a.cv_results_.keys() == b.cv_results_.keys()
    for key, column in a.cv_results_.items():
        if key == "params":
            assert column == b.cv_results_[key]
        else:
            np.testing.assert_array_equal(column, b.cv_results_[key])
    assert a.alpha_ == b.alpha_
    assert a.best_params_ == b.best_params_
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-9)
    np.testing.assert_allclose(a.held_out().values, b.held_out().values, rtol=1e-8)


@pytest.mark.parametrize("options", [{}, {"basis": 9}, {"basis": 9, "random_state": None}])
def test_finished_kernels_are_not_computed_again(tmp_path, monkeypatch, options):
    scored = evaluations(monkeypatch)
    folder = tmp_path / "not" / "there" / "yet"
    first = model(gamma=GAMMAS, checkpoint=folder, **options).fit(X, Y)
    assert len(scored) == len(GAMMAS)
    again = model(gamma=GAMMAS, checkpoint=str(folder), **options).fit(X, Y)
    assert len(scored) == len(GAMMAS)
    equal_results(first, again)
    more = model(gamma=[*GAMMAS, 7.0], checkpoint=folder, **options).fit(X, Y)
    assert len(scored) == len(GAMMAS) + 1
    assert len(more.cv_results_["alpha"]) == 5 * ALPHAS.size


@pytest.mark.parametrize("crash", [KeyboardInterrupt, MemoryError, SystemExit])
@pytest.mark.parametrize("options", [{}, {"basis": 9, "random_state": None}])
def test_a_search_goes_on_after_a_crash(tmp_path, monkeypatch, crash, options):
    scored = evaluations(monkeypatch)

    def fail(done, total, text):
        if text == "targets" and len(scored) == 2:
            raise crash

    unfinished = model(gamma=GAMMAS, checkpoint=tmp_path, **options)
    with listening(fail), warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        if crash is KeyboardInterrupt:
            unfinished.fit(X, Y)
        else:
            with pytest.raises(crash):
                unfinished.fit(X, Y)
    assert len(scored) == 2
    resumed = model(gamma=GAMMAS, checkpoint=tmp_path, **options).fit(X, Y)
    assert len(scored) == len(GAMMAS)
    seed = resumed._problem.seed
    plain = model(gamma=GAMMAS, **{**options, "random_state": seed}).fit(X, Y)
    equal_results(resumed, plain)


def test_one_folder_serves_many_searches(tmp_path, monkeypatch):
    """Whatever the scores depend on is a search of its own."""
    scored = evaluations(monkeypatch)
    weights = np.linspace(0.5, 1.5, M)
    codes = np.repeat([0, 1, 2], 20)

    def absolute(y, p):
        return -np.abs(y - p).mean()

    def squared(y, p):
        return -((y - p) ** 2).mean()

    def scorer(power):
        return make_scorer(lambda y, p: -(np.abs(y - p) ** power).mean())

    searches = [
        (X, Y, {}, {}),
        (X + 1e-9, Y, {}, {}),
        (X, Y + 1e-9, {}, {}),
        (X.astype(np.float32), Y, {}, {}),
        (sp.csr_array(X), Y, {}, {}),
        (X, Y, {}, {"sample_weight": weights}),
        (X, Y, {"alphas": ALPHAS * 2}, {}),
        (X, Y, {"cv": 4}, {}),
        (X, Y, {"cv": KFold(5, shuffle=True, random_state=0)}, {}),
        (X, Y, {"cv": [HoldOut([1, 2, 3], [1]), HoldOut([4, 5], [4])]}, {}),
        (X, Y, {"cv": [HoldOut([1, 2, 3], [2]), HoldOut([4, 5], [4])]}, {}),
        (X, Y, {"fit_intercept": False}, {}),
        (X, Y, {"scoring": "neg_mean_absolute_error"}, {}),
        (X, Y, {"scoring": make_scorer(absolute)}, {}),
        (X, Y, {"scoring": make_scorer(squared)}, {}),
        (X, Y, {"scoring": scorer(1.0)}, {}),
        (X, Y, {"scoring": scorer(1.5)}, {}),
        (X, Y, {"basis": 9}, {}),
        (X, Y, {"basis": 9, "random_state": 4}, {}),
        (X, Y, {"basis": Random(10)}, {}),
        (X, Y, {"basis": 9, "held_out_basis": "keep"}, {}),
        (X, Y, {"basis": 9, "jitter": 1e-6}, {}),
        (X, Y, {"basis": np.arange(9) * 6}, {}),
        (X, Y, {"basis": np.arange(9)[::-1] * 6}, {}),
        (X, Y, {"basis": PerGroup(2)}, {"groups": GROUPS}),
        (X, Y, {"basis": PerGroup(2)}, {"groups": codes}),
    ]
    for rows, targets, options, fit in searches:
        before = len(scored)
        found = model(gamma=[0.1, 1.0], checkpoint=tmp_path, **options).fit(rows, targets, **fit)
        assert len(scored) == before + 2, options
        plain = model(gamma=[0.1, 1.0], **options).fit(rows, targets, **fit)
        del scored[-2:]
        np.testing.assert_array_equal(
            found.cv_results_["pooled_test_score"], plain.cv_results_["pooled_test_score"]
        )
    assert len(list(tmp_path.glob("scores-*.holdfast"))) == 2 * len(searches)


def test_basis_rows_too_many_to_print_are_told_apart(tmp_path, monkeypatch):
    scored = evaluations(monkeypatch)
    first, second = np.arange(0, 40), np.arange(0, 40)
    second[20] = 55
    with np.printoptions(threshold=10):
        assert repr(first) == repr(second)
        for basis in (first, second):
            model(gamma=1.0, basis=basis, checkpoint=tmp_path, cv=3).fit(X, Y)
    assert len(scored) == 2


@pytest.mark.parametrize(
    "kernels",
    [
        (gp.RBF(1.0), gp.RBF(1.0001)),  # scikit-learn prints both alike
        (lambda A, B: A @ B.T, lambda A, B: 2 * A @ B.T),
        tuple((lambda A, B, s=s: s * (A @ B.T)) for s in (1.0, 3.0)),
        (RBF(0.1), RBF(0.1 + 1e-12)),
        (RBF(1e8), RBF(2e8)),
    ],
    ids=["gp", "lambdas", "defaults", "digits", "flat"],
)
def test_kernels_that_look_alike_are_told_apart(tmp_path, monkeypatch, kernels):
    scored = evaluations(monkeypatch)
    first = model(kernel=list(kernels), checkpoint=tmp_path).fit(X, Y)
    assert len(scored) == 2
    again = model(kernel=list(kernels), checkpoint=tmp_path).fit(X, Y)
    assert len(scored) == 2
    equal_results(first, again)


def test_functions_and_objects_are_found_again_in_another_process(tmp_path, monkeypatch):
    """The name of a file holds no address of this process and no order of a set."""
    import os
    import subprocess
    import sys

    code = """
import sys, warnings
import numpy as np
import holdfast.estimators.search as search
from holdfast import KernelRidgeCV
warnings.simplefilter("ignore")
words = np.array(["ant", "bee", "cow", "doe", "eel", "fox", "gnu", "hen"] * 2, dtype=object)
def shared(A, B):
    return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])
original, scored = search.Planned.scores, []
search.Planned.scores = lambda *a: scored.append(1) or original(*a)
scale = 2.0
kernels = [shared, lambda A, B: scale * shared(A, B)]
model = KernelRidgeCV(kernel=kernels, alphas=[0.1, 1.0], cv=4, checkpoint=sys.argv[1])
model.fit(words, np.arange(16.0))
print(len(scored))
"""
    counts = []
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": "1"},
        )
        counts.append(int(run.stdout))
    assert counts == [2, 0]


@pytest.mark.parametrize("damage", ["empty", "cut", "noise", "other", "columns"])
def test_a_damaged_file_is_computed_again(tmp_path, monkeypatch, damage):
    scored = evaluations(monkeypatch)
    first = model(gamma=GAMMAS, checkpoint=tmp_path).fit(X, Y)
    file = sorted(tmp_path.glob("scores-*.holdfast"))[1]
    content = file.read_bytes()
    if damage == "empty":
        file.write_bytes(b"")
    elif damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "noise":
        file.write_bytes(bytes(reversed(content)))
    elif damage == "other":
        write_archive(file, "scores", {}, {"pooled": np.zeros(3)})
    else:
        arrays = read_archive(file).arrays
        write_archive(file, "scores", {}, {**arrays, "pooled": arrays["pooled"][:2]})
    with pytest.warns(HoldfastWarning, match=f"{file.name} is damaged") as caught:
        again = model(gamma=GAMMAS, checkpoint=tmp_path).fit(X, Y)
    assert "are computed again" in str(caught[0].message)
    assert len(scored) == len(GAMMAS) + 1
    equal_results(first, again)
    assert file.read_bytes() == content  # and it is whole again


def test_a_damaged_seed_is_chosen_again(tmp_path, monkeypatch):
    scored = evaluations(monkeypatch)
    options = {"gamma": GAMMAS, "basis": 9, "random_state": None, "checkpoint": tmp_path}
    model(**options).fit(X, Y)
    (seed,) = tmp_path.glob("seed-*.txt")
    seed.write_text("?")
    model(**options).fit(X, Y)
    assert len(scored) == 2 * len(GAMMAS)
    assert seed.read_text().isdigit()


def test_an_unfinished_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def broken(archive, name, *parts):
        archive.fp.write(b"half of it")
        raise OSError("disk full")

    monkeypatch.setattr(holdfast.data.archive, "_add", broken)
    with pytest.raises(OSError, match="disk full"):
        model(gamma=GAMMAS, checkpoint=tmp_path).fit(X, Y)
    assert list(tmp_path.iterdir()) == []


def test_per_target_scores_are_a_search_of_their_own(tmp_path):
    Y2 = np.c_[Y, Y**2]
    options = {"gamma": [0.1, 1.0], "scoring": "max_error", "checkpoint": tmp_path}
    scorer = make_scorer(lambda y, p: -float(np.abs(y - p).max()))
    options["scoring"] = scorer
    model(pooled=False, **options).fit(X, Y2)
    per_target = model(pooled=False, alpha_per_target=True, **options).fit(X, Y2)
    assert per_target.alpha_.shape == (2,)


def test_groups_of_the_splits_count(tmp_path, monkeypatch):
    scored = evaluations(monkeypatch)
    for groups in (GROUPS, np.repeat([0, 1, 2], 20)):
        model(gamma=[0.1, 1.0], cv=GroupKFold(3), checkpoint=tmp_path).fit(X, Y, groups=groups)
    assert len(scored) == 4


def test_many_penalties_may_be_asked_after_a_checkpoint(tmp_path):
    """The engine of the winner is built although its scores came from a file."""
    model(gamma=GAMMAS, checkpoint=tmp_path, basis=9).fit(X, Y)
    again = model(gamma=GAMMAS, checkpoint=tmp_path, basis=9).fit(X, Y)
    assert again.held_out(cv=3, alphas=[0.1, 1.0]).matrix().shape == (2, M, 1)
    assert again.verify().max_relative_error < 1e-9
    assert "experiments" in str(again.explain())
