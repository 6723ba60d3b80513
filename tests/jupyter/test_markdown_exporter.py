"""Notebooks become Markdown in which answers are Markdown, too."""

from __future__ import annotations

from importlib.metadata import entry_points

import nbformat
from nbformat.v4 import new_code_cell, new_notebook, new_output

from planck_nb.ai.messages import AssistantMessage, TextPart, Usage
from planck_nb.jupyter.markdown_exporter import PlanckMarkdownExporter
from planck_nb.jupyter.transcript.transcript import Transcript

ANSWER = Transcript(
    "ana", "demo:x", "done", (AssistantMessage((TextPart("It is **42**."),)),), Usage(1, 2), None, None, 1.0
)


def test_an_answer_is_its_markdown_and_other_html_stays() -> None:
    answer = new_output("display_data", data=ANSWER.bundle(), metadata=ANSWER.metadata())
    table = new_output("display_data", data={"text/html": "<table></table>", "text/markdown": "| |"})
    notebook = new_notebook(cells=[new_code_cell("%%planck\nAsk", outputs=[answer, table])])

    text, _ = PlanckMarkdownExporter().from_notebook_node(nbformat.from_dict(notebook))

    assert "It is **42**." in text
    assert "<div style" not in text
    assert "<table></table>" in text
    assert "text/html" in answer.data, "the notebook itself is unchanged"


def test_nbconvert_finds_the_exporter() -> None:
    [entry] = entry_points(group="nbconvert.exporters", name="planck-markdown")
    assert entry.load() is PlanckMarkdownExporter
