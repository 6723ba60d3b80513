"""`%planck search`: messages by their words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.options import Option, count, parse_words
from planck_nb.jupyter.verbs.verb import Notebook, Verb
from planck_nb.sessions import search_async, terms

if TYPE_CHECKING:
    import pandas as pd

SEARCH = (
    Option("agent", "a", "NAME", "only what this agent's conversation has"),
    Option("session", "s", "NAME", "only what this session has"),
    Option("limit", "n", "N", "at most so many messages: 1 or more", count),
)
_SHOWN = 10
_KNOWN = {
    "session": "SELECT session_name AS name, session_id AS id FROM sessions",
    "agent": "SELECT name, agent_id AS id FROM agents UNION SELECT NULL, agent_id FROM messages",
}


@dataclass(frozen=True, slots=True, repr=False)
class Hits:
    """What a search found, the best first; `frame` is the table of it."""

    words: str
    frame: pd.DataFrame

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return "\n".join([self._summary(), *(f"\n{where}\n    {excerpt}" for where, excerpt in self._rows())])

    def _repr_html_(self) -> str:
        marked = re.compile("|".join(map(re.escape, terms(self.words))), re.IGNORECASE)
        rows = (f"<dt>{escape(where)}</dt><dd>{_marked(excerpt, marked)}</dd>" for where, excerpt in self._rows())
        return f"<p>{escape(self._summary())}</p><dl>{''.join(rows)}</dl>"

    def _summary(self) -> str:
        if not len(self):
            return f"No message has {self.words}."
        return f"{self.words}: {'one message' if len(self) == 1 else f'{len(self)} messages, the best first'}."

    def _rows(self) -> Iterator[tuple[str, str]]:
        shown = zip(*(self.frame[name] for name in ("session_name", "agent", "role", "ts", "excerpt")), strict=True)
        for session, agent, role, when, excerpt in shown:
            yield f"{session} · {agent} · {role} · {when:%Y-%m-%d %H:%M}", " ".join(excerpt.split())


async def _search(controller: Controller, argument: str, _notebook: Notebook) -> Hits:
    # An apostrophe is no quotation mark here, and what stands in double quotes stays together.
    parsed = parse_words(argument, SEARCH, of="%planck search", quotes='"')
    words = " ".join(f'"{word}"' if " " in word else word for word in parsed.words)
    if not terms(words):
        raise UsageError(
            '`%planck search` needs words to look for; those in double quotes are looked for "as they stand".'
        )
    options = {"limit": _SHOWN, **parsed.options}
    options.pop("debug", None)
    hits = Hits(words, await search_async(controller.workspace.sessions_dir, words, **options))
    if not hits:
        await _require_known(controller, options)
    return hits


async def _require_known(controller: Controller, options: Mapping[str, object]) -> None:
    """Raise `UsageError` where nothing has the name that the search is confined to."""
    for kind, statement in _KNOWN.items():
        wanted = options.get(kind)
        if wanted is None:
            continue
        known = await controller.workspace.query_async(statement)
        if wanted not in {*known["name"], *known["id"]}:
            hint = did_you_mean(str(wanted), set(known["name"].dropna()))
            raise UsageError(f"The stored history has no {kind} called {wanted!r}. {hint}".strip())


def _marked(text: str, pattern: re.Pattern[str]) -> str:
    """The text as HTML, with what matches marked."""
    pieces, end = [], 0
    for match in pattern.finditer(text):
        pieces += [escape(text[end : match.start()]), "<mark>", escape(match.group()), "</mark>"]
        end = match.end()
    return "".join([*pieces, escape(text[end:])])


VERBS = {
    "search": Verb("search WORDS", "find messages in all sessions, the best first", _search, SEARCH),
}
