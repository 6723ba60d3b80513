"""`%planck history`, `answer`, `usage`, `timeline` and `scores`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.base.text import counted, one_line
from planck_nb.jupyter.charts import Chart, UsageTables, scores_chart, timeline_chart, unpriced_note, usage_tables
from planck_nb.jupyter.charts.history_rows import records
from planck_nb.jupyter.charts.scores import NOTHING as NO_EVALUATIONS
from planck_nb.jupyter.charts.usage import NOTHING
from planck_nb.jupyter.display.summary_table import SummaryTable, bar
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import AGENT_NAME, SESSION, is_agent
from planck_nb.jupyter.parsing.parameters import INTEGER, WORD, Option, Parameter
from planck_nb.jupyter.transcript.answer import Answer
from planck_nb.jupyter.verbs.declaration import readable, verb
from planck_nb.rendering.formatting import count, dollars
from planck_nb.rendering.plain_output import for_terminal
from planck_nb.workspace.agent_names import named_agents

if TYPE_CHECKING:
    import pandas as pd

SUBJECT = "History"

# What a rewind has hidden was paid for, so it counts. The demo models cost nothing.
_SQL = """
WITH paid AS (
    SELECT local(ts)::DATE AS day, session_id, any_value(session_name) AS session,
        sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0))::BIGINT AS tokens,
        sum(coalesce(cost_usd, CASE WHEN model LIKE 'demo:%' THEN 0 END)) AS cost_usd,
        count(*) FILTER (cost_usd IS NULL AND model NOT LIKE 'demo:%') AS unpriced,
        string_agg(DISTINCT model, ',' ORDER BY model) FILTER (cost_usd IS NULL AND model NOT LIKE 'demo:%') AS models
    FROM charges WHERE ts >= {since} GROUP BY day, session_id
),
said AS (
    SELECT local(ts)::DATE AS day, session_id, any_value(session_name) AS session, count(*) AS prompts,
        arg_max(text, id) AS last_prompt, max(ts) AS last
    FROM messages WHERE role = 'user' AND sender_id IS NULL AND ts >= {since} GROUP BY day, session_id
)
SELECT day, coalesce(s.session, p.session) AS session, coalesce(prompts, 0) AS prompts, coalesce(tokens, 0) AS tokens,
    cost_usd, coalesce(unpriced, 0) AS unpriced, coalesce(last_prompt, '') AS last_prompt, session_id,
    coalesce(models, '') AS unpriced_models
