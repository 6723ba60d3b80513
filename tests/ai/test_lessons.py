"""Servers that refuse the shape of a conversation: what is learnt from their words, and that they answer then.

Each server is a line of `SERVERS`: what it refuses, in which words, and the public report that they come from.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from support.wire import CHAT_HELLO, chat_chunk, client, sse

from planck_nb import ai
from planck_nb.ai.client import Client
from planck_nb.ai.lessons import Lesson, Lessons
from planck_nb.ai.status_errors import body_error
from planck_nb.ai.stream_events import StreamWarning
from planck_nb.base.errors import BadRequestError, ProviderUnavailableError
from planck_nb.base.json_types import JsonObject
from planck_nb.testing import scripted_model

MODEL = ai.get_model("openai", "some-model", base_url="http://127.0.0.1:9/v1")
TOOL = ai.ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
PNG = ai.ImagePart(b"\x89PNG", "image/png")


def said(*parts: ai.AssistantPart) -> ai.AssistantMessage:
    return ai.AssistantMessage(parts, provider=MODEL.provider, model=MODEL.id, api=MODEL.api)


def thought(text: str) -> ai.ThinkingPart:
    return ai.ThinkingPart(text, {"field": "reasoning_content"})


CONVERSATION: list[ai.Message] = [
    ai.UserMessage("Lost?"),  # a prompt that failed
    ai.UserMessage("Look."),
    said(thought("I look."), ai.TextPart("Looking."), ai.ToolCallPart("call_with_a_long_id", "look", {"at": "x"})),
    ai.ToolResultMessage((ai.ToolResultPart("call_with_a_long_id", "look", "seen", images=(PNG,)),)),
    said(ai.ToolCallPart("b", "look", {})),
    ai.ToolResultMessage((ai.ToolResultPart("b", "look", "seen"),)),
    ai.UserMessage("And?"),
]
CONTEXT = ai.Context("Be brief.", CONVERSATION, [TOOL])

Refuses = Callable[[JsonObject], bool]


def replies(body: JsonObject) -> list[JsonObject]:
    return [message for message in body["messages"] if message["role"] == "assistant"]


def alternates(body: JsonObject) -> bool:
    """Whether the roles are in the order that Mistral's templates demand."""
    roles = [
        message["role"]
        for message in body["messages"]
        if message["role"] == "user" or (message["role"] == "assistant" and not message.get("tool_calls"))
    ]
    return all(role == ("user", "assistant")[at % 2] for at, role in enumerate(roles))


def has_in_replies(name: str) -> Refuses:
    return lambda body: any(name in message for message in replies(body))


def openai(words: str, **fields: object) -> JsonObject:
    return {"error": {"message": words, "type": "invalid_request_error", **fields}}


def vllm(words: str) -> JsonObject:
    return {"object": "error", "message": words, "type": "BadRequestError", "param": None, "code": 400}


@dataclass(frozen=True)
class Server:
    refuses: Refuses
    answer: JsonObject
    source: str
    status: int = 400


def extra_forbidden(*place: object) -> JsonObject:
    return {
        "object": "error",
        "message": {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", *place],
                    "msg": "Extra inputs are not permitted",
                    "input": "…",
                }
            ]
        },
        "type": "invalid_request_error",
    }


