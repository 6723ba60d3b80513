"""Tables with a session's tokens and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

from planck_nb.base.text import counted, one_line
from planck_nb.base.visible import series
from planck_nb.jupyter.charts.history_rows import records, rows_of, session_shown
from planck_nb.jupyter.display.summary_table import SummaryTable, bar
from planck_nb.rendering.formatting import count, dollars
from planck_nb.rendering.plain_output import for_terminal
from planck_nb.workspace import Workspace

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS = 10
"""Most rows in a table; all other groups share one."""

NOTHING = "No model has replied in this session yet."

_PURPOSES = {
    "reply": "replies",
    "summary": "summaries",
    "sampling": "replies for sidecars",
    "failed": "failed requests",
}
_PROMPT_CHARACTERS = 60
_NAMED = 3
"""Models in the sentence about unknown costs."""
_AMOUNTS = (">tokens", " ", ">input", ">cached", ">output", ">cost")

# What a rewind has taken back was paid for, but has lost its turn.
_SQL = """
WITH spent AS (
    SELECT agent_id, model, purpose, CASE WHEN NOT rewound THEN turn END AS turn,
        count(*) FILTER (purpose = 'reply') AS replies, sum(input_tokens) AS input_tokens,
        sum(output_tokens) AS output_tokens, sum(cache_read_tokens) AS cache_read_tokens,
        sum(cache_write_tokens) AS cache_write_tokens, sum(thinking_tokens) AS thinking_tokens,
        sum(cost_usd) AS cost_usd, bool_or(estimated) AS estimated
    FROM charges WHERE session_id = $session GROUP BY ALL
),
said AS (SELECT agent_id, turn, prompt FROM turns WHERE session_id = $session),
known AS (SELECT agent_id, name FROM agents WHERE session_id = $session)
SELECT coalesce(name, agent_id) AS agent, agent_id, model, purpose, turn, prompt, replies::bigint AS replies,
    columns('_tokens$')::bigint, cost_usd, estimated
FROM spent LEFT JOIN known USING (agent_id) LEFT JOIN said USING (agent_id, turn)
ORDER BY turn NULLS LAST, agent, model, agent_id, purpose
"""

Row: TypeAlias = Mapping[str, Any]
Group: TypeAlias = tuple[tuple[str, ...], list[Row]]
"""Cells at the beginning of a row, and what it sums up."""


@dataclass(frozen=True, slots=True, repr=False)
class UsageTables:
    """Tables with a session's tokens and cost.

    Args:
        frame: A row for each agent, model, turn and purpose, as in the view `charges`. `turn` is missing for what a
            rewind took back, which still counts as spent. Cost is in US dollars, missing for an unknown price.
    """

    frame: pd.DataFrame

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        tables = (table.text() for table in self._tables())
        return for_terminal("\n\n".join(filter(None, (self._summary(), *tables, self._note()))))

    def _repr_html_(self) -> str:
        lines = [f"<p>{escape(self._summary())}</p>", *(table.html() for table in self._tables())]
        note = self._note()
        return "".join([*lines, f"<p>{escape(note)}</p>" if note else ""])

    def _summary(self) -> str:
        rows = records(self.frame)
        if not rows:
            return NOTHING
        total, names = _sum(rows), {row["agent_id"] for row in rows}
        amounts = [f"{count(total.tokens)} tokens" if total.tokens is not None else "", total.shown_cost()]
        return f"Usage: {', '.join(filter(None, [counted(len(names), 'agent'), *amounts]))}"

    def _note(self) -> str:
        rows = [row for row in records(self.frame) if _cost_of(row) is None and row["model"]]
        return unpriced_note(
            *([row["model"] for row in rows if _has_counts(row) is counts] for counts in (True, False))
        )

    def _tables(self) -> list[SummaryTable]:
        """Return a table for each grouping, without mere repetitions."""
        rows = records(self.frame)
        agents = _groups(rows, lambda row: (row["agent_id"], row["agent"], row["model"] or ""))
        models = _groups(rows, lambda row: ("", row["model"] or ""))
        purposes = _groups(rows, lambda row: ("", _PURPOSES.get(row["purpose"], str(row["purpose"]))))
        turns = _groups(rows, _turn)
        tables = [_table("By agent", ("agent", "model"), _largest(agents))] if rows else []
        if 1 < len(models) < len(agents):
            tables.append(_table("By model", ("model",), _largest(models)))
        if len(purposes) > 1:
            tables.append(_table("By purpose", ("purpose",), _largest(purposes)))
        if len(turns) > len(agents):
            tables.append(_table("By turn", ("turn", "agent", "prompt"), _newest(turns)))
        return tables


async def usage_tables(workspace: Workspace, *, session: str | None = None, agents: Iterable[str] = ()) -> UsageTables:
    """Query a session's tokens and cost by agent, model, purpose and turn.

    Args:
        workspace: The workspace with the history.
        session: An id or a name; None for the workspace's own session.
        agents: Agent names or ids to include; all by default.

    Returns:
        The tables. The same conversation gives the same ones.

    Raises:
        SessionNotFoundError: The session is unknown.
        UsageError: An agent is unknown in the session.
    """
    return UsageTables(await rows_of(workspace, _SQL, session_shown(workspace, session), agents))


def unpriced_note(models: Iterable[str], without_counts: Iterable[str] = ()) -> str:
    """Return a sentence about models with an unknown cost, empty without any.

    Args:
        models: Models without a price.
        without_counts: Models whose server did not count tokens.
    """
    reasons = {
        "no price is known; the file of the setting models_file can give one": sorted(set(models)),
        "no token counts": sorted(set(without_counts)),
    }
    parts = [f"{_listed(names)} ({reason})" for reason, names in reasons.items() if names]
    return f"Cost not known: {'; '.join(parts)}." if parts else ""


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return series(names) if more <= 0 else f"{', '.join(names[:_NAMED])} and {more} more"


@dataclass(frozen=True, slots=True)
class Amounts:
    """Sums over some replies; None for an unknown one."""

    fresh: int = 0
    cache: int = 0
    output: int = 0
    tokens: int | None = None
    cost: float | None = None
    is_complete: bool = True
    """False if the cost is a lower bound."""

    def shown_cost(self) -> str:
        """Return the cost, empty if it is unknown."""
        if self.cost is None or (self.cost == 0 and not self.is_complete):
            return ""
        return dollars(self.cost) if self.is_complete else f"≥ {dollars(self.cost)}"

    def cells(self, widest: int) -> tuple[str, ...]:
        """Return a row's cells, with a bar to scale."""
        if self.tokens is None:
            return ("", "", "", "", "", self.shown_cost())
        parts = (count(part) if part else "" for part in (self.fresh, self.cache, self.output))
        return (count(self.tokens), bar(self.tokens, widest), *parts, self.shown_cost())


