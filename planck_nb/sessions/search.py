"""Finds messages by words, in all sessions of a directory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from planck_nb.base.errors import QueryError
from planck_nb.sessions.engine import literal
from planck_nb.sessions.query import query, query_async

if TYPE_CHECKING:
    import pandas as pd

_WORDS = re.compile(r'"([^"]+)"|(\S+)')
_RANKED = 10_000
_AROUND = 60
_EXCERPT = 200


def search(directory: Path, words: str, limit: int = 20) -> pd.DataFrame:
    """The messages that contain all of the words, in any case and place, the best first.

    Words in double quotes are looked for as they stand. A message ranks higher the more often it has the words and the
    shorter it is, the newer first among equals; where more than 10,000 match, the newest of them are ranked. Columns:
    `session_id session_name id agent_id role ts score excerpt`. Raises QueryError, and KeyboardInterrupt on Ctrl-C.
    """
    return query(directory, _statement(words, limit))


async def search_async(directory: Path, words: str, limit: int = 20) -> pd.DataFrame:
    """Like `search`, on a thread of its own while the event loop goes on. Cancelling ends the search."""
    return await query_async(directory, _statement(words, limit))


def _statement(words: str, limit: int) -> str:
    terms = [literal((phrase or word).lower()) for phrase, word in _WORDS.findall(words) if (phrase or word).strip()]
    if not terms:
        raise QueryError("There is nothing to look for; give one or more words.")
    if limit < 0:
        raise QueryError(f"A search cannot have {limit} results; give a limit of 0 or more.")
    found = " and ".join(f"contains(lower(text), {term})" for term in terms)
    # How often a word occurs counts less the more there are, and less in a long text, as in BM25.
    score = " + ".join(f"n{number} / (n{number} + 0.3 + length(text) / 600)" for number in range(len(terms)))
    counts = ", ".join(
        f"(length(lowered) - length(replace(lowered, {term}, ''))) / length({term}) as n{number}"
        for number, term in enumerate(terms)
    )
    return f"""
        with newest as (
            select session_id, session_name, id, agent_id, role, ts, text
            from messages where {found} order by ts desc limit {_RANKED}
        ),
        lowered as (select *, lower(text) as lowered from newest),
        counted as (select *, {counts} from lowered)
        select
            session_id, session_name, id, agent_id, role, ts, {score} as score,
            substr(text, greatest(1, strpos(lowered, {terms[0]}) - {_AROUND})::bigint, {_EXCERPT}) as excerpt
        from counted order by score desc, ts desc, id desc limit {limit}
    """  # noqa: S608 - the words are literals
