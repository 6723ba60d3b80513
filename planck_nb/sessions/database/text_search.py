"""Searches the messages of all sessions in a directory for words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from planck_nb.base.errors import QueryError
from planck_nb.sessions.database.duckdb import sql_literal
from planck_nb.sessions.database.queries import query, query_async

if TYPE_CHECKING:
    import pandas as pd

_WORDS = re.compile(r'"([^"]+)"|(\S+)')
RANKED = 10_000
_AROUND = 60
_EXCERPT = 198

DEFAULT_MATCHES = 20
"""Messages in a result unless the caller sets a limit."""


def search(
    directory: Path, words: str, limit: int = DEFAULT_MATCHES, *, agent: str | None = None, session: str | None = None
) -> pd.DataFrame:
    """Find the messages that contain all of the words, in any case and order.

    A message ranks higher the more often it contains the words and the shorter it is, and newer ones rank first among
    equals. If more than 10,000 messages match, only the newest 10,000 are ranked.

    Args:
        directory: The sessions directory.
        words: The words; several words in double quotes are searched for as a phrase.
        limit: The highest number of messages to return.
        agent: The name or id of the only agent whose messages are searched; None for all.
        session: The name or id of the only session that is searched; None for all.

    Returns:
        The messages, best matches first, with the columns `session_id session_name id agent_id agent role ts score
        excerpt`; `agent` is the agent's name and `ts` is in UTC.

    Raises:
        QueryError: There are no words, the limit is negative, or the sessions cannot be read.
        KeyboardInterrupt: Ctrl-C ended the search.
    """
    return query(directory, search_sql(words, limit, agent, session))


async def search_async(
    directory: Path, words: str, limit: int = DEFAULT_MATCHES, *, agent: str | None = None, session: str | None = None
) -> pd.DataFrame:
    """Search like `search` does, but on another thread while the event loop goes on. Cancelling ends the search.

    Args:
        directory: The sessions directory.
        words: The words; several words in double quotes are searched for as a phrase.
        limit: The highest number of messages to return.
        agent: The name or id of the only agent whose messages are searched; None for all.
        session: The name or id of the only session that is searched; None for all.

    Returns:
        The messages, best matches first, with the columns of `search`.

    Raises:
        QueryError: There are no words, the limit is negative, or the sessions cannot be read.
    """
    return await query_async(directory, search_sql(words, limit, agent, session))


def terms(words: str) -> list[str]:
    """Split a search into its words and quoted phrases.

    Args:
        words: The words, as `search` accepts them.

    Returns:
        Words and phrases in lower case.

    Example:
        >>> from planck_nb.sessions import terms
        >>> terms('Sales of "last year"')
        ['sales', 'of', 'last year']
    """
    found = ((phrase or word).lower() for phrase, word in _WORDS.findall(words))
    return [term for term in found if term.strip()]


def search_sql(words: str, limit: int, agent: str | None, session: str | None, *, max_ranked: int = RANKED) -> str:
    """Return the statement for a search like `search`.

    Args:
        words: The words, as for `search`.
        limit: The most messages in its result.
        agent: The only agent to search, by name or id; None for all.
        session: The only session to search, by name or id; None for all.
        max_ranked: The most matches to rank; these are the newest.

    Returns:
        A SELECT statement for `query`.

    Raises:
        QueryError: The words are missing, or the limit is negative.

    Example:
        >>> from planck_nb.sessions import search_sql
        >>> "from messages" in search_sql("pump", 5, None, None)
        True
    """
    literals = [sql_literal(term) for term in terms(words)]
    if not literals:
        raise QueryError("There is nothing to search for; give one or more words.")
    if limit < 0:
        raise QueryError(f"A search cannot have {limit} results; give a limit of 0 or more.")
    conditions = list(map(_contains, terms(words)))
    if agent is not None:
        named = f"select session_id, agent_id from agents where name = {sql_literal(agent)}"  # noqa: S608 - as below
        conditions.append(f"(agent_id = {sql_literal(agent)} or (session_id, agent_id) in ({named}))")
    if session is not None:
        conditions.append(f"{sql_literal(session)} in (session_id, session_name)")
    found = " and ".join(conditions)
    # Only the times of all matches are read first, then the newest rows: sorting all by time takes half of a scan.
    # As in BM25, each further occurrence counts less, and so does one in a long text.
    score = " + ".join(f"n{number} / (n{number} + 0.3 + length(text) / 600)" for number in range(len(literals)))
    counts = ", ".join(
        f"(length(lowered) - length(replace(lowered, {term}, ''))) / length({term}) as n{number}"
        for number, term in enumerate(literals)
    )
    return f"""
        with newest as (select list_min(max(ts, {max_ranked})) as first_ts from messages where {found}),
        lowered as (
            select session_id, session_name, id, agent_id, role, ts, text, lower(text) as lowered
            from messages where ts >= (select first_ts from newest) and {found}
        ),
        counted as (
            select *, greatest(1, strpos(lowered, {literals[0]}) - {_AROUND})::bigint as start, {counts} from lowered
        ),
        best as (select *, {score} as score from counted order by score desc, ts desc, id desc limit {limit}),
        names as (
            select session_id, agent_id, arg_max(data->>'$.name', id) as agent
            from store.visible_events where type = 'agent_started' group by all
        )
        select
            session_id, session_name, id, agent_id, coalesce(agent, agent_id) as agent, role, ts, score,
            if(start > 1, '…', '') || substr(text, start, {_EXCERPT})
                || if(length(text) >= start + {_EXCERPT}, '…', '') as excerpt
        from best left join names using (session_id, agent_id) order by score desc, ts desc, id desc
    """  # noqa: S608 - the words are literals


def _contains(term: str) -> str:
    """Return SQL for whether a text has a word or phrase in any case. ILIKE takes two thirds of the time of `lower`."""
    if "%" in term or "_" in term:
        return f"contains(lower(text), {sql_literal(term)})"
    return f"text ilike {sql_literal(f'%{term}%')}"