def _cost_of(row: Row) -> float | None:
    """Return the cost in US dollars, None if it is unknown.

    The demo models are free.
    """
    cost: float | None = row["cost_usd"]
    return 0.0 if cost is None and str(row["model"]).startswith("demo:") else cost


def _has_counts(row: Row) -> bool:
    return row["input_tokens"] is not None or row["output_tokens"] is not None


def _sum(rows: Sequence[Row]) -> Amounts:
    counts = [row for row in rows if _has_counts(row)]
    cache = sum(min(row["cache_read_tokens"] or 0, row["input_tokens"] or 0) for row in counts)
    fresh = sum(row["input_tokens"] or 0 for row in counts) - cache
    output = sum(row["output_tokens"] or 0 for row in counts)
    costs = [cost for row in rows if (cost := _cost_of(row)) is not None]
    return Amounts(
        fresh,
        cache,
        output,
        fresh + cache + output if counts else None,
        sum(costs) if costs else None,
        len(costs) == len(rows) and not any(row.get("estimated") for row in rows),
    )


def _turn(row: Row) -> tuple[str, ...]:
    turn = "taken back" if row["turn"] is None else str(row["turn"])
    return row["agent_id"], turn, row["agent"], one_line(row["prompt"] or "", _PROMPT_CHARACTERS)


def _groups(rows: Iterable[Row], key: Callable[[Row], tuple[str, ...]]) -> list[Group]:
    """Group rows with equal keys; the first part only tells names apart."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return [(name[1:], group) for name, group in groups.items()]


def _largest(groups: list[Group]) -> list[Group]:
    by_size = sorted(groups, key=lambda group: (-(_sum(group[1]).tokens or 0), group[0]))
    if len(by_size) <= MAX_ROWS:
        return by_size
    return [*by_size[: MAX_ROWS - 1], _rest(by_size[MAX_ROWS - 1 :], "more")]


def _newest(groups: list[Group]) -> list[Group]:
    if len(groups) <= MAX_ROWS:
        return groups
    return [_rest(groups[: 1 - MAX_ROWS], "earlier"), *groups[1 - MAX_ROWS :]]


def _rest(groups: Sequence[Group], word: str) -> Group:
    label = (f"and {len(groups)} {word}", *("" for _ in groups[0][0][1:]))
    return label, [row for _, rows in groups for row in rows]


def _table(title: str, columns: tuple[str, ...], groups: Sequence[Group]) -> SummaryTable:
    amounts = [_sum(rows) for _, rows in groups]
    widest = max((amount.tokens or 0 for amount in amounts), default=0)
    rows = [(*label, *amount.cells(widest)) for (label, _), amount in zip(groups, amounts, strict=True)]
    return SummaryTable((*columns, *_AMOUNTS), rows, title)
