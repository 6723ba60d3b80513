"""`%planck verb`: what each one answers, without IPython. An answer shows itself: text, or a table."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from planck_nb.ai import Cassette, discover, list_providers
from planck_nb.ai.cassettes import MODES, Mode
from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.controller import Controller, Namespace
from planck_nb.jupyter.namespace import data_frames
from planck_nb.jupyter.options import OPTIONS, parse_name
from planck_nb.sessions import VIEWS

if TYPE_CHECKING:
    import pandas as pd

Answering: TypeAlias = Callable[[Controller, str, Namespace], Awaitable[object]]
"""What a verb does with what follows it and the names of the notebook."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: how it is written, what it is for, what it does."""

    usage: str
    help: str
    answer: Answering


class Text(str):
    """A line or a few for a person, shown as they are."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


async def _help(_controller: Controller, argument: str, _namespace: Namespace) -> Text:
    if not argument:
        return Text(_everything())
    verb = VERBS.get(argument)
    if verb is None:
        raise UsageError(f"%planck has no verb {argument}. {did_you_mean(argument, VERBS)}")
    return Text(f"%planck {verb.usage}\n    {verb.help}")


async def _model(controller: Controller, argument: str, _namespace: Namespace) -> Text:
    workspace = controller.workspace
    name, parsed = parse_name(argument)
    if parsed.rest or set(parsed.options) - {"base-url"}:
        raise UsageError("`%planck model` takes one model, and `--base-url` where its server is elsewhere.")
    agent = workspace.agents.get(controller.current)
    if name:
        model = workspace.model(name, base_url=parsed.options.get("base-url"))
        workspace.set_default_model(model)
        if agent is not None:
            agent.model = model
        return Text(f"{model} answers from now on.")
    model, notice = (agent.model, "") if agent else await workspace.default_model()
    return Text(f"{model} answers.\n{notice}".rstrip())


async def _models(_controller: Controller, argument: str, _namespace: Namespace) -> pd.DataFrame:
    providers = list_providers()
    if argument and argument not in providers:
        raise UsageError(f"There is no provider {argument}. {did_you_mean(argument, providers)}")
    found = await asyncio.gather(*map(discover, [argument] if argument else providers))
    rows = [
        {
            "model": str(model),
            "context_window": model.context_window,
            "max_output": model.max_output,
            "thinking": model.thinking,
            "usd_per_mtok_in": model.pricing.input if model.pricing else None,
            "usd_per_mtok_out": model.pricing.output if model.pricing else None,
        }
        for models in found
        for model in models
    ]
    return _table(rows, ["model", "context_window", "max_output", "thinking", "usd_per_mtok_in", "usd_per_mtok_out"])


async def _agents(controller: Controller, argument: str, _namespace: Namespace) -> pd.DataFrame:
    _takes_nothing("agents", argument)
    states = {name: agent.state for name, agent in controller.workspace.agents.items()}
    rows = [
        {
            "agent": name,
            "model": state.model,
            "status": state.status,
            "turns": state.turn + 1,
            "messages": len(state.messages),
            "tokens": state.usage.total_tokens,
            "cost_usd": state.cost,
        }
        for name, state in states.items()
    ]
    return _table(rows, ["agent", "model", "status", "turns", "messages", "tokens", "cost_usd"])


async def _tools(controller: Controller, argument: str, _namespace: Namespace) -> pd.DataFrame:
    agent = controller.workspace.agent(argument) if argument else controller.workspace.agents.get(controller.current)
    rows = [
        {
            "tool": tool.name,
            "description": tool.description.partition("\n")[0],
            "arguments": ", ".join(tool.parameters.get("properties", {})),
        }
        for tool in (agent.tools if agent else ())
    ]
    return _table(rows, ["tool", "description", "arguments"])


async def _abort(controller: Controller, argument: str, _namespace: Namespace) -> Text:
    workspace = controller.workspace
    agents = [workspace.agent(argument)] if argument else list(workspace.agents.values())
    running = [agent for agent in agents if agent.status != "idle"]
    await asyncio.gather(*(agent.abort() for agent in running))
    if not running:
        return Text("Nothing is running.")
    return Text(f"Stopped {', '.join(agent.name for agent in running)}. What was written so far is kept.")


async def _cassette(controller: Controller, argument: str, _namespace: Namespace) -> Text:
    workspace = controller.workspace
    mode, _, name = argument.partition(" ")
    name = name.strip().strip("'\"")
    if mode and (mode not in MODES or (mode == "off") == bool(name)):
        raise UsageError("Write `%planck cassette off`, or record, replay or auto with a file: `cassette auto FILE`.")
    if mode == "off":
        workspace.cassette = None
    elif mode:
        cassette = Cassette(name, cast("Mode", mode))
        said = _describe(cassette)  # reads the file, so that one that cannot be used changes nothing
        workspace.cassette = cassette
        return said
    return _describe(workspace.cassette)


def _describe(cassette: Cassette | None) -> Text:
    if cassette is None or cassette.mode == "off":
        return Text("No cassette: models are asked and nothing is recorded.")
    held = f"{cassette.answers} answer{'' if cassette.answers == 1 else 's'}"
    said = {
        "record": f"Models are asked, and what they answer is recorded in {cassette.path}.",
        "replay": f"Answers come from {cassette.path} ({held}); no model is asked.",
        "auto": f"Answers come from {cassette.path} where it has them; others are asked for and recorded there.",
    }[cassette.mode]
    return Text(f"{said}\n{cassette.problem or ''}".rstrip())


async def _sessions(controller: Controller, argument: str, _namespace: Namespace) -> pd.DataFrame:
    _takes_nothing("sessions", argument)
    return await controller.workspace.query_async("SELECT * FROM sessions ORDER BY created DESC")


async def _sql(controller: Controller, argument: str, namespace: Namespace) -> pd.DataFrame:
    if not argument:
        views = ", ".join(VIEWS)
        raise UsageError(f"`%planck sql` needs a query over the views {views}; for example {_EXAMPLE}.")
    return await controller.workspace.query_async(argument, frames=data_frames(namespace))


async def _usage(controller: Controller, argument: str, _namespace: Namespace) -> pd.DataFrame:
    _takes_nothing("usage", argument)
    return await controller.workspace.query_async(
        "SELECT agents.name AS agent, usage.* EXCLUDE (session_id, session_name, agent_id) "
        "FROM usage JOIN agents USING (session_id, agent_id) WHERE session_id = getvariable('session') ORDER BY ALL"
    )


VERBS = {
    "help": Verb("help [verb]", "what %planck can do", _help),
    "model": Verb(
        "model [provider:model]", "show or choose the model that answers; --base-url URL: its server", _model
    ),
    "models": Verb("models [provider]", "list the models that are known, with sizes and prices", _models),
    "agents": Verb("agents", "list the agents of this notebook", _agents),
    "tools": Verb("tools [agent]", "list what an agent can call", _tools),
    "abort": Verb("abort [agent]", "stop what runs; the text so far is kept", _abort),
    "cassette": Verb("cassette [MODE FILE]", "what models answer: record, replay, auto (both), or off", _cassette),
    "sessions": Verb("sessions", "list the stored sessions", _sessions),
    "sql": Verb("sql SELECT …", "ask the stored history; also as %%planck sql", _sql),
    "usage": Verb("usage", "tokens and cost of this session, by agent and model", _usage),
}
"""All verbs by name."""


_EXAMPLE = "`%planck sql SELECT role, text FROM messages`"


def _everything() -> str:
    lines = [
        "%planck PROMPT               say something to the agent",
        "%%planck [agent] [options]   the same, with the prompt on the lines below",
        "x = %planck PROMPT           keep the answer; @name in a prompt hands over a function or shows a value",
        "",
        *(f"%planck {verb.usage:<24} {verb.help}" for verb in VERBS.values()),
        "",
        "Options, before the prompt:",
    ]
    for option in OPTIONS:
        flags = f"-{option.short}, --{option.name}" if option.short else f"--{option.name}"
        lines.append(f"  {f'{flags} {option.value or str()}':<28} {option.help}")
    return "\n".join(lines)


def _takes_nothing(verb: str, argument: str) -> None:
    if argument:
        raise UsageError(f"`%planck {verb}` takes nothing more.")


def _table(rows: Sequence[Mapping[str, object]], columns: list[str]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - half a second, paid with the first table

    return pd.DataFrame(rows, columns=columns)
