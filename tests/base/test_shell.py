"""Commands are split where a shell splits them."""

from __future__ import annotations

import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planck_nb.base.shell import Lexeme, lex

ANYTHING = st.text(st.sampled_from("ab2 \t\n'\"\\$`(){}<>&|;#*\0é\u00a0"), max_size=30)


def kinds(command: str) -> list[tuple[str, str]]:
    return [(lexeme.kind, lexeme.text) for lexeme in lex(command)]


def words(command: str) -> list[str] | None:
    """The words of a simple command, None unless it is one."""
    found: list[str | None] = [None]
    for lexeme in lex(command):
        if lexeme.kind not in ("text", "blank", "quote", "escape", "continuation") or _keeps_backslash(lexeme):
            return None
        if lexeme.kind == "text" and lexeme.quotes == "bare" and any(mark in lexeme.text for mark in "#*"):
            return None
        if lexeme.kind == "blank":
            found.append(None)
        elif lexeme.kind != "continuation":
            found[-1] = (found[-1] or "") + lexeme.value
    return [word for word in found if word is not None]


def _keeps_backslash(lexeme: Lexeme) -> bool:
    alone = len(lexeme.text) == 1
    return lexeme.kind == "escape" and (alone or (lexeme.quotes == "double" and lexeme.value not in '$`"\\'))


@given(command=ANYTHING)
def test_the_lexemes_are_the_whole_command(command: str) -> None:
    lexemes = list(lex(command))
    assert "".join(lexeme.text for lexeme in lexemes) == command
    position = 0
    for lexeme in lexemes:
        assert (lexeme.start, bool(lexeme.text)) == (position, True)
        position = lexeme.end


@given(command=ANYTHING)
def test_every_quote_that_opens_is_closed_or_said_to_be_open(command: str) -> None:
    opened = ""
    for lexeme in lex(command):
        if lexeme.kind == "quote":
            assert opened in ("", lexeme.text)
            opened = "" if opened else lexeme.text
        else:
            assert lexeme.quotes == {"": "bare", "'": "single", '"': "double"}[opened]
    assert not opened


@given(command=ANYTHING)
def test_no_special_character_is_lexed_as_text(command: str) -> None:
    special = {"bare": set("\\'\"$`<>;&|\n() \t"), "double": set('\\"$`'), "single": set("'")}
    unclosed = {lexeme.text for lexeme in lex(command) if lexeme.kind == "unclosed"}
    for lexeme in lex(command):
        if lexeme.kind == "text":
            assert not set(lexeme.text) & (special[lexeme.quotes] - unclosed)


PLAIN = st.text(st.sampled_from("abé"), max_size=3)
PIECES = st.one_of(
    PLAIN,
    st.text(st.sampled_from('ab \t"\\$é;'), max_size=4).map("'{}'".format),
    st.text(st.sampled_from("ab \t'é;"), max_size=4).map('"{}"'.format),
    st.sampled_from(["\\ ", "\\'", '\\"', "\\\\", "\\$", "\\;", "\\a", "\\é", "\\\t", '"\\""', '"\\$"']),
)
COMMANDS = st.lists(st.one_of(PIECES, st.sampled_from([" ", "\t", "  "])), min_size=1, max_size=8).map("".join)


@pytest.mark.process
@settings(deadline=None)
@given(command=COMMANDS)
def test_words_are_those_of_the_shell(command: str) -> None:
    expected = words(command)
    assert expected is not None
    script = f"for word in {command}\ndo printf '%s\\0' \"$word\"; done"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", []),
        ("''", [("quote", "'"), ("quote", "'")]),
        ("it's", [("text", "it"), ("unclosed", "'"), ("text", "s")]),
        ('"\\"', [("unclosed", '"'), ("escape", '\\"')]),
        ("a\\", [("text", "a"), ("escape", "\\")]),
        ("a\\\nb", [("text", "a"), ("continuation", "\\\n"), ("text", "b")]),
        ("2>&1", [("text", "2"), ("redirection", ">&"), ("text", "1")]),
        ("<(a)", [("substitution", "<("), ("text", "a"), ("control", ")")]),
        ("a&&b", [("text", "a"), ("control", "&"), ("control", "&"), ("text", "b")]),
        ('"$(a)"', [("quote", '"'), ("expansion", "$"), ("text", "(a)"), ("quote", '"')]),
        ("'\\'", [("quote", "'"), ("text", "\\"), ("quote", "'")]),
    ],
)
def test_lexemes_of_example_commands(command: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(command) == expected


@pytest.mark.parametrize("piece", ["'", '"', "\\", '"\\"', "'\\", "$(", "`", "<<", "((", "a ", "'\"", '"\'\\"'])
def test_time_is_linear(piece: str) -> None:
    def seconds(count: int) -> float:
        command, start = piece * count, time.process_time()
        for _ in lex(command):
            pass
        return time.process_time() - start

    assert seconds(50_000) < 20 * seconds(10_000) + 0.1
