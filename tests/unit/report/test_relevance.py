"""Which columns a model uses: the same as shuffling columns and really retraining."""

import json

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, RepeatedKFold

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.cli import main
from holdfast.exceptions import InvalidInputError
from holdfast.report import Ask, Context, shuffling, summarise, to_html, to_markdown
from holdfast.report.context import make_case
from holdfast.report.relevance import ask_relevance
from holdfast.report.shuffling import plan_shuffle
from reference.retrain import policy_experiment, retrain
from tolerances import relative_difference, tolerance

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

ALPHAS = np.logspace(-2, 2, 5)
SOURCES = ("matters", "nothing", "colour", "colour", "colour")
FEATURES = ("matters", "nothing", "colour=b", "colour=g", "colour=r")


def data(m=60, seed=0):
    """Return X with a column that matters, one that does not, three of a category; y; groups."""
    rng = np.random.default_rng(seed)
    colour = rng.integers(3, size=m)
    X = np.column_stack([rng.normal(size=(m, 2)), np.eye(3)[colour]])
    y = 2 * np.sin(X[:, 0]) + 1.5 * (colour == 1) + 0.3 * rng.normal(size=m)
    return X, y, np.repeat(np.arange(m // 5), 5)


def ask(model, sources=SOURCES, notes=None, seed=0, **options):
    context = Context(feature_names=FEATURES, sources=sources)
    case = make_case(model, context, Ask(seed=seed), **options)
    found = ask_relevance(case)
    if notes is not None:
        notes += case.notes
    return found


def naive_losses(model, X, Y, features, shuffle, weights, kernel, target=0):
    """Return losses (1 + columns, k), each experiment trained again for the rows that it tests."""
    m, k = X.shape[0], shuffle.rows.size
    worlds = [[X[shuffle.rows]]]
    for columns in features:
        worlds.append([])
        for donors in shuffle.donors:
            made = X[shuffle.rows].copy()
            made[:, columns] = X[donors][:, columns]
            worlds[-1].append(made)
    basis = None if model.basis is None else model.basis_indices_
    losses = np.zeros((len(worlds), k))
    for j in range(len(shuffle.tasks)):
        mine = np.flatnonzero(shuffle.owner == j)
        held = model._problem.experiments.held_out[int(shuffle.tasks.source[j])]
        held, _, removed = policy_experiment(held, held, basis, model.held_out_basis)
        for i, world in enumerate(worlds):
            for made in world:
                both = np.vstack([X, made[mine]])
                new = m + np.arange(mine.size)
                predicted = retrain(
                    kernel(both, both),
                    np.vstack([Y, np.zeros((mine.size, Y.shape[1]))]),
                    np.concatenate([held, new]),
                    new,
                    float(np.atleast_1d(model.alpha_)[0]),
                    basis,
                    removed,
                    np.concatenate([weights, np.ones(mine.size)]),
                    jitter=0.0 if basis is None else model.jitter_,
                )
                errors = Y[shuffle.rows[mine], target] - predicted[:, target]
                losses[i, mine] += errors**2 / len(world)
    return losses


def naive_rises(losses, weights, unit):
    """Return rises of the RMSE and standard errors, a unit at a time."""
    roots = [np.sqrt(np.average(loss, weights=weights)) for loss in losses]
    rise, se = [], []
    for loss, root in zip(losses[1:], roots[1:], strict=True):
        total = 0.0
        for one in np.unique(unit):
            at = unit == one
            after = np.sum(weights[at] * (loss[at] - root**2)) / (2 * root)
            before = np.sum(weights[at] * (losses[0][at] - roots[0] ** 2)) / (2 * roots[0])
            total += ((after - before) / weights.sum()) ** 2
        n = np.unique(unit).size
        rise.append(root - roots[0])
        se.append(np.sqrt(total * n / (n - 1)))
    return roots[0], np.array(rise), np.array(se)


def rbf(A, B):
    return rbf_kernel(A, B, gamma=0.2)


@pytest.mark.parametrize(
    ("options", "kernel", "grouped"),
    [
        ({"cv": KFold(4)}, rbf, False),
        ({"cv": None}, rbf, False),
        ({"cv": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)}, rbf, False),
        ({"cv": LeaveOneGroupOut()}, rbf, True),
        ({"cv": GroupKFold(4), "basis": 15, "random_state": 0}, rbf, True),
        ({"cv": GroupKFold(2), "basis": 6, "random_state": 0}, rbf, True),
        ({"cv": 12, "kernel": "linear"}, linear_kernel, False),
        ({"cv": 2, "kernel": "linear"}, linear_kernel, False),
    ],
    ids=["folds", "one row", "repeated", "groups", "basis", "few basis", "linear", "halves"],
)
def test_equals_shuffling_and_retraining(options, kernel, grouped):
    X, y, groups = data()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=y.size)
    weights[7] = 0.0
    model = KernelRidgeCV(**{"gamma": 0.2, "alphas": ALPHAS, **options})
    model.fit(X, y, sample_weight=weights, groups=groups if grouped else None)
    found = ask(model, seed=3)
    features = [np.array([0]), np.array([1]), np.array([2, 3, 4])]
    shuffle = plan_shuffle(model, features, 3)
    assert shuffle.trained == (len(shuffle.tasks) == 2)  # halves, and few features
    assert found.shuffled == shuffle.rows.size == np.sum(weights[model.held_out().rows] > 0)
    losses = naive_losses(model, X, y[:, None], features, shuffle, weights, kernel)
    unit = groups[shuffle.rows] if grouped else shuffle.rows
    error, rise, se = naive_rises(losses, weights[shuffle.rows], unit)
    order = [["matters", "nothing", "colour"].index(name) for name in found.names]
    assert found.unit == ("groups" if grouped else "rows")
    assert relative_difference(found.error, error) < tolerance("retraining")
    assert relative_difference(found.rise, rise[order]) < tolerance("retraining")
    assert relative_difference(found.standard_error, se[order]) < tolerance("retraining")
    reach = student.ppf(0.995, np.unique(unit).size - 1) * se[order]
    np.testing.assert_allclose(found.high - found.rise, reach, rtol=1e-8)
    np.testing.assert_allclose(found.rise - found.low, reach, rtol=1e-8)


