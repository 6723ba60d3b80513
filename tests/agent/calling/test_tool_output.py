"""What tools return, as models read it."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel

from planck_nb import Agent, Tool, ToolOutput
from planck_nb.agent.calling import tool_output
from planck_nb.agent.calling.images import MAX_IMAGE_BYTES, format_of, size_of
from planck_nb.agent.calling.tool_output import MAX_IMAGES, MAX_RESULT_CHARACTERS, as_output
from planck_nb.ai.messages import ImagePart, TextPart, ToolResultMessage
from planck_nb.testing import Call, Reply, scripted_model


def png(width: int, height: int, rest: bytes = b"") -> bytes:
    """A black image; `rest` is appended."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" * (width + 1)) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"") + rest


GIF = b"GIF89a" + struct.pack("<HH", 7, 5) + b"\0" * 29 + b";"
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\0"
    + b"\0" * 9
    + b"\xff\xc0\x00\x11\x08"
    + struct.pack(">HH", 48, 64)
    + b"\0" * 10
    + b"\xff\xda\x00\x08"
    + b"\0" * 16
    + b"\xff\xd9"
)
WEBP = {
    "lossy": b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 10 + struct.pack("<HH", 64, 48) + b"\0" * 9,
    "lossless": b"RIFF\0\0\0\0WEBPVP8L" + b"\0" * 4 + b"/" + struct.pack("<I", 63 | 47 << 14) + b"\0" * 9,
    "extended": b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + b"\x3f\0\0\x2f\0\0" + b"\0" * 9,
}


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Row:
    day: date
    point: Point


class Plain: ...


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Broken:
    def _repr_png_(self) -> bytes:
        raise ZeroDivisionError


class Shows:
    """Shows itself to notebooks as `data`."""

    def __init__(self, data: object) -> None:
        self.data = data

    def _repr_png_(self) -> object:
        return self.data

    def __str__(self) -> str:
        return "as text"


