"""Verbs about agents, their models, tools and skills."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from planck_nb.agent.agent import Agent
from planck_nb.agent.tokens import estimate, estimate_request, estimate_text
from planck_nb.ai import discover, list_providers, providers
from planck_nb.ai.client import RequestPreview
from planck_nb.ai.message_history.portable_history import prepare
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context
from planck_nb.base.errors import MissingCredentialError, UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.agent_rows import agent_rows, columns_of
from planck_nb.jupyter.controller import DEFAULT_AGENT
from planck_nb.jupyter.display.run_facts import model_name
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import AGENT, FUNCTIONS, MODEL, PROVIDER, RECIPIENT, SERVER_OPTIONS, model_named
from planck_nb.jupyter.parsing.parameters import Extent, Option, Parameter
from planck_nb.jupyter.similar_words import nearest
from planck_nb.jupyter.team_prompts import server_of
from planck_nb.jupyter.verbs.declaration import Text, table, verb
from planck_nb.workspace import Workspace
from planck_nb.workspace.agent_names import full_name

if TYPE_CHECKING:
    import pandas as pd

SUBJECT = "Agents and models"

IN_THIS_PROCESS = (
    "Requests are sent from this kernel. To send them from Dask's workers, set `get_workspace().engine` to a "
    "`planck_nb.engines.DaskEngine()`."
)


def _may_be_default(notebook: Notebook, text: str) -> bool:
    """Recognise agents, teams, and models, which the verb's error explains."""
    is_recipient = RECIPIENT.fits is not None and RECIPIENT.fits(notebook, text)
    return is_recipient or bool(nearest(text, [DEFAULT_AGENT])) or bool(model_named(text, notebook))


_DEFAULT = replace(RECIPIENT, extent=Extent.NAME, fits=_may_be_default)

_MIN_DATA_LENGTH = 2_000
"""A text with this many characters without white space is taken for encoded data."""


@verb(
    "agents",
    SUBJECT,
    "list the agents of this notebook and its teams; as a live table while some run",
    synonyms=("agent", "status", "ps"),
    shows=True,
)
async def agents(notebook: Notebook) -> pd.DataFrame:
    """Return a table of the agents."""
    from planck_nb.jupyter.agents_frame import AgentsFrame  # noqa: PLC0415 - pandas, as in `table`

    rows = agent_rows(notebook.workspace)
    runs = any(row["status"] != "idle" or row["waits_for"] for row in rows)
    columns = columns_of(notebook.workspace, teams=any(row["team"] for row in rows))
    if notebook.controller.default != DEFAULT_AGENT:  # it is shown once it was chosen
        default = notebook.controller.default_agent
        name = None if default is None else full_name(notebook.workspace, default)
        for row in rows:
            row["default"] = "yes" if name == "/".join(filter(None, [row["team"], row["agent"]])) else ""
        columns = [columns[0], "default", *columns[1:]]
    return AgentsFrame(rows, columns, partial(_live_table, notebook) if runs else None)


def _live_table(notebook: Notebook) -> Mapping[str, Any]:
    """The MIME bundle of a live table, which replaces the one before."""
    from planck_nb.jupyter.live.agents_table import AgentsTable  # noqa: PLC0415 - widgets, which terminals do not need

    shown = AgentsTable(notebook.workspace)
    notebook.controller.replace_live_table(shown)
    data, _ = shown._repr_mimebundle_() or ({}, {})
    return data


