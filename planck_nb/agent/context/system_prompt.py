"""The system prompt of an agent: its identity, instructions, advice on its tools, and skills."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planck_nb.agent.calling.tool import Tool


@dataclass(frozen=True, slots=True)
class SystemPromptParts:
    """Text to add to an agent's own system prompt, and tools to add with it.

    Args:
        instructions: Text before the agent's own, such as that of AGENTS.md.
        skills: Text at the end, because it changes most often and providers cache the unchanged beginning of a prompt.
        tools: Tools that belong to the text, such as one that loads a skill.
    """

    instructions: str = ""
    skills: str = ""
    tools: tuple[Tool, ...] = ()


def identity_line(name: str, agent_type: str) -> str:
    """One line on who the agent is, empty without name and type. A name that only repeats the type is left out."""
    if agent_type:
        name = "" if name.casefold() == agent_type.casefold() else name
        article = "an" if agent_type[0].lower() in "aeiou" else "a"
        return f"You are {name}, {article} {agent_type}." if name else f"You are {article} {agent_type}."
    return f"You are {name}." if name else ""


def full_system_prompt(
    name: str, agent_type: str, own: str, tools: Iterable[Tool], prompt_parts: SystemPromptParts
) -> str:
    """The whole system prompt, its parts separated by blank lines. Deterministic, so that providers can cache it."""
    present = list(tools)
    names = [tool.name for tool in present]
    guidance = [f"- {tool.name}: {tool.guidance}" for tool in present if tool.guidance]
    advice = "\n".join(["How to use your tools:", *guidance]) if guidance else ""
    guides = [guide(names) for guide in dict.fromkeys(tool.guide for tool in present) if guide is not None]
    parts = (identity_line(name, agent_type), prompt_parts.instructions, own, advice, *guides, prompt_parts.skills)
    return "\n\n".join(part.strip() for part in parts if part.strip())
