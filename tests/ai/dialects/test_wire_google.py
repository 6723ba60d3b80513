"""generateContent: requests that Google's own types accept, and streams of every shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.referees import genai_types
from support.wire import client, decode, replying, sse

from planck_nb import ai
from planck_nb.ai.providers import base_url_of, dialect
from planck_nb.ai.stream_events import Finish, StreamWarning, TextChunk, UsageUpdate
from planck_nb.base.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    MissingCredentialError,
    ProviderError,
    ProviderStatusError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
    StreamTruncated,
)
from planck_nb.base.json_types import JsonObject

HERE = "http://127.0.0.1:9"
NEW = ai.get_model("google", "gemini-3.5-flash", base_url=HERE)
OLD = ai.get_model("google", "gemini-2.5-flash", base_url=HERE)
CLAUDE = ai.get_model("anthropic", "claude-sonnet-4-6")
TOOLS = [ai.ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})]
HI = ai.UserMessage("hi")
SKIP = "skip_thought_signature_validator"


def piece(*parts: JsonObject, finish: str | None = None, **more: Any) -> JsonObject:
    candidate: JsonObject = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [{**candidate, **more}]}


USAGE = {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 5}}
SIGNED = sse(
    piece({"text": "Let me", "thought": True}),
    piece({"text": " look.", "thought": True}),
    piece({"text": "One\u2028"}) | USAGE,
    piece({"text": "two"}),
    piece({"text": "", "thoughtSignature": "c2lnMQ=="}),
    piece({"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "c2lnMg=="}),
    piece({"text": "three", "thoughtSignature": "c2lnMw=="}, {"text": "four"}),
    piece(
        {"functionCall": {"name": "look", "args": {"at": "Zürich"}, "id": "x1"}, "thoughtSignature": "c2ln-_Q="},
        {"functionCall": {"name": "look", "args": {}}},
        {"functionCall": {"name": "look"}},
        {"text": ""},
        finish="STOP",
        groundingMetadata={"webSearchQueries": ["q"]},
    ),
)


def request(model: ai.Model, *messages: ai.Message, tools: Any = TOOLS, **options: Any) -> Any:
    """The request, after google-genai's types took all of it: they refuse what they do not know."""
    context = ai.Context("S", messages or (HI,), tools)
    made = dialect(model).request(model, context, ai.Options(**options), "k")
    for content in made.body["contents"]:
        genai_types.Content.model_validate(content)
    for tool in made.body.get("tools", ()):
        genai_types.Tool.model_validate(tool)
    genai_types.Content.model_validate(made.body["systemInstruction"])
    genai_types.ToolConfig.model_validate(made.body.get("toolConfig", {}))
    genai_types.GenerateContentConfig.model_validate(made.body.get("generationConfig", {}))
    return made


def said(*parts: ai.AssistantPart, model: ai.Model = NEW) -> ai.AssistantMessage:
    return ai.AssistantMessage(parts, provider=model.provider, model=model.id, api=model.api)


def results(*calls: str, images: tuple[ai.ImagePart, ...] = ()) -> ai.ToolResultMessage:
    return ai.ToolResultMessage(tuple(ai.ToolResultPart(call, "look", f"r{call}", images=images) for call in calls))


async def answer(chunks: list[bytes], model: ai.Model = NEW) -> ai.AssistantMessage:
    return await client(replying(chunks)).complete(model, ai.Context())


