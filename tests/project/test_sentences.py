"""A sentence is asserted where it belongs; other tests match the type of an error and a telling word."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

WORDS = 5
FILES = 3
"""A run of so many words may be asserted in so many files."""

SQL = re.compile(r"\W*(select|with)\b.*\bfrom\b", re.IGNORECASE | re.DOTALL)
"""The beginning of a query, whose result is asserted."""


def is_pattern(node: ast.AST) -> bool:
    """Return whether a node is the argument `match=`, as of `pytest.raises`."""
    return isinstance(node, ast.keyword) and node.arg == "match"


def asserted_texts(tree: ast.Module) -> Iterator[str]:
    """The texts in assertions and in the patterns that errors have to match, without SQL."""
    asserted = (node for node in ast.walk(tree) if isinstance(node, ast.Assert) or is_pattern(node))
    parts = (part for node in asserted for part in ast.walk(node))
    texts = (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))
    yield from (text for text in texts if not SQL.match(text))


def runs(text: str) -> set[str]:
    """The runs of words in a text, without punctuation and the escapes of a pattern."""
    words = re.findall(r"[a-z]+(?:'[a-z]+)?", re.sub(r"\\.", " ", text).lower())
    return {" ".join(words[start : start + WORDS]) for start in range(len(words) - WORDS + 1)}


def repeated_sentences(files: dict[str, str]) -> dict[str, list[str]]:
    """The runs of words that too many files assert, with the files."""
    places = defaultdict(list)
    for file, source in files.items():
        for words in set().union(*map(runs, asserted_texts(ast.parse(source)))):
            places[words].append(file)
    return {words: where for words, where in sorted(places.items()) if len(where) > FILES}


@pytest.mark.slow
def test_no_sentence_is_asserted_in_many_files() -> None:
    files = {path.relative_to(TESTS).as_posix(): path.read_text() for path in sorted(TESTS.rglob("*.py"))}
    assert repeated_sentences(files) == {}


def test_repeated_sentences_are_found() -> None:
    asserted = 'assert text == "It stops (1) at once\\nafter this."'
    matched = 'with raises(Error, match=r"stops \\(\\d\\) at once after this"): pass'
    other = 'text = "It stops at once after this"\nassert "stops at once after"'
    files = {"one": asserted, "two": matched, "three": f"assert f'{{x}} stops at once after this'\n{matched}"}
    assert repeated_sentences(files | {"four": other}) == {}
    assert repeated_sentences(files | {"four": asserted}) == {
        "stops at once after this": ["one", "two", "three", "four"]
    }
