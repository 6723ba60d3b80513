"""Shell commands as values.

A call's command is parsed once. Rules, the request for approval, the sandbox and the process all use this value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from planck_nb.agent.approval.obeyed_files import obeyed_words
from planck_nb.agent.approval.sandbox_access import SandboxAccess
from planck_nb.agent.approval.secret_files import secret_words
from planck_nb.agent.effect import Effect
from planck_nb.base.shell import Lexeme, lex
from planck_nb.base.visible import is_hidden

BLANKS = " \t\n"

MAX_COMMAND_LENGTH = 10_000
"""Longest analysed command in characters.

A longer one is uncertain: its analysis takes too long.
"""

_DOUBTFUL = re.compile(r"[\s#\x00-\x1f\x7f]")
"""Characters outside quotes which some shells take for blanks or comments."""

_ASSIGNMENT = re.compile(r"\w+\+?=")
_PREFIXES = frozenset("! { builtin command do doas else env elif exec if nice nohup sudo then time until while".split())
_INTERPRETERS = frozenset(". bash dash eval fish ksh sh source trap zsh".split())
_SPLITTING = re.compile(r"-\w*S|--s")
"""Options with which `env` reads a text as words."""
_COMPUTED = re.compile(r"[$*?{]|\[[^\[]")

_MAX_PREFIXES = 20


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """A command in a text, as far as the text shows it.

    Args:
        invocations: Its words without quotes and redirections, from each possible program on: after assignments, and
            after words such as `sudo`. A substitution is a `$` where it starts.
        outputs: The files to which its output is redirected.
    """

    invocations: tuple[tuple[str, ...], ...]
    outputs: tuple[str, ...] = ()

    @property
    def texts(self) -> Iterator[str]:
        """Yield its invocations as texts, with and without the program's folder."""
        for words in self.invocations:
            yield " ".join(words)
            yield " ".join([program_of(words), *words[1:]])


@dataclass(frozen=True, slots=True)
class ShellCommand(Effect):
    """A command for /bin/sh, with the facts in its text and folder.

    Args:
        kind: "execute".
        target: The text, which runs as it is.
        cwd: The folder in which it runs; empty for `root`.
        root: The tool's working directory, links followed; None if unknown.
        folder: The folder in which it runs, links followed; None if unknown.
        parts: The commands which a shell certainly runs for the text, with single blanks; None if uncertain. Certain
            are words, quotes, and `;`, `&`, `|` and line ends between commands.
        calls: The commands in the text, even if a shell may read it differently.
        computes: Whether it runs something whose name it does not contain.
        access: Its needs beyond the sandbox.
        secrets: Words which name secrets.
        obeyed: Words which name files loaded automatically by programs, unless its own programs only read them.
        sandboxed: Whether it runs in a sandbox, where those files are read-only.

    Example:
        >>> command = ShellCommand.parse("cd src && git push | tee log")
        >>> command.parts, command.programs, command.access.network
        (('cd src', 'git push', 'tee log'), ('cd', 'git', 'tee'), True)
    """

    root: Path | None = None
    folder: Path | None = None
    parts: tuple[str, ...] | None = None
    calls: tuple[ProgramCall, ...] = ()
    computes: bool = False
    access: SandboxAccess = field(default_factory=SandboxAccess)
    secrets: tuple[str, ...] = ()
    obeyed: tuple[str, ...] = ()
    sandboxed: bool = False

    @classmethod
    def parse(
        cls, text: str, root: Path | None = None, folder: Path | None = None, *, sandboxed: bool = False
    ) -> ShellCommand:
        """Parse a command.

        Args:
            text: The command.
            root: The tool's working directory, links followed.
            folder: The folder in which the command runs, links followed; by default `root`.
            sandboxed: Whether it runs in a sandbox.

        Returns:
            The command with its facts.
        """
        folder = folder or root
        lexemes = list(lex(text))
        short = len(text) <= MAX_COMMAND_LENGTH
        calls = tuple(_calls(lexemes)) if short else ()
        invocations = [words for call in calls for words in call.invocations]
        moves = any(program_of(words) in ("cd", "pushd") for words in invocations)
        return cls(
            "execute",
            text,
            cwd="" if folder == root else str(folder),
            root=root,
            folder=folder,
            parts=_certain_parts(lexemes) if short else None,
            calls=calls,
            computes=any(map(_is_computed, invocations)),
            access=SandboxAccess.of(text, invocations),
            secrets=tuple(secret_words("".join(lexeme.value for lexeme in lexemes), folder)),
            obeyed=tuple(
                obeyed_words(((call.invocations, call.outputs) for call in calls), None if moves else folder, root)
            ),
            sandboxed=sandboxed,
        )

    @classmethod
    def of(cls, effect: Effect, root: Path | None) -> ShellCommand:
        """Return an effect as a command.

        A mere text is parsed.

        Args:
            effect: An effect with the kind "execute".
            root: The working directory for a text.
        """
        if isinstance(effect, ShellCommand):
            return effect
        return cls.parse(effect.target, root, Path(effect.cwd) if effect.cwd else None)

    @property
    def is_unknown(self) -> bool:
        """Return whether the text is missing or too long to be analysed."""
        return not self.target or len(self.target) > MAX_COMMAND_LENGTH

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the programs' names, without their folders."""
        return tuple(dict.fromkeys(program_of(words) for call in self.calls for words in call.invocations))


