"""The prose in each file meets the goals, or is as good as before."""

from __future__ import annotations

from pathlib import Path

import pytest
from project.prose import (
    NUMBERS,
    ROOT,
    Measure,
    Numbers,
    complaints,
    files,
    is_bare,
    is_clumsy,
    lowered,
    measure,
    read_numbers,
)


def measured(folder: Path, source: str, name: str = "module.py") -> Measure:
    file = folder / name
    file.write_text(source)
    return measure(file)


def a_file(words: int = 1_000, variables: int = 100, **numbers: int) -> Measure:
    """Return a measure with so many faults by metric."""
    faults = [(1, metric, metric.replace("_", " ")) for metric, number in numbers.items() for _ in range(number)]
    return Measure(words, variables, tuple(faults))


def test_no_file_gets_worse() -> None:
    measures = {path.relative_to(ROOT).as_posix(): measure(path) for path in files()}
    worse = complaints(read_numbers(), measures)
    assert not worse, "\n".join(worse)


def test_numbers_have_a_line_per_file_in_order() -> None:
    numbers = read_numbers()
    assert list(numbers) == sorted(numbers)
    assert len(NUMBERS.read_text().splitlines()) == len(numbers) + 2


@pytest.mark.parametrize(
    ("source", "words", "faults"),
    [
        ('"""One side of the box."""', 5, ["of"]),
        ("x = 1  # that which nobody of us knows", 6, ["nobody", "of", "that"]),
        ('def f():\n    """Say no.\n\n    Nothing: None, none.\n    """', 3, ["no", "none"]),
        ('x = 1\n"""Nothing is `that of`, ``of`` or None."""', 3, ["nothing"]),
        ('"""None of them."""', 3, ["none", "of"]),
        ('"""Fence.\n\n```\nof that\n```\nEnd.\n"""', 2, []),
        ('"""Call it.\n\n>>> of = 1\n... that\nof\n\nThe end of it.\n"""', 6, ["of"]),
        ('"""See https://of.example/that/no for more."""', 3, []),
        ('"""Add.\n\nArgs:\n    that: Sum.\n    **of (str): Rest.\n\nReturns:\n    Sum of all.\n"""', 6, ["of"]),
        ('"""End-of-line, no-op, thereof, offers."""', 4, []),
        ("x = 'none of that'  # noqa: of that\ny = 2  # type: ignore[of]", 0, []),
        ("x = '''\n# none of that\n'''", 0, []),
    ],
)
def test_words(tmp_path: Path, source: str, words: int, faults: list[str]) -> None:
    result = measured(tmp_path, source)
    assert result.words == words
    assert [text for _, text, metric in result.faults if metric in {"of", "that", "negatives"}] == faults


def test_words_in_typescript(tmp_path: Path) -> None:
    source = (
        "/** A part of it.\n * That is `of`. */\nconst url = 'https://of.example/'; // no more\n// none\nlet of = 1;"
    )
    result = measured(tmp_path, source, "module.ts")
    assert (result.words, result.variables) == (9, 0)
    assert result.faults == ((1, "of", "of"), (2, "that", "that"), (3, "no", "negatives"), (4, "none", "negatives"))


def test_faults_have_line_numbers(tmp_path: Path) -> None:
    result = measured(tmp_path, '"""Box.\n\n`a\nb` of it.\n"""\n\nfound = 1\n\n\ndef f():\n    """Whether it is."""\n')
    assert result.faults == ((4, "of", "of"), (7, "found", "names"), (11, "Whether it is.", "first lines"))


@pytest.mark.parametrize(
    ("source", "variables", "names"),
    [
        ("found = text = 1", 2, ["found"]),
        ("for each in range(3): pass", 1, ["each"]),
        ("with open('x') as opened: pass", 1, ["opened"]),
        ("def f(self, given, *those, kept=1, **others): ...", 4, ["given", "those", "kept", "others"]),
        ("g = [one for one in 'abc'] + [h := 1]", 3, ["one"]),
        ("try: pass\nexcept OSError as caught: pass", 1, ["caught"]),
        ("match x:\n    case [told, *all]: pass\n    case {'a': this}: pass", 3, ["told", "all", "this"]),
        ("(_known, rest), index = x", 3, ["_known"]),
        ("lambda written: written", 1, ["written"]),
        ("found.this = found[each] = given()", 0, []),
        ("class Box:\n    closed: int\n    kept = {one for one in 'ab'}\n    def f(cls, told): ...", 1, ["told"]),
        ("closed: bool = g()\ndone = False\nended = x < 1\nallowed = not x\ndef f(failed: bool): ...", 0, []),
        ("closed = -x\nfailed: int = 1", 2, ["closed", "failed"]),
    ],
)
def test_names(tmp_path: Path, source: str, variables: int, names: list[str]) -> None:
    result = measured(tmp_path, source)
    assert result.variables == variables
    assert sorted(text for _, text, metric in result.faults if metric == "names") == sorted(names)


