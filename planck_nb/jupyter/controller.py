"""What the magics do, without IPython: start runs, answer the verbs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from planck_nb.agent.agent import Agent
from planck_nb.agent.run import Run
from planck_nb.ai import discover, list_providers
from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter import namespace as notebook
from planck_nb.jupyter.options import OPTIONS
from planck_nb.workspace import Workspace

if TYPE_CHECKING:
    import pandas as pd

Namespace: TypeAlias = Mapping[str, object]

DEFAULT_AGENT = "planck"
SYSTEM_PROMPT = (
    "You work in a Jupyter notebook, beside the person who writes it. Use your tools when they help. "
    "Answer in short, plain Markdown."
)


class Text(str):
    """A line or a few for a person, shown as they are."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Started:
    """A run on its way. `notice` is a line to show first, empty when there is nothing to say."""

    agent: Agent
    run: Run
    notice: str


@dataclass(frozen=True, slots=True)
class Verb:
    """One `%planck verb`."""

    name: str
    usage: str
    help: str
    answer: Callable[[Controller, str, Namespace], Awaitable[object]]


class Controller:
    """The state behind the magics of one notebook: a workspace and the agent one talks to."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.current = DEFAULT_AGENT
        """Name of the agent that was talked to last."""

    async def start(self, prompt: str, options: Mapping[str, Any], namespace: Namespace) -> Started:
        """Prompt an agent: the named one, else the one talked to last. Raises a `PlanckError` before anything runs."""
        if not prompt.strip():
            raise UsageError("There is no prompt; write it after %planck, or on the lines below %%planck.")
        agent, notice = await self._agent(options)
        self._configure(agent, options, namespace)
        values: list[str] = []
        for name in notebook.mentioned(prompt, namespace):
            if notebook.is_function(namespace[name]):
                agent.add_tool(*notebook.tools_named([name], namespace))
            else:
                values.append(notebook.describe(name, namespace[name]))
        return Started(agent, agent.prompt("\n\n".join([prompt.strip(), *values])), notice)

    async def verb(self, name: str, argument: str, namespace: Namespace) -> object:
        """Answer a verb with something that shows itself: text or a table."""
        return await VERBS[name].answer(self, argument.strip(), namespace)

    async def close(self) -> None:
        """Stop everything."""
        await self.workspace.close()

    async def _agent(self, options: Mapping[str, Any]) -> tuple[Agent, str]:
        """The agent that the options ask for, made where there is none yet."""
        name = options.get("agent", self.current)
        model = self.workspace.model(options["model"]) if "model" in options else None
        notice = ""
        if options.get("new") and name in self.workspace.agents:
            before = self.workspace.agents[name]
            model = model or before.model
            await self.workspace.remove_agent(name)
        if name not in self.workspace.agents:
            if model is None:
                model, notice = await self.workspace.default_model()
            self.workspace.add_agent(name, model=model, system_prompt=SYSTEM_PROMPT)
        agent = self.workspace.agent(name)
        if model is not None and agent.model != model:
            agent.model = model
        self.current = name
        return agent, notice

    def _configure(self, agent: Agent, options: Mapping[str, Any], namespace: Namespace) -> None:
        for tool in notebook.tools_named(options.get("tools", ()), namespace):
            agent.add_tool(tool)
        if "system" in options and options["system"] != agent.system_prompt:
            agent.system_prompt = options["system"]
        wished = {
            field: options[name]
            for name, field in (("max-tokens", "max_tokens"), ("temperature", "temperature"), ("thinking", "thinking"))
            if name in options
        }
        if wished:
            agent.options = replace(agent.options, **wished)

    # The verbs.

    async def _help(self, argument: str, _namespace: Namespace) -> object:
        if argument:
            verb = VERBS.get(argument)
            if verb is None:
                raise UsageError(f"%planck has no verb {argument}. {did_you_mean(argument, VERBS)}")
            return Text(f"%planck {verb.usage}\n    {verb.help}")
        return Text(_help_text())

    async def _model(self, argument: str, _namespace: Namespace) -> object:
        if len(argument.split()) > 1:
            raise UsageError(f"`%planck model` takes one model; to send a prompt write `%planck -- model {argument}`.")
        if argument:
            model = self.workspace.model(argument)
            self.workspace.set_default_model(model)
            if self.current in self.workspace.agents:
                self.workspace.agent(self.current).model = model
            return Text(f"{model} answers from now on.")
        if self.current in self.workspace.agents:
            return Text(f"{self.workspace.agent(self.current).model} answers.")
        model, notice = await self.workspace.default_model()
        return Text(f"{model} answers.\n{notice}".rstrip())

    async def _models(self, argument: str, _namespace: Namespace) -> object:
        if argument and argument not in list_providers():
            raise UsageError(f"There is no provider {argument}. {did_you_mean(argument, list_providers())}")
        rows = []
        for provider in [argument] if argument else list_providers():
            for model in await discover(provider):
                price = model.pricing
                rows.append(
                    {
                        "model": str(model),
                        "context_window": model.context_window,
                        "max_output": model.max_output,
                        "thinking": model.thinking,
                        "usd_per_mtok_in": price.input if price else None,
                        "usd_per_mtok_out": price.output if price else None,
                    }
                )
        columns = ["model", "context_window", "max_output", "thinking", "usd_per_mtok_in", "usd_per_mtok_out"]
        return _table(rows, columns)

    async def _agents(self, argument: str, _namespace: Namespace) -> object:
        _takes_nothing("agents", argument)
        rows = []
        for name, agent in self.workspace.agents.items():
            state = agent.state
            rows.append(
                {
                    "agent": name,
                    "model": state.model,
                    "status": state.status,
                    "turns": state.turn + 1,
                    "messages": len(state.messages),
                    "tokens": state.usage.total_tokens,
                    "cost_usd": state.cost,
                }
            )
        return _table(rows, ["agent", "model", "status", "turns", "messages", "tokens", "cost_usd"])

    async def _abort(self, argument: str, _namespace: Namespace) -> object:
        agents = [self.workspace.agent(argument)] if argument else list(self.workspace.agents.values())
        running = [agent for agent in agents if agent.status != "idle"]
        await asyncio.gather(*(agent.abort() for agent in running))
        if not running:
            return Text("Nothing is running.")
        return Text(f"Stopped {', '.join(agent.name for agent in running)}. What was written so far is kept.")

    async def _sessions(self, argument: str, _namespace: Namespace) -> object:
        _takes_nothing("sessions", argument)
        return await self._query("SELECT * FROM sessions ORDER BY created DESC", {})

    async def _sql(self, argument: str, namespace: Namespace) -> object:
        if not argument:
            raise UsageError(
                "`%planck sql` needs a query, such as `%planck sql SELECT role, text FROM messages`; "
                "the views are messages, sessions, agents, tool_calls and usage."
            )
        return await self._query(argument, notebook.data_frames(namespace))

    async def _usage(self, argument: str, _namespace: Namespace) -> object:
        _takes_nothing("usage", argument)
        sql = "SELECT agents.name AS agent, usage.* FROM usage JOIN agents USING (session_id, agent_id)"
        rows = await self._query(sql, {})
        mine = rows[rows["session_id"] == self.workspace.session.id]
        return mine.drop(columns=["session_id", "session_name", "agent_id"]).reset_index(drop=True)

    async def _tools(self, argument: str, _namespace: Namespace) -> object:
        name = argument or self.current
        agent = self.workspace.agent(name) if argument or name in self.workspace.agents else None
        rows = [
            {
                "tool": tool.name,
                "description": tool.description.partition("\n")[0],
                "arguments": ", ".join(tool.parameters.get("properties", {})),
            }
            for tool in (agent.tools if agent else ())
        ]
        return _table(rows, ["tool", "description", "arguments"])

    async def _query(self, sql: str, frames: Mapping[str, object]) -> pd.DataFrame:
        return await self.workspace.query_async(sql, frames=frames)


def _verbs(*verbs: Verb) -> dict[str, Verb]:
    return {verb.name: verb for verb in verbs}


VERBS = _verbs(
    Verb("help", "help [verb]", "what %planck can do", Controller._help),  # noqa: SLF001 - the class's own table
    Verb("model", "model [provider:model]", "show or choose the model that answers", Controller._model),  # noqa: SLF001
    Verb("models", "models [provider]", "list the models that are known, with sizes and prices", Controller._models),  # noqa: SLF001
    Verb("agents", "agents", "list the agents of this notebook", Controller._agents),  # noqa: SLF001
    Verb("tools", "tools [agent]", "list what an agent can call", Controller._tools),  # noqa: SLF001
    Verb("abort", "abort [agent]", "stop what runs; the text so far is kept", Controller._abort),  # noqa: SLF001
    Verb("sessions", "sessions", "list the stored sessions", Controller._sessions),  # noqa: SLF001
    Verb("sql", "sql SELECT …", "ask the stored history; also as %%planck sql", Controller._sql),  # noqa: SLF001
    Verb("usage", "usage", "tokens and cost of this session, by agent and model", Controller._usage),  # noqa: SLF001
)


def _help_text() -> str:
    lines = [
        "%planck PROMPT               say something to the agent",
        "%%planck [agent] [options]   the same, with the prompt on the lines below",
        "x = %planck PROMPT           keep the answer; @name in a prompt hands over a function or shows a value",
        "",
    ]
    lines += [f"%planck {verb.usage:<24} {verb.help}" for verb in VERBS.values()]
    lines += ["", "Options, before the prompt:"]
    for option in OPTIONS:
        flags = f"-{option.short}, --{option.name}" if option.short else f"--{option.name}"
        lines.append(f"  {f'{flags} {option.value or str()}':<28} {option.help}")
    return "\n".join(lines)


def _takes_nothing(verb: str, argument: str) -> None:
    if argument:
        raise UsageError(f"`%planck {verb}` takes nothing more; to send a prompt write `%planck -- {verb} {argument}`.")


def _table(rows: Sequence[Mapping[str, object]], columns: list[str]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - half a second, paid with the first table

    return pd.DataFrame(rows, columns=columns)
