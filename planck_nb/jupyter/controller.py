"""Prompts without IPython: finds or creates the agent, and starts the run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import compactor_of, use_compactor
from planck_nb.agent.approval import Rule
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.run import Run
from planck_nb.agent.run_group import within_group
from planck_nb.ai.messages import AssistantMessage, TextPart, UserPart
from planck_nb.base.errors import AgentError, UsageError, did_you_mean
from planck_nb.jupyter import namespace as notebook
from planck_nb.jupyter.kernel_tools.executed_cells import ExecutedCells
from planck_nb.jupyter.kernel_tools.kernel_tool_names import ALL_NAMES, READING_TOOLS, RUN_PYTHON
from planck_nb.jupyter.kernel_tools.name_changes import NameChanges
from planck_nb.jupyter.kernel_tools.readable_names import ReadableNames, reader_id
from planck_nb.jupyter.notebook_answers import Answers
from planck_nb.jupyter.open_questions import OpenQuestions
from planck_nb.jupyter.prompts.expansion import expanded, hint
from planck_nb.jupyter.prompts.file_mentions import mentioned_files
from planck_nb.jupyter.prompts.mentions import mentions
from planck_nb.jupyter.prompts.output_types import output_type
from planck_nb.jupyter.prompts.prompt_content import PromptContent, content_of
from planck_nb.jupyter.prompts.resource_mentions import read_resources, resource_mentions, without_resources
from planck_nb.jupyter.team_prompts import model_of, require_team_options, team_to_prompt
from planck_nb.teams import Team
from planck_nb.workspace import Workspace
from planck_nb.workspace.agent_names import find_agent, named_agents
from planck_nb.workspace.installation_findings import Finding
from planck_nb.workspace.sidecars import ShowWait

Namespace: TypeAlias = Mapping[str, object]

_WORD = re.compile(r"[\w.-]*\w")

DEFAULT_AGENT = "planck"
SYSTEM_PROMPT = (
    "You work in a Jupyter notebook, beside the person who writes it. Use your tools when they help. "
    "Answer in short, plain Markdown."
)


_QUESTION_MARKS = "?\uff1f\u061f\u037e"
_LAST_PARAGRAPHS = 2
"""An answer's final paragraphs, as choices often follow a question."""


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run in progress, and those to show after it.

    Args:
        agent: Its agent.
        run: The run.
        notice: Lines to show first; may be empty.
        later: The runs to show after it.
        offers_cell: Whether its answer has a cell for the notebook.
    """

    agent: Agent
    run: Run
    notice: str
    later: tuple[Run, ...] = ()
    offers_cell: bool = False


class LiveTable(Protocol):
    """A table that follows the agents."""

    def finish(self) -> None:
        """Stop following them."""
        ...


class Controller:
    """The state behind the magics of one notebook: a workspace, and the agent that gets prompts without a name.

    Args:
        workspace: The notebook's workspace.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.questions = OpenQuestions()
        """The questions of sidecars that wait for the person."""
        if workspace.sidecars.ask is None:
            workspace.sidecars.ask = self.questions.ask
        self.default = DEFAULT_AGENT
        """Name of the agent or team that gets prompts without a name."""
        self.prompted: Agent | None = None
        """The agent that was prompted last; of a team, its orchestrator."""
        self.readable = ReadableNames(lambda: self.workspace.readable_names)
        """Which variables agents may list and inspect."""
        self.name_changes: NameChanges | None = None
        """What agents did to variables; None outside a notebook."""
        self.cells: ExecutedCells | None = None
        """The cells executed by people; None outside a notebook."""
        self.shown_calls: set[tuple[str, str, float]] = set()
        """The waiting calls that were shown as text: the id of the agent, all of the text, and the deadline."""
        self.shown_trust: set[tuple[Path, str, str]] = set()
        """Paths, digests and texts in complete listings by `%planck trust`."""
        self.news_for: Callable[[str], str] = lambda _agent_id: ""
        """Returns what people decided since an agent's last prompt, which begins its next one."""
        self.examine_pages: Callable[[], Sequence[Finding]] = tuple
        """Returns findings about the notebook's pages."""
        self.answers = Answers()
        """The answers that cells have shown."""
        self._live_table: LiveTable | None = None
        self._closing: list[Callable[[], Awaitable[None]]] = []
        self._making = asyncio.Lock()
        self._cells: list[tuple[Agent, list[Run]]] = []

    async def start(
        self,
        prompt: str,
        options: Mapping[str, Any],
        namespace: Namespace,
        *,
        parts: Sequence[UserPart] = (),
        show_wait: ShowWait | None = None,
    ) -> StartedRun:
        """Prompt an agent or a team: the one that the options name, else the default agent.

        A team that `team` names is started if it is not running; the run is then that of the whole team.

        Args:
            prompt: The text of the prompt. `@name` in it gives the agent a function of the notebook, or shows a value,
                as an image if it is one; `@sidecar:uri` shows a resource of a sidecar.
            options: Values of `planck_nb.jupyter.parsing.options.OPTIONS` by name.
            namespace: The variables of the notebook.
            parts: Parts of the prompt that nobody typed, so that nothing in them is a mention; they follow `prompt`.
            show_wait: Shows the wait for starting sidecars.

        Returns:
            The run with its agent.

        Raises:
            PlanckError: There is no prompt, or an option cannot be used. Nothing was sent.
        """
        if not prompt.strip() and not parts:
            raise UsageError("There is no prompt; write it after %planck, or on the lines below %%planck.")
        gone = self.check_default()
        team_name = self._team_name(options)
        if options.get("tools") or not (team_name or self._name(options) in named_agents(self.workspace)):
            self.workspace.require_trusted_settings()
        sidecars = self.workspace.sidecars
        resources = resource_mentions(prompt, sidecars.known_names() if "@" in prompt else ())
        files = mentioned_files(
            without_resources(prompt, resources), self.workspace.config.root, namespace, self.workspace.toolbox.read
        )
        included = [name for name in options.get("with", ()) if name != ALL_NAMES]
        handed_over = mentions(files.prompt, namespace, included)
        text = prompt.strip()
        explanations: tuple[str, ...] = (hint(text, namespace),)
        if options.get("expand"):  # inserted values have no mentions
            text, explanations = expanded(text, namespace, included)
        content = content_of(text, handed_over.values, [*options.get("image", ()), *files.images], namespace, included)
        output = output_type(options["output"], namespace) if "output" in options else None
        explanations += tuple(await self._wait_for_sidecars(prompt, options, team_name, show_wait))
        named = [*options.get("tools", ()), *handed_over.functions]
        tools = notebook.tools_named(named, namespace, self.workspace.toolbox)
        self.workspace.compactors.own = namespace
        if "compactor" in options:
            self.workspace.compactors.named(options["compactor"])  # before anything else changes
        shown = await read_resources(resources, sidecars.offers)
        allowed = self._remember_rules(options, tools)
        team: Team | None = None
        async with self._making:
            if team_name:
                model = await model_of(self.workspace, options)
                if (running := self.workspace.teams.get(team_name)) is not None:
                    content.require_model(model or running.orchestrator.model)
                team, notice = await team_to_prompt(self.workspace, team_name, options, namespace)
                agent = team.orchestrator
                content.require_model(agent.model)
            else:
                agent, notice = await self._agent(options, content)
        self.prompted = agent
        sent, carried = replace(content, texts=(*content.texts, *files.texts, *shown.texts)).parts(agent.model)
        notices = [*self.workspace.notices(), gone, notice, *handed_over.notices, *explanations, *carried]
        notices += [files.notice, shown.notice]
        for tool in tools:
            agent.add_tool(tool)
        self._share(agent, options, handed_over.values)
        _configure(agent, options)
        await self.workspace.save_session_settings()
        whole = _after_news(self.news_for(agent.id), _content(sent, [*shown.images, *parts]))
        if team is None:  # what it allows is not for other prompts, so it joins none
            run = agent.prompt(whole, output=output, join=not allowed, allow=allowed)
        else:
            run = team.prompt(whole, output=output)
        return StartedRun(agent, run, "\n".join(filter(None, notices)))

    async def _wait_for_sidecars(
        self, prompt: str, options: Mapping[str, Any], team_name: str, show_wait: ShowWait | None
    ) -> list[str]:
        """Start the sidecars for a prompt, and return sentences about missing tools."""
        before = named_agents(self.workspace).get(self._name(options))
        gets_tools = team_name not in self.workspace.teams if team_name else before is None or _has_all_sidecars(before)
        if not (gets_tools or options.get("tools")):
            return []
        needed = self._needed_sidecars(prompt, options) if self.workspace.config.sidecar_wait == "named" else None
        return await self.workspace.sidecars.start_configured(needed, show_wait)

    def _needed_sidecars(self, prompt: str, options: Mapping[str, Any]) -> Collection[str] | None:
        """Return the sidecars in a prompt, None for all.

        A tool with an unknown name may be any sidecar's.
        """
        rules = options.get("allow", ())
        words = _WORD.findall(" ".join([prompt, *options.get("tools", ()), *map(str, rules)]))
        needed = set(words).intersection(self.workspace.sidecars.known_names())
        tools = {*options.get("tools", ()), *(rule.tool for rule in rules)} - {"*", *needed}
        return needed if all(map(self.workspace.toolbox.has, tools)) else None

    def _remember_rules(self, options: Mapping[str, Any], tools: Iterable[Tool]) -> frozenset[str]:
        """Remember the rules in the options. Returns the tools that are allowed for this prompt only."""
        unrestricted = {RUN_PYTHON, *(tool.name for tool in tools if tool.unrestricted)}
        allowed = allowed_in_cell(options.get("allow", ()), unrestricted)
        rules = [rule for rule in options.get("allow", ()) if rule.tool not in allowed]
        for rule in (*rules, *options.get("deny", ())):
            self.workspace.approvals.remember(rule)
        return allowed

    def _share(self, agent: Agent, options: Mapping[str, Any], mentioned: Iterable[str]) -> None:
        """Limit the kernel tools to variables in `--with` and the prompt."""
        team = [
            other for other in named_agents(self.workspace).values() if agent.team_id and other.team_id == agent.team_id
        ]
        if "with" in options and any(tool.name in READING_TOOLS for each in team or [agent] for tool in each.tools):
            self.readable.share(reader_id(agent), options["with"])
        self.readable.add(reader_id(agent), mentioned)

    def agent(self, name: str = "") -> Agent:
        """Return the agent of this name, or the default agent.

        Args:
            name: The agent's name as `find_agent` accepts it; empty for the default agent.

        Returns:
            The agent. Of a team, that is its orchestrator.

        Raises:
            AgentError: There is no such agent.
        """
        if not named_agents(self.workspace):
            earlier = "" if not self.workspace.sessions() else ", and `%planck resume` continues an earlier session"
            raise AgentError(f"There is no agent yet; the first prompt makes one{earlier}.")
        current = None if name else self.current_agent
        return current or find_agent(self.workspace, name or self.default)

    @property
    def default_agent(self) -> Agent | None:
        """The agent that gets prompts without a name, None if it does not exist; of a team, its orchestrator."""
        agent = named_agents(self.workspace).get(self.default)
        team = self.workspace.teams.get(self.default)
        return agent if agent is not None or team is None else team.orchestrator

    @property
    def current_agent(self) -> Agent | None:
        """The agent that verbs without a name are about: the default agent, or else the only one there is."""
        if (agent := self.default_agent) is not None:
            return agent
        agents = [*self.workspace.agents.values(), *(team.orchestrator for team in self.workspace.teams.values())]
        return agents[0] if len(agents) == 1 else None

    @property
    def is_asked(self) -> bool:
        """True if the default agent's last answer ends with a question."""
        agent = self.default_agent
        last = agent.state.messages[-1].message if agent is not None and agent.state.messages else None
        ending = last.text.strip().split("\n\n")[-_LAST_PARAGRAPHS:] if isinstance(last, AssistantMessage) else []
        return any(mark in paragraph for paragraph in ending for mark in _QUESTION_MARKS)

    def use(self, name: str) -> None:
        """Send prompts without a name to an agent or a team from now on.

        Args:
            name: The name of an agent or of a running team, or that of the default agent of a new notebook.

        Raises:
            AgentError: There is no such agent or team.
        """
        if name not in {*self.recipients, DEFAULT_AGENT}:
            hint = did_you_mean(name, {*self.recipients, DEFAULT_AGENT})
            raise AgentError(f"There is no agent or team named {name}. {hint} `%%planck {name}` makes an agent.")
        self.default = name

    @property
    def recipients(self) -> set[str]:
        """The names of the agents and teams that can be prompted."""
        return {*named_agents(self.workspace), *self.workspace.teams}

    async def next_agent(self) -> Agent:
        """Return the agent that gets the next prompt; if that is still to be created, one like it.

        Returns:
            The agent.

        Raises:
            PlanckError: No model can be used.
        """
        if (agent := self.default_agent) is not None:
            return agent
        model, _ = await self.workspace.default_model()
        prompt_parts = self.workspace.toolbox.prompt_parts
        return Agent(name=self.default, model=model, system_prompt=SYSTEM_PROMPT, prompt_parts=prompt_parts)

    @contextmanager
    def shown(self, agent: Agent, runs: list[Run]) -> Iterator[None]:
        """While a cell shows these runs one after another, add the runs that `steer` starts to them."""
        cell = (agent, runs)
        self._cells.append(cell)
        try:
            yield
        finally:
            self._cells.remove(cell)

    def steer(self, agent: Agent, text: str) -> None:
        """Steer the agent.

        If its turn ends before it reads the text, the text becomes a prompt, and the cell that shows the turn shows
        the answer as well.

        Args:
            agent: The agent, which is running.
            text: What it is to read before its next step.
        """
        whole = self._team_run_of(agent)
        with within_group(None if whole is None else whole.whole):
            run = agent.steer(text)
        if whole is not None:
            return  # the run of the team shows the answer
        for shown, runs in self._cells:
            if shown is agent and any(other.status == "running" for other in runs):
                runs.append(run)
                break

    def _team_run_of(self, agent: Agent) -> Run | None:
        """The run of the agent's team that a cell shows and that has not ended, None if there is none."""
        if agent.team_id is None:
            return None
        shown = (run for leader, runs in self._cells for run in runs if leader.team_id == agent.team_id)
        return next((run for run in shown if run.whole is not None and run.outcome is None), None)

    def replace_live_table(self, table: LiveTable) -> None:
        """Let this table follow the agents, and stop the one before it."""
        if self._live_table is not None:
            self._live_table.finish()
        self._live_table = table

    def check_default(self) -> str:
        """If the agent or team that gets prompts without a name is gone, go back to the default of a new notebook.

        Returns:
            A sentence that says so, empty if nothing changed.
        """
        if self.prompted is not None and self.prompted not in named_agents(self.workspace).values():
            self.prompted = None
        if self.default == DEFAULT_AGENT or self.default_agent is not None:
            return ""
        gone, self.default = self.default, DEFAULT_AGENT
        return f"{gone} has stopped, so prompts without a name go to {DEFAULT_AGENT} again."

    def on_close(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Await a callback before the workspace is closed; it must not fail."""
        self._closing.append(callback)

    async def close(self) -> None:
        """Close the workspace, which stops all agents."""
        if self._live_table is not None:
            self._live_table.finish()
        while self._closing:
            await self._closing.pop()()
        await self.workspace.close()

    async def _agent(self, options: Mapping[str, Any], content: PromptContent) -> tuple[Agent, str]:
        """The agent that the options name, created if it does not exist; and a notice about its model."""
        name = self._name(options)
        model = await model_of(self.workspace, options)
        notice = ""
        before = named_agents(self.workspace).get(name)
        team, slash, member = name.partition("/")
        if before is None and slash and team in self.workspace.teams:
            members = [agent.name for agent in self.workspace.team(team).agents]
            raise AgentError(f"The team {team} has no member {member}. {did_you_mean(member, members)}".rstrip())
        if before is not None and before.team_id is not None and options.get("new"):
            raise UsageError("--new is for agents outside teams; stop the team and start it again.")
        if before is None:
            if model is None:
                model, notice = await self.workspace.default_model()
            content.require_model(model)
            if "agent" not in options and (others := list(self.workspace.agents)):
                notice = (
                    f"{name} is a new agent; `%planck use {others[0]}` sends such prompts to {others[0]}.\n{notice}"
                )
            own = options.get("compactor")
            agent = self.workspace.add_agent(name, model=model, system_prompt=SYSTEM_PROMPT, on_compact=own)
        elif options.get("new"):
            content.require_model(model or before.model)
            agent = await self._replace_with_empty(before)
        else:
            content.require_model(model or before.model)
            agent = before
        if _has_all_sidecars(agent):
            self.workspace.sidecars.follow(agent)
        if before is not None and "compactor" in options:
            use_compactor(agent, self.workspace.compactor(options["compactor"]))
        if model is not None and agent.model != model:
            agent.model = model
        return agent, notice.strip()

    def _name(self, options: Mapping[str, Any]) -> str:
        """The name of the agent to prompt, which may have to be created."""
        if "agent" in options:
            return str(options["agent"])
        return self.default

    def _team_name(self, options: Mapping[str, Any]) -> str:
        """The name, alias or path of the team to prompt; empty if an agent is prompted."""
        if "team" in options:
            if "agent" in options:
                raise UsageError("A prompt is sent to one agent or one team; write either a name or --team.")
            name = str(options["team"])
        elif "agent" in options:
            name = str(options["agent"])
            agent = named_agents(self.workspace).get(name)
            leads = [known for known, team in self.workspace.teams.items() if team.orchestrator is agent]
            name = next(iter(leads), "") if agent is not None else name if name in self.workspace.teams else ""
        else:
            known = named_agents(self.workspace)
            name = self.default if self.default in self.workspace.teams and self.default not in known else ""
        if name:
            require_team_options(options)
            if allowed_in_cell(options.get("allow", ()), {RUN_PYTHON}):
                raise UsageError(f"{RUN_PYTHON} is allowed for one agent in one cell; approve the calls of a team.")
        return name

    async def _replace_with_empty(self, before: Agent) -> Agent:
        """Replace the agent by one with an empty conversation."""
        await self.workspace.remove_agent(before.name)
        return self.workspace.add_agent(
            before.name,
            model=before.model,
            system_prompt=before.system_prompt,
            tools=before.tools,
            options=before.options,
            description=before.description,
            on_compact=compactor_of(before),
        )


def _has_all_sidecars(agent: Agent) -> bool:
    """Return whether an agent was made here, perhaps in another kernel."""
    return agent.team_id is None and agent.system_prompt == SYSTEM_PROMPT


def _content(content: str | Sequence[UserPart], parts: Sequence[UserPart]) -> str | Sequence[UserPart]:
    """The content of a prompt with more parts, as plain text if it is only that."""
    if not parts:
        return content
    before: Sequence[UserPart] = [TextPart(content)] if isinstance(content, str) and content else ()
    return [*(before if isinstance(content, str) else content), *parts]


def _after_news(news: str, content: str | Sequence[UserPart]) -> str | Sequence[UserPart]:
    """The content of a prompt that begins with news for the agent, if there are any."""
    if not news:
        return content
    return f"{news}\n\n{content}" if isinstance(content, str) else [TextPart(news), *content]


def allowed_in_cell(rules: Iterable[Rule], unrestricted: Collection[str]) -> frozenset[str]:
    """Return the tools that only the prompt of a cell can allow, and that this one allows.

    Args:
        rules: The rules of `--allow`.
        unrestricted: The tools that no rule allows.

    Raises:
        UsageError: A rule would allow such a tool in part, or for some agents.
    """
    found: set[str] = set()
    for rule in rules:
        if rule.tool in unrestricted:
            if rule != Rule("allow", rule.tool):
                raise UsageError(
                    f"{rule.tool} runs any code with your rights, so it cannot be allowed in part; write "
                    f"`--allow {rule.tool}` to let it run without approval in this cell."
                )
            found.add(rule.tool)
    return frozenset(found)


def _configure(agent: Agent, options: Mapping[str, Any]) -> None:
    """Apply the options that change how the agent answers from now on."""
    if "system" in options and options["system"] != agent.system_prompt:
        agent.system_prompt = options["system"]
    fields = {"max-tokens": "max_tokens", "temperature": "temperature", "thinking": "thinking"}
    changed = {field: options[name] for name, field in fields.items() if name in options}
    if changed:
        agent.options = replace(agent.options, **changed)