def _is_computed(words: Sequence[str]) -> bool:
    """Return whether these words run something whose name they do not contain."""
    program = program_of(words)
    splits = program == "env" and any(map(_SPLITTING.match, words[1:]))
    return splits or program in _INTERPRETERS or _COMPUTED.search(words[0]) is not None


def program_of(words: Sequence[str]) -> str:
    """Return the program's name, without its folder."""
    return words[0].rpartition("/")[2]


def _certain_parts(lexemes: Iterable[Lexeme]) -> tuple[str, ...] | None:
    """Return the commands which a shell certainly runs, with single blanks.

    The result is None if the text has another meaning for a shell: redirection, substitution, variables, subshells,
    comments or backslashes.
    """
    parts, current = [], ""
    for lexeme in lexemes:
        match lexeme.kind:
            case "blank":
                current += " "
            case "control" if lexeme.text not in "()":
                parts.append(current)
                current = ""
            case "quote":
                current += lexeme.text
            case "text" if not _is_doubtful(lexeme):
                current += lexeme.text
            case _:
                return None
    return tuple(part.strip(BLANKS) for part in (*parts, current) if part.strip(BLANKS))


def _is_doubtful(lexeme: Lexeme) -> bool:
    """Return whether shells or readers may take a text for something else.

    Hidden characters may only appear in quotes.
    """
    text = lexeme.text
    if lexeme.quotes != "bare":
        return "\0" in text
    return _DOUBTFUL.search(text) is not None or (not text.isascii() and any(map(is_hidden, text)))


def _calls(lexemes: Iterable[Lexeme]) -> Iterator[ProgramCall]:
    """Yield the commands in a text, without empty ones."""
    call = _UnfinishedCall()
    for lexeme in (*lexemes, Lexeme("control", "\n", 0, "bare")):
        if lexeme.kind == "continuation" or (lexeme.kind == "escape" and len(lexeme.text) == 1):
            continue
        backtick = lexeme.kind == "expansion" and lexeme.quotes == "bare" and lexeme.text == "`"
        if lexeme.kind in ("control", "substitution") or backtick:
            if backtick:
                call.word = (call.word or "") + "$"
            call.end_word()
            if call.words or call.outputs:
                yield ProgramCall(tuple(_invocations(call.words)), tuple(call.outputs))
            call = _UnfinishedCall()
        else:
            call.add(lexeme)


@dataclass(slots=True)
class _UnfinishedCall:
    """A command's words up to a place in its text.

    Args:
        words: Its words, without redirections.
        outputs: The files to which its output is redirected.
        word: The word at this place, None between words; an empty one is written as two quotes.
        number: Whether this word is a number, such as the one in "2>".
        redirection: The redirection before the next word.
    """

    words: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    word: str | None = None
    number: bool = False
    redirection: str = ""

    def add(self, lexeme: Lexeme) -> None:
        if lexeme.kind == "redirection":
            if self.number:
                self.word = None
            self.end_word()
            self.redirection = lexeme.text
        elif lexeme.kind == "blank":
            self.end_word()
        else:
            bare = lexeme.kind == "text" and lexeme.quotes == "bare"
            self.number = bare and (self.number or self.word is None) and lexeme.text.isdigit()
            self.word = (self.word or "") + lexeme.value

    def end_word(self) -> None:
        if self.word is None:
            return
        if not self.redirection:
            self.words.append(self.word)
        elif ">" in self.redirection:
            self.outputs.append(self.word)
        self.word, self.number, self.redirection = None, False, ""


def _invocations(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the words from each possible program on.

    It is the first word after assignments, and after words such as `sudo`.
    """
    after_prefix = False
    for index, word in enumerate(words):
        if index > _MAX_PREFIXES:
            yield ("$",)  # going on takes quadratic time: the program's name is taken as unknown
            return
        if _ASSIGNMENT.match(word) or (after_prefix and word.startswith("-")):
            continue
        invocation = tuple(words[index:])
        yield invocation
        if program_of(invocation) not in _PREFIXES:
            return
        after_prefix = True
