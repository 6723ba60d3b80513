"""Shell commands and patterns for them, read strictly to allow and generously to deny."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from planck_nb.base.shell import Lexeme, lex
from planck_nb.base.visible import is_hidden

BLANKS = " \t\n"

MAX_COMMAND_LENGTH = 10_000
"""Characters of the longest command that is analysed; a longer one is uncertain: analysing it takes too long."""

_DOUBTFUL = re.compile(r"[\s#\x00-\x1f\x7f]")
"""Characters outside of quotes that some shells take for blanks or comments."""

_ASSIGNMENT = re.compile(r"\w+\+?=")
_PREFIXES = frozenset("! { builtin command do doas else env elif exec if nice nohup sudo then time until while".split())
_INTERPRETERS = frozenset(". bash dash eval fish ksh sh source trap zsh".split())
_IN_WORD = re.compile(r"[\w.-]")
_COMPUTED = re.compile(r"[$*?{]|\[[^\[]")
_COMPUTED_ARGUMENT = re.compile(r"[$?{\[]")
"""A star is left out: too many arguments contain one, and it can hide a word only if there is a file of that name."""

_MAX_PREFIXES = 20


def simple_commands(command: str) -> tuple[str, ...] | None:
    """Return the commands that a shell runs for this text, with single blanks, or None unless that is certain.

    It understands words, quotes, and `;`, `&`, `|` and line ends between commands. Everything else that has a meaning
    for a shell (redirection, substitution, variables, subshells, comments, backslashes) is uncertain.
    """
    if len(command) > MAX_COMMAND_LENGTH:
        return None
    found, current = [], ""
    for lexeme in lex(command):
        match lexeme.kind:
            case "blank":
                current += " "
            case "control" if lexeme.text not in "()":
                found.append(current)
                current = ""
            case "quote":
                current += lexeme.text
            case "text" if not _is_doubtful(lexeme):
                current += lexeme.text
            case _:
                return None
    return tuple(part.strip(BLANKS) for part in (*found, current) if part.strip(BLANKS))


def _is_doubtful(lexeme: Lexeme) -> bool:
    """Whether shells or readers may take a text for something else. Hidden characters may only appear in quotes."""
    text = lexeme.text
    if lexeme.quotes != "bare":
        return "\0" in text
    return _DOUBTFUL.search(text) is not None or (not text.isascii() and any(map(is_hidden, text)))


@dataclass(frozen=True, slots=True)
class CommandPattern:
    r"""The text of a command, in which `*` matches anything and `\*` a star; a final ` *` also matches nothing.

    To allow, the pattern has to match a text that a shell certainly runs as a single command, or be the same text. To
    deny, it is compared with every command in the text: quotes, backslashes, assignments, the program's folder and
    words such as `sudo` or `command` before it do not hide it. A command that is hidden better (in `sh -c`, in computed
    words, behind options or many prefixes, in a very long text) is not caught, but `may_catch` is true for it.
    """

    text: str

    @staticmethod
    def quote(command: str) -> str:
        """Return the pattern that matches only this command."""
        return command.strip(BLANKS).replace("*", r"\*")

    def covers(self, command: str) -> bool:
        """Whether the pattern certainly covers everything that the command does."""
        if self.quote(command) == self.text:
            return True
        commands = simple_commands(command)
        return commands is not None and len(commands) == 1 and self._fits(commands[0])

    def catches(self, command: str) -> bool:
        """Whether the pattern certainly matches the command or one inside it."""
        found = commands_in(command) if len(command) <= MAX_COMMAND_LENGTH else ()
        return self._fits(command.strip(BLANKS)) or any(map(self._fits, found))

    def may_catch(self, command: str) -> bool:
        """Whether the pattern may match something inside the command."""
        if not command or len(command) > MAX_COMMAND_LENGTH or _runs_unnamed(command):
            return True
        text, position = _without_quoting(command), 0
        for part in _literal_parts(_without_quoting(self.text.replace(r"\*", "*"))):
            found = part.search(text, position)
            if found is None:
                return position > 0 and self._computed(command)
            position = found.end()
        return True

    def _computed(self, command: str) -> bool:
        """Whether a command of this program has an argument that only the shell can compute."""
        program = _glob(self.text).partition(" ")[0]
        return any(
            fnmatchcase(_program(argv), program) and any(map(_COMPUTED_ARGUMENT.search, argv[1:]))
            for words in _word_lists(command)
            for argv in _invocations(words)
        )

    def _fits(self, command: str) -> bool:
        glob = _glob(self.text)
        return fnmatchcase(command, glob) or (glob.endswith(" *") and fnmatchcase(command, glob[:-2]))


@lru_cache
def _glob(pattern: str) -> str:
    """The pattern in the syntax of `fnmatch`, in which stars are not the only special characters."""
    return re.sub(r"\\\*|[?\[]", lambda found: f"[{found[0][-1]}]", pattern)


def _without_quoting(text: str) -> str:
    """The text without what a shell removes when it reads words."""
    return re.sub(r"\\\n|[\\'\"]", "", text)


def _literal_parts(pattern: str) -> Iterator[re.Pattern[str]]:
    """The parts of a pattern between stars and blanks, as expressions that do not match inside longer words."""
    for found in re.finditer(r"(\*?)([^\s*]+)(?=(\*?))", pattern):
        before = "" if found[1] or not _IN_WORD.match(found[2][0]) else rf"(?<!{_IN_WORD.pattern})"
        after = "" if found[3] or not _IN_WORD.match(found[2][-1]) else rf"(?!{_IN_WORD.pattern})"
        yield re.compile(before + re.escape(found[2]) + after)


def commands_in(command: str) -> Iterator[str]:
    """The commands in the text, each as its words without quotes, as well as they can be found."""
    for words in _word_lists(command):
        for argv in _invocations(words):
            yield " ".join(argv)
            yield " ".join([_program(argv), *argv[1:]])


def _runs_unnamed(command: str) -> bool:
    """Whether the text runs something whose name it does not contain."""
    return any(
        _program(argv) in _INTERPRETERS or _COMPUTED.search(argv[0])
        for words in _word_lists(command)
        for argv in _invocations(words)
    )


def _word_lists(command: str) -> Iterator[list[str]]:
    """The words of each command, without redirections; a substitution becomes a `$` where it starts."""
    words: list[str] = []
    word: str | None = None  # None until a word begins; an empty one is written as two quotes
    number = after_redirection = False
    for lexeme in lex(f"{command}\n"):
        kind = lexeme.kind
        if kind == "continuation":
            continue
        backtick = kind == "expansion" and lexeme.quotes == "bare" and lexeme.text == "`"
        ends_command = kind in ("control", "substitution") or backtick
        if not ends_command and kind not in ("blank", "redirection"):
            number = kind == "text" and lexeme.quotes == "bare" and (number or word is None) and lexeme.text.isdigit()
            word = (word or "") + lexeme.value
            continue
        if backtick:
            word = (word or "") + "$"
        if word is not None and not after_redirection and not (kind == "redirection" and number):
            words.append(word)
        after_redirection = kind == "redirection" or (after_redirection and word is None and not ends_command)
        word = None
        if ends_command:
            yield words
            words = []


def _program(words: list[str]) -> str:
    """The name of the program, without its folder."""
    return words[0].rpartition("/")[2]


def _invocations(words: list[str]) -> Iterator[list[str]]:
    """The words from each one that may be the program: the first after assignments, and after words such as `sudo`."""
    after_prefix = False
    for index, word in enumerate(words):
        if index > _MAX_PREFIXES:
            yield ["$"]  # going on takes quadratic time: the name of the program is taken as unknown
            return
        if _ASSIGNMENT.match(word) or (after_prefix and word.startswith("-")):
            continue
        yield words[index:]
        if _program(words[index:]) not in _PREFIXES:
            return
        after_prefix = True
