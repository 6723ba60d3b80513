"""`%planck history`: what was done today and this week, and what it cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING

from planck_nb.base.text import counted
from planck_nb.jupyter.display.formatting import count, dollars
from planck_nb.jupyter.display.plain_output import for_terminal
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.parameters import INTEGER, Option
from planck_nb.jupyter.verbs.declaration import readable, verb

if TYPE_CHECKING:
    import pandas as pd

# Replies that a rewind has hidden were paid for, so they count. The demo models cost nothing.
_SQL = """
WITH paid AS (
    SELECT local(ts)::DATE AS day, session_id, any_value(session_name) AS session,
        sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0))::BIGINT AS tokens,
        sum(coalesce(cost_usd, CASE WHEN model LIKE 'demo:%' THEN 0 END)) AS cost_usd,
        count(*) FILTER (cost_usd IS NULL AND model NOT LIKE 'demo:%') AS unpriced
    FROM replies WHERE ts >= {since} GROUP BY day, session_id
),
said AS (
    SELECT local(ts)::DATE AS day, session_id, any_value(session_name) AS session, count(*) AS prompts,
        arg_max(text, id) AS last_prompt, max(ts) AS last
    FROM messages WHERE role = 'user' AND sender_id IS NULL AND ts >= {since} GROUP BY day, session_id
)
SELECT day, coalesce(s.session, p.session) AS session, coalesce(prompts, 0) AS prompts, coalesce(tokens, 0) AS tokens,
    cost_usd, coalesce(unpriced, 0) AS unpriced, coalesce(last_prompt, '') AS last_prompt, session_id
FROM said s FULL JOIN paid p USING (day, session_id)
ORDER BY day DESC, last DESC NULLS LAST, session_id
"""

_SHOWN = 20
_MAX_DAYS = 36_500
_PROMPT = 60


@dataclass(frozen=True, slots=True, repr=False)
class RecentHistory:
    """What was done since a day; `frame` has a row for each day and session, the newest first.

    Args:
        frame: The columns are `day session prompts tokens cost_usd unpriced last_prompt session_id`. Days are those of
            this computer's time zone. `tokens` are the sum of those that models have read and written, `cost_usd` is
            missing if no price is known, and `unpriced` counts the replies without one.
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
        lines = self._summaries()
        if len(self):
            lines += ["", self._shown().to_string(index=False), *self._left_out()]
        return for_terminal("\n".join(lines))

    def _repr_html_(self) -> str:
        summaries = "".join(f"<p>{escape(line)}</p>" for line in self._summaries())
        if not len(self):
            return summaries
        left_out = "".join(f"<p>{escape(line)}</p>" for line in self._left_out())
        return summaries + self._shown().to_html(notebook=True, index=False) + left_out

    def _summaries(self) -> list[str]:
        days = self.frame["day"].dt.date
        return [
            f"Today: {_summary(self.frame[days == self.today])}",
            f"{self.period}: {_summary(self.frame)}",
        ]

    def _shown(self) -> pd.DataFrame:
        frame = self.frame.head(_SHOWN)
        shown = frame[["session", "prompts"]].copy()
        shown.insert(0, "day", frame["day"].dt.strftime("%a %Y-%m-%d"))
        shown["tokens"] = [count(tokens) for tokens in frame["tokens"]]
        shown["cost"] = [_cost(*amounts) for amounts in zip(frame["cost_usd"], frame["unpriced"], strict=True)]
        shown["last_prompt"] = [_first_words(text) for text in frame["last_prompt"]]
        return shown

    def _left_out(self) -> list[str]:
        more = len(self) - _SHOWN
        return [f"{more} more rows are in its `frame`."] if more > 0 else []


@verb(
    "history",
    "History",
    "what was done today and this week, and what it cost",
    Option("days", "d", INTEGER, "how many days to show instead of this week: 1 or more"),
    example="history --days 30",
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
        _cost(rows["cost_usd"].sum(min_count=1), int(rows["unpriced"].sum())) or "no cost",
    ]
    return f"{', '.join(parts)}."


def _cost(amount: float, unpriced: int) -> str:
    """Return the cost of some replies; if some have no known price, the least that they cost together."""
    if math.isnan(amount):
        return "cost not known" if unpriced else ""
    return f"≥ {dollars(amount)}" if unpriced else dollars(amount)


def _first_words(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _PROMPT else f"{line[: _PROMPT - 1]}…"
