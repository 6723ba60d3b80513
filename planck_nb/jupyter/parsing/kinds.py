"""Parameter kinds which name something in the notebook or its workspace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from planck_nb.agent.agent import Agent
from planck_nb.agent.approval import KINDS
from planck_nb.agent.state import PendingApproval
from planck_nb.ai import list_models, list_providers
from planck_nb.ai.model_lookup.catalogue import by_name, full_names
from planck_nb.ai.providers import provider
from planck_nb.base.errors import AgentError, UsageError, did_you_mean
from planck_nb.base.ids import is_readable_name
from planck_nb.base.secrets import looks_like_key
from planck_nb.base.text import one_line
from planck_nb.base.visible import visible
from planck_nb.jupyter.controller import DEFAULT_AGENT
from planck_nb.jupyter.namespace import data_frames, functions
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.parameters import FILE, Extent, Kind, Option, Suggestions
from planck_nb.jupyter.prompts.prompt_images import images_in
from planck_nb.jupyter.similar_words import is_near, nearest
from planck_nb.jupyter.values import kind_of
from planck_nb.jupyter.values.type_checks import is_a
from planck_nb.sessions import VIEWS
from planck_nb.workspace.agent_names import full_name, named_agents

_DESCRIBED = 60
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_SIMILAR = 0.8
_SESSION_ID = re.compile(r"[0-9a-f]{16}")
NEWEST = ("last", "latest")
"""Words for the session that was used last."""
_MODEL_ID = re.compile(r"[A-Za-z][\w.:/-]*\d[\w.:/-]*")
_STATEMENT = re.compile(
    r"\(*(?:SELECT|WITH|FROM|VALUES|TABLE|DESCRIBE|SUMMARIZE|SHOW|PIVOT|UNPIVOT|EXPLAIN|ATTACH|COPY|CREATE|DELETE|DROP"
    r"|ALTER|INSERT|UPDATE|PRAGMA|SET|INSTALL|LOAD|CALL|EXPORT|IMPORT)\b"
    r"|(?i:\(*(?:select|with|values|explain|pivot|unpivot)\b[^?]*[*=(<>])"
    r"|(?i:select\b[^?]*\bfrom\b)"
    r"|(?i:select\s+(?:[\d.]+|'[^']*')\s*(?:\Z|;|as\b|[-+/,|]))"
    r"|(?i:(?:from|describe|summarize|show|table)\s+\w+\s*(?:;?\s*\Z|(?:where|group|order|limit|join|select|using|all)\b))"
)


def names(text: str) -> tuple[str, ...]:
    """Split names at their commas, or raise `ValueError` without names."""
    result = tuple(filter(None, (name.strip().removeprefix("@") for name in text.split(","))))
    if not result:
        raise ValueError(text)
    return result


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
    providers = list_providers()
    if name not in providers:
        raise UsageError(f"There is no provider {name}. {did_you_mean(name, providers)}")
    return name


def _models(notebook: Notebook) -> Suggestions:
    """Return the models which can be named without asking a server."""
    remote = (model for name in list_providers() if not provider(name).discovered for model in list_models(name))
    return {
        str(model): f"context of {model.context_window:,} tokens" if model.context_window else ""
        for model in (*notebook.workspace.config.models, *remote)
    }


def _views(notebook: Notebook) -> Suggestions:
    return dict.fromkeys(VIEWS, "view of the history") | dict.fromkeys(data_frames(notebook.names), "DataFrame")


def _functions(notebook: Notebook) -> Suggestions:
    return dict.fromkeys(functions(notebook.names), "function of the notebook")


def _tools(notebook: Notebook) -> Suggestions:
    """Return everything which `--tools` accepts."""
    return {**notebook.workspace.toolbox.described(), **_functions(notebook)}


def is_tool(notebook: Notebook, name: str) -> bool:
    """Return whether approval rules can have this name.

    Args:
        notebook: The place to look names up.
        name: A tool's, a group's or an effect's name.
    """
    agents = named_agents(notebook.workspace).values()
    return name in {*KINDS, *_tools(notebook), *(tool.name for agent in agents for tool in agent.tools)}


def _compactors(notebook: Notebook) -> Suggestions:
    packages = dict.fromkeys(notebook.workspace.compactors.names(), "compactor of a package")
    return {"default": "the built-in compactor", **packages, **_functions(notebook)}


def _image(text: str) -> tuple[Path, ...]:
    if "://" in text:
        raise UsageError(f"--image needs a file, not the address {text}; download the image first.")
    return (FILE.convert(text),)


def _key_variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text) or looks_like_key(text):  # a key that was typed must not be shown
        raise UsageError("--key-var needs the name of an environment variable that holds the key, as in MY_API_KEY.")
    return text


def _types(notebook: Notebook) -> Suggestions:
    return {
        name: "class of the notebook" for name, value in notebook.names.items() if name[0] != "_" and is_a(value, type)
    }


def _variables(notebook: Notebook) -> Suggestions:
    return {name: kind_of(value) for name, value in notebook.names.items() if name[0] != "_"}


def waiting_calls(notebook: Notebook) -> list[tuple[Agent, PendingApproval]]:
    """Return the calls under approval, each with its agent."""
    agents = named_agents(notebook.workspace).values()
    calls = [(agent, call) for agent in agents for call in agent.state.pending_approvals]
    return calls + [call for run in notebook.workspace.running_maps for call in run.waiting_calls()]


def _names_of_calls(notebook: Notebook) -> Iterator[tuple[str, Agent, PendingApproval]]:
    """Yield each waiting call under each name.

    A name is its agent, its id, or both.
    """
    for agent, call in waiting_calls(notebook):
        for agent_name in dict.fromkeys((full_name(notebook.workspace, agent), agent.name)):
            yield f"{agent_name} {call.id}", agent, call
            yield agent_name, agent, call
        yield call.id, agent, call


def _calls(notebook: Notebook) -> Suggestions:
    return {
        name: visible(one_line(f"{call.name} {'; '.join(effect.target for effect in call.touches)}", _DESCRIBED))
        for name, _, call in _names_of_calls(notebook)
    }


def _call(notebook: Notebook, name: str) -> tuple[Agent, PendingApproval]:
    # Ids are the model's, so two agents may have the same.
    matches = [(agent, call) for candidate, agent, call in _names_of_calls(notebook) if candidate == name]
    tool = name.partition(":")[0]
    if not matches and is_tool(notebook, tool):
        raise AgentError(
            f"No call {name} waits for approval. `%planck permissions allow {tool}` allows the tool, "
            f"`%planck permissions deny {tool}` denies it."
        )
    if not matches:
        raise AgentError(f"No call {name} waits for approval; `%planck approve` lists those that do.")
    if len(matches) > 1:
        raise AgentError(f"{len(matches)} waiting calls are called {name}; write the agent and the id of one.")
    return matches[0]


def _one_of(*suggestions: Callable[[Notebook], Suggestions]) -> Callable[[Notebook, str], bool]:
    """Return a recogniser for known names and their misspellings."""

    def fits(notebook: Notebook, text: str) -> bool:
        names = [name.lower() for suggest in suggestions for name in suggest(notebook)]
        return bool(nearest(text.lower(), names) or get_close_matches(text.lower(), names, n=1, cutoff=_SIMILAR))

    return fits


def is_agent(notebook: Notebook, text: str) -> bool:
    """Return whether a text is probably an agent or a team.

    Args:
        notebook: The place to look names up.
        text: The name, perhaps mistyped.
    """
    members = {DEFAULT_AGENT: ""} | {name.rpartition("/")[2]: name for name in named_agents(notebook.workspace)}
    return _one_of(_recipients, lambda _notebook: members)(notebook, text)


def _may_be_session(notebook: Notebook, text: str) -> bool:
    if text in NEWEST or is_readable_name(text) or _SESSION_ID.fullmatch(text):
        return True
    return _one_of(_sessions)(notebook, text) or any(text == session.id for session in notebook.workspace.sessions())


def model_named(name: str, notebook: Notebook) -> str:
    """Return a model's full name, empty for another word.

    Args:
        name: The word.
        notebook: The place to look the user's own models up.
    """
    provider, colon, model = name.partition(":")
    if name in by_name(notebook.workspace.config.models) or (colon and model and provider in list_providers()):
        return name
    return next(iter(full_names(name)), "")


def _may_be_model(notebook: Notebook, text: str) -> bool:
    """Recognise known models, providers, and words with digits, as in `gpt-9`."""
    if model_named(text, notebook) or _MODEL_ID.fullmatch(text):
        return True
    return _one_of(_providers, _models)(notebook, text)


def _may_be_query(_notebook: Notebook, text: str) -> bool:
    """Recognise a query: by capitals, or by signs which sentences lack."""
    word, _, rest = text.partition(" ")
    if _STATEMENT.match(text) or (word.isupper() and is_near(word, "SELECT")):
        return True
    return (
        " from " in f" {rest.lower()} " and is_near(word.lower(), "select") and not text.rstrip().endswith(("?", "."))
    )


def _may_be_waiting_call(notebook: Notebook, text: str) -> bool:
    return bool(nearest(text, _calls(notebook)))


RECIPIENT = Kind("AGENT", suggest=_recipients, fits=is_agent)
"""A running team's name, or an agent's, which may be new."""

AGENT_NAME = Kind("AGENT", suggest=_agents, fits=is_agent)
"""An agent name, perhaps a new one."""

TEAM = Kind("TEAM", suggest=_teams, fits=_one_of(_teams))
"""A running team's name, or a template's alias or path, as text."""

SIDECAR = Kind("SIDECAR", extent=Extent.WORDS, suggest=_sidecars, fits=_one_of(_sidecars))
"""Sidecar names, or a file which describes some, as texts."""

AGENT = replace(AGENT_NAME, resolve=_agent, extent=Extent.NAME)
"""An agent or team member, as an `Agent`.

