"""Each prompt has a turn and an answer of its own, unless it joins others that wait."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from support.agents import Hold, Listening, calling, prompts, said

from planck_nb import Agent, Session
from planck_nb.ai.messages import ImagePart
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.testing import Reply, scripted_model


def numbered(count: int = 20) -> list[Reply | str]:
    return [f"answer {number}" for number in range(1, count + 1)]


@pytest.mark.parametrize("count", [2, 4, 9])
async def test_gathered_prompts_get_their_own_answers(count: int) -> None:
    agent = Agent(model=scripted_model(numbered()))
    results = await asyncio.gather(*(agent.prompt(f"question {number}") for number in range(1, count + 1)))
    assert [result.text for result in results] == [f"answer {number}" for number in range(1, count + 1)]
    assert [[message.text for message in result.messages if message.type == "user"] for result in results] == [
        [f"question {number}"] for number in range(1, count + 1)
    ]
    assert agent.state.turn == count - 1


@pytest.mark.parametrize("awaited", [False, True])
async def test_whether_a_run_is_awaited_does_not_change_what_it_answers(awaited: bool) -> None:
    agent = Agent(model=scripted_model(numbered()))
    runs = [agent.prompt(f"question {number}") for number in range(4)]
    waiting = [asyncio.create_task(run.wait()) for run in runs] if awaited else []
    await runs[-1]
    await asyncio.gather(*waiting)
    assert [(await run).text for run in runs] == [f"answer {number}" for number in range(1, 5)]


@pytest.mark.parametrize(
    ("waiting", "turns"),
    [
        ("jj", ["jj"]),
        ("jpj", ["j", "p", "j"]),
        ("pjj", ["p", "jj"]),
        ("jjpjj", ["jj", "p", "jj"]),
        ("ppp", ["p", "p", "p"]),
        ("joj", ["j", "o", "j"]),  # `o` has an output, and so a turn of its own
        ("jO", ["j", "O"]),  # although `O` would join
    ],
)
async def test_prompts_that_join_are_answered_together_in_their_order(waiting: str, turns: list[str]) -> None:
    hold, client = Hold(), Listening()
    agent = Agent(model=scripted_model([*calling(("hold", {})), *['"x"'] * 9]), tools=[hold.hold], client=client)
    first = agent.prompt("first")
    await hold.entered.wait()
    names = [f"{kind}{number}" for number, kind in enumerate(waiting)]
    runs = [
        agent.prompt(name, join=name[0] in "jO", output={"type": "string"} if name[0] in "oO" else None)
        for name in names
    ]
    assert [prompt.text for prompt in agent.state.queue] == names
    hold.release()
    await first
    await asyncio.gather(*runs)
    grouped = [
        "".join(name[0] for name, _ in group)
        for _, group in itertools.groupby(zip(names, runs, strict=True), lambda pair: pair[1].turn)
    ]
    assert grouped == turns
    assert prompts(agent) == ["first", *names]


async def test_a_prompt_that_waits_can_be_aborted_and_the_others_keep_their_answers() -> None:
    hold = Hold()
    agent = Agent(model=scripted_model([*calling(("hold", {}), then="one"), *numbered()]), tools=[hold.hold])
    first = agent.prompt("first")
    await hold.entered.wait()
    runs = [agent.prompt(f"question {number}") for number in range(3)]
    runs[1].abort()
    hold.release()
    await first
    results = await asyncio.gather(*runs)
    assert [(result.text, result.aborted) for result in results] == [
        ("answer 1", False), ("", True), ("answer 2", False),
    ]  # fmt: skip


async def test_steering_that_came_too_late_steers_no_other_prompt() -> None:
    hold = Hold()
    agent = Agent(model=scripted_model([*calling(("hold", {}), then="steered"), "own"]), tools=[hold.hold])
    agent.prompt("first")
    await hold.entered.wait()
    own, steer = agent.prompt("own"), agent.steer("left")
    await agent.abort()
    assert (await steer).text == "steered"
    assert [message.text for message in (await own).messages if message.type == "user"] == ["own"]
    assert prompts(agent) == ["first", "left", "own"]


async def test_a_stored_queue_says_which_prompts_join(tmp_path: Path) -> None:
    hold = Hold()
    with Session.create(tmp_path) as session:
        agent = Agent(model=scripted_model(calling(("hold", {}))), tools=[hold.hold], session=session)
        agent.prompt("first")
        await hold.entered.wait()
        agent.prompt("alone")
        agent.prompt("together", join=True)
        await session.flush()
        queued = [event for event in session.events(agent.id) if event.type == "queued"]
        assert [(event.text, event.join) for event in queued] == [("alone", False), ("together", True)]
        await agent.stop()


@pytest.mark.parametrize("content", ["", "  \n\t", [], ()])
async def test_an_empty_prompt_is_refused_before_it_is_sent(content: str) -> None:
    client, hold = Listening(), Hold()
    agent = Agent(model=scripted_model([*calling(("hold", {})), "two"]), client=client, tools=[hold.hold])
    for send in (agent.prompt, agent.steer):
        with pytest.raises(UsageError, match="The prompt is empty; write what"):
            send(content)
    assert (client.asked, said(agent)) == ([], [])
    run = agent.prompt("go")
    await hold.entered.wait()
    waiting = agent.prompt("later")
    with pytest.raises(UsageError, match="The prompt is empty"):
        agent.edit_queued(waiting.id, content)
    hold.release()
    await run
    await waiting
    assert prompts(agent) == ["go", "later"]


async def test_a_prompt_without_text_may_be_an_image() -> None:
    agent = Agent(model=scripted_model(["a cat"]))
    assert (await agent.prompt([ImagePart(url="https://example.org/cat.png")])).text == "a cat"


async def test_nothing_is_continued_before_there_is_a_conversation() -> None:
    client = Listening()
    agent = Agent(model=scripted_model(["one"]), client=client)
    with pytest.raises(AgentError, match="nothing to continue yet"):
        agent.continue_()
    assert client.asked == []
    assert (await agent.prompt("go")).text == "one"
