"""A call under approval, for the live view and as complete text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planck_nb.agent.approval import Rule
from planck_nb.agent.approval.shown_call import argument_text
from planck_nb.agent.effect import Effect
from planck_nb.agent.state import PendingApproval
from planck_nb.base.errors import UsageError
from planck_nb.base.visible import visible

_OWN_SERVERS = "also this computer's own servers"
"""A command with the network reaches them, too."""


def commands_not_in(args: Iterable[object], effects: Iterable[Effect]) -> tuple[str, ...]:
    """Return commands to run besides the arguments, with hidden characters spelled out."""
    texts = {value for value in args if isinstance(value, str)}
    commands = (effect.target for effect in effects if effect.kind == "execute")
    return tuple(visible(command, lookalikes=True) for command in commands if command and command not in texts)


def rule_sentence(text: str) -> str:
    """Return what a remembered rule would allow, as a sentence's end.

    It is empty without a rule.
    """
    if not text:
        return ""
    try:
        rule = Rule.parse("allow", text)
    except UsageError:
        return visible(text, lookalikes=True)
    tool = "every tool" if rule.tool == "*" else rule.tool
    pattern = rule.pattern
    match rule.kind:
        case None:
            return f"all calls of {visible(tool)}"
        case "execute" if pattern:
            place = f" in {rule.cwd}" if rule.cwd else ""
            return visible(f"{tool} to run exactly this command{place}", lookalikes=True)
        case "execute":
            return f"{visible(tool)} to run any command"
        case "network":
            permission = f"connect to {pattern}" if pattern else f"use the network, {_OWN_SERVERS}"
        case kind if not pattern:
            permission = f"{kind} any file"
        case kind if pattern.endswith("/**"):
            permission = f"{kind} everything below {_folder(pattern.removesuffix('/**'))}"
        case kind if pattern.endswith("/*"):
            permission = f"{kind} every file directly in {_folder(pattern.removesuffix('/*'))}"
        case kind:
            permission = f"{kind} {pattern}"
    return visible(f"{tool} to {permission} (the rule `{text}`)", lookalikes=True)


def pending_text(
    agent: str, pending: PendingApproval, *, always: str = "`--always`", for_prompt: str = "`--always prompt`"
) -> str:
    """Return a complete call under approval, as lines of text.

    Args:
        agent: The calling agent's name.
        pending: The call.
        always: The word which allows such calls for the rest of the session.
        for_prompt: The word which allows them until the prompt is answered.
    """
    effects: Sequence[Effect] = pending.touches
    lines = [f"{visible(pending.name)} of {visible(agent)} waits for approval, call {visible(pending.id)}."]
    lines.append(visible(pending.reason, lookalikes=True))
    for effect in effects:
        default = f"anything, {_OWN_SERVERS}" if effect.kind == "network" else "anything"
        target = visible(effect.target, lookalikes=True) or default
        if effect.cwd:
            lines.append(_labelled("in the folder", visible(effect.cwd, lookalikes=True)))
        if effect.kind != "execute" or effect.target not in pending.args.values():
            lines.append(_labelled(effect.kind, target))
    lines += [
        _labelled(visible(name, lookalikes=True), argument_text(name, value, effects))
        for name, value in pending.args.items()
    ]
    if pending.rule:
        lines.append(f"{always} allows {rule_sentence(pending.rule)}.")
    if pending.for_prompt:
        lines.append(f"{for_prompt} allows all calls of {visible(pending.name)} until this prompt is answered.")
    return "\n".join(line for line in lines if line)


def _labelled(label: str, text: str) -> str:
    """Return a label with a text beside or below it."""
    if "\n" not in text:
        return f"  {label}: {text}"
    return f"  {label}:\n" + "\n".join(f"    | {line}" for line in text.split("\n"))


def _folder(path: str) -> str:
    """Return a rule's folder in words, if its path says too little."""
    return {"": "/", ".": "the working directory"}.get(path, path)
