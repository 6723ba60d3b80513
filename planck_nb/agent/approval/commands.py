"""Shell commands, and patterns of them: read strictly to allow, generously to deny."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from planck_nb.base.shell import lex

BLANKS = " \t\n"

LONGEST = 10_000
"""Characters up to which a command is read; a longer one is in doubt, for reading it would hold up everything else."""

_NUL = re.compile("\0")
_DOUBTFUL = re.compile(r"[\s#\x00-\x1f\x7f]")
"""Characters outside of quotes that some shells take for blanks or comments."""

_ASSIGNMENT = re.compile(r"\w+\+?=")
_PREFIXES = frozenset("! { builtin command do doas else env elif exec if nice nohup sudo then time until while".split())
_INTERPRETERS = frozenset(". bash dash eval fish ksh sh source trap zsh".split())
_IN_WORD = re.compile(r"[\w.-]")
_COMPUTED = re.compile(r"[$*?{]|\[[^\[]")
_COMPUTED_ARGUMENT = re.compile(r"[$?{\[]")
"""A star is left out: it is in too many arguments, and to hide a word behind it takes a file of that name."""

_MOST_PREFIXES = 20


def simple_commands(command: str) -> tuple[str, ...] | None:
    """The commands that a shell runs for this text, their blanks made single; None unless that is beyond doubt.

    Understood are words, quotes, and `;`, `&`, `|` and line ends between commands. Whatever else means something to a
    shell (redirection, substitution, variables, subshells, comments, backslashes) is a doubt.
    """
    if len(command) > LONGEST:
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
            case "text" if not (_NUL if lexeme.quotes != "bare" else _DOUBTFUL).search(lexeme.text):
                current += lexeme.text
            case _:
                return None
    return tuple(part.strip(BLANKS) for part in (*found, current) if part.strip(BLANKS))


@dataclass(frozen=True, slots=True)
class CommandPattern:
    r"""The text of a command, in which `*` stands for anything and `\*` for a star; a last ` *` may be missing.

    To allow, it has to cover a command that a shell cannot take for more than one, or be the very text. To deny, it
    is compared with every command in the text: quotes, backslashes, assignments, the program's folder and words such
    as `sudo` or `command` before it do not hide it. What is hidden better (in `sh -c`, in words that are computed,
    behind options or very many prefixes, in a very long text) is not caught, but may be.
    """

    text: str

    @staticmethod
    def quote(command: str) -> str:
        """The pattern that means this command only."""
        return command.strip(BLANKS).replace("*", r"\*")

    def covers(self, command: str) -> bool:
        """Whether the pattern surely says all of what the command does."""
        if self.quote(command) == self.text:
            return True
        commands = simple_commands(command)
        return commands is not None and len(commands) == 1 and self._fits(commands[0])

    def catches(self, command: str) -> bool:
        """Whether the command, or one inside of it, is surely meant."""
        spoken = _spoken(command) if len(command) <= LONGEST else ()
        return self._fits(command.strip(BLANKS)) or any(map(self._fits, spoken))

    def may_catch(self, command: str) -> bool:
        """Whether something inside of the command may be meant."""
        if not command or len(command) > LONGEST or _hides(command):
            return True
        text, position = _bare(command), 0
        for chunk in _chunks(_bare(self.text.replace(r"\*", "*"))):
            found = chunk.search(text, position)
            if found is None:
                return position > 0 and self._computed(command)
            position = found.end()
        return True

    def _computed(self, command: str) -> bool:
        """Whether a command of this program has an argument that only the shell will know."""
        program = _glob(self.text).partition(" ")[0]
        return any(
            fnmatchcase(_program(said), program) and any(map(_COMPUTED_ARGUMENT.search, said[1:]))
            for words in _segments(command)
            for said in _readings(words)
        )

    def _fits(self, command: str) -> bool:
        glob = _glob(self.text)
        return fnmatchcase(command, glob) or (glob.endswith(" *") and fnmatchcase(command, glob[:-2]))


@lru_cache
def _glob(pattern: str) -> str:
    """The pattern for `fnmatch`, where more than stars has a meaning."""
    return re.sub(r"\\\*|[?\[]", lambda found: f"[{found[0][-1]}]", pattern)


def _bare(text: str) -> str:
    """The text without what a shell takes away when it reads words."""
    return re.sub(r"\\\n|[\\'\"]", "", text)


def _chunks(pattern: str) -> Iterator[re.Pattern[str]]:
    """What stands between the stars and blanks of a pattern, not to be found inside of longer words."""
    for found in re.finditer(r"(\*?)([^\s*]+)(?=(\*?))", pattern):
        before = "" if found[1] or not _IN_WORD.match(found[2][0]) else rf"(?<!{_IN_WORD.pattern})"
        after = "" if found[3] or not _IN_WORD.match(found[2][-1]) else rf"(?!{_IN_WORD.pattern})"
        yield re.compile(before + re.escape(found[2]) + after)


def _spoken(command: str) -> Iterator[str]:
    """The commands that stand in the text, as their bare words; best effort."""
    for words in _segments(command):
        for said in _readings(words):
            yield " ".join(said)
            yield " ".join([_program(said), *said[1:]])


def _hides(command: str) -> bool:
    """Whether the text runs something whose name does not stand in it."""
    return any(
        _program(said) in _INTERPRETERS or _COMPUTED.search(said[0])
        for words in _segments(command)
        for said in _readings(words)
    )


def _segments(command: str) -> Iterator[list[str]]:
    """The words between what ends a command, without redirections; a substitution leaves a `$` where it starts."""
    words: list[str] = []
    word: str | None = None  # None until a word begins; an empty one is written as two quotes
    number = behind_redirection = False
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
        if word is not None and not behind_redirection and not (kind == "redirection" and number):
            words.append(word)
        behind_redirection = kind == "redirection" or (behind_redirection and word is None and not ends_command)
        word = None
        if ends_command:
            yield words
            words = []


def _program(words: list[str]) -> str:
    """The name of the program, without its folder."""
    return words[0].rpartition("/")[2]


def _readings(words: list[str]) -> Iterator[list[str]]:
    """The words from what may be the program's name on: behind assignments, and again behind words such as `sudo`."""
    behind_prefix = False
    for index, word in enumerate(words):
        if index > _MOST_PREFIXES:
            yield ["$"]  # reading on takes quadratic time: whatever comes, its name is not known
            return
        if _ASSIGNMENT.match(word) or (behind_prefix and word.startswith("-")):
            continue
        yield words[index:]
        if _program(words[index:]) not in _PREFIXES:
            return
        behind_prefix = True
