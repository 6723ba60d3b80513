"""`@name` in prompts: which names count, and what the agent gets for them.

Only what a person typed counts: no quotation, no code, no address. A function becomes a tool only if a cell defined it:
a pasted text must not be able to give the agent what a library defined.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)

from planck_nb.agent.calling.tool import Tool
from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.base.markdown import FORMATTED_CHARACTERS, typed_text
from planck_nb.base.secrets import is_secret_name, redact
from planck_nb.base.text import counted
from planck_nb.jupyter.similar_words import is_near, is_numbered
from planck_nb.jupyter.values import kind_of
from planck_nb.jupyter.values.type_checks import attribute, is_a

_MENTION = re.compile(r"(?<![\w@.+%/\\-])@([A-Za-z_]\w*+)(?![\w-]*/[\w@])")
_QUOTED = re.compile(
    r'"[^"]*"'
    r"|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|»[^«»]*«|\u2039[^\u2039\u203a]*\u203a|\u203a[^\u2039\u203a]*\u2039"
    r"|\u2018[^\u2018\u2019]*\u2019|\u201a[^\u201a\u2018\u2019]*[\u2018\u2019]|\u201b[^\u201b\u2019]*\u2019"
    r"|\uff02[^\uff02]*\uff02|\u301d[^\u301d-\u301f]*[\u301e\u301f]|「[^「」]*」|『[^『』]*』|《[^《》]*》|〈[^〈〉]*〉"
    r"|(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))*'(?!\w)"
)
_ADDRESS = re.compile(r"\]\([^()]*\)")
_STYLE_RULE = re.compile(
    r"@(?:media|import|supports|page|charset|namespace|layer|container|property|keyframes|font-face)\b"
    r"""(?=[ \t]*[({"';]|[ \t]+(?:screen|print|only|not|all|url|[\w.-]+[ \t]*[{;]))"""
)
_STYLE_STATEMENT = re.compile(
    r"(?:^|[{};])[ \t]*@(?:\w+(?:-\w+)+|apply|document|else|extend|forward|function|if|include|mixin|page|return|scope"
    r"|tailwind|use|viewport)\b(?=[^\n]*[{};][ \t]*$)",
    re.MULTILINE,
)
"""Statements in style sheets, and in languages for them."""

_TAG = re.compile(r"<!--.*?(?:-->|\Z)|<(?P<end>/?)(?P<name>[A-Za-z][\w-]*(?::[\w-]+)?)(?:[\s/][^<>]*)?>", re.DOTALL)
_QUOTING_ELEMENTS = frozenset("blockquote code kbd pre q samp script style template textarea title var xmp".split())
"""Elements of HTML whose content is code or a quotation."""

_DECORATOR = re.compile(r"[ \t]*@[\w.]+(?:\(.*\))?[ \t]*")
_DECORATED = re.compile(
    r"[ \t]*(?:async|def|class|public|private|protected|export|abstract|static|final|function|func|fn)\b"
)
_ROUTINES = (FunctionType, BuiltinFunctionType, MethodType, WrapperDescriptorType, MethodDescriptorType, partial)
_MAX_WRAPPED = 100
_CALLED = vars(partial)["func"]
"""Reads the function of a `partial`, even if a subclass overrides the attribute."""

_EXPLAINED = 5
"""Unknown names that are explained one by one; looking for similar names takes long."""


@dataclass(frozen=True, slots=True)
class Mentions:
    """What a prompt mentions.

    Args:
        functions: Names of the functions that become tools.
        values: Names of the variables that are described to the model.
        notices: Sentences to show: what the agent gets, and what it does not get and why.
    """

    functions: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def mentions(prompt: str, namespace: Mapping[str, object], included: Collection[str] = ()) -> Mentions:
    """Find the variables and functions of the notebook that a prompt mentions as `@name`.

    Args:
        prompt: The prompt as it was typed.
        namespace: The variables of the notebook.
        included: Names that count without a mention, and even if they look like the name of a secret.

    Returns:
        What the agent gets, each name once, in order. Mentions that resemble no variable are explained and change
        nothing, because a prompt may mention people, too.

    Raises:
        UsageError: There is no variable of an included name, or a mention is probably a misspelt one.
    """
    functions: list[str] = []
    values: list[str] = []
    notices: list[str] = []
    require_variables(included, namespace)
    names = dict.fromkeys((*mentioned(prompt), *included))
    unknown = [name for name in names if name not in namespace]
    left_out = set(unknown[_EXPLAINED:])
    for name in (name for name in names if name not in left_out):
        value = namespace.get(name)
        if name not in namespace:
            _require_no_misspelling(name, namespace)
            notices.append(_unknown(name, namespace))
        elif is_secret_name(name) and name not in included:
            notices.append(
                f"@{name} looks like a secret and is not passed to the agent; add --with {name} if it should be."
            )
        elif is_of_notebook(name, value):
            functions.append(name)
        elif is_a(value, Tool) or issubclass(type(value), _ROUTINES):
            notices.append(
                f"@{name} was not defined in a cell and is not passed to the agent; add --tools {name} if it should be."
            )
        else:
            values.append(name)
    if left_out:
        notices.append(f"There are no variables for {counted(len(left_out), 'other name')} with @ either.")
    handed_over = [*(f"{name} ({kind_of(namespace[name])})" for name in values), *(f"{name}()" for name in functions)]
    if handed_over:
        notices.insert(0, f"With: {', '.join(handed_over)}")
    return Mentions(tuple(functions), tuple(values), tuple(notices))


def without_secrets(name: str, text: str, included: Collection[str] = ()) -> str:
    """Replace secrets in a variable's text, before it is sent to a model: this process's, and vendors' keys.

    Args:
        name: The variable.
        text: What it contains.
        included: The names that were included by `--with`.

    Returns:
        The text with a description instead of each secret; unchanged for a variable that is a secret by its name
        and was included by name.
    """
    return text if is_secret_name(name) and name in included else redact(text, formats=True)


def require_variables(names: Iterable[str], namespace: Mapping[str, object]) -> None:
    """Raise `UsageError` for a name that no variable has.

    Args:
        names: The names.
        namespace: The variables of the notebook.

    Raises:
        UsageError: There is no variable of such a name.
    """
    for name in names:
        if name not in namespace:
            known = [known for known in namespace if known[0] != "_"]
            raise UsageError(f"There is no variable named {name}. {did_you_mean(name, known)}".rstrip())


def _require_no_misspelling(name: str, namespace: Mapping[str, object]) -> None:
    """Refuse a mention that is probably a misspelt variable: without its value the answer is worth nothing."""
    lower = name.lower()
    for known in namespace:
        if known[:1] != "_" and is_near(lower, known.lower()) and not is_numbered(name, known):
            raise UsageError(
                f"There is no variable @{name}. Did you mean @{known}? Nothing was sent; "
                f"write \\@{name} if it is no variable."
            )


def _unknown(name: str, namespace: Mapping[str, object]) -> str:
    near = get_close_matches(name, [known for known in namespace if known[0] != "_"], n=1)
    return f"There is no variable @{name}; did you mean @{near[0]}?" if near else f"There is no variable @{name}."


def mentioned(prompt: str) -> list[str]:
    """Return the names that a prompt mentions as `@name`, each once, in order.

    Args:
        prompt: The prompt. Only its first 100,000 characters are looked at.
    """
    if "@" not in prompt:
        return []
    return list(dict.fromkeys(name for text in typed_parts(prompt) for name in _MENTION.findall(text)))


def typed_parts(prompt: str) -> Iterator[str]:
    """Yield the parts of a prompt in which mentions count: no code, no quotation, no address, no decorator."""
    typed = "\n\n".join(typed_text(prompt[:FORMATTED_CHARACTERS].replace("\\@", "  ")))
    for paragraph in _without_elements(typed).split("\n\n"):
        text = "\n".join(_without_decorators(paragraph))
        for ignored in (_QUOTED, _ADDRESS, _STYLE_RULE, _STYLE_STATEMENT):
            text = ignored.sub(" ", text)
        yield text


def _without_elements(text: str) -> str:
    """Return the text without HTML comments, tags, and closed elements which quote."""
    if "<" not in text:
        return text
    tags = list(_TAG.finditer(text))
    last_ends = {tag["name"].lower(): tag.start() for tag in tags if tag["end"]}
    kept: list[str] = []
    start = 0
    quoting = ""
    for tag in tags:
        name = (tag["name"] or "").lower()
        if not quoting:
            kept.append(text[start : tag.start()])
        if quoting and tag["end"] and name == quoting:
            quoting = ""
        elif not quoting and not tag["end"] and name in _QUOTING_ELEMENTS and last_ends.get(name, -1) > tag.start():
            quoting = name
        start = tag.end()
    return " ".join([*kept, text[start:]])


def _without_decorators(paragraph: str) -> Iterator[str]:
    lines = paragraph.split("\n")
    kept: list[str] = []
    below = False
    for line in reversed(lines):
        decorator = below and _DECORATOR.fullmatch(line) is not None
        below = decorator or _DECORATED.match(line) is not None
        kept.append("" if decorator else line)
    return reversed(kept)


def is_of_notebook(name: str, value: object) -> bool:
    """Return whether a value is a function that a cell defined, or a tool that was made in one.

    A method, what `functools.partial` makes, and an object with a `__call__` method count as the function that they
    call.

    Args:
        name: The name of its variable.
        value: The value.
    """
    if is_a(value, Tool):
        if value.function is not None and _is_of_cell(value.function):
            return True
        return not any(_has(module, each, value) for module in list(sys.modules) for each in {name, value.name})
    return _is_of_cell(value)


def _is_of_cell(value: object) -> bool:
    function = _unwrapped(value)
    if type(function) is not FunctionType and not is_a(function, type):
        function = _unwrapped(attribute(type(function), "__call__"))
    if type(function) is not FunctionType or function.__module__ != "__main__":
        return False
    file = Path(function.__code__.co_filename)
    # The code of a cell has the name of a file that does not exist, unless a debugger has written it.
    return file.parent.name.startswith("ipykernel_") or not file.exists()


def _unwrapped(value: object) -> object:
    """What decorators have wrapped and arguments were bound to, found without running code of the value's class."""
    for _ in range(_MAX_WRAPPED):
        if type(value) is MethodType:
            value = value.__func__
            continue
        if is_a(value, partial):
            value = _CALLED.__get__(value)
            continue
        if is_a(value, Tool) and value.function is not None:
            value = value.function
            continue
        if type(attribute(type(value), "__dict__")) is not GetSetDescriptorType:
            return value
        attributes = object.__getattribute__(value, "__dict__")
        if type(attributes) is not dict or "__wrapped__" not in attributes:
            return value
        value = attributes["__wrapped__"]
    return None


def _has(module: str, name: str, value: object) -> bool:
    return module != "__main__" and getattr(sys.modules.get(module), "__dict__", {}).get(name) is value
