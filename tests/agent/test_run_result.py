"""How a result is shown."""

from __future__ import annotations

from planck_nb import RunResult, ai

CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def result(text: str, **rest: object) -> RunResult[object]:
    messages = (ai.UserMessage("hi"), ai.AssistantMessage((ai.TextPart(text),)))
    return RunResult(messages, ai.Usage(), None, **{"output": text, **rest})  # type: ignore[arg-type]


def test_its_repr_is_one_short_line() -> None:
    assert repr(result("It is\n42.")) == "<RunResult 'It is 42.'>"
    assert len(repr(result("words " * 1_000))) < 120
    assert repr(result("It", aborted=True)) == "<RunResult aborted 'It'>"
    assert repr(result("It", limit="The limit of 2 rounds is reached.")) == "<RunResult limited 'It'>"
    assert repr(RunResult((), ai.Usage(), None, aborted=True)) == "<RunResult aborted ''>"


def test_a_notebook_shows_its_text_as_markdown() -> None:
    assert result("**It** is 42.")._repr_markdown_() == "**It** is 42."
    assert result("It", aborted=True, output=None)._repr_markdown_() == "It"


def test_a_notebook_shows_a_structured_answer_as_json() -> None:
    text = '{"name": "Rome"}'
    assert result(text, output={"name": "Rome"})._repr_markdown_() == f"```json\n{text}\n```"
