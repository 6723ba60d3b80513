"""Verbs that ask the stored history with SQL."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from planck_nb.base.aio import run_in_thread
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.namespace import data_frames
from planck_nb.jupyter.options import Option, count, flags, one_of, parse
from planck_nb.jupyter.verbs.verb import Notebook, Text, Verb, takes_nothing
from planck_nb.sessions import VIEWS, SessionInfo, open_in, query_into

if TYPE_CHECKING:
    import pandas as pd


def _variable(text: str) -> str:
    if not text.isidentifier() or iskeyword(text):
        raise ValueError(text)
    return text


SQL = (
    Option("output", "o", "NAME", "a name of the notebook that gets the table, which is not shown then", _variable),
    Option(
        "as", None, "df|pl|arrow", "df, pl or arrow: a table of pandas, Polars or Arrow", one_of(("df", "pl", "arrow"))
    ),
    Option("limit", "n", "N", "at most so many rows: 1 or more", count),
)

_MAKERS = {"pl": ("polars", "DataFrame"), "arrow": ("pyarrow", "table")}

EXAMPLES = (
    "SELECT role, text FROM messages WHERE session_id = getvariable('session') ORDER BY id",
    "SELECT name, count(*) AS calls, avg(duration_s) AS seconds FROM tool_calls GROUP BY name ORDER BY calls DESC",
    "SELECT model, sum(output_tokens) AS tokens, sum(cost_usd) AS usd FROM usage GROUP BY model",
    "--limit 5 SELECT session_name, prompt, duration_s FROM turns ORDER BY duration_s DESC NULLS LAST",
    "-o spent SELECT ts::DATE AS day, sum(cost_usd) AS usd FROM messages GROUP BY day ORDER BY day",
)
"""What may follow `%planck sql`, shown where nothing does."""


async def _sql(controller: Controller, argument: str, notebook: Notebook) -> object:
    line, _, lines = argument.partition("\n")
    parsed = parse(line, SQL, of="%planck sql")
    statement = f"{parsed.rest}\n{lines}".strip()
    if not statement:
        if parsed.options:
            raise UsageError("`%planck sql` has options but no query; write SELECT … after them.")
        return await _what_there_is(controller)
    _refuse_late_options(parsed.rest)
    frame = await _ask(controller, statement, notebook, **parsed.options)
    if "output" not in parsed.options:
        return frame
    notebook.put(parsed.options["output"], frame)
    return None


async def _ask(controller: Controller, statement: str, notebook: Notebook, **options: Any) -> object:  # noqa: ANN401
    workspace = controller.workspace
    frames, limit = data_frames(notebook.names), options.get("limit")
    kind = options.get("as", "df")
    if kind == "df":
        return await workspace.query_async(statement, frames=frames, limit=limit)
    await workspace.flush()
    return await query_into(
        workspace.sessions_dir, statement, _maker(kind), frames=frames, limit=limit, session=workspace.session_id
    )


def _maker(kind: str) -> Callable[[object], object]:
    """What makes a table of this kind from a result. Raises `UsageError` where its package is not installed."""
    package, name = _MAKERS[kind]
    try:
        made: Callable[[object], object] = getattr(import_module(package), name)
    except ImportError:
        raise UsageError(f"--as {kind} needs {package}; run `%pip install {package}`.") from None
    return made


def _refuse_late_options(query: str) -> None:
    """Raise `UsageError` for an option after the query, which SQL would take for a comment."""
    long = {flag for flag in flags(SQL) if flag.startswith("--")}
    for word in query.split():
        flag = word.partition("=")[0]
        if flag in long:
            raise UsageError(f"{flag} stands before the query, because in SQL it begins a comment.")


async def _what_there_is(controller: Controller) -> Text:
    """The views with their columns, and queries to begin with."""
    found = await controller.workspace.query_async(
        "SELECT table_name, string_agg(column_name, ', ' ORDER BY column_index) AS columns "
        "FROM duckdb_columns() WHERE schema_name = 'main' AND database_name = current_database() GROUP BY table_name"
    )
    columns = dict(zip(found["table_name"], found["columns"], strict=True))
    wrap = textwrap.TextWrapper(width=110, initial_indent=" " * 4, subsequent_indent=" " * 4, break_on_hyphens=False)
    return Text(
        "\n".join(
            [
                "Tables of %planck sql, over all sessions of this folder, with times in UTC:",
                *(f"  {view}\n{wrap.fill(columns[view])}" for view in VIEWS),
                "DataFrames of the notebook are tables, too, by their names, unless one above has the name.",
                "getvariable('session') is the id of this notebook's session.",
                "",
                *(f"%planck sql {example}" for example in EXAMPLES),
            ]
        )
    )


async def _sessions(controller: Controller, argument: str, _notebook: Notebook) -> pd.DataFrame:
    takes_nothing("sessions", argument)
    workspace = controller.workspace
    found = await workspace.query_async(
        "SELECT session_name AS session, agents, messages, "
        "coalesce(input_tokens, 0) + coalesce(output_tokens, 0) AS tokens, cost_usd, created, last, session_id "
        "FROM sessions ORDER BY greatest(created, last) DESC, session_id"
    )
    owners = await run_in_thread(partial(_owners, workspace.sessions()))
    if workspace.session_id is not None:
        owners[workspace.session_id] = "this notebook"
    found["open_in"] = [owners.get(session_id, "") for session_id in found["session_id"]]
    return found


def _owners(sessions: Sequence[SessionInfo]) -> dict[str, str]:
    """Where the sessions are open that are, by their ids."""
    return {session.id: owner for session in sessions if (owner := open_in(session)) is not None}


VERBS = {
    "sessions": Verb("sessions", "list the stored sessions, and where they are open", _sessions),
    "sql": Verb(
        "sql SELECT … FROM view", "ask the stored history; also as %%planck sql; alone: what there is", _sql, SQL
    ),
}
