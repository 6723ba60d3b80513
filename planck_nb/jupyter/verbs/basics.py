"""Verbs about models, agents and what they can call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from planck_nb.ai import Cassette, discover, list_providers
from planck_nb.ai.cassettes import MODES, Mode
from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.options import parse_name
from planck_nb.jupyter.verbs.verb import Notebook, Text, Verb, table, takes_nothing

if TYPE_CHECKING:
    import pandas as pd


async def _model(controller: Controller, argument: str, _notebook: Notebook) -> Text:
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


async def _models(_controller: Controller, argument: str, _notebook: Notebook) -> pd.DataFrame:
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
    return table(rows, ["model", "context_window", "max_output", "thinking", "usd_per_mtok_in", "usd_per_mtok_out"])


async def _agents(controller: Controller, argument: str, _notebook: Notebook) -> pd.DataFrame:
    takes_nothing("agents", argument)
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
    return table(rows, ["agent", "model", "status", "turns", "messages", "tokens", "cost_usd"])


async def _tools(controller: Controller, argument: str, _notebook: Notebook) -> pd.DataFrame:
    agent = controller.workspace.agent(argument) if argument else controller.workspace.agents.get(controller.current)
    rows = [
        {
            "tool": tool.name,
            "description": tool.description.partition("\n")[0],
            "arguments": ", ".join(tool.parameters.get("properties", {})),
        }
        for tool in (agent.tools if agent else ())
    ]
    return table(rows, ["tool", "description", "arguments"])


async def _abort(controller: Controller, argument: str, _notebook: Notebook) -> Text:
    workspace = controller.workspace
    agents = [workspace.agent(argument)] if argument else list(workspace.agents.values())
    running = [agent for agent in agents if agent.status != "idle"]
    waited = [agent.name for agent in running if agent.state.queue]
    await asyncio.gather(*(agent.abort() for agent in running))
    if not running:
        return Text("Nothing is running.")
    said = f"Stopped {', '.join(agent.name for agent in running)}. What was written so far is kept."
    if waited:
        said += f" Prompts that waited for {', '.join(waited)} are answered now; `%planck abort` again stops that."
    return Text(said)


async def _cassette(controller: Controller, argument: str, _notebook: Notebook) -> Text:
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


VERBS = {
    "model": Verb(
        "model [provider:model]", "show or choose the model that answers; --base-url URL: its server", _model
    ),
    "models": Verb("models [provider]", "list the models that are known, with sizes and prices", _models),
    "agents": Verb("agents", "list the agents of this notebook", _agents),
    "tools": Verb("tools [agent]", "list what an agent can call", _tools),
    "abort": Verb("abort [agent]", "stop what runs; the text so far is kept", _abort),
    "cassette": Verb("cassette [MODE FILE]", "what models answer: record, replay, auto (both), or off", _cassette),
}
