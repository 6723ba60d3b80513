"""Verbs that draw a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planck_nb.base.errors import UsageError
from planck_nb.jupyter.charts import Picture, timeline_picture, usage_picture
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.options import Option, parse_words
from planck_nb.jupyter.verbs.verb import Notebook, Verb

if TYPE_CHECKING:
    import pandas as pd

TIMELINE = (Option("agent", "a", "NAME", "only this agent"),)
USAGE = (*TIMELINE, Option("table", "t", None, "a table of agents and models instead of the picture"))

_TOKENS = ["replies", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "thinking_tokens"]


async def _usage(controller: Controller, argument: str, _notebook: Notebook) -> Picture | pd.DataFrame:
    chosen, table = _read(argument, USAGE, "usage")
    picture = await usage_picture(controller.workspace, **chosen)
    if not table:
        return picture
    by_agent = picture.frame.groupby(["agent_id", "agent", "model"], sort=False, dropna=False)
    sums = by_agent[[*_TOKENS, "cost_usd"]].sum(min_count=1).reset_index().drop(columns="agent_id")
    return sums.sort_values(["agent", "model"], ignore_index=True)


async def _timeline(controller: Controller, argument: str, _notebook: Notebook) -> Picture:
    chosen, _ = _read(argument, TIMELINE, "timeline")
    return await timeline_picture(controller.workspace, **chosen)


def _read(argument: str, options: Sequence[Option], verb: str) -> tuple[dict[str, Any], bool]:
    """What is to be drawn, and whether as a table. Raises `UsageError` for more than one session."""
    parsed = parse_words(argument, options, of=f"%planck {verb}")
    if len(parsed.words) > 1:
        raise UsageError(f"`%planck {verb}` takes one session, by name or id, or none for this notebook's.")
    agent = parsed.options.get("agent")
    session = parsed.words[0] if parsed.words else None
    return {"session": session, "agents": () if agent is None else (agent,)}, "table" in parsed.options


VERBS = {
    "usage": Verb("usage [session]", "draw tokens and cost, by agent, model and turn; --table: a table", _usage, USAGE),
    "timeline": Verb("timeline [session]", "draw who did what when: models, tools, and waits", _timeline, TIMELINE),
}