SERVERS = {
    "Mistral's template, llama.cpp": Server(
        lambda body: not alternates(body),
        {
            "error": {
                "code": 500,
                "message": "After the optional system message, conversation roles must alternate user and assistant "
                "roles except for tool calls and results. at row 189, column 164",
                "type": "server_error",
            }
        },
        "https://github.com/mistralai/mistral-vibe/issues/255",
        500,
    ),
    "Mistral's template, vLLM": Server(
        lambda body: not alternates(body),
        vllm("After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."),
        "https://github.com/vllm-project/vllm/issues/6862",
    ),
    "Mistral": Server(
        lambda body: any(
            (first["role"], second["role"]) == ("tool", "user")
            for first, second in zip(body["messages"], body["messages"][1:], strict=False)
        ),
        {
            "object": "error",
            "message": "Unexpected role 'user' after role 'tool'",
            "type": "invalid_request_message_order",
            "code": "3230",
        },
        "https://github.com/zed-industries/zed/issues/37021",
    ),
    "Devstral through a router": Server(
        lambda body: not alternates(body),
        openai("Provider returned error", metadata={"raw": "Jinja Exception: conversation roles must alternate"}),
        "https://github.com/NousResearch/hermes-agent/pull/74111",
    ),
    "Gemma's template": Server(
        lambda body: body["messages"][0]["role"] == "system",
        {"error": "Failed to apply prompt template: System role not supported"},
        "https://github.com/suitenumerique/conversations/issues/197",
        500,
    ),
    "an old Mistral template": Server(
        lambda body: body["messages"][0]["role"] == "system" or not alternates(body),
        vllm("Conversation roles must alternate user/assistant/user/assistant/..."),
        "https://github.com/microsoft/autogen/issues/1037",
    ),
    "DeepSeek": Server(
        lambda body: any("reasoning_content" not in message for message in replies(body)),
        openai("The `reasoning_content` in the thinking mode must be passed back to the API."),
        "https://github.com/MoonshotAI/kimi-cli/issues/2141",
    ),
    "DeepSeek, by its index": Server(
        lambda body: any("reasoning_content" not in message for message in replies(body)),
        openai("Missing `reasoning_content` field in the assistant message at message index 2."),
        "https://github.com/abhigyanpatwari/GitNexus/issues/43",
    ),
    "Kimi": Server(
        lambda body: any("reasoning_content" not in message for message in replies(body)),
        {
            "code": 20015,
            "message": "thinking is enabled but reasoning_content is missing in assistant tool call message at index 3",
            "data": None,
        },
        "https://github.com/agentscope-ai/QwenPaw/issues/433",
    ),
    "DeepSeek through a proxy": Server(
        lambda body: any("reasoning_content" not in message for message in replies(body)),
        openai("messages with tool_calls must include reasoning_content"),
        "https://github.com/NousResearch/hermes-agent/issues/16388",
    ),
    "Groq": Server(
        has_in_replies("reasoning_content"),
        openai(
            "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property "
            "'reasoning_content' is unsupported)]"
        ),
        "https://github.com/janhq/jan/issues/8136",
    ),
    "Cerebras": Server(
        has_in_replies("reasoning_content"),
        {
            "message": "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is "
            "unsupported",
            "type": "invalid_request_error",
            "code": "wrong_api_format",
        },
        "https://github.com/QwenLM/qwen-code/pull/11045",
    ),
    "Mistral, an unknown field": Server(
        has_in_replies("reasoning_content"),
        extra_forbidden("messages", 2, "assistant", "reasoning_content"),
        "https://github.com/charmbracelet/crush/issues/1590",
        422,
    ),
    "OpenAI, an unknown field": Server(
        has_in_replies("reasoning_content"),
        openai("Unknown parameter: 'messages[2].reasoning_content'."),
        "https://github.com/openyak/openyak/pull/128",
    ),
    "R1, which takes no reasoning": Server(
        has_in_replies("reasoning_content"),
        openai("The reasoning_content is an unexpected field in the input messages"),
        "https://github.com/openyak/openyak/pull/128",
    ),
    "gpt-oss on llama.cpp": Server(
        lambda body: any(
            message.get("content") and message.get("tool_calls") and message.get("reasoning_content")
            for message in replies(body)
        ),
        {
            "error": {
                "code": 500,
                "message": "Cannot pass both content and thinking in an assistant message with tool calls! Put the "
                "analysis message in one or the other, but not both. at row 290, column 178",
                "type": "server_error",
            }
        },
        "https://github.com/ggml-org/llama.cpp/issues/17040",
        500,
    ),
    "Mistral's ids": Server(
        lambda body: any(len(call["id"]) != 9 for message in replies(body) for call in message.get("tool_calls", ())),
        {
            "object": "error",
            "message": "Tool call id was call_with_a_long_id but must be a-z, A-Z, 0-9, with a length of 9.",
            "type": "invalid_request_error",
        },
        "https://github.com/langchain-ai/langchain/pull/24668",
    ),
    "ids of a proxy": Server(
        lambda body: any("_" in call["id"] for message in replies(body) for call in message.get("tool_calls", ())),
        openai("messages.2.tool_calls.0.id: String should match pattern '^[a-zA-Z0-9]+$'"),
        "https://github.com/jundot/omlx/issues/1997",
    ),
    "Mistral, options": Server(
        lambda body: "stream_options" in body,
        extra_forbidden("stream_options"),
        "https://github.com/dnakov/anon-kode/issues/53",
        422,
    ),
    "a model without null": Server(
        lambda body: any(message["content"] is None for message in replies(body)),
        openai("Invalid value for 'content': expected a string, got null."),
        "https://github.com/charmbracelet/crush/issues/279",
    ),
    "llama.cpp without null": Server(
        lambda body: any(message["content"] is None for message in replies(body)),
        {
            "error": {
                "code": 500,
                "message": "Expected 'content' to be a string or an array",
                "type": "server_error",
            }
        },
        "https://github.com/ggml-org/llama.cpp/issues/13471",
        500,
    ),
    "Docker's runner": Server(
        lambda body: any(message["content"] is None for message in replies(body)),
        openai("Missing 'content' in message"),
        "https://github.com/docker/docker-agent/issues/63",
    ),
    "Ollama's": Server(
        lambda body: any(message["content"] is None for message in replies(body)),
        openai("invalid message content type: <nil>"),
        "https://github.com/SAIL-Research-Lab/cheetahclaws/pull/72",
    ),
    "Gemini through a proxy": Server(
        lambda body: any("extra_content" not in message["tool_calls"][0] for message in replies(body)),
        openai(
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
            "correctly. Additional data, function call `default_api:look`, position 2."
        ),
        "https://github.com/langroid/langroid/pull/969",
    ),
    "Vertex through a proxy": Server(
        lambda body: any("extra_content" not in message["tool_calls"][0] for message in replies(body)),
        openai(
            "Unable to submit request because function call `look` in the 2. content block is missing a "
            "`thought_signature`."
        ),
        "https://github.com/8monkey-ai/hebo-gateway/issues/226",
    ),
}


