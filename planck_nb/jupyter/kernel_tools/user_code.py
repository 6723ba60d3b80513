"""Compiles code as IPython does for a cell, without anything of the cell: no number, no history, no flags that stay."""

from __future__ import annotations

import ast
import inspect
import io
import itertools
import linecache
import tokenize
from collections import deque
from dataclasses import dataclass
from types import CodeType

from IPython.core.interactiveshell import InteractiveShell

KEPT_SOURCES = 500
"""How many calls' lines are kept for tracebacks."""

_numbers = itertools.count(1)
_kept: deque[str] = deque()


@dataclass(frozen=True, slots=True)
class UserCode:
    """Compiled code.

    Args:
        body: All statements but a last expression; None if there are none.
        last: The last expression, whose value is shown; None if there is none.
        shows_value: Whether the value of the last expression is shown: not if the code ends with a semicolon.
    """

    body: CodeType | None
    last: CodeType | None
    shows_value: bool


def compile_code(shell: InteractiveShell, code: str) -> UserCode:
    """Compile code with magics and `await`.

    Args:
        shell: The shell, whose input transformers are used.
        code: The code.

    Returns:
        The compiled code.

    Raises:
        SyntaxError: It is not valid Python.
    """
    source = shell.transform_cell(code)
    name = f"<run_python {next(_numbers)}>"
    flags = shell.compile.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    _kept.append(name)
    while len(_kept) > KEPT_SOURCES:
        linecache.cache.pop(_kept.popleft(), None)
    tree = compile(source, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)  # noqa: S101 - for the type checker
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    # The flags of a `from __future__` import apply to the last expression, too.
    body = compile(tree, name, "exec", flags, dont_inherit=True) if tree.body else None
    future = 0 if body is None else body.co_flags & _FUTURES
    value = None
    if isinstance(last, ast.Expr):
        value = compile(ast.Expression(last.value), name, "eval", flags | future, dont_inherit=True)
    return UserCode(body, value, not _ends_with_semicolon(source))


def is_async(code: CodeType) -> bool:
    """Return whether evaluating the code returns a coroutine."""
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _future_flags() -> int:
    import __future__  # noqa: PLC0415 - a name that looks like a statement

    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag
    return flags


_FUTURES = _future_flags()


def _ends_with_semicolon(source: str) -> bool:
    ignored = {tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER, tokenize.DEDENT}
    try:
        tokens = [each for each in tokenize.generate_tokens(io.StringIO(source).readline) if each.type not in ignored]
    except (tokenize.TokenError, SyntaxError):
        return False
    return bool(tokens) and tokens[-1].string == ";"
