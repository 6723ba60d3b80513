"""The approval policy: rules, and defaults for calls that no rule matches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from typing import cast

from planck_nb.agent.approval.addresses import address
from planck_nb.agent.approval.command_pattern import CommandPattern
from planck_nb.agent.approval.obeyed_files import is_obeyed
from planck_nb.agent.approval.paths import below, folder_of, resolve_once, resolved
from planck_nb.agent.approval.rule import ACTIONS, KINDS, Action, Rule
from planck_nb.agent.approval.secret_files import TOO_MANY, is_hidden_at_home, is_secret_path, path_words
from planck_nb.agent.approval.shell_command import ShellCommand
from planck_nb.agent.effect import Effect, EffectKind
from planck_nb.agent.identity import AgentIdentity
from planck_nb.base.errors import UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.visible import series

_DOING: Mapping[EffectKind, str] = {
    "read": "Reading",
    "write": "Writing",
    "execute": "Running",
    "network": "Access to",
}
WITHOUT_RULE = ", as no rule says otherwise."
"""A default reason's end."""

_MAX_TARGET_CHARACTERS = 120
_SHOWN_WORDS = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a call.

    Args:
        action: "allow", "ask" or "deny".
        rule: The rule that decided, None if no rule did.
        reason: One sentence that says why.
    """

    action: Action
    rule: Rule | None
    reason: str


@dataclass(frozen=True)
class Policy:
    """Decides whether tool calls may run, need approval, or are denied.

    If several rules match, deny beats allow and allow beats ask, in any order. If it is uncertain whether a deny rule
    matches, the call needs approval, even if another rule allows it. An ask rule does not override a default of "deny".
    If a call has several effects, the strictest decision counts. A rule that allows a command by its text also lets
    it use the network, unless another rule denies that.

    Args:
        rules: The rules; their order does not matter.
        root: The working directory, to which relative patterns are relative; None if there is none.
        default: What to do if no rule matches, by kind of effect; "ask" for the kinds that are left out.
        outside: For reading and writing outside of `root`. "ask" needs approval unless a rule allows it, "deny" denies
            it even if a rule allows it, "allow" makes no difference. This does not apply to commands, whose files are
            not known in advance; a sandbox limits what they can access.
        secrets: What to do about reading and writing files that look like secrets, writing those that programs load
            automatically, and commands that name one, if they are allowed otherwise: "ask" needs approval unless a rule
            names the very file, "deny" denies them, "allow" makes no difference.
        undeclared: What to do if no rule matches a call whose tool declares no effects.

    Raises:
        UsageError: If `root` is relative, a pattern is relative and there is no `root`, or an action does not exist.

    Example:
        >>> policy = Policy(root=Path("/project"), rules=(Rule.parse("deny", "write:secrets/**"),))
        >>> policy.decide("edit", [Effect("write", "/project/secrets/key")], {}).action
        'deny'
        >>> policy.decide("edit", [Effect("write", "/project/notes.md")], {}).action
        'ask'
    """

    rules: tuple[Rule, ...] = ()
    root: Path | None = None
    default: Mapping[EffectKind, Action] = field(default_factory=lambda: {"read": "allow"})
    outside: Action = "ask"
    undeclared: Action = "allow"
    secrets: Action = "ask"

    def __post_init__(self) -> None:
        if self.root is not None and not self.root.is_absolute():
            raise UsageError(f"The policy's root {str(self.root)!r} is relative; give an absolute path.")
        for action in (self.outside, self.undeclared, self.secrets, *self.default.values()):
            if action not in ACTIONS:
                raise UsageError(f"A policy has no action {action!r}; write 'allow', 'ask' or 'deny'.")
        for rule in self.rules:
            names_path = rule.kind in ("read", "write") and rule.pattern
            if names_path and self.root is None and not Path(rule.pattern).is_absolute():
                raise UsageError(f"The rule '{rule}' is relative, and the policy has no root; write an absolute path.")

    @classmethod
    def ask_before_changes(cls, root: Path) -> Policy:
        """Make a policy that allows reading below a folder and calls that declare no effects; all else needs approval.

        Args:
            root: The working directory, an absolute path.

        Returns:
            The policy.
        """
        return cls(root=root)

    @classmethod
    def allow_all(cls, root: Path | None = None) -> Policy:
        """Make a policy that allows everything, until rules are added.

        Args:
            root: The working directory, an absolute path; None if there is none.

        Returns:
            The policy.
        """
        return cls(root=root, default=dict.fromkeys(KINDS, "allow"), outside="allow", secrets="allow")

    def with_rule(self, rule: Rule) -> Policy:
        """Add a rule.

        Args:
            rule: The rule to add.

        Returns:
            The new policy; `self` if it has the rule already.
        """
        return self if rule in self.rules else replace(self, rules=(*self.rules, rule))

    def with_rules(self, rules: Iterable[Rule]) -> Policy:
        """Add rules.

        Args:
            rules: Rules to add; those that the policy has already change nothing.

        Returns:
            The policy with these rules.
        """
        return replace(self, rules=tuple(dict.fromkeys((*self.rules, *rules))))

    def for_agent(self, agent: AgentIdentity) -> Policy:
        """The policy without the rules that are for other agents or roles.

        Args:
            agent: Whose calls are to be decided.

        Returns:
            `self` if all rules are for the agent.
        """
        rules = tuple(rule for rule in self.rules if rule.is_for(agent))
        return self if len(rules) == len(self.rules) else replace(self, rules=rules)

    def for_unrestricted(self) -> Policy:
        """The policy for a tool that can do everything that the user can: nothing is allowed, the rest stays.

        Returns:
            The policy without what it allows, by rules or by default.
        """
        rules = tuple(rule for rule in self.rules if rule.action != "allow")
        default: dict[EffectKind, Action] = {kind: "deny" for kind in KINDS if self.default.get(kind) == "deny"}
        return replace(self, rules=rules, default=default, undeclared="deny" if self.undeclared == "deny" else "ask")

    def decide(self, tool_name: str, touches: Iterable[Effect], args: JsonObject) -> Verdict:
        """Decide about a call.

        Args:
            tool_name: The name of the tool.
            touches: The effects of the call, as the tool declares them.
            args: The arguments of the call. They are compared with patterns only if there are no effects.

        Returns:
            What to do, and why.
        """
        effects = self.resolved(touches)
        verdicts = [self._judge(tool_name, touch) for touch in effects] or [self._judge_undeclared(tool_name, args)]
        verdicts = _with_network(effects, verdicts)
        return max(verdicts, key=lambda verdict: ACTIONS.index(verdict.action))

    def resolved(self, touches: Iterable[Effect]) -> tuple[Effect, ...]:
        """Resolve the paths of a call's effects, and parse its commands.

        Args:
            touches: The effects, as the tool declares them.

        Returns:
            The effects with the paths that they lead to now, and with each command as a `ShellCommand`. `decide` and
            `remembering` do not resolve these again, so that a link which changes meanwhile does not change what is
            decided about.
        """
        return tuple(
            ShellCommand.of(touch, self._resolved_root) if touch.kind == "execute" else resolve_once(touch, self.root)
            for touch in touches
        )

    def remembering(self, tool_name: str, touches: Iterable[Effect]) -> Rule:
        """Make the narrow rule that is remembered when a call is approved with "always".

        For a command the rule allows exactly this command in this folder, because other arguments may do anything; for
        an address the same scheme, host and port. Both are for this tool only. For a path it allows every tool this
        kind of access to the folder of the path: to everything below it if the folder is inside of the root, otherwise
        only to what is directly in it; for a file that looks like a secret, or that programs load automatically, to
        this file only. If several effects of the call need approval, the rule is for the first.

        Args:
            tool_name: The name of the tool.
            touches: The effects of the call.

        Returns:
            A rule that allows such calls.
        """
        tool = re.sub(r"[^\w.-]", "?", tool_name)
        declared = self.resolved(touches)
        if not declared:
            return Rule("allow", tool)
        touch = next((touch for touch in declared if self._judge(tool_name, touch).action != "allow"), declared[0])
        if touch.kind == "execute":
            return Rule("allow", tool, touch.kind, CommandPattern.quote(touch.target), cwd=escape(touch.cwd))
        if touch.kind == "network":
            return Rule("allow", tool, touch.kind, _site(touch.target))
        path = resolved(touch.target, self.root)
        if path is None:
            return Rule("allow", tool, touch.kind)
        if self.secrets != "allow" and self._needs_its_own_rule(touch.kind, path):
            return Rule("allow", kind=touch.kind, pattern=escape(str(path)))
        return Rule("allow", kind=touch.kind, pattern=self._folder_pattern(path))

    def _folder_pattern(self, path: Path) -> str:
        folder, root = folder_of(path), self._resolved_root
        if root is None or path == root or not below(folder, root):
            return f"{escape(str(path.parent)).rstrip('/')}/*"
        inner = folder.parts[len(root.parts) :]
        return "/".join((".", *map(escape, inner), "**" if inner else "*"))

    def _judge(self, tool: str, touch: Effect) -> Verdict:
        rules = [rule for rule in self.rules if rule.concerns(tool, touch.kind)]
        outside = self._is_outside(touch)
        if forbidden := self._forbidden(rules, touch, outside=outside):
            return forbidden
        verdict = self._permitted(rules, touch, outside=outside)
        if verdict.action == "allow" and self.secrets != "allow" and (reason := self._secret(rules, touch)):
            verdict = Verdict(self.secrets, None, reason)
        elif verdict.action == "ask" and isinstance(touch, ShellCommand):
            verdict = replace(verdict, reason=" ".join([verdict.reason, *_remarks(touch)]))
        doubt = next((rule for rule in rules if rule.action == "deny" and rule.may_catch(touch, self.root)), None)
        if doubt is None or verdict.action == "deny":
            return verdict
        return Verdict("ask", doubt, f"{_doing(touch)} needs approval, because the rule 'deny {doubt}' may forbid it.")

    def _forbidden(self, rules: list[Rule], touch: Effect, *, outside: bool) -> Verdict | None:
        """The verdict that denies the effect even if another rule allows it, None if there is none."""
        for rule in rules:
            if rule.action == "deny" and rule.catches(touch, self.root):
                return Verdict("deny", rule, f"{_doing(touch)} is forbidden by the rule 'deny {rule}'.")
        if outside and self.outside == "deny":
            return Verdict("deny", None, f"{_doing(touch)} is forbidden, because it is outside of {self.root}.")
        return None

    def _permitted(self, rules: list[Rule], touch: Effect, *, outside: bool) -> Verdict:
        default = self.default.get(touch.kind, "ask")
        if allowed := self._allowing([rule for rule in rules if rule.action == "allow"], touch):
            return Verdict("allow", allowed, f"{_doing(touch)} is allowed by the rule 'allow {allowed}'.")
        for rule in rules:
            asks = rule.action == "ask" and default != "deny"
            if asks and (rule.catches(touch, self.root) or rule.may_catch(touch, self.root)):
                return Verdict("ask", rule, f"{_doing(touch)} needs approval by the rule 'ask {rule}'.")
        if outside and default == "allow":
            return Verdict("ask", None, f"{_doing(touch)} needs approval, because it is outside of {self.root}.")
        return Verdict(default, None, _by_default(default, _doing(touch)))

    def _judge_undeclared(self, tool: str, args: JsonObject) -> Verdict:
        matching = {
            rule.action: rule
            for rule in reversed(self.rules)
            if rule.concerns(tool, None) and (not rule.pattern or (rule.action != "allow" and _mentions(rule, args)))
        }
        if denied := matching.get("deny"):
            return Verdict("deny", denied, f"Calling {tool} is forbidden by the rule 'deny {denied}'.")
        if allowed := matching.get("allow"):
            return Verdict("allow", allowed, f"Calling {tool} is allowed by the rule 'allow {allowed}'.")
        if self.undeclared != "deny" and (asked := matching.get("ask")):
            return Verdict("ask", asked, f"Calling {tool} needs approval by the rule 'ask {asked}'.")
        return Verdict(self.undeclared, None, _by_default(self.undeclared, f"Calling {tool}"))

    def _secret(self, rules: list[Rule], touch: Effect) -> str:
        """Return a sentence about a secret in the effect; empty if a rule allows it by name."""
        allowing = [rule for rule in rules if rule.action == "allow"]
        doing = "needs approval" if self.secrets == "ask" else "is forbidden"
        if touch.kind in ("read", "write"):
            path = resolved(touch.target, self.root)
            if path is None or any(rule.names(touch, self.root) for rule in allowing):
                return ""
            reason = self._needs_its_own_rule(touch.kind, path)
            return f"{_doing(touch)} {doing}, because {reason}; only a rule with its path allows it." if reason else ""
        if not isinstance(touch, ShellCommand):
            return ""
        patterns = [rule.pattern for rule in allowing if rule.covers(touch, self.root)]
        if CommandPattern.quote(touch.target) in patterns:
            return ""
        patterns += [
            rule.pattern
            for rule in allowing
            if any(rule.covers_part(touch, part, self.root) for part in touch.parts or ())
        ]
        allowed_words = {word for pattern in patterns for word in path_words(pattern) if "*" not in word} - {TOO_MANY}
        for word in (*touch.secrets, *(() if touch.sandboxed else touch.obeyed)):
            if word not in allowed_words:
                return f"{_doing(touch)} {doing}, because {_why(touch, word)}; only a rule with this name allows it."
        return ""

    def _needs_its_own_rule(self, kind: EffectKind, path: Path) -> str:
        """Return why only a rule with this path allows it, if so."""
        if is_secret_path(path):
            return "it looks like a secret"
        if kind == "write" and is_obeyed(path, self._resolved_root):
            return "programs load it automatically"
        return "it is hidden in the home folder" if is_hidden_at_home(path, self._resolved_root) else ""

    def _allowing(self, rules: list[Rule], touch: Effect) -> Rule | None:
        """Return the rule for the whole effect, or the first among those for a command's parts."""
        covering = next((rule for rule in rules if rule.covers(touch, self.root)), None)
        if covering is not None or touch.kind != "execute":
            return covering
        first = None
        command = ShellCommand.of(touch, self.root)
        for part in dict.fromkeys(command.parts or ()):
            covering = next((rule for rule in rules if rule.covers_part(command, part, self.root)), None)
            if covering is None:
                return None
            first = first or covering
        return first

    def _is_outside(self, touch: Effect) -> bool:
        """Whether a path is, or may be, outside of the root."""
        if self.outside == "allow" or touch.kind not in ("read", "write"):
            return False
        path, root = resolved(touch.target, self.root), self._resolved_root
        return path is None or root is None or not below(path, root)

    @property
    def _resolved_root(self) -> Path | None:
        return None if self.root is None else resolved(str(self.root), None)


