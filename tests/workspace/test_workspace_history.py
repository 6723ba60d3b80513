"""Rewinding, forking and resuming the session of a workspace."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from support.agents import Hold, Listening, calling, kinds, paired, prompts, said, until

from planck_nb import Agent, Config, Session, Tool, Workspace
from planck_nb.agent.approval import Rule
from planck_nb.agent.effect import Effect
from planck_nb.agent.events import AgentEvent, ApprovalRequest
from planck_nb.agent.state import AgentState, fold
from planck_nb.ai.messages import AssistantMessage, UserMessage
from planck_nb.ai.request import Options
from planck_nb.base.errors import (
    AgentError,
    AgentStoppedError,
    ModelError,
    SessionError,
    SessionLockedError,
    SessionNotFoundError,
)
from planck_nb.sessions import Damage, SessionInfo, query, read_damage
from planck_nb.sessions.damage import say_once
from planck_nb.testing import Call, Reply, scripted_model
from planck_nb.workspace import session_navigation
from planck_nb.workspace.session_navigation import damage_notice
from planck_nb.workspace.workspace import INTERRUPTED


def workspace(folder: Path, client: Listening | None = None, **settings: Any) -> Workspace:
    return Workspace(Config.load(environment={}, directory=folder, **settings), client=client)


def sh(ran: list[str]) -> Tool:
    return Tool(
        name="sh",
        description="Run a command.",
        execute_fn=lambda args: ran.append(str(args)) or "ran",  # type: ignore[func-returns-value]
        touches=lambda args: [Effect("execute", str(args.get("command")))],
    )


def message_id(agent: Agent, text: str) -> int:
    """The id of the user's message of this text."""
    return next(entry.id for entry in agent.state.messages if entry.message == UserMessage(text))


async def crash(place: Workspace) -> str:
    """End a workspace like a kernel that dies: nothing is said or stored any more. The session's id."""
    session = place.session
    await session.flush()
    session.close()
    for agent in place.agents.values():
        await agent.stop()
    return session.id


# Rewind.


async def test_rewind_stops_what_runs_and_cuts_all_agents_alike(tmp_path: Path) -> None:
    hold = Hold()
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one", *calling(("hold", {}))]), tools=[hold.hold])
        bob = place.add_agent("bob", model=scripted_model(["uno", "dos"]))
        await ann.prompt("A")
        await bob.prompt("x")
        run = ann.prompt("B")
        await hold.entered.wait()
        await bob.prompt("y")
        waiting = ann.prompt("C")
        assert await place.rewind(message_id(ann, "B")) == []
        assert (run.status, waiting.status) == ("aborted", "aborted")
        assert said(ann) == ["user: A", "assistant: one"]
        assert said(bob) == ["user: x", "assistant: uno"]
        for agent in (ann, bob):
            stored = [(row.db_id, row.message) for row in place.session.messages(agent.id)]
            assert stored == [(entry.id, entry.message) for entry in agent.state.messages]
            assert agent.status == "idle"
        bob.model = scripted_model(["-", "dos, again"])
        assert (await bob.prompt("z")).text == "dos, again"
        assert bob.state.turn == 2


