"""Show a notebook file as cells.

Otherwise pictures and JSON would crowd out its code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from planck_nb.agent.calling.tool_output import MAX_RESULT_CHARACTERS, MAX_RESULT_LINES, ToolOutput, as_output
from planck_nb.ai.messages import ImagePart
from planck_nb.base.secrets import around_secret
from planck_nb.base.text import counted, head_and_tail, one_line

MAX_BYTES = 64 * 1024 * 1024
"""Bytes in a notebook; a larger file is read as text."""

_RESERVED = 500
"""Characters for the notes around the cells.

Lines are kept back, too: one for a few characters.
"""

_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
"""Colours in programs' output, and other invisible characters."""

_DATA_ADDRESS = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,([A-Za-z0-9+/=\s]{100,})")
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml")
_SHOWN_IMAGES = _IMAGES[:4]
_TEXTS = ("text/markdown", "text/latex", "text/plain")
"""Text formats in an output, the best first."""

_HEADINGS = {"stdout": "output", "stderr": "stderr", "execute_result": "result", "display_data": "output"}


@dataclass(frozen=True, slots=True)
class _Bounds:
    """A cell's longest source and longest output, as characters and lines."""

    source: tuple[int, int]
    output: tuple[int, int]


_MANY = _Bounds((8_000, 300), (2_000, 40))
_ONE = _Bounds((30_000, 1_200), (15_000, 500))
"""Bounds where only one cell is read."""


def show_notebook(content: bytes, *, offset: int = 0, limit: int | None = None) -> ToolOutput | None:
    """Show a notebook's cells, with their numbers, ids and outputs.

    Args:
        content: The file's bytes.
        offset: How many cells to skip.
        limit: The largest number of cells. A single cell is shown with its pictures, and with longer outputs.

    Returns:
        The cells as text, and a single cell's pictures; None if the content is not a notebook.

    Example:
        >>> notebook = {"cells": [{"cell_type": "code", "id": "a1", "source": "1 + 1", "outputs": []}]}
        >>> print(show_notebook(json.dumps(notebook).encode()).text.partition("]")[2].strip())
        [cell 0, code, id a1]
        1 + 1
    """
    cells, language = _read(content)
    if cells is None:
        return None
    rules = "`offset` and `limit` count cells, and `limit`: 1 adds pictures; `edit` needs the text of the JSON"
    heading = f"[notebook: {counted(len(cells), 'cell')}{language}; {rules}]"
    texts, images = [heading], list[ImagePart]()
    end = len(cells) if limit is None else min(offset + limit, len(cells))
    bounds = _ONE if limit == 1 else _MANY
    characters, lines = MAX_RESULT_CHARACTERS - _RESERVED, MAX_RESULT_LINES - _RESERVED // 20
    for number in range(offset, end):
        pieces = list(_pieces(number, cells[number], bounds, with_images=limit == 1))
        text = "\n".join(piece for piece in pieces if isinstance(piece, str))
        images += (piece for piece in pieces if isinstance(piece, ImagePart))
        characters -= len(text) + 2
        lines -= text.count("\n") + 2
        if len(texts) > 1 and min(characters, lines) < 0:
            texts.append(f"[… cut here; read on with offset={number} …]")
            break
        texts.append(text)
    text = "\n\n".join(texts)
    return as_output([text, *images] if images else text)