def _with_network(effects: tuple[Effect, ...], verdicts: list[Verdict]) -> list[Verdict]:
    """The verdicts on the effects; a command that is allowed by a rule with its text may use the network."""
    commands = [verdict for effect, verdict in zip(effects, verdicts, strict=False) if effect.kind == "execute"]
    named = commands and all(each.action == "allow" and each.rule and each.rule.pattern for each in commands)
    return [
        commands[0] if named and effect == Effect("network") and _only_asks(verdict) else verdict
        for effect, verdict in zip(effects, verdicts, strict=False)
    ] or verdicts


def _why(command: ShellCommand, word: str) -> str:
    """Say why a command's word needs approval, as a sentence's end."""
    if word == TOO_MANY:
        return "it has too many words to look at"
    return f"{word} looks like a secret" if word in command.secrets else f"programs load {word} automatically"


def _remarks(command: ShellCommand) -> Iterator[str]:
    """Yield sentences about a command before it runs."""
    if secrets := _names(command.secrets):
        yield f"By their names, there are secrets in {secrets}."
    if not command.sandboxed and (names := _names(command.obeyed)):
        yield f"It names {names}, which programs load automatically."
    if command.computes:
        yield "A part of it is known only when it runs."


def _names(words: Iterable[str]) -> str:
    """Return the first words, for a sentence."""
    names = [word for word in words if word != TOO_MANY]
    return series([*names[:_SHOWN_WORDS], "others"] if len(names) > _SHOWN_WORDS else names) if names else ""


