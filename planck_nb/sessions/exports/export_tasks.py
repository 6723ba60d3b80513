"""The agents of teams and the tasks that they gave each other, as documents for readers show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from planck_nb.agent.events import AgentEvent, AgentStarted, Delegated, Responded, decode_event
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import one_line

_SHOWN = 300
"""Characters of a task or a response that are shown; the conversations have the whole text."""

_GAVE = {"ask": "asked", "delegate": "delegated to"}


def team_names(records: Iterable[JsonObject]) -> dict[str, str]:
    """Return the names of the agents of teams by their ids; with the id if several agents have the same name.

    Args:
        records: The rows of a session; those that cannot be decoded are left out.
    """
    names: dict[str, str] = {}
    for agent_id, event in _events(records, "agent_started"):
        if isinstance(event, AgentStarted) and event.team_id and event.name:
            names[agent_id] = event.name
    counts = Counter(names.values())
    return {agent: name if counts[name] == 1 else f"{name} ({agent})" for agent, name in names.items()}


def task_lines(records: Iterable[JsonObject], names: Mapping[str, str]) -> list[str]:
    """Return a line of plain text for each task that an agent gave to another one, in the order of the tasks.

    Args:
        records: The rows of a session; those that cannot be decoded are left out.
        names: The names of agents by their ids.
    """
    tasks: dict[tuple[str, str], _Task] = {}
    for agent_id, event in _events(records, "delegated", "responded"):
        if isinstance(event, Delegated):
            tasks.setdefault((agent_id, event.task_id), _Task(agent_id, event))
        elif isinstance(event, Responded) and (task := tasks.get((agent_id, event.task_id))) is not None:
            task.responses.append(event)
    return [task.line(names) for task in tasks.values()]


@dataclass(slots=True)
class _Task:
    """A task, the agent that gave it, and what came back."""

    delegator: str
    asked: Delegated
    responses: list[Responded] = field(default_factory=list[Responded])

    def line(self, names: Mapping[str, str]) -> str:
        asked = self.asked
        target = names.get(asked.target_id) or asked.target_name or asked.target_id
        delegator = names.get(self.delegator, self.delegator)
        task = f"{delegator} {_GAVE[asked.kind]} {target}: “{one_line(asked.text, _SHOWN)}”"
        if not self.responses:
            return f"{task}; no response yet"
        last = self.responses[-1]
        status = "failed" if last.error else "answered automatically" if last.automatic else "answered"
        text = one_line("\n\n".join(response.text for response in self.responses), _SHOWN)
        return f"{task}; {status} after {max(0.0, last.time - asked.time):.1f} s: “{text}”"


def _events(records: Iterable[JsonObject], *types: str) -> Iterator[tuple[str, AgentEvent]]:
    """Yield the events of these types, each with the id of its agent."""
    for record in records:
        if record["kind"] == "event" and record["data"].get("type") in types:
            with suppress(ValueError, RecursionError):  # as `codec.is_readable`, which is counted as damage
                yield record["agent_id"], decode_event(record["data"])
