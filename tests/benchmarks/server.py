"""A loopback server that answers Chat Completions as fast as they are read: what the benchmarks are measured against.

The path says how: `/n=20000,lat=50/chat/completions` streams 20,000 deltas after 50 ms, or sends one JSON object to
those who do not ask for a stream. A prompt that holds the word
TOOL is first answered with a call of the first tool. `/pace=1000/…` waits that many microseconds between deltas.
`GET /stats` tells how many answers are being streamed.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

WORDS = ("hello ", "there ", "it is ", "going ")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
streaming = 0


def event(delta: dict[str, Any] | None, finish: str | None = None, usage: dict[str, int] | None = None) -> bytes:
    """One server-sent event in an HTTP chunk of its own, as real servers send them."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": choices}
    data = b"data: " + json.dumps({**body, "usage": usage} if usage else body).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer(count: int, together: int = 100) -> list[bytes]:
    """An answer of `count` deltas, in pieces of so many events: a hundred are about 32 KiB."""
    events = [event({"role": "assistant", "content": WORDS[number % 4]}) for number in range(count)]
    events += [event({}, "stop"), event(None, usage={"prompt_tokens": 50, "completion_tokens": count})]
    events += [b"e\r\ndata: [DONE]\n\n\r\n", b"0\r\n\r\n"]
    return [b"".join(events[start : start + together]) for start in range(0, len(events), together)]


def whole(count: int) -> bytes:
    """The same answer without a stream."""
    message = {"role": "assistant", "content": "".join(WORDS[number % 4] for number in range(count))}
    usage = {"prompt_tokens": 50, "completion_tokens": count, "total_tokens": 50 + count}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    kind = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "m"}
    body = json.dumps({**kind, "choices": choices, "usage": usage}).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def tool_call(name: str) -> list[bytes]:
    """A call of a tool that takes x and y."""
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
    parts = [event({"role": "assistant", "content": None, "tool_calls": [call]})]
    pieces = ('{"x"', ": 20, ", '"y": ', "22}")
    parts += [event({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}) for text in pieces]
    parts += [event({}, "tool_calls"), event(None, usage={"prompt_tokens": 50, "completion_tokens": 12})]
    return [b"".join([*parts, b"e\r\ndata: [DONE]\n\n\r\n", b"0\r\n\r\n"])]


def wants_tool(messages: list[dict[str, Any]]) -> bool:
    """Whether the last word is a prompt that asks for a tool."""
    return messages[-1]["role"] == "user" and "TOOL" in str(messages[-1]["content"])


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    global streaming  # noqa: PLW0603 - the one counter of this little program
    cache: dict[int, list[bytes]] = {}
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            path = head.split(" ")[1]
            if path == "/stats":
                body = str(streaming).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
                continue
            size = int(head.split("content-length:")[1].split("\r\n")[0])
            request = json.loads(await reader.readexactly(size))
            settings = dict(pair.split("=") for pair in path.split("/")[1].split(","))
            count = int(settings.get("n", 20))
            streaming += 1
            try:
                await asyncio.sleep(int(settings.get("lat", 0)) / 1000)
                if not request.get("stream"):
                    writer.write(whole(count))
                    continue
                if wants_tool(request["messages"]):
                    pieces = tool_call(request["tools"][0]["function"]["name"])
                else:
                    pieces = cache.setdefault(count, answer(count))
                writer.write(HEAD)
                if "pace" in settings:
                    pieces = answer(count, together=1)
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    if "pace" in settings:
                        await asyncio.sleep(int(settings["pace"]) / 1e6)
            finally:
                streaming -= 1
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    """Serve on a free port, which is printed, until the process is ended."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
