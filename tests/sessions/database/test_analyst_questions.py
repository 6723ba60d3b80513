"""Questions of an analyst, each one short statement; its result is also computed from the lines of the journals."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from statistics import mean, median
from typing import Any, TypeAlias

import pytest
from support.history import FIRST, lines_of, write_journal

from planck_nb.sessions import Session, list_sessions, query

LONGEST = 160
"""Characters of a statement."""

Rows: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True)
class Stored:
    """A session as its journal has it."""

    id: str
    name: str
    lines: Rows

    @cached_property
    def visible(self) -> Rows:
        """The rows that no rewind has hidden."""
        found: Rows = []
        for line in self.lines:
            if line["kind"] == "rewind":
                found = [row for row in found if row["id"] < line["before_id"]]
            found.append(line)
        return found

    def messages(self, *roles: str) -> Rows:
        return [row for row in self.visible if row["kind"] == "message" and (not roles or row["role"] in roles)]

    def events(self, *types: str) -> Rows:
        return [row for row in self.visible if row["kind"] == "event" and row["type"] in types]

    def replies(self) -> Rows:
        """All replies that were paid for."""
        return [row for row in self.lines if row["kind"] == "message" and row["role"] == "assistant"]

    def calls(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """The tool calls with the replies that have them."""
        for row in self.messages("assistant"):
            yield from ((part, row) for part in row["data"]["content"] if part["type"] == "tool_call")

    def results(self) -> Rows:
        return [part for row in self.messages("tool_result") for part in row["data"]["content"]]

    def seconds(self) -> list[float]:
        """How long the tools ran."""
        started = {row["data"]["id"]: when(row) for row in self.events("tool_start")}
        return [(when(row) - started[row["data"]["id"]]).total_seconds() for row in self.events("tool_end")]

    def turns(self) -> dict[int, float]:
        """How long the turns took."""
        started = {row["turn"]: when(row) for row in self.events("turn_start")}
        return {row["turn"]: (when(row) - started[row["turn"]]).total_seconds() for row in self.events("turn_end")}

    def prompts(self) -> dict[int, str]:
        return {row["turn"]: row["text"] for row in self.messages("user")}


def when(row: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(row["ts"]).replace(tzinfo=None)


def model(row: dict[str, Any]) -> str:
    return f"{row['provider']}:{row['model']}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Stored]]:
    """Four sessions of several lengths; in one of them a rewind has hidden the end."""
    directory = tmp_path_factory.mktemp("store")
    for number, length in enumerate((20, 480, 130, 60)):
        begin = FIRST + timedelta(days=number, hours=number)
        lines = b"".join(lines_of(length, begin=begin.timestamp(), seed=number, agent_id=f"agent{number}"))
        write_journal(directory, f"{number:016x}", f"session-{number}", lines, begin)

    async def rewind() -> None:
        with Session.open(directory, "session-2") as session:
            await session.truncate_after(session.messages()[99].db_id)

    asyncio.run(rewind())
    sessions = list_sessions(directory)
    read = [(each, list(map(json.loads, each.path.read_bytes().splitlines()))) for each in sessions]
    return directory, [Stored(each.id, each.name, lines) for each, lines in read]


def tally(sessions: list[Stored], values: Callable[[Stored], Any]) -> list[tuple[Any, ...]]:
    return sorted(Counter(value for session in sessions for value in values(session)).items())


def sums(pairs: Iterator[tuple[Any, float]]) -> list[tuple[Any, float]]:
    found: dict[Any, float] = defaultdict(float)
    for key, value in pairs:
        found[key] += value
    return sorted(found.items())


def every(sessions: list[Stored], values: Callable[[Stored], Any]) -> list[Any]:
    return [value for session in sessions for value in values(session)]


QUESTIONS: list[tuple[str, str, Callable[[list[Stored]], Any]]] = [
    ("How many sessions are there?", "select count(*) from sessions", len),
    (
        "How many messages has each session?",
        "select session_name, messages from sessions order by all",
        lambda s: [(each.name, len(each.messages())) for each in s],
    ),
    (
        "How many messages of each role are there?",
        "select role, count(*) from messages group by role order by role",
        lambda s: tally(s, lambda each: [row["role"] for row in each.messages()]),
    ),
    (
        "What did everything cost?",
        "select sum(cost_usd) from usage",
        lambda s: sum(row["cost_usd"] for each in s for row in each.replies()),
    ),
    (
        "What did each model cost?",
        "select model, sum(cost_usd) from usage group by model order by model",
        lambda s: sums((model(row), row["cost_usd"]) for each in s for row in each.replies()),
    ),
    (
        "What did each day cost?",
        "select ts::date::varchar, sum(cost_usd) from replies group by 1 order by 1",
        lambda s: sums((str(when(row).date()), row["cost_usd"]) for each in s for row in each.replies()),
    ),
    (
        "Which session was the dearest?",
        "select session_name from sessions order by cost_usd desc limit 1",
        lambda s: max(s, key=lambda each: sum(row["cost_usd"] for row in each.replies())).name,
    ),
    (
        "What did the replies cost that were taken back?",
        "select sum(cost_usd) from replies where rewound",
        lambda s: sum(row["cost_usd"] for each in s for row in each.replies() if row not in each.visible),
    ),
    (
        "How many tokens did each model write?",
        "select model, sum(output_tokens) from usage group by model order by model",
        lambda s: sums((model(row), row["output_tokens"]) for each in s for row in each.replies()),
    ),
    (
        "What part of the input came from the cache?",
        "select sum(cache_read_tokens) / sum(input_tokens) from usage",
        lambda s: (
            sum(row["cache_read_tokens"] for each in s for row in each.replies())
            / sum(row["input_tokens"] for each in s for row in each.replies())
        ),
    ),
    (
        "How many tokens went into thinking?",
        "select sum(thinking_tokens) from replies",
        lambda s: sum(row["thinking_tokens"] for each in s for row in each.replies()),
    ),
    (
        "Which tools were called how often?",
        "select name, count(*) from tool_calls group by name order by name",
        lambda s: tally(s, lambda each: [part["name"] for part, _ in each.calls()]),
    ),
    (
        "Which tools failed how often?",
        "select name, count(*) from tool_calls where is_error group by name order by name",
        lambda s: tally(s, lambda each: [part["name"] for part in each.results() if part["is_error"]]),
    ),
    (
        "How long did tools run?",
        "select avg(duration_s) from tool_calls",
        lambda s: mean(every(s, Stored.seconds)),
    ),
    (
        "Which files were worked on in session-0?",
        "select distinct args->>'$.path' from tool_calls where session_name = 'session-0' order by all",
        lambda s: [(path,) for path in sorted({part["args"]["path"] for part, _ in s[0].calls()})],
    ),
    (
        "What did the tool return in the turn 3 of session-1?",
        "select result from tool_calls where session_name = 'session-1' and turn = 3",
        lambda s: next(part["text"] for part in s[1].results() if part["id"] == "call_3"),
    ),
    (
        "What was I asked to approve?",
        "select session_name, call_id from approvals where asked is not null order by all",
        lambda s: sorted((each.name, row["data"]["id"]) for each in s for row in each.events("approval_request")),
    ),
    (
        "How long did approvals wait for me?",
        "select sum(waited_s) from approvals where decided_by = 'user'",
        lambda s: sum(
            (when(decision) - when(request)).total_seconds()
            for each in s
            for request in each.events("approval_request")
            for decision in each.events("approval_decision")
            if request["data"]["id"] == decision["data"]["id"]
        ),
    ),
    (
        "Who decided how often?",
        "select decided_by, count(*) from approvals group by all order by all",
        lambda s: tally(s, lambda each: [row["data"]["by"] for row in each.events("approval_decision")]),
    ),
    (
        "How many turns has each session?",
        "select session_name, count(*) from turns group by all order by all",
        lambda s: [(each.name, len(each.prompts())) for each in s],
    ),
    (
        "Which turn took longest?",
        "select max(duration_s) from turns",
        lambda s: max(seconds for each in s for seconds in each.turns().values()),
    ),
    (
        "How many replies does a turn need?",
        "select avg(replies) from turns",
        lambda s: len(every(s, lambda each: each.messages("assistant"))) / len(every(s, lambda each: each.prompts())),
    ),
    (
        "What was the last prompt of each session?",
        "select session_name, arg_max(prompt, turn) from turns group by all order by all",
        lambda s: [(each.name, each.prompts()[max(each.prompts())]) for each in s],
    ),
    (
        "How long does the first token take?",
        "select median(ttft_s) from replies",
        lambda s: median(
            row["data"]["ttft_s"] for each in s for row in each.replies() if row["data"].get("ttft_s") is not None
        ),
    ),
    (
        "Which replies took longer than four seconds?",
        "select count(*) from replies where latency_s > 4",
        lambda s: sum((row["data"].get("latency_s") or 0) > 4 for each in s for row in each.replies()),
    ),
    (
        "How often was a request tried again, and why?",
        "select detail, count(*) from events where type = 'retry' group by all",
        lambda s: tally(s, lambda each: [row["data"]["reason"] for row in each.events("retry")]),
    ),
    (
        "How many seconds were lost before such retries?",
        "select sum((data->>'$.delay')::double) from events where type = 'retry'",
        lambda s: sum(row["data"]["delay"] for each in s for row in each.events("retry")),
    ),
    (
        "Which agents have which system prompt?",
        "select agent_id, name, system_prompt from agents order by all",
        lambda s: [
            (row["agent_id"], row["data"]["name"], row["data"]["system_prompt"])
            for each in s
            for row in each.events("agent_started")
        ],
    ),
    (
        "How many chapters has each session?",
        "select session_name, count(*) from chapters group by all order by all",
        lambda s: [(each.name, 1 + len(each.messages("summary"))) for each in s],
    ),
    (
        "What was undone, and how much?",
        "select session_name, messages from branches",
        lambda s: [
            (
                each.name,
                sum(
                    row["kind"] == "message" and row not in each.visible and row["id"] < line["id"]
                    for row in each.lines
                ),
            )
            for each in s
            for line in each.lines
            if line["kind"] == "rewind"
        ],
    ),
    (
        "Which messages mention numbers, and in which session?",
        "select session_name, count(*) from messages where text ilike '%NUMBERS%' group by all order by all",
        lambda s: tally(s, lambda each: [each.name for row in each.messages() if "numbers" in row["text"]]),
    ),
    (
        "When was each session last used?",
        "select session_name, last::varchar from sessions order by all",
        lambda s: [
            (each.name, max(map(when, each.messages())).isoformat(" ", "milliseconds").rstrip("0").rstrip("."))
            for each in s
        ],
    ),
]


def test_there_are_thirty_and_each_is_short() -> None:
    assert len({question for question, _, _ in QUESTIONS}) == len(QUESTIONS) >= 30
    assert max(len(statement) for _, statement, _ in QUESTIONS) <= LONGEST


@pytest.mark.parametrize(
    ("statement", "compute"),
    [pytest.param(statement, compute, id=question) for question, statement, compute in QUESTIONS],
)
def test_a_question_is_one_statement(
    store: tuple[Path, list[Stored]], statement: str, compute: Callable[[list[Stored]], Any]
) -> None:
    directory, sessions = store
    found = [tuple(row) for row in query(directory, statement).astype(object).itertuples(index=False)]
    computed = compute(sessions)
    expected = computed if isinstance(computed, list) else [(computed,)]
    assert expected
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        for value, wanted in zip(row, other, strict=True):
            same = math.isclose(value, wanted, rel_tol=1e-9) if isinstance(wanted, int | float) else value == wanted
            assert same, (row, other)
