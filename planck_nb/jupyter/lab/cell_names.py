"""Names in cells, assigned and used, from their texts alone."""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from IPython.core.inputtransformer2 import TransformerManager

MAX_CHARACTERS = 50_000
"""The longest cell to examine: a tenth of a second at most."""

_SEPARATORS = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Characters which split lines for `str.splitlines`, but not for Python."""
_RUNS_CODE = re.compile(r"%%(?:time|timeit|capture|prun|memit|mprun)\b.*\n")
"""Cell magics whose body is Python."""
_MAGIC = re.compile(r"(?m)(?:^|=)\s*[%!]")
_PLACEHOLDER = re.compile(r"\{\s*([^\W\d]\w*)")
_EVERYWHERE = frozenset({*dir(builtins), "get_ipython", "display"})
_IN_PLACE = frozenset({"append", "extend", "insert", "update", "add", "remove", "pop", "clear", "sort", "reverse"})
"""Methods which change the object whose name they are called on."""


@dataclass(frozen=True, slots=True)
class CellNames:
    """A cell's names at module level.

    Args:
        assigned: The names which it binds, deletes or changes in place.
        bound: The names which it binds whatever the cells before did.
        used: The names which it reads and has not bound before.
    """

    assigned: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()


def cell_names(source: str) -> CellNames:
    """Return a cell's names; none for broken or very long code.

    Call it on the main thread alone: filters for warnings are not of a thread.

    Args:
        source: Its text, perhaps with magics.
    """
    if len(source) > MAX_CHARACTERS:
        return CellNames()
    placeholders = frozenset(_PLACEHOLDER.findall(source)) if _MAGIC.search(source) else frozenset[str]()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about texts such as "\\d"
            python = TransformerManager().transform_cell(_SEPARATORS.sub(" ", _RUNS_CODE.sub("", source, count=1)))
            tree = ast.parse(python)
        names = _Names()
        names.visit(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return CellNames(used=placeholders)
    return CellNames(frozenset(names.assigned), frozenset(names.bound), frozenset(names.used) | placeholders)


def stale_cells(
    cells: Iterable[tuple[str, CellNames]], changes: Iterable[tuple[str, CellNames]]
) -> dict[str, tuple[str, ...]]:
    """Return the cells below changed ones which use their names.

    A cell in between which binds a name anew ends its reach.

    Args:
        cells: The code cells in their order, each with its id and its names.
        changes: The ids for the changed cells, each with its names before; a deleted cell is above all others.

    Returns:
        The names by the id.
    """
    cells = list(cells)
    before: dict[str, frozenset[str]] = {}
    for cell, names in changes:
        before[cell] = before.get(cell, frozenset()) | names.assigned
    present = {cell for cell, _ in cells}
    reach = {name for cell, names in before.items() if cell not in present for name in names}
    stale: dict[str, tuple[str, ...]] = {}
    for cell, names in cells:
        if cell in before:
            reach |= names.assigned | before[cell]
            continue
        if stale_names := reach & names.used:
            stale[cell] = tuple(sorted(stale_names))
        reach -= names.bound
    return stale


class _Names(ast.NodeVisitor):
    """Collects names in the order of execution, as far as possible."""

    def __init__(self) -> None:
        self.assigned: set[str] = set()
        self.bound: set[str] = set()
        self.used: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._use(node.id)
        else:
            self._assign(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)
            self._change(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)
            self._change(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._use(node.target.id)
            self.assigned.add(node.target.id)  # from its value before
        else:
            self.visit(node.target)
            self._change(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._assign(node.target.id)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in _IN_PLACE:
            self._change(node.func)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self._assign((alias.asname or alias.name).partition(".")[0])

    visit_ImportFrom = visit_Import  # noqa: N815 - the name of ast

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = node.args
        for part in (*node.decorator_list, *arguments.defaults, *filter(None, arguments.kw_defaults)):
            self.visit(part)
        parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        for argument in filter(None, parameters):
            if argument.annotation is not None:
                self.visit(argument.annotation)
        self._assign(node.name)
        self._visit_inside(node.body, {argument.arg for argument in parameters if argument is not None})

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name of ast

    def visit_Lambda(self, node: ast.Lambda) -> None:
        arguments = node.args
        parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        for part in (*arguments.defaults, *filter(None, arguments.kw_defaults)):
            self.visit(part)
        self._visit_inside([node.body], {argument.arg for argument in parameters if argument is not None})

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._visit_inside(node.body, set())
        self._assign(node.name)

    def _visit_comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self._visit_inside(list(ast.iter_child_nodes(node)), set())

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension  # noqa: N815

    def _visit_branches(self, node: ast.AST) -> None:
        """Visit code which may not run; its bindings end with it."""
        before = set(self.bound)
        for child in _in_order(node):
            self.visit(child)
        self.bound = before

    visit_If = visit_For = visit_AsyncFor = visit_While = visit_Try = visit_TryStar = visit_Match = _visit_branches  # noqa: N815

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._assign(node.name)
        self.generic_visit(node)

    def _visit_inside(self, nodes: Iterable[ast.AST], local_names: Collection[str]) -> None:
        """Visit an inner scope, whose names are local except global ones."""
        inner = _Names()
        inner.assigned |= set(local_names)
        inner.bound |= set(local_names)
        global_names: set[str] = set()
        for node in nodes:
            global_names |= {
                name for inside in ast.walk(node) if isinstance(inside, ast.Global) for name in inside.names
            }
            inner.visit(node)
        for name in inner.used - (inner.assigned - global_names):
            self._use(name)
        self.assigned |= inner.assigned & global_names

    def _use(self, name: str) -> None:
        if name not in self.bound and name not in _EVERYWHERE:
            self.used.add(name)

    def _assign(self, name: str) -> None:
        self.assigned.add(name)
        self.bound.add(name)

    def _change(self, target: ast.expr) -> None:
        """Count a change to a part as a change to its owner.

        So `frame["x"] = 1` changes `frame`.
        """
        if isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self._change(element)
            return
        while isinstance(target, (ast.Attribute, ast.Subscript, ast.Starred)):
            target = target.value
            if isinstance(target, ast.Name):
                self.assigned.add(target.id)


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield children as they run, a loop's values before its variable."""
    first = node.iter if isinstance(node, (ast.For, ast.AsyncFor)) else None
    if first is not None:
        yield first
    yield from (child for child in ast.iter_child_nodes(node) if child is not first)