def _only_asks(verdict: Verdict) -> bool:
    """Whether a person would be asked, other than because a deny rule may match."""
    return verdict.action == "ask" and (verdict.rule is None or verdict.rule.action == "ask")


def _by_default(action: Action, doing: str) -> str:
    predicate = {"allow": "is allowed", "ask": "needs approval", "deny": "is forbidden"}[action]
    return f"{doing} {predicate}{WITHOUT_RULE}"


def _doing(touch: Effect) -> str:
    target = " ".join(touch.target.split())
    if len(target) > _MAX_TARGET_CHARACTERS:
        target = f"{target[:_MAX_TARGET_CHARACTERS]}..."
    if touch.kind == "execute":
        return f"Running `{target}`" if target else "Running commands"
    return f"{_DOING[touch.kind]} {target or ('the network' if touch.kind == 'network' else 'files')}"


def _site(target: str) -> str:
    """The pattern of an address without its path."""
    parts = address(target)
    if parts is None:
        return target
    return f"{parts.scheme}://{parts.host}{parts.port}" if parts.scheme else f"{parts.host}{parts.port}"


def _mentions(rule: Rule, args: JsonObject) -> bool:
    """Whether the pattern matches a text among the arguments, which are all that is known of an undeclared call."""
    return any(text == rule.pattern or fnmatchcase(text, rule.pattern) for text in _texts(args))


def _texts(args: JsonObject) -> Iterator[str]:
    waiting: list[object] = [args]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            waiting.extend(cast("Mapping[str, object]", value).values())
        elif isinstance(value, list | tuple):
            waiting.extend(cast("Iterable[object]", value))
