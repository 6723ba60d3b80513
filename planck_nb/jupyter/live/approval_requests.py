"""An approval as the browser gets it: what would be touched, the change itself, the arguments to read and to edit."""

from __future__ import annotations

import difflib
import json
import os.path
from collections.abc import Sequence
from pathlib import Path

from planck_nb.agent.approval.effect import Effect
from planck_nb.agent.events import ApprovalRequest
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable, head_and_tail

SHOWN_CHARACTERS = 100_000
"""The most that is shown of the arguments of one approval: more than elsewhere, since nothing may hide in them."""

_SHOWN_LINES = 5_000
_COMPARED_LINES = 1_000
_REPLACEMENTS = (("old_string", "new_string"), ("old_text", "new_text"), ("old_str", "new_str"))


def encode_request(request: ApprovalRequest) -> JsonObject:
    """What a person needs to decide, as JSON data without the event's type and times.

    `args` are triples of name, text and kind: "text", "number", "choice" (true or false), "json", or "cut" where the
    text is not whole and so cannot be edited. `change` holds the lines of a replacement as pairs of sign and text, None
    for calls that replace nothing.
    """
    replaced, change = _change(request.args)
    share = SHOWN_CHARACTERS // max(len(request.args), 1)
    return {
        "id": request.id,
        "name": encodable(request.name),
        "touches": [[touch.kind, _short(touch)] for touch in request.touches],
        "folder": _folder(request.touches),
        "reason": _reason(request),
        "args": [_argument(name, value, share) for name, value in request.args.items()],
        "replaced": list(replaced),
        "change": change,
    }


def _reason(request: ApprovalRequest) -> str:
    """Why it is asked, with the paths as the rest of the approval writes them."""
    reason = encodable(request.reason)
    for touch in request.touches:
        if touch.kind in {"read", "write"} and touch.target:
            reason = reason.replace(encodable(touch.target), _short(touch))
    return reason


def _argument(name: str, value: object, share: int) -> list[str]:
    text = encodable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    shown = head_and_tail(text, characters=share, lines=_SHOWN_LINES)
    match value:
        case _ if shown != text:
            kind = "cut"
        case str():
            kind = "text"
        case bool():
            kind = "choice"
        case int() | float():
            kind = "number"
        case _:
            kind = "json"
    return [encodable(name), shown, kind]


def _change(args: JsonObject) -> tuple[tuple[str, ...], list[list[str]] | None]:
    """The names of the arguments that say what replaces what, and the lines of the change."""
    for old, new in _REPLACEMENTS:
        match args.get(old), args.get(new):
            case str(before), str(after) if len(before) + len(after) <= SHOWN_CHARACTERS:
                return (old, new), _lines(encodable(before).split("\n"), encodable(after).split("\n"))
    return (), None


def _lines(old: list[str], new: list[str]) -> list[list[str]]:
    if max(len(old), len(new)) > _COMPARED_LINES:  # comparing takes quadratic time
        return [["-", line] for line in old] + [["+", line] for line in new]
    lines: list[list[str]] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            lines += ([" ", line] for line in old[old_start:old_end])
        else:
            lines += [["-", line] for line in old[old_start:old_end]]
            lines += [["+", line] for line in new[new_start:new_end]]
    return lines


def _short(touch: Effect) -> str:
    """A path as one would write it here; anything else as it is."""
    return encodable(_from_here(touch.target) if touch.kind in {"read", "write"} else touch.target[:SHOWN_CHARACTERS])


def _folder(touches: Sequence[Effect]) -> str:
    """The folder that holds everything written, empty where nothing is or they have none in common."""
    parents = [str(Path(touch.target).parent) for touch in touches if touch.kind == "write" and touch.target]
    try:
        return encodable(_from_home(os.path.commonpath(parents))) if parents else ""
    except ValueError:  # on other drives, or not all absolute
        return ""


def _from_here(path: str) -> str:
    here = f"{Path.cwd()}{os.sep}"
    return path.removeprefix(here) if path.startswith(here) else _from_home(path)


def _from_home(path: str) -> str:
    home = str(Path.home())
    return f"~{path.removeprefix(home)}" if path == home or path.startswith(f"{home}{os.sep}") else path
