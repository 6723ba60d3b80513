"""Runs a notebook in the terminal, or opens it in JupyterLab."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planck_nb.base.errors import UsageError
from planck_nb.base.installed_packages import install_command
from planck_nb.base.iri_parser import without_iri_parser
from planck_nb.base.terminal_markdown import supports_styles, to_terminal
from planck_nb.rendering.plain_output import for_terminal

_PACKAGE = Path(__file__).parents[1]

QUICKSTARTS = (_PACKAGE / "quickstart.ipynb", _PACKAGE.parent / "notebooks" / "01_quickstart.ipynb")
"""The quickstart notebook in an installed package, and in a clone of the project, from which the former is built."""


def run_notebook(notebook: Path, *, in_lab: bool = False) -> str:
    """Run a notebook in the terminal, or open it in JupyterLab.

    Args:
        notebook: The notebook.
        in_lab: Whether to open it in JupyterLab.

    Returns:
        A sentence about the cell which failed, empty after success.

    Raises:
        UsageError: The notebook or a package is missing.
    """
    if not notebook.is_file():
        raise UsageError(f"There is no notebook {notebook}; check the path.")
    if in_lab:
        open_in_lab(notebook)
    return run_in_terminal(notebook)


def run_quickstart(*, in_lab: bool) -> str:
    """Run a copy of the quickstart notebook: in the terminal, or in JupyterLab as `quickstart.ipynb` in this folder.

    Args:
        in_lab: Whether to open it in JupyterLab. A copy that is there already is opened as it is.

    Returns:
        A sentence about the cell which failed, empty after success.
    """
    source = next(path for path in QUICKSTARTS if path.is_file())
    if in_lab:
        _require("jupyterlab")
        copy = Path("quickstart.ipynb")
        if not copy.exists():
            shutil.copyfile(source, copy)
        open_in_lab(copy)
    with tempfile.TemporaryDirectory(prefix="planck-") as folder:
        quickstart = Path(shutil.copyfile(source, Path(folder) / "quickstart.ipynb"))
        return run_in_terminal(quickstart, in_lab=("demo",))


def open_in_lab(notebook: Path) -> None:
    """Replace this process with JupyterLab, with a notebook open in it.

    Args:
        notebook: The notebook.

    Raises:
        UsageError: JupyterLab is not installed.
    """
    _require("jupyterlab")
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # in containers, mostly
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *as_root, str(notebook)])  # noqa: S606 - no shell wanted


def run_in_terminal(notebook: Path, *, in_lab: Sequence[str] = ()) -> str:
    """Execute a notebook, and print its prose, code and outputs.

    The last line says how to open it in JupyterLab.

    Args:
        notebook: The notebook; its folder is the working directory.
        in_lab: The command which opens it in JupyterLab with `--lab`; by default `run` with its path.

    Returns:
        A sentence about the cell which failed, empty after success.

    Raises:
        UsageError: The file is not a notebook, or nbclient is not installed.
    """
    _require("nbclient")
    with without_iri_parser():
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
        on_cell_start=lambda cell, **_: _print_prose(cell),
        on_cell_executed=lambda cell, **_: _print_cell(cell),
    )
    try:
        client.execute()
    except CellExecutionError as error:
        return f"A cell of {notebook} failed: {error.ename}: {error.evalue}"
    except (CellTimeoutError, DeadKernelError, NoSuchKernel) as error:
        raise UsageError(f"{notebook} could not be run: {str(error).strip().partition(chr(10))[0]}") from error
    _print(f"Next, in JupyterLab: {_command(*(in_lab or ('run', str(notebook))), '--lab')}")
    return ""


def _print_prose(cell: Any) -> None:  # noqa: ANN401 - a notebook node
    if cell.cell_type == "markdown":
        _print(_styled(for_terminal(cell.source)) + "\n")


def _print_cell(cell: Any) -> None:  # noqa: ANN401 - a notebook node
    lines = [f"In [{cell.execution_count}]:", *(f"    {line}" for line in cell.source.splitlines()), ""]
    _print(for_terminal("\n".join(lines)))
    for output in cell.outputs:
        data = output.get("data", {})
        text = output.get("text") or data.get("text/plain") or "\n".join(output.get("traceback", ()))
        if text:
            shown_text = for_terminal(text.rstrip())
            _print((_styled(shown_text) if "text/markdown" in data else shown_text) + "\n")


def _styled(text: str) -> str:
    return to_terminal(text) if supports_styles(sys.stdout, os.environ) else text


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the command's own output


def _command(*arguments: str) -> str:
    """Return a command line for this program, with a short path to Python."""
    python = Path(sys.executable)
    on_path = shutil.which("python")
    if on_path is not None and Path(on_path).parent == python.parent:
        python = Path("python")
    elif python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    return shlex.join([str(python), "-m", "planck_nb", *arguments])


def _require(package: str) -> None:
    from importlib.util import find_spec  # noqa: PLC0415

    if find_spec(package) is None:
        raise UsageError(f"{package} is not installed; run {install_command('lab')}.")