def test_nouns_are_good_names() -> None:
    names = "text names args seed feed speed read bound other running children _token stopped_at x __all__".split()
    assert [name for name in names if is_bare(name)] == []


@pytest.mark.parametrize(
    "line",
    [
        "Whether it runs.",
        "What a model is sent",
        "Which agents wait.",
        "How long it waits.",
        "Returns the text.",
        "Closes its file.",
        "Say in one first line everything there is to know about a function.",
    ],
)
def test_clumsy_first_lines(line: str) -> None:
    assert is_clumsy(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Close.",
        "Return whether it runs.",
        "Pass the text on.",
        "Sessions on disk.",
        "Names in a folder.",
        "Files to read.",
        "Whatever the caller needs.",
        "Return `a code span with very many words in it, which is one`.",
        "Say in one first line everything there is about a small function.",
    ],
)
def test_good_first_lines(line: str) -> None:
    assert not is_clumsy(line)


@pytest.mark.parametrize(
    ("file", "above"),
    [
        (a_file(of=15, that=10, negatives=3, names=1), {}),
        (a_file(of=16, that=11, negatives=4, names=2), {"of", "that", "negatives", "names"}),
        (a_file(words=40, of=1, that=1, negatives=1), {}),
        (a_file(words=40, of=2), {"of"}),
        (a_file(variables=99, names=1), {"names"}),
        (a_file(first_lines=1), {"first lines"}),
        (Measure(0, 0, ()), {}),
    ],
)
def test_goals(file: Measure, above: set[str]) -> None:
    assert set(file.above_goals()) == set(above)


LINE: Numbers = {"of": (30, 30.0), "first lines": (3, 3)}


@pytest.mark.parametrize(
    "file",
    [
        a_file(of=30, first_lines=3),
        a_file(of=20, first_lines=2),
        a_file(words=500, of=30, first_lines=3),  # sentences without "of" are gone
        a_file(words=2_000, of=50, first_lines=3),  # sentences with fewer "of" are new
    ],
    ids=["same", "better", "shorter", "longer"],
)
def test_as_good_as_before(file: Measure) -> None:
    assert complaints({"a.py": LINE}, {"a.py": file}) == []


def test_worse_than_before() -> None:
    [complaint] = complaints({"a.py": LINE}, {"a.py": a_file(of=31, first_lines=3)})
    assert complaint.startswith("a.py, of: 31 at a rate of 31.0, expected at most 30 or a rate up to 30.0. line 1: of;")
    [complaint] = complaints({"a.py": LINE}, {"a.py": a_file(words=9_000, of=30, first_lines=4)})
    assert "first lines: 4" in complaint
    [complaint] = complaints({"a.py": LINE}, {"a.py": a_file(of=30, names=2)})
    assert "names: 2" in complaint


def test_a_new_file_meets_the_goals() -> None:
    assert complaints({}, {"new.py": a_file(of=15)}) == []
    [complaint] = complaints({}, {"new.py": a_file(of=16)})
    assert "expected at most 15." in complaint


@pytest.mark.parametrize("measures", [{}, {"a.py": a_file(of=15)}], ids=["gone", "good"])
def test_a_needless_line_names_the_command(measures: dict[str, Measure]) -> None:
    [complaint] = complaints({"a.py": LINE}, measures)
    assert "--lower" in complaint


def test_lowering_never_raises() -> None:
    numbers = {"a.py": LINE, "gone.py": LINE, "good.py": LINE}
    measures = {
        "a.py": a_file(words=500, of=25, that=90, names=9, first_lines=4),
        "good.py": a_file(of=15),
        "new.py": a_file(of=99),
    }
    assert lowered(numbers, measures) == {"a.py": {"of": (25, 30.0), "first lines": (3, 3)}}
    assert lowered(numbers, {"a.py": a_file(of=20)}) == {"a.py": {"of": (20, 20.0)}}
