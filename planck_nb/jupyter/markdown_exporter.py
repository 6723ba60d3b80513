"""Notebooks as Markdown: `jupyter nbconvert --to planck-markdown notebook.ipynb`."""

from __future__ import annotations

from typing import Any

from nbconvert.exporters import MarkdownExporter
from nbconvert.preprocessors import Preprocessor


class AnswersAsMarkdown(Preprocessor):
    """Keep the Markdown in saved answers, and drop their HTML.

    The usual exporter prefers HTML, whose inline styles fill pages.
    """

    enabled = True

    def preprocess_cell(self, cell: Any, resources: Any, _index: int) -> tuple[Any, Any]:  # noqa: ANN401 - nbconvert has no types
        """Drop HTML from a cell's answers."""
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "planck_nb" in output.get("metadata", {}) and "text/markdown" in data:
                data.pop("text/html", None)
        return cell, resources


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
