"""Change single expressions of the package and list the changes that all tests pass.

    COVERAGE_FILE=/tmp/lines python -m pytest -n auto --cov --cov-context=test tests/{agent,ai,config,sessions,tools}
    COVERAGE_FILE=/tmp/lines python tests/mutation/mutate.py [--seed 12] [--count 15] [--tests 60] [FILE ...]

The files hold the rules for data, money, keys and consent. A mutant is tried with 60 tests that ran its line, in the
folder of the same name first, and is noticed if one fails; a hang or a line without a test counts as missed. Draws
depend on the seed and the changed text alone, so most mutants stay the same while a file is edited.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from select import select
from typing import Any

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCOPE = """agent/loop.py agent/limits.py agent/tool_calls.py agent/charges.py agent/approval/*.py ai/retries/*.py
ai/message_builder.py sessions/journal/*.py sessions/lock.py sessions/database/s*.py config/trust.py tools/sandbox*.py
sidecars/mcp_client/offers/fingerprint.py"""
OUTCOMES = {0: "passed", 1: "noticed", 2: "noticed", 4: "noticed"}  # 2 and 4: a module of tests cannot be imported
LEFT_OUT = {"annotation", "returns", "decorator_list", "exc"}
KINDS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn, ast.Add, ast.Sub)
SWAPS = dict(zip(KINDS, "<=,<,>=,>,!=,==,is not,is,not in,in,-,+".split(","), strict=True))
Mutant = tuple[str, range, slice, str, str]  # rank, lines of the statement, replaced bytes, new text, row of the table


def replacements(node: ast.AST, source: Callable[[ast.AST], str]) -> Iterator[tuple[ast.AST, str]]:
    """Yield nodes and the texts that replace them."""
    match node:
        case ast.Compare(ops=[kind], left=left, comparators=[right]) | ast.BinOp(op=kind, left=left, right=right):
            if swap := SWAPS.get(type(kind)):
                yield node, f"({source(left)} {swap} {source(right)})"
        case ast.BoolOp(values=[first, *_, last]):
            yield from ((node, source(first)), (node, source(last)))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"bool({source(operand)})"
        case ast.If(test=condition) | ast.While(test=condition) | ast.IfExp(test=condition):
            yield condition, f"(not ({source(condition)}))"
        case ast.Constant(value=bool() | int() | float() as value):
            yield node, str(not value if isinstance(value, bool) else value + 1)
        case ast.Constant(value=str(text)) if text and " " not in text:
            yield node, repr(f"{text}~")
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "return None"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise() | ast.Break() | ast.Continue():
            yield node, "pass"


def mutants(file: Path, seed: int) -> list[Mutant]:
    """List a file's mutants in their drawn order."""
    data = file.read_bytes()
    starts = [0, *itertools.accumulate(len(line) for line in data.splitlines(keepends=True))]
    result, drawn_before = list[Mutant](), Counter[str]()

    def span(node: Any) -> slice:
        return slice(starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset)

    def source(node: ast.AST) -> str:
        return data[span(node)].decode()

    def visit(node: Any, scope: str, statement: int) -> None:
        statement = node.lineno if isinstance(node, ast.stmt) else statement
        for replaced, text in replacements(node, source):
            before, after = " ".join(source(replaced).split()), " ".join(text.split())
            drawn_before[scope + before + after] += 1
            key = f"{seed} {file.name} {scope} {before} {after} {drawn_before[scope + before + after]}"
            rank, shown = hashlib.sha256(key.encode()).hexdigest(), f"{before[:100]}  ->  {after[:100]}"
            result.append((rank, range(statement, node.lineno + 1), span(replaced), text, shown))
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
                people = docstring or isinstance(child, ast.JoinedStr)
                if isinstance(child, ast.AST) and not people and field not in LEFT_OUT:
                    visit(child, f"{scope}.{getattr(child, 'name', '')}", statement)

    visit(ast.parse(data), "", 1)
    return sorted(result, key=lambda mutant: mutant[0])


def test(tree: Path, tests: list[str], seconds: float) -> str:
    """Run tests in a fork; return "noticed", "passed", "hung" or "broken"."""
    if not (pid := os.fork()):
        os.setsid()
        os.chdir(tree)
        sys.path[:0] = [str(tree), str(tree / "tests")]
        os.environ["PYTHONPATH"] = str(tree)
        os.dup2(os.dup2(os.open(os.devnull, os.O_WRONLY), 1), 2)
        try:
            os._exit(int(pytest.main(["-qx", "-p", "no:cacheprovider", *tests])))
        finally:
            os._exit(9)
    if hung := not select([descriptor := os.pidfd_open(pid)], [], [], seconds)[0]:
        os.killpg(pid, signal.SIGKILL)
    os.close(descriptor)
    status = os.waitpid(pid, 0)[1]
    return "hung" if hung else OUTCOMES.get(os.waitstatus_to_exitcode(status), "broken")


def main() -> None:
    """Try the drawn mutants and print a row for each, then one for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=SCOPE.split(), metavar="FILE", help="below planck_nb; may have *")
    for name, default in (("seed", 12), ("count", 15), ("seconds", 60), ("tests", 60)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    options, lines = parser.parse_args(), coverage.Coverage().get_data()
    lines.read()
    seen = {file: lines.contexts_by_lineno(file) for file in lines.measured_files()}
    everywhere = Counter(name for found in seen.values() for names in found.values() for name in names)
    for name in ("aiohttp", "duckdb", "httpx", "jsonschema", "pandas", "pydantic"):
        pytest.importorskip(name)  # once instead of in each fork
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT, tree := Path(folder, "tree"), ignore=shutil.ignore_patterns(".*", "node_modules"))
        for file in sorted(path for glob in options.files for path in (ROOT / "planck_nb").glob(glob)):
            copy, data, outcomes = tree / file.relative_to(ROOT), file.read_bytes(), Counter[str]()
            home = f"tests/{file.parent.relative_to(ROOT / 'planck_nb')}/"
            contexts = seen.get(str(file), {})
            here = Counter(name for names in contexts.values() for name in names if name)
            ranked = sorted(here, key=lambda name: (not name.startswith(home), -(here[name] ** 2) / everywhere[name]))
            order = list(dict.fromkeys(name.rpartition("|")[0] for name in ranked))
            if order and test(tree, order[:5], options.seconds) != "passed":
                sys.exit(f"The tests fail without a change of {file.name}.")
            for _, place, at, text, shown in mutants(file, options.seed)[: options.count]:
                ran = {name.rpartition("|")[0] for line in place for name in contexts.get(line, ())}
                # A line that runs at import alone has the tests of the whole file.
                tests = (order if ran == {""} else [name for name in order if name in ran])[: options.tests]
                copy.write_bytes(data[: at.start] + text.encode() + data[at.stop :])
                shutil.rmtree(copy.parent / "__pycache__", ignore_errors=True)
                outcomes[outcome := test(tree, tests, options.seconds) if tests else "no test"] += 1
                print(f"{outcome:8} {file.relative_to(ROOT)}:{place[-1]}  {shown}", flush=True)
            copy.write_bytes(data)
            print(f"======== {file.relative_to(ROOT)}: {outcomes['noticed']} of {outcomes.total()} noticed", flush=True)


if __name__ == "__main__":
    main()
