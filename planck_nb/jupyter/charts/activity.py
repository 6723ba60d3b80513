"""Agents' activity in a session over time, from its history rows."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from planck_nb.rendering.formatting import key_argument

Kind: TypeAlias = Literal["model", "tool", "agent", "hold", "turn"]
"""The activity in a span.

The model writes, a tool runs, or a call waits for another agent or for approval ("hold"). A span of the kind "turn"
covers the others in its turn.
"""

Row: TypeAlias = Mapping[str, Any]

_WAITING = {"ask_agent", "call_agent"}
_JITTER = 1.0


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, in seconds since the epoch.

    `name` is the tool, `detail` its key argument. `outcome` is "error" for a failed call; for a turn it is as in the
    view `turns`, or "running", and empty if its end is unknown.
    """

    agent_id: str
    agent: str
    turn: int
    kind: Kind
    begin: float
    end: float
    name: str = ""
    detail: str = ""
    outcome: str = ""
    call: tuple[int | None, str] = (None, "")
    """The surrounding call: its message id and its own id."""


@dataclass(frozen=True, slots=True)
class DrawnTask:
    """A task between two agents, with times in seconds since the epoch.

    `answered` is None without an answer. `kind` is "ask" or "delegate".
    """

    delegator_id: str
    target_id: str
    kind: str
    given: float
    answered: float | None
    failed: bool = False


def tasks_of(rows: Iterable[Row]) -> list[DrawnTask]:
    """Return the agents' tasks for each other, in order.

    Times are corrected as in `spans_of`.

    Args:
        rows: The history. A row of `kind` "task" has the delegator as `agent_id`, the other agent as `call_id`, `began`
            and `ended` in seconds, "ask" or "delegate" as `name`, and the status as `outcome`. Other rows are as in
            `spans_of`.
    """
    history = list(rows)
    clock = _clock(history)
    tasks: list[DrawnTask] = []
    for row in history:
        if row["kind"] != "task" or row["began"] is None:
            continue
        shift = clock.shift(row["id"])
        start = row["began"] + shift
        answer_time = None if row["ended"] is None else max(row["ended"] + shift, start)
        is_failure = row["outcome"] == "failed"
        tasks.append(DrawnTask(row["agent_id"], row["call_id"], row["name"], start, answer_time, is_failure))
    return sorted(tasks, key=lambda task: task.given)


def spans_of(rows: Iterable[Row], *, running: Mapping[str, float]) -> list[Span]:
    """Return the spans for all turns, ordered by agent and turn.

    A turn begins with its first message. Times after the clock jumped back are shifted forward.

    Args:
        rows: The history. A row has `kind` ("message", "tool", "turn", "hold"), `agent_id`, `agent`, `turn`, the
            message's `id`, `call_id`, `began` and `ended` in seconds, `name`, `args` (JSON text) and `outcome`; a
            message has its role as `name`.
        running: The current time by id, for agents with an unfinished newest turn.
    """
    history = [row for row in rows if row["kind"] != "task"]
    clock = _clock(history)
    turns: dict[tuple[str, int], list[Row]] = {}
    for row in history:
        turns.setdefault((row["agent_id"], row["turn"]), []).append(row)
    newest: dict[str, int] = {}
    for agent_id, turn in turns:
        newest[agent_id] = max(turn, newest.get(agent_id, turn))
    spans: list[Span] = []
    for (agent_id, turn), group in sorted(turns.items()):
        spans += _turn_spans(group, clock, running.get(agent_id) if newest[agent_id] == turn else None)
    return spans


class _Clock:
    """Corrects times after backward jumps of the clock."""

    def __init__(self, moments: Iterable[tuple[int, float]]) -> None:
        self._ids: list[int] = []
        self._shifts: list[float] = []
        shift, newest = 0.0, float("-inf")
        for row_id, moment in sorted(moments):
            if moment + shift < newest - _JITTER:
                shift = newest - moment
                self._ids.append(row_id)
                self._shifts.append(shift)
            newest = max(newest, moment + shift)

    def shift(self, row_id: int | None) -> float:
        """Return the seconds to add to a time from this row."""
        at = 0 if row_id is None else bisect_right(self._ids, row_id)
        return self._shifts[at - 1] if at else 0.0


