"""Questions of sidecars: who is asked, which answer counts, and when there is nobody to ask."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from planck_nb.ai.messages import ImagePart
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.open_questions import Audience, OpenQuestion, OpenQuestions
from planck_nb.jupyter.terminal.question_prompt import QuestionPrompt
from planck_nb.sidecars.mcp_client.link.questions import Question, QuestionAnswer, answer_of

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def asked(agent_id: str = "a1", seconds: float = 30.0, url: str = "") -> Question:
    return Question("asker", "Who?", {} if url else NAME, url=url, agent_id=agent_id, seconds=seconds)


def audience(questions: OpenQuestions, *agents: str, attended: bool = True) -> tuple[Audience, asyncio.Event]:
    changed = asyncio.Event()
    joined = Audience(lambda agent_id: agent_id in agents, changed.set)
    if attended:
        joined.attended.set()
    questions.join(joined)
    return joined, changed


async def test_the_first_answer_counts_and_the_second_is_told_so() -> None:
    questions = OpenQuestions()
    one, came = audience(questions, "a1")
    two, _ = audience(questions, "a1")
    asking = asyncio.create_task(questions.ask(asked()))
    await came.wait()
    [shown] = questions.shown_to(one)
    assert questions.shown_to(two) == [shown]
    with pytest.raises(UsageError, match="'name' is a required property"):
        questions.answer(shown.id, QuestionAnswer("accept", {}))
    questions.answer(shown.id, QuestionAnswer("accept", {"name": "Ada"}))
    with pytest.raises(UsageError, match="answered already"):
        questions.answer(shown.id, QuestionAnswer("decline"))
    assert await asking == QuestionAnswer("accept", {"name": "Ada"})
    assert questions.shown_to(one) == []


@pytest.mark.parametrize(
    ("secret", "kind"),
    [
        ("sk-ant-api03-" + "a1B2" * 8, "what looks like an Anthropic key"),
        ("my-own-service-token-1", "the value of MY_SERVICE_TOKEN"),
        ("postgres://ann:tulips8@db.invalid/x", "what looks like an address with a password"),
    ],
    ids=["format", "variable", "address"],
)
async def test_an_answer_with_a_secret_is_sent_only_if_it_is_confirmed(
    monkeypatch: pytest.MonkeyPatch, secret: str, kind: str
) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "my-own-service-token-1")
    questions = OpenQuestions()
    mine, came = audience(questions, "a1")
    asking = asyncio.create_task(questions.ask(asked()))
    await came.wait()
    [shown] = questions.shown_to(mine)
    for content in ({"name": secret}, {"name": f"it is {secret}"}):
        with pytest.raises(UsageError) as caught:
            questions.answer(shown.id, QuestionAnswer("accept", content))
        assert str(caught.value) == (
            f"The answer has {kind}, which the sidecar asker would get; give the same answer again to send it."
        )
    questions.answer(shown.id, QuestionAnswer("accept", {"name": secret}))
    assert await asking == QuestionAnswer("accept", {"name": secret})


async def test_a_question_is_shown_only_where_its_agent_works() -> None:
    questions = OpenQuestions()
    mine, came = audience(questions, "a1")
    other, _ = audience(questions, "b2")
    asking = asyncio.create_task(questions.ask(asked("a1")))
    await came.wait()
    assert questions.shown_to(other) == []
    questions.leave(mine)
    assert await asking is None, "the run was over"
    assert await questions.ask(asked("c3")) is None
    everywhere = asyncio.create_task(questions.ask(asked("")))
    await asyncio.sleep(0)
    assert len(questions.shown_to(other)) == 1
    questions.leave(other)
    assert await everywhere is None


async def test_without_a_browser_a_question_is_declined_soon() -> None:
    questions = OpenQuestions(patience=0.05)
    late, _ = audience(questions, "a1", attended=False)
    assert await questions.ask(asked()) is None
    asking = asyncio.create_task(OpenQuestions.ask(questions, asked()))
    await asyncio.sleep(0)
    late.attended.set()
    await asyncio.sleep(0.1)
    [shown] = questions.shown_to(late)
    questions.answer(shown.id, QuestionAnswer("decline"))
    assert await asking == QuestionAnswer("decline")


async def test_a_deadline_that_passes_is_said() -> None:
    questions = OpenQuestions()
    said: list[tuple[OpenQuestion, str]] = []
    joined = Audience(lambda _: True, lambda: None, closed=lambda question, text: said.append((question, text)))
    joined.attended.set()
    questions.join(joined)
    answer, problem = await answer_of(asked(seconds=0.05), questions.ask)
    assert (answer.action, problem) == ("cancel", "The question was not answered within 0.05 s.")
    assert [text for _, text in said] == [
        "The question of the sidecar asker was declined: it was not answered in time."
    ]
    assert questions.shown_to(joined) == []


KEY = "sk-ant-api03-" + "a1B2" * 8
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Typist:
    """Types lines one after another, then nothing more."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.prompts: list[str] = []
        self.written = ""

    async def read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if not self._lines:
            await asyncio.Event().wait()
        line = self._lines.pop(0)
        if line == "EOF":
            raise EOFError
        return f"{line}\n"

    def write(self, text: str) -> None:
        self.written += text


