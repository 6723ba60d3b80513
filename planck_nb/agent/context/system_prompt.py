"""The system prompt of an agent: who it is, what it was told, how its tools are best used, which skills it has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planck_nb.agent.calling.tool import Tool


@dataclass(frozen=True, slots=True)
class SystemPromptParts:
    """What an agent is told beyond its own system prompt, and the `tools` that it gets with that.

    `instructions` come before it, such as those of AGENTS.md; `skills` come last, because they change most often and
    a provider's cache holds what stays the same from the beginning.
    """

    instructions: str = ""
    skills: str = ""
    tools: tuple[Tool, ...] = ()


def identity_line(name: str, agent_type: str) -> str:
    """One line on who the agent is, empty where neither name nor type is known."""
    if agent_type:
        article = "an" if agent_type[0].lower() in "aeiou" else "a"
        return f"You are {name}, {article} {agent_type}." if name else f"You are {article} {agent_type}."
    return f"You are {name}." if name else ""


def full_system_prompt(
    name: str, agent_type: str, own: str, tools: Iterable[Tool], prompt_parts: SystemPromptParts
) -> str:
    """Everything in its order, parts separated by blank lines; the same input gives the same text."""
    guidance = [f"- {tool.name}: {tool.guidance}" for tool in tools if tool.guidance]
    advice = "\n".join(["How to use your tools:", *guidance]) if guidance else ""
    parts = (identity_line(name, agent_type), prompt_parts.instructions, own, advice, prompt_parts.skills)
    return "\n\n".join(part.strip() for part in parts if part.strip())