def test_second_of_two_targets():
    X, y, _ = data()
    Y = np.column_stack([y, X[:, 1]])
    model = KernelRidgeCV(gamma=0.2, alphas=[0.1], cv=4).fit(X, Y)
    features = [np.array([0]), np.array([1]), np.array([2, 3, 4])]
    found, shuffle = ask(model, target=1), plan_shuffle(model, features, 0)
    losses = naive_losses(model, X, Y, features, shuffle, np.ones(y.size), rbf, target=1)
    _, rise, _ = naive_rises(losses, np.ones(y.size), shuffle.rows)
    assert found.names[0] == "nothing"  # for the first target; the second is that column
    assert found.rise[0] == pytest.approx(rise[1], rel=tolerance("retraining"))


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_by_the_share_of_errors(classes):
    X, y, _ = data(m=90)
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))]
    labels = np.where(labels == "c", "b", labels) if classes == 2 else labels
    cv = KFold(5, shuffle=True, random_state=0)
    model = KernelRidgeClassifierCV(gamma=0.2, alphas=[0.1], cv=cv).fit(X, labels)
    found = ask(model)
    features = [np.array([0]), np.array([1]), np.array([2, 3, 4])]
    shuffle = plan_shuffle(model, features, 0)
    wrong = np.zeros((4, y.size))
    for train, test in cv.split(X):
        again = KernelRidgeClassifierCV(gamma=0.2, alphas=[0.1]).fit(X[train], labels[train])
        mine = np.flatnonzero(np.isin(shuffle.rows, test))
        rows = shuffle.rows[mine]
        wrong[0, mine] = again.predict(X[rows]) != labels[rows]
        for i, columns in enumerate(features):
            for donors in shuffle.donors:
                made = X[rows].copy()
                made[:, columns] = X[donors[mine]][:, columns]
                wrong[i + 1, mine] += (again.predict(made) != labels[rows]) / len(shuffle.donors)
    order = [["matters", "nothing", "colour"].index(name) for name in found.names]
    difference = wrong[1:] - wrong[0]
    assert found.label == "share of errors"
    assert found.error == pytest.approx(wrong[0].mean())
    np.testing.assert_allclose(found.rise, difference.mean(axis=1)[order], atol=1e-12)
    se = difference.std(axis=1, ddof=1) / np.sqrt(y.size)
    np.testing.assert_allclose(found.standard_error, se[order], atol=1e-12)


