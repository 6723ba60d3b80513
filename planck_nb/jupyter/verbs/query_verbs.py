"""`%planck sql` and `%planck search`, which query the stored history."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from keyword import iskeyword
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.namespace import data_frames
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import AGENT_NAME, QUERY, SESSION
from planck_nb.jupyter.parsing.parameters import INTEGER, WORDS, Kind, Option, Parameter, choice
from planck_nb.jupyter.verbs.declaration import Text, verb
from planck_nb.rendering.plain_output import for_terminal
from planck_nb.sessions import VIEWS, query_into, search_async, terms

if TYPE_CHECKING:
    import pandas as pd


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

_SHOWN_MESSAGES = 10
_MAX_KEYWORDS = 3
_MAX_WIDE_LETTERS = 6
_DETERMINERS = frozenset("a all an any for in me my on our that the these this those through".split())
"""First words in sentences, rather than words to look for."""
_KNOWN = {
    "session": "SELECT session_name AS name, session_id AS id FROM sessions",
    "agent": "SELECT name, agent_id AS id FROM agents UNION SELECT NULL, agent_id FROM messages",
}


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


@dataclass(frozen=True, slots=True, repr=False)
class Hits:
    """What a search found, the best first; `frame` is the table of it."""

    words: str
    frame: pd.DataFrame

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        lines = [self._summary(), *(f"\n{where}\n    {excerpt}" for where, excerpt in self._rows())]
        return for_terminal("\n".join(lines))

    def _repr_html_(self) -> str:
        marked = re.compile("|".join(map(re.escape, terms(self.words))), re.IGNORECASE)
        # JupyterLab lets the terms of a <dl> float, so that each excerpt would be beside the heading of another one.
        rows = (
            f"<p><strong>{escape(where)}</strong><br>{_marked(excerpt, marked)}</p>" for where, excerpt in self._rows()
        )
        return f"<p>{escape(self._summary())}</p>{''.join(rows)}"

    def _summary(self) -> str:
        if not len(self):
            return f"No message contains {self.words}."
        return f"{self.words}: {'one message' if len(self) == 1 else f'{len(self)} messages, best matches first'}."

    def _rows(self) -> Iterator[tuple[str, str]]:
        shown = zip(*(self.frame[name] for name in ("session_name", "agent", "role", "ts", "excerpt")), strict=True)
        for session, agent, role, when, excerpt in shown:
            yield f"{session} · {agent} · {role} · {when:%Y-%m-%d %H:%M}", " ".join(excerpt.split())


def _may_be_searched(_notebook: Notebook, words: Sequence[str]) -> bool:
    """Recognise a few keywords, or exact phrases, rather than a sentence."""
    if any(" " in word for word in words):
        return True
    if len(words) > _MAX_KEYWORDS or words[0] in _DETERMINERS or words[-1][-1] in "?!.,:;\u3002\uff1f\uff01":
        return False
    # Chinese and Japanese sentences lack blanks.
    wide = max(sum(east_asian_width(letter) in "WF" for letter in word) for word in words)
    return "@" not in "".join(words) and wide <= _MAX_WIDE_LETTERS


@verb(
    "search",
    "History",
    "find messages in all sessions, best matches first",
    # An apostrophe is no quotation mark here.
    Parameter("words", replace(WORDS, quotes='"'), 'what to look for; put an exact phrase in "double quotes"'),
    Option("agent", "a", AGENT_NAME, "only messages of this agent's conversation"),
    Option("session", "s", SESSION, "only messages of this session"),
    Option("limit", "n", INTEGER, "the maximum number of messages: 1 or more"),
    example='search "burst pipe" pump --limit 5',
    fits=_may_be_searched,
)
async def search(
    notebook: Notebook, words: tuple[str, ...], agent: str | None, session: str | None, limit: int | None
) -> Hits:
    """Return the messages that have the words."""
    wanted = " ".join(f'"{word}"' if " " in word else word for word in words)
    if not terms(wanted):
        raise UsageError('`%planck search` needs words to look for; put an exact phrase in "double quotes".')
    directory = notebook.workspace.sessions_dir
    found = await search_async(directory, wanted, agent=agent, session=session, limit=limit or _SHOWN_MESSAGES)
    hits = Hits(wanted, found)
    if not hits:
        await _require_known(notebook, {"session": session, "agent": agent})
    return hits


async def _require_known(notebook: Notebook, confined: dict[str, str | None]) -> None:
    """Raise `UsageError` if the session or the agent of the search does not exist."""
    for kind, statement in _KNOWN.items():
        wanted = confined[kind]
        if wanted is None:
            continue
        known = await notebook.workspace.query_async(statement)
        if wanted not in {*known["name"], *known["id"]}:
            hint = did_you_mean(wanted, set(known["name"].dropna()))
            raise UsageError(f"The stored history has no {kind} called {wanted!r}. {hint}".strip())


def _marked(text: str, pattern: re.Pattern[str]) -> str:
    """The text as HTML, with what matches marked."""
    pieces, end = [], 0
    for match in pattern.finditer(text):
        pieces += [escape(text[end : match.start()]), "<mark>", escape(match.group()), "</mark>"]
        end = match.end()
    return "".join([*pieces, escape(text[end:])])
