"""The parts of columns: which is the target, which are used, and what makes an answer doubtful.

`make_task` gives every column its part and turns the rest into numbers. `suspicions` lists what a
careful reader would ask before trusting a score: rows that should leave together, order in time,
copies, columns that give the answer away, codes for missing values. What each of them does to the
answer is measured later (`holdfast.app.fitting`), not guessed here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.app.reading import Table
from holdfast.app.words import BadData, BadOption, count, listed, percent, quoted
from holdfast.displays.words import number

__all__ = ["Suspicion", "Task", "make_preparation", "make_task", "suspicions"]

Array = NDArray[Any]

#: Text columns of at most so many levels become one feature per level.
_LEVELS = 40
_TEXT_PARTS = 20
#: From here on a column "tells the target almost alone".
_ALONE = 0.99
_AUTOCORRELATION = 0.6
_MOSTLY_MISSING = 0.5
_CODES = (-9, -99, -999, -9999, -99999, 99, 999, 9999, 99999, -1)
_MOST_COLUMNS = 300
_MOST_RANKS = 2e6
_WHO = re.compile(
    r"(^|[_\W])(subject|patient|person|participant|proband|user|customer|client|animal|student|"
    r"child|family|household|group|cluster|batch|site|hospital|school|building|plot|device|sensor|"
    r"machine|cow|farm|id)(?=$|[_\W\d])",
    re.I,
)
_WHEN = re.compile(r"(^|[_\W])(date|time|timestamp|day|week|month|year|hour)(?=$|[_\W\d])", re.I)
_IDENTIFIER = re.compile(r"(^|[_\W])(id|uuid|key|index|number|nr|no)$|^(id|index)([_\W]|$)", re.I)


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be predicted, for which rows, from what."""

    table: Table  #: The rows that have a target
    target: str
    classify: bool
    features: tuple[str, ...]  #: The columns that are used
    left_out: dict[str, str]  #: The others, and why
    preparation: Any  #: Fitted: from these columns to numbers
    X: Array
    y: Array  #: Numbers, or labels as text
    group: str | None = None
    groups: Array | None = None
    time: str | None = None
    times: Array | None = None
    weights: Array | None = None
    without_target: Table | None = None  #: The rows that have none
    why_classes: str = ""  #: Why the target was taken for classes, if nobody said so
    notes: list[str] = field(default_factory=list)

    @property
    def made_of(self) -> list[str]:
        """The column behind each feature."""
        return [column for column, _ in _parts(self.preparation)]

    def without(self, columns: list[str]) -> Task:
        """Return the same question without some columns."""
        keep = np.array([column not in columns for column in self.made_of])
        return replace(self, X=self.X[:, keep])

    def some(self, rows: Array) -> Task:
        """Return the same question of some of the rows."""

        def cut(values: Array | None) -> Array | None:
            return None if values is None else values[rows]

        return replace(
            self,
            table=self.table.rows(rows),
            X=self.X[rows],
            y=self.y[rows],
            groups=cut(self.groups),
            times=cut(self.times),
            weights=cut(self.weights),
        )


# --- parts ----------------------------------------------------------------------------------------


