"""Which code made the numbers of a page: a digest of all that a run reaches in this package.

A definition belongs to it if the run names it, or another definition that belongs to it does. What
draws the figure and what decides the claims do not: ``--again`` uses both as they are today.
Docstrings, decorators and lines of comment do not count, nor does holdfast itself, whose
results are the subject of its own tests.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

from reproduce._framework import EXPERIMENTS

_PACKAGE = "reproduce"
# They say how results are shown and where data are found, not what is computed.
_APART = frozenset({"reproduce._framework", "reproduce._figures", "reproduce.datasets._load"})


class _Module(NamedTuple):
    """Source lines of a module, its top-level definitions, and what it imports from us."""

    lines: list[str]
    definitions: dict[str, ast.stmt]
    imports: dict[str, tuple[str, str]]  # a name here: module and name there


def digest(function: Callable[..., object]) -> str:
    """Return a digest of a function of this package and of all that it reaches."""
    every = EXPERIMENTS.values()
    shown = {_place(one) for other in every for one in (other.draw, other.decide)}
    found: dict[tuple[str, str], str] = {}
    waiting = [_place(function)]
    while waiting:
        place = waiting.pop()
        module, name = place
        if place in found or place in shown or module in _APART:
            continue
        code = _read(module)
        if name in code.imports:
            waiting.append(code.imports[name])
        elif name in code.definitions:
            node = code.definitions[name]
            if _decides(node):
                continue
            found[place] = _text(code.lines, node)
            names = _names(node)
            waiting += [(module, other) for other in names]
    text = "\n".join(f"{module}.{name}\n{found[module, name]}" for module, name in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _names(node: ast.stmt) -> set[str]:
    """Return all names in a definition, but for its decorators: these say how it is shown."""
    apart = {
        id(part)
        for decorator in getattr(node, "decorator_list", [])
        for part in ast.walk(decorator)
    }
    every = (part for part in ast.walk(node) if id(part) not in apart)
    return {part.id for part in every if isinstance(part, ast.Name)}


def _decides(node: ast.stmt) -> bool:
    """Return whether a function gives back claims: it judges numbers and makes none."""
    if not isinstance(node, ast.FunctionDef) or node.returns is None:
        return False
    return ast.unparse(node.returns) in ("Claim", "list[Claim]", "Sequence[Claim]")


def _place(function: object) -> tuple[str, str]:
    """Return module and name of a function; nothing is nowhere."""
    return getattr(function, "__module__", ""), getattr(function, "__name__", "")


@cache
def _read(module: str) -> _Module:
    """Return what there is at the top level of a module of this package."""
    path = Path(str(import_module(module).__file__))
    source = path.read_text(encoding="utf-8")
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    definitions: dict[str, ast.stmt] = {}
    imports: dict[str, tuple[str, str]] = {}
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                definitions[name] = node
            case ast.Assign(targets=targets):
                for target in targets:
                    names = [part.id for part in ast.walk(target) if isinstance(part, ast.Name)]
                    definitions.update(dict.fromkeys(names, node))
            case ast.AnnAssign(target=ast.Name(id=name)):
                definitions[name] = node
            case ast.ImportFrom(module=other, level=level, names=aliases):
                origin = resolve_name("." * level + (other or ""), package)
                if origin.split(".")[0] == _PACKAGE:
                    imports |= {one.asname or one.name: (origin, one.name) for one in aliases}
    return _Module(source.splitlines(), definitions, imports)


def _text(lines: list[str], node: ast.stmt) -> str:
    """Return the lines of a definition without decorators, docstring and lines of comment."""
    assert node.end_lineno is not None
    left_out: set[int] = set()
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            assert first.end_lineno is not None
            left_out = set(range(first.lineno, first.end_lineno + 1))
    numbers = (i for i in range(node.lineno, node.end_lineno + 1) if i not in left_out)
    stripped = (lines[i - 1].strip() for i in numbers)
    return "\n".join(line for line in stripped if line and not line.startswith("#"))
