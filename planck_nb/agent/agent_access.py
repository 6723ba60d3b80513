"""What the layers above (teams, workspaces, notebooks) can do with an agent beyond what its users can.

These functions are not methods, because users would see them on the handle.
"""

# ruff: noqa: SLF001 - this module and `Agent` are two sides of one class

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ParamSpec

from planck_nb.agent.agent import Agent, prompt_of
from planck_nb.agent.agent_runner import NEW_TASK
from planck_nb.agent.context.compactor import Compactor
from planck_nb.agent.limits import Limits
from planck_nb.agent.output import output_spec
from planck_nb.agent.recorder import EventType
from planck_nb.agent.run import Run
from planck_nb.agent.run_group import current_group
from planck_nb.agent.team_members import title
from planck_nb.agent.wait_graph import Participant
from planck_nb.ai.messages import AssistantMessage, Purpose, UserMessage
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options
from planck_nb.base.json_types import JsonObject

P = ParamSpec("P")


async def append_message(agent: Agent, message: UserMessage) -> None:
    """Append a message to the conversation of an agent without prompting it, such as a note on a resumed session.

    Args:
        agent: The agent.
        message: The message.

    Raises:
        SessionError: If it cannot be stored.
    """
    await agent._recorder.append(message)


def send_again(agent: Agent, prompts: Iterable[tuple[str, UserMessage, JsonObject | None, bool]]) -> list[Run[Any]]:
    """Send prompts that waited for the agent in an earlier process, under their own ids.

    Args:
        agent: The agent, in a running event loop.
        prompts: The id, the message, the JSON Schema of the answer or None, and whether it joins others, of each.

    Returns:
        The runs, in the order of the prompts.

    Raises:
        NoRunningLoopError: Outside an event loop.
        AgentStoppedError: After `stop`.
    """
    runner = agent._runner
    specs = [
        (prompt_id, prompt, None if schema is None else output_spec(schema), join)
        for prompt_id, prompt, schema, join in prompts
    ]
    runs = [runner.accept_again(prompt_id, prompt, output=spec, join=join) for prompt_id, prompt, spec, join in specs]
    runner.answer_queue()
    return runs


def forget_queued(agent: Agent, prompt_id: str) -> None:
    """Record that a prompt that waited for the agent in an earlier process was removed."""
    agent._runner.forget_queued(prompt_id)


def prompt_from(
    sender: Agent,
    agent: Agent,
    content: str,
    purpose: Purpose,
    *,
    prompt_id: str | None = None,
    output: JsonObject | None = None,
    batch: object = None,
    fresh: bool = False,
) -> Run[Any]:
    """Send a message from one agent to another in its team.

    Args:
        sender: The agent that sends it.
        agent: The agent that answers.
        content: The text.
        purpose: What it is for. Responses that wait are answered together.
        prompt_id: The id of the prompt, None for a new one.
        output: The JSON Schema of a structured answer, None for text.
        batch: Only responses of the same batch are answered together.
        fresh: Whether the model is sent nothing of the agent's conversation before it.

    Returns:
        The run.

    Raises:
        AgentStoppedError: The agent was stopped.
        UsageError: The text is empty, or `output` is not a JSON Schema.
    """
    message = message_from(sender, content, purpose)
    spec = None if output is None else output_spec(output)
    runner = agent._runner
    is_response = purpose == "response"
    return runner.accept(
        message,
        output=spec,
        join=is_response,
        batch=batch,
        logged=not is_response,
        fresh=fresh,
        prompt_id=prompt_id,
    )


def message_from(sender: Agent, content: str, purpose: Purpose) -> UserMessage:
    """A message from one agent to another. Raises `UsageError` if it is empty."""
    return replace(prompt_of(content), sender_id=sender.id, sender_name=title(sender), purpose=purpose)


def emit_for(agent: Agent, kind: EventType[P], /, *payload: P.args, **named: P.kwargs) -> None:
    """Publish and store an event of the agent; inside a run group, the logs of the group get it too."""
    group = current_group()
    agent._recorder.emit_to(() if group is None else group.logs, kind, *payload, **named)


def is_stopped(agent: Agent) -> bool:
    """Whether the agent has stopped and accepts no more prompts; cheaper than its `state`."""
    return agent._recorder.settled.stopped


def skills_of(agent: Agent) -> tuple[str, ...] | None:
    """The names of the skills that the agent's system prompt lists, None if it lists all."""
    return agent._skills


def fallbacks_of(agent: Agent) -> tuple[Model, ...]:
    """The models that answer if the agent's own cannot, in order."""
    return agent._setup.fallbacks


def participant_of(agent: Agent) -> Participant:
    """The agent, as the graph of waits knows it."""
    return agent._runner.participant


def teammate_settings(agent: Agent) -> dict[str, Any]:
    """The arguments for another agent of the team, which shares its store, approvals, budget, client and so on."""
    runner, setup = agent._runner, agent._setup
    return {
        "session": agent._session,
        "session_spend": runner.session_spend,
        "approvals": runner.approvals,
        "client": setup.own_client,
        "observers": agent._observers,
        "fallbacks": setup.fallbacks,
        "on_compact": runner.window.compactor,
        "limits": agent.limits,
        "usual_limits": setup.usual_limits,
        "cwd": setup.cwd,
    }


def use_usual_limits(agent: Agent, limits: Limits) -> None:
    """Tell an agent its session's usual limits, and keep its own."""
    setup = agent._setup
    before = setup.own_limits()
    setup.usual_limits = limits
    if setup.own_limits() != before:
        agent._runner.emit_changed()


async def start_afresh(agent: Agent) -> None:
    """Start over: from now on, the model is sent nothing of the conversation so far."""
    await agent.checkpoint(NEW_TASK)


def compactor_of(agent: Agent) -> Compactor | None:
    """The agent's compactor, for an agent that continues in another session."""
    return agent._runner.window.compactor


async def complete_for(agent: Agent, context: Context, options: Options) -> AssistantMessage:
    """Have the agent's model reply outside its conversation, and charge the agent, its turn and its session for it.

    Raises:
        AgentError: A limit is reached.
        ModelError: The model cannot be used this way.
        ProviderError: The server failed.
    """
    return await agent._runner.complete(context, options)


def use_compactor(agent: Agent, compactor: Compactor) -> None:
    """Let the agent use another compactor from its next request on."""
    agent._runner.window.compactor = compactor
