"""Messages of a conversation as blocks."""

from __future__ import annotations

from planck_nb.ai.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
)
from planck_nb.rendering.block_html import block, prompt
from planck_nb.rendering.block_text import markdown_block, markdown_prompt, plain_block, plain_prompt
from planck_nb.rendering.blocks import Notice, ToolCall, reply_blocks

CALL = ToolCallPart("1", "read", {"path": "a.csv"})
RESULT = ToolResultPart("1", "read", "a,b")
CONVERSATION: list[Message] = [
    UserMessage("Read."),
    AssistantMessage((TextPart("I read."), CALL)),
    ToolResultMessage((RESULT, ToolResultPart("9", "write", "Of a call that a rewind has hidden."))),
    ToolResultMessage((ToolResultPart("1", "read", "Again."),)),
    AssistantMessage((), "error", error="It broke."),
]


def results(index: int) -> list[tuple[str, str]]:
    return [(part.name, part.output) for part in reply_blocks(CONVERSATION, index) if isinstance(part, ToolCall)]


def test_a_result_stands_with_its_call() -> None:
    assert results(1) == [("read", "a,b")]


def test_results_without_a_call_are_shown_by_themselves() -> None:
    assert results(2) == [("write", "Of a call that a rewind has hidden.")]
    assert results(3) == [("read", "Again.")]
    assert len(list(reply_blocks([CONVERSATION[2]], 0))) == 2


def test_an_error_is_a_sentence() -> None:
    assert list(reply_blocks(CONVERSATION, 4)) == [Notice("Error: It broke.")]


def test_pictures_are_in_markdown_if_wanted() -> None:
    drawn = ToolResultPart("1", "read", "[image 1x1 png]\nsize 1", images=(ImagePart(b"PNG"),))
    [call] = reply_blocks([AssistantMessage((CALL,)), ToolResultMessage((drawn,))], 0)
    named, whole = markdown_block(call), markdown_block(call, images=True)
    assert named == "- `read a.csv`\n\n  \\[image\\]\n\n  ```text\n  size 1\n  ```"
    assert "![image](data:image/png;base64,UE5H)" in whole
    assert plain_block(call) == "[read a.csv] [image]"
    assert block(call).count("<img ") == 1


def test_a_prompt_is_shown_as_it_was_typed() -> None:
    typed, picture = TextPart("a  <b>\n- c"), ImagePart(url="https://x.invalid/p.png")
    assert "a  &lt;b&gt;\n- c" in prompt(typed)
    assert (markdown_prompt(typed), plain_prompt(typed)) == ("a  &lt;b>\n- c", "a  <b>\n- c")
    assert "<img" not in prompt(picture)
    assert plain_prompt(picture) == "[https://x.invalid/p.png]"