async def test_signatures_stay_on_their_parts_and_go_back() -> None:
    message = await answer(SIGNED)
    assert [part.type for part in message.content] == ["thinking", *["text"] * 5, *["tool_call"] * 3, "text"]
    assert (message.thinking, message.text) == ("Let me look.", "One\u2028twothreefour")
    assert [call.id for call in message.tool_calls] == ["x1", "call_2", "call_3"]
    assert message.stop_reason == "tool_use"
    assert message.usage == ai.Usage(7, 7, thinking_tokens=5)
    sent = request(NEW, HI, message, results("x1", "call_2", "call_3")).body["contents"]
    assert sent[1]["parts"] == [
        {"text": "One\u2028two"},
        {"text": "", "thoughtSignature": "c2lnMQ=="},
        {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "c2lnMg=="},
        {"text": "three", "thoughtSignature": "c2lnMw=="},
        {"text": "four"},
        {"functionCall": {"name": "look", "args": {"at": "Zürich"}, "id": "x1"}, "thoughtSignature": "c2ln-_Q="},
        {"functionCall": {"name": "look", "args": {}}},
        {"functionCall": {"name": "look", "args": {}}},
    ]
    assert sent[2]["parts"] == [
        {"functionResponse": {"name": "look", "response": {"output": "rx1"}, "id": "x1"}},
        {"functionResponse": {"name": "look", "response": {"output": "rcall_2"}}},
        {"functionResponse": {"name": "look", "response": {"output": "rcall_3"}}},
    ]


async def test_a_stored_message_goes_back_as_it_came() -> None:
    message = await answer(SIGNED)
    from planck_nb.ai.messages import decode_message, encode_message

    stored = decode_message(json.loads(json.dumps(encode_message(message))))
    assert request(NEW, HI, stored).body == request(NEW, HI, message).body


def test_calls_of_another_model_get_the_stand_in_for_a_signature() -> None:
    foreign = said(ai.ThinkingPart("t", {"signature": "s"}), ai.ToolCallPart("a", "look", {}), model=CLAUDE)
    two = said(ai.ToolCallPart("b", "look", {}), ai.ToolCallPart("c", "look", {}), model=CLAUDE)
    history = (HI, foreign, results("a"), two, results("c", "b"))
    sent = request(NEW, *history).body["contents"]
    call: JsonObject = {"functionCall": {"name": "look", "args": {}}}
    assert sent[1]["parts"] == [{**call, "thoughtSignature": SKIP}]
    assert sent[3]["parts"] == [{**call, "thoughtSignature": SKIP}, call]
    assert [part["functionResponse"]["response"]["output"] for part in sent[4]["parts"]] == ["rb", "rc"]
    assert SKIP not in str(request(OLD, *history).body)


def test_what_another_format_signed_is_left_out() -> None:
    other = ai.AssistantMessage(
        (ai.ThinkingPart("t", {"signature": "s"}), ai.TextPart("x", {"annotations": []})),
        provider="google",
        model=NEW.id,
        api="interactions",
    )
    assert request(NEW, HI, other).body["contents"][1]["parts"] == [{"text": "x"}]


def test_images_and_documents() -> None:
    user = ai.UserMessage(
        [
            ai.TextPart("see"),
            ai.ImagePart(b"png"),
            ai.FilePart(b"%PDF"),
            ai.ImagePart(url="https://example.org/a.jpg", mime="image/jpeg"),
        ]
    )
    assert request(NEW, user).body["contents"][0]["parts"] == [
        {"text": "see"},
        {"inlineData": {"mimeType": "image/png", "data": "cG5n"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
        {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.org/a.jpg"}},
    ]


def test_images_in_results_stand_inside_or_beside_them() -> None:
    images = (ai.ImagePart(b"png"), ai.ImagePart(url="https://example.org/a.png"))
    inside: JsonObject = {"inlineData": {"mimeType": "image/png", "data": "cG5n"}}
    beside: JsonObject = {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}}
    for model, within in ((NEW, True), (OLD, False)):
        history = (HI, said(ai.ToolCallPart("a", "look", {}), model=model), results("a", images=images))
        parts = request(model, *history).body["contents"][2]["parts"]
        assert parts[0]["functionResponse"].get("parts", []) == ([inside] if within else [])
        assert parts[1:] == ([beside] if within else [inside, beside])


def test_a_failed_tool_says_so() -> None:
    failed = ai.ToolResultMessage((ai.ToolResultPart("a", "look", "no such place", is_error=True),))
    sent = request(NEW, HI, said(ai.ToolCallPart("a", "look", {})), failed).body["contents"][2]["parts"]
    assert sent == [{"functionResponse": {"name": "look", "response": {"error": "no such place"}}}]


def test_options() -> None:
    made = request(
        NEW,
        max_tokens=9,
        temperature=0.0,
        top_p=0.5,
        stop=list("abcdef"),
        thinking="low",
        tool_choice="look",
        output={"type": "array", "items": {"type": "string"}},
        extra={"generationConfig": {"seed": 1}, "safetySettings": []},
    )
    assert made.url == f"{HERE}/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse"
    assert made.headers == {"x-goog-api-key": "k"}
    assert made.body["generationConfig"] == {
        "maxOutputTokens": 9,
        "temperature": 0.0,
        "topP": 0.5,
        "stopSequences": list("abcde"),
        "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True},
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "array", "items": {"type": "string"}},
        "seed": 1,
    }
    assert made.body["toolConfig"]["functionCallingConfig"] == {"mode": "ANY", "allowedFunctionNames": ["look"]}
    assert made.body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] == TOOLS[0].parameters
    assert len(made.warnings) == 1
    assert "stop sequences" in made.warnings[0]


