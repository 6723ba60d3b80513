"""Asking, delegating and responding: each answer comes back to the agent that waits for it, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from support.agents import Hold, Listening, prompts, said, until
from support.teams import HandMade, call, calls, delegated, responded, results

from planck_nb import Agent
from planck_nb.agent import events as ev
from planck_nb.ai.messages import UserMessage
from planck_nb.testing import Reply

SOON = 60


async def turns(agent: Agent, count: int) -> None:
    """Return when the agent has ended `count` turns."""
    ended = 0
    async with asyncio.timeout(SOON):
        async for event in agent.subscribe(since=0):
            ended += event.type in {"turn_end", "aborted", "error"}
            if ended == count:
                return


def ask(name: str, question: str = "?", **more: object) -> Reply:
    return call("ask_agent", agent_id=name, question=question, **more)


def delegate(name: str, task: str = "task", **more: object) -> Reply:
    return call("delegate_task", agent_id=name, task=task, **more)


# clause team_integration 1; IA-01
async def test_an_answer_is_the_result_of_the_call() -> None:
    team = HandMade()
    lead = team.lead([ask("ann", "How many?"), "{result}!"])
    ann = team.worker("ann", ["Seven."])
    result = await lead.prompt("go")
    assert result.text == "Seven.!"
    assert prompts(ann) == ["How many?"]
    [asked], [answer] = delegated(lead), responded(lead)
    assert (asked.kind, asked.target_id, asked.target_name, asked.text) == ("ask", ann.id, "ann", "How many?")
    assert (answer.task_id, answer.text, answer.error, answer.automatic, answer.task_turn) == (
        asked.task_id, "Seven.", False, False, 0,
    )  # fmt: skip
    assert lead.state.open_tasks == ()


# clause message 14, 15
async def test_a_message_of_an_agent_has_its_name() -> None:
    client = Listening()
    team = HandMade(client=client)
    lead, ann = team.lead([ask("ann", "How many?"), "x"]), team.worker("ann", ["Seven."])
    await lead.prompt("go")
    assert client.texts(1) == ["user: Question from lead: How many?"]
    [entry] = [each.message for each in ann.state.messages if isinstance(each.message, UserMessage)]
    assert (entry.sender_id, entry.sender_name, entry.purpose) == (lead.id, "lead", "question")


# W-04
async def test_a_busy_agent_answers_each_question_with_its_own_answer() -> None:
    team, hold = HandMade(), Hold()
    lead = team.lead(
        [
            calls(
                ("ask_agent", {"agent_id": "ann", "question": "one"}),
                ("ask_agent", {"agent_id": "ann", "question": "two"}),
            ),
            "x",
        ]
    )
    ann = team.worker("ann", [call("hold"), "to a person", "to one", "to two"], tools=[hold.hold])
    first = ann.prompt("person")
    await hold.entered.wait()
    run = lead.prompt("go")
    queued = ann.subscribe(since=0)
    await until(queued, "queued")
    await until(queued, "queued")
    hold.release()
    assert (await first).text == "to a person"
    await run
    assert results(lead) == ["to one", "to two"]
    assert prompts(ann) == ["person", "one", "two"]


# W-03; IA-02
@pytest.mark.parametrize("how", ["abort", "stop"])
async def test_an_asker_is_told_when_the_other_one_is_stopped(how: str) -> None:
    team, hold = HandMade(), Hold()
    lead = team.lead([ask("ann"), "gone on"])
    ann = team.worker("ann", [call("hold"), "never"], tools=[hold.hold])
    run = lead.prompt("go")
    await hold.entered.wait()
    await (ann.abort() if how == "abort" else ann.stop())
    async with asyncio.timeout(SOON):
        assert (await run).text == "gone on"
    assert results(lead) == ["Error: ann was stopped before it answered."]
    assert responded(lead)[0].error


async def test_an_asker_is_told_when_the_other_one_fails() -> None:
    team = HandMade()
    lead = team.lead([ask("ann"), "gone on"])
    team.worker("ann", [Reply("half", error="The line broke.")])
    assert (await lead.prompt("go")).text == "gone on"
    assert results(lead) == ["Error: ann could not answer: The line broke."]


async def test_a_stopped_agent_cannot_be_asked() -> None:
    team = HandMade()
    lead = team.lead([ask("ann"), delegate("ann"), "gone on"])
    await team.worker("ann").stop()
    await lead.prompt("go")
    assert [text.partition(".")[0] for text in results(lead)] == ["Error: Agent not found: ann"] * 2


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_a_structured_answer_is_corrected_once() -> None:
    team = HandMade()
    lead = team.lead([ask("ann", output_schema=SCHEMA), ask("ann", output_schema=SCHEMA), "x"])
    ann = team.worker("ann", ["seven", '{"n": 7}', "no", "no again"])
    await lead.prompt("go")
    good, bad = results(lead)
    assert good == '{"n": 7}'
    assert bad.startswith("Error: ann could not answer: ")
    assert len(prompts(ann)) == 4


# IA-24
async def test_reset_previous_context_hides_what_was_before() -> None:
    client = Listening()
    team = HandMade(client=client)
    lead = team.lead([ask("ann", "one"), ask("ann", "two", reset_previous_context=True), "x"])
    ann = team.worker("ann", ["first", "unused"])
    await lead.prompt("go")
    asked = [client.texts(index) for index in range(len(client.asked))]
    [last] = [texts for texts in asked if texts[-1] == "user: Question from lead: two"]
    assert len(last) == 2
    assert "Starting new task." in last[0]
    assert said(ann) == [
        "user: one",
        "assistant: first",
        "summary: Starting new task.",
        "user: two",
        "assistant: first",
    ]


async def test_a_delegation_can_reset_the_context_too() -> None:
    team = HandMade()
    lead = team.lead([delegate("ann", "one"), "a", delegate("ann", "two", reset_previous_context=True), "b", "c"])
    ann = team.worker("ann", ["first"])
    await lead.prompt("go")
    await turns(lead, 3)
    assert said(ann)[2:4] == ["summary: Starting new task.", "user: two"]


async def test_interrupt_can_reset_the_context() -> None:
    team = HandMade()
    lead = team.lead([call("interrupt_agent", agent_id="ann", reset_previous_context=True), "x"])
    ann = team.worker("ann", ["first"])
    await ann.prompt("hello")
    await lead.prompt("go")
    assert said(ann)[-1] == "summary: Starting new task."


# clause team_integration 4, 5; agent 41-43; IA-07, IA-09
async def test_a_delegation_returns_at_once_and_its_response_wakes_the_idle_orchestrator() -> None:
    client = Listening()
    team, hold = HandMade(client=client), Hold()
    lead = team.lead([delegate("builder", "Build it."), "waiting", "It is built."])
    builder = team.worker("builder", [call("hold"), call("send_response", response="Built."), "bye"], tools=[hold.hold])
    assert (await lead.prompt("go")).text == "waiting"
    assert lead.status == "idle"
    assert results(lead)[0].startswith(
        "Task sent to builder. The response will come to you as a message. End your turn"
    )
    assert [task.text for task in lead.state.open_tasks] == ["Build it."]
    hold.release()
    await turns(lead, 2)
    await turns(builder, 1)
    assert results(builder) == ["held", "Response sent."]
    assert said(lead)[-2:] == ["user: Built.", "assistant: It is built."]
    woken = lead.state.messages[-2].message
    assert isinstance(woken, UserMessage)
    assert (woken.sender_id, woken.sender_name, woken.purpose) == (builder.id, "builder", "response")
    requests = [client.texts(index)[-1] for index in range(len(client.asked))]
    assert "user: Response from builder: Built." in requests
    [response] = responded(lead)
    assert (response.text, response.error, response.automatic, response.task_turn) == ("Built.", False, False, 0)
    assert len(responded(lead)) == 1


async def test_responses_that_come_during_a_turn_are_answered_in_one_turn() -> None:
    team, hold = HandMade(), Hold()
    fan: list[tuple[str, dict[str, object]]] = [
        ("delegate_task", {"agent_id": name, "task": "t"}) for name in ("a", "b", "c")
    ]
    lead = team.lead([calls(*fan), call("hold"), "busy until now", "all read"], tools=[hold.hold])
    for name in ("a", "b", "c"):
        team.worker(name, [f"from {name}"])
    run = lead.prompt("go")
    await hold.entered.wait()
    events = lead.subscribe(since=0)
    for _ in range(3):
        await until(events, "responded")
    hold.release()
    await run
    await turns(lead, 2)
    assert said(lead)[-4:] == ["user: from a", "user: from b", "user: from c", "assistant: all read"]
    assert lead.state.turn == 1


async def test_the_final_text_is_the_response_of_a_worker_that_sends_none() -> None:
    team = HandMade()
    lead = team.lead([delegate("ann"), "waiting", "done"])
    team.worker("ann", ["My report."])
    await lead.prompt("go")
    await turns(lead, 2)
    [response] = responded(lead)
    assert (response.text, response.automatic, response.error) == ("My report.", True, False)


@pytest.mark.parametrize("text", ["   ", "\n \n"])
async def test_a_worker_that_says_nothing_is_reported(text: str) -> None:
    team = HandMade()
    lead = team.lead([delegate("ann"), "waiting", "done"])
    team.worker("ann", [text, text])
    await lead.prompt("go")
    await turns(lead, 2)
    [response] = responded(lead)
    assert "ann" in response.text
    assert response.text.strip()


async def interrupted(lead: Agent, ann: Agent) -> None:
    await ann.abort()


async def destroyed(lead: Agent, ann: Agent) -> None:
    await ann.stop(removed=True)


@pytest.mark.parametrize("end", [interrupted, destroyed])
async def test_a_worker_that_is_stopped_sends_an_error(end: Callable[[Agent, Agent], object]) -> None:
    team, hold = HandMade(), Hold()
    lead = team.lead([delegate("ann"), "waiting", "done"])
    ann = team.worker("ann", [call("hold"), "never"], tools=[hold.hold])
    await lead.prompt("go")
    await hold.entered.wait()
    await end(lead, ann)  # type: ignore[misc]
    await turns(lead, 2)
    [response] = responded(lead)
    assert (response.text, response.error, response.automatic) == ("ann was stopped before it answered.", True, True)
    assert prompts(lead)[-1] == "Error: ann was stopped before it answered."


async def test_a_worker_that_fails_sends_an_error() -> None:
    team = HandMade()
    lead = team.lead([delegate("ann"), "waiting", "done"])
    team.worker("ann", [Reply("half", error="The line broke.")])
    await lead.prompt("go")
    await turns(lead, 2)
    assert prompts(lead)[-1] == "Error: ann failed: The line broke."


# clause team_integration 8; IA-22
async def test_destroy_ends_a_worker_for_good() -> None:
    team = HandMade()
    lead = team.lead([call("destroy_agent", agent_id="ann"), call("destroy_agent", agent_id="ann"), "x"])
    ann = team.worker("ann")
    await lead.prompt("go")
    assert results(lead)[0] == "Agent destroyed."
    assert results(lead)[1].startswith("Error: Agent not found: ann.")
    assert ann.state.stopped
    [left] = [event for event in lead.events.since(0) if isinstance(event, ev.WorkerExit)]
    assert (left.reason, left.normal) == ("destroyed", True)
    [stopped] = [event for event in ann.events.since(0) if isinstance(event, ev.AgentStopped)]
    assert stopped.removed


# clause team_integration 20; IA-22
async def test_interrupt_ends_the_turn_of_a_worker_that_stays() -> None:
    team, hold = HandMade(), Hold()
    lead = team.lead([delegate("ann"), call("enter"), call("interrupt_agent", agent_id="ann"), "x", "y"])
    ann = team.worker("ann", [call("hold"), "alive"], tools=[hold.hold])

    async def enter() -> str:
        await hold.entered.wait()
        return "entered"

    lead.add_tool(enter)
    await lead.prompt("go")
    assert results(lead)[2] == "Agent interrupted."
    assert (ann.status, ann.state.stopped) == ("idle", False)
    assert (await ann.prompt("still there?")).text == "alive"


async def test_an_idle_agent_can_be_interrupted() -> None:
    team = HandMade()
    lead = team.lead([call("interrupt_agent", agent_id="ann"), "x"])
    ann = team.worker("ann")
    await lead.prompt("go")
    assert results(lead) == ["Agent interrupted."]
    assert not ann.state.stopped


# W-29
async def test_a_worker_that_delegates_gets_the_response_itself() -> None:
    team = HandMade()
    lead = team.lead([delegate("ann", "big"), "waiting", "{result}"])
    ann = team.worker("ann", [delegate("ben", "small"), "I wait for ben.", "With ben's help: done."])
    ben = team.worker("ben", [call("send_response", response="ben's part"), "bye"])
    await lead.prompt("go")
    await turns(lead, 2)
    assert prompts(ann) == ["big", "ben's part"]
    assert prompts(lead) == ["go", "With ben's help: done."]
    assert [event.text for event in responded(ann)] == ["ben's part"]
    assert ben.state.turn == 0
    assert lead.state.turn == 1


async def test_a_worker_goes_on_while_another_one_has_ended_its_part() -> None:
    team, hold = HandMade(), Hold()
    lead = team.lead([delegate("ann"), "waiting", "done"])
    ann = team.worker("ann", [delegate("ben"), call("hold"), "my part", "all of it"], tools=[hold.hold])
    team.worker("ben", ["ben's part"])
    await lead.prompt("go")
    await until(ann.subscribe(since=0), "responded")
    assert responded(lead) == []
    hold.release()
    await turns(lead, 2)
    assert prompts(ann) == ["task", "ben's part"]
    assert prompts(lead) == ["go", "all of it"]


async def test_a_worker_that_waits_for_others_can_respond_early() -> None:
    team = HandMade()
    early = calls(("delegate_task", {"agent_id": "ben", "task": "t"}), ("send_response", {"response": "early"}))
    lead = team.lead([delegate("ann"), "waiting", "done"])
    ann = team.worker("ann", [early, "I wait.", "late"])
    team.worker("ben", ["part"])
    await lead.prompt("go")
    await turns(ann, 2)
    await turns(lead, 2)
    assert prompts(lead) == ["go", "early"]
    assert lead.state.open_tasks == ()


@pytest.mark.parametrize("end", ["destroy_agent", "interrupt_agent"])
async def test_a_worker_that_is_stopped_while_it_waits_for_others_sends_an_error(end: str) -> None:
    team, hold = HandMade(), Hold()
    lead = team.lead([delegate("ann"), "waiting", call(end, agent_id="ann"), "ended it", "read the error"])
    ann = team.worker("ann", [delegate("ben"), "I wait for ben.", "must not be asked"])
    ben = team.worker("ben", [call("hold"), "too late"], tools=[hold.hold])
    await lead.prompt("go")
    await hold.entered.wait()
    await turns(ann, 1)
    await lead.prompt("stop ann")
    await turns(lead, 3)
    assert prompts(lead)[-1] == "Error: ann was stopped before it answered."
    hold.release()
    await turns(ben, 1)
    assert ann.state.turn == 0
    assert lead.state.open_tasks == ()


async def test_responses_for_two_tasks_are_answered_each_for_its_own() -> None:
    """A worker with two tasks waits for two others; each of its delegators gets what is for it."""
    team, hold = HandMade(), Hold()
    team.lead([])
    one = team.worker("one", [delegate("mid", "1"), "waiting", "one is done"])
    two = team.worker("two", [delegate("mid", "2"), "waiting", "two is done"])
    mid = team.worker(
        "mid",
        [delegate("a", "x"), "wait", delegate("b", "y"), "wait", call("hold"), "to nobody",
         call("send_response", response="A"), "bye", call("send_response", response="B"), "bye"],
        tools=[hold.hold],
    )  # fmt: skip
    gates = [Hold(), Hold()]
    workers = [
        team.worker(name, [call("hold"), name], tools=[gate.hold]) for name, gate in zip("ab", gates, strict=True)
    ]
    await one.prompt("go")
    await turns(mid, 1)
    await two.prompt("go")
    await turns(mid, 2)
    mid.prompt("be busy")
    await hold.entered.wait()
    for gate, worker in zip(gates, workers, strict=True):
        gate.release()
        await turns(worker, 1)
    hold.release()
    await turns(one, 2)
    await turns(two, 2)
    assert prompts(one)[-1] == "A"
    assert prompts(two)[-1] == "B"
    assert not any(event.automatic for agent in (one, two) for event in responded(agent))


async def test_a_question_has_one_answer_also_if_others_were_given_a_part_of_it() -> None:
    team = HandMade()
    lead = team.lead([ask("ann"), "x"])
    ann = team.worker("ann", [delegate("ben"), "the answer", "thanks, ben"])
    team.worker("ben", ["part"])
    await lead.prompt("go")
    await turns(ann, 2)
    assert results(lead) == ["the answer"]
    assert [event.text for event in responded(lead)] == ["the answer"]
    assert prompts(lead) == ["go"]


# IA-08
async def test_there_is_nobody_to_respond_to_without_a_task() -> None:
    team = HandMade()
    lead = team.lead([call("send_response", response="x"), "end"])
    ann = team.worker("ann", [call("send_response", response="x"), "end"])
    await lead.prompt("go")
    await ann.prompt("go")
    for agent in (lead, ann):
        assert results(agent)[0].startswith("Error: No delegator to respond to.")


async def test_a_question_can_be_answered_with_send_response() -> None:
    team = HandMade()
    lead = team.lead([ask("ann"), "x"])
    team.worker("ann", [call("send_response", response="the answer"), "small talk"])
    await lead.prompt("go")
    assert results(lead) == ["the answer"]


@pytest.mark.parametrize("tool", ["ask_agent", "delegate_task"])
@pytest.mark.parametrize("text", ["", "  "])
async def test_an_empty_question_or_task_is_refused(tool: str, text: str) -> None:
    team = HandMade()
    lead = team.lead([call(tool, agent_id="ann", question=text, task=text), "x"])
    ann = team.worker("ann")
    await lead.prompt("go")
    assert "as a text that is not empty" in results(lead)[0]
    assert ann.state.messages == ()


async def test_a_function_that_follows_a_run_and_fails_stops_nothing() -> None:
    team, seen = HandMade(), list[dict[str, object]]()
    ann = team.worker("ann", ["one", "two"])
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    run = ann.prompt("1")
    run.follow(lambda _: int("x"))  # type: ignore[arg-type]
    later = ann.prompt("2")
    assert (await run).text == "one"
    assert (await later).text == "two"
    assert isinstance(seen[0]["exception"], ValueError)
    ended: list[str] = []
    run.follow(lambda each: ended.append(each.status))
    assert ended == ["done"]
