"""Follows the arguments of a TOOL.json into variables and files of its command, whose content may be run later."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from planck_nb.tools.interpreters import INTERPRETER

PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=", re.DOTALL)
_USED = re.compile(r"\$\{?[!#]?([A-Za-z_]\w*|[\d@*])")
_NAME = re.compile(r"[A-Za-z_]\w*")
_EVALUATED = re.compile(r"\$\{(?:!([A-Za-z_]\w*)|([A-Za-z_]\w*)@P)")
"""Expansions in which bash runs what a variable contains."""

_POSITIONAL = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "@", "*")
_SOURCE = {".", "source"}
_PREFIXES = frozenset(
    "! { builtin command do doas elif else env exec if nice nohup sudo then time until while xargs".split()
)
"""Words after which the name of the program follows."""

_SHELL_RUNS = re.compile(
    r"(?:^|[\s;&|({!])(?:eval\s[^;&|]*\$|(?:ba|da|z|k)?sh\s+(?:-\w+\s+)*-\w*c\s[^;&|]*\$"
    r"|(?:source|\.|exec|(?:ba|da|z|k)?sh)\s+\"?\$)|(?:^|[;&|({])\s*\"?\$"
)
"""Shell code that runs the content of some variable."""

_CALLS = re.compile(r"\b(?:exec|eval|system|popen|compile|Function|execSync|spawnSync)\s*\(|shell\s*=\s*True|\bqx\b")


class Values:
    """The variables and files of a command that contain arguments, each with the name of its placeholder."""

    def __init__(self) -> None:
        self._variables: dict[str, str] = {}
        self._files: dict[str, str] = {}

    def used_in(self, expansion: str) -> str | None:
        """Return the placeholder whose value is in this expansion, such as `$name`; None if there is none."""
        names = (self._variables.get(name) for name in _USED.findall(expansion))
        return next((name for name in names if name), None)

    def evaluated_in(self, text: str) -> str | None:
        """Return the placeholder whose value bash runs in this expansion or arithmetic, None if there is none."""
        found = _EVALUATED.match(text)
        names = [found[1] or found[2]] if found else []
        if text.startswith(("((", "$((")):
            names += _NAME.findall(text.partition("))")[0])
        return next((self._variables[name] for name in names if name in self._variables), None)

    def note(self, words: list[str], targets: Iterable[str], *, fed: str | None) -> None:
        """Note what a command with these words assigns, and to which files it redirects its output.

        `fed` is a placeholder whose value may be in the input of the command, None if there is none.
        """
        filled = _placeholder_in(words)
        for word in words:
            assigned, value = _ASSIGNMENT.match(word), PLACEHOLDER.search(word)
            if assigned and value:
                self._variables[assigned[1]] = value[1]
        if filled:
            self._note_names(words, filled)
        if fed and "read" in words:
            read = words[words.index("read") + 1 :]
            self._variables |= {name: fed for name in (*read, "REPLY") if _NAME.fullmatch(name)}
        if source := filled or fed:
            written = [*targets, *(words[words.index("tee") + 1 :] if "tee" in words else ())]
            self._files |= {_plain(path): source for path in written}

    def _note_names(self, words: list[str], filled: str) -> None:
        for keyword in ("for", "select"):
            if keyword in words[:-1]:
                self._variables[words[words.index(keyword) + 1]] = filled
        if words[0] == "set":
            self._variables |= dict.fromkeys(_POSITIONAL, filled)
        if words[0] == "printf" and words[1:2] == ["-v"] and len(words) > 2:  # noqa: PLR2004 - the option's value
            self._variables[words[2]] = filled

    def run_by(self, words: list[str]) -> str | None:
        """Return the placeholder whose value a command with these words runs, None if it runs none.

        The value may be in a variable that is the name of the program, in a file that was written before, or in a
        variable or argument that code evaluates.
        """
        program = next((word for word in words if word not in _PREFIXES and not _ASSIGNMENT.match(word)), "")
        if program.startswith("$") and (found := PLACEHOLDER.search(program)):
            return found[1]
        if file := self._files.get(_plain(program)):
            return file
        scripts = (
            _first_argument(words[index + 1 :])
            for index, word in enumerate(words)
            if word in _SOURCE or _is_interpreter(word)
        )
        if file := next((self._files[_plain(path)] for path in scripts if _plain(path) in self._files), None):
            return file
        return self._evaluated_by_code(words)

    def _evaluated_by_code(self, words: list[str]) -> str | None:
        arguments = _placeholder_in(words)
        for index, (before, word) in enumerate(pairwise(words), 1):
            runs = before.startswith("-") and (_SHELL_RUNS.search(word) or _CALLS.search(word))
            if not runs or PLACEHOLDER.search(word) or not any(map(_is_interpreter, words[:index])):
                continue
            named = (self._variables[name] for name in _NAME.findall(word) if name in self._variables)
            if name := next(named, arguments):
                return name
        return None


def _placeholder_in(words: list[str]) -> str | None:
    return next((found[1] for word in words if (found := PLACEHOLDER.search(word))), None)


def _is_interpreter(word: str) -> bool:
    return INTERPRETER.fullmatch(word.rpartition("/")[2]) is not None


def _first_argument(words: list[str]) -> str:
    return next((word for word in words if not word.startswith(("-", "+"))), "")


def _plain(path: str) -> str:
    return path.removeprefix("./")