@pytest.mark.parametrize(("choice", "mode"), [("auto", "AUTO"), ("none", "NONE"), ("required", "ANY")])
def test_tool_choice(choice: str, mode: str) -> None:
    assert request(NEW, tool_choice=choice).body["toolConfig"] == {"functionCallingConfig": {"mode": mode}}
    assert "toolConfig" not in request(NEW, tool_choice=choice, tools=[]).body


@pytest.mark.parametrize(
    ("name", "level", "config", "warned"),
    [
        ("gemini-3.5-flash", "high", {"thinkingLevel": "HIGH", "includeThoughts": True}, False),
        ("gemini-3.5-flash", "max", {"thinkingLevel": "HIGH", "includeThoughts": True}, True),
        ("gemini-3.5-flash", "off", {"thinkingLevel": "MINIMAL", "includeThoughts": False}, True),
        ("gemini-3.1-pro-preview", "minimal", {"thinkingLevel": "LOW", "includeThoughts": True}, True),
        ("gemini-9-unheard-of", "medium", {"thinkingLevel": "MEDIUM", "includeThoughts": True}, False),
        ("gemini-2.5-flash", "off", {"thinkingBudget": 0}, False),
        ("gemini-2.5-flash", "max", {"thinkingBudget": 24576, "includeThoughts": True}, False),
        ("gemini-2.5-flash-lite", "minimal", {"thinkingBudget": 512, "includeThoughts": True}, False),
        ("gemini-2.5-pro", "off", {"thinkingBudget": 128, "includeThoughts": False}, True),
        ("gemini-2.5-pro", "max", {"thinkingBudget": 32768, "includeThoughts": True}, False),
        ("gemini-2.0-flash-001", "high", None, True),
        ("gemini-2.0-flash-001", "off", None, False),
        ("gemini-3.5-flash", "sideways", None, True),
        ("gemini-3.5-flash", None, None, False),
    ],
)
def test_thinking_is_asked_for_in_the_models_own_way(
    name: str, level: str | None, config: JsonObject | None, warned: bool
) -> None:
    made = request(ai.get_model("google", name, base_url=HERE), thinking=level)
    assert made.body.get("generationConfig", {}).get("thinkingConfig") == config
    assert bool(made.warnings) is warned


def test_a_schema_beside_tools_is_not_sent_to_models_that_refuse_it() -> None:
    made = request(OLD, output={"type": "object"})
    assert "generationConfig" not in made.body
    assert "schema" in made.warnings[0]
    assert "responseJsonSchema" in request(OLD, output={"type": "object"}, tools=[]).body["generationConfig"]


