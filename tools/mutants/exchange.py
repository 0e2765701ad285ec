"""A mutant put in place of the code that is loaded: whoever has imported it gets the fault."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator
from types import CodeType, FunctionType

from tools.mutants.operators import Module, Mutant, functions

Key = tuple[str, str, int]  # file, qualified name, first line
Live = dict[Key, list[FunctionType]]


def live_functions(files: set[str]) -> Live:
    """Return every function object of some files, however it is wrapped or bound."""
    found: dict[Key, list[FunctionType]] = defaultdict(list)
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename in files:
            found[_key(thing.__code__)].append(thing)
    return found


def exchange(module: Module, mutant: Mutant, live: Live) -> None:
    """Give the loaded functions of a module the code, and the defaults, of its mutant."""
    tree = module.mutate(mutant)
    changed = 0
    for code in _codes(compile(tree, str(module.path), "exec")):
        for function in live.get(_key(code), ()):
            if function.__code__ != code:
                function.__code__ = code
                changed += 1
    node = next(node for node, name in functions(tree) if name == mutant.function)
    for function in live[str(module.path), mutant.function, _first_line(node)]:
        names = function.__globals__
        changed += 1
        if function.__defaults__:
            function.__defaults__ = tuple(_value(d, names) for d in node.args.defaults)
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if default is not None and function.__kwdefaults__:
                function.__kwdefaults__[argument.arg] = _value(default, names)
    if not changed:
        raise LookupError(f"nothing loaded belongs to {mutant.name}")


def _key(code: CodeType) -> Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _value(node: ast.expr, names: dict[str, object]) -> object:
    return eval(compile(ast.Expression(node), "<default>", "eval"), names)
