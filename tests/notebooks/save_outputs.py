"""Executes notebooks and saves their outputs, without what differs from run to run.

python tests/notebooks/save_outputs.py                                  every notebook in notebooks/
python tests/notebooks/save_outputs.py notebooks/01_quickstart.ipynb    only this one
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
WIDGET = "application/vnd.jupyter.widget-view+json"


def save_outputs(path: Path) -> None:
    """Execute a notebook in an empty folder and write its outputs back into it."""
    os.environ["PLANCK_NB_DEMO_PACE"] = "0"
    with tempfile.TemporaryDirectory() as folder:
        document = nbformat.read(shutil.copy(path, folder), as_version=4)
        NotebookClient(
            document,
            resources={"metadata": {"path": folder}},
            record_timing=False,
            store_widget_state=False,
            extra_arguments=["--log-level=ERROR"],
        ).execute()
    for cell in document.cells:
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(WIDGET, None)
    document.metadata = nbformat.read(path, as_version=4).metadata
    nbformat.write(document, path)


if __name__ == "__main__":
    for notebook in [Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        save_outputs(notebook)
        print(notebook)