def test_keys_and_addresses() -> None:
    model = ai.get_model("google", "gemini-3.5-flash")
    assert base_url_of(model) == "https://generativelanguage.googleapis.com/v1beta"
    assert ai.Client(credentials={"GEMINI_API_KEY": "b"}).key_for(model) == "b"
    assert ai.Client(credentials={"GOOGLE_API_KEY": "a", "GEMINI_API_KEY": "b"}).key_for(model) == "a"
    with pytest.raises(MissingCredentialError, match="GOOGLE_API_KEY"):
        ai.Client(credentials={}).key_for(model)
    tuned = ai.get_model("google", "tunedModels/my own", base_url=f"{HERE}/v1")
    assert request(tuned).url == f"{HERE}/v1/tunedModels/my%20own:streamGenerateContent?alt=sse"


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_any_rechunking_gives_the_same_events(sizes: list[int], newline: bytes) -> None:
    whole = b": ping\n\n" + b"".join(SIGNED)
    body = b"\xef\xbb\xbf" + whole.replace(b"\n", newline)
    chunks = []
    for position in range(len(body)):
        size = sizes[position % len(sizes)]
        chunks.append(body[:size])
        body = body[size:]
    assert decode(NEW, chunks) == decode(NEW, [whole])


def test_a_stream_without_its_finish_reason_is_truncated() -> None:
    for count in range(len(SIGNED)):
        with pytest.raises(StreamTruncated):
            decode(NEW, SIGNED[:count])
    assert decode(NEW, SIGNED)[-1] == Finish("stop")


async def test_what_follows_the_finish_reason_is_kept() -> None:
    late = sse(piece({"text": "a"}, finish="STOP"), piece({"text": "", "thoughtSignature": "c2ln"}), USAGE)
    message = await answer(late)
    assert message.content[-1].provider_state == {"thoughtSignature": "c2ln"}
    assert message.usage == ai.Usage(7, 7, thinking_tokens=5)


@pytest.mark.parametrize(
    "candidate", [{"finishReason": "SAFETY", "index": 0}, {"content": {}, "finishReason": "SPII", "finishMessage": "x"}]
)
async def test_a_refused_answer(candidate: JsonObject) -> None:
    events = decode(NEW, sse(piece({"text": "As"}), {"candidates": [candidate]}))
    assert events[-1] == Finish("refusal")
    assert isinstance(events[-2], StreamWarning)
    assert candidate["finishReason"] in events[-2].text


async def test_a_blocked_prompt() -> None:
    blocked = sse({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 4}})
    message = await answer(blocked)
    assert (message.stop_reason, message.content, message.usage) == ("refusal", (), ai.Usage(4))
    assert any(isinstance(event, StreamWarning) and "PROHIBITED" in event.text for event in decode(NEW, blocked))


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("MALFORMED_FUNCTION_CALL", ProviderUnavailableError),
        ("OTHER", ProviderUnavailableError),
        ("MISSING_THOUGHT_SIGNATURE", BadRequestError),
    ],
)
async def test_a_failed_answer_is_an_error(reason: str, kind: type[ProviderError]) -> None:
    bad = sse({"candidates": [{"finishReason": reason, "finishMessage": "print(look("}]})
    stream = client(replying(bad)).stream(NEW, ai.Context())
    with pytest.raises(kind, match=rf"{reason}: print\(look\("):
        async for _ in stream.batches():
            pass
    assert (stream.message.text, stream.message.stop_reason) == ("", "error")


async def test_a_failure_after_text_cuts_the_answer_off() -> None:
    bad = sse(piece({"text": "Half"}), {"candidates": [{"finishReason": "OTHER", "finishMessage": "print(look("}]})
    *_, told, last = decode(NEW, bad)
    assert isinstance(told, StreamWarning)
    assert (told.about, last) == ("cut_off", Finish("length"))
    assert "(OTHER: print(look()" in told.text


async def test_a_failed_answer_is_requested_again() -> None:
    bad = sse({"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL"}]})
    seen: list[Any] = []
    with pytest.raises(ProviderUnavailableError):
        await client(replying(bad, seen=seen), retries=1).complete(NEW, ai.Context())
    assert len(seen) == 2


async def test_an_unknown_finish_reason_is_a_warning() -> None:
    events = decode(NEW, sse(piece({"text": "x"}, finish="NEWS")))
    assert events[-1] == Finish("length")
    assert isinstance(events[-2], StreamWarning)


