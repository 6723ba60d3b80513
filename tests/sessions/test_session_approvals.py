from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from support.stored import START, converse

from planck_nb.agent import events
from planck_nb.agent.effect import Effect
from planck_nb.ai.messages import AssistantMessage, ToolCallPart, Usage, UserMessage
from planck_nb.sessions import Session, query

REQUEST = events.ApprovalRequest(
    "a", "s", 0, 0, START, "1", "bash", {"command": "ls"}, (Effect("execute", "ls"),), "It runs a command.", START + 60
)
DECISION = events.ApprovalDecision("a", "s", 0, 0, START + 2.5, "1", "bash", allowed=True, by="user")


@pytest.fixture(params=["journal", "materialized"])
def materialized(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "materialized")


def read(session: Session, *, materialized: bool) -> pd.DataFrame:
    if materialized:
        session.materialize()
    return query(session.directory, "from approvals order by agent_id, coalesce(asked, decided), call_id")


async def call(session: Session, agent_id: str, *names: str) -> None:
    parts = tuple(ToolCallPart(str(number), name, {"of": name}) for number, name in enumerate(names, 1))
    await session.append(agent_id, AssistantMessage(parts, "tool_use"))


async def test_a_request_and_its_decision_are_one_row(tmp_path: Path, materialized: bool) -> None:
    with Session.create(tmp_path, name="mine") as session:
        log = session.log("a")
        log.record(REQUEST)
        await log.keep(replace(DECISION, args={"command": "ls -l"}, rule="bash(ls *)"))
        [row] = read(session, materialized=materialized).to_dict("records")
        assert (row["session_id"], row["session_name"], row["agent_id"]) == (session.id, "mine", "a")
        assert (row["turn"], row["call_id"], row["name"], row["args"]) == (0, "1", "bash", '{"command":"ls"}')
        assert row["touches"] == '[{"kind":"execute","target":"ls","cwd":""}]'
        assert row["asked"] == pd.Timestamp(START, unit="s")
        assert row["decided"] == pd.Timestamp(START + 2.5, unit="s")
        assert (row["waited_s"], row["allowed"], row["decided_by"]) == (2.5, True, "user")
        assert (row["edited_args"], row["rule"]) == ('{"command":"ls -l"}', "bash(ls *)")
        assert row["reason"] == "It runs a command."


async def test_a_pending_request_is_a_row_without_a_decision(tmp_path: Path, materialized: bool) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")
        log.record(REQUEST)
        await session.flush()
        row = read(session, materialized=materialized).loc[0]
        assert row[["decided", "waited_s", "allowed", "decided_by", "edited_args", "rule"]].isna().all()
        log.record(replace(REQUEST, turn=1, time=START + 10))
        await log.keep(replace(DECISION, turn=1, time=START + 11, allowed=False, reason="No."))
        found = read(session, materialized=materialized)
        assert found.turn.tolist() == [0, 1], "the same id in a later turn is another call"
        assert found.allowed.tolist() == [pd.NA, False]
        assert found.reason.tolist() == ["It runs a command.", "No."]


async def test_what_a_rule_decided_is_there_with_the_arguments_of_the_call(tmp_path: Path, materialized: bool) -> None:
    with Session.create(tmp_path) as session:
        for agent in "ab":
            await call(session, agent, "read", "write")
            log = session.log(agent)
            for number, name in enumerate(("read", "write"), 1):
                rule = replace(DECISION, agent_id=agent, id=str(number), name=name, by="rule", rule="read")
                await log.keep(replace(rule, allowed=name == "read"))
        found = read(session, materialized=materialized)
        assert found.name.tolist() == ["read", "write"] * 2
        assert found.args.tolist() == ['{"of":"read"}', '{"of":"write"}'] * 2
        assert found.allowed.tolist() == [True, False] * 2
        assert set(found.decided_by) == {"rule"}
        assert set(found.rule) == {"read"}
        assert found[["touches", "asked", "waited_s", "edited_args", "reason"]].isna().all(axis=None)


async def test_a_rule_may_decide_after_somebody_was_asked_once(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")
        log.record(REQUEST)
        await log.keep(DECISION)
        await log.keep(replace(DECISION, turn=1, time=START + 9, by="rule"))
        found = read(session, materialized=False)
        assert found.decided_by.tolist() == ["user", "rule"]
        assert found.asked.isna().tolist() == [False, True]


@pytest.mark.slow
async def test_a_rewind_takes_decisions_and_turns_back(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a1")
        ids = await converse(session)
        for turn in (1, 2):
            started = events.TurnStart("a1", session.id, turn, 0, START + 10 * turn, index=turn, model="demo:small")
            log.record(started)
            prompt = await session.append("a1", UserMessage("again"), turn=turn)
            await log.keep(replace(DECISION, agent_id="a1", turn=turn))
            assert len(read(session, materialized=False)) == 1
            if turn == 2:
                log.record(events.Aborted("a1", session.id, turn, 0, START + 23))
            await log.truncate_from(prompt)
            time = START + 10 * turn + 8
            log.record(events.Rewound("a1", session.id, turn, 0, time, message_id=prompt, usage=Usage(), cost=None))
            await session.flush()
            assert read(session, materialized=False).empty
        log.record(replace(started, turn=3, index=3, time=START + 40))
        await session.append("a1", UserMessage("last"), turn=3)
        turns = query(tmp_path, "from turns order by turn")
        assert turns.prompt.fillna("").tolist() == ["question 0", "", "", "last"]
        assert turns.outcome.fillna("").tolist() == ["", "rewound", "rewound", ""]
        assert turns.duration_s.fillna(-1).tolist() == [-1, 8.0, 3.0, -1]
        assert turns.started[3] == pd.Timestamp(START + 40, unit="s")
        with session.fork(name="copy") as fork:
            turns = query(tmp_path, "from turns where session_name = 'copy' order by turn")
            assert turns.outcome.fillna("").tolist() == ["", "rewound", "rewound", ""]
            assert fork.messages() == session.messages()
        assert [row.db_id for row in session.messages()][:4] == ids
