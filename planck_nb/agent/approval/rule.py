"""A rule of the approval policy, and the text that people write for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from planck_nb.agent.approval.addresses import AddressPattern
from planck_nb.agent.approval.commands import BLANKS, CommandPattern
from planck_nb.agent.approval.effect import Effect, EffectKind
from planck_nb.agent.approval.paths import PathPattern, check_path_pattern
from planck_nb.base.errors import UsageError

Action: TypeAlias = Literal["allow", "ask", "deny"]

ACTIONS: tuple[Action, ...] = get_args(Action)
KINDS: tuple[EffectKind, ...] = get_args(EffectKind)

_TOOL = re.compile(r"[\w.*?\[\]!/-]+")


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do with calls of a tool, with what touches something in a certain way, or both.

    `tool` is a glob on the tool's name. `pattern` narrows the rule: a glob on a path, a command or an address,
    whichever the call touches; empty (or `*`) is everything. A rule of a kind that names neither a tool nor a pattern
    is also about the tool of that name, unless it allows and the tool says that it does something else. Raises
    `UsageError` for what cannot be a rule. One that denies reading certain paths is also about writing them.
    """

    action: Action
    tool: str = "*"
    kind: EffectKind | None = None
    pattern: str = ""

    def __post_init__(self) -> None:
        pattern = self.pattern.strip(BLANKS)
        object.__setattr__(self, "pattern", "" if pattern == "*" else pattern)
        if self.action not in ACTIONS:
            raise UsageError(f"A rule cannot {self.action!r}; write 'allow', 'ask' or 'deny'.")
        if self.kind is not None and self.kind not in KINDS:
            raise UsageError(f"{self.kind!r} is nothing a tool does; write {', '.join(KINDS)} or a tool's name.")
        if not _TOOL.fullmatch(self.tool):
            raise UsageError(
                f"{self.tool!r} cannot be a tool's name; write a rule such as 'bash', 'bash:git *' or 'write:src/**'."
            )
        if self.kind in ("read", "write"):
            check_path_pattern(self.pattern)

    @classmethod
    def parse(cls, action: Action, text: str) -> Rule:
        """The rule that a text means.

        `bash` is a tool, `write` a kind (and the tool of that name), `*` everything; `bash:git *`, `write:src/**` and
        `network:*.example.com` narrow it; `write@edit` is a kind by a tool, `*@write` the tool alone. Raises
        `UsageError` where the text is none of these.
        """
        head, _, pattern = text.partition(":")
        kind, at, tool = head.strip().rpartition("@")
        if not at and tool in KINDS:
            return cls(action, kind=tool, pattern=pattern)
        if at and not kind:
            raise UsageError(f"The rule {text!r} names nothing before '@'; write a kind such as 'write', or '*'.")
        return cls(action, tool, cast("EffectKind", kind) if kind not in ("", "*") else None, pattern)

    def __str__(self) -> str:
        """The text that `parse` makes an equal rule of."""
        if self.kind is None:
            head = f"*@{self.tool}" if self.tool in KINDS else self.tool
        else:
            head = self.kind if self.tool == "*" else f"{self.kind}@{self.tool}"
        return f"{head}:{self.pattern}" if self.pattern else head

    def concerns(self, tool: str, kind: EffectKind | None) -> bool:
        """Whether the rule is about this tool touching something so; None for a call that declares no touch."""
        if fnmatchcase(tool, self.tool) and (self.kind in (None, kind) or (kind == "write" and self._hides)):
            return True
        named = self.tool == "*" and not self.pattern and self.kind == tool
        return named and (kind is None or self.action != "allow")

    @property
    def _hides(self) -> bool:
        """Whether it keeps files from being read; they may not be changed then, as the result shows what was there."""
        return self.action == "deny" and self.kind == "read" and bool(self.pattern)

    def covers(self, touch: Effect, root: Path | None) -> bool:
        """Whether all of what the touch does is surely within the rule: enough to allow it."""
        return not self.pattern or self._narrowed(touch.kind, root).covers(touch.target)

    def catches(self, touch: Effect, root: Path | None) -> bool:
        """Whether some of what the touch does is surely within the rule: enough to deny it."""
        return not self.pattern or self._narrowed(touch.kind, root).catches(touch.target)

    def may_catch(self, touch: Effect, root: Path | None) -> bool:
        """Whether it cannot be told that nothing of the touch is within the rule: enough to ask."""
        return not self.pattern or self._narrowed(touch.kind, root).may_catch(touch.target)

    def _narrowed(self, kind: EffectKind, root: Path | None) -> PathPattern | CommandPattern | AddressPattern:
        if kind == "execute":
            return CommandPattern(self.pattern)
        if kind == "network":
            return AddressPattern(self.pattern)
        return PathPattern(self.pattern, root)
