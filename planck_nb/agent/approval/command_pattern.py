"""Patterns for shell commands, read strictly to allow and generously to deny."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from planck_nb.agent.approval.shell_command import BLANKS, ShellCommand, program_of

_IN_WORD = re.compile(r"[\w.-]")
_WORD_START = rf"(?:(?<!{_IN_WORD.pattern})|(?<=\s-\w)|(?<=\s-\w\w)|(?<=\s-\w\w\w))"
"""A word's beginning, or that of an option's value, as in `env -iSrm`."""

_COMPUTED_ARGUMENT = re.compile(r"[$?{\[]")
"""Characters with which an argument is computed.

A star is left out: too many arguments contain one, and it hides a word only if a file has this name.
"""


@dataclass(frozen=True, slots=True)
class CommandPattern:
    r"""A command's text with wildcards.

    `*` matches anything and `\*` a star; a final ` *` may be missing.

    To allow, the pattern has to match a text which a shell certainly runs as a single command, or be the same text. To
    deny, it is compared with every command in the text: quotes, backslashes, assignments, the program's folder and
    words such as `sudo` or `command` before it do not hide it. A better hidden command (in `sh -c`, in computed words,
    behind options or many prefixes, in a very long text) is not caught, but `may_catch` is true for it.
    """

    text: str

    @staticmethod
    def quote(command: str) -> str:
        """Return the pattern for this command alone."""
        return command.strip(BLANKS).replace("*", r"\*")

    def covers(self, command: ShellCommand) -> bool:
        """Return whether the pattern certainly covers the whole command."""
        if self.quote(command.target) == self.text:
            return True
        return command.parts is not None and len(command.parts) == 1 and self._fits(command.parts[0])

    def covers_part(self, part: str) -> bool:
        """Return whether the pattern certainly covers a command's part."""
        return self.quote(part) == self.text or self._fits(part)

    def catches(self, command: ShellCommand) -> bool:
        """Return whether the pattern certainly matches the command or one inside it."""
        return self._fits(command.target.strip(BLANKS)) or any(
            self._fits(text) for call in command.calls for text in call.texts
        )

    def may_catch(self, command: ShellCommand) -> bool:
        """Return whether the pattern may match something inside the command."""
        if command.is_unknown or command.computes:
            return True
        # In a comment, a backslash does not join lines.
        texts = dict.fromkeys(
            (_without_quoting(command.target), _without_quoting(command.target.replace("\\\n", "\n")))
        )
        return any(self._may_be_in(text, command) for text in texts)

    def _may_be_in(self, text: str, command: ShellCommand) -> bool:
        position = 0
        for part in _literal_parts(_without_quoting(self.text.replace(r"\*", "*"))):
            match = part.search(text, position)
            if match is None:
                return position > 0 and self._has_computed_argument(command)
            position = match.end()
        return True

    def _has_computed_argument(self, command: ShellCommand) -> bool:
        """Return whether the shell computes an argument for this program."""
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
    """Return the pattern in the syntax for `fnmatch`, with more special characters."""
    return re.sub(r"\\\*|[?\[]", lambda match: f"[{match[0][-1]}]", pattern)


def _without_quoting(text: str) -> str:
    """Return the text without the quoting which a shell removes."""
    return re.sub(r"\\\n|[\\'\"]", "", text)


def _literal_parts(pattern: str) -> Iterator[re.Pattern[str]]:
    """Yield the parts between stars and blanks.

    They do not match inside longer words.
    """
    for match in re.finditer(r"(\*?)([^\s*]+)(?=(\*?))", pattern):
        before = "" if match[1] or not _IN_WORD.match(match[2][0]) else _WORD_START
        after = "" if match[3] or not _IN_WORD.match(match[2][-1]) else rf"(?!{_IN_WORD.pattern})"
        yield re.compile(before + re.escape(match[2]) + after)
