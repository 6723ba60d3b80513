"""Agents under test: what they were asked, what they told, and tools that wait for the test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from planck_nb import Agent, ai
from planck_nb.agent.effect import Effect
from planck_nb.agent.events import AgentEvent
from planck_nb.ai.client import Stream
from planck_nb.ai.message_history.portable_history import prepare
from planck_nb.ai.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options
from planck_nb.testing import Call, Reply


class Listening(ai.Client):
    """A client that remembers what was asked."""

    def __init__(self) -> None:
        super().__init__(credentials={})
        self.asked: list[tuple[Model, Context]] = []

    def stream(self, model: Model, context: Context, options: Options | None = None) -> Stream:
        self.asked.append((model, context))
        return super().stream(model, context, options)

    def texts(self, request: int = -1) -> list[str]:
        """What the messages of one request say, each as role and text."""
        model, context = self.asked[request]
        return [brief(message) for message in prepare(context.messages, model)]


def plain(effects: Iterable[Effect]) -> list[Effect]:
    """The effects as events have them, without what is known of commands."""
    return [Effect(effect.kind, str(effect.target), effect.cwd) for effect in effects]


class Hold:
    """A tool `hold` that the test lets go: `entered` once it runs, `release()` to end it."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self._released = asyncio.Event()

    def release(self) -> None:
        self._released.set()

    async def hold(self) -> str:
        self.entered.set()
        await self._released.wait()
        return "held"


def brief(message: Message) -> str:
    """A message in a word or two."""
    if isinstance(message, AssistantMessage) and message.tool_calls:
        return f"assistant: {message.text}{[call.name for call in message.tool_calls]}"
    if isinstance(message, ToolResultMessage):
        return f"tool_result: {'|'.join(part.text for part in message.content)}"
    return f"{message.type}: {message.text}"


def said(agent: Agent) -> list[str]:
    """The conversation, each message in a word or two."""
    return [brief(entry.message) for entry in agent.state.messages]


def prompts(agent: Agent) -> list[str]:
    """The texts of the user's messages."""
    return [entry.message.text for entry in agent.state.messages if isinstance(entry.message, UserMessage)]


def kinds(events: Iterable[AgentEvent], *only: str) -> list[str]:
    """The types of the events, or of those among `only`; runs of deltas as one."""
    found: list[str] = []
    for event in events:
        repeated = bool(found) and found[-1] == event.type and event.type.endswith("_delta")
        if (not only or event.type in only) and not repeated:
            found.append(event.type)
    return found


def paired(messages: Sequence[Message]) -> bool:
    """Whether each call has one result, in the message right after it, in call order, and no result is without."""
    expected: list[str] = []
    for message in messages:
        found = [part.id for part in message.content] if isinstance(message, ToolResultMessage) else []
        if found != expected:
            return False
        expected = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
    return not expected


def calling(*calls: tuple[str, dict[str, object]], then: str = "done") -> list[Reply | str]:
    """A script: the calls, then a text."""
    return [Reply(calls=[Call(name, args) for name, args in calls]), then]


async def until(run: object, kind: str) -> AgentEvent:
    """The first event of this type that the run, or the subscription, tells."""
    async for event in run:  # type: ignore[attr-defined]  # a Run or a Subscription
        if event.type == kind:
            return event  # type: ignore[no-any-return]
    raise AssertionError(f"no {kind} came")
