"""Verbs that draw a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planck_nb.jupyter.charts import Chart, timeline_chart, usage_chart
from planck_nb.jupyter.charts.usage import NOTHING
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import AGENT_NAME, SESSION
from planck_nb.jupyter.parsing.parameters import Option, Parameter
from planck_nb.jupyter.verbs.declaration import readable, verb
from planck_nb.workspace.agent_names import named_agents

if TYPE_CHECKING:
    import pandas as pd

SUBJECT = "History"

_SESSION = Parameter("session", SESSION, "the session, by default this notebook's", optional=True)
_AGENT = Option("agent", "a", AGENT_NAME, "only this agent")
_TOKENS = ["replies", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "thinking_tokens"]


@verb(
    "usage",
    SUBJECT,
    "draw tokens and cost by agent, model and turn",
    _SESSION,
    _AGENT,
    Option("table", "t", None, "a table of agents and models instead of the chart"),
    example="usage calm-fox --table",
)
async def usage(notebook: Notebook, session: str | None, agent: str | None, table: bool) -> Chart | pd.DataFrame:
    """Return a chart of the usage, or a table of it."""
    chart = await usage_chart(notebook.workspace, session=session, agents=_only(notebook, agent))
    if not table:
        return chart
    by_agent = chart.frame.groupby(["agent_id", "agent", "model"], sort=False, dropna=False)
    sums = by_agent[[*_TOKENS, "cost_usd"]].sum(min_count=1).reset_index().drop(columns="agent_id")
    return readable(sums.sort_values(["agent", "model"], ignore_index=True), empty=NOTHING)


@verb(
    "timeline",
    SUBJECT,
    "draw when each agent used models and tools, and when it waited",
    _SESSION,
    _AGENT,
    example="timeline --agent analyst",
)
async def timeline(notebook: Notebook, session: str | None, agent: str | None) -> Chart:
    """Return a chart of the session's time."""
    return await timeline_chart(notebook.workspace, session=session, agents=_only(notebook, agent))


def _only(notebook: Notebook, agent: str | None) -> tuple[str, ...]:
    """The agent as charts name it: a member of a running team by its id, as other teams may have its name."""
    if agent is None:
        return ()
    known = named_agents(notebook.workspace).get(agent)
    return (agent,) if known is None or known.team_id is None else (known.id,)