def make_task(
    table: Table,
    target: str | None,
    *,
    group: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    classify: str = "auto",
    drop: str | None = None,
    only: str | None = None,
) -> Task:
    """Return the question that the options ask of a table."""
    names = list(table.frame.columns)
    if target is None:
        raise BadOption(
            f"--target is needed: the column to predict. {table.name} has {listed(names, 12)}."
        )
    chosen = {"target": target, "group": group, "time": time, "weight": weight}
    for option, name in chosen.items():
        if name is not None:
            _find(name, names, f"--{option}")
    dropped, wanted = _several(drop, names, "--drop"), _several(only, names, "--only")
    known = np.flatnonzero(table.frame[target].notna().to_numpy())
    if not len(known):
        raise BadData(f"{quoted(target)} has no values at all.")
    others = np.setdiff1d(np.arange(table.n_rows), known)
    rows = table.rows(known) if len(others) else table
    y, classes, why = _target(rows, target, classify)
    taken = {name for name in chosen.values() if name is not None and name != time}
    candidates = [n for n in wanted or names if n not in taken and n not in dropped]
    left_out = dict.fromkeys(dropped, "left out as asked")
    for name in candidates:
        reason = _unfit(rows, name, named=bool(wanted))
        if reason:
            left_out[name] = reason
    features = tuple(name for name in candidates if name not in left_out)
    if not features:
        counts = [n for n in candidates if left_out[n].startswith("numbers the rows")]
        if not counts:  # otherwise a count that is all there is, is better than nothing
            whys = "; ".join(f"{quoted(n)} {w}" for n, w in list(left_out.items())[:4])
            raise BadData(f"No column is left to predict from: {whys or 'there is no other'}.")
        features = tuple(counts)
        left_out = {n: w for n, w in left_out.items() if n not in counts}
    task = Task(
        table=rows,
        target=target,
        classify=classes,
        features=features,
        left_out=left_out,
        preparation=None,
        X=np.empty(0),
        y=y,
        group=group,
        groups=_labels(rows, group),
        time=time,
        times=_times(rows, time),
        weights=_weights(rows, weight),
        without_target=table.rows(others) if len(others) else None,
        why_classes=why,
    )
    made = make_preparation(rows, features)
    X = np.asarray(made.fit_transform(rows.frame[list(features)]), dtype=float)
    return replace(task, preparation=made, X=X, notes=_what_was_done(task))


def _find(name: str, names: list[str], option: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1) or [
            n for n in names if n.lower() == name.lower()
        ]
        meant = f" Did you mean {quoted(near[0])}?" if near else f" There is {listed(names, 12)}."
        raise BadOption(f"{option}: there is no column {quoted(name)}.{meant}")


def _several(text: str | None, names: list[str], option: str) -> list[str]:
    """Return the columns of a list with commas, or the one whose name has commas."""
    if text is None:
        return []
    if text in names:
        return [text]
    found = [part.strip() for part in text.split(",") if part.strip()]
    for name in found:
        _find(name, names, option)
    return found


