"""The command line: a notebook from top to bottom in the terminal, or live in JupyterLab."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planck_nb.base.errors import PlanckError, UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the process's exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m planck_nb", description="Run a notebook and print what its cells show."
    )
    parser.add_argument("notebook", type=Path, help="the .ipynb file; it is not changed")
    parser.add_argument("--lab", action="store_true", help="open it in JupyterLab instead, live")
    parser.add_argument("--debug", action="store_true", help="show the whole traceback of an error")
    options = parser.parse_args(arguments)
    try:
        if not options.notebook.is_file():
            raise UsageError(f"There is no notebook {options.notebook}.")
        if options.lab:
            open_in_lab(options.notebook)
        run_in_terminal(options.notebook)
    except PlanckError as error:
        if options.debug:
            raise
        print(f"planck_nb: {error}", file=sys.stderr)  # noqa: T201 - the command's own output
        return 1
    return 0


def open_in_lab(notebook: Path) -> None:
    """Become JupyterLab with this notebook open. Raises `UsageError` where it is not installed."""
    _require("jupyterlab")
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # in containers, mostly
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *as_root, str(notebook)])  # noqa: S606 - no shell wanted


def run_in_terminal(notebook: Path) -> None:
    """Execute all cells and print them with what they show, one by one. Raises `UsageError` for a cell that fails."""
    _require("nbclient")
    import nbformat  # noqa: PLC0415 - belongs to the `lab` extra
    from jupyter_client.kernelspec import NoSuchKernel  # noqa: PLC0415
    from nbclient import NotebookClient  # noqa: PLC0415
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError  # noqa: PLC0415

    try:
        document = nbformat.read(notebook, as_version=4)
    except (nbformat.reader.NotJSONError, nbformat.ValidationError, UnicodeDecodeError) as error:
        raise UsageError(f"{notebook} is not a notebook: {str(error).partition(chr(10))[0]}") from error
    client = NotebookClient(
        document,
        timeout=600,
        resources={"metadata": {"path": str(notebook.parent)}},
        extra_arguments=["--log-level=ERROR"],  # its warning about sockets of this machine is not the notebook's
        on_cell_executed=lambda cell, **_: _print_cell(cell),
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise UsageError(f"A cell of {notebook} failed: {error.ename}: {error.evalue}") from error
    except (CellTimeoutError, DeadKernelError, NoSuchKernel) as error:
        raise UsageError(f"{notebook} could not be run: {str(error).strip().partition(chr(10))[0]}") from error


def _print_cell(cell: Any) -> None:  # noqa: ANN401 - a notebook node
    lines = [f"In [{cell.execution_count}]:", *(f"    {line}" for line in cell.source.splitlines()), ""]
    for output in cell.outputs:
        shown = output.get("text") or output.get("data", {}).get("text/plain") or "\n".join(output.get("traceback", ()))
        if shown:
            lines += [shown.rstrip(), ""]
    print("\n".join(lines), flush=True)  # noqa: T201 - the command's own output


def _require(package: str) -> None:
    from importlib.util import find_spec  # noqa: PLC0415

    if find_spec(package) is None:
        raise UsageError(f"{package} is not installed; run `pip install 'planck-nb[lab]'`.")
