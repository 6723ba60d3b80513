"""The SQL views of teams, on sessions that real agents have written."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.agents import Hold
from support.stored import converse, reply
from support.stored_teams import TEAM, ask, delegate, idle, respond, running_team, worker

from planck_nb import Agent
from planck_nb.agent import events as ev
from planck_nb.agent.identity import Grants
from planck_nb.ai.messages import UserMessage
from planck_nb.sessions import Session, export_session, import_session, query, read_open_tasks
from planck_nb.sessions.session import SessionLog
from planck_nb.testing import Call, Reply, scripted_model


def rows_of(directory: Path, sql: str) -> list[dict[str, Any]]:
    """The rows of a query, with None for what is null."""
    frame = query(directory, sql).astype(object)
    return [
        {str(key): None if pd.isna(value) else value for key, value in row.items()} for row in frame.to_dict("records")
    ]


def delegations(directory: Path) -> list[dict[str, Any]]:
    return rows_of(directory, "from delegations order by session_name, id")


def in_memory(agent: Agent) -> list[tuple[str, str, str, str, str, bool]]:
    """What an agent's events tell of the tasks that it gave."""
    events = agent.events.since(0)
    found: list[tuple[str, str, str, str, str, bool]] = []
    for asked in (event for event in events if event.type == "delegated"):
        answers = [event for event in events if event.type == "responded" and event.task_id == asked.task_id]
        status = "open" if not answers else "failed" if answers[-1].error else "answered"
        response = "\n\n".join(answer.text for answer in answers)
        found.append((asked.task_id, asked.kind, asked.text, status, response, bool(answers and answers[-1].automatic)))
    return found


def stored(directory: Path, delegator: str) -> list[tuple[str, str, str, str, str, bool]]:
    """What the view tells of the same."""
    return [
        (row["task_id"], row["kind"], row["task"], row["status"], row["response"] or "", bool(row["automatic"]))
        for row in delegations(directory)
        if row["from_agent_id"] == delegator
    ]


async def test_an_equal_task_after_a_rewind_has_the_new_turn(tmp_path: Path) -> None:
    hold = Hold()
    with Session.create(tmp_path) as session:
        holding = Reply(calls=(Call("hold", {}),))
        again = Reply(calls=(delegate("ann", "same"),))
        async with running_team(session, [again, "-", again, "-", "-", "-"]) as agents:
            boss = agents["boss"]
            ann = worker(session, boss, "ann", ["-", holding, "-", "-"], tools=[hold.hold])
            await boss.prompt("go")
            await idle(boss, messages=6)
            await boss.rewind_to_message(ann.state.messages[0].id)
            boss.model = scripted_model(["-", again, "-", "-"])
            ann.model = scripted_model([holding, "-"])
            await boss.prompt("again")
            await hold.entered.wait()
            await session.flush()
            found = delegations(tmp_path)
            assert [(row["status"], row["to_turn"]) for row in found] == [("failed", None), ("open", ann.info().turn)]
            assert [task.id for task in boss.state.open_tasks] == [found[1]["task_id"]]
            hold.release()


@pytest.mark.parametrize("materialized", [False, True])
async def test_each_task_is_a_row_with_its_response_and_what_it_took(tmp_path: Path, *, materialized: bool) -> None:
    with Session.create(tmp_path, name="work") as session:
        calls = Reply(calls=(ask("ann", "2+2?"), delegate("bob", "build it")))
        scripts: dict[str, list[Reply | str]] = {"ann": ["It is 4."], "bob": [respond("built"), "over"]}
        async with running_team(session, [calls, "I wait.", "All is done."], **scripts) as agents:
            boss = agents["boss"]
            await boss.prompt("go")
            await idle(boss, messages=6)
            await session.flush()
            if materialized:
                session.materialize()
            asked, delegated = sorted(delegations(tmp_path), key=lambda row: row["kind"])
            assert (asked["kind"], asked["from_agent_id"], asked["from_agent_name"]) == ("ask", boss.id, "boss")
            assert (asked["to_agent_id"], asked["to_agent_name"]) == (agents["ann"].id, "ann")
            assert (asked["task"], asked["response"], asked["status"]) == ("2+2?", "It is 4.", "answered")
            assert (delegated["kind"], delegated["to_agent_name"]) == ("delegate", "bob")
            assert (delegated["task"], delegated["response"], delegated["automatic"]) == ("build it", "built", False)
            for row, name in ((asked, "ann"), (delegated, "bob")):
                usage = agents[name].info().usage
                counted = (row["to_turn"], row["input_tokens"], row["output_tokens"])
                assert counted == (0, usage.input_tokens, usage.output_tokens)
                assert row["seconds"] == (row["answered_at"] - row["asked_at"]).total_seconds() > 0
            called = (
                "select c.name, d.kind from tool_calls c join delegations d on c.session_id = d.session_id"
                " and c.agent_id = d.from_agent_id and c.call_id = d.call_id order by all"
            )
            assert query(tmp_path, called).to_numpy().tolist() == [["ask_agent", "ask"], ["delegate_task", "delegate"]]
            assert sorted(stored(tmp_path, boss.id)) == sorted(in_memory(boss))


