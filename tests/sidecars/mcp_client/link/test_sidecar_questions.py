"""Questions of sidecars to the person, their requests for replies of a model, and the folder that they are told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from support.sidecar_links import FAST, hostile, json_of, running, until

from planck_nb.sidecars.mcp_client.link.questions import Ask, Question, QuestionAnswer
from planck_nb.sidecars.mcp_client.link.sampling import SamplingReply, SamplingRequest
from planck_nb.sidecars.mcp_client.link.settings import LinkCallbacks

pytestmark = pytest.mark.process


async def test_a_question_is_shown_with_everything_visible_and_answered(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> QuestionAnswer:
        asked.append(question)
        assert question.problem_of({}) == "'name' is a required property"
        return QuestionAnswer("accept", {"name": "Ada"})

    async with running(hostile(tmp_path), callbacks=LinkCallbacks(ask=ask)) as (link, _):
        output = await link.call("elicit", {}, agent_id="a1", call_id="c1")
    assert '"content": {"colour": "red", "name": "Ada"}' in output.text  # with the default of the schema
    (question,) = asked
    assert (question.sidecar, question.message) == ("hostile", "Who⟨U+202E⟩?")
    assert (question.agent_id, question.call_id) == ("a1", "c1")
    assert question.schema["required"] == ["name"]


async def test_an_address_is_shown_whole(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> QuestionAnswer:
        asked.append(question)
        return QuestionAnswer("accept")

    async with running(hostile(tmp_path), callbacks=LinkCallbacks(ask=ask)) as (link, _):
        assert (await json_of(link, "elicit", text="url"))["action"] == "accept"
    assert asked[0].url == "https://ex⟨U+0430⟩mple.org/a"
    assert asked[0].message.endswith("\nThe address leads to xn--exmple-4nf.org (ex⟨U+0430⟩mple.org).")


async def _raises(_: Question) -> QuestionAnswer:
    raise RuntimeError("the view is gone")


async def _never(_: Question) -> QuestionAnswer:
    await asyncio.Event().wait()
    raise AssertionError


async def _wrong(_: Question) -> QuestionAnswer:
    return QuestionAnswer("accept", {"name": 7})


async def _nobody(_: Question) -> None:
    return None


@pytest.mark.parametrize(
    ("ask", "action", "line"),
    [
        (None, "decline", "there is no person to answer it"),
        (_nobody, "decline", "there is no person to answer it"),
        (_never, "cancel", "was not answered within 0.1 s"),
        (_raises, "cancel", "RuntimeError: the view is gone"),
        (_wrong, "cancel", "7 is not of type 'string'"),
    ],
)
async def test_a_question_that_nobody_answers_is_declined(
    tmp_path: Path, ask: Ask | None, action: str, line: str
) -> None:
    timing = replace(FAST, question=0.1)
    async with running(hostile(tmp_path), timing=timing, callbacks=LinkCallbacks(ask=ask)) as (link, _):
        assert (await json_of(link, "elicit"))["action"] == action
        assert any(line in logged for logged in link.logs())


@pytest.mark.slow
async def test_the_time_limit_of_a_call_waits_while_a_person_is_asked(tmp_path: Path) -> None:
    async def ask(_: Question) -> QuestionAnswer:
        await asyncio.sleep(2.5)  # a person who thinks longer than the call may take
        return QuestionAnswer("accept", {"name": "Ada"})

    async with running(hostile(tmp_path), callbacks=LinkCallbacks(ask=ask)) as (link, _):
        assert (await json_of(link, "elicit", timeout_ms=2_000))["action"] == "accept"


async def test_a_person_is_not_flooded_with_questions(tmp_path: Path) -> None:
    asked: list[Question] = []
    full, go_on = asyncio.Event(), asyncio.Event()

    async def ask(question: Question) -> QuestionAnswer:
        asked.append(question)
        if len(asked) == 8:
            full.set()
        await go_on.wait()
        return QuestionAnswer("accept", {"name": "Ada"})

    async with running(hostile(tmp_path), callbacks=LinkCallbacks(ask=ask)) as (link, _):
        call = asyncio.create_task(json_of(link, "ask_many"))
        await full.wait()
        await until(lambda: link.logs().count("A question was declined, because 8 others are open.") == 12)
        go_on.set()
        assert sorted(await call) == ["accept"] * 8 + ["decline"] * 12
    assert len(asked) == 8


async def test_the_folder_of_the_session_is_told_only_if_the_spec_allows_it(tmp_path: Path) -> None:
    async with running(hostile(tmp_path), cwd=tmp_path) as (link, _):
        assert "not supported" in (await json_of(link, "roots"))["message"]
    async with running(hostile(tmp_path, roots=True), cwd=tmp_path) as (link, _):
        assert (await json_of(link, "roots"))["roots"][0]["uri"] == tmp_path.as_uri()


async def test_a_reply_of_a_model_is_refused_unless_the_spec_allows_it(tmp_path: Path) -> None:
    requests: list[SamplingRequest] = []

    async def sample(request: SamplingRequest) -> SamplingReply | None:
        requests.append(request)
        return SamplingReply("good day", "demo:demo") if len(requests) == 1 else None

    callbacks = LinkCallbacks(sample=sample)
    async with running(hostile(tmp_path), callbacks=callbacks) as (link, _):
        assert (await json_of(link, "sample"))["message"] == "Sampling not supported"
    assert not requests
    async with running(hostile(tmp_path, sampling=True), callbacks=callbacks) as (link, _):
        reply = await json_of(link, "sample")
        assert (reply["content"]["text"], reply["model"]) == ("good day", "demo:demo")
        assert "did not allow" in (await json_of(link, "sample"))["message"]
    assert requests[0].sidecar == "hostile"
    assert requests[0].max_tokens == 10
