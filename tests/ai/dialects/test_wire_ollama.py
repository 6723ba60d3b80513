"""Ollama's own format, held against its official client and the recorded bodies of real servers."""

from __future__ import annotations

import json
import os
import pathlib
from dataclasses import replace
from typing import Any

import httpx
import pytest
from support.evidence import evidence
from support.loopback import Exchange, serving
from support.referees import ollama
from support.wire import ASK, client, decode, replying

from planck_nb import ai
from planck_nb.ai.dialects.ollama import DIALECT
from planck_nb.ai.providers import dialect
from planck_nb.base.errors import NotFoundError, ProviderUnavailableError, StreamTruncated, UnsupportedFeatureError

NDJSON = "application/x-ndjson"
MODEL = ai.get_model("ollama", "llama3.2", base_url="http://127.0.0.1:9")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}


def lines(*rows: dict[str, Any]) -> list[bytes]:
    return [json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows]


def said(**message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": "", **message}, "done": False}


def done(reason: str | None = "stop", **rest: Any) -> dict[str, Any]:
    named = {"done_reason": reason} if reason else {}
    return {**said(), "done": True, **named, **rest}


TOOLS = lines(
    said(thinking="Let me"),
    said(thinking=" see."),
    said(content="Asking\u2028both"),
    said(tool_calls=[{"function": {"name": "get_weather", "arguments": {"city": "Zürich"}}}]),
    said(tool_calls=[{"id": "call_x", "function": {"index": 1, "name": "get_time", "arguments": {}}}]),
    done(prompt_eval_count=50, eval_count=20),
)


def summary(message: ai.AssistantMessage) -> dict[str, Any]:
    usage = message.usage
    return {
        "text": message.text,
        "thinking": "".join(part.text for part in message.content if part.type == "thinking"),
        "calls": [(call.name, call.args) for call in message.tool_calls],
        "usage": (usage.input_tokens, usage.output_tokens) if usage else (0, 0),
        "stop": message.stop_reason,
    }


def referee(body: bytes) -> dict[str, Any]:
    """What the official client makes of the bytes."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    with ollama.Client(host="http://127.0.0.1:9", transport=transport) as official:
        parts = list(official.chat("m", [{"role": "user", "content": "hi"}], stream=True))
    calls = [call.function for part in parts for call in part.message.tool_calls or ()]
    last = parts[-1]
    stop = "length" if last.done_reason == "length" else "tool_use" if calls else "stop"
    return {
        "text": "".join(part.message.content or "" for part in parts),
        "thinking": "".join(part.message.thinking or "" for part in parts),
        "calls": [(call.name, dict(call.arguments)) for call in calls],
        "usage": (last.prompt_eval_count or 0, last.eval_count or 0),
        "stop": stop,
    }


async def ours(chunks: list[bytes]) -> ai.AssistantMessage:
    return await client(replying(chunks, kind=NDJSON)).complete(MODEL, ai.Context())


def recorded(*, with_request: bool = False) -> list[Any]:
    folder = os.environ.get("PLANCK_NB_TESTDATA", "")
    index = pathlib.Path(folder, "streams", "index.json")
    if not folder or not index.exists():
        return [None]
    rows = [
        row for row in json.loads(index.read_text()) if row["provider"] == "ollama" and row["file"].endswith(".ndjson")
    ]
    return [pytest.param(row, id=row["file"]) for row in rows if row.get("request") or not with_request]


def body_of(row: dict[str, Any] | None) -> tuple[pathlib.Path, bytes]:
    streams = evidence("streams", "streams")
    assert row is not None
    path = pathlib.Path(streams, row["file"])
    return path, path.read_bytes()


@pytest.mark.parametrize("row", recorded())
async def test_a_recording_says_what_the_official_client_says(row: dict[str, Any] | None) -> None:
    _, body = body_of(row)
    last = json.loads(body.strip().splitlines()[-1])
    if last.get("done"):
        assert summary(await ours([body])) == referee(body.strip())
        return
    # The documentation's excerpts: an error, or the first line of a longer stream.
    with pytest.raises(ProviderUnavailableError if "error" in last else StreamTruncated):
        await ours([body])


@pytest.mark.parametrize("row", recorded(with_request=True))
def test_our_requests_have_the_shape_of_those_that_servers_accepted(row: dict[str, Any] | None) -> None:
    path, _ = body_of(row)
    accepted = json.loads(path.with_name(path.name + ".request.json").read_text())
    told = [ai.UserMessage(message["content"]) for message in accepted["messages"]]
    options = ai.Options(
        max_tokens=accepted["options"].get("num_predict"), temperature=accepted["options"].get("temperature")
    )
    body, _ = request(ai.get_model("ollama", accepted["model"]), *told, options=options)
    accepted["options"].pop("think", None)  # stands in the wrong place there, where servers overlook it
    assert body == {
        "model": accepted["model"],
        "messages": accepted["messages"],
        "stream": True,
        **({"options": accepted["options"]} if accepted["options"] else {}),
    }


async def test_thinking_text_and_whole_calls() -> None:
    message = await ours(TOOLS)
    assert [part.type for part in message.content] == ["thinking", "text", "tool_call", "tool_call"]
    assert (message.thinking, message.text) == ("Let me see.", "Asking\u2028both")
    assert [(call.name, call.args) for call in message.tool_calls] == [
        ("get_weather", {"city": "Zürich"}),
        ("get_time", {}),
    ]
    assert [call.id for call in message.tool_calls] == ["call_1", "call_x"]
    assert message.stop_reason == "tool_use"
    assert message.usage == ai.Usage(50, 20)


@pytest.mark.parametrize("size", [1, 2, 7, 4096])
async def test_any_chunking_gives_the_same_events(size: int) -> None:
    whole = b"".join(TOOLS).replace(b"\n", b"\r\n")
    pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
    assert decode(MODEL, pieces) == decode(MODEL, TOOLS)


@pytest.mark.parametrize("kept", range(len(TOOLS)))
async def test_a_stream_without_its_last_line_is_truncated(kept: int) -> None:
    stream = client(replying(TOOLS[:kept], kind=NDJSON)).stream(MODEL, ai.Context())
    with pytest.raises(StreamTruncated):
        async for _ in stream:
            pass
    assert stream.message.stop_reason == "error"
    assert stream.message.text == ("Asking\u2028both" if kept > 2 else "")
    with pytest.raises(StreamTruncated):
        decode(MODEL, TOOLS[:kept])  # the decoder notices by itself


@pytest.mark.parametrize(
    ("last", "stop", "usage"),
    [
        (done("length", prompt_eval_count=3, eval_count=4), "length", ai.Usage(3, 4)),
        (done("stop", eval_count=4), "stop", ai.Usage(0, 4)),
        (done("load"), "stop", None),
        (done(None), "stop", None),
    ],
)
async def test_ends(last: dict[str, Any], stop: str, usage: ai.Usage | None) -> None:
    message = await ours(lines(said(content="Hi"), last))
    assert (message.text, message.stop_reason, message.usage) == ("Hi", stop, usage)


async def test_what_the_last_line_says_is_kept() -> None:
    message = await ours(lines({**done("stop"), "message": {"role": "assistant", "content": "All at once"}}))
    assert message.text == "All at once"


async def test_an_error_inside_the_stream() -> None:
    stream = client(replying(lines(said(content="Yes"), {"error": "an error was encountered"}), kind=NDJSON)).stream(
        MODEL, ai.Context()
    )
    with pytest.raises(ProviderUnavailableError, match="an error was encountered"):
        async for _ in stream:
            pass
    assert stream.message.text == "Yes"


async def test_an_http_error() -> None:
    reply = replying([b'{"error": "model \\"nope\\" not found, try pulling it first"}'], 404, "application/json")
    with pytest.raises(NotFoundError, match="try pulling it first"):
        await client(reply).complete(MODEL, ai.Context())


# Requests.


def request(
    model: ai.Model = MODEL, *messages: ai.Message, options: ai.Options | None = None, **context: Any
) -> tuple[dict[str, Any], tuple[str, ...]]:
    wire = DIALECT.request(model, ai.Context(messages=messages, **context), options or ai.Options(), None)
    ollama._types.ChatRequest(**wire.body)  # the official client's own idea of a request
    return wire.body, wire.warnings


def test_a_conversation_with_tools() -> None:
    reply = ai.AssistantMessage(
        (ai.ThinkingPart("Hm."), ai.TextPart("Asking."), ai.ToolCallPart("c1", "get_weather", {"city": "Rome"})),
        provider="ollama",
        model="llama3.2",
    )
    result = ai.ToolResultMessage((ai.ToolResultPart("c1", "get_weather", "sunny", images=(ai.ImagePart(b"abc"),)),))
    body, warnings = request(
        MODEL,
        ai.UserMessage("hi"),
        reply,
        result,
        system="Be brief.",
        tools=[ai.ToolSpec("get_weather", "The weather.", CITY)],
    )
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "Asking.",
            "thinking": "Hm.",
            "tool_calls": [
                {"id": "c1", "function": {"index": 0, "name": "get_weather", "arguments": {"city": "Rome"}}}
            ],
        },
        {"role": "tool", "tool_name": "get_weather", "tool_call_id": "c1", "content": "sunny", "images": ["YWJj"]},
    ]
    assert body["tools"][0]["function"]["parameters"] == CITY
    assert warnings == ()
    assert "options" not in body


def test_options() -> None:
    model = ai.Model("ollama", "m", "ollama", context_window=8192, thinking=True)
    options = ai.Options(
        max_tokens=5,
        temperature=0,
        top_p=0.5,
        stop=["x"],
        thinking="high",
        output=CITY,
        extra={"keep_alive": "1h", "options": {"num_gpu": 1, "num_ctx": 1024}},
    )
    body, warnings = request(model, ai.UserMessage("hi"), options=options)
    assert body["options"] == {
        "num_ctx": 1024, "num_predict": 5, "temperature": 0, "top_p": 0.5, "stop": ["x"], "num_gpu": 1,
    }  # fmt: skip
    assert (body["format"], body["think"], body["keep_alive"]) == (CITY, True, "1h")
    assert warnings == ()


def test_the_context_length_of_the_model_is_asked_for() -> None:
    model = ai.Model("ollama", "m", "ollama", context_window=8192)
    assert request(model)[0]["options"] == {"num_ctx": 8192}


@pytest.mark.parametrize(
    ("model_id", "facts", "level", "sent", "warned"),
    [
        ("qwen3", {}, "off", False, False),
        ("qwen3", {}, "low", True, False),
        ("gpt-oss:20b", {}, "medium", "medium", False),
        ("gpt-oss:20b", {}, "off", "low", True),
        ("llama3.2", {"thinking_levels": ()}, "high", None, True),
        ("llama3.2", {"thinking_levels": ()}, "off", None, False),
    ],
)
def test_thinking(model_id: str, facts: dict[str, Any], level: str, sent: object, warned: bool) -> None:
    body, warnings = request(ai.Model("ollama", model_id, "ollama", **facts), options=ai.Options(thinking=level))
    assert body.get("think") == sent
    assert bool(warnings) is warned


@pytest.mark.parametrize(
    ("choice", "has_tools", "warned"), [("auto", True, 0), ("none", False, 0), ("required", True, 1), ("f", True, 1)]
)
async def test_tool_choice(choice: str, has_tools: bool, warned: int) -> None:
    context = ai.Context(tools=[ai.ToolSpec("f", "F.", CITY)])
    seen: list[Any] = []
    options = ai.Options(tool_choice=choice)
    stream = client(replying(lines(done()), kind=NDJSON, seen=seen)).stream(MODEL, context, options)
    events = [event async for event in stream]
    assert ("tools" in seen[0]) is has_tools
    assert [event.type for event in events].count("warning") == warned


def test_images_are_sent_as_bytes() -> None:
    body, _ = request(MODEL, ai.UserMessage([ai.TextPart("What is it?"), ai.ImagePart(b"abc")]))
    assert body["messages"] == [{"role": "user", "content": "What is it?", "images": ["YWJj"]}]


@pytest.mark.parametrize(
    ("part", "facts", "hint"),
    [
        (ai.FilePart(b"%PDF"), {}, "send its text instead"),
        (ai.ImagePart(url="http://h/i.png"), {}, "pass its bytes"),
        (ai.ImagePart(b"abc"), {"modalities": ("text",)}, "cannot see images"),
    ],
)
def test_what_cannot_be_sent_is_refused(part: ai.UserPart, facts: dict[str, Any], hint: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=hint):
        request(ai.Model("ollama", "m", "ollama", **facts), ai.UserMessage([part]))


def test_a_model_without_images_gets_the_text_of_a_result_with_images() -> None:
    call = ai.AssistantMessage((ai.ToolCallPart("c1", "look", {}),), provider="ollama", model="m")
    result = ai.ToolResultMessage((ai.ToolResultPart("c1", "look", "a cat", images=(ai.ImagePart(b"abc"),)),))
    body, _ = request(ai.Model("ollama", "m", "ollama", modalities=("text",)), call, result)
    assert "images" not in body["messages"][-1]


@pytest.mark.parametrize(
    ("base_url", "api", "url"),
    [
        (None, None, "http://127.0.0.1:11434/api/chat"),
        ("http://h:1/", None, "http://h:1/api/chat"),
        ("http://h:1/v1", None, "http://h:1/api/chat"),
        ("h:1", None, "http://h:1/api/chat"),
        ("https://proxy/ollama", None, "https://proxy/ollama/api/chat"),
        ("http://h:1", "chat", "http://h:1/v1/chat/completions"),
        (None, "chat", "http://127.0.0.1:11434/v1/chat/completions"),
    ],
)
def test_addresses(base_url: str | None, api: str | None, url: str) -> None:
    model = ai.get_model("ollama", "m", base_url=base_url, api=api)
    assert dialect(model).request(model, ai.Context(), ai.Options(), None).url == url


async def test_a_key_is_sent_where_there_is_one() -> None:
    model = ai.get_model("ollama", "m", base_url="https://ollama.com", api_key="k")
    assert DIALECT.request(model, ai.Context(), ai.Options(), "k").headers == {"authorization": "Bearer k"}


@pytest.mark.parametrize(("window", "asked"), [(None, 131072), (4096, 4096)])
async def test_the_context_length_is_read_from_the_server_once(window: int | None, asked: int) -> None:
    shown = {"model_info": {"general.architecture": "llama", "llama.context_length": 131072}}

    async def server(exchange: Exchange) -> None:
        if exchange.path == "/api/show":
            assert exchange.body == {"model": "llama3.2"}
            assert exchange.headers["authorization"] == "Bearer k"
            await exchange.answer("200 OK", json.dumps(shown))
        else:
            await exchange.answer("200 OK", "\n".join(json.dumps(row) for row in (said(content="Hi"), done())), NDJSON)

    async with serving(server) as host, ai.Client(credentials={"OLLAMA_API_KEY": "k"}) as http:
        model = replace(ai.get_model("ollama:llama3.2"), base_url=host.url, context_window=window)
        for _ in range(2):
            assert (await http.complete(model, ASK)).text == "Hi"
        paths = [exchange.path for exchange in host.exchanges]
        assert paths == ["/api/show"] * (window is None) + ["/api/chat"] * 2
        assert host.exchanges[-1].body["options"]["num_ctx"] == asked


@pytest.mark.parametrize("answer", ["{}", "5", "no", '{"model_info": 5}'])
async def test_a_missing_context_length_stops_no_request(answer: str) -> None:
    async def server(exchange: Exchange) -> None:
        body = json.dumps(done()) if exchange.path == "/api/chat" else answer
        await exchange.answer("200 OK", body, NDJSON)

    async with serving(server) as host, client() as http:
        message = await http.complete(replace(MODEL, base_url=host.url), ASK)
        assert message.stop_reason == "stop"
        assert "options" not in host.exchanges[-1].body