MANY = {
    "type": "object",
    "properties": {
        "branch": {"type": "string", "default": "main"},
        "copies": {"type": "integer", "minimum": 1},
        "dry": {"type": "boolean"},
        "place": {"enum": ["eu", "us"]},
    },
    "required": ["copies"],
}


@pytest.mark.parametrize(
    ("question", "lines", "answer"),
    [
        (asked(), ["y", "Ada"], QuestionAnswer("accept", {"name": "Ada"})),
        (asked(), ["what", "yes", "", "Ada"], QuestionAnswer("accept", {"name": "Ada"})),
        (asked(), ["n"], QuestionAnswer("decline")),
        (asked(), ["EOF"], QuestionAnswer("decline")),
        (asked(), ["y", KEY, "y", KEY], QuestionAnswer("accept", {"name": KEY})),
        (replace(asked(), images=(ImagePart(PIXEL, "image/png"),)), ["y", "Ada"], QuestionAnswer("decline")),
        (asked(url="https://example.org/a"), ["y"], QuestionAnswer("accept")),
        (
            Question("asker", "How?", MANY, agent_id="a1"),
            ["y", "", "many", "2", "no", "3", "2"],
            QuestionAnswer("accept", {"copies": 2, "dry": False, "place": "us"}),
        ),
        (
            Question("asker", "How?", MANY, agent_id="a1"),
            ["y", "dev", "0", "", "", "y", "dev", "1", "", ""],  # 0 is below the minimum: everything is asked again
            QuestionAnswer("accept", {"branch": "dev", "copies": 1}),
        ),
    ],
)
async def test_an_answer_is_typed(question: Question, lines: list[str], answer: QuestionAnswer) -> None:
    questions, typist = OpenQuestions(), Typist(*lines)
    prompt = QuestionPrompt(questions, lambda _: True, read=typist.read, write=typist.write)
    following = asyncio.create_task(prompt.follow())
    await asyncio.sleep(0)
    assert await questions.ask(question) == answer
    following.cancel()
    assert typist.written.startswith("The sidecar asker asks: ")
    assert question.url in typist.written


async def test_a_typed_question_that_is_answered_elsewhere_is_given_up_and_the_next_is_asked() -> None:
    questions, typist = OpenQuestions(), Typist()
    prompt = QuestionPrompt(questions, lambda _: True, read=typist.read, write=typist.write)
    following = asyncio.create_task(prompt.follow())
    other, _ = audience(questions, "a1")
    await asyncio.sleep(0)
    for count in (1, 2):
        asking = asyncio.create_task(questions.ask(asked()))
        while len(typist.prompts) < count:  # noqa: ASYNC110 - the prompt is a task of its own
            await asyncio.sleep(0)
        [shown] = questions.shown_to(other)
        questions.answer(shown.id, QuestionAnswer("accept", {"name": "Ada"}))
        assert await asking == QuestionAnswer("accept", {"name": "Ada"})
    following.cancel()
