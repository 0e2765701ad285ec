"""The faults: every small change of a module's functions that might be a programmer's slip.

Bodies of functions and defaults of arguments are changed. Texts, annotations, decorators, asserts,
and what is inside a ``raise`` or a call of ``warn`` are not; neither are the named constants of a
module, most of which only say when a faster way pays.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

#: Each operator becomes another one.
BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
#: The neighbour, which differs where both sides are equal, and the opposite.
COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_PAIRS = ["min max", "minimum maximum", "argmin argmax", "nanmin nanmax", "any all", "floor ceil"]
NAMES = dict(chain.from_iterable((p.split(), p.split()[::-1]) for p in _PAIRS))

#: Calls whose arguments are left alone: messages, and questions about types.
LEFT_ALONE = {"warn", "isinstance", "cast", "getattr", "hasattr"}

#: Calls of which the order of two arguments does not matter.
SYMMETRIC = {
    *("min", "max", "minimum", "maximum", "clip"),  # clip: the largest of two, up to the third
    *("swapaxes", "array_equal", "shares_memory"),
}

#: Arguments that only guard: they change no result.
UNSEEN = {"strict", "check_finite"}

#: Nodes that say little by themselves, and those that say little of what is in them.
ATOMS = ast.Constant, ast.Name, ast.Attribute, ast.Slice, ast.UnaryOp
PARTS = ast.Slice, ast.Tuple, ast.List, ast.UnaryOp, ast.keyword, ast.Starred

Place = tuple[ast.AST, str, int | None]  # parent, field, position in a list


@dataclass(frozen=True)
class Mutant:
    """One change of one function.

    Attributes
    ----------
    module : str
        The file, below the package: ``holdout/identity.py``.
    function : str
        Its qualified name.
    before, after : str
        The changed expression or statement.
    number : int
        Which of the changes of this function that read the same: 1, 2, …
    lines : tuple of int
        First and last line of what is changed; of the function's body for a default.
    """

    module: str
    function: str
    before: str
    after: str
    number: int
    lines: tuple[int, int]

    @property
    def name(self) -> str:
        """What identifies the mutant, whatever happens elsewhere in the file."""
        again = f" #{self.number}" if self.number > 1 else ""
        return f"{self.module}:{self.function}: {self.before} → {self.after}{again}"


class Module:
    """The mutants of one file."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text("utf-8"))
        self.module = path.relative_to(root).as_posix()
        self._changes: dict[Mutant, tuple[Place, ast.AST]] = {}
        for function, name in functions(self.tree):
            self._find(function, name)

    @property
    def mutants(self) -> list[Mutant]:
        """All of them, in the order of the file."""
        return list(self._changes)

    def mutate(self, mutant: Mutant) -> ast.Module:
        """Make a change, for good, and return the tree."""
        place, new = self._changes[mutant]
        _put(place, new)
        return ast.fix_missing_locations(self.tree)

    def _find(self, function: ast.FunctionDef, name: str) -> None:
        seen: Counter[tuple[str, str]] = Counter()
        for place, shown, old, new in _changes(function, function):
            before, after = _texts(place, shown, old, new)
            seen[before, after] += 1
            first, last = old.lineno, old.end_lineno
            if place[0] is function.args:
                first, last = function.body[0].lineno, function.end_lineno
            lines = first, last or first
            mutant = Mutant(self.module, name, before, after, seen[before, after], lines)
            self._changes[mutant] = place, new


def modules(root: Path, folders: list[str]) -> list[Module]:
    """Return the modules of some folders of a package."""
    paths = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    return [Module(path, root) for path in paths]


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[ast.FunctionDef, str]]:
    """Yield the functions and methods of a module with their qualified names."""
    for node in getattr(tree, "body", []):
        if isinstance(node, ast.FunctionDef):
            yield node, prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")


def _put(place: Place, new: ast.AST) -> None:
    parent, field, index = place
    if index is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[index] = new


def _texts(place: Place, shown: ast.AST, old: ast.AST, new: ast.AST) -> tuple[str, str]:
    """Return the code before and after: of the node, or of what a mere name or number is in."""
    if not isinstance(old, ATOMS):
        return ast.unparse(old), ast.unparse(new)
    if isinstance(shown, ast.stmt) and hasattr(shown, "test"):
        return f"if {ast.unparse(old)}", f"if {ast.unparse(new)}"
    before = ast.unparse(shown)
    _put(place, new)
    after = ast.unparse(shown)
    _put(place, old)
    return before, after


def _changes(node: ast.AST, shown: ast.AST) -> Iterator[tuple[Place, ast.AST, ast.AST, ast.AST]]:
    """Yield (place, expression around it, node, what it becomes) for all that may be changed."""
    shown = shown if isinstance(node, PARTS) else node
    for place, child in _children(node):
        for new in _replacements(child, node):
            yield place, shown, child, ast.copy_location(new, child)
        if not isinstance(child, ast.Raise):
            yield from _changes(child, shown)


def _children(node: ast.AST) -> Iterator[tuple[Place, ast.AST]]:
    if isinstance(node, ast.Assert | ast.JoinedStr):
        return
    if isinstance(node, ast.Call) and _called(node) in LEFT_ALONE:
        return
    if isinstance(node, ast.keyword) and node.arg in UNSEEN:
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        if isinstance(value, ast.AST):
            yield (node, field, None), value
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield (node, field, index), item


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)


def _replacements(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that may stand in place of this one."""
    match node:
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Return(None):
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Return(ast.Constant(None | False)):
            pass  # who asks whether it is true sees no difference
        case ast.Return():
            yield ast.Return(ast.Constant(None))
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()
        case ast.BinOp(left, ast.MatMult(), right):
            yield ast.BinOp(right, ast.MatMult(), left)
        case ast.BinOp(left, operator, right):
            yield ast.BinOp(left, BINARY[type(operator)](), right)
        case ast.UnaryOp(ast.USub() | ast.Not() | ast.Invert(), operand):
            yield operand
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.Compare(left, operators, rights):
            for k, operator in enumerate(operators):
                for other in COMPARED[type(operator)]:
                    changed = [*operators[:k], other(), *operators[k + 1 :]]
                    yield ast.Compare(left, changed, rights)
        case ast.Call(function, [first, second, *rest], keywords) if _ordered(node):
            yield ast.Call(function, [second, first, *rest], keywords)
        case ast.Slice():
            for bound in ("lower", "upper", "step"):
                if getattr(node, bound) is not None:
                    without = copy(node)
                    setattr(without, bound, None)
                    yield without
        case ast.Name(name, ast.Load()) if name in NAMES:
            yield ast.Name(NAMES[name], ast.Load())
        case ast.Attribute(value, name, ast.Load()) if name in NAMES:
            yield ast.Attribute(value, NAMES[name], ast.Load())
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() as value):
            yield ast.Constant({0: 1, 1: 0}.get(value, value + 1))
        case ast.Constant(float() as value) if value in (0.0, 1.0):
            yield ast.Constant(1.0 - value)
        case ast.Constant(float() as value) if _factor(parent):
            yield ast.Constant(2.0 * value)
    asked = isinstance(parent, ast.If | ast.IfExp | ast.While) and node is parent.test
    if asked and isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        yield ast.UnaryOp(ast.Not(), node)


def _ordered(call: ast.Call) -> bool:
    """Whether the first two arguments have an order that matters."""
    first, second = call.args[:2]
    starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
    same = ast.dump(first) == ast.dump(second)
    return not (starred or same) and _called(call) not in LEFT_ALONE | SYMMETRIC


def _factor(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div)
