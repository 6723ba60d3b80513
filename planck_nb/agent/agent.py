"""`Agent`: a conversation with a model that can call tools."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from planck_nb.agent import events as ev
from planck_nb.agent.agent_runner import AgentRunner
from planck_nb.agent.agent_settings import AgentSettings
from planck_nb.agent.answers import request_to_continue
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.calling.functions import ToolLike, as_tool, by_name
from planck_nb.agent.calling.tool import Tool, stored_names
from planck_nb.agent.context.compactor import Compactor, as_compactor, stored_compactor
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.agent.events import RuleScope
from planck_nb.agent.identity import AgentIdentity, Grants, Role, decide_role
from planck_nb.agent.limits import Limits, SessionSpend
from planck_nb.agent.message_log import MemoryLog, SessionStore
from planck_nb.agent.output import output_spec
from planck_nb.agent.recorder import EventRecorder
from planck_nb.agent.run import Run
from planck_nb.agent.run_result import RunResult
from planck_nb.agent.state import AgentState, Status, changed
from planck_nb.agent.team_members import STOPPED, find_team
from planck_nb.ai.catalogue import get_model
from planck_nb.ai.client import Client, RequestPreview
from planck_nb.ai.messages import Usage, UserMessage, UserPart
from planck_nb.ai.model_source import model_source
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options
from planck_nb.ai.stored_options import stored_options
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.base.event_log import EventLog, Subscription
from planck_nb.base.ids import NewId, new_id
from planck_nb.base.json_types import JsonObject
from planck_nb.base.sync import run_sync

T = TypeVar("T")
P = ParamSpec("P")

_FIXED = frozenset({"id", "name", "type", "description", "role", "team_id", "parent_id", "grants", "cwd"})
"""Attributes that events and rules refer to."""

_OPTIONS = Options()
_LIMITS = Limits()
_NEW = AgentState()


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An agent at a glance; the fields are those of `AgentState`."""

    id: str
    name: str
    description: str
    type: str
    model: str
    status: Status
    turn: int
    usage: Usage
    cost: float | None
    role: Role = ""
    team_id: str | None = None
    parent_id: str | None = None


