"""Transforms `%planck` into Python, around IPython's own transformations.

IPython would read `%planck what is this?` as a request for help on `this`, and it calls magics without awaiting them.
So a transformer in the first stage rewrites the lines which begin with `%planck`, and another in the last stage awaits
the calls in async code. The other calls use the sync magic, which waits in a nested event loop.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from tokenize import TokenInfo
from types import FrameType

from IPython.core.inputtransformer2 import (
    assemble_continued_line,
    find_end_of_continued_line,
    make_tokens_by_line,
)

MAGIC = "planck"
AWAITED = "planck_awaited"
"""The async magic's name, for awaited calls; `planck` is sync."""


def take_line_magics(lines: list[str]) -> list[str]:
    """Rewrite each `%planck …` and `x = %planck …` as a call.

    The text is unchanged.

    Args:
        lines: The typed lines in the cell.

    Returns:
        The rewritten lines.
    """
    if not lines or lines[0].lstrip().startswith("%%"):
        return lines
    while place := _first_magic(lines):
        row, column = place
        end = find_end_of_continued_line(lines, row)
        text = assemble_continued_line(lines, (row, column), end)
        argument = text[len(MAGIC) + 1 :].strip()
        call = f"get_ipython().run_line_magic({MAGIC!r}, {argument!r})\n"
        lines = [*lines[:row], lines[row][:column] + call, *lines[end + 1 :]]
    return lines


def await_magics(lines: list[str], *, only_in_async_code: bool = False) -> list[str]:
    """Await the magic's calls in async code and at top level.

    Args:
        lines: The cell's lines, after all other transformations.
        only_in_async_code: Whether calls at the top level are awaited only if other code there awaits something, as in
            terminals: there the event loop does not run yet, and an interrupt by IPython leaves running code suspended.

    Returns:
        The lines. Code inside another cell (`%%time`, `%%capture`, `run_cell`) is unchanged, because its caller is
        sync.
    """
    source = "".join(lines)
    if "get_ipython()" not in source or MAGIC not in source or _inside_a_cell(sys._getframe()):  # noqa: SLF001
        return lines
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return lines
    top_level = not only_in_async_code or _awaits_at_top_level(source)
    rows = source.encode().splitlines(keepends=True)
    for call in sorted(
        _awaitable_calls(tree, asynchronous=top_level), key=lambda node: (node.lineno, node.col_offset), reverse=True
    ):
        name = call.args[0]
        row = rows[name.lineno - 1]
        rows[name.lineno - 1] = row[: name.col_offset] + repr(AWAITED).encode() + row[name.end_col_offset :]
        row = rows[call.lineno - 1]
        rows[call.lineno - 1] = row[: call.col_offset] + b"await " + row[call.col_offset :]
    return b"".join(rows).decode().splitlines(keepends=True)


def _first_magic(lines: list[str]) -> tuple[int, int] | None:
    """Return the first `%planck` after a statement's beginning or an assignment."""
    for line in make_tokens_by_line(lines):
        tokens = [token for token in line if token.string.strip()]
        for start in _starts(tokens):
            match tokens[start : start + 2]:
                case [sign, name] if sign.string == "%" and name.string == MAGIC and sign.end == name.start:
                    row, column = sign.start
                    return row - 1, column
                case _:
                    pass
    return None


def _starts(tokens: list[TokenInfo]) -> Iterator[int]:
    """Yield the tokens at which a magic may begin in a statement."""
    yield 0
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.string in "([{") - (token.string in ")]}")
        if token.string == "=" and depth == 0:
            yield place + 1


def _awaits_at_top_level(source: str) -> bool:
    try:
        code = compile(source, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _awaitable_calls(tree: ast.AST, *, asynchronous: bool) -> Iterator[ast.Call]:
    """Yield the magic's calls which can still be awaited.

    `asynchronous` says whether `tree` is async code.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef | ast.Await):
            continue
        if asynchronous and isinstance(node, ast.Call) and _is_magic(node):
            yield node
        yield from _awaitable_calls(node, asynchronous=asynchronous or isinstance(node, ast.AsyncFunctionDef))


def _is_magic(call: ast.Call) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(attr="run_cell_magic"), args=[_, _, ast.Constant(value="")]):
            return False  # IPython refuses an empty cell in a sentence with the magic's name
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(func=ast.Name(id="get_ipython")), attr="run_line_magic" | "run_cell_magic"
            ),
            args=[ast.Constant(value=name), *_],
        ):
            return bool(name == MAGIC)
    return False


def _inside_a_cell(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "run_code" and frame.f_globals.get("__name__") == "IPython.core.interactiveshell":
            return True
        frame = frame.f_back
    return False
