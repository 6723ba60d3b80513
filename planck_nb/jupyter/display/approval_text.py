"""What is shown of a call that waits for approval, in the live view and as text: all of it, and nothing hidden."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planck_nb.agent.approval import Rule
from planck_nb.agent.approval.shown_call import argument_text
from planck_nb.agent.effect import Effect
from planck_nb.agent.state import PendingApproval
from planck_nb.base.errors import UsageError
from planck_nb.base.visible import visible


def commands_not_in(args: Iterable[object], effects: Iterable[Effect]) -> tuple[str, ...]:
    """Return the commands that would run and that are not arguments themselves, with hidden characters spelled out."""
    given = {value for value in args if isinstance(value, str)}
    commands = (effect.target for effect in effects if effect.kind == "execute")
    return tuple(visible(command, lookalikes=True) for command in commands if command and command not in given)


def rule_sentence(text: str) -> str:
    """Return what a rule that is remembered would allow, as the end of a sentence; empty if there is no rule."""
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
            return f"{visible(tool)} to run exactly this command"
        case "execute":
            return f"{visible(tool)} to run any command"
        case "network":
            what = f"connect to {pattern}" if pattern else "use the network"
        case kind if not pattern:
            what = f"{kind} any file"
        case kind if pattern.endswith("/**"):
            what = f"{kind} everything below {_folder(pattern.removesuffix('/**'))}"
        case kind if pattern.endswith("/*"):
            what = f"{kind} every file directly in {_folder(pattern.removesuffix('/*'))}"
        case kind:
            what = f"{kind} {pattern}"
    return visible(f"{tool} to {what} (the rule `{text}`)", lookalikes=True)


def pending_text(agent: str, pending: PendingApproval, *, always: str = "`--always`") -> str:
    """Return all of a call that waits for approval, as lines of text.

    Args:
        agent: The name of the agent that makes the call.
        pending: The call.
        always: What to write to allow such calls for the rest of the session.
    """
    effects: Sequence[Effect] = pending.touches
    lines = [f"{visible(pending.name)} of {visible(agent)} waits for approval, call {visible(pending.id)}."]
    lines.append(visible(pending.reason, lookalikes=True))
    for effect in effects:
        target = visible(effect.target, lookalikes=True) or "anything"
        if effect.kind != "execute" or effect.target not in pending.args.values():
            lines.append(_labelled(effect.kind, target))
    lines += [
        _labelled(visible(name, lookalikes=True), argument_text(name, value, effects))
        for name, value in pending.args.items()
    ]
    if pending.rule:
        lines.append(f"{always} allows {rule_sentence(pending.rule)}.")
    return "\n".join(line for line in lines if line)


def _labelled(label: str, text: str) -> str:
    """A label and a text beside it, or below it if it has several lines."""
    if "\n" not in text:
        return f"  {label}: {text}"
    return f"  {label}:\n" + "\n".join(f"    | {line}" for line in text.split("\n"))


def _folder(path: str) -> str:
    """A folder of a rule in words, if its path says too little."""
    return {"": "/", ".": "the working directory"}.get(path, path)