class Anything:
    """Claims to have every attribute, as some proxies do."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_kwargs: b"junk"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as is", "as is"),
        (None, "(no result)"),
        (True, "true"),
        (1.5, "1.5"),
        (np.int64(3), "3"),
        (np.arange(3), "[0,1,2]"),
        ({"mean": np.float64(0.5), "values": np.arange(2)}, '{"mean":0.5,"values":[0,1]}'),
        (Row(date(2026, 1, 2), Point(x=1)), '{"day":"2026-01-02","point":{"x":1,"y":0}}'),
        (date(2026, 1, 2), "2026-01-02"),
        (Path("/a/b"), "/a/b"),
        ([1, {"a": (2, "é")}], '[1,{"a":[2,"é"]}]'),
        (b"\0\xff", "[binary data, 2 bytes: cannot be shown]"),
        ("\ud800", "?"),
        (["\ud800", TextPart("x")], "?\nx"),
        (Plain(), "[Plain object]"),
        (..., "[ellipsis] Ellipsis"),
        ({"a": Plain(), "b": ...}, '{"a":"[Plain object]","b":"[ellipsis] Ellipsis"}'),
        (Rude(), "[Rude that cannot be shown: RuntimeError]"),
        ([1, Rude()], '[1,"[Rude that cannot be shown: RuntimeError]"]'),
        (Broken(), "[Broken that cannot be shown: ZeroDivisionError]"),
        (Anything(), "[Anything object]"),
        (Shows(None), "[Shows] as text"),
    ],
)
def test_values_become_text(value: object, text: str) -> None:
    assert as_output(value) == ToolOutput(text)


def test_a_value_that_contains_itself_is_shown() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    assert as_output(cycle).text == "[list] [[...]]"
    deep: object = 0
    for _ in range(100_000):
        deep = [deep]
    assert "list" in as_output(deep).text


def test_long_texts_keep_their_ends_in_little_memory() -> None:
    text = as_output("".join(f"line {number}\n" for number in range(10_000))).text
    assert text.startswith("line 0\n")
    assert text.endswith("line 9999\n")
    assert "8,000 lines left out" in text
    assert len(as_output("é" * 100_000).text) < 50_100
    huge = as_output("start" + "\n" * 30_000_000 + "end").text
    assert huge.startswith("start\n")
    assert huge.endswith("\nend")
    assert "characters left out" in huge
    assert len(huge) < 2_200


async def test_what_a_tool_returns_is_shortened_once() -> None:
    def sync() -> str:
        return "\n".join(map(str, range(5_000)))

    async def later() -> str:
        return sync()

    def soon() -> Awaitable[str]:
        return later()

    for function in (sync, later, soon):
        made = Tool(name="lines", description="", execute_fn=lambda _args, run=function: run())
        text = (await made.run({})).text
        assert "[… 3,000 lines left out …]" in text
        assert text.endswith("\n4999")


def test_a_data_frame_shows_shape_types_and_both_ends() -> None:
    frame = pd.DataFrame({"number": range(10_000), "name": "x" * 1_000})
    text = as_output(frame).text
    assert text.startswith("[DataFrame, 10,000 rows x 2 columns: number: int64, name: ")
    assert "\n0 " in text
    assert "\n9999 " in text
    assert len(text) < 6_000
    wide = as_output(pd.DataFrame([[0] * 5_000])).text
    assert "1 rows x 5,000 columns: 0: int64," in wide
    assert "4,900 more]" in wide
    assert len(wide) < 3_000
    series = as_output(frame["number"]).text
    assert series.startswith("[Series 'number', 10,000 values, int64]\n0 ")
    assert "\n9999 " in series
    assert as_output(pd.DataFrame()).text.startswith("[DataFrame, 0 rows x 0 columns")
    both = as_output({"table": frame.head(1), "n": 1}).text
    assert json.loads(both)["table"].startswith("[DataFrame, 1 rows x 2 columns")


def test_a_large_array_shows_its_shape() -> None:
    assert as_output(np.zeros((100, 100))).text.startswith("[ndarray, shape (100, 100), float64]\n[[0.")


def test_values_that_are_images_become_images() -> None:
    data = png(6, 4)
    for value in (data, bytearray(data), memoryview(data), ImagePart(data), Shows(data), Shows((data, {}))):
        output = as_output(value)
        assert output.text == "[image 6x4 png]"
        assert output.images == (ImagePart(data),)
    encoded = base64.b64encode(data).decode()
    assert as_output(Shows(encoded)).images == (ImagePart(data),)
    assert as_output(ImagePart(url="http://localhost/x.png")).text == "[image http://localhost/x.png]"
    assert as_output(ImagePart("not base64!")) == ToolOutput(
        "[image png, 8 bytes: left out, because its data is not base64]"
    )


@pytest.mark.parametrize("data", [GIF, JPEG, *WEBP.values()])
def test_the_size_of_an_image_is_read(data: bytes) -> None:
    kind = format_of(data)
    assert kind
    assert size_of(data) == ((7, 5) if kind == "gif" else (64, 48))
    assert as_output(data).images == (ImagePart(data, f"image/{kind}"),)
    for length in range(len(data)):
        size_of(data[:length])
    cut = data[: 8 if kind == "gif" else 16]
    assert as_output(cut).images == ()
    assert as_output(cut).text.startswith(f"[image {kind}, {len(cut)} bytes: left out, because it ")


BROKEN = (
    (ImagePart(png(9, 9)[:-20]), "png, .* because it is cut off"),
    (ImagePart(png(9, 9)[:33]), "png, .* because it is cut off"),
    (ImagePart(png(9, 9).replace(b"IDAT", b"IDAX")), "png, .* because it is damaged"),
    (ImagePart(b"\x89PNG\r\n\x1a\n" + b"x" * 400), "png, .* because it is (cut off|damaged)"),
    (ImagePart(png(9_000, 2)), "png, .* because it is 9,000 x 2 pixels, and 8,000 a side are the most; scale it down"),
    (ImagePart(JPEG[:-2], "image/jpeg"), "jpeg, .* because it is cut off"),
    (ImagePart(GIF[:-9], "image/gif"), "gif, .* because it is cut off"),
    (ImagePart(b"RIFF\xff\xff\0\0WEBP", "image/webp"), "webp, .* because it is cut off"),
    (ImagePart(b"BM" + b"\0" * 90), "bmp, .* because it is bmp, which models cannot read; convert it to PNG or JPEG"),
    (ImagePart(b"II*\0" + b"\0" * 90, "image/tiff"), "tiff, .* because it is tiff"),
    (ImagePart(b"<svg xmlns='x'/>", "image/svg+xml"), "svg, .* because it is svg"),
    (ImagePart(b"\0\0\0\x18ftypheic", "image/heic"), "heic, .* because it is heic"),
    (ImagePart(b"<html>404</html>"), "png, .* because its bytes are not an image"),
    (ImagePart(b"", "image/png"), "png, 0 bytes: left out, because it is empty"),
)


@pytest.mark.parametrize(("image", "words"), BROKEN)
def test_an_image_that_cannot_be_decoded_becomes_words(image: ImagePart, words: str) -> None:
    output = as_output(["seen:", image])
    assert output.images == ()
    assert re.fullmatch(rf"seen:\n\[image {words}.*\]", output.text)


def test_an_image_of_another_format_than_declared_gets_its_true_type() -> None:
    assert as_output(ImagePart(JPEG, "image/png")).images == (ImagePart(JPEG, "image/jpeg"),)
    assert as_output(ImagePart(png(2, 2), "image/jpg")).images == (ImagePart(png(2, 2), "image/png"),)


def test_text_and_images_may_be_mixed() -> None:
    data = png(2, 2)
    output = as_output(["before", data, {"n": 1}, TextPart("after"), ToolOutput("deeper", (ImagePart(png(1, 1)),))])
    assert output.text == 'before\n[image 2x2 png]\n{"n":1}\nafter\ndeeper'
    assert output.images == (ImagePart(data), ImagePart(png(1, 1)))
    output = as_output({"plot": Shows(data), "n": [Shows(data)], "raw": data})
    assert json.loads(output.text) == {"plot": "[image 2x2 png]", "n": ["[image 2x2 png]"], "raw": "[image 2x2 png]"}
    assert output.images == (ImagePart(data),)
    assert as_output(ToolOutput("x" * 60_000)).text.count("x") == MAX_RESULT_CHARACTERS


def test_images_are_bounded_in_size_and_number() -> None:
    output = as_output(png(3, 3, b"\0" * MAX_IMAGE_BYTES))
    assert output.images == ()
    assert output.text.startswith("[image 3x3 png, 3,750,")
    assert "return a smaller one" in output.text
    output = as_output([png(1, 1, bytes([number])) for number in range(MAX_IMAGES + 1)])
    assert len(output.images) == MAX_IMAGES
    assert output.text.endswith("[image 1x1 png: left out, because 20 images are the most]")


@pytest.mark.process
def test_figures_are_drawn() -> None:  # matplotlib asks a program for fonts
    figures = pytest.importorskip("matplotlib.figure", reason="install matplotlib to see figures drawn")
    figure = figures.Figure(figsize=(2, 1))
    axes = figure.subplots()
    (line,) = axes.plot([1, 2])
    drawn = as_output(figure)
    assert drawn.text.startswith("[image ")
    assert format_of(base64.b64decode(drawn.images[0].data or "")) == "png"
    assert as_output([axes, line]).images == drawn.images


def test_objects_of_other_libraries_are_shown() -> None:
    polars = pytest.importorskip("polars", reason="install polars to see its frames")
    assert "shape: (10_000, 1)" in as_output(polars.DataFrame({"a": range(10_000)})).text
    image = pytest.importorskip("PIL.Image", reason="install pillow to see its images").new("RGB", (8, 4))
    assert as_output(image).text == "[image 8x4 png]"


def test_nothing_a_value_does_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_value: object) -> str:
        raise MemoryError

    monkeypatch.setattr(tool_output, "table_text", fail)
    assert as_output(Plain()).text == "[Plain that cannot be shown: MemoryError]"


async def test_what_tools_return_reaches_the_model_and_the_log() -> None:
    script: list[Reply | str] = [Reply(calls=[Call("draw", {}), Call("odd", {}), Call("huge", {})]), "seen"]
    data = png(6, 4)

    def draw() -> object:
        return ["a plot", data]

    def odd() -> object:
        return Rude()

    def huge() -> str:
        return "x" * 300_000_000

    agent = Agent(model=scripted_model(script), tools=[draw, odd, huge])
    events = [event async for event in agent.prompt("go")]
    messages = [event.message for event in events if event.type == "message"]
    (results,) = (message.content for message in messages if isinstance(message, ToolResultMessage))
    drawn, strange, long = results
    assert (drawn.text, drawn.images) == ("a plot\n[image 6x4 png]", (ImagePart(data),))
    assert (strange.text, strange.is_error) == ("[Rude that cannot be shown: RuntimeError]", False)
    assert len(long.text) < MAX_RESULT_CHARACTERS
    assert "299,962,500 characters left out" in long.text
    shown = [event.result for event in events if event.type == "tool_end"]
    assert sorted(shown) == sorted(result.text for result in results)


async def test_what_a_tool_says_of_its_failure_is_bounded_and_can_be_sent() -> None:
    def fail() -> None:
        raise ValueError("\ud800" + "x" * 10 * MAX_RESULT_CHARACTERS)

    agent = Agent(model=scripted_model([Reply(calls=[Call("fail", {})]), "done"]), tools=[fail])
    result = (await agent.prompt("go")).messages[2]
    assert isinstance(result, ToolResultMessage)
    text = result.content[0].text
    assert text.startswith("Error: ValueError: ?xxx")
    assert len(text) < 2 * MAX_RESULT_CHARACTERS


async def test_arguments_are_converted_once() -> None:
    schema = {"type": "object", "properties": {"list": {"type": "array"}}, "required": ["list"]}
    tool = Tool(
        name="t",
        description="d",
        parameters=schema,
        execute_fn=lambda args: str(args["list"]),
        accept=lambda args: {"list": [args["item"]]},
    )
    assert (await tool.run({"item": 1})).text == "[1]"
    tool.check({"item": 1})
