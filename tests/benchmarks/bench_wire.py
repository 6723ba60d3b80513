"""What a provider's stream costs from bytes to stream events, compared with the floor on the same bytes.

    python tests/benchmarks/bench_wire.py [--rounds 5]

The floor is bare httpx over aiohttp: read, cut at line feeds, parse with the standard library's json. Both sides run in
this process, in turns, against one server in another process, so the ratios hold on a busy machine; CPU is this
process's alone. Prints tables of medians, and what they are held to.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import aiohttp
import httpx
import httpx_aiohttp

from planck_nb import Agent, Tool, ai

DELTAS = 20_000
STREAMS = 200
SHORT = 200
WORDS = ("hello ", "there ", "it is ", "going ")
ARGUMENT = '"key": "some value", '

Json: TypeAlias = dict[str, Any]
Side: TypeAlias = Callable[[str, str, int], Awaitable[int]]

PROVIDERS = {
    "chat": "openai",
    "responses": "openai",
    "messages": "anthropic",
    "generate_content": "google",
    "interactions": "google",
    "ollama": "ollama",
}
"""The dialects and who speaks them."""


# The streams, as the vendors send them: the same envelope, ids and padding.


def chat(deltas: Iterable[str], *, args: bool) -> Iterator[bytes]:
    envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "m"}

    def chunk(delta: Json, finish: str | None = None) -> bytes:
        return sse({**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    if args:
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}
        yield chunk({"role": "assistant", "content": None, "tool_calls": [call]})
    for text in deltas:
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": text}}]} if args else {"content": text})
    yield chunk({}, "tool_calls" if args else "stop")
    yield sse({**envelope, "choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 9}})
    yield b"data: [DONE]\n\n"


def messages(deltas: Iterable[str], *, args: bool) -> Iterator[bytes]:
    tool = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    block = tool if args else {"type": "text", "text": ""}
    yield named({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 50}}})
    yield named({"type": "content_block_start", "index": 0, "content_block": block})
    for text in deltas:
        delta = {"type": "input_json_delta", "partial_json": text} if args else {"type": "text_delta", "text": text}
        yield named({"type": "content_block_delta", "index": 0, "delta": delta})
    yield named({"type": "content_block_stop", "index": 0})
    stop = {"stop_reason": "tool_use" if args else "end_turn"}
    yield named({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 9}})
    yield named({"type": "message_stop"})


def responses(deltas: Iterable[str], *, args: bool) -> Iterator[bytes]:
    said = list(deltas)
    whole, where = "".join(said), {"item_id": "item_1", "output_index": 0}
    call = {"type": "function_call", "call_id": "call_1", "name": "look"}
    text = {"type": "output_text", "text": whole, "annotations": []}
    message: Json = {"type": "message", "role": "assistant", "content": []}
    opened: Json = {**call, "arguments": ""} if args else message
    item: Json = {**call, "arguments": whole} if args else {**message, "content": [text]}
    usage = {"input_tokens": 50, "output_tokens": 9}
    kind = "response.function_call_arguments.delta" if args else "response.output_text.delta"
    place = where if args else {**where, "content_index": 0}
    yield named({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}})
    yield named({"type": "response.output_item.added", "output_index": 0, "item": {"id": "item_1", **opened}})
    if not args:
        part = {"type": "output_text", "text": "", "annotations": []}
        yield named({"type": "response.content_part.added", **place, "part": part})
    for number, delta in enumerate(said):
        yield named({"type": kind, **place, "delta": delta, "sequence_number": number + 3, "logprobs": []})
    yield named({"type": "response.output_item.done", "output_index": 0, "item": {"id": "item_1", **item}})
    final = {"id": "resp_1", "status": "completed", "output": [{"id": "item_1", **item}], "usage": usage}
    yield named({"type": "response.completed", "response": final})


def generate_content(deltas: Iterable[str], *, args: bool) -> Iterator[bytes]:
    rest = {
        "usageMetadata": {"promptTokenCount": 50, "candidatesTokenCount": 9, "totalTokenCount": 59},
        "modelVersion": "m",
        "responseId": "r1",
    }
    if args:  # calls come whole
        call = {"functionCall": {"name": "look", "args": json.loads("".join(deltas))}}
        yield sse({"candidates": [{"content": {"role": "model", "parts": [call]}, "index": 0}], **rest})
    else:
        for text in deltas:
            content = {"role": "model", "parts": [{"text": text}]}
            yield sse({"candidates": [{"content": content, "index": 0}], **rest})
    content = {"role": "model", "parts": [{"text": ""}]}
    yield sse({"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], **rest})


def interactions(deltas: Iterable[str], *, args: bool) -> Iterator[bytes]:
    step = {"type": "function_call", "id": "call_1", "name": "look"} if args else {"type": "model_output"}
    yield named({"event_type": "interaction.created", "interaction": {"id": "i1", "status": "in_progress"}})
    yield named({"event_type": "step.start", "index": 0, "step": step})
    for text in deltas:
        delta = {"type": "arguments_delta", "arguments": text} if args else {"type": "text", "text": text}
        yield named({"event_type": "step.delta", "index": 0, "delta": delta})
    yield named({"event_type": "step.stop", "index": 0})
    final: Json = {"id": "i1", "status": "requires_action" if args else "completed", "usage": {}}
    yield named({"event_type": "interaction.completed", "interaction": final})


def ollama(deltas: Iterable[str], *, args: bool) -> Iterator[bytes]:
    envelope = {"model": "m", "created_at": "2026-11-21T12:00:00.000000Z"}

    def line(message: Json, **rest: object) -> bytes:
        return (
            json.dumps({**envelope, "message": {"role": "assistant", **message}, "done": False, **rest}).encode()
            + b"\n"
        )

    if args:  # calls come whole
        call = {"function": {"name": "look", "arguments": json.loads("".join(deltas))}}
        yield line({"content": "", "tool_calls": [call]})
    else:
        for text in deltas:
            yield line({"content": text})
    yield line({"content": ""}, done=True, done_reason="stop", prompt_eval_count=50, eval_count=9)


STREAM_OF = {
    "chat": chat,
    "messages": messages,
    "responses": responses,
    "generate_content": generate_content,
    "interactions": interactions,
    "ollama": ollama,
}


def sse(payload: Json) -> bytes:
    return b"data: %s\n\n" % json.dumps(payload).encode()


def named(payload: Json) -> bytes:
    kind = payload.get("type") or payload["event_type"]
    return b"event: %s\n%s" % (kind.encode(), sse(payload))


def words(count: int) -> list[str]:
    return [WORDS[number % 4] for number in range(count)]


def arguments(count: int) -> list[str]:
    """A JSON object in `count` pieces."""
    pieces = [ARGUMENT.replace("key", f"key{number}") for number in range(count)]
    return ["{", *pieces[:-1], pieces[-1].rstrip(", ") + "}"]


# The server.


def answer(path: str) -> bytes:
    """`/chat,text,200/…` is a whole answer: 200 deltas of text, each in an HTTP chunk of its own."""
    api, kind, count = path.split("/")[1].split(",")
    deltas = arguments(int(count)) if kind == "args" else words(int(count))
    mime = b"application/x-ndjson" if api == "ollama" else b"text/event-stream"
    chunks = [b"%x\r\n%s\r\n" % (len(data), data) for data in STREAM_OF[api](deltas, args=kind == "args")]
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\n\r\n" % mime + b"".join(
        [*chunks, b"0\r\n\r\n"]
    )


async def serve() -> None:
    """Answer on a free port, which is printed, until the process is ended."""
    made: dict[str, bytes] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                body = await reader.readexactly(int(head.lower().split("content-length:")[1].split("\r\n")[0]))
                path = head.split(" ")[1]
                if b'"tool_call_id"' in body:  # the tool has run: a short answer
                    path = "/chat,text,1/"
                key = path.split("/")[1]
                if key not in made:
                    made[key] = answer(path)
                whole = made[key]
                for start in range(0, len(whole), 1 << 15):
                    writer.write(whole[start : start + (1 << 15)])
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 24, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def serving() -> Iterator[str]:
    """The address of a server in another process."""
    with subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


# The two sides.


def floor_of(client: httpx.AsyncClient, base: str) -> Side:
    async def read(api: str, kind: str, count: int) -> int:
        parsed = 0
        async with client.stream("POST", f"{base}/{api},{kind},{count}/", json={}) as response:
            rest = b""
            async for chunk in response.aiter_raw():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line[:7] == b"data: {":
                        json.loads(line[6:])
                        parsed += 1
                    elif line[:1] == b"{":
                        json.loads(line)
                        parsed += 1
        return parsed

    return read


def model_at(base: str, api: str, kind: str, count: int) -> ai.Model:
    return ai.get_model(PROVIDERS[api], "bench", api=api, base_url=f"{base}/{api},{kind},{count}/v1", has_api_key=False)


def ours_of(client: ai.Client, base: str) -> Side:
    async def read(api: str, kind: str, count: int) -> int:
        seen = 0
        async with client.stream(model_at(base, api, kind, count), ai.Context()) as stream:
            async for batch in stream.batches():
                for event in batch:
                    if event.type in {"text_delta", "tool_args_delta"} and event.text:
                        seen += 1
        assert stream.message.stop_reason == ("tool_use" if kind == "args" else "stop")
        return seen

    return read


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    """CPU seconds of one piece of work."""
    gc.collect()
    began = time.process_time()
    await work()
    return time.process_time() - began


async def medians(works: list[Callable[[], Awaitable[object]]], rounds: int) -> list[float]:
    """Medians of the works' CPU seconds, measured in turns."""
    for work in works:
        await work()
    rows = [[await seconds(work) for work in works] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def verdict(ratio: float, limit: float) -> str:
    return f"{ratio:5.2f}x  (held to {limit}x{'' if ratio <= limit else ', MISSED'})"


async def run(base: str, rounds: int) -> None:
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    async with (
        httpx.AsyncClient(timeout=60, transport=httpx_aiohttp.AiohttpTransport(client=session)) as bare,
        ai.Client(credentials={}) as client,
    ):
        floor, ours = floor_of(bare, base), ours_of(client, base)
        for api in PROVIDERS:
            assert await ours(api, "text", SHORT) == SHORT, api

        print(f"{'CPU per streamed delta':<34} {'floor':>9} {'ours':>9}")
        for api in PROVIDERS:
            low, high = await medians([partial(floor, api, "text", DELTAS), partial(ours, api, "text", DELTAS)], rounds)
            figures = f"{low / DELTAS * 1e6:9.2f} {high / DELTAS * 1e6:9.2f} µs"
            print(f"{api:<34} {figures} {verdict(high / low, 2.0)}", flush=True)

        print(f"\n{f'{STREAMS} streams of {SHORT} deltas at once':<34} {'floor':>9} {'ours':>9}")
        for api in PROVIDERS:

            async def fleet(side: Side, api: str = api) -> None:
                await asyncio.gather(*(side(api, "text", SHORT) for _ in range(STREAMS)))

            low, high = await medians([partial(fleet, floor), partial(fleet, ours)], rounds)
            print(f"{api:<34} {low:9.3f} {high:9.3f} s  {verdict(high / low, 1.5)}", flush=True)

        print(f"\n{'arguments, shown as they come':<34} {'n':>9} {'2n':>9}")
        for api in PROVIDERS:
            once, twice = await medians([partial(ours, api, "args", 5_000), partial(ours, api, "args", 10_000)], rounds)
            print(f"{api:<34} {once:9.3f} {twice:9.3f} s  {verdict(twice / once, 2.5)}", flush=True)
        once, twice = await medians([partial(watched, client, base, count) for count in (5_000, 10_000)], rounds)
        print(f"{'chat, through an agent':<34} {once:9.3f} {twice:9.3f} s  {verdict(twice / once, 2.5)}")


async def watched(client: ai.Client, base: str, count: int) -> None:
    """A call whose arguments are watched through an agent."""

    looking = Tool(name="look", description="Look.", parameters={"type": "object"}, execute_fn=lambda _args: "seen")
    async with Agent(model=model_at(base, "chat", "args", count), tools=[looking], client=client) as agent:
        size = 0
        async for event in agent.prompt("Look."):
            if event.type == "tool_args_delta":
                size += len(event.text)
        assert size > count * len(ARGUMENT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
    else:
        with serving() as url:
            asyncio.run(run(url, options.rounds))