async def test_a_stream_that_runs_is_cancelled(tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one two three four five"] * 3, pace=0.005))
        run = ann.prompt("first version")
        await until(run, "text_delta")
        await place.rewind(message_id(ann, "first version"))
        assert run.status == "aborted"
        assert said(ann) == []
        await ann.prompt("second version")
        assert prompts(ann) == ["second version"]
        assert [row.message for row in place.session.messages() if row.message.type == "user"] == [
            UserMessage("second version")
        ]


async def test_agents_that_came_later_are_stopped_and_come_back_with_their_branch(tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one", "two", "x"]))
        await ann.prompt("A")
        later = place.add_agent("later", model=scripted_model(["hello"]))
        await later.prompt("hi")
        await ann.prompt("B")
        (gone,) = await place.rewind(message_id(ann, "A"))
        assert gone.startswith("later ")
        assert list(place.agents) == ["ann"]
        assert later.state.stopped
        (branch,) = place.session.branches()
        assert (branch.messages, branch.last_text) == (6, "two")
        ann.model = scripted_model(["another way"])
        await ann.prompt("A, better")
        assert await place.return_to(branch.id) == []
        assert said(ann) == ["user: A", "assistant: one", "user: B", "assistant: two"]
        assert list(place.agents) == ["ann", "later"]
        revived = place.agent("later")
        assert revived.id == later.id
        assert said(revived) == ["user: hi", "assistant: hello"]
        assert [branch.last_text for branch in place.session.branches()][-1] == "another way"


async def test_a_stopped_agent_adds_no_message_about_a_rewind(tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one", "two"]))
        gone = place.add_agent("gone", model=scripted_model(["hello"]))
        await gone.prompt("hi")
        await ann.prompt("A")
        await place.remove_agent("gone")
        await ann.prompt("B")
        await place.rewind(message_id(ann, "B"))
        assert list(place.agents) == ["ann"]
        assert place.session.events(gone.id)[-1].type == "agent_stopped"
        await place.rewind(message_id(ann, "A"))
        assert list(place.agents) == ["ann", "gone"]
        assert said(place.agent("gone")) == ["user: hi", "assistant: hello"]
        assert "rewound" not in kinds(place.session.events(gone.id))


async def test_usage_before_a_rewind_still_counts(tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one two three"]))
        await ann.prompt("A")
        usage = ann.state.usage
        watch = ann.subscribe()
        await place.rewind(message_id(ann, "A"))
        assert ann.state.usage == usage
        assert ann.state.turn == 0
        event = await until(watch, "rewound")
        assert event.type == "rewound"
        assert event.usage == usage
    with Session.open(tmp_path / ".planck/sessions", place.sessions()[0].id):
        pass


async def test_rewind_without_a_session_does_nothing() -> None:
    agent = Agent(model=scripted_model(["one"]))
    await agent.prompt("A")
    await agent.rewind_to_message(1)
    assert said(agent) == ["user: A", "assistant: one"]


@pytest.mark.parametrize("prompt", ["A", "B", "C", "D", "E"])
async def test_the_state_after_a_rewind_around_summaries_is_the_fold_of_the_events(tmp_path: Path, prompt: str) -> None:
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["-"] * 5))
        for text in "ABCDE":
            await ann.prompt(text)
            if text in "BD":
                await ann.checkpoint(f"Up to {text}.")
        await ann.rewind_to_message(message_id(ann, prompt))
        folded = functools.reduce(fold, ann.events.since(0), AgentState())
        assert ann.state.messages == folded.messages
        assert not any(entry.message == UserMessage(prompt) for entry in ann.state.messages)
        left = [entry.message.text for entry in ann.state.messages if entry.message.type == "user"]
        assert left == list("ABCDE"[: "ABCDE".index(prompt)])


async def test_a_rewind_through_an_agent_is_the_same(tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one", "two"]))
        bob = place.add_agent("bob", model=scripted_model(["uno"]))
        await ann.prompt("A")
        await bob.prompt("x")
        await ann.rewind_to_message(message_id(ann, "A"))
        assert said(ann) == said(bob) == []


async def test_a_stopped_agent_takes_nothing_back(tmp_path: Path) -> None:
    # Its own state has stopped following the session, and would still contain what the session has not.
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one"]))
        bob = place.add_agent("bob", model=scripted_model(["uno"]))
        await ann.prompt("A")
        await bob.prompt("x")
        await ann.stop()
        with pytest.raises(AgentStoppedError, match="Agent ann was stopped"):
            await ann.rewind_to_message(message_id(ann, "A"))
        assert said(bob) == ["user: x", "assistant: uno"]
        assert len((await place.query_async("SELECT * FROM messages")).index) == 4


async def test_what_is_said_while_a_rewind_is_under_way_comes_after_it(tmp_path: Path) -> None:
    hold = Hold()

    async def stubborn() -> str:
        try:
            return await hold.hold()
        finally:
            entered.set()
            await released.wait()

    entered, released = asyncio.Event(), asyncio.Event()
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one", "two", "three"]))
        bob = place.add_agent("bob", model=scripted_model(calling(("stubborn", {}))), tools=[stubborn])
        await ann.prompt("A")
        bob.prompt("x")
        await hold.entered.wait()
        rewinding = asyncio.create_task(place.rewind(message_id(ann, "A")))
        await entered.wait()
        late = ann.prompt("B")  # ann has been stopped by now, bob has not
        released.set()
        await rewinding
        assert (await late).text == "one"
        assert said(ann) == ["user: B", "assistant: one"]
        stored = [row.message for row in place.session.messages(ann.id)]
        assert stored == [entry.message for entry in ann.state.messages]


async def test_a_rewind_that_is_given_up_leaves_every_agent_with_one_turn(tmp_path: Path) -> None:
    hold = Hold()

    async def stubborn() -> str:
        entered.set()
        with suppress(asyncio.CancelledError):
            await released.wait()
        stopped.set()
        await released.wait()
        return "late"

    entered, stopped, released = asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(calling(("stubborn", {}))), tools=[stubborn])
        bob = place.add_agent("bob", model=scripted_model([*calling(("hold", {})), "two"]), tools=[hold.hold])
        ann.prompt("A")
        first, second = bob.prompt("x"), bob.prompt("y")
        await entered.wait()
        await hold.entered.wait()
        rewinding = asyncio.create_task(place.rewind(message_id(ann, "A")))
        await stopped.wait()
        late = ann.prompt("B")
        rewinding.cancel()
        with suppress(asyncio.CancelledError):
            await rewinding
        assert (late.status, second.status) == ("queued", "queued")
        released.set()
        hold.release()
        assert [(await run).text for run in (first, second, late)] == ["done", "two", "done"]
        assert said(bob) == ["user: x", "assistant: ['hold']", "tool_result: held", "assistant: done", "user: y",
                             "assistant: two"]  # fmt: skip


# Fork.


async def test_a_fork_continues_independently(tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one", "two"]), system_prompt="Be brief.")
        await ann.prompt("A")
        await ann.prompt("B")
        source = place.session
        assert await place.fork("other", before=message_id(ann, "B")) == []
        assert place.session.name == "other"
        assert place.session.id != source.id
        assert ann.state.stopped
        forked = place.agent("ann")
        assert (forked.id, forked.system_prompt) == (ann.id, "Be brief.")
        assert said(forked) == ["user: A", "assistant: one"]
        forked.model = scripted_model(["-", "another two"])
        await forked.prompt("B, better")
    rows = query(tmp_path / ".planck/sessions", "select text from messages where session_id = 'x'")
    assert rows.empty
    with Session.open(tmp_path / ".planck/sessions", source.id) as old:
        assert [row.message.type for row in old.messages()] == ["user", "assistant", "user", "assistant"]


async def test_nothing_was_interrupted_by_forking_before_a_prompt(tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one", "two"]))
        await ann.prompt("A")
        await ann.prompt("B")
        await place.fork(before=message_id(ann, "B"))
        assert INTERRUPTED not in prompts(place.agent("ann"))


# Resume.


async def test_a_session_goes_on_where_it_was(tmp_path: Path) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    async with workspace(tmp_path) as place:
        ann = place.add_agent(
            "ann",
            model=scripted_model([*calling(("add", {"a": 1, "b": 2})), "two"]),
            system_prompt="Be brief.",
            tools=[add, *place.toolbox.named(["bash"])],
        )
        bob = place.add_agent("bob", model=scripted_model(["uno"]))
        await ann.prompt("A")
        await ann.prompt("B")
        await bob.prompt("x")
        name, ids = place.session.name, (ann.id, bob.id)
    listening = Listening()
    async with workspace(tmp_path, listening) as place:
        problems = await place.resume(name)
        assert problems == ["ann lacks add; pass them again with `--tools`."]
        assert tuple(agent.id for agent in place.agents.values()) == ids
        again = place.agent("ann")
        assert said(again) == said(ann)
        assert again.state.usage == ann.state.usage
        assert again.state.turn == 1
        assert again.system_prompt == "Be brief."
        assert [tool.name for tool in again.tools] == ["bash"]
        assert again.status == "idle"
        again.model = scripted_model(["-"] * 3 + ["three"])
        assert (await again.prompt("C")).text == "three"
        assert again.state.turn == 2
        assert listening.texts()[0] == "user: A"
        assert INTERRUPTED not in prompts(again)
        with pytest.raises(AgentError, match="is already open here"):
            await place.resume(name)
    rows = query(tmp_path / ".planck/sessions", "select count(distinct agent_id) as n from messages")
    assert rows["n"][0] == 2


async def test_a_session_whose_conversation_cannot_be_read_leaves_the_open_one_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workspace(tmp_path) as first:
        await first.add_agent("ann", model=scripted_model(["one"])).prompt("A")
        other = first.session.name
    async with workspace(tmp_path) as place:
        bob = place.add_agent("bob", model=scripted_model(["one", "two"]))
        await bob.prompt("x")
        opened = place.session

        def unreadable(session: Session, agent_ids: Iterable[str]) -> None:
            raise SessionError(f"{session.name} cannot be read: {agent_ids}.")

        with monkeypatch.context() as patched:
            patched.setattr(Session, "read_ahead", unreadable)
            with pytest.raises(SessionError, match="cannot be read"):
                await place.resume(other)
        assert place.session is opened
        assert list(place.agents) == ["bob"]
        assert (await bob.prompt("y")).output == "two"
        Session.open(tmp_path / ".planck" / "sessions", other).close()  # which was released


async def test_a_check_for_damage_that_takes_long_is_logged_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Session.create(tmp_path, name="mine") as session:
        await session.append("a", UserMessage("one"))
        await session.append("a", UserMessage("two"))
    with session.path.open("ab") as file:
        file.write(b"nonsense\n" + session.path.read_bytes().splitlines(keepends=True)[-1].replace(b":2,", b":9,"))
    assert "1 line that cannot be read" in await damage_notice(session.info, seconds=60)
    assert not [each for each in caplog.records if "is damaged" in each.getMessage()]
    going_on, said = threading.Event(), threading.Event()

    def slow(info: SessionInfo) -> Damage:
        assert going_on.wait(60)
        return read_damage(info)

    def say(path: Path, damage: Damage) -> None:
        say_once(path, damage)
        said.set()

    monkeypatch.setattr(session_navigation, "read_damage", slow)
    monkeypatch.setattr(session_navigation, "say_once", say)
    assert await damage_notice(session.info, seconds=0) == ""
    going_on.set()
    assert said.wait(60)
    (sentence,) = [each.getMessage() for each in caplog.records if "is damaged" in each.getMessage()]
    assert "1 line that cannot be read" in sentence


async def test_functions_are_handed_over_by_name(tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one"]), tools=[sh([])])
        await ann.prompt("A")
        session_id = place.session.id
    ran: list[str] = []
    async with workspace(tmp_path) as place:
        assert await place.resume(session_id, find={"sh": sh(ran), "other": sh([])}.get) == []
        assert [tool.name for tool in place.agent("ann").tools] == ["sh"]


@pytest.mark.slow
async def test_an_agent_that_goes_on_answers_as_it_was_told_to(tmp_path: Path) -> None:
    told = Options(temperature=0.2, thinking="high", stop=["END"], extra=MappingProxyType({"seed": 7}))
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one"]), options=Options(max_tokens=9))
        assert ann.state.options == {"max_tokens": 9}
        ann.options = told
        assert ann.state.options == told.named()
        await ann.prompt("A")
        session_id = place.session.id
    async with workspace(tmp_path) as place:
        await place.resume(session_id)
        assert place.agent("ann").options == told
        await place.fork()
        assert place.agent("ann").options == told


async def test_the_newest_session_that_is_free_is_the_one_to_go_on_with(tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        with pytest.raises(SessionNotFoundError, match="no other session"):
            await place.resume()
    async with workspace(tmp_path) as first:
        await first.add_agent("ann", model=scripted_model(["one"])).prompt("A")
        first_id = first.session.id
    async with workspace(tmp_path) as second, workspace(tmp_path) as third:
        await second.add_agent("bob", model=scripted_model(["uno"])).prompt("x")
        await third.resume()
        assert third.session.id == first_id


@pytest.mark.slow
async def test_the_session_used_last_is_resumed_not_the_newest(tmp_path: Path) -> None:
    ids = []
    for name in ("one", "two", "three"):
        async with workspace(tmp_path) as place:
            await place.add_agent(name, model=scripted_model(["-"])).prompt("A")
            ids.append(place.session.id)
    async with workspace(tmp_path) as place:
        await place.resume(ids[0], model="demo:demo")
        await place.agent("one").prompt("B")
    async with workspace(tmp_path) as place:
        await place.resume(model="demo:demo")
        assert place.session.id == ids[0]


async def test_a_removed_agent_does_not_come_back_and_twins_do(tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        for name in ("ann", "bob", "gone"):
            await place.add_agent(name, model=scripted_model(["one"])).prompt("A")
        await place.remove_agent("gone")
        session_id = place.session.id
    async with workspace(tmp_path) as place:
        await place.resume(session_id)
        assert list(place.agents) == ["ann", "bob"]


@pytest.mark.slow
async def test_a_model_that_is_gone_is_never_replaced_unasked(tmp_path: Path) -> None:
    async with workspace(tmp_path, default_model="demo:demo") as place:
        ann = place.add_agent("ann", model=scripted_model(["one"]))
        await ann.prompt("A")
        session_id = place.session.id
        from dataclasses import replace

        ann.model = replace(scripted_model([]), provider="vanished", id="model")
    async with workspace(tmp_path, default_model="demo:demo") as place:
        present = place.add_agent("bob", model=scripted_model(["one"]))
        with pytest.raises(ModelError, match=r"ann .vanished:model.: There is no provider 'vanished'.*--model MODEL"):
            await place.resume(session_id)
        assert place.agents == {"bob": present}
        assert present.state.stopped is False
        assert await place.resume(session_id, model="demo:demo") == []
        assert str(place.agent("ann").model) == "demo:demo"


async def test_what_was_cut_off_is_told_once_and_the_next_request_is_valid(tmp_path: Path) -> None:
    hold = Hold()
    place = workspace(tmp_path)
    script: list[Reply | str] = [Reply("I look.", calls=[Call("hold", {}), Call("hold", {})]), "done"]
    ann = place.add_agent("ann", model=scripted_model(script), tools=[hold.hold])
    bob = place.add_agent("bob", model=scripted_model(["uno"]))
    await bob.prompt("x")
    ann.prompt("A")
    await hold.entered.wait()
    session_id = await crash(place)
    await place.close()
    listening = Listening()
    async with workspace(tmp_path, listening) as place:
        await place.resume(session_id)
        again = place.agent("ann")
        assert prompts(again) == ["A", INTERRUPTED]
        async with place.subscribe(since=0) as events:  # views show the note too
            note = await anext(event async for event in events if event.type == "message")
        assert (note.agent_id, note.message) == (again.id, UserMessage(INTERRUPTED))
        assert prompts(place.agent("bob")) == ["x"]
        assert (again.status, again.state.running) == ("idle", ())
        again.model = scripted_model(["-", "I go on."])
        await again.prompt("go on")
        model, context = listening.asked[-1]
        from planck_nb.ai.message_history.portable_history import prepare

        assert paired(prepare(context.messages, model))
        assert [text for text in listening.texts() if text.startswith("user")] == [
            "user: A", f"user: {INTERRUPTED}", "user: go on",
        ]  # fmt: skip
    async with workspace(tmp_path) as place:
        await place.resume(session_id)
        assert prompts(place.agent("ann")) == ["A", INTERRUPTED, "go on"]
        assert place.agent("ann").state.turn == 1


@pytest.mark.slow
async def test_the_message_about_an_interruption_survives_until_somebody_prompts(tmp_path: Path) -> None:
    hold = Hold()
    place = workspace(tmp_path)
    ann = place.add_agent("ann", model=scripted_model(calling(("hold", {}))), tools=[hold.hold])
    ann.prompt("A")
    await hold.entered.wait()
    session_id = await crash(place)
    await place.close()
    for _ in range(3):
        async with workspace(tmp_path) as place:
            await place.resume(session_id)
            assert prompts(place.agent("ann")) == ["A", INTERRUPTED]


@pytest.mark.slow
async def test_a_turn_that_was_taken_back_was_not_interrupted(tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one", "two"]))
        await ann.prompt("A")
        await ann.prompt("B")
        await place.rewind(message_id(ann, "B"))
        session_id = place.session.id
    async with workspace(tmp_path) as place:
        await place.resume(session_id)
        assert prompts(place.agent("ann")) == ["A"]


async def test_a_turn_that_was_stopped_was_not_interrupted(tmp_path: Path) -> None:
    hold = Hold()
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(calling(("hold", {}))), tools=[hold.hold])
        ann.prompt("A")
        await hold.entered.wait()
        await ann.abort()
        session_id = place.session.id
    async with workspace(tmp_path) as place:
        await place.resume(session_id)
        assert prompts(place.agent("ann")) == ["A"]


async def test_a_session_that_is_in_use_leaves_everything_as_it_was(tmp_path: Path) -> None:
    async with workspace(tmp_path) as mine, workspace(tmp_path) as other:
        ann = mine.add_agent("ann", model=scripted_model(["one", "two"]))
        await ann.prompt("A")
        mine.approvals.remember(Rule.parse("allow", "sh"))
        await other.add_agent("bob", model=scripted_model(["uno"])).prompt("x")
        with pytest.raises(SessionLockedError):
            await mine.resume(other.session.id)
        with pytest.raises(SessionNotFoundError):
            await mine.resume("no-such-session")
        assert list(mine.agents) == ["ann"]
        assert Rule.parse("allow", "sh") in mine.approvals.policy.rules
        assert (await ann.prompt("B")).text == "two"


@pytest.mark.slow
async def test_what_was_remembered_holds_again_and_nowhere_else(tmp_path: Path) -> None:
    ran: list[str] = []
    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(calling(("sh", {"command": "make"}))), tools=[sh(ran)])
        place.attend()
        run = ann.prompt("go")
        async for event in run:
            if isinstance(event, ApprovalRequest):
                ann.decide(event.id, allow=True, remember=True)
        session_id = place.session.id
        rules = set(place.approvals.policy.rules)
    async with workspace(tmp_path) as place:
        assert set(place.approvals.policy.rules) < rules
        await place.resume(session_id)
        assert set(place.approvals.policy.rules) == rules
        await place.fork()
        assert set(place.approvals.policy.rules) == rules
    assert len(ran) == 1


async def test_what_a_session_spent_counts_against_its_limits(tmp_path: Path) -> None:
    async with workspace(tmp_path) as place:
        await place.add_agent("ann", model=scripted_model(["one two three four five"])).prompt("A B C")
        session_id = place.session.id
    async with workspace(tmp_path, limits="session_tokens=8") as place:
        await place.resume(session_id)
        with pytest.raises(AgentError, match="session has used up its 8 tokens"):
            await place.agent("ann").prompt("more")


@pytest.mark.slow
async def test_a_session_can_be_replayed_into_the_state_it_left(tmp_path: Path) -> None:
    from functools import reduce

    from planck_nb.agent.state import AgentState, fold

    async with workspace(tmp_path) as place:
        ann = place.add_agent("ann", model=scripted_model(["one", "two", "three"]))
        await ann.prompt("A")
        await ann.prompt("B")
        await place.rewind(message_id(ann, "B"))
        session_id = place.session.id
    async with workspace(tmp_path) as place:
        await place.resume(session_id)
        again = place.agent("ann")
        again.model = scripted_model(["-", "three"])
        await again.prompt("C")
        events: list[AgentEvent] = place.session.events(again.id)
        assert reduce(fold, events, AgentState()) == again.state
        assert kinds(events, "turn_start", "turn_end").count("turn_end") == 2
        replies = [entry.message for entry in again.state.messages if isinstance(entry.message, AssistantMessage)]
        assert [reply.text for reply in replies] == ["one", "three"]