class Fake:
    """Answers as a server, and remembers the bodies."""

    def __init__(self, server: Server, chunks: list[bytes] = CHAT_HELLO) -> None:
        self.bodies: list[JsonObject] = []
        self.server, self.chunks = server, chunks

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        if self.server.refuses(body):
            return httpx.Response(self.server.status, json=self.server.answer)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(self.chunks))

    def client(self, **more: Any) -> ai.Client:
        return client(httpx.MockTransport(self), **more)


@pytest.mark.parametrize("name", SERVERS)
async def test_a_refused_conversation_is_sent_in_another_form_and_the_server_remembered(name: str) -> None:
    fake = Fake(SERVERS[name])
    http = fake.client(retries=3)
    assert (await http.complete(MODEL, CONTEXT)).text == "Hello"
    first = len(fake.bodies)
    assert 2 <= first <= 4
    assert (await http.complete(MODEL, CONTEXT)).text == "Hello"
    assert len(fake.bodies) == first + 1
    sent = json.dumps(fake.bodies[-1])
    assert all(
        text in sent for text in ("Be brief.", "Lost?", "Look.", "seen", "And?", '\\"at\\":\\"x\\"', "image_url")
    )


async def test_what_is_learnt_is_of_one_model_at_one_address() -> None:
    fake = Fake(SERVERS["DeepSeek"])
    http = fake.client()
    await http.complete(MODEL, CONTEXT)
    known = len(fake.bodies)
    other = replace(MODEL, base_url="http://127.0.0.1:10/v1")
    await http.complete(other, CONTEXT)
    await http.complete(replace(MODEL, id="another"), CONTEXT)
    assert len(fake.bodies) == known + 4


