"""Command lines with `{{name}}` placeholders, filled in so that the shell reads every value as plain text.

Each placeholder is escaped according to its position: unquoted, in single quotes or in double quotes. If no escaping is
safe there (in a string that is run as code, a command substitution, a here-document or a comment, after a backslash or
a dollar sign), the template is refused when it is read. So is one that puts a value into a variable or a file and runs
what that contains.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from planck_nb.base.errors import ConfigError, ToolError
from planck_nb.base.shell import Lexeme, Quotes, lex
from planck_nb.tools.interpreters import INTERPRETER

_PLAIN_EXPANSION = re.compile(r"\$(?:\w+|\{\w+\}|[?#$!@*-]|\((?![^)]*\bcase\b)[^(){}\"'`\\#<]*\))|`[^`{}\"'\\#<]*`")
"""Expansions whose end is certain and that contain no placeholder."""

_REDIRECTIONS = {"<", ">"}
_CODE_FLAG = re.compile(r"-[A-Za-z]*c[A-Za-z]*|-[\w.]*[cdeEpr]|--(?:command|eval|execute|print|run)")
_CODE_IN_FLAG = re.compile(r"(?:-[\w.]*[cdeEpr]|--(?:command|eval|execute|print|run)=).*\{\{", re.DOTALL)
_AWK = re.compile(r"[gmn]?awk")
_AWK_VALUES = {"-F", "-v", "--field-separator", "--assign"}
_AWK_FILES = {"-f", "--file"}
_RUNS_ITS_ARGUMENTS = re.compile(r"eval|ssh|rsh|watch|trap|alias|parallel|let|\[\[")
_RUNS_INDICES = {"declare", "typeset", "read", "unset", "getopts"}
"""Commands that, in some shells, run the index in the name of a variable: `a[$(id)]`."""
_BEFORE_COMMANDS = {"", "if", "then", "elif", "else", "while", "until", "do", "!", "{", "command", "builtin"}
_SCRIPT_FILE = re.compile(r"[^$]*[./].*", re.DOTALL)
_STANDARD_INPUT = {"-", "-s", "/dev/stdin"}

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


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A place for the argument `name`, in these quotes."""

    name: str
    quotes: Quotes


@dataclass(frozen=True, slots=True)
class Template:
    """A command line that is safe to fill in."""

    parts: tuple[str | Placeholder, ...]

    @classmethod
    def parse(cls, command: str) -> Template:
        """Read a command line. Raises `ConfigError` if a placeholder is where no escaping is safe."""
        return cls(_TemplateReader(command).read())

    def fill(self, args: Mapping[str, object]) -> str:
        """Return the command with the arguments in place: strings as they are, other values as JSON.

        A placeholder without an argument, or with null, becomes empty. Raises `ToolError` for a value with a NUL
        character, which no command can receive.
        """
        return "".join(part if isinstance(part, str) else _escaped(part, args.get(part.name)) for part in self.parts)


