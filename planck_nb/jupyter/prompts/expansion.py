"""`{name}` and `$name` in prompts: values of the notebook on request (`--expand`), otherwise text and a hint.

Only names of variables count, no expressions: a pasted text must not be able to run code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from planck_nb.base.errors import UsageError
from planck_nb.base.markdown import FORMATTED_CHARACTERS, typed_text
from planck_nb.base.secrets import is_secret_name
from planck_nb.jupyter.prompts.mentions import without_secrets
from planck_nb.jupyter.values.guard import Guard, UnusableError
from planck_nb.jupyter.values.type_checks import is_lazy

_BRACES = r"\{(?P<braced>[^\W\d]\w*)(?P<conversion>![rsa])?(?P<format>:[^{}\n]*)?\}"
_PLACE = re.compile(
    rf"\{{(?P<escaped>\{{[^\W\d]\w*\}})\}}"  # {{name}}, which is {name}
    rf"|(?<![{{$\\]){_BRACES}(?!\}})"
    r"|\$(?P<dollar>\$[^\W\d]\w*)"  # $$name, which is $name
    r"|(?<![\w$\\])\$(?P<named>[^\W\d]\w*)(?!\w*\$)"
)
_FORMULA = re.compile(r"(?<![\\$\w])\$(?=\S)[^$\n]*(?<=\S)\$(?![\d\w])")
_SECONDS = 4.0
_CONVERSIONS: Mapping[str, Callable[[object], object]] = {"!r": repr, "!s": str, "!a": ascii}


def expanded(
    prompt: str, namespace: Mapping[str, object], included: Collection[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """Replace `{name}` and `$name` by the values of variables, as IPython does with the lines of other magics.

    `{name!r}` and `{name:.2f}` work as in f-strings; `{{name}}` and `$$name` stand for the text itself.

    Args:
        prompt: The prompt as it was typed.
        namespace: The variables of the notebook.
        included: Names whose values are used even if they look like those of secrets.

    Returns:
        The prompt, in which names that are no variables stay as they are; and sentences about these and about secrets.

    Raises:
        UsageError: A value cannot be formatted as it was requested.
    """
    notices: dict[str, None] = {}

    def replace(found: re.Match[str]) -> str:
        if literal := found["escaped"] or found["dollar"]:
            return literal
        name = found["braced"] or found["named"]
        if name not in namespace:
            if found["braced"]:
                notices[f"There is no variable {name}; {found[0]} is sent as it is written."] = None
            return found[0]
        if is_secret_name(name) and name not in included:
            notices[f"{found[0]} looks like a secret and is not inserted; add --with {name} if it should be."] = None
            return found[0]
        return without_secrets(name, _formatted(found, namespace[name]), included)

    return _PLACE.sub(replace, prompt), tuple(notices)


def hint(prompt: str, namespace: Mapping[str, object]) -> str:
    """Return a sentence for a prompt that contains `{name}` or `$name` of a variable; empty for others.

    Args:
        prompt: The prompt, which is sent as it is written. Code, quotations and formulas in it do not count.
        namespace: The variables of the notebook.
    """
    if "{" not in prompt and "$" not in prompt:
        return ""
    places = dict.fromkeys(_places(prompt[:FORMATTED_CHARACTERS], namespace))
    if not places:
        return ""
    written = ", ".join(places)
    name = next(iter(places)).strip("{}$")
    is_or_are = "is" if len(places) == 1 else "are"
    return f"{written} {is_or_are} sent as written; --expand inserts the value, and @{name} shows it to the model."


def _places(prompt: str, namespace: Mapping[str, object]) -> Iterator[str]:
    for paragraph in typed_text(prompt):
        for found in _PLACE.finditer(_FORMULA.sub(" ", paragraph)):
            name = found["braced"] or found["named"]
            if name and name in namespace:
                yield f"{{{name}}}" if found["braced"] else f"${name}"


def _formatted(found: re.Match[str], value: object) -> str:
    if is_lazy(type(value)):
        raise UsageError(f"{found[0]} cannot be inserted: reading it would compute it or use it up.")
    conversion = _CONVERSIONS.get(found["conversion"] or "", _unchanged)
    try:
        return Guard(_SECONDS).call(lambda: format(conversion(value), (found["format"] or "")[1:]))
    except UnusableError as error:  # the value's own code
        raise UsageError(f"{found[0]} cannot be inserted: {error}") from None


def _unchanged(value: object) -> object:
    return value
