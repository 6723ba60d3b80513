"""What Chat Completions carries besides text: images, documents, tool choice, structured output, and its refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.recordings import recorded, request_of
from support.referees import chat_params
from support.wire import CHAT_HELLO, client, replying

from planck_nb import ai
from planck_nb.ai.providers import dialect
from planck_nb.base.errors import UnsupportedFeatureError
from planck_nb.base.json_types import JsonObject

GPT = ai.get_model("openai", "gpt-4o", api="chat", api_key="k")
REASONING = ai.get_model("openai", "gpt-5", api="chat")
FOREIGN = ai.get_model("openai", "some-model", base_url="http://127.0.0.1:9/v1")
LLAMA = ai.get_model("llama_cpp", "m")
BLIND = ai.get_model("openai", "gpt-4", api="chat", api_key="k")
PNG = ai.ImagePart(b"\x89PNG", "image/png")
PDF = ai.FilePart(b"%PDF-1.4", name="a.pdf")
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
HI = ai.UserMessage("hi")
ANY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [ai.ToolSpec("get_chart", "A chart.", ANY), ai.ToolSpec("get_time", "The time.", ANY)]


def body(
    model: ai.Model, *messages: ai.Message, options: ai.Options | None = None, tools: bool = True
) -> tuple[JsonObject, tuple[str, ...]]:
    context = ai.Context("", messages, TOOLS if tools else ())
    request = dialect(model).request(model, context, options or ai.Options(), "k")
    chat_params().validate_python(request.body)
    return request.body, request.warnings


def test_images_and_files_in_a_users_message() -> None:
    user = ai.UserMessage([ai.TextPart("look"), PNG, ai.ImagePart(url="https://h/x.png"), PDF])
    assert body(GPT, user)[0]["messages"][0]["content"] == [
        {"type": "text", "text": "look"},
        IMAGE,
        {"type": "image_url", "image_url": {"url": "https://h/x.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQ="}},
    ]
    assert body(FOREIGN, ai.UserMessage([PNG]))[0]["messages"][0]["content"] == [IMAGE]


@pytest.mark.parametrize(
    ("model", "part", "words"),
    [
        (GPT, ai.FilePart(url="https://h/x.pdf"), 'choose api="responses"'),
        (LLAMA, PDF, "give it the file's text"),
        (BLIND, PNG, "cannot look at images"),
        (GPT, ai.ImagePart(), "neither data nor url"),
    ],
)
async def test_what_cannot_be_taken_is_said_before_anything_is_sent(
    model: ai.Model, part: ai.UserPart, words: str
) -> None:
    seen: list[Any] = []
    with pytest.raises(UnsupportedFeatureError, match=words):
        await client(replying(CHAT_HELLO, seen=seen)).complete(model, ai.Context(messages=[ai.UserMessage([part])]))
    assert seen == []


def test_thinking_with_the_state_of_another_format_is_left_out() -> None:
    thought = ai.ThinkingPart("Hm.", {"type": "thinking", "signature": "c2ln"})
    said = ai.AssistantMessage((thought, ai.TextPart("So.")), provider="openai", model="gpt-4o")
    assert body(GPT, HI, said)[0]["messages"][1] == {"role": "assistant", "content": "So."}


def test_images_that_tools_returned_follow_all_results() -> None:
    calls = (ai.ToolCallPart("a", "get_chart", {}), ai.ToolCallPart("b", "get_time", {}))
    said = ai.AssistantMessage(calls, "tool_use", provider="openai", model="gpt-4o")
    results = ai.ToolResultMessage(
        (ai.ToolResultPart("a", "get_chart", "see", images=(PNG,)), ai.ToolResultPart("b", "get_time", "12"))
    )
    sent = body(GPT, HI, said, results)[0]["messages"]
    assert sent[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": "see"},
        {"role": "tool", "tool_call_id": "b", "content": "12"},
        {"role": "user", "content": [{"type": "text", "text": "get_chart returned (call a):"}, IMAGE]},
    ]


def test_images_in_a_conversation_handed_to_a_model_that_sees_none() -> None:
    said = ai.AssistantMessage((ai.ToolCallPart("a", "get_chart", {}),), "tool_use")
    results = ai.ToolResultMessage((ai.ToolResultPart("a", "get_chart", "see", images=(PNG,)),))
    for model in (BLIND, replace(BLIND, api="responses")):
        request = dialect(model).request(model, ai.Context("", [HI, said, results]), ai.Options(), "k")
        assert "image" not in str(request.body)
        assert request.warnings == (
            "openai:gpt-4 cannot look at images, so those that get_chart returned were not sent.",
        )


SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("model", "options", "sent", "warned"),
    [
        (GPT, ai.Options(tool_choice="none"), {"tool_choice": "none"}, []),
        (
            GPT,
            ai.Options(tool_choice="get_time"),
            {"tool_choice": {"type": "function", "function": {"name": "get_time"}}},
            [],
        ),
        (
            GPT,
            ai.Options(output=SCHEMA),
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
                }
            },
            [],
        ),
        (
            FOREIGN,
            ai.Options(output=ANY),
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": ANY, "strict": False},
                }
            },
            [],
        ),
        (REASONING, ai.Options(temperature=0.1, top_p=0.2, stop=["x"]), {}, ["stop", "temperature", "top_p"]),
        (REASONING, ai.Options(thinking="off"), {"reasoning_effort": "minimal"}, ["'off'"]),
        (REASONING, ai.Options(thinking="medium"), {"reasoning_effort": "medium"}, []),
        (GPT, ai.Options(thinking="high"), {}, ["does not think"]),
        (FOREIGN, ai.Options(temperature=0.1, stop=["x"]), {"temperature": 0.1, "stop": ["x"]}, []),
        (FOREIGN, ai.Options(thinking="high"), {"reasoning_effort": "high"}, []),
        (LLAMA, ai.Options(thinking="high"), {"chat_template_kwargs": {"enable_thinking": True}}, []),
        (FOREIGN, ai.Options(extra={"top_k": 3}), {"top_k": 3}, []),
    ],
)
def test_options(model: ai.Model, options: ai.Options, sent: JsonObject, warned: list[str]) -> None:
    plain, _ = body(model, HI)
    asked, warnings = body(model, HI, options=options)
    assert asked == plain | sent
    assert len(warnings) == len(warned)
    assert all(word in warning for word, warning in zip(warned, warnings, strict=True))


def test_tool_choice() -> None:
    with pytest.raises(UnsupportedFeatureError, match="Did you mean get_time"):
        body(FOREIGN, HI, options=ai.Options(tool_choice="get_tim"))
    sent, warnings = body(GPT, HI, options=ai.Options(tool_choice="get_time"), tools=False)
    assert "tool_choice" not in sent
    assert "no tools" in warnings[0]
    sent, _ = body(LLAMA, HI, options=ai.Options(tool_choice="get_time"))
    assert sent["tool_choice"] == "required"
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["get_time"]


async def test_the_module_functions_pass_tool_choice_and_output_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    http = client(replying(CHAT_HELLO, seen=seen))
    monkeypatch.setattr("planck_nb.ai.shortcuts.default_client", lambda: http)
    context = ai.Context(messages=[HI], tools=TOOLS)
    await ai.complete(GPT, context, tool_choice="required", output=SCHEMA)
    async with ai.stream(GPT, context, tool_choice="none", output=ANY) as stream:
        async for _ in stream:
            pass
    assert [sent["tool_choice"] for sent in seen] == ["required", "none"]
    assert [sent["response_format"]["json_schema"]["schema"] for sent in seen] == [SCHEMA, ANY]


@pytest.mark.parametrize("row", recorded("stream", ("openai", "chat")))
def test_our_content_has_the_fields_of_accepted_ones(row: dict[str, Any] | None) -> None:
    if row is not None and not row.get("request"):
        return  # what was asked is not known
    sent = request_of(row)
    mine = body(GPT, ai.UserMessage([ai.TextPart("x"), PNG, PDF]), options=ai.Options(output=SCHEMA))[0]
    contents = {content["type"]: content for content in mine["messages"][0]["content"]}
    for message in sent["messages"]:
        for content in message["content"] if isinstance(message.get("content"), list) else ():
            own = contents[content["type"]]
            assert set(content) == set(own)
            if content["type"] != "text":
                inner = content["type"]
                assert set(content[inner]) - {"detail"} == set(own[inner])
    if "json_schema" in (sent.get("response_format") or ()):
        assert set(sent["response_format"]["json_schema"]) - {"description"} <= {"name", "schema", "strict"}