def _escaped(place: Placeholder, value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if "\0" in text:
        raise ToolError(f"{place.name} contains a NUL character, which no command can receive; leave it out.")
    if place.quotes == "double":
        return re.sub(r'([\\"$`])', r"\\\1", text)
    inside = text.replace("'", "'\\''")
    return inside if place.quotes == "single" else f"'{inside}'"


class _TemplateReader:
    """Follows a command line as the shell does, as far as quoting and words go."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._quotes: Quotes = "bare"
        self._parts: list[str | Placeholder] = []
        self._literal: list[str] = []
        self._words: list[str] = []
        self._word: list[str] | None = None
        self._piped = False
        self._filled: str | None = None
        self._unclear = ""
        self._values = Values()
        self._targets: list[str] = []
        self._redirected = False

    def read(self) -> tuple[str | Placeholder, ...]:
        position = 0
        for lexeme in lex(self._command):
            if lexeme.end > position:  # else it is part of an expansion that was read as a whole
                self._quotes = lexeme.quotes
                position = self._read(lexeme, max(lexeme.start, position))
        self._end_command("")
        self._flush()
        return tuple(self._parts)

    def _read(self, lexeme: Lexeme, at: int) -> int:
        """Read a lexeme from `at` on, and return the offset of what has not been read."""
        text = self._command[at : lexeme.end]
        match lexeme.kind:
            case "text":
                self._text(text)
            case "quote":
                self._word = self._word or []
                self._literal.append(text)
            case "unclosed":
                quotes = "single" if text == "'" else "double"
                raise ConfigError(f"The command has a {quotes} quote that is never closed; close it.")
            case "escape" | "continuation":
                self._refuse_next(at + 1, "after a backslash")
                self._literal.append(text)
                if lexeme.kind == "escape":
                    self._add_to_word(lexeme.value)
            case "expansion":
                return self._expansion(lexeme.quotes, at)
            case "control":
                return self._control(text, at)
            case _:
                return self._gap(text, at)
        return lexeme.end

    def _text(self, text: str) -> None:
        position = 0
        for match in PLACEHOLDER.finditer(text):
            self._characters(text[position : match.start()])
            self._place(match[1])
            position = match.end()
        self._characters(text[position:])

    def _characters(self, text: str) -> None:
        if text.startswith("#") and self._word is None and self._quotes == "bare":
            self._unclear = "in or after a comment"
            comment = text.lstrip("#")
            self._literal.append(text[: len(text) - len(comment)])  # not a word: `sh # x` has no argument
            text = comment
        if text:
            self._keep(text)

    def _control(self, character: str, at: int) -> int:
        if self._command.startswith("((", at):
            return self._arithmetic(at)
        if self._command[at - 1 : at] in _REDIRECTIONS:
            self._end_word()
        else:
            self._end_command(character)
        self._literal.append(character)
        return at + 1

    def _gap(self, text: str, at: int) -> int:
        """Read blanks, a redirection, or the beginning of a process substitution."""
        if "<<" in text:
            self._unclear = "in or after a here-document"
        if text != "<<":
            self._end_word()
        end = at + len(text)
        if text.endswith("(") and self._command.startswith("((", end - 1):
            self._literal.append(text[:-1])
            return self._arithmetic(end - 1)
        self._redirected = self._redirected or ">" in text
        self._literal.append(text)
        return end

    def _arithmetic(self, at: int) -> int:
        self._refuse_evaluated(at)
        self._unclear = "in or after arithmetic"
        self._literal.append("((")
        return at + 2

    def _expansion(self, quotes: Quotes, at: int) -> int:
        """Read an expansion; one that is not plain makes all quoting after it uncertain."""
        dollar = self._command[at] == "$"
        if dollar:
            self._refuse_next(at + 1, "after a dollar sign")
            self._refuse_evaluated(at)
        match = _PLAIN_EXPANSION.match(self._command, at)
        if match is not None:
            self._keep(match[0])
            self._note_value(match[0])
            return match.end()
        if not dollar or not self._lone_dollar(quotes, at + 1):
            self._unclear = "in or after a complex expansion"
        self._keep(self._command[at])
        if self._command.startswith("${", at):
            self._note_value(self._command[at:].partition("}")[0])
        return at + 1

    def _note_value(self, expansion: str) -> None:
        """Mark the word as one with the value of a placeholder if the expansion is of a variable that contains one."""
        if name := self._values.used_in(expansion):
            self._add_to_word(f"{{{{{name}}}}}")

    def _refuse_evaluated(self, at: int) -> None:
        if name := self._values.evaluated_in(self._command[at:]):
            raise _RunsValue(name)

    def _lone_dollar(self, quotes: Quotes, after: int) -> bool:
        """Whether the character at `after` leaves the dollar sign before it a plain character."""
        follows = self._command[after : after + 1]
        return not follows.strip('%/:.,=+ \n"') and (quotes == "double" or follows != '"')

    def _place(self, name: str) -> None:
        if self._unclear:
            raise ConfigError(f"{{{{{name}}}}} is {self._unclear}, where no value can be escaped safely; {_ADVICE}.")
        self._flush()
        self._filled = name
        self._parts.append(Placeholder(name, self._quotes))
        self._add_to_word(f"{{{{{name}}}}}")

    def _refuse_next(self, at: int, where: str) -> None:
        if match := PLACEHOLDER.match(self._command, at):
            raise ConfigError(f"{{{{{match[1]}}}}} is {where}, where no value can be escaped safely; {_ADVICE}.")

    def _keep(self, text: str) -> None:
        self._literal.append(text)
        self._add_to_word(text)

    def _add_to_word(self, text: str) -> None:
        self._word = [*(self._word or []), text]

    def _end_word(self) -> None:
        if self._word is not None:
            self._words.append("".join(self._word))
            if self._redirected:
                self._targets.append(self._words[-1])
            self._word, self._redirected = None, False

    def _end_command(self, separator: str) -> None:
        self._end_word()
        if not self._words and separator and separator in "\n&":
            return  # a pipe goes on in the next line, and takes stderr too where `&` follows it
        words, self._words = self._words, []
        targets, self._targets, self._redirected = self._targets, [], False
        fed = self._filled if self._piped else None
        _refuse_nested_code(words, fed=fed is not None)
        if words:
            if name := self._values.run_by(words):
                raise _RunsValue(name)
            self._values.note(words, targets, fed=fed)
        self._piped = separator == "|"

    def _flush(self) -> None:
        if self._literal:
            self._parts.append("".join(self._literal))
            self._literal.clear()


_ADVICE = (
    "leave it unquoted, put it in plain quotes, or put the code in a script file and give it the value as an argument"
)


class _RunsValue(ConfigError):
    """A command runs what a variable or a file contains."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{{{{{name}}}}} is in a variable, file or argument that is run as code later, where no value can be "
            f"escaped safely; {_ADVICE}."
        )