def test_a_model_without_an_address_stays_as_it_is() -> None:
    lessons = Lessons()
    lessons.add(MODEL, [Lesson((("alternates", True),))])
    demo = scripted_model(["Here."])
    assert lessons.applied_to(demo) is demo


async def test_a_refusal_that_teaches_nothing_is_raised_at_once() -> None:
    fake = Fake(Server(lambda _: True, openai("The moon is full."), ""))
    with pytest.raises(BadRequestError, match="The moon is full"):
        await fake.client(retries=5).complete(MODEL, CONTEXT)
    assert len(fake.bodies) == 1


async def test_what_did_not_help_is_not_remembered() -> None:
    fake = Fake(Server(lambda _: True, SERVERS["Groq"].answer, ""))
    http = fake.client()
    with pytest.raises(BadRequestError):
        await http.complete(MODEL, CONTEXT)
    tried = len(fake.bodies)
    fake.server = Server(lambda _: False, {}, "")
    await http.complete(MODEL, CONTEXT)
    assert 1 < tried <= 4
    assert fake.bodies[-1] == fake.bodies[0]


async def test_a_guess_that_was_wrong_is_dropped_before_the_next() -> None:
    words = "Missing reasoning_content, or: Tool call id was b but must be a-z, A-Z, 0-9, with a length of 9"
    fake = Fake(Server(SERVERS["Mistral's ids"].refuses, openai(words), ""))
    await fake.client().complete(MODEL, CONTEXT)
    added = ["reasoning_content" in replies(body)[1] for body in fake.bodies]
    assert added == [False, True, False]


def test_the_exception_of_a_template_is_a_refusal() -> None:
    words = json.dumps(SERVERS["gpt-oss on llama.cpp"].answer).encode()
    assert isinstance(body_error(MODEL, 500, {}, words), BadRequestError)
    outage = body_error(MODEL, 500, {}, b'{"error": {"message": "Internal server error"}}')
    assert isinstance(outage, ProviderUnavailableError)


