"""The verb that queries the stored history with SQL."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from importlib import import_module
from keyword import iskeyword

from planck_nb.base.errors import UsageError
from planck_nb.jupyter.namespace import data_frames
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import QUERY
from planck_nb.jupyter.parsing.parameters import INTEGER, Kind, Option, Parameter, choice
from planck_nb.jupyter.verbs.declaration import Text, verb
from planck_nb.sessions import VIEWS, query_into


def _variable(text: str) -> str:
    if not text.isidentifier() or iskeyword(text):
        raise ValueError(text)
    return text


_LIBRARY = choice(df="pandas", pl="Polars", arrow="PyArrow")
_MAKERS = {"pl": ("polars", "DataFrame"), "arrow": ("pyarrow", "table")}

EXAMPLES = (
    "SELECT role, text FROM messages WHERE session_id = getvariable('session') ORDER BY id",
    "SELECT name, count(*) AS calls, avg(duration_s) AS seconds FROM tool_calls GROUP BY name ORDER BY calls DESC",
    "SELECT from_agent_name, to_agent_name, task, status, seconds, cost_usd FROM delegations ORDER BY id",
    "SELECT model, sum(output_tokens) AS tokens, sum(cost_usd) AS usd FROM usage GROUP BY model",
    "--limit 5 SELECT session_name, prompt, duration_s FROM turns ORDER BY duration_s DESC NULLS LAST",
    "-o spent SELECT local(ts)::DATE AS day, sum(cost_usd) AS usd FROM messages GROUP BY day ORDER BY day",
)
"""What may follow `%planck sql`, shown where nothing does."""


@verb(
    "sql",
    "History",
    "query the stored history; without a query, list its views",
    Parameter("query", QUERY, "a SELECT statement", optional=True),
    Option("output", "o", Kind("NAME", _variable), "a variable to store the table in, instead of showing it"),
    Option(
        "as",
        None,
        choice(df="pandas", pl="Polars", arrow="PyArrow"),
        "df, pl or arrow: return a pandas, Polars or Arrow table",
    ),
    Option("limit", "n", INTEGER, "the maximum number of rows: 1 or more"),
    example="sql --limit 5 SELECT session_name, prompt FROM turns",
    cell=True,
)
async def sql(notebook: Notebook, query: str | None, output: str | None, as_: str | None, limit: int | None) -> object:
    """Return the result as a table, or put it into a variable."""
    if not query:
        if output or as_ or limit:
            raise UsageError("`%planck sql` has options but no query; write SELECT … after them.")
        return await _views(notebook)
    frame = await _query(notebook, query, as_ or "df", limit)
    if not output:
        return frame
    notebook.put(output, frame)
    return None


async def _query(notebook: Notebook, query: str, kind: str, limit: int | None) -> object:
    workspace, frames = notebook.workspace, data_frames(notebook.names)
    if kind == "df":
        return await workspace.query_async(query, frames=frames, limit=limit)
    await workspace.flush()
    return await query_into(
        workspace.sessions_dir, query, _maker(kind), frames=frames, limit=limit, session=workspace.session_id
    )


def _maker(kind: str) -> Callable[[object], object]:
    """What makes a table of this kind from a result. Raises `UsageError` where its package is not installed."""
    package, name = _MAKERS[kind]
    try:
        made: Callable[[object], object] = getattr(import_module(package), name)
    except ImportError:
        raise UsageError(f"--as {kind} needs {package}; run `%pip install {package}`.") from None
    return made


async def _views(notebook: Notebook) -> Text:
    """The views with their columns, and queries to begin with."""
    found = await notebook.workspace.query_async(
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
                "DataFrames of the notebook are tables, too, under their own names; the tables above take precedence.",
                "getvariable('session') is the id of this notebook's session.",
                "local(ts) is a time in the time zone of the kernel; local(ts, zone := 'Asia/Tokyo') in another one.",
                "",
                *(f"%planck sql {example}" for example in EXAMPLES),
            ]
        )
    )
