"""Finds messages by words, in all sessions of a directory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from planck_nb.base.errors import QueryError
from planck_nb.sessions.duckdb import literal
from planck_nb.sessions.query import query, query_async

if TYPE_CHECKING:
    import pandas as pd

_WORDS = re.compile(r'"([^"]+)"|(\S+)')
_RANKED = 10_000
_AROUND = 60
_EXCERPT = 198


def search(
    directory: Path, words: str, limit: int = 20, *, agent: str | None = None, session: str | None = None
) -> pd.DataFrame:
    """The messages that contain all of the words, in any case and place, the best first.

    Words in double quotes are looked for as they stand. A message ranks higher the more often it has the words and the
    shorter it is, the newer first among equals; where more than 10,000 match, the newest of them are ranked. `agent`
    and `session`, each a name or an id, leave out what others said. Columns: `session_id session_name id agent_id agent
    role ts score excerpt`; `agent` is the agent's name. Raises QueryError, and KeyboardInterrupt on Ctrl-C.
    """
    return query(directory, _statement(words, limit, agent, session))


async def search_async(
    directory: Path, words: str, limit: int = 20, *, agent: str | None = None, session: str | None = None
) -> pd.DataFrame:
    """Like `search`, on a thread of its own while the event loop goes on. Cancelling ends the search."""
    return await query_async(directory, _statement(words, limit, agent, session))


def terms(words: str) -> list[str]:
    """What a search for the words looks for, in lower case: words, and what stands in double quotes."""
    found = ((phrase or word).lower() for phrase, word in _WORDS.findall(words))
    return [term for term in found if term.strip()]


def _statement(words: str, limit: int, agent: str | None, session: str | None) -> str:
    wanted = [literal(term) for term in terms(words)]
    if not wanted:
        raise QueryError("There is nothing to look for; give one or more words.")
    if limit < 0:
        raise QueryError(f"A search cannot have {limit} results; give a limit of 0 or more.")
    conditions = [f"contains(lower(text), {term})" for term in wanted]
    if agent is not None:
        named = f"select session_id, agent_id from agents where name = {literal(agent)}"  # noqa: S608 - as below
        conditions.append(f"(agent_id = {literal(agent)} or (session_id, agent_id) in ({named}))")
    if session is not None:
        conditions.append(f"{literal(session)} in (session_id, session_name)")
    found = " and ".join(conditions)
    # How often a word occurs counts less the more there are, and less in a long text, as in BM25.
    score = " + ".join(f"n{number} / (n{number} + 0.3 + length(text) / 600)" for number in range(len(wanted)))
    counts = ", ".join(
        f"(length(lowered) - length(replace(lowered, {term}, ''))) / length({term}) as n{number}"
        for number, term in enumerate(wanted)
    )
    return f"""
        with newest as (
            select session_id, session_name, id, agent_id, role, ts, text
            from messages where {found} order by ts desc limit {_RANKED}
        ),
        lowered as (select *, lower(text) as lowered from newest),
        counted as (
            select *, greatest(1, strpos(lowered, {wanted[0]}) - {_AROUND})::bigint as start, {counts} from lowered
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