@verb(
    "model",
    SUBJECT,
    "show or change the model that answers",
    Parameter("model", MODEL, "the model that answers from now on", optional=True),
    *SERVER_OPTIONS,
    example="model anthropic:claude-sonnet-4-6",
    synonyms=("switch model", "change model"),
    shows=True,
)
async def model(notebook: Notebook, model: str | None, base_url: str | None, key_var: str | None) -> Text:
    """Choose the model of the current agent and of those made later, or say which it is."""
    workspace, agent = notebook.workspace, notebook.controller.current_agent
    server = server_of(base_url, key_var, model, "a model")
    if model:
        chosen = await workspace.find_model(model, **server)
        _require_key(workspace, chosen)
        workspace.set_default_model(chosen)
        if agent is not None:
            agent.model = chosen
        return Text(f"{model_name(chosen)} answers from now on.\n{await workspace.absence(chosen)}".rstrip())
    asked, notice = (agent.model, "") if agent else await workspace.default_model()
    return Text(f"{model_name(asked)} answers.\n{notice}".rstrip())


def _require_key(workspace: Workspace, model: Model) -> None:
    """Raise `MissingCredentialError` if the model needs an API key that is not set, with how to set it."""
    try:
        workspace.require_key(model)
    except MissingCredentialError as error:
        variable = error.variable
        raise MissingCredentialError(
            f"{variable} is not set, so {model_name(model)} cannot be used; the model is as before. Set it where "
            f"Jupyter starts, or in a cell: `import os, getpass; os.environ['{variable}'] = getpass.getpass()`.",
            provider=error.provider,
            variable=variable,
        ) from None


@verb(
    "models",
    SUBJECT,
    "list the known models, with sizes and prices",
    Parameter("provider", PROVIDER, "only the models of this provider", optional=True),
    example="models google",
    synonyms=("list",),
    shows=True,
)
async def models(_notebook: Notebook, provider: str | None) -> pd.DataFrame:
    """Return a table of the models."""
    # A vendor is asked for its list only by name: some are long.
    names = [name for name in list_providers() if not providers.lists_many(name)]
    found = await asyncio.gather(*map(discover, [provider] if provider else names))
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


@verb("engine", SUBJECT, "list the workers that send requests to models", synonyms=("workers",), shows=True)
async def engine(notebook: Notebook) -> pd.DataFrame:
    """List the engine's workers."""
    source = notebook.workspace.engine
    rows = [asdict(worker) for worker in source.workers()] if source is not None else []
    empty = IN_THIS_PROCESS if source is None else "No request has been sent yet."
    return table(rows, ["worker", "running", "answered", "failed", "problem"], empty=empty)


@verb(
    "tools",
    SUBJECT,
    "list the tools that an agent can call",
    Parameter("agent", AGENT, "the agent, by default the default agent", optional=True),
    Option("all", None, None, "list everything that `--tools` accepts instead"),
    example="tools analyst",
    synonyms=("tool",),
    shows=True,
)
async def tools(notebook: Notebook, agent: Agent | None, all: bool) -> pd.DataFrame:  # noqa: A002 - the option
    """Return a table of the agent's tools, or of all tools."""
    if all:
        described = FUNCTIONS.suggest(notebook).items()
        return table([{"tool": name, "description": text} for name, text in described], ["tool", "description"])
    agent = agent or notebook.controller.current_agent
    rows = [
        {
            "tool": tool.name,
            "description": tool.description.partition("\n")[0],
            "arguments": ", ".join(tool.parameters.get("properties", {})),
        }
        for tool in (agent.tools if agent else ())
    ]
    return table(
        rows,
        ["tool", "description", "arguments"],
        empty="No tools; `--tools` and `@name` in a prompt give some, and `%planck tools --all` lists what there is.",
    )


@verb("skills", SUBJECT, "list the skills that agents can load", synonyms=("skill",), shows=True)
async def skills(notebook: Notebook) -> object:
    """Return a table of the skills, or a text where some cannot be used."""
    toolbox = notebook.workspace.toolbox
    found = toolbox.skills()
    skipped = [f"{item.path}: {item.reason}" for item in toolbox.skipped()]
    if not found:
        folders = ", ".join(map(str, notebook.workspace.config.skills_dirs)) or "no folder"
        return Text("\n".join([f"No skills. They are looked for in {folders}: <name>/SKILL.md.", *skipped]))
    rows = [{"skill": skill.name, "description": skill.description, "path": skill.path} for skill in found.values()]
    shown = table(rows, ["skill", "description", "path"])
    return shown if not skipped else Text("\n".join([shown.to_string(index=False), "", "Not used:", *skipped]))


