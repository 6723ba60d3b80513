"""How bytes arrive changes nothing about what they say."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.wire import CHAT_HELLO, SAMPLES, decode

from planck_nb.ai.framing import MAX_FRAME, NdjsonSplitter, Splitter, SseSplitter
from planck_nb.ai.models import Model
from planck_nb.base.errors import ProviderProtocolError


def split(splitter: Splitter, chunks: list[bytes]) -> list[bytes]:
    payloads = [payload for chunk in chunks for payload in splitter.feed(chunk)]
    return payloads + splitter.end()


@st.composite
def recut(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    cuts = sorted(draw(st.sets(st.integers(1, len(stream) - 1), max_size=40)))
    return [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


@given(st.data(), st.sampled_from(SAMPLES), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans(), st.booleans())
def test_any_rechunking_gives_the_same_events(
    data: st.DataObject, sample: tuple[Model, list[bytes]], newline: bytes, bom: bool, comments: bool
) -> None:
    model, events = sample
    stream = b"".join((b": keep-alive\n\n" if comments else b"") + event for event in events)
    stream = (b"\xef\xbb\xbf" if bom else b"") + stream.replace(b"\n", newline)
    assert decode(model, data.draw(recut(stream))) == decode(model, events)


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_one_byte_at_a_time(newline: bytes) -> None:
    for model, events in SAMPLES:
        stream = b"".join(events).replace(b"\n", newline)
        assert decode(model, [stream[at : at + 1] for at in range(len(stream))]) == decode(model, events)


@pytest.mark.parametrize(
    ("stream", "payloads"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"event: x\nid: 1\ndata: a\nretry: 5\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\r\ndata: b\r\n\r\n", [b"a\nb"]),
        (b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b": ping\n\ndata: a\n\n:\n\n", [b"a"]),
        (b"event: nothing\n\ndata\n\n", []),
        (b"data: \n\ndata: a\n\ndata:\n\n", [b"a"]),
        (b"data: a\n\ndata: cut", [b"a", b"cut"]),
        ("data: \u2028\u0085\x1c\n\n".encode(), ["\u2028\u0085\x1c".encode()]),
        (b"", []),
    ],
)
def test_server_sent_events(stream: bytes, payloads: list[bytes]) -> None:
    assert split(SseSplitter(), [stream]) == payloads
    assert split(SseSplitter(), [stream[at : at + 1] for at in range(len(stream))]) == payloads


@pytest.mark.slow
@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3)), st.data())
def test_ndjson_is_cut_at_line_feeds_only(values: list[dict[str, str]], data: st.DataObject) -> None:
    stream = b"\n".join(json.dumps(value, ensure_ascii=False).encode() for value in values) + b"\r\n\n"
    payloads = split(NdjsonSplitter(), data.draw(recut(stream)) if len(stream) > 1 else [stream])
    assert [json.loads(payload) for payload in payloads] == values


def test_an_endless_event_is_refused() -> None:
    splitter = SseSplitter()
    splitter.feed(b"data: ")
    splitter.feed(b"x" * (MAX_FRAME - 6))
    with pytest.raises(ProviderProtocolError, match="single event"):
        splitter.feed(b"x")


def test_a_large_event_costs_no_more_than_its_bytes() -> None:
    splitter = SseSplitter()
    piece = b"x" * 16384
    splitter.feed(b"data: ")
    for _ in range(1900):  # 31 MB: joining at every piece would copy 29 GB and run into the timeout
        assert splitter.feed(piece) == []
    assert [len(payload) for payload in splitter.feed(b"\n\n" + CHAT_HELLO[1])] == [
        1900 * 16384,
        len(CHAT_HELLO[1]) - 8,
    ]
