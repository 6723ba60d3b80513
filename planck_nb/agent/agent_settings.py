"""What an agent's requests are made of, apart from the conversation: model, system prompt, tools, options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from planck_nb.agent.calling.tool import Tool, server_tools, tool_specs
from planck_nb.agent.context.sendable import SendableHistory
from planck_nb.agent.context.system_prompt import SystemPromptParts, full_system_prompt
from planck_nb.agent.identity import AgentIdentity
from planck_nb.agent.limits import Limits
from planck_nb.agent.tokens import context_tokens, estimate_text, tokens_per_estimate
from planck_nb.ai.client import Client
from planck_nb.ai.messages import Message
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, HistoryCache, Options, ToolSpec
from planck_nb.ai.server_tools import ServerTool
from planck_nb.ai.shortcuts import default_client
from planck_nb.base.event_loops import has_running_loop


@dataclass
class AgentSettings:
    """The settings of one agent, which may change between requests.

    Args:
        identity: Who the agent is.
        model: The model that answers.
        system_prompt: The agent's own system prompt.
        tools: Its tools by name.
        options: Request options.
        limits: Limits from the next turn on, and of the session.
        usual_limits: Limits of new agents in the session, which need not be stored with each.
        fallbacks: Models to use instead, in order, if `model` cannot answer.
        load_prompt_parts: Called at the start of each turn for what surrounds the agent's own system prompt.
        own_client: The client to ask models with; None for the event loop's default client.
        cwd: The working directory for tools that have none of their own.
    """

    identity: AgentIdentity
    model: Model
    system_prompt: str
    tools: dict[str, Tool]
    options: Options
    limits: Limits
    usual_limits: Limits
    fallbacks: tuple[Model, ...] = ()
    load_prompt_parts: Callable[[], SystemPromptParts] = SystemPromptParts
    own_client: Client | None = None
    cwd: Path | None = None
    prompt_parts: SystemPromptParts = field(default_factory=SystemPromptParts)
    history_cache: HistoryCache = field(default_factory=HistoryCache)
    sendable: SendableHistory = field(default_factory=SendableHistory)
    removed: dict[str, str] = field(default_factory=dict[str, str])
    """Reasons for the absence of removed tools, by name."""
    _preamble: _Preamble | None = None

    @property
    def client(self) -> Client:
        """The client to ask models with; outside an event loop, a new one, to look up what is known of a model."""
        if self.own_client is None and not has_running_loop():
            return Client()
        return self.own_client or default_client()

    def own_limits(self) -> dict[str, float | None]:
        """Return the agent's own limits by name, without the usual ones."""
        return self.limits.apart_from(self.usual_limits)

    def add_tool(self, tool: Tool) -> bool:
        """Add a tool, or replace the one with its name. Returns whether the name is new."""
        new = tool.name not in self.tools
        self.removed.pop(tool.name, None)
        self.tools = {**self.tools, tool.name: self.placed(tool)}
        return new

    def remove_tool(self, name: str, reason: str = "") -> bool:
        """Remove the tool with this name. Returns whether there was one."""
        known = name in self.tools
        self.removed |= {name: reason} if known and reason else {}
        self.tools = {key: tool for key, tool in self.tools.items() if key != name}
        return known

    def placed(self, tool: Tool) -> Tool:
        """The tool in the agent's working directory, if it has none of its own."""
        return tool if tool.at is None or self.cwd is None else tool.at(self.cwd)

    def add_tools(self, tools: Iterable[Tool]) -> None:
        """Add tools at once, later ones replacing earlier ones of the same name."""
        self.tools = {**self.tools, **{tool.name: self.placed(tool) for tool in tools}}

    def context(self, messages: Sequence[Message], model: Model | None = None) -> Context:
        """The request for these messages: the whole system prompt, the tools, and what the model can read of them."""
        preamble = self._current_preamble()
        return Context(
            system=preamble.system,
            messages=self.sendable.fit(messages, self.client.accepting(model or self.model)),
            tools=preamble.tools,
            cache=self.history_cache,
            server_tools=preamble.server_tools,
        )

    def estimate_tokens(self, messages: Sequence[Message], scale: float = 1.0, *, counted: bool = True) -> int:
        """The tokens of the request for these messages, as counted by the provider or estimated.

        See `planck_nb.agent.tokens.context_tokens`.
        """
        if counted:
            messages = self.sendable.fit(messages, self.client.accepting(self.model))
        return context_tokens(messages, before=self._current_preamble().tokens, scale=scale, counted=counted)

    def tokens_per_estimate(self, messages: Sequence[Message], index: int) -> float:
        """The ratio of counted to estimated tokens for what was sent before the reply at `index`."""
        return tokens_per_estimate(messages, index, before=self._current_preamble().tokens)

    def _current_preamble(self) -> _Preamble:
        known = self._preamble
        if (
            known is None
            or known.own is not self.system_prompt
            or known.by_name is not self.tools
            or known.parts is not self.prompt_parts
        ):
            known = self._preamble = _Preamble(self.identity, self.system_prompt, self.tools, self.prompt_parts)
        return known


class _Preamble:
    """What precedes the messages in a request. It is rebuilt only if a setting changes."""

    def __init__(self, identity: AgentIdentity, own: str, by_name: dict[str, Tool], parts: SystemPromptParts) -> None:
        self.own, self.by_name, self.parts = own, by_name, parts
        self.system = full_system_prompt(identity.name, identity.type, own, by_name.values(), parts)
        self.tools: tuple[ToolSpec, ...] = tool_specs(by_name)
        self.server_tools: tuple[ServerTool, ...] = server_tools(by_name)

    @cached_property
    def tokens(self) -> int:
        """The estimated tokens of the system prompt and the tools."""
        sizes = (tool.estimated_tokens for tool in self.by_name.values() if tool.server is None)
        return estimate_text(self.system) + sum(sizes)