# Options and structured answers.

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
OPTIONS = {
    "an option that the model lacks": (
        ai.Options(temperature=0.1),
        Server(
            lambda body: "temperature" in body,
            openai("Unsupported value: 'temperature' does not support 0.1 with this model."),
            "https://github.com/BerriAI/litellm/issues/12635",
        ),
        "temperature",
    ),
    "another name of the limit": (
        ai.Options(max_tokens=9),
        Server(
            lambda body: "max_tokens" in body,
            openai(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                "instead."
            ),
            "https://learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning",
        ),
        "",
    ),
    "no schema, but JSON": (
        ai.Options(output=SCHEMA),
        Server(
            lambda body: body.get("response_format", {}).get("type") == "json_schema",
            openai("This response_format type is unavailable now"),
            "https://github.com/UKGovernmentBEIS/inspect_ai/issues/4916",
        ),
        "schema is in the prompt",
    ),
    "no format at all": (
        ai.Options(output=SCHEMA),
        Server(
            lambda body: "response_format" in body,
            extra_forbidden("response_format"),
            "https://github.com/steilerDev/cornerstone/pull/1561",
            422,
        ),
        "schema is in the prompt",
    ),
    "a proxy of Claude": (
        ai.Options(output=SCHEMA),
        Server(
            lambda body: "response_format" in body,
            openai("output_config.format: Extra inputs are not permitted"),
            "https://github.com/MattJColes/lgtmaybe/pull/470",
        ),
        "schema is in the prompt",
    ),
    "a router": (
        ai.Options(output=SCHEMA),
        Server(
            lambda body: "response_format" in body,
            openai("The model does not support feature: structured-outputs"),
            "https://github.com/ttlequals0/MinusPod/pull/628",
        ),
        "schema is in the prompt",
    ),
    "FastAPI": (
        ai.Options(output=SCHEMA),
        Server(
            lambda body: "response_format" in body,
            {"detail": [{"type": "extra_forbidden", "loc": ["body", "response_format"], "msg": "Extra inputs"}]},
            "https://github.com/NousResearch/hermes-agent/issues/110631",
            422,
        ),
        "schema is in the prompt",
    ),
    "nothing strict": (
        ai.Options(output=SCHEMA),
        Server(
            lambda body: body["response_format"]["json_schema"]["strict"],
            openai("Invalid schema for response_format 'answer': strict mode is not supported by this model"),
            "https://github.com/google/adk-java/pull/1476",
        ),
        "",
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
async def test_a_refused_option_is_sent_in_another_way_or_said(name: str) -> None:
    options, server, told = OPTIONS[name]
    fake = Fake(server)
    warnings: list[str] = []
    async with fake.client().stream(MODEL, CONTEXT, options) as stream:
        warnings = [event.text async for event in stream if isinstance(event, StreamWarning)]
    assert stream.message.text == "Hello"
    assert [told in warning for warning in warnings if told] == ([True] if told else [])
    body = fake.bodies[-1]
    if options.max_tokens:
        assert body["max_completion_tokens"] == options.max_tokens
    if "prompt" in told:
        assert json.dumps(SCHEMA).replace(" ", "") in body["messages"][0]["content"]


async def test_another_format_has_its_schema_in_the_prompt() -> None:
    chunks = sse(
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": '{"a": 1}'}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
    refusal = openai("output_config: Extra inputs are not permitted")
    fake = Fake(Server(lambda body: "output_config" in body, refusal, ""), chunks)
    claude = ai.get_model("anthropic", "m", base_url="http://127.0.0.1:9", has_api_key=False)
    reply = await fake.client().complete(
        claude, ai.Context("Brief.", [ai.UserMessage("hi")]), ai.Options(output=SCHEMA)
    )
    assert reply.text == '{"a": 1}'
    assert fake.bodies[-1]["system"].startswith("Brief.\n\nAnswer with one JSON object")


# A tool that is refused.

BAD = ai.ToolSpec("attach", "Attaches.", {"type": "object", "properties": {"x": {"type": "string"}}})
REFUSED_TOOLS = {
    "by its name": "Invalid schema for function 'attach': something about it",
    "by its index": "tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
    "by its place": "Invalid JSON Schema at tools[1].function.parameters: unsupported",
    "by its field": "Bad schema (param: tools[1].parameters)",
    "by the index of a proxy": "tools.1.function.parameters: the schema exceeds the maximum depth",
}


def names_of(body: JsonObject) -> list[str]:
    return [tool.get("function", tool)["name"] for tool in body["tools"]]


@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
@pytest.mark.parametrize("how", REFUSED_TOOLS)
async def test_a_refused_tool_is_left_out_and_said_once_by_its_name(how: str, api: str) -> None:
    fake = Fake(Server(lambda body: "attach" in names_of(body), openai(REFUSED_TOOLS[how]), ""), ANSWERS[api])
    provider = "anthropic" if api == "messages" else "openai"
    model = ai.get_model(provider, "m", base_url="http://127.0.0.1:9/v1", api=api, has_api_key=False)
    http = fake.client()
    told: list[str] = []
    context = ai.Context("", [ai.UserMessage("hi")], [TOOL, BAD])
    for _ in range(2):
        async with http.stream(model, context) as stream:
            told += [event.text async for event in stream if isinstance(event, StreamWarning)]
        assert stream.message.text == "Hello"
    assert len(told) == 1
    assert "does not accept the tool attach" in told[0]
    assert names_of(fake.bodies[-1]) == ["look"]
    assert len(fake.bodies) <= 4


ANSWERS = {
    "chat": CHAT_HELLO,
    "messages": sse(
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hello"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ),
    "responses": sse(
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": "Hello"},
        {"type": "response.completed", "response": {"output": []}},
    ),
}


async def test_google_names_the_declaration() -> None:
    chunks = sse({"candidates": [{"content": {"parts": [{"text": "Hello"}]}, "finishReason": "STOP"}]})
    words = "Invalid value at 'tools[0].function_declarations[1].parameters.properties[0].value.type'"

    def refuses(body: JsonObject) -> bool:
        return any(each["name"] == "attach" for each in body["tools"][0]["functionDeclarations"])

    fake = Fake(Server(refuses, {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}, ""), chunks)
    gemini = ai.get_model("google", "gemini-3-pro", base_url="http://127.0.0.1:9", has_api_key=False)
    reply = await fake.client().complete(gemini, ai.Context("", [ai.UserMessage("hi")], [TOOL, BAD]))
    assert reply.text == "Hello"


async def test_a_tool_that_is_accepted_in_fewer_keywords_stays() -> None:
    schema = {"type": "object", "properties": {"x": {"type": ["string", "null"]}, "any": {"type": "object"}}}
    tool = ai.ToolSpec("attach", "Attaches.", schema)
    words = "Invalid value at 'tools[0].function_declarations[0].parameters.properties[0].value.type': not repeating"

    def refuses(body: JsonObject) -> bool:
        return any(
            not isinstance(each.get("type"), str) or each == {"type": "object"}
            for each in body["tools"][0]["function"]["parameters"]["properties"].values()
        )

    call = {"index": 0, "id": "a", "function": {"name": "attach", "arguments": '{"any": "{\\"a\\": 1}"}'}}
    fake = Fake(Server(refuses, openai(words), ""), sse(chat_chunk({"tool_calls": [call]}), "[DONE]"))
    reply = await fake.client().complete(MODEL, ai.Context("", [ai.UserMessage("hi")], [tool]))
    assert reply.tool_calls[0].args == {"any": {"a": 1}}


# Recordings.


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_what_is_learnt_replays_in_any_order(tmp_path: pathlib.Path, order: tuple[int, int]) -> None:
    fake = Fake(SERVERS["DeepSeek"])
    contexts = [replace(CONTEXT, system=system) for system in ("one", "two")]
    path = tmp_path / "cassette.jsonl"
    recorder = _taped(fake, path, "record")
    for context in contexts:  # the second one has learnt from the first
        assert (await recorder.complete(MODEL, context)).text == "Hello"
    player = _taped(fake, path, "replay")
    asked = len(fake.bodies)
    for at in order:
        assert (await player.complete(MODEL, contexts[at])).text == "Hello"
    assert len(fake.bodies) == asked


async def test_two_agents_side_by_side_replay_what_both_learnt(tmp_path: pathlib.Path) -> None:
    fake = Fake(SERVERS["Mistral's template, llama.cpp"])
    contexts = [replace(CONTEXT, system=system) for system in ("one", "two", "one")]
    path = tmp_path / "cassette.jsonl"
    for mode in ("record", "replay"):
        http = _taped(fake, path, mode)
        answers = await asyncio.gather(*(http.complete(MODEL, context) for context in contexts))
        assert [answer.text for answer in answers] == ["Hello"] * 3
    player = _taped(fake, path, "replay")
    for context in reversed(contexts):
        assert (await player.complete(MODEL, context)).text == "Hello"


def _taped(fake: Fake, path: pathlib.Path, mode: Any) -> Client:
    return ai.Client(
        credentials={"OPENAI_API_KEY": "sk-open-1"},
        transport=httpx.MockTransport(fake),
        retries=ai.RetryPolicy(retries=0),
        cassette=ai.Cassette(path, mode, environment={}),
    )
