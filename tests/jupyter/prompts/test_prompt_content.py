"""What prompts carry: values in words, images, and the type of a structured answer."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest
from IPython.display import Image as NotebookImage
from matplotlib.figure import Figure
from PIL import Image
from pydantic import BaseModel
from typing_extensions import TypedDict

from planck_nb import Config, Workspace
from planck_nb.ai.messages import ImagePart, UserMessage
from planck_nb.base.errors import PlanckError, UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.parsing.options import read_line
from planck_nb.jupyter.prompts.output_types import output_type

mpl.use("agg")


def image(kind: str = "PNG", size: tuple[int, int] = (4, 3)) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", size, "red").save(target, kind)
    return target.getvalue()


def figure() -> Figure:
    drawn = Figure()
    drawn.add_subplot().plot([1, 2])
    return drawn


class Drawn:
    def _repr_png_(self) -> bytes:
        return image()


class DrawnNot:
    def _repr_png_(self) -> None:
        return None

    def __repr__(self) -> str:
        return "not drawn"


@pytest.fixture
async def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Controller]:
    monkeypatch.chdir(tmp_path)
    async with Workspace(Config(tmp_path, root=tmp_path)) as workspace:
        seeing = replace(workspace.model("demo"), modalities=("text", "image"))
        workspace.add_agent("planck", model=seeing)
        workspace.add_agent("blind", model=replace(seeing, modalities=("text",)))
        yield Controller(workspace)


async def sent(controller: Controller, line: str, **names: Any) -> tuple[UserMessage, str]:
    """The message of a prompt, and what the cell shows first."""
    read = read_line(line, controller.recipients)
    started = await controller.start(read.text, read.options, names)
    await started.run.wait()
    (message,) = [event.message for event in started.run.events.since(0) if event.type == "message"][:1]
    assert isinstance(message, UserMessage)
    return message, started.notice


def images(message: UserMessage) -> list[ImagePart]:
    return [part for part in message.content if isinstance(part, ImagePart)]


IMAGES = {
    "figure": (figure, "image/png"),
    "axes": (lambda: figure().axes[0], "image/png"),
    "pillow": (lambda: Image.new("RGB", (4, 3)), "image/png"),
    "pillow cmyk": (lambda: Image.new("CMYK", (4, 3)), "image/png"),
    "huge pillow": (lambda: Image.effect_noise((2400, 2400), 200).convert("RGB"), "image/jpeg"),
    "notebook image": (lambda: NotebookImage(image()), "image/png"),
    "notebook gif": (lambda: NotebookImage(image("GIF"), format="gif"), "image/gif"),
    "png": (image, "image/png"),
    "jpeg": (lambda: image("JPEG"), "image/jpeg"),
    "webp": (lambda: bytearray(image("WEBP")), "image/webp"),
    "part": (lambda: ImagePart(image()), "image/png"),
    "draws itself": (Drawn, "image/png"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGES)
async def test_images_are_sent_as_images(controller: Controller, name: str) -> None:
    make, mime = IMAGES[name]
    message, notice = await sent(controller, "What is in @it?", it=make())
    (image,) = images(message)
    assert image.mime == mime
    assert Image.open(io.BytesIO(base64.b64decode(image.data or ""))).size != (0, 0)
    assert message.text == "What is in @it?\n\n`it` is this image:"
    assert "As images: @it (" in notice
    assert mime.removeprefix("image/").upper() in notice


@pytest.mark.slow
async def test_a_model_that_accepts_no_images_gets_words(controller: Controller) -> None:
    message, notice = await sent(controller, "blind what is in @fig and @it?", fig=figure(), it=Image.new("L", (4, 3)))
    assert not images(message)
    assert "`fig` is a Figure" in message.text
    assert "demo:demo does not accept images; @fig, @it is described in words." in notice


async def test_a_path_is_text_and_image(controller: Controller, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(image())
    message, _ = await sent(controller, "See @path", path=tmp_path / "a.png")
    assert len(images(message)) == 1
    assert "a.png" in message.text
    (tmp_path / "b.png").write_bytes(b"no image")
    message, notice = await sent(controller, "See @path", path=str(tmp_path / "b.png"))
    assert not images(message)
    assert "@path is sent as text only." in notice
    message, _ = await sent(controller, "See @path", path="missing.png")
    assert not images(message)


async def test_what_has_no_image_after_all_is_text(controller: Controller) -> None:
    message, _ = await sent(controller, "See @it", it=DrawnNot())
    assert not images(message)
    assert "not drawn" in message.text


class Slow:
    def _repr_png_(self) -> bytes:
        raise RuntimeError("no image")


async def test_an_image_that_cannot_be_drawn_is_one_sentence(controller: Controller) -> None:
    for value, sentence in (
        (Slow(), "@it cannot be sent as an image: RuntimeError: no image."),
        (image()[:40], "@it cannot be sent as an image, because it is cut off."),
        (image(size=(9_000, 1)), "because it is 9,000 x 1 pixels"),
    ):
        with pytest.raises(UsageError, match=sentence.replace("(", r"\(")):
            await sent(controller, "See @it", it=value)


async def test_files_are_sent(controller: Controller, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(image())
    (tmp_path / "two words.jpg").write_bytes(image("JPEG"))
    line = "--image a.png -i 'two words.jpg' --image=a.png Compare them"
    message, notice = await sent(controller, line)
    assert [image.mime for image in images(message)] == ["image/png", "image/jpeg"]
    assert message.text == "Compare them\n\n`a.png` is this image:\n\n`two words.jpg` is this image:"
    assert "As images: a.png (4 x 3 PNG), two words.jpg (4 x 3 JPEG)" in notice


async def test_a_file_with_the_wrong_name_is_what_its_bytes_are(controller: Controller, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(image("JPEG"))
    message, _ = await sent(controller, "--image a.png See")
    assert images(message)[0].mime == "image/jpeg"


FILES = {
    "--image phto.png See": "There is no file phto.png. Did you mean photo.png",
    "--image . See": "is a folder",
    "--image notes.txt See": "because its bytes are not an image",
    "--image empty.png See": "The file empty.png is empty.",
    "--image large.png See": "large.png has 4,000,000 bytes, and 3,750,000 are the most",
    "--image https://example.com/a.png See": "--image needs a file, not the address",
    "--image": "--image needs a value: --image FILE.",
    "blind --image photo.png See": "demo:demo does not accept images, so photo.png cannot be sent",
    "--image a\0b.png See": "There is no file",
}


@pytest.mark.parametrize("line", [line for line, sentence in FILES.items() if sentence])
async def test_a_bad_file_is_one_sentence_and_nothing_is_sent(
    controller: Controller, tmp_path: Path, line: str
) -> None:
    (tmp_path / "photo.png").write_bytes(image())
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "empty.png").touch()
    (tmp_path / "large.png").write_bytes(bytes(4_000_000))
    with pytest.raises(PlanckError) as raised:
        await sent(controller, line)
    assert FILES[line] in str(raised.value)
    assert all(not agent.state.messages for agent in controller.workspace.agents.values())


async def test_too_many_images(controller: Controller, tmp_path: Path) -> None:
    for number in range(21):
        (tmp_path / f"{number}.png").write_bytes(image(size=(number + 1, 1)))
    with pytest.raises(UsageError, match=r"The prompt has 21 images, and 20 are the most."):
        await sent(controller, " ".join(f"--image {number}.png" for number in range(21)) + " See")


async def test_tables_have_types_and_missing_values(controller: Controller) -> None:
    message, notice = await sent(controller, "See @df", df=pd.DataFrame({"price": [1.5, None]}))
    assert "price: float64, 1 missing" in message.text
    assert "With: df (DataFrame 2 \u00d7 1)" in notice


class Hostile:
    def __repr__(self) -> str:
        time.sleep(30)
        return ""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no")


@pytest.mark.slow
async def test_hostile_values_do_no_harm(controller: Controller) -> None:
    message, _ = await sent(controller, "See @it", it=Hostile())
    assert "cannot be shown: it took longer than " in message.text
    with pytest.raises(UsageError, match="cannot be inserted: it took longer"):
        await sent(controller, "--expand See {it!r}", it=Hostile())
    with pytest.raises(UsageError, match="reading it would compute it"):
        await sent(controller, "--expand See {it}", it=(number for number in [1]))


async def test_a_secret_by_its_name_is_refused(controller: Controller) -> None:
    message, notice = await sent(controller, "See @api_key and @config", api_key="abcdefgh", config={"password": "hun"})
    assert "abcdefgh" not in message.text
    assert "hun" not in message.text
    assert "@api_key looks like a secret and is not passed to the agent" in notice


class Invoice(BaseModel):
    number: int
    total: float


@dataclass
class Line:
    name: str


class Row(TypedDict):
    name: str


NAMES: dict[str, Any] = {
    "Invoice": Invoice,
    "Line": Line,
    "Row": Row,
    "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "df": pd.DataFrame(),
    "bad_schema": {"type": "nothing"},
    "add": lambda: 1,
    "Figure": Figure,
}


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("Invoice", Invoice),
        ("Line", Line),
        ("Row", Row),
        ("list[Invoice]", list[Invoice]),
        ("dict[str, Invoice]", dict[str, Invoice]),
        ("Invoice | None", Invoice | None),
        ("int", int),
        ("schema", NAMES["schema"]),
    ],
)
def test_types_of_answers(written: str, found: object) -> None:
    assert output_type(written, NAMES) == found


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("Invioce", "There is no type named Invioce. Did you mean Invoice"),
        ("df", "df is a value of type DataFrame 0 \u00d7 0"),
        ("add", "add is a value of type function"),
        ("Figure", "Figure is a type that JSON cannot be parsed into"),
        ("bad_schema", "bad_schema is a type that JSON cannot be parsed into"),
        ("print('x')", "is not the name of a type"),
        ("Invoice(", "is not the name of a type"),
        ("[Invoice]", "is not the name of a type"),
        ("Invoice[int]", "is not the name of a type"),
    ],
)
def test_what_is_no_type_is_one_sentence(written: str, sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        output_type(written, NAMES)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_a_structured_answer(controller: Controller) -> None:
    read = read_line("--output Invoice Make an invoice", controller.recipients)
    started = await controller.start(read.text, read.options, NAMES)
    output: object = (await started.run).output
    assert isinstance(output, Invoice)
