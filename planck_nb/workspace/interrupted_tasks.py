"""Tells the agents of a resumed session, once, about tasks that had no response when its process ended."""

from __future__ import annotations

from collections.abc import Iterable

from planck_nb.agent import events as ev
from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import append_message, emit_for
from planck_nb.ai.messages import UserMessage
from planck_nb.base.text import one_line
from planck_nb.sessions import UnansweredPrompt
from planck_nb.sessions.open_tasks import OpenTaskRecord
from planck_nb.workspace.agent_registry import AgentRegistry

TOLD = (
    "Session resumed after interruption. These tasks that you delegated have no response, and no one works on them any "
    "more:\n{}\nDelegate them again if they are still needed."
)
"""The message to an agent that had delegated tasks."""

ENDED = "The session ended before {} answered."
"""The response that is recorded for a task that nobody works on any more."""

_SHOWN = 200
"""Characters of a task that the message shows."""


async def close_tasks(
    tasks: Iterable[OpenTaskRecord], waiting: Iterable[UnansweredPrompt], registry: AgentRegistry
) -> list[str]:
    """Deliver the responses that were written before the process ended, and tell agents of the tasks that have none.

    Args:
        tasks: The tasks without a response.
        waiting: The prompts of agents that were waiting; responses among them have not been read.
        registry: The agents, restored.

    Returns:
        A sentence for each agent that has to delegate tasks again.
    """
    tasks = list(tasks)
    unfinished = {task.from_agent_id for task in tasks if task.kind == "delegate"}
    for prompt in waiting:
        if prompt.purpose == "response" and prompt.agent_id in registry:
            unfinished.add(prompt.agent_id)
            await append_message(registry.by_id(prompt.agent_id), prompt.message)
    lost: dict[str, list[str]] = {}
    for task in tasks:
        if task.from_agent_id not in registry:
            continue
        delegator = registry.by_id(task.from_agent_id)
        answer = task.answer if task.kind == "delegate" and _is_done(task, registry, unfinished) else ""
        if answer:
            said = UserMessage(answer, sender_id=task.target_id, sender_name=task.target_name, purpose="response")
            await append_message(delegator, said)
        elif task.kind == "delegate":  # an agent that waited for the answer has the result of its call
            how = "was cut off" if task.started else "had not started"
            lost.setdefault(delegator.id, []).append(
                f"- {task.target_name}, which {how}: {one_line(task.text, _SHOWN)}"
            )
        _close(delegator, task, answer)
    for agent_id, lines in lost.items():
        await append_message(registry.by_id(agent_id), UserMessage(TOLD.format("\n".join(lines))))
    return [
        f"The session ended before {_counted(len(lines))} of {registry.by_id(agent_id).name} had a response; "
        "the agent was told."
        for agent_id, lines in lost.items()
    ]


def _is_done(task: OpenTaskRecord, registry: AgentRegistry, unfinished: set[str]) -> bool:
    """Whether the worker only had to send its response.

    The last reply of a worker that waited for others, or that had begun to work on their responses, is not the answer.
    """
    if task.outcome != "turn_end" or task.target_id in unfinished or task.target_id not in registry:
        return False
    return registry.by_id(task.target_id).state.turn == task.turn


def _close(delegator: Agent, task: OpenTaskRecord, answer: str) -> None:
    emit_for(
        delegator,
        ev.Responded,
        task.task_id,
        task.kind,
        task.target_id,
        task.target_name,
        answer or ENDED.format(task.target_name),
        error=not answer,
        automatic=True,
        task_turn=task.turn,
    )


def _counted(number: int) -> str:
    return "a task" if number == 1 else f"{number} tasks"
