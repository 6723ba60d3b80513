"""Notebooks as Markdown: `jupyter nbconvert --to planck-markdown notebook.ipynb`."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import PurePosixPath
from typing import Any

from nbconvert.exporters import MarkdownExporter
from nbconvert.preprocessors import Preprocessor

from planck_nb.rendering.block_text import IMAGE_MARK

_IMAGE = re.compile(r'<img src="data:image/(\w+);base64,([A-Za-z0-9+/=]+)"')


class AnswersAsMarkdown(Preprocessor):
    """Keep the Markdown in saved answers, and drop their HTML.

    The usual exporter prefers HTML, whose inline styles fill pages. Pictures become files.
    """

    enabled = True

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:  # noqa: ANN401 - nbconvert has no types
        """Drop HTML from a cell's answers."""
        for place, output in enumerate(cell.get("outputs", ())):
            data = output.get("data", {})
            if "planck_nb" in output.get("metadata", {}) and "text/markdown" in data:
                pictures = _IMAGE.findall("".join(data.pop("text/html", "")))
                data["text/markdown"] = _with_files("".join(data["text/markdown"]), pictures, resources, (index, place))
        return cell, resources


def _with_files(text: str, pictures: list[tuple[str, str]], resources: Any, place: tuple[int, int]) -> str:  # noqa: ANN401
    """Return Markdown with pictures as files."""
    pieces = text.split(IMAGE_MARK)
    if len(pieces) != len(pictures) + 1:  # one was too large to be saved
        return text
    texts = [pieces[0]]
    for number, ((kind, content), piece) in enumerate(zip(pictures, pieces[1:], strict=True)):
        name = f"{resources.get('unique_key', 'answer')}_{place[0]}_{place[1]}_{number}.{kind}"
        path = str(PurePosixPath(resources.get("output_files_dir") or "", name))
        outputs = resources.get("outputs")
        resources["outputs"] = {**(outputs if isinstance(outputs, dict) else {}), path: b64decode(content)}
        texts += [f"![image]({path})", piece]
    return "".join(texts)


class PlanckMarkdownExporter(MarkdownExporter):
    """The usual Markdown exporter, with readable answers.

    Example:
        >>> PlanckMarkdownExporter().file_extension
        '.md'
    """

    export_from_notebook = "Markdown with answers"

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - nbconvert has no types
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self.register_preprocessor(AnswersAsMarkdown, enabled=True)  # type: ignore[no-untyped-call]
