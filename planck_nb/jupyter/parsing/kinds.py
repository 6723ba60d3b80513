"""Kinds of parameters that name something of the notebook or of its workspace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from planck_nb.agent.agent import Agent
from planck_nb.agent.state import PendingApproval
from planck_nb.ai import list_models, list_providers
from planck_nb.base.errors import AgentError, UsageError, did_you_mean
from planck_nb.base.text import one_line
from planck_nb.base.visible import visible
from planck_nb.jupyter.namespace import data_frames, functions
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.parameters import FILE, Extent, Kind, Suggestions
from planck_nb.jupyter.prompts.prompt_images import images_in
from planck_nb.jupyter.values import kind_of
from planck_nb.jupyter.values.type_checks import is_a
from planck_nb.sessions import VIEWS
from planck_nb.workspace.agent_names import full_name, named_agents
from planck_nb.workspace.default_model import LOCAL

_DESCRIBED = 60


def names(text: str) -> tuple[str, ...]:
    """Split names at their commas. Raises `ValueError` if there is none."""
    found = tuple(filter(None, (name.strip().removeprefix("@") for name in text.split(","))))
    if not found:
        raise ValueError(text)
    return found


def _agents(notebook: Notebook) -> Suggestions:
    return {name: f"{agent.model}, {agent.status}" for name, agent in named_agents(notebook.workspace).items()}


def _recipients(notebook: Notebook) -> Suggestions:
    return {**_running_teams(notebook), **_agents(notebook)}


def _running_teams(notebook: Notebook) -> Suggestions:
    teams = notebook.workspace.teams
    return {name: f"running team of {len(team.agents)}" for name, team in teams.items()}


def _teams(notebook: Notebook) -> Suggestions:
    templates = {template.alias: template.description or "team" for template in notebook.workspace.team_templates()}
    return {**templates, **_running_teams(notebook)}


def _sidecars(notebook: Notebook) -> Suggestions:
    return {str(row["sidecar"]): str(row["state"]) for row in notebook.workspace.sidecars.rows()}


def _agent(notebook: Notebook, name: str) -> Agent:
    return notebook.controller.agent(name)


def _sessions(notebook: Notebook) -> Suggestions:
    sessions = reversed(notebook.workspace.sessions())
    return {session.name: f"begun {session.created:%Y-%m-%d %H:%M} UTC" for session in sessions}


def _providers(_notebook: Notebook) -> Suggestions:
    return dict.fromkeys(list_providers(), "provider")


def _provider(_notebook: Notebook, name: str) -> str:
    known = list_providers()
    if name not in known:
        raise UsageError(f"There is no provider {name}. {did_you_mean(name, known)}")
    return name


def _models(notebook: Notebook) -> Suggestions:
    """The models that can be named without asking a server."""
    listed = (model for provider in list_providers() if provider not in LOCAL for model in list_models(provider))
    return {
        str(model): f"context of {model.context_window:,} tokens" if model.context_window else ""
        for model in (*notebook.workspace.config.models, *listed)
    }


def _views(notebook: Notebook) -> Suggestions:
    return dict.fromkeys(VIEWS, "view of the history") | dict.fromkeys(data_frames(notebook.names), "DataFrame")


def _functions(notebook: Notebook) -> Suggestions:
    return dict.fromkeys(functions(notebook.names), "function of the notebook")


def _compactors(notebook: Notebook) -> Suggestions:
    packages = dict.fromkeys(notebook.workspace.compactors.names(), "compactor of a package")
    return {"default": "the built-in compactor", **packages, **_functions(notebook)}


def _image(text: str) -> tuple[Path, ...]:
    if "://" in text:
        raise UsageError(f"--image needs a file, not the address {text}; download the image first.")
    return (FILE.convert(text),)


def _types(notebook: Notebook) -> Suggestions:
    return {
        name: "class of the notebook" for name, value in notebook.names.items() if name[0] != "_" and is_a(value, type)
    }


def _variables(notebook: Notebook) -> Suggestions:
    return {name: kind_of(value) for name, value in notebook.names.items() if name[0] != "_"}


def waiting_calls(notebook: Notebook) -> list[tuple[Agent, PendingApproval]]:
    """The calls that wait for approval, each with the agent that made it."""
    agents = named_agents(notebook.workspace).values()
    return [(agent, call) for agent in agents for call in agent.state.pending_approvals]


def _names_of_calls(notebook: Notebook) -> Iterator[tuple[str, Agent, PendingApproval]]:
    """Each waiting call under each of its names: its agent, its id, or both."""
    for agent, call in waiting_calls(notebook):
        for known in dict.fromkeys((full_name(notebook.workspace, agent), agent.name)):
            yield f"{known} {call.id}", agent, call
            yield known, agent, call
        yield call.id, agent, call


def _calls(notebook: Notebook) -> Suggestions:
    return {
        name: visible(one_line(f"{call.name} {'; '.join(effect.target for effect in call.touches)}", _DESCRIBED))
        for name, _, call in _names_of_calls(notebook)
    }


def _call(notebook: Notebook, name: str) -> tuple[Agent, PendingApproval]:
    # Ids are the model's, so two agents may have the same.
    found = [(agent, call) for known, agent, call in _names_of_calls(notebook) if known == name]
    if not found:
        raise AgentError(f"No call {name} waits for approval; `%planck approve` lists those that do.")
    if len(found) > 1:
        raise AgentError(f"{len(found)} waiting calls are called {name}; write the agent and the id of one.")
    return found[0]


RECIPIENT = Kind("AGENT", suggest=_recipients)
"""The name of an agent, whether it exists or not, or of a running team."""

AGENT_NAME = Kind("AGENT", suggest=_agents)
"""The name of an agent, whether it exists or not."""

TEAM = Kind("TEAM", suggest=_teams)
"""The name of a running team, or the alias or path of a team template, as text."""

SIDECAR = Kind("SIDECAR", extent=Extent.WORDS, suggest=_sidecars)
"""Names of sidecars, or a file that describes some, as texts."""

AGENT = replace(AGENT_NAME, resolve=_agent, extent=Extent.NAME)
"""An agent of the notebook or a member of a team, as an `Agent`; the name of a team stands for its orchestrator."""

SESSION = Kind("SESSION", suggest=_sessions)
"""The name or the id of a stored session, as text."""

MODEL = Kind("PROVIDER:MODEL", suggest=_models)
"""A model, as text."""

PROVIDER = Kind("PROVIDER", resolve=_provider, suggest=_providers)
"""A provider of models, as text."""

QUERY = Kind("QUERY", suggest=_views, extent=Extent.TEXT)
"""A query in SQL."""

FUNCTIONS = Kind("F,G", names, suggest=_functions)
"""Names of functions and tools, as a tuple."""

COMPACTOR = Kind("NAME", suggest=_compactors)
"""The name of a compactor, as text."""

IMAGE = Kind("FILE", _image, suggest=lambda _notebook: images_in(Path()))
"""The path of an image, as a tuple, so that several can be given."""

OUTPUT = Kind("TYPE", suggest=_types)
"""The type of a structured answer, as text."""

VARIABLES = Kind("V,W", names, suggest=_variables)
"""Names of variables, as a tuple."""

CALL = Kind("CALL", resolve=_call, suggest=_calls, extent=Extent.NAME)
"""A tool call that waits for approval, as its agent and the `PendingApproval`."""