def _read(content: bytes) -> tuple[list[Any] | None, str]:
    """Read the cells, and " in python" for the language.

    The cells are None if the content is not a notebook.
    """
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None, ""
    if not isinstance(data, dict):
        return None, ""
    cells = data.get("cells")
    if cells is None and isinstance(sheets := data.get("worksheets"), list):  # before format 4, from 2014
        cells = [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells") or ()]
    metadata = data.get("metadata")
    language = ""
    for part in ("language_info", "kernelspec"):
        facts = metadata.get(part) if isinstance(metadata, dict) else None
        name = facts.get("name" if part == "language_info" else "language") if isinstance(facts, dict) else None
        language = language or (f" in {one_line(name, 40)}" if isinstance(name, str) and name else "")
    return (cells if isinstance(cells, list) else None), language


def _pieces(number: int, cell: Any, bounds: _Bounds, *, with_images: bool) -> Iterator[str | ImagePart]:  # noqa: ANN401 - JSON data
    if not isinstance(cell, dict):
        yield f"[cell {number}, which cannot be read]"
        return
    count = cell.get("execution_count", cell.get("prompt_number"))
    facts = [f"cell {number}", _word(cell.get("cell_type")) or "unknown"]
    facts += [f"id {identifier}"] if (identifier := _word(cell.get("id"))) else []
    facts += [f"run {count}"] if isinstance(count, int) else []
    yield f"[{', '.join(facts)}]"
    source = _DATA_ADDRESS.sub(_described_address, _text(cell.get("source", cell.get("input"))))
    if source.strip():
        yield _bounded(source, bounds.source)
    attachments = cell.get("attachments")
    for name, bundle in attachments.items() if isinstance(attachments, dict) else ():
        if isinstance(bundle, dict):
            yield from (f"[attachment {one_line(str(name))}: {_size(mime, data)}]" for mime, data in bundle.items())
    outputs = cell.get("outputs")
    for output in _joined(outputs) if isinstance(outputs, list) else ():
        yield from _output_pieces(output, bounds, with_images=with_images)


def _joined(outputs: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the outputs, neighbouring ones on the same stream as one."""
    before: dict[str, Any] | None = None
    for output in outputs:
        if not isinstance(output, dict):
            continue
        if before is not None and _stream(before) is not None and _stream(before) == _stream(output):
            before = {**before, "text": _text(before.get("text")) + _text(output.get("text"))}
            continue
        if before is not None:
            yield before
        before = output
    if before is not None:
        yield before


def _stream(output: dict[str, Any]) -> str | None:
    """Return an output's stream name."""
    return str(output.get("name", output.get("stream", "stdout"))) if output.get("output_type") == "stream" else None


def _output_pieces(output: dict[str, Any], bounds: _Bounds, *, with_images: bool) -> Iterator[str | ImagePart]:
    stream, kind = _stream(output), _word(output.get("output_type"))
    data = output.get("data")
    bundle: dict[str, Any] = data if isinstance(data, dict) else {}
    if kind in {"error", "pyerr"}:
        yield "[error]"
        lines = output.get("traceback")
        text = "\n".join(map(str, lines)) if isinstance(lines, list) else ""
        yield _bounded(text or f"{output.get('ename')}: {output.get('evalue')}", bounds.output)
        return
    yield f"[{_HEADINGS.get(stream or kind, 'output')}]"
    text = _text(output.get("text")) or next((text for mime in _TEXTS if (text := _text(bundle.get(mime)))), "")
    if text.strip():
        yield _bounded(_DATA_ADDRESS.sub(_described_address, text), bounds.output)
    images = [mime for mime in _IMAGES if mime in bundle]
    for mime in images or ([] if text.strip() else bundle):
        yield f"[{_size(mime, bundle[mime])}]"
        if with_images and mime in _SHOWN_IMAGES:
            yield ImagePart("".join(_text(bundle[mime]).split()), mime)


def _text(value: Any) -> str:  # noqa: ANN401 - JSON data
    """Return a text, which notebooks may have as a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _word(value: Any) -> str:  # noqa: ANN401 - JSON data
    return one_line(value, 64) if isinstance(value, str) else ""


def _size(mime: str, data: Any) -> str:  # noqa: ANN401 - JSON data
    """Return the data's kind and size, for example "image/png 20 kB"."""
    text = _text(data) if isinstance(data, str | list) else json.dumps(data)
    if mime in _SHOWN_IMAGES:
        digits = "".join(text.split())
        size = len(digits) * 3 // 4 - digits[-2:].count("=")
    else:
        size = len(text.encode("utf-8", "replace"))
    return f"{one_line(mime)} {size / 1_000:,.0f} kB" if size >= 1_000 else f"{one_line(mime)} {size} bytes"  # noqa: PLR2004


def _described_address(match: re.Match[str]) -> str:
    return f"[{_size(match[1] if match[1] in _SHOWN_IMAGES else 'image/png', match[2])} as text]"


def _bounded(text: str, bounds: tuple[int, int]) -> str:
    """Return a text as a terminal would show it.

    A long one loses its middle.
    """
    rows = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))  # a progress bar writes over itself
    visible_text = _CONTROL.sub("", "\n".join(rows)).rstrip("\n")
    return head_and_tail(visible_text, characters=bounds[0], lines=bounds[1], around=around_secret)