A team's name stands for its orchestrator.
"""

SESSION = Kind("SESSION", suggest=_sessions, fits=_may_be_session)
"""A stored session's name or id, as text."""

MODEL = Kind("PROVIDER:MODEL", suggest=_models, fits=_may_be_model)

MODELS = Kind("A,B", names, suggest=_models)
"""Models' names, as a tuple."""

KEY_VARIABLE = Kind("NAME", _key_variable)
"""The name of an environment variable with an API key."""

SERVER_OPTIONS = (
    Option("base-url", None, Kind("URL"), "the address of the model's server, if not the usual one"),
    Option("key-var", None, KEY_VARIABLE, "the environment variable with the key for that server"),
)
"""Options beside one that names a model."""
"""A model, as text."""

PROVIDER = Kind("PROVIDER", resolve=_provider, suggest=_providers, fits=_one_of(_providers))
"""A model provider, as text."""

QUERY = Kind("QUERY", suggest=_views, extent=Extent.TEXT, fits=_may_be_query)
"""A query in SQL."""

FUNCTIONS = Kind("F,G", names, suggest=_tools)
"""Function and tool names, as a tuple."""

COMPACTOR = Kind("NAME", suggest=_compactors)
"""A compactor's name, as text."""

IMAGE = Kind("FILE", _image, suggest=lambda _notebook: images_in(Path()))
"""An image path, as a tuple, so the option can be repeated."""

OUTPUT = Kind("TYPE", suggest=_types)
"""The type for a structured answer, as text."""

VARIABLES = Kind("V,W", names, suggest=_variables)
"""Variable names, as a tuple."""

CALL = Kind("CALL", resolve=_call, suggest=_calls, extent=Extent.NAME, fits=_may_be_waiting_call)
"""A tool call under approval, as its agent and the `PendingApproval`."""
