"""Measure the prose in each file against `prose.json`.

A file meets the goals below, or is as good as its line in `prose.json`. `--lower` lowers these numbers to those which
the files have now, and drops files which meet every goal. It never raises a number or adds a file: an exception is an
edit by hand, which the review shows. Whoever moves a file also renames its line.

Worse means a higher number and a higher rate. Deleting good sentences raises the rate alone, adding good sentences at
most the number, and neither is a fault. Small improvements may leave `prose.json` as it is, otherwise two branches
which improve the same file would conflict; only a file which meets every goal must leave the list.

TypeScript counts with the words in its comments. Names and first lines would need a parser for that language.

Usage:
    python tests/project/prose.py           # totals and the worst files
    python tests/project/prose.py FILE ...  # every fault in these files
    python tests/project/prose.py --lower   # lower the numbers in prose.json
"""

from __future__ import annotations

import ast
import json
import math
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).parents[2]
NUMBERS = Path(__file__).with_suffix(".json")
COMMAND = "python tests/project/prose.py --lower"

GOALS = {"of": 15, "that": 10, "negatives": 3}
"""Words per 1,000, rounded up: a short file may have one."""

NAME_GOAL = 1
"""Percent, rounded down: a file with fewer than 100 variables has zero."""

FIRST_LINE_WORDS = 12
"""Longest first line; code in backticks is one word."""

METRICS = (*GOALS, "names", "first lines")

NEGATIVES = frozenset({"no", "nobody", "none", "nothing"})

PARTICIPLES = frozenset(
    "begun born borne bought broken brought built caught chosen done drawn driven eaten fallen fed felt forgotten "
    "found frozen given gone grown heard held hidden kept known laid lent lost made meant met overwritten paid rewound "
    "said seen sent shown sold spent spoken stolen taken taught thrown told torn understood woken won worn "
    "written".split()
)
"""Irregular ones, without nouns and adjectives.

Left out: `bound`, `cut`, `left`, `read`, `set`, `split`, `unknown` and the like.
"""

ENDING_IN_ED = frozenset(
    "bed breed deed embed exceed feed indeed need proceed red seed shed speed succeed weed".split()
)
"""Words other than participles."""

PRONOUNS = frozenset(
    "all another any anybody anyone anything both each either everybody everyone everything few how it mine much "
    "neither nobody none nothing one ones others own same several some somebody someone something such that them these "
    "they this those what whatever where which who whoever whom whose why yours".split()
)
"""Pronouns, determiners and question words.

Left out: `other`, the usual parameter in `__eq__`.
"""

QUESTIONS = frozenset("how if that what when where whether which who whom whose why".split())

DETERMINERS = frozenset("a all an any each every how if it its one the their this what whether".split())

_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*")
_NOT_PROSE = re.compile(
    r"(`+).+?\1"  # code, in fences too
    r"|^[ ]*>>>.*?(?=\n\s*\n|\Z)"  # an example ends with a blank line
    r"|https?://\S+"
    r"|^[ ]*\*{0,2}\w+(?: \([^)\n]*\))?:(?=\s|$)"  # a parameter's name, or a heading such as "Returns:"
    r"|\bNone\b(?! of\b)"  # the value
    r"|#\s*(?:noqa|type|pragma|ruff|mypy):.*?$",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"(?:^|\s)#\s(?!noqa|type:)", re.MULTILINE)
_SCRIPT_COMMENT = re.compile(r"/\*.*?\*/|(?:^|(?<=\s))//\s.*?$", re.DOTALL | re.MULTILINE)
_THIRD_PERSON = re.compile(r"[A-Z][a-z]*[^\Ws]s")

