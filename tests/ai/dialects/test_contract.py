"""The contract of every wire format: the same reply, written in each, is read as the same message."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dialects import WIRES, Call, Reply, Say, Think, Wire
from support.wire import client, decode, replying

from planck_nb import ai
from planck_nb.ai.providers import dialect
from planck_nb.ai.registry import REGISTRY, is_local
from planck_nb.ai.stream_events import StreamEvent
from planck_nb.base.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    NotFoundError,
    ProviderProtocolError,
    ProviderStatusError,
    ProviderUnavailableError,
    RateLimitError,
    StreamTruncated,
    UnsupportedFeatureError,
)

pytestmark = pytest.mark.parametrize("wire", [pytest.param(wire, id=name) for name, wire in WIRES.items()])

HI = ai.UserMessage("hi")
TOOLS = [ai.ToolSpec("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})]
ASK = ai.Context("Be brief.", [HI], TOOLS)

_MB = 1024 * 1024

ODD = 'Zürich\u2028\u0085\x1c \U0001f600 \\n "quoted" data: x\n\nevent: y'
EVERYTHING = Reply(
    (
        Think(("Let me ", "see", ".")),
        Say(("Asking ", ODD, " both.")),
        Call("get_weather", ('{"city"', ': "Zür', 'ich \U0001f600"}'), "call_a"),
        Call("get_weather", ('{"city": ', '"Rom"}'), "call_b"),
    )
)


async def collect(wire: Wire, chunks: list[bytes]) -> tuple[ai.AssistantMessage, list[StreamEvent]]:
    stream = client(replying(chunks, kind=wire.kind)).stream(wire.model, ASK)
    events = [event async for event in stream]
    return stream.message, events


async def ask(wire: Wire, reply: Reply) -> ai.AssistantMessage:
    return (await collect(wire, wire.write(reply)))[0]


def test_every_format_is_tested(wire: Wire) -> None:
    # Those of other packages are tested there.
    assert set(WIRES) >= {api for api in REGISTRY.builtin_formats() if not is_local(REGISTRY.format(api))}


async def test_text_usage_and_end(wire: Wire) -> None:
    message, events = await collect(wire, wire.write(Reply((Say(("Hel", "lo ", ODD)),))))
    assert message.text == f"Hello {ODD}"
    assert (message.stop_reason, message.tool_calls, message.error) == ("stop", (), None)
    assert message.usage == ai.Usage(12, 5)
    assert (message.provider, message.model) == (wire.model.provider, wire.model.id)
    assert [event.text for event in events if event.type == "text_delta" and event.text] == ["Hel", "lo ", ODD]
    assert [event.type for event in events].count("finish") == 1
    assert events[-1].type == "finish"


async def test_thinking(wire: Wire) -> None:
    message, events = await collect(wire, wire.write(Reply((Think(("Hm", ", so.")), Say(("Yes.",))))))
    assert (message.thinking, message.text) == ("Hm, so.", "Yes.")
    assert [part.type for part in message.content] == ["thinking", "text"]
    assert [event.text for event in events if event.type == "thinking_delta" and event.text] == ["Hm", ", so."]


async def test_one_call(wire: Wire) -> None:
    message, events = await collect(wire, wire.write(Reply((Call("get_weather", ('{"city": ', '"Rom"}'), "call_a"),))))
    assert message.tool_calls[0].args == {"city": "Rom"}
    assert message.tool_calls[0].name == "get_weather"
    assert (message.stop_reason, len(message.content)) == ("tool_use", 1)
    assert message.tool_calls[0].id == "call_a"
    arguments = "".join(event.text for event in events if event.type == "tool_args_delta")
    assert json.loads(arguments) == {"city": "Rom"}
    types = [event.type for event in events]
    assert types.index("tool_call_start") < types.index("tool_args_delta") < types.index("part_end")


async def test_everything_in_its_order(wire: Wire) -> None:
    message = await ask(wire, EVERYTHING)
    assert [part.type for part in message.content] == ["thinking", "text", "tool_call", "tool_call"]
    assert message.thinking == "Let me see."
    assert message.text == f"Asking {ODD} both."
    assert [call.args for call in message.tool_calls] == [{"city": "Zürich \U0001f600"}, {"city": "Rom"}]
    assert message.stop_reason == "tool_use"
    assert ai.decode_message(json.loads(json.dumps(ai.encode_message(message)))) == message


async def test_every_part_begins_once_and_ends_once(wire: Wire) -> None:
    _, events = await collect(wire, wire.write(EVERYTHING))
    begun = {event.index for event in events if event.type in {"text_delta", "thinking_delta", "tool_call_start"}}
    ended = [event.index for event in events if event.type == "part_end"]
    assert len(begun) == 4
    assert sorted(ended) == sorted(begun)


async def test_a_call_without_arguments(wire: Wire) -> None:
    message = await ask(wire, Reply((Call("get_weather", ("{}",), "a"),)))
    assert message.tool_calls[0].args == {}
    assert message.tool_calls[0].invalid is None


@pytest.mark.parametrize("ids", [("", ""), ("same", "same"), ("", "same"), ("same", "")])
async def test_missing_and_repeated_ids_become_unique(wire: Wire, ids: tuple[str, str]) -> None:
    reply = Reply(tuple(Call("get_weather", (json.dumps({"city": str(at)}),), name) for at, name in enumerate(ids)))
    stream = client(replying(wire.write(reply), kind=wire.kind)).stream(wire.model, ASK)
    started = [event.id async for event in stream if event.type == "tool_call_start"]
    calls = stream.message.tool_calls
    assert [call.args["city"] for call in calls] == ["0", "1"]
    assert [call.id for call in calls] == started
    assert len({*started, ""}) == 3


@pytest.mark.parametrize("text", ['{"city": ', "[1]", "Rom", '{"city": NaN}'])
async def test_arguments_that_are_not_an_object_are_kept_as_text(wire: Wire, text: str) -> None:
    message = await ask(wire, Reply((Call("get_weather", (text[:2], text[2:]), "a"),)))
    call = message.tool_calls[0]
    assert call.args == {}
    # Where the format has an object and no text, what stands in its place is told as JSON.
    assert call.invalid in {text, json.dumps(text)}
    assert message.stop_reason == "tool_use"


@pytest.mark.parametrize("pieces", [(), (" ",), ('{"city": ',)])
async def test_a_call_that_the_token_limit_cut_is_marked_as_invalid(wire: Wire, pieces: tuple[str, ...]) -> None:
    if wire.model.api in {"generate_content", "ollama"}:  # whose calls come whole
        return
    message = await ask(wire, Reply((Call("get_weather", ("{}",), "a"), Call("get_weather", pieces, "b")), length=True))
    assert message.stop_reason == "length"
    assert [call.invalid for call in message.tool_calls] == [None, "".join(pieces)]


async def test_an_empty_reply(wire: Wire) -> None:
    message = await ask(wire, Reply())
    assert (message.content, message.stop_reason) == ((), "stop")


async def test_the_token_limit(wire: Wire) -> None:
    message = await ask(wire, Reply((Say(("Hel",)),), length=True))
    assert (message.text, message.stop_reason) == ("Hel", "length")


async def test_usage_that_is_missing_is_unknown(wire: Wire) -> None:
    message = await ask(wire, Reply((Say(("Hello",)),), usage=None))
    assert (message.usage, message.cost, message.text) == (None, None, "Hello")


@pytest.mark.parametrize("size", [1, 7, 64])
async def test_frames_may_be_cut_anywhere(wire: Wire, size: int) -> None:
    body = b"".join(wire.write(EVERYTHING))
    whole, events = await collect(wire, wire.write(EVERYTHING))
    cut, again = await collect(wire, [body[at : at + size] for at in range(0, len(body), size)])
    assert (cut, again) == (whole, events)


@pytest.mark.slow
@given(data=st.data())
def test_any_cut_gives_the_same_events(wire: Wire, data: st.DataObject) -> None:
    body = b"".join(wire.write(EVERYTHING)).replace(b"\n", data.draw(st.sampled_from([b"\n", b"\r\n"])))
    places = sorted(data.draw(st.sets(st.integers(1, len(body) - 1), max_size=30)))
    chunks = [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True)]
    assert decode(wire.model, chunks) == decode(wire.model, wire.write(EVERYTHING))


async def test_every_truncation_is_noticed_and_keeps_what_came(wire: Wire) -> None:
    chunks = wire.write(EVERYTHING)
    whole = await ask(wire, EVERYTHING)
    needed = len(chunks) - wire.optional
    for cut in range(needed):
        stream = client(replying(chunks[:cut], kind=wire.kind)).stream(wire.model, ASK)
        with pytest.raises(StreamTruncated, match="before it was complete"):
            async for _ in stream:
                pass
        message = stream.message
        assert message.stop_reason == "error"
        assert whole.text.startswith(message.text)
        assert whole.thinking.startswith(message.thinking)
        assert all(call in whole.tool_calls for call in message.tool_calls)
    with pytest.raises(StreamTruncated):
        decode(wire.model, chunks[: needed - 1])
    for cut in range(needed, len(chunks)):
        assert (await collect(wire, chunks[:cut]))[0].content == whole.content


async def test_a_stream_cut_inside_its_last_event_is_truncated(wire: Wire) -> None:
    chunks = wire.write(EVERYTHING)
    last = len(chunks) - wire.optional - 1
    with pytest.raises(StreamTruncated):
        await collect(wire, [*chunks[:last], chunks[last][: len(chunks[last]) // 2]])


async def test_an_error_inside_the_stream_has_the_class_of_its_kind(wire: Wire) -> None:
    begun = wire.write(Reply((Say(("Hel", "lo")),)))[: -1 - wire.optional]
    seen: list[Any] = []
    stream = client(replying([*begun, wire.failure], kind=wire.kind, seen=seen), retries=2).stream(wire.model, ASK)
    with pytest.raises(ProviderUnavailableError, match="Overloaded, come back") as caught:
        async for _ in stream:
            pass
    assert len(seen) == 1
    assert (caught.value.provider, caught.value.model) == (wire.model.provider, wire.model.id)
    assert stream.message.text == "Hello"
    assert stream.message.stop_reason == "error"
    assert stream.message.error == str(caught.value)


async def test_an_error_before_the_first_content_is_retried(wire: Wire) -> None:
    answers = [wire.failure, b"".join(wire.write(EVERYTHING))]

    def handle(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": wire.kind}, content=answers.pop(0))

    stream = client(httpx.MockTransport(handle), retries=1).stream(wire.model, ASK)
    events = [event async for event in stream]
    assert [event.type for event in events].count("retry") == 1
    assert len(stream.message.tool_calls) == 2


@pytest.mark.parametrize(
    ("status", "words", "expected"),
    [
        (400, "no such field", BadRequestError),
        (400, "prompt is too long: 9 tokens > 8 maximum", ContextOverflowError),
        (401, "bad key", AuthenticationError),
        (403, "not yours", AuthenticationError),
        (404, "no such model", NotFoundError),
        (413, "too large", ContextOverflowError),
        (429, "slow down", RateLimitError),
        (500, "oops", ProviderUnavailableError),
        (503, "loading", ProviderUnavailableError),
        (529, "busy", ProviderUnavailableError),
    ],
)
@pytest.mark.parametrize("shape", ['{"error": {"message": "%s"}}', '{"error": "%s"}', "%s", "<title>%s</title>"])
async def test_http_errors(
    wire: Wire, status: int, words: str, expected: type[ProviderStatusError], shape: str
) -> None:
    with pytest.raises(expected, match=words) as caught:
        await client(replying([(shape % words).encode()], status, "application/json")).complete(wire.model, ASK)
    assert type(caught.value) is expected
    assert (caught.value.status, caught.value.provider) == (status, wire.model.provider)


async def test_unknown_events_are_skipped(wire: Wire) -> None:
    chunks = wire.write(EVERYTHING)
    mixed = [chunk for known in chunks[:-1] for chunk in (known, *wire.unknown)]
    assert (await collect(wire, [*mixed, chunks[-1]]))[0] == await ask(wire, EVERYTHING)


@pytest.mark.parametrize("payload", ["not json", "[1]", "5", "<html>"])
async def test_a_frame_that_is_not_of_the_format_is_one_sentence(wire: Wire, payload: str) -> None:
    frame = b"%s\n" if "ndjson" in wire.kind else b"data: %s\n\n"
    with pytest.raises(ProviderProtocolError, match=f"^{wire.model.provider} sent"):
        await collect(wire, [frame % payload.encode()])


async def test_bytes_that_are_not_utf8_become_replacement_characters(wire: Wire) -> None:
    chunks = wire.write(Reply((Say(("a", "bXc", "d")),)))
    broken = [chunk.replace(b"bXc", b"b\xff\xc3c") for chunk in chunks]
    assert (await collect(wire, broken))[0].text in {"ab\ufffd\ufffdcd", "ab\ufffdcd"}


async def test_blocks_written_in_turns_are_told_apart(wire: Wire) -> None:
    if wire.together is None:
        assert wire.model.api in {"chat", "generate_content", "ollama"}  # whose texts have no number
        return
    chunks, texts = wire.together
    message, _ = await collect(wire, chunks)
    assert tuple(part.text for part in message.content if part.type == "text") == texts


@pytest.mark.slow
async def test_an_event_of_nearly_32_mb_is_read_and_a_larger_one_refused(wire: Wire) -> None:
    text = "x" * (31 * _MB // 2)  # some formats say it a second time
    assert (await ask(wire, Reply((Say((text,)),)))).text == text
    larger = b"".join(wire.write(Reply((Say((text + text + text,)),))))
    with pytest.raises(ProviderProtocolError, match="more than 32 MB"):
        await collect(wire, [larger[at : at + _MB] for at in range(0, len(larger), _MB)])


async def requests(wire: Wire, *messages: ai.Message, **options: Any) -> dict[str, Any]:
    """What is sent for a conversation."""
    seen: list[Any] = []
    http = client(replying(wire.write(Reply((Say(("ok",)),))), kind=wire.kind, seen=seen))
    await http.complete(wire.model, ai.Context("Be brief.", messages, TOOLS), ai.Options(**options))
    body: dict[str, Any] = seen[0]
    return body


@pytest.mark.parametrize("writer", [pytest.param(wire, id=f"from-{name}") for name, wire in WIRES.items()])
async def test_the_history_of_any_other_model_is_accepted(wire: Wire, writer: Wire) -> None:
    said = await ask(writer, EVERYTHING)
    results = tuple(ai.ToolResultPart(call.id, call.name, f"result {at}") for at, call in enumerate(said.tool_calls))
    history: list[ai.Message] = [HI, said, ai.ToolResultMessage(results), ai.UserMessage("and now?")]
    sent = json.dumps(await requests(wire, *history), ensure_ascii=False)
    for words in ("Asking Zürich", "result 0", "result 1", "and now?", "get_weather"):
        assert words in sent, words
    if writer is not wire:
        assert "Let me see." not in sent
        assert "c2ln" not in sent
        assert "eA==" not in sent
    assert "planck_prefix" not in sent


async def test_a_call_that_was_interrupted_has_a_result(wire: Wire) -> None:
    said = await ask(wire, EVERYTHING)
    first = ai.ToolResultMessage((ai.ToolResultPart(said.tool_calls[0].id, "get_weather", "sunny"),))
    sent = json.dumps(await requests(wire, HI, said, first, HI))
    assert "sunny" in sent
    assert "interrupted before it returned" in sent


async def test_requests_do_not_change_what_they_are_made_of(wire: Wire) -> None:
    said = await ask(wire, EVERYTHING)
    context = ai.Context("S", (HI, said), TOOLS)
    before = repr(context)
    dialect(wire.model).request(wire.model, context, ai.Options(thinking="high", output={"type": "object"}), "k")
    assert repr(context) == before


@pytest.mark.parametrize(
    "part",
    [ai.ImagePart(), ai.FilePart(), ai.ImagePart(b"png"), ai.FilePart(b"%PDF")],
    ids=["empty-image", "empty-file", "image", "pdf"],
)
async def test_what_a_model_cannot_be_given_is_refused_before_anything_is_sent(wire: Wire, part: ai.UserPart) -> None:
    is_there = part.type != "text" and part.data is not None
    model = replace(wire.model, modalities=("text",)) if is_there else wire.model
    seen: list[Any] = []
    with pytest.raises(UnsupportedFeatureError):
        await client(replying([], kind=wire.kind, seen=seen)).complete(model, ai.Context("", [ai.UserMessage([part])]))
    assert seen == []


async def test_an_unknown_tool_choice_is_refused_before_anything_is_sent(wire: Wire) -> None:
    if wire.model.api == "ollama":  # which knows no choice, and says so in a warning
        return
    with pytest.raises(UnsupportedFeatureError, match=r"'get_wether' is not a tool .*Did you mean get_weather\?"):
        await requests(wire, HI, tool_choice="get_wether")
