"""`read` shows a notebook as cells: numbers, ids, sources, bounded outputs, and pictures by their size."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from planck_nb import BuiltinTools
from planck_nb.agent.calling.tool_output import ToolOutput
from planck_nb.tools.files import Files

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PICTURE = base64.b64encode(PNG).decode()
LARGE = base64.b64encode(bytes(30_000)).decode()


def cell(source: object, *outputs: dict[str, Any], kind: str = "code", **more: Any) -> dict[str, Any]:
    extra = {"outputs": list(outputs), "execution_count": 3} if kind == "code" else {}
    return {"cell_type": kind, "id": "ab12", "metadata": {}, "source": source, **extra, **more}


def stream(text: object, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def shown(**data: object) -> dict[str, Any]:
    bundle = {key.replace("_", "/", 1).replace("_", "+"): value for key, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": bundle}


def notebook(*cells: Any, **more: Any) -> dict[str, Any]:
    language = {"language_info": {"name": "python"}}
    return {"cells": list(cells), "metadata": language, "nbformat": 4, "nbformat_minor": 5, **more}


CODE = "[cell 0, code, id ab12, run 3]"

CELLS: dict[str, tuple[dict[str, Any], str]] = {
    "code": (cell("x = 1"), f"{CODE}\nx = 1"),
    "lines": (cell(["x = 1\n", "y = 2"]), f"{CODE}\nx = 1\ny = 2"),
    "markdown": (cell("# Sales", kind="markdown"), "[cell 0, markdown, id ab12]\n# Sales"),
    "an empty cell": (cell(""), CODE),
    "a cell that has not run": (cell("x", execution_count=None), "[cell 0, code, id ab12]\nx"),
    "a cell without an id": ({"cell_type": "raw", "source": "x"}, "[cell 0, raw]\nx"),
    "a stream": (cell("f()", stream("loss 0.031\n")), f"{CODE}\nf()\n[output]\nloss 0.031"),
    "streams in parts": (
        cell("f()", stream(["a\n"]), stream("b\n"), stream("no\n", "stderr"), stream("c")),
        f"{CODE}\nf()\n[output]\na\nb\n[stderr]\nno\n[output]\nc",
    ),
    "a progress bar": (cell("f()", stream("\r 10%\r 20%\r100%\ndone\r\n")), f"{CODE}\nf()\n[output]\n100%\ndone"),
    "colours": (cell("f()", stream("\x1b[31mred\x1b[0m \x07!")), f"{CODE}\nf()\n[output]\nred !"),
    "a result": (
        cell("1 + 1", {**shown(text_plain="2"), "output_type": "execute_result"}),
        f"{CODE}\n1 + 1\n[result]\n2",
    ),
    "a table": (
        cell("df", shown(text_html="<table>" + "x" * 5_000, text_plain=["   a\n", "0  1"])),
        f"{CODE}\ndf\n[output]\n   a\n0  1",
    ),
    "a picture": (
        cell("plot()", shown(image_png=LARGE, text_plain="<Figure>")),
        f"{CODE}\nplot()\n[output]\n<Figure>\n[image/png 30 kB]",
    ),
    "a picture in lines": (
        cell("", shown(image_png=[LARGE[:76], "\n", LARGE[76:]])),
        f"{CODE}\n[output]\n[image/png 30 kB]",
    ),
    "a drawing": (cell("", shown(image_svg_xml="<svg>" + "x" * 2_000)), f"{CODE}\n[output]\n[image/svg+xml 2 kB]"),
    "only HTML": (cell("", shown(text_html="<b>hi</b>")), f"{CODE}\n[output]\n[text/html 9 bytes]"),
    "a widget": (
        cell("", shown(**{"application_vnd.jupyter.widget-view": {"model_id": "1"}})),
        f"{CODE}\n[output]\n[application/vnd.jupyter.widget-view 17 bytes]",
    ),
    "an error": (
        cell(
            "1 / 0", {"output_type": "error", "ename": "Z", "evalue": "no", "traceback": ["\x1b[0;31mZ\x1b[0m", "no"]}
        ),
        f"{CODE}\n1 / 0\n[error]\nZ\nno",
    ),
    "an error without a traceback": (
        cell("1 / 0", {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "no"}),
        f"{CODE}\n1 / 0\n[error]\nZeroDivisionError: no",
    ),
    "an attachment": (
        cell("![x](attachment:x.png)", kind="markdown", attachments={"x.png": {"image/png": LARGE}}),
        "[cell 0, markdown, id ab12]\n![x](attachment:x.png)\n[attachment x.png: image/png 30 kB]",
    ),
    "a picture in the text": (
        cell(f"![x](data:image/png;base64,{LARGE}) after", kind="markdown"),
        "[cell 0, markdown, id ab12]\n![x]([image/png 30 kB as text]) after",
    ),
    "nonsense": (
        {"cell_type": 1, "source": {"a": 1}, "outputs": [3, {"output_type": []}, {"data": [1]}], "attachments": [2]},
        "[cell 0, unknown]\n[output]\n[output]",
    ),
    "no cell": ([], "[cell 0, which cannot be read]"),  # type: ignore[dict-item]
}
"""A cell, and how it is shown."""


async def read(folder: Path, content: object, name: str = "a.ipynb", **args: int) -> ToolOutput:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / name).write_bytes(data)
    return await BuiltinTools.read(cwd=folder, files=Files()).run({"path": name, **args})


@pytest.mark.parametrize("case", CELLS)
async def test_a_cell_is_shown(tmp_path: Path, case: str) -> None:
    data, expected = CELLS[case]
    heading, text = (await read(tmp_path, notebook(data))).text.split("\n\n", 1)
    assert heading.startswith("[notebook: 1 cell in python; ")
    assert text == expected


async def test_cells_are_read_by_number(tmp_path: Path) -> None:
    cells = notebook(*(cell(f"x = {number}") for number in range(10)))
    text = (await read(tmp_path, cells, offset=7, limit=2)).text
    assert [line for line in text.splitlines() if line.startswith("x")] == ["x = 7", "x = 8"]
    assert "[cell 7, code, id ab12, run 3]" in text
    assert (await read(tmp_path, cells, offset=10)).text.count("\n") == 0
    assert (await read(tmp_path, notebook())).text.startswith("[notebook: 0 cells in python; ")


async def test_a_long_notebook_comes_in_parts(tmp_path: Path) -> None:
    cells = notebook(*(cell(f"{number}\n" + "y" * 900, stream("z\n" * 100)) for number in range(200)))
    seen: list[int] = []
    offset = 0
    while True:
        text = (await read(tmp_path, cells, offset=offset)).text
        assert len(text) <= 50_000
        assert "lines left out …]" in text
        seen += [int(line.split()[1][:-1]) for line in text.splitlines() if line.startswith("[cell ")]
        if "[… cut here; read on with offset=" not in text:
            break
        offset = int(text.rpartition("offset=")[2].split()[0])
    assert seen == list(range(200))


async def test_a_single_cell_is_shown_with_its_pictures_and_longer_outputs(tmp_path: Path) -> None:
    cells = notebook(cell("a"), cell("plot()", shown(image_png=PICTURE), stream("line\n" * 300)))
    many = await read(tmp_path, cells)
    assert (many.images, "[… 260 lines left out …]" in many.text) == ((), True)
    one = await read(tmp_path, cells, offset=1, limit=1)
    assert [(image.mime, image.data) for image in one.images] == [("image/png", PICTURE)]
    assert "left out" not in one.text
    assert "[image/png 70 bytes]" in one.text
    broken = await read(tmp_path, notebook(cell("plot()", shown(image_png=LARGE))), limit=1)
    assert (broken.images, "because its bytes are not an image" in broken.text) == ((), True)


async def test_a_notebook_before_format_4(tmp_path: Path) -> None:
    old = {
        "metadata": {"name": "old"},
        "nbformat": 3,
        "worksheets": [
            {
                "cells": [
                    {"cell_type": "heading", "level": 1, "source": ["Sales"]},
                    {
                        "cell_type": "code",
                        "input": ["x"],
                        "prompt_number": 2,
                        "outputs": [{"output_type": "pyout", "text": ["1"], "png": "AAAA"}],
                    },
                ]
            }
        ],
    }
    text = (await read(tmp_path, old)).text
    assert text.split("\n\n", 1)[1] == "[cell 0, heading]\nSales\n\n[cell 1, code, run 2]\nx\n[output]\n1"


OTHERS = {
    "a conflict": b'{\n "cells": [\n<<<<<<< HEAD\n  {}\n=======\n>>>>>>> main\n ]\n}\n',
    "an empty file": b"",
    "other JSON": b'{"a": 1}\n',
    "a list": b"[1]\n",
    "cells of another kind": b'{"cells": 3}\n',
    "deep JSON": b"[" * 100_000,
}
"""Files which are named like a notebook and are none."""


@pytest.mark.parametrize("case", OTHERS)
async def test_a_file_that_is_no_notebook_is_text(tmp_path: Path, case: str) -> None:
    output = await read(tmp_path, OTHERS[case])
    assert output.text.startswith(OTHERS[case].decode()[:40])
    assert "[notebook" not in output.text


async def test_only_the_name_makes_a_notebook(tmp_path: Path) -> None:
    assert (await read(tmp_path, notebook(cell("x")), "a.json")).text.startswith('{"cells"')


async def test_a_notebook_can_be_edited_after_it_was_read(tmp_path: Path) -> None:
    files = Files()
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook(cell("x = 1"))))
    await BuiltinTools.read(cwd=tmp_path, files=files).run({"path": "a.ipynb"}, agent_id="a")
    args = {"path": "a.ipynb", "old_string": '"x = 1"', "new_string": '"x = 2"'}
    await BuiltinTools.edit(cwd=tmp_path, files=files).run(args, agent_id="a")
    assert "x = 2" in (await BuiltinTools.read(cwd=tmp_path, files=files).run({"path": "a.ipynb"})).text
