"""Checks structured results against their tools' schemas.

It does not block the event loop.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planck_nb.agent.calling.json_schema import errors_of, problem_of, validator
from planck_nb.base.errors import ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import one_line
from planck_nb.base.threads import run_in_thread

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_MAX_VALUES_ON_LOOP = 200
"""Largest result to check on the event loop, in values.

Larger ones take milliseconds to minutes.
"""

_PROBLEM_CHARACTERS = 300

_REPEATED_GROUP = re.compile(r"\)[*+{]")
"""Occurs in patterns which can take exponential time."""


class ResultCheck:
    """A check for a tool's results.

    Args:
        schema: The tool's declared schema.
    """

    def __init__(self, schema: JsonObject) -> None:
        self.schema = schema
        self._checker: Draft202012Validator | None = None

    async def problem(self, content: object) -> str:
        """Return a problem with a result, empty for a match.

        This can be cancelled.
        """
        if _is_small(content):
            return self._problem(content)
        return await run_in_thread(lambda: self._problem(content))

    def _problem(self, content: object) -> str:
        if self._checker is None:
            schema = without_slow_patterns(self.schema)
            if problem := problem_of(schema):
                return f"the schema is not valid: {one_line(problem, _PROBLEM_CHARACTERS)}"
            self._checker = validator(schema)
        try:
            errors = errors_of(self._checker, content)
        except ToolError as error:
            return str(error)
        if not errors:
            return ""
        where = ".".join(map(str, errors[0].absolute_path))
        return f"{where}: {one_line(errors[0].message, _PROBLEM_CHARACTERS)}".removeprefix(": ")


def without_slow_patterns(schema: Any, *, of_names: bool = False) -> Any:  # noqa: ANN401 - any JSON value
    """Return the schema without regular expressions of exponential time.

    These would block the kernel.

    The sidecar checks its arguments itself; a pattern here only helps a model.
    """
    if isinstance(schema, list):
        return [without_slow_patterns(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: JsonObject = {}
    for key, value in schema.items():
        if not of_names and key == "pattern" and isinstance(value, str) and _REPEATED_GROUP.search(value):
            continue
        names = not of_names and key in ("properties", "$defs", "definitions")
        if not of_names and key == "patternProperties" and isinstance(value, dict):
            value = {name: item for name, item in value.items() if not _REPEATED_GROUP.search(name)}  # noqa: PLW2901
        result[key] = without_slow_patterns(value, of_names=names)
    return result


def _is_small(value: object) -> bool:
    """Return whether it has few values, without examining a large one."""
    left, waiting = _MAX_VALUES_ON_LOOP, [value]
    while waiting:
        item = waiting.pop()
        left -= 1
        inner = list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else ()
        if left - len(waiting) - len(inner) < 0:
            return False
        waiting.extend(inner)
    return True
