"""The house: folders in order, imports one way, the walks that docs/architecture.md describes."""

from __future__ import annotations

import ast
import re
import sys
import threading
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast import KernelRidgeCV
from holdfast.smoother import Smoother

SOURCE = Path(holdfast.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"

#: A folder (or a module beside them) imports only from those before it.
ORDER = (
    "_typing",
    "exceptions",
    "progress",
    "versions",
    "data",
    "linalg",
    "experiments",
    "splitters",
    "scores",
    "kernels",
    "smoother",
    "holdout",
    "basis",
    "cluster",
    "answers",
    "estimators",
    "model_selection",
    "tuning",
    "displays",
    "files",
    "tables",
    "report",
    "cli",
    "__main__",
)
#: How deep imports may go, folder by folder.
MOST_LEVELS = 9


def folder(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def module_of(path: Path) -> str:
    name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


def imports(path: Path) -> set[str]:
    """Return what a module imports from the package when it is imported itself."""
    found = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module == "holdfast":
                found.update(f"holdfast.{alias.name}" for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                found.add(child.module)
            visit(child)

    visit(ast.parse(path.read_text("utf-8")))
    return {name for name in found if name.split(".")[0] == "holdfast" and name != "holdfast"}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=module_of)
def test_imports_point_one_way(path):
    here = folder(module_of(path))
    if here == "holdfast":
        return  # the package itself: everything lazily
    allowed = ORDER[: ORDER.index(here) + 1]
    for name in imports(path):
        there = folder(name)
        if there != "__version__":
            assert there in allowed, f"{module_of(path)} imports {name}, which stands above it"


def test_nobody_asks_which_smoother_it_is():
    kinds = re.compile(r"(isinstance|issubclass)\([^()]*(Feature|Kernel)Smoother\b")
    asked = [
        path.name
        for path in SOURCE.rglob("*.py")
        if path.parent.name != "smoother" and kinds.search(path.read_text(encoding="utf-8"))
    ]
    assert not asked


def test_folders_are_few_levels_deep():
    edges = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        here = folder(module_of(path))
        edges[here] |= {folder(name) for name in imports(path)} - {here, "__version__"}

    def level(node: str) -> int:
        return 1 + max((level(other) for other in edges[node]), default=0)

    assert max(level(node) for node in ORDER if node in edges) <= MOST_LEVELS


def test_every_folder_says_what_it_is():
    for init in SOURCE.rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(init.read_text("utf-8")))
        assert text, init
        assert len(text.split()) >= 15, f"{init}: a paragraph, please"


def test_the_page_shows_the_folders_in_order():
    page = PAGE.read_text("utf-8")
    picture = page[page.index("<!-- folders -->") : page.index("<!-- end of folders -->")]
    shown = re.findall(r"^ {4}(\w+)/", picture, re.MULTILINE)
    assert shown == [name for name in ORDER if (SOURCE / name).is_dir()]


def test_the_page_names_methods_that_a_smoother_has():
    page = PAGE.read_text("utf-8")
    table = page[page.index("A `Smoother` is asked for") : page.index("`FeatureSmoother` (sparse")]
    named = re.findall(r"`(\w+)\(", table)
    assert len(named) > 12
    assert [name for name in named if not callable(getattr(Smoother, name, None))] == []


# -- the walk --------------------------------------------------------------------------------------


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)


def stacks(call) -> list[list[str]]:
    """Return the stack of the package's own functions at every call of one, outermost first."""
    root, seen, local = str(SOURCE), [], threading.local()

    def profile(frame, event, _):
        name = frame.f_code.co_filename
        if not name.startswith(root):
            return
        stack = local.__dict__.setdefault("stack", [])
        if event == "call":
            module = ".".join(Path(name).relative_to(root).with_suffix("").parts)
            stack.append(f"{module.removesuffix('.__init__')}.{frame.f_code.co_qualname}")
            seen.append(list(stack))
        elif event == "return" and stack:
            stack.pop()

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def walks() -> list[tuple[str, list[str]]]:
    """Return the walks of the page: a title, and the functions from the top to LAPACK."""
    page = PAGE.read_text("utf-8")
    found = re.findall(r"<!-- walk: ([^>]+) -->\n\n((?: {4}\S[^\n]*\n)+)", page)
    return [(title, re.findall(r"^ {4}(\S+)", body, re.MULTILINE)) for title, body in found]


@pytest.mark.parametrize(("title", "walk"), walks(), ids=lambda value: str(value)[:30])
def test_the_walk_is_true(title, walk):
    X, y = data()
    sparse = {"basis": 10, "cv": 5, "random_state": 0}
    options = {
        "dense": {},
        "sparse": {**sparse, "path": "spectral"},
        "folds": {**sparse, "path": "fold_gram"},
    }[title.split()[0]]
    model = KernelRidgeCV(gamma=0.5, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "fit" not in title:
            model.fit(X, y)
        seen = stacks(
            {
                "fit": lambda: model.fit(X, y),
                "held_out": lambda: model.held_out(cv=4),
                "predict": lambda: model.predict(X),
            }[title.split()[-1]]
        )
    assert walk in seen, f"no call of {walk[-1]} by this way"
    assert len(walk) <= 13


@pytest.mark.parametrize(
    ("options", "most"), [({}, 9), ({"basis": 10, "random_state": 0}, 11)], ids=["dense", "sparse"]
)
def test_a_fit_reaches_lapack_in_few_frames(options, most):
    """The eigendecomposition, the longest call of a fit, counted from `fit` itself."""
    X, y = data()
    model = KernelRidgeCV(gamma=0.5, path="spectral", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = stacks(lambda: model.fit(X, y))
    depths = [
        len(stack) for stack in seen if stack[-2:] == ["linalg.eigen.eigh", "linalg._nogil.call"]
    ]
    assert depths
    assert min(depths) <= most


#: Files of `smoother`, `holdout` and `linalg` that run in a fit, and in a held-out question later.
FILES = {"dense": ({}, 22, 14), "sparse": ({"basis": 10, "cv": 5, "random_state": 0}, 22, 18)}


@pytest.mark.parametrize("kind", FILES)
def test_a_newcomer_opens_few_files(kind):
    """Whoever follows every call opens so many files, as the page says."""
    options, in_fit, in_question = FILES[kind]
    X, y = data()
    model = KernelRidgeCV(gamma=0.5, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = opened(stacks(lambda: model.fit(X, y)))
        question = opened(stacks(lambda: model.held_out(cv=4)))
    assert len(fit) <= in_fit, sorted(fit)
    assert len(question) <= in_question, sorted(question)
    page = " ".join(PAGE.read_text("utf-8").split())
    fits, questions = ([found[at] for found in FILES.values()] for at in (1, 2))
    assert f"opens {fits[0]} files of `smoother`, `holdout` and `linalg`, and {fits[1]} for" in page
    assert f"five folds; {questions[0]} and {questions[1]} for a held-out question" in page


def opened(seen: list[list[str]]) -> set[str]:
    """Return the modules of the core whose functions were called."""
    modules = {module_of(path).removeprefix("holdfast.") for path in SOURCE.rglob("*.py")}
    core = {
        module for module in modules if module.split(".")[0] in ("smoother", "holdout", "linalg")
    }
    found = set()
    for name in {stack[-1] for stack in seen}:
        parts = name.split(".")
        longest = max(len(parts[:i]) for i in range(len(parts)) if ".".join(parts[:i]) in modules)
        found.add(".".join(parts[:longest]))
    return found & core
