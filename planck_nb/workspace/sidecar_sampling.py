"""Replies of models for sidecars, which MCP calls sampling: approved one by one, and charged to an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import complete_for
from planck_nb.ai.messages import ImagePart, Message
from planck_nb.ai.request import Context, Options
from planck_nb.base.errors import AgentError
from planck_nb.base.visible import visible
from planck_nb.sidecars.mcp_client.link.questions import Question, answer_of
from planck_nb.sidecars.mcp_client.link.sampling import SamplingReply, SamplingRequest

if TYPE_CHECKING:
    from planck_nb.sidecars.mcp_client.link.questions import Ask

MAX_CHARACTERS = 20_000
"""The longest request that a person is shown; a longer one is refused, because what is approved is shown whole."""

MAX_TOKENS = 8_192
"""The longest reply, in tokens."""

_LABELS = {"user": "User", "assistant": "Assistant"}


class SidecarSampling:
    """Has models reply for sidecars whose use of models the user allows.

    Args:
        ask: Asks the person; returns None if there is nobody to ask.
        find_agent: Finds the agent with an id, or raises `AgentError`.
    """

    def __init__(self, ask: Ask, find_agent: Callable[[str], Agent]) -> None:
        self._ask = ask
        self._find_agent = find_agent

    async def reply(self, request: SamplingRequest) -> SamplingReply | None:
        """Ask a person, then the model of the agent whose call is in flight.

        Args:
            request: The request.

        Returns:
            The reply; None if the person did not allow it, or there is nobody to ask.

        Raises:
            AgentError: No agent's call is in flight, the request cannot be shown whole, or a limit is reached.
            ProviderError: The model failed.
        """
        if not request.agent_id:
            raise AgentError(
                "The request belongs to no agent's call, so no agent can pay for it; send it while a tool call runs."
            )
        agent = self._find_agent(request.agent_id)
        if agent.status == "idle":
            raise AgentError(
                f"{agent.name} is not waiting for this sidecar, so it does not pay for the request; send it while a "
                "tool call runs."
            )
        tokens = max(1, min(request.max_tokens, MAX_TOKENS))
        text = _text(request, agent, tokens)
        if len(text) > MAX_CHARACTERS:
            raise AgentError(
                f"The request has {len(text):,} characters, and at most {MAX_CHARACTERS:,} can be shown; send less."
            )
        question = Question(
            sidecar=request.sidecar,
            message=text,
            agent_id=request.agent_id,
            call_id=request.call_id,
            images=tuple(image for message in request.messages for image in _images(message)),
        )
        answer, _ = await answer_of(question, self._ask)
        if answer.action != "accept":
            return None
        context = Context(request.system_prompt, request.messages)
        options = Options(max_tokens=tokens, temperature=request.temperature, stop=request.stop_sequences)
        reply = await complete_for(agent, context, options)
        return SamplingReply(reply.text, str(agent.model), "maxTokens" if reply.stop_reason == "length" else "endTurn")


def _text(request: SamplingRequest, agent: Agent, tokens: int) -> str:
    """All that a model would be sent, with hidden characters spelled out, and who pays for it."""
    lines = [
        f"May it have {agent.model} reply to this, with at most {tokens:,} tokens, at the expense of {agent.name}?",
        *([f"System prompt: {request.system_prompt}"] if request.system_prompt else []),
    ]
    count = 0
    for message in request.messages:
        content = message.content if message.type in _LABELS else ()
        text = "\n".join(part.text for part in content if part.type == "text")
        numbers = range(count + 1, count + 1 + len(_images(message)))
        count += len(numbers)
        named = f" [{'image' if len(numbers) == 1 else 'images'} {', '.join(map(str, numbers))}]" if numbers else ""
        lines.append(f"{_LABELS.get(message.type, message.type)}: {text}{named}")
    return visible("\n\n".join(lines))


def _images(message: Message) -> list[ImagePart]:
    return [part for part in message.content if isinstance(part, ImagePart)] if message.type in _LABELS else []
