"""Patterns for shell commands, read strictly to allow and generously to deny."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from planck_nb.agent.approval.shell_command import BLANKS, ShellCommand, program_of

_IN_WORD = re.compile(r"[\w.-]")
_COMPUTED_ARGUMENT = re.compile(r"[$?{\[]")
"""A star is left out: too many arguments contain one, and it can hide a word only if there is a file of that name."""


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

    def covers(self, command: ShellCommand) -> bool:
        """Whether the pattern certainly covers everything that the command does."""
        if self.quote(command.target) == self.text:
            return True
        return command.parts is not None and len(command.parts) == 1 and self._fits(command.parts[0])

    def covers_part(self, part: str) -> bool:
        """Whether the pattern certainly covers one of the parts of a command."""
        return self.quote(part) == self.text or self._fits(part)

    def catches(self, command: ShellCommand) -> bool:
        """Whether the pattern certainly matches the command or one inside it."""
        return self._fits(command.target.strip(BLANKS)) or any(
            self._fits(text) for call in command.calls for text in call.texts
        )

    def may_catch(self, command: ShellCommand) -> bool:
        """Whether the pattern may match something inside the command."""
        if command.is_unknown or command.computes:
            return True
        text, position = _without_quoting(command.target), 0
        for part in _literal_parts(_without_quoting(self.text.replace(r"\*", "*"))):
            found = part.search(text, position)
            if found is None:
                return position > 0 and self._computed(command)
            position = found.end()
        return True

    def _computed(self, command: ShellCommand) -> bool:
        """Whether a command of this program has an argument that only the shell can compute."""
        program = _glob(self.text).partition(" ")[0]
        return any(
            fnmatchcase(program_of(words), program) and any(map(_COMPUTED_ARGUMENT.search, words[1:]))
            for call in command.calls
            for words in call.invocations
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