Numbers = dict[str, tuple[int, float]]
"""Number and rate per metric: a line of `prose.json`."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Faults in a file, and the totals for their rates.

    Args:
        words: Number of words in docstrings and comments.
        variables: Number of bindings: assignments, parameters, loops and the like.
        faults: Line number, text and metric per fault.
    """

    words: int
    variables: int
    faults: tuple[tuple[int, str, str], ...]

    def number(self, metric: str) -> int:
        """Count the faults."""
        return sum(name == metric for _, _, name in self.faults)

    def rate(self, metric: str) -> float:
        """Return faults per 1,000 words, and names in percent.

        First lines have their number as a rate, because each new first line has to follow the rule.
        """
        if metric == "first lines":
            return self.number(metric)
        total, per = (self.variables, 100) if metric == "names" else (self.words, 1_000)
        return round(self.number(metric) * per / max(total, 1), 1)

    def goal(self, metric: str) -> int:
        """Return the highest number which meets the goal."""
        if metric == "first lines":
            return 0
        if metric == "names":
            return self.variables * NAME_GOAL // 100
        return math.ceil(self.words * GOALS[metric] / 1_000)

    def above_goals(self) -> Numbers:
        """Return number and rate for metrics above their goals."""
        metrics = [metric for metric in METRICS if self.number(metric) > self.goal(metric)]
        return {metric: (self.number(metric), self.rate(metric)) for metric in metrics}