@verb(
    "request",
    SUBJECT,
    "print exactly what the next request will send, with token counts",
    Parameter("agent", AGENT, "the agent, by default the default agent", optional=True),
    example="request analyst",
    synonyms=("context",),
    shows=True,
)
async def request(notebook: Notebook, agent: Agent | None) -> Text:
    """Return the text of the agent's next request."""
    return Text(await describe_request(agent or await notebook.controller.next_agent()))


@verb(
    "remove",
    SUBJECT,
    "stop an agent for good",
    Parameter("agent", AGENT, "the agent to stop"),
    example="remove analyst",
)
async def remove(notebook: Notebook, agent: Agent) -> Text:
    """Stop the agent and forget its name."""
    if agent.team_id is not None:
        team = full_name(notebook.workspace, agent).partition("/")[0]
        raise UsageError(f"{agent.name} is in the team {team}; `%planck team stop {team}` stops the team.")
    await notebook.workspace.remove_agent(agent.name)
    default = notebook.controller.check_default()
    return Text(f"{agent.name} stopped for good. What it said stays in the session.\n{default}".rstrip())


@verb(
    "use",
    SUBJECT,
    "choose the agent or team that gets prompts without a name, or show it",
    Parameter("name", _DEFAULT, "the agent or the team", optional=True),
    example="use analyst",
)
async def use(notebook: Notebook, name: str | None) -> Text:
    """Choose the default agent, or say which it is."""
    controller = notebook.controller
    if name and name not in controller.recipients and (model := model_named(name, notebook)):
        raise UsageError(f"{name} is a model; `%planck model {model}` lets it answer.")
    if name:
        controller.use(name)
    return Text(f"{controller.default} gets the prompts that name no agent.")


async def describe_request(agent: Agent) -> str:
    """Describe the agent's next request: the estimated tokens of its parts, and then exactly what is sent."""
    context, preview = agent.request(), await agent.preview()
    return await run_in_thread(partial(_described, agent.model, context, preview))


def _described(model: Model, context: Context, preview: RequestPreview) -> str:
    messages = prepare(context.messages, model)
    window = f" of {model.context_window:,}" if model.context_window else ""
    total = estimate_request(replace(context, messages=messages))
    lines = [f"{model}, about {total:,} tokens{window}"]
    if context.system:
        lines.append(_estimated("system", estimate_text(context.system)))
    lines += [_estimated(f"tool {tool.name}", estimate_request(Context(tools=[tool]))) for tool in context.tools]
    lines += [_estimated(message.type, estimate(message)) for message in messages]
    lines += ["", f"{preview.method} {preview.url}" if preview.url else f"{model} needs no server; it receives:"]
    lines += [f"{name}: {value}" for name, value in preview.headers.items()]
    lines += [*(["", *preview.warnings] if preview.warnings else []), "", _as_yaml(preview.body)]
    return "\n".join(lines)


def _estimated(title: str, tokens: int) -> str:
    return f"── {title} · about {tokens:,} tokens"


def _as_yaml(body: JsonObject) -> str:
    """JSON data as YAML, in which texts of several lines are readable."""
    import yaml  # noqa: PLC0415 - needed for this verb only

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the base class's
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        shown = _without_data(value)
        return dumper.represent_scalar("tag:yaml.org,2002:str", shown, style="|" if "\n" in shown else None)

    Dumper.add_representer(str, text)
    written = yaml.dump(body, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=math.inf)
    return str(written).rstrip("\n")


def _without_data(value: str) -> str:
    """The text; of encoded data, such as an image, its beginning and length."""
    if len(value) < _MIN_DATA_LENGTH or any(map(str.isspace, value)):
        return value
    return f"{value[:40]}… ({len(value):,} characters)"
