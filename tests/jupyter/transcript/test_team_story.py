"""The saved output of a run of a team."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fixtures.team import record
from support.payloads import payloads

from planck_nb.agent import events as ev
from planck_nb.ai.messages import AssistantMessage, TextPart, Usage, UserMessage
from planck_nb.jupyter.transcript.answer import Answer, transcript_of
from planck_nb.jupyter.transcript.team_story import STEPS, steps_of
from planck_nb.jupyter.transcript.transcript import Transcript

STORY = """[lead → builder, task: Clean the March export. Both date formats.]
  [builder → critic, question: Is it right?]
  [critic → builder, answer: Yes, it is right.]
[builder → lead, answer: Cleaned, **3** rows rejected.]
[lead → tester, task: Run the tests.]
[tester → lead, answer: All 96 tests pass.]
[lead → broken, question: Are you there?]
[broken → lead, no answer: broken could not answer: the line broke]"""


def saved(events: list[ev.AgentEvent], leader: str = "lead-1") -> Transcript:
    return transcript_of("lead", "demo:script", events, agent_id=leader)


def event(of: Any, agent: str, turn: int = 0, **payload: Any) -> ev.AgentEvent:
    made: ev.AgentEvent = of(agent, None, turn, 0, 100.0, **payload)
    return made


def given(task: str, delegator: str, target: str, text: str = "do it", **more: Any) -> ev.AgentEvent:
    named: Any = {
        "task_id": task,
        "kind": "delegate",
        "target_id": target,
        "target_name": f"the {target}",
        "text": text,
    }
    return event(ev.Delegated, delegator, **{**more, **named})


def answered(task: str, delegator: str, target: str, text: str = "done", **more: Any) -> ev.AgentEvent:
    named: Any = {
        "task_id": task,
        "kind": "delegate",
        "target_id": target,
        "target_name": f"the {target}",
        "text": text,
    }
    return event(ev.Responded, delegator, **{**more, **named})


def reply(agent: str, text: str) -> list[ev.AgentEvent]:
    message = AssistantMessage((TextPart(text),))
    return [
        event(ev.TurnStart, agent, index=0, model="demo:m"),
        event(ev.MessageAppended, agent, id=1, message=message),
        event(ev.TurnEnd, agent, message=message, usage=Usage()),
    ]


def lines(events: list[ev.AgentEvent], names: dict[str, str] | None = None) -> list[str]:
    known = names or {name: name for name in "abcd"}
    return [f"{'  ' * step.depth}{step.label}: {step.text}" for step in steps_of(events, "a", known)]


def test_the_plain_text_is_the_report_and_then_the_whole_story() -> None:
    plain = saved(record.read()).bundle()["text/plain"]
    assert plain.startswith(f"{record.REPORT}\n[How it was made: 5 agents, 4 tasks, 4.0k tokens]\n{STORY}")


def test_markdown_has_the_report_before_tasks_answers_and_figures() -> None:
    markdown = saved(record.read()).bundle()["text/markdown"]
    assert markdown.startswith("**lead** · done · 1 of 3 calls failed · 5 agents · 4.0k tokens")
    for part in (
        "- **lead → builder, task**",
        "> Clean the March export.\n  > Both date formats.",
        "**tester** · done",
    ):
        assert part in markdown
    assert markdown.index(record.REPORT) < markdown.index("**How it was made**")


def test_html_folds_the_transcripts_of_the_workers_below_the_report() -> None:
    html = saved(record.read()).bundle()["text/html"]
    folded = [f"<b>{name}</b> <span" for name in ("builder", "critic", "tester", "broken")]
    places = [html.index(part) for part in folded]
    assert places == sorted(places), "in the order of the tasks"
    report = html.rindex("The March export is clean and all tests pass.")
    assert report < html.index("How it was made") < places[0]
    for part in (
        "Let me ask.",
        "<b>edit</b> load.py",
        "All 96 tests pass.</p>",
        "the line broke",
        "<b>lead:</b> Run the",
    ):
        assert html.rindex(part) > places[0]
    assert "delegate_task" not in html, "a task is told once"
    assert html.count("<details") == html.count("</details>")


def test_no_id_and_no_time_is_in_the_output() -> None:
    events = record.read()
    ids = {getattr(each, name) for each in events for name in ("agent_id", "task_id", "id") if hasattr(each, name)}
    later = [replace(each, time=each.time * 2) for each in events]
    texts = "".join(saved(events).bundle().values())
    assert saved(later).bundle() == saved(events).bundle()
    assert not [found for found in ids if isinstance(found, str) and len(found) > 8 and found in texts]


@pytest.mark.slow
async def test_the_story_is_the_same_whichever_worker_is_faster() -> None:
    stories = set()
    for slow in (1, 2):
        agents = record.make_team(team=f"team-{slow}")
        agents[slow].model = replace(agents[slow].model, settings={**agents[slow].model.settings, "pace": 0.02})
        run = record.prompt(agents[0])
        async for each in run.events.subscribe(0):
            if each.type == "approval_request":
                agents[1].decide(each.id, allow=True)
        team = saved(run.events.since(0)).team
        assert team is not None
        stories.add((team.steps, tuple(agent.name for agent in team.agents)))
        await agents[0].stop()
    assert len(stories) == 1


def test_the_answer_is_the_report_and_the_messages_are_of_all_agents() -> None:
    events = record.read()
    answer = Answer(saved(events))
    assert answer.text == record.REPORT
    assert answer.stop_reason == "stop"
    texts = [message.text for message in answer.messages if isinstance(message, AssistantMessage)]
    assert {"All 96 tests pass.", "Yes, it is right.", record.REPORT} <= set(texts)
    total = sum((each.delta for each in events if each.type == "usage_delta"), Usage())
    assert answer.usage == total


def test_a_worker_that_fails_does_not_make_the_run_fail_and_a_failing_lead_does() -> None:
    failed = [*reply("a", "I wait."), event(ev.Error, "b", reason="No key.", kind="X"), *reply("a", "Report.")]
    assert (saved(failed, "a").outcome, saved(failed, "a").error) == ("done", None)
    leading = [*failed, event(ev.TurnStart, "a", index=2, model="m"), event(ev.Error, "a", reason="No net.", kind="X")]
    assert (saved(leading, "a").outcome, saved(leading, "a").error) == ("failed", "No net.")
    recovered = [*leading, *reply("a", "After all.")]
    assert (saved(recovered, "a").outcome, saved(recovered, "a").error) == ("done", None)


def test_tasks_without_an_answer_and_answers_sent_twice() -> None:
    events = [
        given("1", "a", "b"),
        given("2", "a", "c"),
        answered("2", "a", "c", "one"),
        answered("2", "a", "c", "two"),
    ]
    assert lines(events) == ["a → b, task: do it", "a → c, task: do it", "c → a, answer: one", "c → a, answer: two"]


def test_two_tasks_of_one_worker_have_their_own_parts() -> None:
    events = [
        given("1", "a", "b", "first"),
        given("2", "a", "b", "second"),
        given("1.1", "b", "c", "part of first", turn=0),
        answered("1", "a", "b", task_turn=0),
        given("2.1", "b", "c", "part of second", turn=1),
        answered("2", "a", "b", task_turn=1),
    ]
    assert lines(events) == [
        "a → b, task: first",
        "  b → c, task: part of first",
        "b → a, answer: done",
        "a → b, task: second",
        "  b → c, task: part of second",
        "b → a, answer: done",
    ]


@pytest.mark.slow
def test_agents_that_give_each_other_tasks_endlessly_are_shown() -> None:
    events = [given(str(number), "ab"[number % 2], "ba"[number % 2], turn=number) for number in range(3_000)]
    steps = steps_of(events, "a", {"a": "a", "b": "b"})
    assert len(steps) == STEPS + 1
    assert [step.text for step in steps if step.kind == "left out"] == ["2,600 more tasks and answers"]
    assert max(step.depth for step in steps) < 10


def test_the_names_of_unknown_agents_are_not_their_ids() -> None:
    task = event(ev.Delegated, "a", task_id="1", kind="delegate", target_id="b", target_name="", text="do it")
    message = event(ev.MessageAppended, "b", id=1, message=UserMessage("go", sender_id="zz"))
    texts = "".join(saved([*reply("a", "Hm."), task, message], "a").bundle().values())
    assert "lead → another agent, task" in texts
    assert "zz" not in texts


@pytest.mark.slow
def test_two_hundred_workers_with_long_texts_stay_bounded_and_the_report_is_complete() -> None:
    report = "r" * 50_000
    events = reply("a", "Start.")
    for number in range(200):
        worker, task = f"w{number}", str(number)
        events += [given(task, "a", worker, "t" * 30_000), *reply(worker, "x" * 100_000)]
        events.append(answered(task, "a", worker, "y" * 30_000))
    bundle = saved([*events, *reply("a", report)], "a").bundle()
    sizes = {kind: len(text) for kind, text in bundle.items()}
    assert sizes["text/html"] < 2_500_000, sizes
    assert sizes["text/markdown"] < 1_000_000, sizes
    assert sizes["text/plain"] < 400_000, sizes
    for text in bundle.values():
        assert report in text


@pytest.mark.slow
def test_names_and_texts_of_agents_are_shown_as_text() -> None:
    for text in payloads("http://127.0.0.1:9"):
        task: Any = {"task_id": "1", "kind": "ask", "target_id": "b", "target_name": text, "text": text}
        exchange = [event(ev.Delegated, "a", **task), event(ev.Responded, "a", **task)]
        html = saved([*reply("a", "Hm."), *exchange, *reply("b", text)], "a").bundle()["text/html"]
        assert "<script" not in html
        assert "<img" not in html


@pytest.mark.parametrize("kind", ["text/plain", "text/markdown", "text/html"])
def test_a_run_of_one_agent_is_shown_as_before(kind: str) -> None:
    bundle = transcript_of("lead", "m", reply("a", "Only me.")).bundle()
    assert "→" not in bundle[kind]
    assert "agents" not in bundle[kind]
