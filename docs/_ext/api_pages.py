"""One page of the API for each folder of the package, written from what it exports.

Public names are those of ``__all__``; a module without one shows the classes and functions it
defines, and a folder that exports nothing shows its modules. What several modules offer is
documented once, where a reader meets it first. An estimator has a page of its own, with its
parameters by purpose, and so has each of its methods.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from sklearn.base import BaseEstimator

from holdfast.displays import Display

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

PACKAGE = "holdfast"
# What a user meets, in a reader's order. Every other module is the inside, and stays out.
PUBLIC = (
    "kernels", "basis", "experiments", "splitters", "answers.held_out", "holdout.plan",
    "holdout.verify", "answers", "model_selection", "tuning", "displays", "tables", "report",
    "exceptions",
)  # fmt: skip

# What the parameters of an estimator are for, in a reader's order.
PURPOSES = {
    "The model": "kernel kernels gamma degree coef0 kernel_params fit_intercept trend standardize "
    "calibration jitter",
    "Basis rows": "basis held_out_basis",
    "What is held out": "cv",
    "The choice of the penalty": "alphas alpha_per_target scoring pooled rule",
    "The search over mixtures": "n_draws concentration draws normalise weights_per_target",
    "The computation": "path memory_limit random_state",
}


def public_modules() -> list[ModuleType]:
    """Return the package and the modules that get a page, in reading order."""
    public = [importlib.import_module(f"{PACKAGE}.{name}") for name in PUBLIC]
    return [importlib.import_module(PACKAGE), *public]


def public_names(module: ModuleType) -> list[str]:
    """Return the names to document: ``__all__``, or what the module itself defines."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not name.startswith("_")]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def own_page(value: object) -> bool:
    """Whether a class is one of the estimators, whose many methods have a page each."""
    return (
        inspect.isclass(value)
        and issubclass(value, BaseEstimator)
        and value.__module__.startswith(f"{PACKAGE}.estimators")
    )


def methods(value: type) -> list[str]:
    """Return the public methods and properties of an estimator, but for scikit-learn's."""
    return [
        name
        for name, member in inspect.getmembers(value)
        if not name.startswith("_")
        and (inspect.isroutine(member) or isinstance(member, property))
        and not (getattr(member, "__module__", None) or "").startswith("sklearn")
    ]


def estimator_page(name: str, value: type) -> str:
    """Return the page of an estimator: parameters by purpose, the docstring, its methods."""
    lines = [name, "=" * len(name), "", f".. currentmodule:: {PACKAGE}", ""]
    known = list(inspect.signature(value).parameters)
    unknown = set(known) - set(" ".join(PURPOSES.values()).split())
    if unknown:
        raise ValueError(f"PURPOSES must name every parameter of {name}; {unknown} are missing")
    for purpose, names in PURPOSES.items():
        here = [f"``{parameter}``" for parameter in known if parameter in names.split()]
        if here:
            lines.append(f"- {purpose}: {', '.join(here)}")
    lines += ["", f".. autoclass:: {name}", "   :no-members:", "", ".. rubric:: Methods", ""]
    for method in methods(value):
        lines += [f":doc:`methods/{name}.{method}`", f"   {sentence(getattr(value, method))}", ""]
    lines += [".. toctree::", "   :hidden:", ""]
    lines += [f"   methods/{name}.{method}" for method in methods(value)]
    return "\n".join(lines) + "\n"


def method_page(name: str, method: str, value: type) -> str:
    """Return the page of one method, or property, of an estimator."""
    kind = "autoproperty" if isinstance(getattr(value, method), property) else "automethod"
    title = f"{name}.{method.replace('_', chr(92) + '_')}"
    lines = [title, "=" * len(title), "", f".. currentmodule:: {PACKAGE}", ""]
    return "\n".join([*lines, f".. {kind}:: {name}.{method}", ""])