def test_rows_get_the_value_of_another_tested_row():
    X, y, _ = data()
    model = KernelRidgeCV(gamma=0.2, alphas=ALPHAS, cv=4).fit(X, y)
    shuffle = plan_shuffle(model, [np.array([0])], 0)
    for donors in shuffle.donors:
        assert sorted(donors) == list(range(y.size))
        assert (donors != shuffle.rows).all()
    assert len({tuple(donors) for donors in shuffle.donors}) == len(shuffle.donors) == 5


def test_a_seed_gives_its_numbers():
    X, y, _ = data()
    model = KernelRidgeCV(gamma=0.2, alphas=ALPHAS, cv=4).fit(X, y)
    first, again, other = (summarise(model, verify=0, ask=Ask(seed=s)).relevance for s in (1, 1, 2))
    np.testing.assert_array_equal(first.rise, again.rise)
    np.testing.assert_array_equal(first.standard_error, again.standard_error)
    assert not np.array_equal(first.rise, other.rise)


def test_a_constant_column_is_irrelevant():
    X, y, _ = data()
    X[:, 1] = 4.0
    found = ask(KernelRidgeCV(gamma=0.2, alphas=ALPHAS, cv=4).fit(X, y))
    at = found.names.index("nothing")
    assert abs(found.rise[at]) <= 1e-14
    assert found.standard_error[at] <= 1e-14
    assert found.verdicts[at] == "irrelevant"


def test_columns_that_mean_nothing_seldom_look_relevant():
    looked = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(20), 4)
        X = 0.5 * rng.normal(size=(80, 5)) + rng.normal(size=(20, 5))[groups]
        y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=80) + 0.5 * rng.normal(size=20)[groups]
        model = KernelRidgeCV(gamma=0.1, cv=LeaveOneGroupOut(), alphas=ALPHAS)
        found = ask(model.fit(X, y, groups=groups), None, seed=seed)
        looked.append([found.verdicts[found.names.index(n)] == "relevant" for n in FEATURES])
    share = np.mean(looked, axis=0)
    assert share[0] > 0.9
    assert share[1:].mean() < 0.06


@pytest.mark.parametrize("suffix", ["json", "md"])
def test_columns_of_a_file_are_shuffled_before_they_are_encoded(tmp_path, capsys, suffix):
    rng = np.random.default_rng(0)
    lines = ["subject,matters,nothing,colour,day,y"]
    for i in range(120):
        x, nothing, colour = rng.normal(), rng.normal(), "rgb"[rng.integers(3)]
        y = 2 * x + 3 * (colour == "g") + 0.3 * rng.normal()
        lines.append(f"s{i // 6},{x},{nothing},{colour},2024-{1 + i % 12:02}-{1 + i % 28:02},{y}")
    path, report = tmp_path / "data.csv", tmp_path / f"report.{suffix}"
    path.write_text("\n".join(lines) + "\n")
    options = ["--target", "y", "--group", "subject", "--verify", "0", "--quiet"]
    assert main(["cv", str(path), *options, "--report", str(report)]) == 0
    capsys.readouterr()
    text = report.read_text(encoding="utf-8")
    if suffix == "md":
        assert "## Which columns does the model use?" in text
        assert "| matters |" in text
        return
    found = json.loads(text)["relevance"]
    verdicts = dict(zip(found["names"], found["verdicts"], strict=True))
    assert set(verdicts) == {"matters", "nothing", "colour", "day"}
    assert (found["noun"], found["unit"]) == ("column", "groups")
    assert verdicts["matters"] == verdicts["colour"] == "relevant"
    assert verdicts["nothing"] != "relevant"


