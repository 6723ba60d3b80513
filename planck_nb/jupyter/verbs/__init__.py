"""`%planck VERB`. A verb is an async function with a declaration; other packages add theirs by an entry point.

from planck_nb.jupyter.verbs import AGENT, Notebook, Parameter, Text, verb

@verb("greet", "Running agents", "say hello to an agent", Parameter("agent", AGENT, "whom to greet"))
async def greet(notebook: Notebook, agent: Agent) -> Text:
return Text(f"Hello, {agent.name}.")
"""

from __future__ import annotations

from planck_nb.jupyter.kinds import AGENT, AGENT_NAME, MODEL, PROVIDER, QUERY, SESSION
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parameters import FILE, INTEGER, TEXT, WORD, WORDS, Extent, Kind, Option, Parameter, choice
from planck_nb.jupyter.verbs import (
    agents,
    changes,
    charts,
    navigation,
    running,
    search,
    session_files,
    settings,
    sql,
)
from planck_nb.jupyter.verbs.declaration import Text, Verb, table, verb
from planck_nb.jupyter.verbs.registry import Registry

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
    "Registry",
    "Text",
    "Verb",
    "choice",
    "table",
    "verb",
]

VERBS = Registry(
    (
        agents.agents,
        agents.model,
        agents.models,
        agents.tools,
        agents.skills,
        agents.show,
        agents.remove,
        running.steer,
        running.abort,
        running.approve,
        running.deny,
        running.compact,
        sql.sql,
        search.search,
        charts.usage,
        charts.timeline,
        changes.changes,
        changes.undo,
        navigation.rewind,
        navigation.branches,
        navigation.fork,
        navigation.resume,
        session_files.sessions,
        session_files.export,
        session_files.import_,
        session_files.delete,
        session_files.compact_store_,
        settings.config,
        settings.policy,
        settings.cassette,
    )
)
"""All verbs by name, in the order of help."""
