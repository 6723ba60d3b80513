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
        assert row["touches"] == '[{"kind":"execute","target":"ls"}]'
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
async def test_a_rewind_takes_decisions_back_and_leaves_no_turn_without_a_prompt(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a1")
        ids = await converse(session)
        for _ in range(2):
            started = events.TurnStart("a1", session.id, 1, 0, START + 7, index=1, model="demo:small")
            log.record(started)
            prompt = await session.append("a1", UserMessage("second"), turn=1)
            await log.keep(replace(DECISION, agent_id="a1", turn=1))
            assert len(read(session, materialized=False)) == 1
            await log.truncate_from(prompt)
            rewound = events.Rewound("a1", session.id, 0, 0, START + 8, message_id=prompt, usage=Usage(), cost=None)
            log.record(rewound)
            await session.flush()
            assert read(session, materialized=False).empty
            assert query(tmp_path, "from turns").turn.tolist() == [0]
        log.record(replace(started, time=START + 20))
        await session.append("a1", UserMessage("third"), turn=1)
        turns = query(tmp_path, "from turns order by turn")
        assert turns.prompt.tolist() == ["question 0", "third"]
        assert turns.started[1] == pd.Timestamp(START + 20, unit="s")
        assert [row.db_id for row in session.messages()][:4] == ids