FROM said s FULL JOIN paid p USING (day, session_id)
ORDER BY day DESC, last DESC NULLS LAST, session_id
"""


def _may_be_session(notebook: Notebook, text: str) -> bool:
    return SESSION.fits is not None and SESSION.fits(notebook, text)


_SHOWN = 20
_MAX_DAYS = 36_500
_PROMPT = 60

_DIGITS = 9
"""No notebook has answers whose numbers are longer."""

_SESSION = Parameter(
    "session",
    replace(SESSION, fits=lambda notebook, text: _may_be_session(notebook, text) or is_agent(notebook, text)),
    "the session, by default this notebook's; or an agent",
    optional=True,
)
_AGENT = Option("agent", "a", AGENT_NAME, "only this agent")
_TOKENS = ["replies", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "thinking_tokens"]


@dataclass(frozen=True, slots=True, repr=False)
class RecentHistory:
    """What was done since a day; `frame` has a row for each day and session, the newest first.

    Args:
        frame: The columns are `day session prompts tokens cost_usd unpriced last_prompt session_id unpriced_models`.
            Days are those of this computer's time zone. `tokens` are the sum of those that models have read and
            written, `cost_usd` is missing without a known price, `unpriced` counts the requests without one, and
            `unpriced_models` lists their models with commas.
        today: The day that counts as today.
        since: The first day.
        period: What the time since then is called.
    """

    frame: pd.DataFrame
    today: date
    since: date
    period: str

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        table = [self._table().text()] if len(self) else []
        return for_terminal("\n\n".join(filter(None, ["\n".join(self._summaries()), *table, *self._notes()])))

    def _repr_html_(self) -> str:
        table = self._table().html() if len(self) else ""
        before, after = (
            "".join(f"<p>{escape(line)}</p>" for line in lines) for lines in (self._summaries(), self._notes())
        )
        return before + table + after

    def _summaries(self) -> list[str]:
        days = self.frame["day"].dt.date
        return [
            f"Today: {_summary(self.frame[days == self.today])}",
            f"{self.period}: {_summary(self.frame)}",
        ]

    def _table(self) -> SummaryTable:
        widest = int(self.frame["tokens"].max())
        rows = [
            (
                f"{row['day']:%a %Y-%m-%d}",
                row["session"],
                str(row["prompts"]),
                count(row["tokens"]),
                bar(row["tokens"], widest),
                _cost(row["cost_usd"], row["unpriced"]),
                one_line(row["last_prompt"], _PROMPT),
            )
            for row in records(self.frame.head(_SHOWN))
        ]
        return SummaryTable(("day", "session", ">prompts", ">tokens", " ", ">cost", "last prompt"), rows)

    def _notes(self) -> list[str]:
        more = len(self) - _SHOWN
        left_out = f"{more} more rows are in its `frame`." if more > 0 else ""
        unpriced = unpriced_note(filter(None, ",".join(self.frame["unpriced_models"]).split(",")))
        return [note for note in (left_out, unpriced) if note]


@verb(
    "history",
    SUBJECT,
    "what was done today and this week, and what it cost",
    Option("days", "d", INTEGER, "how many days to show instead of this week: 1 or more"),
    example="history --days 30",
    synonyms=("log",),
    shows=True,
)
async def history(notebook: Notebook, days: int | None) -> RecentHistory:
    """Return a summary of the stored history."""
    today = datetime.now().astimezone().date()
    since = today - timedelta(days=today.weekday() if days is None else min(days, _MAX_DAYS) - 1)
    begin = datetime(since.year, since.month, since.day).astimezone(UTC)
    literal = f"TIMESTAMP '{begin:%Y-%m-%d %H:%M:%S}'"
    found = await notebook.workspace.query_async(_SQL.format(since=literal))
    period = "This week" if days is None else "Last day" if days == 1 else f"Last {days} days"
    return RecentHistory(readable(found), today, since, period)


def _summary(rows: pd.DataFrame) -> str:
    """Return a sentence about some rows."""
    if not len(rows):
        return "nothing."
    sessions = rows["session_id"].nunique()
    parts = [
        f"{counted(int(rows['prompts'].sum()), 'prompt')} in {counted(sessions, 'session')}",
        f"{count(int(rows['tokens'].sum()))} tokens",
        _cost(rows["cost_usd"].sum(min_count=1), int(rows["unpriced"].sum())),
    ]
    return f"{', '.join(filter(None, parts))}."


def _cost(amount: float | None, unpriced: int) -> str:
    """Return the cost, which is a lower bound if some prices are unknown."""
    if amount is None or math.isnan(amount) or (amount == 0 and unpriced):
        return ""
    return f"≥ {dollars(amount)}" if unpriced else dollars(amount)


@verb(
    "answer",
    SUBJECT,
    "show an answer again, for example one whose cell lost its output",
    Parameter("which", AGENT_NAME, "how many answers back, 1 for the newest; or the name of an agent", optional=True),
    example="answer 2",
    shows=True,
    fits=lambda notebook, words: words[0].removeprefix("-").isdecimal() or is_agent(notebook, words[0]),
)
async def answer(notebook: Notebook, which: str | None) -> Answer:
    """Return the stored answer, which shows itself."""
    agents = named_agents(notebook.workspace)
    answers = notebook.controller.answers
    if which in agents:
        return answers.find(agents.values(), agent=agents[which])
    number = which or "1"
    if not number.removeprefix("-").isdecimal():
        known = did_you_mean(number, list(agents))
        raise UsageError(f"There is no agent {number}; write a number or the name of an agent. {known}".rstrip())
    return answers.find(agents.values(), number=int(number[:_DIGITS]))


@verb(
    "cost",
    SUBJECT,
    "show tokens and cost by agent, model and turn",
    _SESSION,
    _AGENT,
    Option("table", "t", None, "return a data frame of agents, models and purposes"),
    example="cost calm-fox --table",
    synonyms=("usage", "costs", "tokens", "spending"),
    shows=True,
)
async def cost(notebook: Notebook, session: str | None, agent: str | None, table: bool) -> UsageTables | pd.DataFrame:
    """Return tables of the usage, or a data frame."""
    session, agent = _in_session(notebook, session, agent)
    tables = await usage_tables(notebook.workspace, session=session, agents=_only(notebook, agent))
    if not table:
        return tables
    by_agent = tables.frame.groupby(["agent_id", "agent", "model", "purpose"], sort=False, dropna=False)
    sums = by_agent[[*_TOKENS, "cost_usd"]].sum(min_count=1).reset_index().drop(columns="agent_id")
    return readable(sums.sort_values(["agent", "model", "purpose"], ignore_index=True), empty=NOTHING)


@verb(
    "timeline",
    SUBJECT,
    "draw when each agent used models and tools, and when it waited",
    _SESSION,
    _AGENT,
    example="timeline --agent analyst",
    shows=True,
)
async def timeline(notebook: Notebook, session: str | None, agent: str | None) -> Chart:
    """Return a chart of the session's time."""
    session, agent = _in_session(notebook, session, agent)
    return await timeline_chart(notebook.workspace, session=session, agents=_only(notebook, agent))


@verb(
    "scores",
    SUBJECT,
    "draw how models and weeks compare in an evaluation, with intervals",
    Option("name", "n", WORD, "the evaluation, by default the newest"),
    Option("cases", "c", None, "each case, too"),
    Option("table", "t", None, "return a data frame of rates"),
    example="scores --name dates --cases",
    synonyms=("evaluations",),
    shows=True,
)
async def scores(notebook: Notebook, name: str | None, cases: bool, table: bool) -> Chart | pd.DataFrame:
    """Return a chart or a data frame with the scores."""
    chart = await scores_chart(notebook.workspace, name=name, cases=cases)
    return readable(chart.frame, empty=NO_EVALUATIONS) if table else chart


def _in_session(notebook: Notebook, session: str | None, agent: str | None) -> tuple[str | None, str | None]:
    """Return session and agent; a word may name either."""
    if session is None or agent is not None or session not in named_agents(notebook.workspace):
        return session, agent
    is_stored = any(session in {info.name, info.id} for info in notebook.workspace.sessions())
    return (session, None) if is_stored else (None, session)


def _only(notebook: Notebook, agent: str | None) -> tuple[str, ...]:
    """The agent as charts name it: a member of a running team by its id, as other teams may have its name."""
    if agent is None:
        return ()
    known = named_agents(notebook.workspace).get(agent)
    return (agent,) if known is None or known.team_id is None else (known.id,)