class Agent:
    """A conversation with a model that can call tools.

    An agent needs no running event loop until it is prompted. `async with Agent(…)` stops it at the end.

    Args:
        model: A `Model`, or its name as "provider:model".
        system_prompt: What the model is told before the conversation.
        tools: Tools, Python functions to make tools of, and tools of the model's server, such as "web_search" or
            `ai.ServerTool("web_search", {"max_uses": 3})`.
        id: The agent's id; made up by default.
        name: What people call it.
        type: What kind of agent it is, such as "builder".
        description: What it is for, in a sentence.
        session: Stores every message before the next step. Without one the conversation lasts as long as the agent.
        options: Request options, such as the temperature.
        on_compact: Shortens the conversation before it outgrows the context window: a `Compactor` or a function.
        fallbacks: Models to use instead, in order, if `model` cannot answer.
        limits: Limits of each turn and, with `session_spend`, of the session.
        session_spend: What the agents of a session have spent together; they share one.
        approvals: Decides which calls may run; without it all may.
        prompt_parts: Called at the start of each turn for what surrounds the system prompt.
        usage: Tokens that a resumed agent has used already.
        cost: US dollars that a resumed agent has spent already.
        turn: The index of a resumed agent's last turn.
        client: The client to ask models with; the event loop's default client if None.
        observers: Logs that get every event, in addition to the agent's own subscribers.
        team_id: The team that the agent belongs to.
        available_models: Models that it may give to the agents that it starts.
        cwd: The working directory for tools that have none of their own; the process's if None.
        role: Its role in the team. By default, an agent of a team that has the tool `spawn_agent` or is of type
            "orchestrator" is the orchestrator, and any other a worker. It stays what it is then.
        parent_id: The agent that started it.
        grants: What it may give to the agents that it starts; the models are those of `available_models`.
        skills: The names of the skills that `prompt_parts` lists, None if it is the same for all agents.

    Raises:
        ModelError: If there is no such model.
        UsageError: If `model` or one of the tools is something else.

    Example:
        >>> from planck_nb.testing import scripted_model
        >>> agent = Agent(model=scripted_model(["Hello!"]))
        >>> agent.run_sync("Hi.").text
        'Hello!'
    """

    def __init__(
        self,
        *,
        model: Model | str,
        system_prompt: str = "",
        tools: Iterable[ToolLike] = (),
        id: str | None = None,  # noqa: A002 - the seeds' name
        name: str | None = None,
        type: str | None = None,  # noqa: A002 - the seeds' name
        description: str = "",
        session: SessionStore | None = None,
        options: Options | None = None,
        on_compact: Compactor | Callable[..., object] | None = None,
        fallbacks: Sequence[Model | str] = (),
        limits: Limits | None = None,
        session_spend: SessionSpend | None = None,
        approvals: Approvals | None = None,
        prompt_parts: Callable[[], SystemPromptParts] = SystemPromptParts,
        usage: Usage | None = None,
        cost: float | None = None,
        turn: int = -1,
        client: Client | None = None,
        observers: Sequence[EventLog[ev.AgentEvent]] = (),
        team_id: str | None = None,
        available_models: Sequence[Model] = (),
        cwd: Path | None = None,
        role: Role = "",
        parent_id: str | None = None,
        grants: Grants | None = None,
        skills: Sequence[str] | None = None,
    ) -> None:
        self.id = id or new_id()
        self.name = name or ""
        self.type = type or ""
        self.description = description
        given = by_name(tools)
        role = role if team_id is None else decide_role(role, self.type, given)
        self.role: Role = role
        self.team_id = team_id
        self.parent_id = parent_id
        self.available_models = tuple(available_models)
        self.cwd = cwd
        self._skills = None if skills is None else tuple(skills)
        self.limits = limits or _LIMITS
        """The limits from the next turn on."""
        granted = grants or Grants()
        self.grants = Grants(granted.tools, granted.skills, tuple(map(str, self.available_models)) or granted.models)
        setup = AgentSettings(
            identity=AgentIdentity(self.id, self.name, self.type, role, team_id, parent_id),
            model=_as_model(model),
            system_prompt=system_prompt,
            tools={},
            options=options or _OPTIONS,
            limits=lambda: self.limits,
            fallbacks=tuple(map(_as_model, fallbacks)),
            load_prompt_parts=prompt_parts,
            own_client=client,
            cwd=cwd,
        )
        setup.add_tools(given.values())
        self._setup = setup
        self._session = session
        self._observers = tuple(observers)
        session_id = session.id if session else None
        self._team = None if team_id is None else find_team(session_id, team_id)
        if self._team is not None:
            self._team.require_place(self.id, role)
        self._recorder = EventRecorder(
            self.id,
            session_id,
            session.log(self.id) if session else MemoryLog(),
            changed(_NEW, turn=turn, usage=usage or _NEW.usage, cost=cost),
            observers if self._team is None else (*observers, self._team.events),
            new=id is None or isinstance(id, NewId),
        )
        compactor = as_compactor(on_compact) if on_compact else None
        self._runner = AgentRunner(
            setup,
            self._recorder,
            approvals,
            compactor,
            session_spend or SessionSpend(),
        )
        self._recorder.emit(
            ev.AgentStarted,
            self.name,
            self.type,
            str(setup.model),
            system_prompt,
            stored_names(setup.tools),
            stored_options(setup.options),
            role,
            team_id,
            parent_id,
            description,
            self.grants,
            model_source(setup.model),
            tuple(map(model_source, self.available_models)),
            {} if compactor is None else stored_compactor(compactor),
            self._skills,
        )
        if self._team is not None:
            self._runner.team = self._team
            self._team.join(self, self._recorder.emit)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FIXED and name in vars(self):
            raise AttributeError(f"The {name} of an agent cannot change; create another agent.")
        object.__setattr__(self, name, value)

    @property
    def nudge(self) -> Callable[[], Run[str] | None]:
        """The name of `continue_` in version 0.1.0."""
        warnings.warn("Agent.nudge is now Agent.continue_.", DeprecationWarning, stacklevel=2)
        return self.continue_

    def __repr__(self) -> str:
        return f"<Agent {self.name or self.id} {self.model} {self.status}>"

    def _repr_html_(self) -> str:
        """The agent at a glance, for notebooks."""
        state = self._recorder.settled
        cost = "" if state.cost is None else f"${state.cost:.4f}"
        rows = (
            ("model", str(self.model)),
            ("status", state.status),
            ("messages", f"{len(state.messages):,}"),
            ("tools", ", ".join(self._setup.tools)),
            ("tokens", f"{state.usage.total_tokens:,}"),
            ("cost", cost),
            ("description", self.description),
        )
        cells = "".join(
            f'<tr><th style="text-align:left">{key}</th><td style="text-align:left">{escape(value)}</td></tr>'
            for key, value in rows
            if value
        )
        return f"<table><caption>Agent {escape(self.name or self.id)}</caption>{cells}</table>"

    @property
    def model(self) -> Model:
        """The model that answers from the next request on; set it to a `Model` or "provider:model"."""
        return self._setup.model

    @model.setter
    def model(self, model: Model | str) -> None:
        self._setup.model = _as_model(model)
        self._runner.change_model()

    @property
    def system_prompt(self) -> str:
        """The agent's own system prompt; `request` returns all that the model is told."""
        return self._setup.system_prompt

    @system_prompt.setter
    def system_prompt(self, text: str) -> None:
        self._setup.system_prompt = text
        self._runner.emit_changed()

    @property
    def options(self) -> Options:
        """The request options from the next request on."""
        return self._setup.options

    @options.setter
    def options(self, options: Options) -> None:
        self._setup.options = options
        self._runner.emit_changed()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the model can call."""
        return tuple(self._setup.tools.values())

    @property
    def status(self) -> Status:
        """Whether the agent is idle, streaming a reply, or executing tools."""
        return self._recorder.settled.status

    @property
    def state(self) -> AgentState:
        """A snapshot: messages, the reply being streamed, running tools, queue, usage."""
        return self._recorder.state

    @property
    def events(self) -> EventLog[ev.AgentEvent]:
        """The newest events."""
        return self._recorder.events

    def info(self) -> AgentInfo:
        """Describe the agent without its messages.

        Returns:
            Who it is, its model and status, and what it has used.
        """
        state = self._recorder.settled
        return AgentInfo(
            self.id,
            self.name,
            self.description,
            self.type,
            str(self.model),
            state.status,
            state.turn,
            state.usage,
            state.cost,
            self.role,
            self.team_id,
            self.parent_id,
        )

    def add_tool(self, tool: ToolLike) -> None:
        """Let the model call a tool from the next request on; one of the same name is replaced.

        Args:
            tool: A tool, a Python function to make one of, or a tool of the model's server or its name.

        Raises:
            UsageError: If it is something else.
        """
        if self._setup.add_tool(as_tool(tool)):
            self._runner.emit_changed()

    def remove_tool(self, name: str) -> None:
        """Remove a tool from the next request on.

        Args:
            name: The tool's name; one that the agent does not have is ignored.
        """
        if self._setup.remove_tool(name):
            self._runner.emit_changed()

    def subscribe(self, *, since: int | None = None) -> Subscription[ev.AgentEvent]:
        """Subscribe to the agent's events.

        A subscriber that falls too far behind misses the oldest events (`Subscription.missed`) and never slows the
        agent. To resync, read `state`.

        Args:
            since: The position to start from: 0 is the oldest event still kept, None the next one.

        Returns:
            An async iterator, registered already, which is also an async context manager.
        """
        return self.events.subscribe(since)

    @overload
    def prompt(
        self,
        content: str | Sequence[UserPart],
        *,
        output: None = None,
        join: bool = False,
        allow: Iterable[str] = (),
    ) -> Run[str]: ...

    @overload
    def prompt(
        self,
        content: str | Sequence[UserPart],
        *,
        output: type[T],
        join: bool = False,
        allow: Iterable[str] = (),
    ) -> Run[T]: ...

    @overload
    def prompt(
        self,
        content: str | Sequence[UserPart],
        *,
        output: JsonObject,
        join: bool = False,
        allow: Iterable[str] = (),
    ) -> Run[Any]: ...

    def prompt(
        self,
        content: str | Sequence[UserPart],
        *,
        output: type[T] | JsonObject | None = None,
        join: bool = False,
        allow: Iterable[str] = (),
    ) -> Run[Any]:
        """Send a prompt. Returns at once; await the run for the answer, or iterate over it to watch.

        While a turn runs, prompts queue, and each has a turn of its own. Prompts with `join` that wait one after the
        other are answered together in one turn. It can be called in the event loops of several threads: each turn runs
        on the loop that sent its prompt. In a thread without a loop, the prompt goes to the loop that used the agent
        last.

        Args:
            content: Text, or parts such as images.
            output: A type that pydantic can read from JSON, or a JSON Schema, for a structured answer. An answer that
                does not fit is corrected once; then the run fails with `OutputError`.
            join: Whether one turn may answer it together with other prompts that join. A prompt with an `output` has a
                turn of its own all the same.
            allow: Names of tools whose calls for this prompt need no approval, unless a rule denies them. No rule
                allows an `unrestricted` tool, so this is the only way to let it run unattended. A turn that answers
                other prompts, too, needs it for each of them.

        Returns:
            The run of the prompt.

        Raises:
            NoRunningLoopError: Outside an event loop; see `run_sync`.
            AgentStoppedError: After `stop`.
            UsageError: If there is nothing in the prompt, or `output` cannot be described in JSON.
        """
        spec = None if output is None else output_spec(output)
        names = (allow,) if isinstance(allow, str) else allow
        return self._runner.accept(prompt_of(content), output=spec, join=join, allow=names)

    def run_sync(self, content: str | Sequence[UserPart], *, output: Any = None) -> RunResult[Any]:  # noqa: ANN401
        """Send a prompt and wait for the answer, in a script without an event loop.

        Args:
            content: Text, or parts such as images.
            output: As for `prompt`.

        Returns:
            The result of the run.

        Raises:
            UsageError: Inside a running event loop, as in a notebook, where `await agent.prompt(…)` is the way.
        """

        async def run() -> RunResult[Any]:
            return await self.prompt(content, output=output)

        return run_sync(run())

    def steer(self, content: str | Sequence[UserPart]) -> Run[str]:
        """Send a prompt that enters the running turn once its running tools have ended.

        An idle agent answers it as a prompt. If the turn ends first, it is the next prompt.

        Args:
            content: Text, or parts such as images.

        Returns:
            The run of the prompt.

        Raises:
            NoRunningLoopError: Outside an event loop.
            AgentStoppedError: After `stop`.
            UsageError: If there is nothing in the prompt.
        """
        return self._runner.accept(prompt_of(content), steer=True)

    def continue_(self) -> Run[str] | None:
        """Let the model go on.

        If the conversation ends with something that was never answered, it is sent as it is. After a reply of the
        model, a short message asks it to go on, because many models refuse a conversation that ends with their own
        reply. It says whether the reply was cut off, or had no answer.

        Returns:
            The run, or None if the agent is busy.

        Raises:
            AgentError: If there is no conversation yet.
            NoRunningLoopError: Outside an event loop.
            AgentStoppedError: After `stop`.
        """
        if self._runner.is_busy:
            return None
        conversation = self._runner.window.messages()
        if not conversation:
            raise AgentError(f"{self.name or 'The agent'} has nothing to continue yet; send a prompt first.")
        return self._runner.accept(request_to_continue(conversation))

    def edit_queued(self, prompt_id: str, content: str | Sequence[UserPart]) -> None:
        """Change a prompt that is waiting.

        Args:
            prompt_id: Its id, `Run.id`.
            content: What it says from now on.

        Raises:
            AgentError: If no such prompt is waiting.
            UsageError: If there is nothing in the content.
        """
        prompt = prompt_of(content)
        self._runner.in_loop(lambda: self._runner.edit_queued(prompt_id, prompt.content))

    def remove_queued(self, prompt_id: str, *, returned: bool = False) -> None:
        """Remove a prompt that is waiting.

        Args:
            prompt_id: Its id, `Run.id`.
            returned: Whether views show it as not sent, so that the person who wrote it can send it again.

        Raises:
            AgentError: If no such prompt is waiting.
        """
        self._runner.in_loop(lambda: self._runner.remove_queued(prompt_id, returned=returned))

    def decide(
        self,
        call_id: str,
        *,
        allow: bool,
        args: JsonObject | None = None,
        remember: bool = False,
        reason: str = "",
        scope: RuleScope = "agent",
    ) -> None:
        """Answer an `approval_request`; the first answer counts.

        Args:
            call_id: The id of the call that is waiting.
            allow: Whether it may run.
            args: Arguments to run it with instead of the model's.
            remember: Whether to allow calls like it for the rest of the session.
            reason: Why it is denied, for the model.
            scope: Which agents a remembered rule is for: this "agent", all of its "role", or "all".

        Raises:
            AgentError: If no such call is waiting, or a rule denies the edited arguments.
            ToolError: If the edited arguments do not fit the tool.
            UsageError: If `scope` is none of these.
        """
        if self._runner.gate is None:
            raise AgentError(f"Agent {self.name or self.id} asks for no approval; give it `approvals`.")
        decide = partial(self._runner.gate.decide, call_id, allow=allow, args=args, remember=remember)
        self._runner.in_loop(partial(decide, reason=reason, scope=scope))

    async def compact(self) -> bool:
        """Shorten the conversation now.

        Returns:
            Whether it became shorter.

        Raises:
            AgentError: If the agent has no compactor.
        """
        return await self._runner.compact()

    async def checkpoint(self, summary: str) -> None:
        """Replace the conversation so far by a summary: from now on the model is sent the summary and what follows it.

        Args:
            summary: What the model has to know of the conversation so far.

        Raises:
            UsageError: If the summary is empty.
            SessionError: If it cannot be stored.
        """
        if not isinstance(summary, str) or not summary.strip():
            raise UsageError("A checkpoint without a summary would lose the conversation; say what it was about.")
        await self._runner.close_window()
        await self._recorder.append_summary(summary, lambda _: ())

    async def abort(self) -> None:
        """Stop the running turn and return when it has ended; then waiting prompts are answered."""
        await self._runner.abort()

    async def stop(self, *, removed: bool = False, reason: str = STOPPED) -> None:
        """Accept no more prompts, drop those that are waiting, and return when the running turn has ended.

        The workers of a team stop with its orchestrator.

        Args:
            removed: Whether the agent is to be left out when its session is resumed.
            reason: Why a worker stops, in a few words, for the orchestrator of its team.
        """
        try:
            await self._runner.stop(removed=removed)
        finally:  # also if this is cancelled: the agent accepts no more prompts
            if self._team is not None:
                await self._team.leave(self, removed=removed, reason=reason)

    async def rewind_to_message(self, message_id: int) -> None:
        """Go back to just before a message.

        The message and all that came after it in the session, of all agents, is taken back; running turns are stopped
        first. For an agent without a session there is nothing to do.

        Args:
            message_id: The id of the message; see `AgentState.messages`.

        Raises:
            SessionError: If the session cannot go back.
            AgentStoppedError: After `stop`; another agent of the session can go back.
        """
        self._runner.require_not_stopped()
        await self._recorder.take_back(message_id)

    def request(self) -> Context:
        """Build the next request as it stands.

        Returns:
            The whole system prompt, the tools and the messages.
        """
        self._runner.refresh_prompt_parts()
        return self._setup.context(self._runner.window.messages())

    async def preview(self) -> RequestPreview:
        """Build the HTTP request that the next turn would begin with, without sending it.

        Returns:
            Method, URL, headers without secrets, JSON body, and warnings about options that would be left out.

        Raises:
            ModelError: The model or its wire format cannot express a part of the request.
        """
        return await self._setup.client.preview(self.model, self.request(), self.options)

    def estimate_tokens(self, content: str | Sequence[UserPart] | None = None) -> int:
        """Estimate the size of the next request: the system prompt, the tools and the messages.

        Args:
            content: A prompt to count as well, None for none.

        Returns:
            Tokens: what the model counted last, and an estimate of what came after.

        Raises:
            UsageError: If `content` is neither text nor parts.

        Example:
            >>> from planck_nb.testing import scripted_model
            >>> agent = Agent(model=scripted_model([]), system_prompt="Be brief.")
            >>> agent.estimate_tokens("What is the weather like?") > agent.estimate_tokens() > 0
            True
        """
        added = () if content is None else (UserMessage(content),)
        window = self._runner.window
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # there is no client yet that knows more about the model
            return self._setup.estimate_tokens([*window.messages(), *added])
        return window.usage(added).tokens


def prompt_of(content: str | Sequence[UserPart]) -> UserMessage:
    """The content as a message. Raises `UsageError` if a model could read nothing in it."""
    prompt = UserMessage(content)
    if any(part.type != "text" or part.text.strip() for part in prompt.content):
        return prompt
    raise UsageError("The prompt is empty; write what the agent is to do, or let it go on with `agent.continue_()`.")


def _as_model(model: Model | str) -> Model:
    if isinstance(model, str):
        return get_model(model)
    if not isinstance(model, Model):
        raise UsageError(f"{model!r} is not a model; pass a Model, or its name such as 'anthropic:claude-sonnet-4-6'.")
    return model
