"""What the command line prints of a notebook."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from planck_nb.cli import main

CODES = "\x1b]52;c;aGVsbG8=\x07\x1b]0;title\x07\x1b[2J\x9b31m\u202e"


@pytest.mark.process
def test_nothing_in_a_notebook_controls_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Streams, results, errors and the source of cells."""
    cells = [
        f"print({CODES!r} + 'a stream')",
        f"# {CODES}a comment",
        f"class Shown:\n    def __repr__(self): return {CODES!r} + 'a result'\nShown()",
        f"raise ValueError({CODES!r} + 'an error')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    (tmp_path / "x.ipynb").write_text(json.dumps(notebook))
    assert main(["run", str(tmp_path / "x.ipynb")]) == 1
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert not any(char in text for char in "\x1b\x07\x9b\u202e")
        assert "aGVs" not in text.replace("\\x1b]52;c;aGVsbG8=", "")
    for words in ("a stream", "a comment", "a result"):
        assert words in printed.out
    assert "ValueError: an error" in printed.err