def _clock(rows: Iterable[Row]) -> _Clock:
    return _Clock((row["id"], row["ended"]) for row in rows if row["kind"] == "message")


def _turn_spans(rows: Sequence[Row], clock: _Clock, now: float | None) -> list[Span]:
    messages = sorted((row for row in rows if row["kind"] == "message"), key=lambda row: int(row["id"]))
    calls = [row for row in rows if row["kind"] == "tool"]
    turn = next((row for row in rows if row["kind"] == "turn"), None)
    if not messages:
        return []
    moments = [row["ended"] + clock.shift(row["id"]) for row in messages]
    moments += [end for row in calls if (end := _end(row, clock)) is not None]
    if turn is not None and turn["ended"] is not None:
        moments.append(turn["ended"] + clock.shift(messages[-1]["id"]))
    elif now is not None:
        moments.append(now)
    begin, end = min(moments), max(moments)
    outcome = (turn and turn["outcome"]) or ("running" if now is not None else "")
    whole = Span(rows[0]["agent_id"], rows[0]["agent"], rows[0]["turn"], "turn", begin, end, outcome=outcome)
    holds = [_hold(row, whole, clock) for row in rows if row["kind"] == "hold"]
    tools = [_without_holds(_call(row, whole, clock), holds) for row in calls]
    return [whole, *_model_spans(messages, whole, clock, writing=outcome != ""), *tools, *holds]


def _model_spans(messages: Sequence[Row], turn: Span, clock: _Clock, *, writing: bool) -> list[Span]:
    """Return the spans in which the model writes.

    They go from each message to its reply, or to an unfinished turn's end.
    """
    spans = []
    before = turn.begin
    for row in messages:
        at = max(row["ended"] + clock.shift(row["id"]), before)
        if row["name"] in {"assistant", "summary"}:
            spans.append(replace(turn, kind="model", begin=before, end=at, outcome=""))
        before = at
    if writing and messages[-1]["name"] != "assistant":
        spans.append(replace(turn, kind="model", begin=before, end=turn.end, outcome=""))
    return spans


def _call(row: Row, turn: Span, clock: _Clock) -> Span:
    begin = row["began"] + clock.shift(row["id"])
    end = _end(row, clock)
    return replace(
        turn,
        kind="agent" if row["name"] in _WAITING else "tool",
        begin=begin,
        end=turn.end if end is None else end,
        name=row["name"] or "",
        detail=_detail(row["args"]),
        outcome="error" if row["outcome"] == "error" else "",
        call=(row["id"], row["call_id"]),
    )


def _hold(row: Row, turn: Span, clock: _Clock) -> Span:
    shift = clock.shift(row["id"])
    begin = row["began"] + shift
    end = turn.end if row["ended"] is None else max(row["ended"] + shift, begin)
    return replace(
        turn,
        kind="hold",
        begin=begin,
        end=end,
        name=row["name"] or "",
        detail=_detail(row["args"]),
        outcome="",
        call=(row["id"], row["call_id"]),
    )


def _without_holds(call: Span, holds: Iterable[Span]) -> Span:
    """Return the call without its wait for approval."""
    begin = max([call.begin, *(min(hold.end, call.end) for hold in holds if hold.call == call.call)])
    return replace(call, begin=begin)


def _end(row: Row, clock: _Clock) -> float | None:
    if row["ended"] is None:
        return None
    return float(max(row["ended"], row["began"])) + clock.shift(row["id"])


def _detail(args: str | None) -> str:
    try:
        arguments = json.loads(args or "{}")
    except ValueError:
        return ""
    return key_argument(arguments) if isinstance(arguments, dict) else ""
