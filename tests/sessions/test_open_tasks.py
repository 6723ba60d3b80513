"""What a killed process leaves of a team's tasks, read from a copy of its session as it was at that moment."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from support.agents import Hold
from support.stored_teams import ask, delegate, idle, running_team, worker

from planck_nb.agent import events as ev
from planck_nb.agent.agent_access import emit_for, prompt_from
from planck_nb.ai.messages import UserMessage
from planck_nb.errors import ProviderProtocolError
from planck_nb.sessions import Session, read_open_tasks, read_unanswered
from planck_nb.testing import Call, Reply

HOLDING = Reply(calls=(Call("hold", {}),))


async def killed(session: Session, target: Path) -> Path:
    """A copy of the sessions directory, as a process that is killed now leaves it."""
    await session.flush()
    shutil.copytree(session.directory, target, ignore=shutil.ignore_patterns("*.lock*", "*.duckdb*"))
    return target


async def test_tasks_without_a_response_are_read_with_how_far_they_are(tmp_path: Path) -> None:
    of_ann, of_bob = Hold(), Hold()
    with Session.create(tmp_path / "live", name="work") as session:
        calls = Reply(calls=(delegate("ann", "one"), delegate("ann", "two"), delegate("ann", "three"), ask("bob", "?")))
        async with running_team(session, [calls, *["-"] * 9]) as agents:
            boss = agents["boss"]
            ann = worker(session, boss, "ann", ["one done", HOLDING, "two done", "three done"], tools=[of_ann.hold])
            worker(session, boss, "bob", [HOLDING, "!"], tools=[of_bob.hold])
            run = boss.prompt("go")
            await of_ann.entered.wait()
            await of_bob.entered.wait()
            copy = await killed(session, tmp_path / "copy")
            with Session.open(copy, "work") as again:
                open_tasks = await read_open_tasks(again)
                unanswered = await read_unanswered(again)
            of_ann.release()
            of_bob.release()
            await run
            await idle(ann, messages=8)
            await session.flush()
            assert await read_open_tasks(session) == ()
    told = {task.text: task for task in open_tasks}
    assert [task.text for task in open_tasks if task.kind == "delegate"] == ["two", "three"]
    assert (told["two"].started, told["two"].turn, told["two"].outcome) == (True, 1, "")
    assert (told["three"].started, told["three"].turn) == (False, None)
    assert (told["?"].kind, told["?"].started, told["?"].target_name) == ("ask", True, "bob")
    assert {task.from_agent_id for task in open_tasks} == {boss.id}
    assert {task.from_agent_name for task in open_tasks} == {"boss"}
    assert told["three"].target_id == ann.id
    [waiting] = [prompt for prompt in unanswered if prompt.agent_id == ann.id]
    assert (waiting.id, waiting.text) == (told["three"].task_id, "three")
    assert (waiting.sender_id, waiting.sender_name, waiting.purpose) == (boss.id, "boss", "task")


async def test_an_answer_that_was_not_sent_is_read(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="work") as session:
        async with running_team(session, [], ann=["my answer", Reply(error="It broke.")]) as agents:
            boss, ann = agents["boss"], agents["ann"]
            for task_id, text in (("1", "answer me"), ("2", "break")):
                emit_for(boss, ev.Delegated, task_id, "delegate", ann.id, ann.name, text)
                with suppress(ProviderProtocolError):
                    await prompt_from(boss, ann, text, "task", prompt_id=task_id)
            await session.flush()
            answered, broken = await read_open_tasks(session)
            assert (answered.outcome, answered.answer, answered.turn) == ("turn_end", "my answer", 0)
            assert (broken.outcome, broken.answer, broken.turn) == ("error", "", 1)
            await boss.rewind_to_message(ann.state.messages[0].id)
            assert await read_open_tasks(session) == ()
            assert boss.state.open_tasks == ()


async def test_rows_that_describe_no_task_are_left_out(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="work") as session:
        log = session.log("boss")
        for task_id in ("odd", "good"):
            log.record(ev.Delegated("boss", session.id, 0, 0, 1.0, task_id, "ask", "bob", "Bob", f"{task_id} task"))
    edit(session, '"kind":"ask"', ['"nonsense"'], name="kind")
    with Session.open(tmp_path, "work") as session:
        assert [task.task_id for task in await read_open_tasks(session)] == ["good"]


async def test_a_prompt_with_a_nonsense_sender_is_offered_without_it(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="work") as session:
        for number in range(5):
            session.log("bob").record(
                ev.Queued("bob", session.id, 0, 0, 1.0, str(number), "?", sender_id="ann", purpose="task")
            )
    edit(session, '"sender_id":"ann"', ["5", '["x"]', '{"a": 1}', "null"], name="sender_id")
    edit(session, '"purpose":"task"', ["5", '["x"]', '{"a": 1}', '"nonsense"'], name="purpose")
    with Session.open(tmp_path, "work") as session:
        found = await read_unanswered(session)
    assert [(prompt.sender_id, prompt.purpose) for prompt in found] == [(None, None)] * 4 + [("ann", "task")]
    assert found[4].message == UserMessage("?", sender_id="ann", purpose="task")


def edit(session: Session, old: str, values: list[str], *, name: str) -> None:
    """Put other values into the journal of a closed session, each in place of the first `old`."""
    text = session.path.read_text(encoding="utf-8")
    for value in values:
        text = text.replace(old, f'"{name}":{value}', 1)
    session.path.write_text(text, encoding="utf-8")
    session.info.database.unlink(missing_ok=True)
