"""A rule of the approval policy, and the text that people write for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from planck_nb.agent.approval.addresses import AddressPattern
from planck_nb.agent.approval.command_pattern import CommandPattern
from planck_nb.agent.approval.paths import PathPattern, check_path_pattern
from planck_nb.agent.approval.shell_command import BLANKS, ShellCommand
from planck_nb.agent.effect import Effect, EffectKind
from planck_nb.agent.events import RuleScope
from planck_nb.agent.identity import AgentIdentity, Role
from planck_nb.base.errors import UsageError

Action: TypeAlias = Literal["allow", "ask", "deny"]

ACTIONS: tuple[Action, ...] = get_args(Action)
KINDS: tuple[EffectKind, ...] = get_args(EffectKind)

_TOOL = re.compile(r"[\w.*?\[\]!/-]+")
_LIMIT = re.compile(r"""\s*(agent_id|agent|role|cwd)=("(?:[^"\\]|\\.)*"|[^\s"]+)\s+""")
"""The beginning of a rule for one agent, role or folder; tools' names never contain `=`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do with certain calls: of a tool, with a kind of effect, or both.

    A rule of a kind that names neither a tool nor a pattern also applies to the tool of that name, unless it allows
    and the tool declares another kind of effect. A rule that denies reading certain paths also denies writing them.

    Args:
        action: "allow", "ask" or "deny".
        tool: A glob on the tool's name.
        kind: The kind of effect, None for all.
        pattern: A glob on the path, command or address that is affected; empty or `*` for all.
        agent: A glob on the names of the agents that the rule is for, empty for all.
        role: The role of the agents that the rule is for, empty for all.
        agent_ids: The ids of the agents that the rule is for, empty for all. A rule that is remembered for one agent
            has its id, because another agent may get its name.
        cwd: For commands, a glob on the folder in which they run. To allow, it matches that folder only, unless it has
            wildcards. If it is empty, a rule with a pattern allows commands in the working directory of the tool only,
            and all other rules are for any folder.

    Raises:
        UsageError: If the action, kind, tool or pattern is not valid.

    Example:
        >>> str(Rule.parse("allow", "write:src/**"))
        'write:src/**'
        >>> Rule.parse("deny", "role=worker bash:git push*").role
        'worker'
        >>> Rule.parse("allow", "cwd=docs bash:make *").cwd
        'docs'
    """

    action: Action
    tool: str = "*"
    kind: EffectKind | None = None
    pattern: str = ""
    agent: str = ""
    role: str = ""
    agent_ids: tuple[str, ...] = ()
    cwd: str = ""

    def __post_init__(self) -> None:
        pattern = self.pattern.strip(BLANKS)
        object.__setattr__(self, "pattern", "" if pattern == "*" else pattern)
        if self.action not in ACTIONS:
            raise UsageError(f"A rule has no action {self.action!r}; write 'allow', 'ask' or 'deny'.")
        if self.kind is not None and self.kind not in KINDS:
            raise UsageError(f"{self.kind!r} is not a kind of effect; write {', '.join(KINDS)} or a tool's name.")
        if not _TOOL.fullmatch(self.tool):
            raise UsageError(
                f"{self.tool!r} cannot be a tool's name; write a rule such as 'bash', 'bash:git *' or 'write:src/**'."
            )
        if self.role not in get_args(Role):
            raise UsageError(f"There is no role {self.role!r}; write role=orchestrator or role=worker.")
        if self.kind in ("read", "write"):
            check_path_pattern(self.pattern)
        if self.cwd:
            if self.kind not in (None, "execute"):
                raise UsageError(f"{self.kind} happens in no folder; write cwd={self.cwd} before a rule for commands.")
            check_path_pattern(self.cwd)

    @classmethod
    def parse(cls, action: Action, text: str) -> Rule:
        """Parse the text of a rule.

        Args:
            action: "allow", "ask" or "deny".
            text: `bash` is a tool, `write` a kind of effect (and the tool of that name), `*` everything. `bash:git *`,
                `write:src/**` and `network:*.example.com` narrow it; `write@edit` is a kind of effect by a tool,
                `*@write` the tool alone. `agent=NAME` or `role=worker`, a space and one of these is a rule for some
                agents only; `cwd=FOLDER` is one for commands in that folder.

        Returns:
            The rule.

        Raises:
            UsageError: If the text is none of these.
        """
        limits: dict[str, str] = {}
        while match := _LIMIT.match(text):
            key, value = match[1], _unquoted(match[2])
            if key in limits or not value:
                raise UsageError(f"The rule {text!r} must name one {key}; write {key}=NAME once.")
            limits[key] = value
            text = text[match.end() :]
        agent, role, cwd = (limits.get(key, "") for key in ("agent", "role", "cwd"))
        ids = tuple(limits.get("agent_id", "").split(",")) if "agent_id" in limits else ()
        head, _, pattern = text.partition(":")
        kind, at, tool = head.strip().rpartition("@")
        if not at and tool in KINDS:
            return cls(action, kind=tool, pattern=pattern, agent=agent, role=role, agent_ids=ids, cwd=cwd)
        if at and not kind:
            raise UsageError(f"The rule {text!r} names nothing before '@'; write a kind such as 'write', or '*'.")
        named = cast("EffectKind", kind) if kind not in ("", "*") else None
        return cls(action, tool, named, pattern, agent, role, ids, cwd)

    def __str__(self) -> str:
        """The text that `parse` turns into an equal rule."""
        ids = ",".join(self.agent_ids)
        named = (("agent_id", ids), ("agent", self.agent), ("role", self.role), ("cwd", self.cwd))
        limits = "".join(f"{key}={_quoted(value)} " for key, value in named if value)
        if self.kind is None:
            head = f"*@{self.tool}" if self.tool in KINDS else self.tool
        else:
            head = self.kind if self.tool == "*" else f"{self.kind}@{self.tool}"
        return f"{limits}{head}:{self.pattern}" if self.pattern else f"{limits}{head}"

    def is_for(self, agent: AgentIdentity) -> bool:
        """Check whether the rule is for an agent.

        Args:
            agent: Who made the call.

        Returns:
            True if the rule names no agent and no role, or this one's.
        """
        if self.agent_ids and agent.id not in self.agent_ids:
            return False
        return self.role in ("", agent.role) and (not self.agent or fnmatchcase(agent.name, self.agent))

    def limited_to(self, agent: AgentIdentity, scope: RuleScope) -> Rule:
        """Limit the rule to some agents.

        Args:
            agent: The agent that asked.
            scope: "agent" for this agent only, "role" for all agents of its role, "all" for no limit.

        Returns:
            The limited rule.

        Raises:
            UsageError: If the scope is "role" and the agent has none.
        """
        if scope == "agent":
            return replace(self, agent_ids=(agent.id,))
        if scope != "role":
            return self
        if not agent.role:
            raise UsageError(f"{agent.name or agent.id} is in no team and has no role; use 'agent' or 'all'.")
        return replace(self, role=agent.role)

    def concerns(self, tool: str, kind: EffectKind | None) -> bool:
        """Check whether the rule applies to a kind of effect of a tool, whatever the target.

        Args:
            tool: The name of the tool.
            kind: The kind of effect, None for a call that declares no effect.

        Returns:
            True if it applies.
        """
        if self.cwd and kind != "execute":
            return False
        if fnmatchcase(tool, self.tool) and (self.kind in (None, kind) or (kind == "write" and self._hides)):
            return True
        named = self.tool == "*" and not self.pattern and self.kind == tool
        return named and (kind is None or self.action != "allow")

    @property
    def _hides(self) -> bool:
        """Whether it denies reading certain files: then it denies writing them too, because edits quote the content."""
        return self.action == "deny" and self.kind == "read" and bool(self.pattern)

    def covers(self, touch: Effect, root: Path | None) -> bool:
        """Check whether the rule certainly matches the whole effect, as an allow rule must.

        Args:
            touch: The effect.
            root: The folder to which the pattern is relative, None if it is absolute.

        Returns:
            False if any part of the effect may be outside of the pattern.
        """
        if touch.kind == "execute":
            command = ShellCommand.of(touch, root)
            return self._allows_in_folder(command, root) and (
                not self.pattern or CommandPattern(self.pattern).covers(command)
            )
        return not self.pattern or self._narrowed(touch.kind, root).covers(touch.target)

    def covers_part(self, command: ShellCommand, part: str, root: Path | None) -> bool:
        """Check whether the rule certainly matches a command's part.

        Args:
            command: The command.
            part: One of its `parts`.
            root: The folder to which `cwd` is relative, None if it is absolute.

        Returns:
            True if it allows the part in the command's folder.
        """
        in_folder = self._allows_in_folder(command, root)
        return in_folder and (not self.pattern or CommandPattern(self.pattern).covers_part(part))

    def _allows_in_folder(self, command: ShellCommand, root: Path | None) -> bool:
        if not self.cwd:
            return not self.pattern or not command.cwd
        return PathPattern(self.cwd, root).spells(str(command.folder or ""))

    def catches(self, touch: Effect, root: Path | None) -> bool:
        """Check whether the rule certainly matches some part of the effect, which is enough to deny it.

        Args:
            touch: The effect.
            root: The folder to which the pattern is relative, None if it is absolute.

        Returns:
            True if the effect, or a command inside of it, matches the pattern.
        """
        if touch.kind == "execute":
            command = ShellCommand.of(touch, root)
            in_folder = not self.cwd or PathPattern(self.cwd, root).catches(str(command.folder or ""))
            return in_folder and (not self.pattern or CommandPattern(self.pattern).catches(command))
        return not self.pattern or self._narrowed(touch.kind, root).catches(touch.target)

    def names(self, touch: Effect, root: Path | None) -> bool:
        """Check whether the rule is about the very file of the effect, as it must be to allow a secret.

        Args:
            touch: The effect, reading or writing.
            root: The folder to which the pattern is relative, None if it is absolute.

        Returns:
            True if the pattern is the path itself, without a wildcard.
        """
        return bool(self.pattern) and PathPattern(self.pattern, root).names(touch.target)

    def may_catch(self, touch: Effect, root: Path | None) -> bool:
        """Check whether the rule may match some part of the effect, which is enough to ask.

        Args:
            touch: The effect.
            root: The folder to which the pattern is relative, None if it is absolute.

        Returns:
            True if it is uncertain whether the pattern matches.
        """
        if touch.kind == "execute":
            command = ShellCommand.of(touch, root)
            folder, pattern = str(command.folder or ""), PathPattern(self.cwd, root)
            in_folder = not self.cwd or pattern.catches(folder) or pattern.may_catch(folder)
            return in_folder and (not self.pattern or CommandPattern(self.pattern).may_catch(command))
        return not self.pattern or self._narrowed(touch.kind, root).may_catch(touch.target)

    def _narrowed(self, kind: EffectKind, root: Path | None) -> PathPattern | AddressPattern:
        if kind == "network":
            return AddressPattern(self.pattern)
        return PathPattern(self.pattern, root)


def _quoted(who: str) -> str:
    """A name as `_LIMIT` reads it: in double quotes if it contains spaces or quotes."""
    return who if re.fullmatch(r"[^\s\"\\]+", who) else '"' + re.sub(r'(["\\])', r"\\\1", who) + '"'


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