def _refuse_nested_code(words: list[str], *, fed: bool) -> None:
    """Raise `ConfigError` when a word with a placeholder, or an input that is `fed` with one, is run as code.

    Errs on the side of refusing: whether an option of an interpreter has a value is not known here.
    """
    interpreter = code_follows = everything = awk = False
    script = before = code = ""
    for word in words:
        filled = PLACEHOLDER.search(word)
        option = word.startswith(("-", "+"))
        awk = awk and before not in _AWK_FILES
        program = awk and not option and before not in _AWK_VALUES
        if filled and (code_follows or everything or program or (interpreter and _CODE_IN_FLAG.match(word))):
            raise ConfigError(
                f"{{{{{filled[1]}}}}} is inside code that another program runs, where no value can be escaped safely; "
                f"{_ADVICE}."
            )
        if interpreter and not option and not before.startswith(("-", "+")) and _SCRIPT_FILE.fullmatch(word):
            interpreter, script = False, word  # what follows belongs to the script
        if code_follows and not option:
            code += word
        code_follows = (interpreter and bool(_CODE_FLAG.fullmatch(word))) or (code_follows and option)
        if interpreter and not option and word not in _STANDARD_INPUT:
            script = script or word
        if INTERPRETER.fullmatch(word.rpartition("/")[2]) and not script:
            interpreter = True
        awk = (awk and not program) or bool(_AWK.fullmatch(word.rpartition("/")[2]))
        everything = everything or bool(_RUNS_ITS_ARGUMENTS.fullmatch(word.rpartition("/")[2]))
        everything = everything or (word in _RUNS_INDICES and before in _BEFORE_COMMANDS)
        before = word
    runs_input = interpreter and (not script or not _STANDARD_INPUT.isdisjoint(words))
    runs_items = "xargs" in words and (code_follows or everything or any(mark in code for mark in _item_marks(words)))
    if fed and (runs_input or runs_items):
        raise ConfigError(f"The command pipes a placeholder into a program that runs its input; {_ADVICE}.")


def _item_marks(words: list[str]) -> set[str]:
    """The strings that `xargs` may replace by an item of its input."""
    marks = {"{}"}
    for option, value in pairwise([*words, ""]):
        if option.startswith("-I"):
            marks.add(option[2:] or value)
        elif option.startswith(("-i", "--replace=")):
            marks.add(option.removeprefix("--replace=").removeprefix("-i"))
    return marks - {""}


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