async def test_messages_have_the_agent_that_sent_them(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        calls = Reply(calls=(ask("ann", "2+2?"), delegate("bob", "build it")))
        async with running_team(session, [calls, "-", "-"], ann=["4"], bob=["built"]) as agents:
            await agents["boss"].prompt("go")
            await idle(agents["boss"], messages=6)
            ids = {name: agent.id for name, agent in agents.items()}
        found = rows_of(tmp_path, "from messages")
    prompts = {row["text"]: row for row in found if row["role"] == "user"}
    assert {text: (row["sender_name"], row["purpose"], row["sender_id"]) for text, row in prompts.items()} == {
        "go": (None, None, None),
        "2+2?": ("boss", "question", ids["boss"]),
        "build it": ("boss", "task", ids["boss"]),
        "built": ("bob", "response", ids["bob"]),
    }
    assert all(row["sender_id"] is None for row in found if row["role"] != "user")


async def test_how_a_task_ended_can_be_seen(tmp_path: Path) -> None:
    scripts: dict[str, list[Reply | str]] = {
        "quiet": ["my last words"],
        "broken": [Reply(error="The server is on fire.")],
        "chatty": [Reply(calls=(Call("send_response", {"response": "half"}),)), respond("whole"), "over"],
    }
    with Session.create(tmp_path) as session:
        calls = Reply(calls=tuple(delegate(name, f"task of {name}") for name in scripts))
        async with running_team(session, [calls, *["-"] * 6], **scripts) as agents:
            boss = agents["boss"]
            await boss.prompt("go")
            async with asyncio.timeout(20), boss.subscribe(since=0) as events:
                async for event in events:
                    if event.type == "responded" and len(in_memory_texts(boss)) == 4:
                        break
            await session.flush()
            found = {row["to_agent_name"]: row for row in delegations(tmp_path)}
            assert sorted(stored(tmp_path, boss.id)) == sorted(in_memory(boss))
    assert [(found[name]["status"], found[name]["automatic"]) for name in scripts] == [
        ("answered", True), ("failed", True), ("answered", False)
    ]  # fmt: skip
    assert found["quiet"]["response"] == "my last words"
    assert "on fire" in found["broken"]["response"]
    assert found["chatty"]["response"] == "half\n\nwhole"


def in_memory_texts(agent: Agent) -> list[str]:
    return [event.text for event in agent.events.since(0) if event.type == "responded"]


async def test_a_task_in_work_has_its_turn_and_one_that_waits_has_none(tmp_path: Path) -> None:
    hold = Hold()
    with Session.create(tmp_path) as session:
        calls = Reply(calls=(delegate("ann", "same"), delegate("ann", "same"), delegate("ann", "same")))
        async with running_team(session, [calls, *["-"] * 9]) as agents:
            boss = agents["boss"]
            script: list[Reply | str] = ["first done", Reply(calls=(Call("hold", {}),)), "second done", "third done"]
            ann = worker(session, boss, "ann", script, tools=[hold.hold])
            await boss.prompt("go")
            await hold.entered.wait()
            await session.flush()
            found = delegations(tmp_path)
            assert [(row["status"], row["to_turn"]) for row in found] == [("answered", 0), ("open", 1), ("open", None)]
            assert [row["input_tokens"] is None for row in found] == [False, False, True]
            assert (found[1]["response"], found[1]["answered_at"], found[1]["seconds"]) == (None, None, None)
            hold.release()
            await idle(ann, messages=8)
            await session.flush()
            found = delegations(tmp_path)
            assert [(row["status"], row["to_turn"]) for row in found] == [("answered", n) for n in range(3)]
            assert sum(row["input_tokens"] for row in found) == ann.info().usage.input_tokens


@pytest.mark.slow
async def test_a_rewind_takes_tasks_and_responses_back(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        async with running_team(session, [Reply(calls=(delegate("ann", "x"),)), *["-"] * 5], ann=["y"]) as agents:
            boss = agents["boss"]
            await boss.prompt("go")
            await idle(boss, messages=6)
            [first] = query(tmp_path, "select id from messages where text = 'go'").id
            [response] = query(tmp_path, "select id from messages where purpose = 'response'").id
            [task] = query(tmp_path, "select id from messages where purpose = 'task'").id
            await boss.rewind_to_message(response)
            [row] = delegations(tmp_path)
            assert (row["status"], row["to_turn"]) == ("answered", 0), "it was answered before the message"
            await boss.rewind_to_message(task)
            [row] = delegations(tmp_path)
            assert (row["status"], row["to_turn"], row["response"]) == ("failed", None, None), "nobody works on it"
            assert (row["automatic"], row["answered_at"], row["input_tokens"]) == (None, None, None)
            assert await read_open_tasks(session) == ()
            assert boss.state.open_tasks == ()
            await boss.rewind_to_message(first)
            assert delegations(tmp_path) == []
            assert query(tmp_path, "select count(*) as n from team_members").n[0] == 2


async def test_a_task_of_an_agent_that_was_removed_is_not_open(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("boss")
        give(session, log, "task 1", "build it")
        await session.append("bob", UserMessage("build it", sender_id="boss", purpose="task"))
        for removed, status in ((False, "open"), (True, "failed")):
            log.record(ev.AgentStopped("boss", session.id, 0, 0, 2.0, removed=removed))
            await session.flush()
            [row] = delegations(tmp_path)
            assert (row["status"], row["to_turn"], row["response"]) == (status, 0, None)
            assert len(await read_open_tasks(session)) == (not removed)


async def test_the_cost_is_that_of_the_turn(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        boss, bob = session.log("boss"), session.log("bob")
        give(session, boss, "task 1", "build it")
        await bob.append(UserMessage("build it", sender_id="boss", purpose="task"), turn=3, time=2.0)
        for turn in (2, 3, 3, 4):
            await bob.append(reply("x"), turn=turn, time=3.0)
        boss.record(ev.Responded("boss", session.id, 0, 1, 4.0, "task 1", "delegate", "bob", "Bob", "ok", task_turn=3))
        await session.flush()
        [row] = delegations(tmp_path)
        assert (row["cost_usd"], row["input_tokens"], row["output_tokens"], row["to_turn"]) == (0.5, 20, 10, 3)
        assert (row["seconds"], row["asked_at"]) == (3.0, pd.Timestamp(1, unit="s"))


def give(session: Session, log: SessionLog, task_id: str, text: str, time: float = 1.0) -> None:
    log.record(ev.Delegated("boss", session.id, 0, 0, time, task_id, "delegate", "bob", "Bob", text))


async def test_two_thousand_equal_tasks_are_told_apart(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        boss, bob = session.log("boss"), session.log("bob")
        appending = []
        for number in range(2_000):
            give(session, boss, f"task {number}", "again")
            message = UserMessage("again", sender_id="boss", purpose="task")
            appending.append(asyncio.ensure_future(bob.append(message, turn=number, time=1.0)))
        await asyncio.gather(*appending)
        assert [row["to_turn"] for row in delegations(tmp_path)] == list(range(2_000))


async def test_sessions_forks_and_imports_keep_their_tasks_apart(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with Session.create(tmp_path, name=name) as session:
            log = session.log("boss")
            log.record(ev.AgentStarted("boss", session.id, -1, 0, 1.0, name, "", "demo:x", "", ()))
            give(session, log, "task 1", f"task of {name}")
            await session.append("bob", UserMessage(f"task of {name}", sender_id="boss", purpose="task"))
    with Session.open(tmp_path, "first") as session, session.fork(name="fork"):
        pass
    file = tmp_path / "export.jsonl"
    file.write_text(export_session(session.info, "jsonl"), encoding="utf-8")
    import_session(tmp_path, file, name="import")
    found = [
        (row["session_name"], row["from_agent_name"], row["task"], row["to_turn"]) for row in delegations(tmp_path)
    ]
    of_first = [(name, "first", "task of first", 0) for name in ("first", "fork", "import")]
    assert found == [*of_first, ("second", "second", "task of second", 0)]


async def test_the_members_of_a_team(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        loner = Agent(model=scripted_model(["alone"]), name="loner", session=session)
        await loner.prompt("?")
        async with running_team(session, ["-"], ann=["one", "two"], bob=["x"], cy=["x"]) as agents:
            boss, ann, bob, cy = (agents[name] for name in ("boss", "ann", "bob", "cy"))
            await ann.prompt("?")
            ann.remove_tool("list_team")
            await bob.stop(removed=True, reason="destroyed")
            await cy.stop(reason="stopped")
            await session.flush()
            found = {row["name"]: row for row in rows_of(tmp_path, "from team_members")}
            assert set(found) == {"boss", "ann", "bob", "cy"}
            row = found["boss"]
            assert (row["team_id"], row["agent_id"], row["role"], row["type"]) == (
                TEAM, boss.id, "orchestrator", "orchestrator"
            )  # fmt: skip
            assert (row["description"], row["parent_id"], row["model"]) == ("leads", None, "demo:script")
            granted = [json.loads(row[f"granted_{kind}"]) for kind in ("tools", "skills", "models")]
            assert granted == [["read"], ["charts"], []]
            row = found["ann"]
            assert (row["role"], row["type"], row["parent_id"], row["ended_at"]) == ("worker", "builder", boss.id, None)
            assert json.loads(row["tools"]) == ["ask_agent", "delegate_task", "send_response"]
            usage = ann.info().usage
            assert (row["messages"], row["input_tokens"], row["output_tokens"]) == (
                2, usage.input_tokens, usage.output_tokens
            )  # fmt: skip
            ended = {name: (found[name]["exit_reason"], found[name]["removed"]) for name in found}
            assert ended == {
                "boss": (None, False), "ann": (None, False), "bob": ("destroyed", True), "cy": ("stopped", False)
            }  # fmt: skip
            assert found["bob"]["ended_at"] >= found["bob"]["started_at"]
        agents_view = {row["name"]: row for row in rows_of(tmp_path, "from agents")}
        assert agents_view["loner"]["team_role"] is agents_view["loner"]["team_id"] is None
        assert (agents_view["ann"]["team_role"], agents_view["ann"]["parent_id"]) == ("worker", boss.id)
        assert json.loads(agents_view["boss"]["grants"]) == {"tools": ["read"], "skills": ["charts"], "models": []}
        assert query(tmp_path, "select bool_and(ended_at is not null) as over from team_members").over[0]


async def test_a_member_that_is_resumed_has_not_ended(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        async with running_team(session, [], ann=[]) as agents:
            await agents["ann"].stop(reason="stopped")
            again = worker(session, agents["boss"], "ann", [], id=agents["ann"].id)
            await session.flush()
            [row] = rows_of(tmp_path, "from team_members where name = 'ann'")
            assert (row["ended_at"], row["exit_reason"]) == (None, None)
            await again.stop(reason="stopped again")
            await session.flush()
            [row] = rows_of(tmp_path, "from team_members where name = 'ann'")
            assert (row["exit_reason"], row["ended_at"] > row["started_at"]) == ("stopped again", True)


async def test_tokens_taken_back_are_counted(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        async with running_team(session, [], ann=["x", "y"]) as agents:
            ann = agents["ann"]
            await ann.prompt("one")
            await ann.rewind_to_message(ann.state.messages[0].id)
            await ann.prompt("two")
            await session.flush()
            [row] = rows_of(tmp_path, "from team_members where name = 'ann'")
            assert (row["messages"], row["input_tokens"]) == (2, ann.info().usage.input_tokens)
            counted = query(tmp_path, "select sum(input_tokens) as n from usage").n[0]
            assert row["input_tokens"] == counted


NONSENSE: list[Any] = [None, "nonsense", [[1]], {"x": []}, 10**30, -5.5, True, "\x00", ""]


@pytest.mark.slow
async def test_rows_with_nonsense_break_no_view(tmp_path: Path) -> None:
    sound: list[ev.AgentEvent] = [
        ev.AgentStarted(
            "a", "s", -1, 0, 1.0, "A", "x", "demo:x", "", ("t",), {}, "worker", "t", "p", "d", Grants(("g",))
        ),
        ev.Delegated("a", "s", 0, 0, 1.0, "task", "ask", "b", "B", "text", "call"),
        ev.Responded("a", "s", 0, 0, 1.0, "task", "ask", "b", "B", "text", task_turn=1),
        ev.WorkerExit("a", "s", 0, 0, 1.0, "w", "W", "why", normal=True),
        ev.AgentStopped("a", "s", 0, 0, 1.0),
    ]
    with Session.create(tmp_path, name="odd") as session:
        log = session.log("boss")
        await converse(session)
        give(session, log, "good", "good task")
        await session.flush()
        header = session.path.read_text().splitlines()
    lines = [line for line in header if line.strip()]
    number = json.loads(lines[-1])["id"]
    template = json.loads(lines[-1])
    for event in sound:
        data = ev.encode_event(event)
        for key in data:
            for value in NONSENSE:
                number += 1
                line = {**template, "id": number, "agent_id": f"a{number % 3}", "type": event.type}
                lines.append(json.dumps({**line, "data": {**data, key: value}}))
                number += 1
                gone = {name: inner for name, inner in data.items() if name != key}
                lines.append(json.dumps({**line, "id": number, "data": gone}))
    session.path.write_text("\n".join(lines) + "\n")
    session.info.database.unlink(missing_ok=True)
    for view in ("delegations", "team_members", "agents", "messages"):
        query(tmp_path, f"from {view}")
    assert [row["status"] for row in delegations(tmp_path) if row["task"] == "good task"] == ["open"]
