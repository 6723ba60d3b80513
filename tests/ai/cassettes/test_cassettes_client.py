"""Cassettes under a client: what is recorded, what is replayed, what is refused."""

from __future__ import annotations

import asyncio
import gzip
import json
import stat
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.loopback import Exchange as Served
from support.loopback import serving
from support.wire import CHAT, CHAT_HELLO, CHAT_TOOLS, MESSAGES, MESSAGES_TOOLS, SAMPLES, client, replying

from planck_nb import ai
from planck_nb.ai.cassettes import Mode
from planck_nb.ai.cassettes.cassette import CassetteLookup, CassetteRequest
from planck_nb.ai.cassettes.cassette_file import read_entries
from planck_nb.ai.models import Model
from planck_nb.base.errors import (
    CassetteError,
    CassetteMissError,
    MissingCredentialError,
    ProviderConnectionError,
    ProviderStatusError,
    ProviderTimeoutError,
    StreamTruncated,
)

VENDOR = ai.get_model("openai", "gpt-5.4", api="chat")
KEY = "sk-open-a1b2c3"


class Unreachable(httpx.AsyncBaseTransport):
    """A transport that no request may reach."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"{request.url} was asked")


def ask(text: str = "hi") -> ai.Context:
    return ai.Context(messages=[ai.UserMessage(text)])


def player(
    path: Path,
    *,
    mode: Mode = "replay",
    pace: bool = False,
    environment: Mapping[str, str] | None = None,
    margin: float = 2.0,
) -> ai.Client:
    """A client without keys that can reach nothing."""
    cassette = ai.Cassette(path, mode, pace=pace, environment=environment or {})
    cassette.margin = margin
    return ai.Client(credentials={}, transport=Unreachable(), cassette=cassette)


def recorder(path: Path, transport: httpx.AsyncBaseTransport | None, *, mode: Mode = "record") -> ai.Client:
    made = client(transport)
    made._credentials = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    made.cassette = ai.Cassette(path, mode, environment={})
    return made


def said(text: str) -> list[bytes]:
    """A chat answer that says `text`, in one piece per letter."""
    deltas = [{"choices": [{"index": 0, "delta": {"content": letter}, "finish_reason": None}]} for letter in text]
    ends = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [*(b"data: %s\n\n" % json.dumps(data).encode() for data in [*deltas, ends]), b"data: [DONE]\n\n"]


def line_of(path: Path, number: int = 0) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_bytes().split(b"\n")[number])
    return data


@pytest.mark.parametrize(("model", "chunks"), SAMPLES)
async def test_a_replayed_answer_has_the_events_of_the_recorded_one(
    model: Model, chunks: list[bytes], tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    live = [asdict(event) async for event in recorder(path, replying(chunks)).stream(model, ask())]
    assert [asdict(event) async for event in player(path).stream(model, ask())] == live
    assert [chunk for _, chunk in next(read_entries(path)).chunks] == chunks


async def test_a_key_is_needed_only_if_a_request_has_to_be_sent(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    await recorder(path, replying(CHAT_HELLO)).complete(VENDOR, ask())
    assert (await player(path).complete(VENDOR, ask())).text == "Hello"
    assert (await player(path, mode="auto").complete(VENDOR, ask())).text == "Hello"
    with pytest.raises(MissingCredentialError, match="OPENAI_API_KEY"):
        await player(path, mode="auto").complete(VENDOR, ask("another"))
    with pytest.raises(MissingCredentialError, match="OPENAI_API_KEY"):
        await player(path, mode="record").complete(VENDOR, ask())
    with pytest.raises(MissingCredentialError, match="OPENAI_API_KEY"):
        await player(path, mode="off").complete(VENDOR, ask())


async def test_what_is_recorded_of_a_request_and_its_answer(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "chat.jsonl"

    async def answer(served: Served) -> None:
        await served.head(request_id="req_7", set_cookie="session=secret", x_other="no")
        for chunk in [*said("Zü\U0001f600")]:
            await served.send(chunk)
        await served.end()

    async with serving(answer) as server:
        model = ai.get_model("openai", "some-model", base_url=server.url)
        async with recorder(path, None) as live:
            await live.complete(model, ask(), ai.Options(temperature=0.5))
        assert server.exchanges[0].headers["authorization"] == f"Bearer {KEY}"
    entry = line_of(path)
    assert entry["headers"] == {"content-type": "text/event-stream", "request-id": "req_7"}
    assert (entry["v"], entry["occurrence"], entry["status"], entry["end"]) == (1, 0, 200, "eof")
    assert (entry["provider"], entry["api"], entry["model"]) == ("openai", "chat", "some-model")
    assert entry["request"]["options"] == {"temperature": 0.5}
    assert all(delay >= 0 and isinstance(text, str) for delay, text in entry["chunks"])
    assert KEY.encode() not in path.read_bytes()
    assert b"secret" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_pieces_are_passed_on_as_they_come(tmp_path: Path) -> None:
    """The server sends its next piece only when the piece before has been seen."""
    seen = asyncio.Event()

    async def answer(served: Served) -> None:
        await served.head()
        *letters, finish, done = said("abc")
        for chunk in letters:
            await served.send(chunk)
            async with asyncio.timeout(20):
                await seen.wait()
            seen.clear()
        await served.send(finish + done)
        await served.end()

    async with serving(answer) as server:
        model = ai.get_model("openai", "some-model", base_url=server.url)
        async with recorder(tmp_path / "chat.jsonl", None) as live, live.stream(model, ask()) as stream:
            async for _ in stream.batches():
                seen.set()
    assert stream.message.text == "abc"


async def test_a_compressed_answer_is_kept_readable(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"

    async def body() -> AsyncIterator[bytes]:
        yield gzip.compress(b"".join(CHAT_HELLO))

    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, content=body()))
    assert (await recorder(path, transport).complete(CHAT, ask())).text == "Hello"
    assert (await player(path).complete(CHAT, ask())).text == "Hello"
    assert "Hel" in line_of(path)["chunks"][0][1]


async def test_a_chunk_that_cuts_a_character_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    whole = "data: {}\n\n".join(["", b"".join(said("x")).decode().replace('"x"', '"Zü"')]).encode()
    cut = whole.index("ü".encode()) + 1
    await recorder(path, replying([whole[:cut], whole[cut:]])).complete(CHAT, ask())
    assert set(line_of(path)["chunks"][0][1]) == {"base64"}
    assert (await player(path).complete(CHAT, ask())).text == "Zü"


async def test_the_same_request_has_an_answer_for_each_time_it_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    live = recorder(path, None)
    for text in ("one", "two"):
        live._custom_transport = replying(said(text))
        live._transport = None
        await live.complete(CHAT, ask())
    replay = player(path)
    assert [(await replay.complete(CHAT, ask())).text for _ in range(2)] == ["one", "two"]
    with pytest.raises(
        CassetteMissError,
        match="contains 2 answers to this request to openai:some-model, but the request was sent again",
    ):
        await replay.complete(CHAT, ask())


async def test_answers_belong_to_requests_and_not_to_their_order(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"

    def echo(request: httpx.Request) -> httpx.Response:
        text = json.loads(request.content)["messages"][-1]["content"]
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(said(f"{text}!")))

    texts = [f"question {number}" for number in range(50)]
    live = recorder(path, httpx.MockTransport(echo))
    await asyncio.gather(*(live.complete(CHAT, ask(text)) for text in texts))
    replay = player(path)
    answers = await asyncio.gather(*(replay.complete(CHAT, ask(text)) for text in reversed(texts)))
    assert [answer.text for answer in answers] == [f"{text}!" for text in reversed(texts)]


async def test_a_server_that_failed_fails_again_and_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    replies = [
        httpx.Response(503, headers={"retry-after": "0", "request-id": "req_1"}, json={"error": {"message": "busy"}}),
        httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(CHAT_HELLO)),
    ]
    live = recorder(path, httpx.MockTransport(lambda _: replies.pop(0)))
    live._retries = ai.RetryPolicy(retries=1, base=0.001)
    before = [event.type async for event in live.stream(CHAT, ask())]
    assert before[0] == "retry"
    assert [event.type async for event in player(path).stream(CHAT, ask())] == before
    data = path.read_text().replace('"retry-after":"0"', '"retry-after":"60"')
    path.write_text(data)
    async with asyncio.timeout(30):  # a minute that the server asked for is not waited for in replay
        assert (await player(path).complete(CHAT, ask())).text == "Hello"


@pytest.mark.parametrize(
    ("broken", "kind"),
    [(httpx.ConnectError("refused"), ProviderConnectionError), (httpx.ReadTimeout("slow"), ProviderTimeoutError)],
)
async def test_a_connection_that_failed_fails_again_with_the_same_words(
    broken: Exception, kind: type[Exception], tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"

    def refuse(_: httpx.Request) -> httpx.Response:
        raise broken

    with pytest.raises(kind) as live:
        await recorder(path, httpx.MockTransport(refuse)).complete(CHAT, ask())
    with pytest.raises(kind) as replayed:
        await ai.Client(
            transport=Unreachable(), cassette=ai.Cassette(path, "replay"), retries=ai.RetryPolicy(retries=0)
        ).complete(CHAT, ask())
    assert str(replayed.value) == str(live.value)
    assert type(replayed.value) is type(live.value)


async def test_a_stream_that_broke_breaks_at_the_same_place(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"

    async def answer(served: Served) -> None:
        await served.head()
        await served.send(b"".join(CHAT_HELLO[:3]))
        served.reset()

    async with serving(answer) as server:
        model = ai.get_model("openai", "some-model", base_url=server.url)
        async with recorder(path, None) as live:
            stream = live.stream(model, ask())
            with pytest.raises(ProviderConnectionError) as first:
                [event async for event in stream]
    again = player(path).stream(model, ask())
    with pytest.raises(ProviderConnectionError) as second:
        [event async for event in again]
    assert (again.message.text, str(second.value)) == (stream.message.text, str(first.value))
    assert again.message.text == "Hello"
    assert not line_of(path)["complete"]


@pytest.mark.slow
async def test_a_silent_server_is_a_timeout_in_replay_at_once(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"

    async def silent_within(served: Served) -> None:
        await served.head()
        await served.send(CHAT_HELLO[1])
        await served.closed()

    async def silent(served: Served) -> None:
        await served.closed()

    async with serving(silent_within, silent) as server:
        model = ai.get_model("openai", "some-model", base_url=server.url)
        async with recorder(path, None) as live:
            for text in ("within", "before"):
                with pytest.raises(ProviderTimeoutError):
                    await live.complete(model, ask(text))
    assert [entry.end for entry in read_entries(path)] == ["ProviderTimeoutError"] * 2
    for text in ("within", "before"):  # the player would wait for five minutes
        with pytest.raises(ProviderTimeoutError):
            await player(path).complete(model, ask(text))


async def test_a_timeout_is_kept_as_one_however_slow_the_cassette_is(tmp_path: Path) -> None:
    class Slow(ai.Cassette):
        def look_up(self, request_info: CassetteRequest) -> CassetteLookup:
            time.sleep(0.2)  # a slow disk
            return super().look_up(request_info)

    async def silent(served: Served) -> None:
        await served.closed()

    path = tmp_path / "chat.jsonl"
    async with serving(silent) as server, recorder(path, None) as live:
        live.cassette = Slow(path, "record", environment={})
        with pytest.raises(ProviderTimeoutError):
            await live.complete(ai.get_model("openai", "some-model", base_url=server.url), ask())
    assert [entry.end for entry in read_entries(path)] == ["ProviderTimeoutError"]


async def test_a_cancelled_answer_is_kept_as_cancelled_and_is_cancelled_again(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"

    async def answer(served: Served) -> None:
        await served.head()
        for chunk in CHAT_HELLO[:2]:
            await served.send(chunk)
        await served.closed()

    async def until_stopped(asked: ai.Client, *, stop: bool) -> str:
        stream = asked.stream(model, ask())
        begun = asyncio.Event()

        async def read() -> None:
            async for event in stream:
                if event.type == "text_delta":
                    begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        if stop:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return f"{stream.message.stop_reason}: {stream.message.text}"

    async with serving(answer) as server:
        model = ai.get_model("openai", "some-model", base_url=server.url)
        async with recorder(path, None) as live:
            live._timeouts = ai.Timeouts()
            assert await until_stopped(live, stop=True) == "aborted: Hel"
    assert (line_of(path)["end"], line_of(path)["complete"]) == ("closed", False)
    assert await until_stopped(player(path, margin=9), stop=True) == "aborted: Hel"
    assert await until_stopped(player(path, margin=0.05), stop=False) == "aborted: Hel"


async def test_auto_replays_whole_answers_and_asks_for_all_others(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    with pytest.raises(ProviderStatusError):
        await recorder(path, replying([b"{}"], 401, "application/json")).complete(CHAT, ask())
    seen: list[Any] = []
    asking = recorder(path, replying(CHAT_HELLO, seen=seen), mode="auto")
    assert (await asking.complete(CHAT, ask())).text == "Hello"
    assert len(seen) == 1
    assert (await player(path, mode="auto").complete(CHAT, ask())).text == "Hello"
    assert (await player(path).complete(CHAT, ask())).text == "Hello"  # the newer one took the place of the older
    await recorder(path, replying(CHAT_HELLO, seen=seen), mode="auto").complete(CHAT, ask("more"))
    assert len(seen) == 2
    for text in ("hi", "more"):
        await player(path, mode="auto", environment={"CI": "true"}).complete(CHAT, ask(text))


async def test_auto_asks_again_for_an_answer_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    with pytest.raises(StreamTruncated):
        await recorder(path, replying(CHAT_HELLO[:2])).complete(CHAT, ask())
    with pytest.raises(StreamTruncated):
        await player(path).complete(CHAT, ask())
    assert (await recorder(path, replying(CHAT_HELLO), mode="auto").complete(CHAT, ask())).text == "Hello"


async def test_a_request_that_was_cancelled_before_its_answer_is_cancelled_again(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    asked = asyncio.Event()

    async def silent(served: Served) -> None:
        asked.set()
        await served.closed()

    async with serving(silent) as server:
        model = ai.get_model("openai", "some-model", base_url=server.url)
        async with recorder(path, None) as live:
            live._timeouts = ai.Timeouts()
            task = asyncio.create_task(live.complete(model, ask()))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert (line_of(path)["status"], line_of(path)["end"]) == (None, "closed")
    with pytest.raises(asyncio.CancelledError):
        await player(path, margin=0.05).complete(model, ask())


async def test_auto_records_nothing_in_ci(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    with pytest.raises(CassetteMissError, match="CI is set, so nothing is recorded"):
        await player(path, mode="auto", environment={"CI": "true"}).complete(CHAT, ask())
    assert not path.exists()


async def test_replay_without_a_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match=r"There is no cassette .*none\.jsonl; record it first"):
        await player(tmp_path / "none.jsonl").complete(CHAT, ask())


def test_a_mode_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match="no mode 'rewind'; choose one of off, record, replay, auto"):
        ai.Cassette(tmp_path / "chat.jsonl", "rewind")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "options", "difference"),
    [
        (
            ask("What is new in Rome?"),
            {},
            r"\(user\) text: 'What is new in Paris\?' was recorded, 'What is new ",
        ),
        (ask("What is new in Paris?"), {"temperature": 0.7}, r"option temperature: was not recorded"),
        (
            ai.Context(messages=ask("What is new in Paris?").messages, tools=[ai.ToolSpec("get_time", "", {})]),
            {},
            "tool get_time: was not recorded",
        ),
        (
            ai.Context("Be brief.", ask("What is new in Paris?").messages),
            {},
            "system: '' was recorded, 'Be brief.' was requested",
        ),
    ],
)
async def test_a_miss_names_what_differs_from_the_nearest(
    asked: ai.Context, options: dict[str, Any], difference: str, tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    live = recorder(path, replying(CHAT_HELLO))
    for text in ("Something else, much longer", "What is new in Paris?"):
        await live.complete(CHAT, ask(text))
    with pytest.raises(CassetteMissError, match=difference) as miss:
        await player(path).complete(CHAT, asked, ai.Options(**options))
    assert str(miss.value).count("\n") == 0
    assert 'record it again with mode "record".' in str(miss.value)


async def test_a_secret_in_the_request_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    live = recorder(path, Unreachable())
    for text in (f"my key is {KEY}", "use ghp_" + "a1B2" * 9):
        with pytest.raises(CassetteError, match=r"The request contains .*so it is not written") as refused:
            await live.complete(CHAT, ask(text))
        assert KEY not in str(refused.value)
        assert "ghp_" not in str(refused.value)
    live.cassette = ai.Cassette(path, "record", environment={"MY_DB_PASSWORD": "hunter2hunter2"})
    with pytest.raises(CassetteError, match="the value of MY_DB_PASSWORD"):
        await live.complete(CHAT, ask("log in with hunter2hunter2"))
    assert not path.exists()


@pytest.mark.parametrize("pieces", [said(KEY), [b": %s\n\n" % KEY.encode(), *said("fine")]], ids=["deltas", "bytes"])
async def test_a_secret_in_the_answer_is_refused(pieces: list[bytes], tmp_path: Path) -> None:
    """Also one that no single event holds."""
    path = tmp_path / "chat.jsonl"
    live = recorder(path, replying(pieces))
    with pytest.raises(CassetteError, match="The answer contains the API key, so it is not written"):
        await live.complete(CHAT, ask())
    assert not path.exists()
    assert live.cassette is not None
    assert "The answer contains the API key" in (live.cassette.problem or "")


async def test_what_was_signed_in_a_recording_is_never_sent(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    reply = await recorder(path, replying(MESSAGES_TOOLS)).complete(MESSAGES, ask())
    replayed = await player(path).complete(MESSAGES, ask())
    assert [part.provider_state for part in replayed.content if part.provider_state]
    results = ai.ToolResultMessage((ai.ToolResultPart(reply.tool_calls[0].id, "get_time", "12:00"),))
    bodies: list[Any] = []
    for message in (reply, ai.decode_message(ai.encode_message(replayed))):
        context = ai.Context(messages=[*ask().messages, message, results])
        await client(replying(MESSAGES_TOOLS, seen=bodies)).complete(MESSAGES, context)
    assert "c2ln" in json.dumps(bodies[0])
    assert "c2ln" not in json.dumps(bodies[1])
    assert "eHl6" not in json.dumps(bodies[1])


async def test_a_tool_loop_replays_with_other_call_ids(tmp_path: Path) -> None:
    """Ids that are made for a run differ the next time; what is asked is the same."""
    path = tmp_path / "chat.jsonl"

    def second(reply: ai.AssistantMessage, prefix: str) -> ai.Context:
        content = tuple(
            ai.ToolCallPart(prefix + part.id, part.name, part.args) if part.type == "tool_call" else part
            for part in reply.content
        )
        results = tuple(ai.ToolResultPart(prefix + call.id, call.name, "fine") for call in reply.tool_calls)
        said_so = ai.AssistantMessage(content, "tool_use", provider="openai", model="some-model")
        return ai.Context(messages=[*ask().messages, said_so, ai.ToolResultMessage(results)])

    live = recorder(path, replying(CHAT_TOOLS))
    reply = await live.complete(CHAT, ask())
    await live.complete(CHAT, second(reply, "x_"))
    replay = player(path)
    again = await replay.complete(CHAT, ask())
    assert (await replay.complete(CHAT, second(again, "y_"))).tool_calls == reply.tool_calls


async def test_pace_keeps_the_recorded_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chat.jsonl"
    await recorder(path, replying(CHAT_HELLO)).complete(CHAT, ask())
    entry = line_of(path)
    entry["chunks"] = [[250.0 * number, text] for number, (_, text) in enumerate(entry["chunks"])]
    entry["end_ms"] = 0.0
    path.write_text(json.dumps(entry) + "\n")
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr("planck_nb.ai.cassettes.cassette_transport.asyncio.sleep", note)
    await player(path, pace=True).complete(CHAT, ask())
    assert pauses[:3] == [0.0, 0.25, 0.5]
    pauses.clear()
    await player(path).complete(CHAT, ask())
    assert set(pauses) == {0}


async def test_what_changes_from_run_to_run_can_be_normalised_away(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"

    def undated(request: dict[str, Any]) -> dict[str, Any]:
        return {**request, "system": request["system"].partition(" Today is")[0]}

    live = recorder(path, replying(CHAT_HELLO))
    live.cassette = ai.Cassette(path, "record", normalise=undated)
    await live.complete(CHAT, ai.Context("Be brief. Today is Monday.", ask().messages))
    replay = player(path)
    replay.cassette = ai.Cassette(path, "replay", normalise=undated)
    assert (await replay.complete(CHAT, ai.Context("Be brief. Today is Tuesday.", ask().messages))).text == "Hello"


@pytest.mark.parametrize(("mode", "words"), [("replay", "cannot be read"), ("record", "cannot be written")])
async def test_an_unusable_file_is_not_reported_as_a_broken_connection(mode: Mode, words: str, tmp_path: Path) -> None:
    seen: list[Any] = []
    asking = client(replying(CHAT_HELLO, seen=seen), retries=2)
    # A folder cannot be read, a link into a folder that is not there cannot be written.
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "no" / "chat.jsonl")
    path = tmp_path if mode == "replay" else link
    asking.cassette = ai.Cassette(path, mode, environment={})
    with pytest.raises(CassetteError, match=words):
        await asking.complete(CHAT, ask())
    assert len(seen) == (mode == "record")
