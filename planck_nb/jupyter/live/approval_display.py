"""Approval requests for the browser: effects, change and editable arguments."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from planck_nb.agent.approval.policy import WITHOUT_RULE
from planck_nb.agent.approval.shown_call import MAX_CHARACTERS, MAX_LINES, argument_text, call_size
from planck_nb.agent.effect import Effect, EffectKind
from planck_nb.agent.events import ApprovalRequest
from planck_nb.base.line_diff import diff_lines, unified_diff
from planck_nb.base.text import head_and_tail
from planck_nb.base.visible import visible
from planck_nb.jupyter.display.approval_text import commands_not_in, rule_sentence
from planck_nb.rendering.diff_lines import DiffLine, diff_in
from planck_nb.rendering.formatting import key_argument

_REMEMBERED_FILES = 50
"""Requests with remembered files.

Every page with a request then shows the same change.
"""

_REPLACEMENTS = (("old_string", "new_string"), ("old_text", "new_text"), ("old_str", "new_str"))

ArgumentKind: TypeAlias = Literal["text", "number", "boolean", "json", "cut"]
"""Editor for an argument.

"cut" is incomplete, and so can be neither edited nor approved.
"""


@dataclass(frozen=True, slots=True)
class ApprovalDisplay:
    """The facts for deciding whether a call may run.

    Invisible and ambiguous characters are spelled out in all texts; `literal` reads back edited ones.

    Args:
        key: The argument that identifies the call at a glance.
        effects: Pairs of kind and target, with paths relative to the working directory or the home directory.
        folder: The directory around everything to be written; empty without such a directory.
        cwd: The directory in which a command runs, if that is not the working directory.
        reason: One sentence about why approval is needed; empty if only because it is the default.
        arguments: Triples of name, text and kind.
        replaced: Names of the arguments in `change`.
        change: Lines in a replacement, with those around them in the file if it is known; None for other calls.
        commands: The commands to run, as far as the arguments do not contain them as they are.
        rule: What is allowed if such calls are always allowed, as the end of a sentence; empty if each is asked about.
        whole: Whether everything is shown; an incomplete call cannot be approved.
        sandboxed: Whether the commands would run in a sandbox; None if unknown.
        overwrites: Whether a file would be replaced as a whole; `change` then has its old and its new lines.
        for_prompt: Whether the tool can be allowed for this prompt.
    """

    key: str
    effects: tuple[tuple[EffectKind, str], ...]
    folder: str
    cwd: str
    reason: str
    arguments: tuple[tuple[str, str, ArgumentKind], ...]
    replaced: tuple[str, ...]
    change: tuple[DiffLine, ...] | None
    commands: tuple[str, ...] = ()
    rule: str = ""
    whole: bool = True
    sandboxed: bool | None = None
    overwrites: bool = False
    for_prompt: bool = False


def approval_display(request: ApprovalRequest) -> ApprovalDisplay:
    """Describe the request for the browser."""
    whole = call_size(request.args, request.touches).characters <= MAX_CHARACTERS
    before = _replaced_file(request)
    replaced_names, change = _change(request) if whole else ((), None)
    if whole and before:
        replaced_names, change = ("content",), _lines_of_change(before, str(request.args["content"]))
    arguments = [_argument(name, value, request.touches) for name, value in request.args.items()]
    if not whole:
        arguments = [_cut(argument, MAX_CHARACTERS // max(len(arguments), 1)) for argument in arguments]
    return ApprovalDisplay(
        key=key_argument(request.args),
        effects=tuple((effect.kind, _short(effect)) for effect in request.touches),
        folder=_folder(request.touches),
        cwd=next((_short_path(effect.cwd) for effect in request.touches if effect.cwd), ""),
        reason=_reason(request),
        arguments=tuple(arguments),
        replaced=replaced_names,
        change=change,
        commands=commands_not_in(request.args.values(), request.touches) if whole else (),
        rule=rule_sentence(request.rule),
        whole=whole,
        sandboxed=request.sandboxed,
        overwrites=before is not None,
        for_prompt=request.for_prompt,
    )


def _replaced_file(request: ApprovalRequest) -> str | None:
    """Return the text in the file to be replaced as a whole.

    It is empty for binary or very long files.

    None without such a file.
    """
    targets = [effect.target for effect in request.touches if effect.kind == "write"]
    if len(targets) != 1 or not isinstance(request.args.get("content"), str) or "path" not in request.args:
        return None
    return _text_before(targets[0], request.agent_id, request.id, request.time)


@lru_cache(maxsize=_REMEMBERED_FILES)
def _text_before(path: str, _agent_id: str, _call_id: str, _time: float) -> str | None:
    """Return the file's text when the request was first shown.

    Once allowed, the call itself writes another text.
    """
    try:
        file = Path(path)
        if not file.is_file():
            return None
        data = file.read_bytes() if file.stat().st_size <= MAX_CHARACTERS else b""
    except OSError:
        return None
    return "" if b"\0" in data else data.decode("utf-8", "replace")


def _reason(request: ApprovalRequest) -> str:
    """Return the reason, with short paths.

    It is empty for the default.
    """
    reason = "" if request.reason.endswith(WITHOUT_RULE) else request.reason
    for effect in request.touches:
        if effect.kind in {"read", "write"} and effect.target:
            reason = reason.replace(effect.target, _relative_to_working_directory(effect.target))
    return visible(reason, lookalikes=True)


def _argument(name: str, value: object, effects: Sequence[Effect]) -> tuple[str, str, ArgumentKind]:
    return visible(name, lookalikes=True), argument_text(name, value, effects), _argument_kind(value)


def _cut(argument: tuple[str, str, ArgumentKind], share: int) -> tuple[str, str, ArgumentKind]:
    name, text, kind = argument
    excerpt = head_and_tail(text, characters=share, lines=MAX_LINES)
    return name, excerpt, kind if excerpt == text else "cut"


def _argument_kind(value: object) -> ArgumentKind:
    match value:
        case str():
            return "text"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case _:
            return "json"


def _change(request: ApprovalRequest) -> tuple[tuple[str, ...], tuple[DiffLine, ...] | None]:
    """Return argument names for old and new text, and the lines."""
    for old, new in _REPLACEMENTS:
        match request.args.get(old), request.args.get(new):
            case str(before), str(after):
                return (old, new), _lines_in_file(request, before, after) or _lines_of_change(before, after)
    return (), None


def _lines_in_file(request: ApprovalRequest, before: str, after: str) -> tuple[DiffLine, ...]:
    """Return the change within the file.

    It is empty unless the file has the old text exactly once.
    """
    targets = [effect.target for effect in request.touches if effect.kind == "write"]
    file = _text_before(targets[0], request.agent_id, request.id, request.time) if len(targets) == 1 else None
    if not file or not before or file.count(before) != 1 or file.count("\r"):
        return ()
    result = file.replace(before, after)
    diff = diff_in("".join(unified_diff(file.splitlines(keepends=True), result.splitlines(keepends=True), "file")))
    return () if diff is None else tuple((mark, visible(line)) for mark, line in diff.lines)


def _lines_of_change(before: str, after: str) -> tuple[DiffLine, ...]:
    return tuple((sign, visible(line)) for sign, line in diff_lines(before.split("\n"), after.split("\n")))


def _short(effect: Effect) -> str:
    """Return the effect's target, with short paths where possible."""
    if effect.kind in {"read", "write"}:
        return _short_path(effect.target)
    return visible(effect.target[:MAX_CHARACTERS], lookalikes=True)


def _short_path(path: str) -> str:
    return visible(_relative_to_working_directory(path), lookalikes=True)


def _folder(effects: Sequence[Effect]) -> str:
    """Return the common directory for everything written, empty without one."""
    parents = [str(Path(effect.target).parent) for effect in effects if effect.kind == "write" and effect.target]
    try:
        return visible(_relative_to_home(os.path.commonpath(parents)), lookalikes=True) if parents else ""
    except ValueError:  # on different drives, or not all absolute
        return ""


def _relative_to_working_directory(path: str) -> str:
    here = f"{Path.cwd()}{os.sep}"
    return path.removeprefix(here) if path.startswith(here) else _relative_to_home(path)


def _relative_to_home(path: str) -> str:
    home = str(Path.home())
    return f"~{path.removeprefix(home)}" if path == home or path.startswith(f"{home}{os.sep}") else path