def test_too_much_work_takes_fewer_shuffles_then_fewer_rows_then_none(monkeypatch):
    X, y, _ = data(m=300)
    model = KernelRidgeCV(gamma=0.2, alphas=ALPHAS, cv=4).fit(X, y)
    whole = ask(model)
    assert (whole.shuffled, whole.predictions, whole.shuffles) == (300, 300, 5)
    each = 300 * (5 + 20 + 4)  # kernel values of a row, and four models
    models = 75 * 75 * (75 + 300)  # of one experiment
    monkeypatch.setattr(shuffling, "MOST_WORK", (1 + 3 * 3) * 300 * each)
    assert (ask(model).shuffled, ask(model).shuffles) == (300, 3)
    monkeypatch.setattr(shuffling, "MOST_WORK", 4 * models)
    found = ask(model)
    assert found.shuffles == 2
    assert (1 + 3 * 2) * found.shuffled * each <= 4 * models
    assert found.shuffled >= 100
    summary = summarise(model, Context(sources=SOURCES), verify=0)
    assert f"2 shuffles of {found.shuffled} of 300 held-out predictions" in to_html(summary)
    monkeypatch.setattr(shuffling, "MOST_WORK", 3 * models)
    shuffle = plan_shuffle(model, [np.array([0])], 0)
    assert (len(shuffle.tasks), shuffle.rows.size) == (3, 225)
    monkeypatch.setattr(shuffling, "MOST_WORK", models - 1)
    notes = []
    assert ask(model, notes=notes) is None
    assert "which columns does the model use?" in notes[0]
    summary = summarise(model, verify=0)
    assert summary.relevance is None
    assert notes[0] in summary.warnings
    assert 'id="relevance"' not in to_html(summary)


def test_models_without_columns_and_reselected_basis_rows():
    X, y, _ = data()
    notes = []
    model = KernelRidgeCV(kernel="precomputed", alphas=ALPHAS, cv=4).fit(rbf(X, X), y)
    assert ask(model, None, notes) is None
    assert notes == []
    model = KernelRidgeCV(gamma=0.2, alphas=ALPHAS, cv=4, basis=10, held_out_basis="reselect")
    assert ask(model.set_params(random_state=0).fit(X, y), notes=notes) is None
    assert "Left out because it would take long" in notes[0]


def test_sources_must_fit():
    X, y, _ = data()
    model = KernelRidgeCV(gamma=0.2, alphas=ALPHAS, cv=4).fit(X, y)
    with pytest.raises(InvalidInputError, match="column of each of 5 features; it has 2 names"):
        summarise(model, Context(sources=("a", "b")), verify=0)


def test_page_and_markdown_say_it_in_words_and_numbers():
    X, y, _ = data()
    model = KernelRidgeCV(gamma=0.2, alphas=ALPHAS, cv=4).fit(X, y)
    names = ("<b>x</b>", "a name | that is much longer than its place", *FEATURES[2:])
    summary = summarise(model, Context(feature_names=names), verify=0)
    found = summary.relevance
    assert found.names[0] == "<b>x</b>"
    page, text = to_html(summary), to_markdown(summary)
    assert 'id="relevance"' in page
    assert "Which features does the model use?" in page
    assert "<b>x</b>" not in page
    assert "not what causes the target" in page
    assert r"a name \| that is much longer than its place" in text
    assert "not what causes the target" in text
    after = found.error + found.rise[0]
    assert f"rises from {found.error:.3g} to {after:.3g}" in page
