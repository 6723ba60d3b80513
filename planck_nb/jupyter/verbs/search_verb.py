"""`%planck search`: messages by their words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.display.plain_output import for_terminal
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import AGENT_NAME, SESSION
from planck_nb.jupyter.parsing.parameters import INTEGER, WORDS, Option, Parameter
from planck_nb.jupyter.verbs.declaration import verb
from planck_nb.sessions import search_async, terms

if TYPE_CHECKING:
    import pandas as pd

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
)
async def search(
    notebook: Notebook, words: tuple[str, ...], agent: str | None, session: str | None, limit: int | None
) -> Hits:
    """Return the messages that have the words."""
    wanted = " ".join(f'"{word}"' if " " in word else word for word in words)
    if not terms(wanted):
        raise UsageError('`%planck search` needs words to look for; put an exact phrase in "double quotes".')
    directory = notebook.workspace.sessions_dir
    found = await search_async(directory, wanted, agent=agent, session=session, limit=limit or _SHOWN)
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
