"""Variables from a file such as `.env`."""

from __future__ import annotations

import re

_LINE = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>.*)")
_QUOTED = re.compile(r"""(?P<quote>['"])(?P<text>.*)(?P=quote)\s*(?:#.*)?""")
_COMMENT = re.compile(r"(?:^|\s+)#.*")


def parse_env_file(text: str) -> tuple[dict[str, str], list[int]]:
    r"""Return the variables of a text with lines such as `NAME=value`, and the numbers of all other lines.

    Empty lines, comments, `export` and quotes are understood. Nothing is expanded: `$HOME` stays as it is.

    Example:
        >>> parse_env_file('export A="b c" # first\n\n# second\nD = e\n???')
        ({'A': 'b c', 'D': 'e'}, [5])
    """
    variables: dict[str, str] = {}
    unread: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        found = _LINE.fullmatch(stripped)
        if found is None:
            unread.append(number)
            continue
        quoted = _QUOTED.fullmatch(found["value"])
        variables[found["name"]] = quoted["text"] if quoted else _COMMENT.sub("", found["value"])
    return variables, unread