def _target(table: Table, name: str, classify: str) -> tuple[Array, bool, str]:
    """Return the target, whether it is classes, and why it was taken for classes unasked."""
    values, kind = table.frame[name], table.kinds[name]
    levels = values.nunique()
    if levels < 2:
        raise BadData(f"{quoted(name)} has the same value in all rows: there is nothing to learn.")
    if kind == "date":
        raise BadData(f"{quoted(name)} holds dates; a target is a number or a class.")
    why = ""
    if classify == "auto":
        if kind == "text":
            why = f"{quoted(name)} is text, so its {levels:,} values are classes."
        elif levels == 2:
            low, high = (f"{v:g}" for v in sorted(values.unique()))
            why = f"{quoted(name)} has two values, {low} and {high}, so they are classes."
    asked = classify == "yes" or bool(why)
    if not asked:
        if kind != "number":
            raise BadData(
                f"{quoted(name)} is no column of numbers (line {table.lines[0]:,} has "
                f"{quoted(values.iloc[0])}); for classes, say --classify."
            )
        return values.to_numpy(float), False, ""
    if levels > max(20, len(values) // 5):
        hint = "For a number, say --classify no." if kind == "number" else "Is it the right column?"
        raise BadData(
            f"{quoted(name)} has {levels:,} different values in {len(values):,} rows: too many for "
            f"classes. {hint}"
        )
    labels = values.map(lambda v: f"{v:g}" if kind == "number" else str(v)).to_numpy(str)
    classes, counts = np.unique(labels, return_counts=True)
    if counts.min() < 2:
        alone = [c for c, n in zip(classes, counts, strict=True) if n < 2]
        row = int(np.flatnonzero(labels == alone[0])[0])
        raise BadData(
            f"{count(len(alone), 'class', 'classes')} of {quoted(name)} "
            f"{'has' if len(alone) == 1 else 'have'} one row only, such as {quoted(alone[0])} in "
            f"line {table.lines[row]:,}: nothing is left to learn from when it is held out. Leave "
            "these rows out, or put classes together."
        )
    return labels, True, why


def _labels(table: Table, name: str | None) -> Array | None:
    if name is None:
        return None
    values = table.frame[name]
    if values.isna().any():
        row = int(values.isna().to_numpy().argmax())
        raise BadData(f"The group {quoted(name)} is missing in line {table.lines[row]:,}.")
    labels = values.map(lambda v: f"{v:g}" if isinstance(v, float) else str(v)).to_numpy(str)
    if len(np.unique(labels)) < 2:
        raise BadData(f"The group {quoted(name)} is the same in all rows.")
    return np.asarray(labels)


def _times(table: Table, name: str | None) -> Array | None:
    if name is None:
        return None
    values, kind = table.frame[name], table.kinds[name]
    if kind not in ("number", "date"):
        raise BadData(f"--time: {quoted(name)} holds neither numbers nor dates.")
    if values.isna().any():
        row = int(values.isna().to_numpy().argmax())
        raise BadData(f"The time {quoted(name)} is missing in line {table.lines[row]:,}.")
    moments = values.to_numpy()
    return np.asarray(moments.astype("datetime64[us]") if kind == "date" else moments).astype(float)


def _weights(table: Table, name: str | None) -> Array | None:
    if name is None:
        return None
    values = table.frame[name]
    if table.kinds[name] != "number" or values.isna().any() or (values < 0).any():
        raise BadData(f"--weight: {quoted(name)} must hold a number from 0 up in every row.")
    if not (values > 0).any():
        raise BadData(f"--weight: {quoted(name)} is 0 in every row.")
    return np.asarray(values.to_numpy(float))


def _unfit(table: Table, name: str, *, named: bool) -> str:
    """Return why a column is not used to predict; "" if it is."""
    values, kind, m = table.frame[name], table.kinds[name], table.n_rows
    levels = values.nunique()
    if kind == "empty" or levels == 0:
        return "is empty"
    if levels == 1 and not values.isna().any():
        return "is the same in all rows"
    if named:
        return ""
    if kind == "number" and is_row_number(name, values.to_numpy(float)):
        low, high = values.min(), values.max()
        return f"numbers the rows in order, {low:.0f} to {high:.0f} (--only uses it)"
    if kind == "text" and m >= 20 and levels > 0.9 * values.notna().sum():
        words = values.dropna().head(200).str.count(r"\s").mean()
        if words < 2:
            return (
                f"has another value in nearly every row, such as {quoted(values.dropna().iloc[0])}"
            )
    return ""


def is_row_number(name: str, values: Array) -> bool:
    """Return whether numbers count the rows, in order, but for rows that are missing.

    The same numbers in another order are measurements as likely as not, and years count by chance.
    """
    m = len(values)
    if m < 10 or not np.isfinite(values).all() or (values != np.floor(values)).any():
        return False
    steps = np.diff(values)
    ordered = bool((steps > 0).all() or (steps < 0).all())
    dense = values.max() - values.min() < 1.5 * m
    years = values.min() >= 1500 and values.max() <= 2200
    when = _WHEN.search(name) is not None
    return ordered and dense and not years and not when


# --- features -------------------------------------------------------------------------------------


def make_preparation(table: Table, features: tuple[str, ...]) -> Any:
    """Return what turns columns into numbers, not yet fitted.

    Numbers are filled in with the median and scaled; text of few levels becomes a feature per
    level, other text and dates are encoded by skrub. Nothing of it looks at the target.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    steps: list[tuple[str, Any, Any]] = []
    of = {k: [n for n in features if table.kinds[n] == k] for k in ("number", "text", "date")}
    if of["number"]:
        filled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
        steps.append(("numbers", filled, of["number"]))
    few = [name for name in of["text"] if table.frame[name].nunique() <= _LEVELS]
    if few:
        levels = make_pipeline(
            SimpleImputer(strategy="constant", fill_value="(missing)", missing_values=None),
            OneHotEncoder(drop="if_binary", handle_unknown="ignore", sparse_output=False),
        )
        steps.append(("levels", levels, few))
    many = [name for name in of["text"] if name not in few]
    if many or of["date"]:
        from skrub import DatetimeEncoder, StringEncoder

        for name in many:
            parts = min(_TEXT_PARTS, max(2, table.frame[name].nunique() // 4))
            text = StringEncoder(n_components=parts, random_state=0)
            steps.append((f"text {name}", make_pipeline(text, _scaled()), name))
        for name in of["date"]:
            clock = (table.frame[name].dropna().dt.normalize() != table.frame[name].dropna()).any()
            date = DatetimeEncoder(resolution="hour" if clock else "day", add_weekday=True)
            steps.append((f"date {name}", make_pipeline(date, _scaled()), name))
    return ColumnTransformer(steps, sparse_threshold=0.0)


def _scaled() -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
    )


def _parts(preparation: Any) -> Iterator[tuple[str, str]]:
    """Yield the column behind each feature, with the name of its step."""
    widths = {step: part.stop - part.start for step, part in preparation.output_indices_.items()}
    for step, fitted, columns in preparation.transformers_:
        if step == "levels":
            encoder = fitted[-1]
            for column, levels, dropped in zip(
                columns, encoder.categories_, _dropped(encoder), strict=True
            ):
                yield from [(column, step)] * (len(levels) - dropped)
        elif step == "numbers":
            yield from [(column, step) for column in columns]
        elif step != "remainder":
            yield from [(columns, step)] * widths[step]


def _dropped(encoder: Any) -> list[int]:
    left = encoder.drop_idx_
    return [0] * len(encoder.categories_) if left is None else [int(i is not None) for i in left]


def _what_was_done(task: Task) -> list[str]:
    """Return how columns became numbers, a sentence each."""
    table, done = task.table, []
    kinds = {
        k: [n for n in task.features if table.kinds[n] == k] for k in ("number", "text", "date")
    }
    if task.without_target is not None:
        m, n = task.without_target.n_rows, table.n_rows + task.without_target.n_rows
        done.append(
            f"{m:,} of {n:,} rows have no {quoted(task.target)}: they are left out here, and "
            "predicted with --predictions."
        )
    if kinds["text"]:
        done.append(
            f"Text became features, by level or by the letters in it: {listed(kinds['text'])}."
        )
    if kinds["date"]:
        done.append(f"Dates became year, month, day and weekday: {listed(kinds['date'])}.")
    numbers = table.frame[kinds["number"]].isna().sum() if kinds["number"] else None
    if numbers is not None and (numbers > 0).any():
        some = numbers[numbers > 0]
        shown = ", ".join(f"{quoted(n)} {c:,}" for n, c in list(some.items())[:6])
        more = f" and {len(some) - 6} more columns" if len(some) > 6 else ""
        done.append(f"Missing numbers were filled in with the median of all rows: {shown}{more}.")
    done.append(
        "Numbers were centred and scaled. Whatever is learned from the columns is learned from all "
        f"rows, and never from {quoted(task.target)}."
    )
    return done


# --- suspicions -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Suspicion:
    """Something that may make the answer wrong, and how to find out."""

    kind: Literal["copies", "group", "time", "leak", "code", "identifier", "missing"]
    text: str  #: What was seen, in a sentence
    option: str = ""  #: What to say on the command line
    column: str = ""
    groups: Array | None = None  #: Rows that should be held out together
    times: Array | None = None  #: Or in this order


def suspicions(task: Task) -> list[Suspicion]:
    """Return what a careful reader would ask about the data, the gravest first."""
    return [
        *_leaks(task),
        *_copies(task),
        *_groups(task),
        *_order(task),
        *_codes(task),
        *_gaps(task),
        *_identifiers(task),
    ]


def _option(name: str, value: str) -> str:
    import shlex

    return f"--{name} {shlex.quote(value)}"


def _leaks(task: Task) -> Iterator[Suspicion]:
    strength, columns = _alone(task.X, task.y, task.classify), task.made_of
    best: dict[str, float] = {}
    for j in np.argsort(-strength, kind="stable")[:8]:
        if strength[j] >= _ALONE:
            best.setdefault(columns[j], float(strength[j]))
    for column, value in list(best.items())[:3]:
        what = (
            f"separates the classes of {quoted(task.target)} almost alone"
            if task.classify
            else f"gives {quoted(task.target)} almost alone (rank correlation {value:.3f})"
        )
        yield Suspicion(
            "leak",
            f"{quoted(column)} {what}. Is it known before "
            f"{quoted(task.target)} is, or made from it?",
            _option("drop", column),
            column,
        )


def _alone(X: Array, y: Array, classify: bool) -> Array:
    """Return how well each feature alone tells the target, between 0 and 1.

    The rank correlation with a number, and |2 AUC − 1| for the class that it separates best.
    """
    from scipy.stats import rankdata

    m, d = X.shape
    # Ranks of every column of a wide table are much work; some thousand rows tell enough.
    rows = np.unique(np.linspace(0, m - 1, min(m, max(200, int(_MOST_RANKS / d)))).astype(int))
    y = y[rows]
    ranks = rankdata(X[rows], axis=0) - (len(rows) + 1) / 2
    if not classify:
        aim = rankdata(y.astype(float)) - (len(rows) + 1) / 2
        size = np.sqrt((ranks**2).sum(axis=0) * (aim**2).sum())
        return np.asarray(np.abs(aim @ ranks) / np.where(size > 0, size, np.inf))
    classes, counts = np.unique(y, return_counts=True)
    strength = np.zeros(d)
    for c, k in zip(classes, counts, strict=True):
        if min(k, len(y) - k) >= 3 and len(classes) <= 20:
            separation = 2 * np.abs((y == c).astype(float) @ ranks) / (k * (len(y) - k))
            strength = np.maximum(strength, separation)
    return strength


def _copies(task: Task) -> Iterator[Suspicion]:
    frame = task.table.frame[[*task.features, task.target]]
    combinations = max((frame[n].nunique() for n in task.features), default=0)
    if combinations <= min(50, len(frame) / 4):
        return  # few combinations of values: equal rows are no news
    same = frame.duplicated(keep=False).to_numpy()
    again = frame.duplicated().to_numpy()
    if not again.any():
        return
    together = frame.groupby(list(frame.columns), dropna=False, sort=False).ngroup().to_numpy()
    n, m = int(again.sum()), len(frame)
    yield Suspicion(
        "copies",
        f"{count(n, 'row is', 'rows are')} an exact copy of another ({percent(n / m)}; "
        f"{task.table.where(np.flatnonzero(same))}), {quoted(task.target)} included: a copy in the "
        "training rows gives the answer away.",
        "remove the copies from the file",
        groups=together,
    )


def _groups(task: Task) -> Iterator[Suspicion]:
    if task.group is not None:
        return
    m, found = task.table.n_rows, []
    taken = {task.target, task.time}
    for name in [n for n in task.table.frame.columns if n not in taken][:_MOST_COLUMNS]:
        values, kind = task.table.frame[name], task.table.kinds[name]
        whole = kind == "number" and bool((values.dropna() % 1 == 0).all())
        if not (kind == "text" or whole) or values.isna().any():
            continue
        codes = values.factorize()[0]
        n = int(codes.max()) + 1
        if not 5 <= n <= m / 2 or (
            np.bincount(codes).min() < 2 and (np.bincount(codes) > 1).mean() < 0.7
        ):
            continue
        named = bool(_WHO.search(name))
        trait = None if named and kind == "text" else _trait(task, name, codes, n)
        together = n >= 10 and int((np.diff(codes) != 0).sum()) < 1.1 * n  # one after the other
        if named or trait or together:
            found.append((not named, trait is None, n, name, trait, codes))
    for *_, n, name, trait, codes in sorted(found, key=lambda f: f[:3])[:2]:
        why = f"; {quoted(trait)} is the same within each" if trait else ""
        yield Suspicion(
            "group",
            f"Rows come in groups: {quoted(name)} has {n:,} values in {m:,} rows{why}.",
            _option("group", name),
            name,
            groups=codes,
        )


def _trait(task: Task, name: str, codes: Array, n: int) -> str | None:
    """Return a column of numbers that each group has one value of, and nearly each its own."""
    for other in task.features[:_MOST_COLUMNS]:
        if other == name or task.table.kinds[other] != "number":
            continue
        values = task.table.frame[other].factorize()[0]
        k = int(values.max()) + 1
        # More values than could be chance, fewer than rows, and one for each group.
        if (
            max(5, n / 2) < k <= n
            and len(np.unique(codes.astype(np.int64) * (k + 1) + values)) == n
        ):
            return other
    return None


def _order(task: Task) -> Iterator[Suspicion]:
    if task.time is not None:
        return
    frame, kinds = task.table.frame, task.table.kinds
    for name in frame.columns:
        dated = kinds[name] == "date" and frame[name].nunique() > 5
        if dated and not frame[name].isna().any():
            times = frame[name].to_numpy().astype("datetime64[us]").astype(float)
            yield Suspicion(
                "time",
                f"Rows have a date ({quoted(name)}).",
                _option("time", name),
                name,
                times=times,
            )
            return
    if task.classify or task.group is not None:
        return
    y = task.y - task.y.mean()
    steps = np.diff(y)
    sorted_by_target = bool((steps >= 0).all() or (steps <= 0).all())
    if len(y) < 30 or sorted_by_target:
        return
    r = float((y[1:] * y[:-1]).sum() / (y**2).sum())
    if r >= _AUTOCORRELATION:
        yield Suspicion(
            "time",
            f"Neighbouring rows of the file resemble each other: the correlation of "
            f"{quoted(task.target)} with the row before is {r:.2f}, as in a series.",
            "--cv time:5",
            times=np.arange(len(y), dtype=float),
        )


def _codes(task: Task) -> Iterator[Suspicion]:
    for name in (task.target, *task.features)[:_MOST_COLUMNS]:
        if task.table.kinds[name] != "number" or (name == task.target and task.classify):
            continue
        values = task.table.frame[name].dropna().to_numpy(float)
        for code in _CODES:
            hits = int((values == code).sum())
            rest = values[values != code]
            if hits < 2 or hits > 0.6 * len(values) or len(np.unique(rest)) < 10:
                continue
            low, high = rest.min(), rest.max()
            apart = max(low - code, code - high)
            alone_negative = code < 0 <= low and (code == -1 or apart > 0)
            if apart > high - low or (alone_negative and code != -1):
                column = task.table.frame[name].to_numpy()
                yield Suspicion(
                    "code",
                    f"{quoted(name)} is {code} in {count(hits, 'row')} ("
                    f"{task.table.where(np.flatnonzero(column == code))}) and lies between "
                    f"{number(low)} and {number(high)} in all others: a code for a missing value?",
                    f"--na={code}",
                    name,
                )
                break


def _gaps(task: Task) -> Iterator[Suspicion]:
    for name in task.features:
        share = float(task.table.frame[name].isna().mean())
        if share >= _MOSTLY_MISSING:
            yield Suspicion(
                "missing",
                f"{quoted(name)} is missing in {percent(share)} of the rows; what was filled in "
                "there is made up.",
                _option("drop", name),
                name,
            )


def _identifiers(task: Task) -> Iterator[Suspicion]:
    for name in task.features:
        values = task.table.frame[name]
        if task.table.kinds[name] != "number" or not _IDENTIFIER.search(name):
            continue
        if (values.dropna() % 1 == 0).all() and values.nunique() > 0.9 * len(values):
            yield Suspicion(
                "identifier",
                f"{quoted(name)} has another whole number in nearly every row, like an identifier.",
                _option("drop", name),
                name,
            )