def inherited(value: type) -> list[str]:
    """Return the options that show inherited methods, but for scikit-learn's."""
    if issubclass(value, Display):
        return ["   :inherited-members:"]
    if not issubclass(value, BaseEstimator) or "sklearn" in value.__mro__[1].__module__:
        return []  # what scikit-learn's own classes inherit, its pages say
    return ["   :inherited-members: BaseEstimator, RegressorMixin, ClassifierMixin"]


def not_yet_shown(module: ModuleType, shown: set[object]) -> list[str]:
    """Return the names of a module whose objects are on no earlier page, and take note of them."""
    new = []
    for name in public_names(module):
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            if value in shown:
                continue
            shown.add(value)
        new.append(name)
    return new


def page(module: ModuleType, names: list[str]) -> str:
    """Return the reStructuredText of one module's page."""
    title = f"``{module.__name__}``"
    lines = [title, "=" * len(title), "", f".. currentmodule:: {module.__name__}", ""]
    first_line = (inspect.getdoc(module) or "").partition("\n")[0]
    lines += [first_line, ""] if first_line else []
    for name in names:
        value = getattr(module, name)
        if own_page(value):
            lines += [f":py:class:`{name}`", f"   {sentence(value)}", ""]
        elif inspect.isclass(value):
            lines += [f".. autoclass:: {name}", "   :members:", *inherited(value), ""]
        elif inspect.isroutine(value):
            lines += [f".. autofunction:: {name}", ""]
    return "\n".join(lines)


def sentence(value: object) -> str:
    """Return the first sentence of a docstring, in one line."""
    text = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    return text.replace("|", "\N{DIVIDES}")


def index(pages: list[tuple[ModuleType, list[str]]]) -> str:
    """Return the list of all names, a sentence each, as reStructuredText."""
    lines = []
    for module, names in pages:
        title = f"``{module.__name__}``"
        lines += [".. rubric:: " + title, "", sentence(module), ""]
        for name in names:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                role = "class" if inspect.isclass(value) else "func"
                target = f"{module.__name__}.{name}"
                lines += [f":py:{role}:`{name} <{target}>`", f"   {sentence(value)}", ""]
    return "\n".join(lines) + "\n"


def write_pages(app: Sphinx) -> None:
    """Write the pages; a page that has not changed keeps its date, so Sphinx does not redo it."""
    folder = Path(app.srcdir) / "api" / "generated"
    (folder / "methods").mkdir(parents=True, exist_ok=True)
    written, shown, pages = set(), set(), []
    for position, module in enumerate(public_modules()):
        names = not_yet_shown(module, shown)
        if not names:
            continue
        pages.append((module, names))
        name = module.__name__.removeprefix(f"{PACKAGE}.")
        target = folder / f"{position:02d}-{name}.rst"
        _write(target, page(module, names))
        written.add(target)
        for own in filter(lambda name: own_page(getattr(module, name)), names):
            value = getattr(module, own)
            texts = {f"{position:02d}-{own}.rst": estimator_page(own, value)}
            for method in methods(value):
                texts[f"methods/{own}.{method}.rst"] = method_page(own, method, value)
            for name, text in texts.items():
                _write(folder / name, text)
                written.add(folder / name)
    _write(folder / "names.txt", index(pages))
    for stale in set(folder.rglob("*.rst")) - written:
        stale.unlink()


def _write(target: Path, text: str) -> None:
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


def plain_bars(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Let docstrings write |H| for a size, which reStructuredText takes for a substitution."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith(("| ", "+", ">>>", "...")):
            lines[i] = line.replace("|", "\N{DIVIDES}")


def only_our_own(
    app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Hide what an estimator inherits from scikit-learn: it is documented there."""
    return True if (getattr(obj, "__module__", None) or "").startswith("sklearn") else None


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("builder-inited", write_pages, priority=100)
    app.connect("autodoc-skip-member", only_our_own)
    app.connect("autodoc-process-docstring", plain_bars, priority=900)  # after numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