def measure(file: Path) -> Measure:
    """Measure a Python or TypeScript file."""
    source = file.read_text()
    if file.suffix == ".ts":
        comments = [(source.count("\n", 0, match.start()) + 1, match[0]) for match in _SCRIPT_COMMENT.finditer(source)]
        words = list(_words(comments))
        return Measure(len(words), 0, tuple(_word_faults(words)))
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = [
        (node.value.lineno, node.value.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    words = list(_words(docstrings + list(_comments(source))))
    variables = list(_variables(nodes))
    faults = [
        *_word_faults(words),
        *((line, name, "names") for line, name in variables if is_bare(name)),
        *((line, text, "first lines") for line, text in _first_lines(docstrings) if is_clumsy(text)),
    ]
    return Measure(len(words), len(variables), tuple(sorted(faults)))


def _comments(source: str) -> Iterator[tuple[int, str]]:
    if _COMMENT.search(source):  # a tokenizer takes longer than everything else
        for token in tokenize.generate_tokens(StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def _words(texts: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for start, text in texts:
        prose = _NOT_PROSE.sub(lambda match: "\n" * match[0].count("\n"), text)
        for line, content in enumerate(prose.split("\n"), start):
            for word in _WORD.findall(content):
                yield line, word.lower()


def _word_faults(words: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    for line, word in words:
        if word in NEGATIVES:
            yield line, word, "negatives"
        elif word in GOALS:
            yield line, word, word


def _first_lines(docstrings: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for line, text in docstrings:
        yield line, text.strip().partition("\n")[0]


def _variables(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield bound names, without `self`, class attributes and flags.

    Class attributes are often stored or public. A flag is named by an adjective, such as `closed`.
    """
    left_out: set[ast.AST] = set()
    for node in nodes:  # a parent comes before its children
        match node:
            case ast.ClassDef(body=body):
                statements = (item for item in body if isinstance(item, ast.Assign | ast.AnnAssign))
                left_out.update(part for statement in statements for part in ast.walk(statement))
            case ast.Assign(targets=targets, value=value) if _is_flag(value):
                left_out.update(targets)
            case ast.AnnAssign(target=target, annotation=annotation) if _is_bool(annotation):
                left_out.add(target)
            case ast.Name(id=name, ctx=ast.Store()) if node not in left_out:
                yield node.lineno, name
            case ast.arg(arg=name, annotation=annotation) if name not in {"self", "cls"} and not _is_bool(annotation):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name


def _is_bool(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id == "bool"


def _is_flag(value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.Not)
    return isinstance(value, ast.Compare) or (isinstance(value, ast.Constant) and isinstance(value.value, bool))


def is_bare(name: str) -> bool:
    """Return whether a name is a participle or a pronoun."""
    word = name.removeprefix("_")
    return (
        word in PARTICIPLES or word in PRONOUNS or (word.endswith("ed") and word.isalpha() and word not in ENDING_IN_ED)
    )


def is_clumsy(first_line: str) -> bool:
    """Return whether a first line breaks the rule."""
    words = re.sub(r"`[^`]*`", "code", first_line).split()
    if len(words) > FIRST_LINE_WORDS or (words and words[0].lower() in QUESTIONS):
        return True
    return len(words) > 1 and _THIRD_PERSON.fullmatch(words[0]) is not None and words[1] in DETERMINERS


def files() -> list[Path]:
    """Return the package, the sources for the browser and this module."""
    python = (ROOT / "planck_nb").rglob("*.py")
    return sorted([*python, *(ROOT / "labextension" / "src").rglob("*.ts"), Path(__file__)])


def read_numbers() -> dict[str, Numbers]:
    """Read the numbers in `prose.json` by path."""
    return {
        path: {metric: (number, rate) for metric, (number, rate) in line.items()}
        for path, line in json.loads(NUMBERS.read_text()).items()
    }


def write_numbers(numbers: dict[str, Numbers]) -> None:
    """Write one line per file, for small differences."""
    lines = (f"{json.dumps(path)}: {json.dumps(numbers[path])}" for path in sorted(numbers))
    NUMBERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def lowered(numbers: dict[str, Numbers], measures: dict[str, Measure]) -> dict[str, Numbers]:
    """Return the numbers, lowered to the measures where these are lower."""
    result: dict[str, Numbers] = {}
    for path, line in numbers.items():
        if path not in measures:
            continue
        above = measures[path].above_goals()
        lower = {metric: _lower(line[metric], above[metric]) for metric in line if metric in above}
        if lower:
            result[path] = lower
    return result


def _lower(old: tuple[int, float], new: tuple[int, float]) -> tuple[int, float]:
    return min(old[0], new[0]), min(old[1], new[1])


def complaints(numbers: dict[str, Numbers], measures: dict[str, Measure]) -> list[str]:
    """Return a sentence per worse metric and per needless line."""
    result = [
        _complaint(path, metric, limit, file)
        for path, file in measures.items()
        for metric, (number, rate) in file.above_goals().items()
        if not (limit := numbers.get(path, {}).get(metric)) or (number > limit[0] and rate > limit[1])
    ]
    needless = [path for path in numbers if path not in measures or not measures[path].above_goals()]
    return result + [f"{path} is gone or meets every goal: run `{COMMAND}`" for path in needless]


def _complaint(path: str, metric: str, limit: tuple[int, float] | None, file: Measure) -> str:
    expectation = f"at most {file.goal(metric)}" if limit is None else f"at most {limit[0]} or a rate up to {limit[1]}"
    places = "; ".join(f"line {line}: {text}" for line, text, name in file.faults if name == metric)
    return f"{path}, {metric}: {file.number(metric)} at a rate of {file.rate(metric)}, expected {expectation}. {places}"


def report(measures: dict[str, Measure]) -> str:
    """Return totals and the 20 worst files."""
    total = Measure(
        sum(file.words for file in measures.values()),
        sum(file.variables for file in measures.values()),
        tuple(fault for file in measures.values() for fault in file.faults),
    )
    lines = [f"{total.words:,} words and {total.variables:,} variables in {len(measures)} files"]
    lines += [f"{metric}: {total.number(metric):,}, rate {total.rate(metric)}" for metric in METRICS]
    excess = {
        path: sum(number - file.goal(metric) for metric, (number, _) in file.above_goals().items())
        for path, file in measures.items()
    }
    worst = sorted(excess, key=lambda path: -excess[path])[:20]
    return "\n".join(lines + [f"{excess[path]:5} {path} {json.dumps(measures[path].above_goals())}" for path in worst])


def main(arguments: list[str]) -> None:
    """Print a report, print the faults in files, or lower the numbers."""
    if arguments and arguments != ["--lower"]:
        for path in map(Path, arguments):
            file = measure(path)
            print(f"{path}: {json.dumps(file.above_goals())}")
            print("\n".join(f"{path}:{line}: {metric}: {text}" for line, text, metric in file.faults))
        return
    measures = {path.relative_to(ROOT).as_posix(): measure(path) for path in files()}
    if arguments:
        write_numbers(lowered(read_numbers(), measures))
    print(report(measures))


if __name__ == "__main__":
    main(sys.argv[1:])
