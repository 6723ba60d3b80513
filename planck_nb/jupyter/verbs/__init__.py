"""`%planck VERB`. A verb is an async function with a declaration; other packages add theirs by an entry point.

    >>> from planck_nb import Agent
    >>> from planck_nb.jupyter.verbs import AGENT, Notebook, Parameter, Text, verb
    >>> @verb("greet", "Running agents", "say hello to an agent", Parameter("agent", AGENT, "whom to greet"))
    ... async def greet(notebook: Notebook, agent: Agent) -> Text:
    ...     return Text(f"Hello, {agent.name}.")
    >>> print(greet.help)
    %planck greet AGENT
        say hello to an agent
    ...

Other packages import what they need for a verb from here.
"""

from __future__ import annotations

from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import AGENT, AGENT_NAME, MODEL, PROVIDER, QUERY, SESSION
from planck_nb.jupyter.parsing.parameters import (
    FILE,
    INTEGER,
    TEXT,
    WORD,
    WORDS,
    Extent,
    Kind,
    Option,
    Parameter,
    choice,
)
from planck_nb.jupyter.verbs import (
    agent_verbs,
    cell_verbs,
    change_verbs,
    history_verbs,
    map_verbs,
    navigation_verbs,
    query_verbs,
    running_verbs,
    session_verbs,
    setting_verbs,
    sidecar_verbs,
    team_verbs,
)
from planck_nb.jupyter.verbs.declaration import Text, Verb, table, verb
from planck_nb.jupyter.verbs.verb_registry import VerbRegistry

__all__ = [
    "AGENT",
    "AGENT_NAME",
    "FILE",
    "INTEGER",
    "MODEL",
    "PROVIDER",
    "QUERY",
    "SESSION",
    "TEXT",
    "VERBS",
    "WORD",
    "WORDS",
    "Extent",
    "Kind",
    "Notebook",
    "Option",
    "Parameter",
    "Text",
    "Verb",
    "VerbRegistry",
    "choice",
    "table",
    "verb",
]

VERBS = VerbRegistry(
    (
        agent_verbs.agents,
        agent_verbs.use,
        agent_verbs.model,
        agent_verbs.models,
        agent_verbs.engine,
        agent_verbs.tools,
        agent_verbs.skills,
        agent_verbs.request,
        agent_verbs.remove,
        cell_verbs.fix,
        cell_verbs.explain,
        cell_verbs.improve,
        cell_verbs.test,
        map_verbs.map_,
        team_verbs.team,
        sidecar_verbs.sidecar,
        running_verbs.steer,
        running_verbs.queue,
        running_verbs.stop,
        running_verbs.continue_,
        running_verbs.approve,
        running_verbs.deny,
        running_verbs.compact,
        history_verbs.history,
        query_verbs.sql,
        query_verbs.search,
        history_verbs.answer,
        history_verbs.cost,
        history_verbs.timeline,
        history_verbs.scores,
        change_verbs.changes,
        change_verbs.undo,
        navigation_verbs.rewind,
        navigation_verbs.fork,
        navigation_verbs.resume,
        session_verbs.sessions,
        session_verbs.export,
        session_verbs.import_,
        session_verbs.delete,
        setting_verbs.config,
        setting_verbs.permissions,
        setting_verbs.cassette,
        setting_verbs.trust,
        setting_verbs.doctor,
        setting_verbs.version,
    )
)
"""All verbs by name, in the order of help."""