async def test_token_limit_empty_and_odd_answers() -> None:
    assert (await answer(sse(piece({"text": "x"}, finish="MAX_TOKENS")))).stop_reason == "length"
    empty = await answer(sse({"candidates": [{"finishReason": "STOP"}]}))
    assert (empty.content, empty.usage, empty.stop_reason) == ((), None, "stop")
    odd = await answer(sse(piece({"functionCall": {"name": "look", "args": "all"}}, {}, finish="STOP")))
    assert (odd.tool_calls[0].args, odd.tool_calls[0].invalid) == ({}, '"all"')
    second = piece({"text": "no"})
    second["candidates"][0]["index"] = 1
    assert (await answer(sse(second, piece({"text": "yes"}, finish="STOP")))).text == "yes"


def test_counts_of_tools_and_caches() -> None:
    counts = {
        "promptTokenCount": 25,
        "candidatesTokenCount": 49,
        "toolUsePromptTokenCount": 1130,
        "thoughtsTokenCount": 38,
        "cachedContentTokenCount": 20,
    }
    events = decode(NEW, sse({**piece({"text": "x"}, finish="STOP"), "usageMetadata": counts}))
    assert [event.usage for event in events if isinstance(event, UsageUpdate)] == [ai.Usage(1155, 87, 20, 0, 38)]
    only_traffic = {**piece({"text": "x"}, finish="STOP"), "usageMetadata": {"trafficType": "ON_DEMAND"}}
    assert not any(isinstance(event, UsageUpdate) for event in decode(NEW, sse(only_traffic)))


def test_counts_are_reported_at_the_beginning_and_at_the_end() -> None:
    def counted(output: int, finish: str | None = None) -> JsonObject:
        return {
            **piece({"text": "x"}, finish=finish),
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": output},
        }

    for last in (counted(4, "STOP"), piece(finish="STOP")):
        events = decode(NEW, sse(counted(1), counted(2), counted(3), last))
        told = [event.usage.output_tokens for event in events if isinstance(event, UsageUpdate)]
        assert told == [1, 4 if "usageMetadata" in last else 3]


def error_body(code: int, words: str, *details: JsonObject, status: str = "") -> JsonObject:
    return {"error": {"code": code, "message": words, "status": status, "details": list(details)}}


def quota(name: str) -> JsonObject:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": name}]}


WAIT = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}


@pytest.mark.parametrize(
    ("body", "kind", "wait"),
    [
        (error_body(429, "slow down", WAIT, quota("RequestsPerMinute")), RateLimitError, 7.5),
        (error_body(429, "slow down", WAIT, quota("RequestsPerDayPerProject")), QuotaExceededError, 7.5),
        (error_body(400, "API key not valid.", {"reason": "API_KEY_INVALID"}), AuthenticationError, None),
        (
            error_body(400, "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
            ContextOverflowError,
            None,
        ),
        (error_body(503, "The model is overloaded."), ProviderUnavailableError, None),
        ([error_body(400, "bad")], BadRequestError, None),
    ],
)
async def test_errors(body: Any, kind: type[ProviderStatusError], wait: float | None) -> None:
    status = (body[0] if isinstance(body, list) else body)["error"]["code"]
    http = client(replying([json.dumps(body).encode()], status, "application/json"))
    with pytest.raises(ProviderStatusError) as caught:
        await http.complete(NEW, ai.Context())
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.retry_after) == (status, wait)


async def test_an_error_inside_the_stream() -> None:
    chunks = sse(piece({"text": "Half"}), error_body(503, "overloaded", status="UNAVAILABLE"))
    stream = client(replying(chunks)).stream(NEW, ai.Context())
    with pytest.raises(ProviderUnavailableError, match="overloaded"):
        async for _ in stream.batches():
            pass
    assert stream.message.text == "Half"


def test_text_goes_on_in_one_part() -> None:
    events = decode(NEW, sse(piece({"text": "a"}), piece({"text": ""}), piece({"text": "b"}, finish="STOP")))
    assert [event for event in events if isinstance(event, TextChunk)] == [TextChunk(0, "a"), TextChunk(0, "b")]
