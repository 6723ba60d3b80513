"""Every notebook of the project runs, and shows exactly what is saved in it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from support.forked_kernels import ADDRESS, KernelTemplate

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.timeout(400)
def test_they_show_what_is_saved_in_every_time_zone_and_beside_the_sessions_of_a_run_before(
    tmp_path: Path, kernel_template: KernelTemplate
) -> None:
    copies = {}
    for notebook in NOTEBOOKS:
        (tmp_path / notebook.stem).mkdir()  # a notebook reads the sessions of its own folder
        copies[notebook.stem] = str(shutil.copy(notebook, tmp_path / notebook.stem))
    again = [copies["03_history"]]  # which queries what is stored
    plugins = ("-p", "nbval.plugin", "-p", "support.forked_kernels", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-c", os.devnull]
    for zone, chosen in (("America/New_York", list(copies.values())), ("Asia/Tokyo", again)):
        environment = {
            **os.environ,
            "PLANCK_NB_DEMO_PACE": "0",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
            ADDRESS: kernel_template.address(),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the other plugins take longer to load than a notebook to run
            "TZ": zone,
        }
        run = [*command, "--nbval", *chosen]
        done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{zone}:\n{done.stdout[-5_000:]}"


def test_a_saved_answer_reads_in_a_page_without_a_kernel(tmp_path: Path) -> None:
    copy = shutil.copy(ROOT / "notebooks" / "01_quickstart.ipynb", tmp_path)
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", "--stdout", str(copy)]
    page = subprocess.run(command, cwd=tmp_path, env=_environment(), capture_output=True, text=True, check=True).stdout
    assert re.search(r"returned\s+230\.0", re.sub(r"<[^>]+>", "", page))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_outputs_are_saved_and_hold_nothing_of_a_machine(notebook: Path) -> None:
    document = nbformat.read(notebook, as_version=4)
    nbformat.validate(document)
    text = notebook.read_text()
    assert any(cell.get("outputs") for cell in document.cells)
    assert "widgets" not in document.metadata
    assert str(Path.home()) not in text
    assert all(cell.get("execution_count") for cell in document.cells if cell.cell_type == "code")


def _environment() -> dict[str, str]:
    """The environment of a user: in a test, DuckDB reports objects that exist until the interpreter ends."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "PLANCK_NB_DEMO_PACE": "0"}


def test_the_command_line_runs_a_notebook_in_a_directory_with_spaces(tmp_path: Path) -> None:
    folder = tmp_path / "my note books"
    folder.mkdir()
    copy = shutil.copy(NOTEBOOKS[0], folder)
    command = [sys.executable, "-m", "planck_nb", "run", str(copy)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "`convert` returned `230.0`." in done.stdout
    assert "## Give it a function" in done.stdout, "a program that reads gets Markdown"
    last = done.stdout.splitlines()[-1]
    assert last.startswith("Next, in JupyterLab: ")
    assert shlex.split(last)[-4:] == ["planck_nb", "run", str(copy), "--lab"]


def test_the_demo_runs_the_quickstart_and_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "planck_nb", "demo"]
    done = subprocess.run(command, cwd=tmp_path, env=_environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "`convert` returned `230.0`." in done.stdout
    assert done.stdout.rstrip().endswith("-m planck_nb demo --lab")
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_says_what_is_wrong(tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "planck_nb", "run", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert run("missing.ipynb") == (2, "planck-nb: There is no notebook missing.ipynb; check the path.\n")
    bad = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    nbformat.write(bad, tmp_path / "bad.ipynb")
    code, said = run("bad.ipynb")
    assert code == 1
    assert "A cell of bad.ipynb failed: ZeroDivisionError: division by zero" in said
    (tmp_path / "junk.ipynb").write_text("not json")
    code, said = run("junk.ipynb")
    assert code == 2
    assert said.startswith("planck-nb: junk.ipynb is not a notebook")
    (tmp_path / "binary.ipynb").write_bytes(b"\xff\xfe\x00")
    assert run("binary.ipynb")[1].startswith("planck-nb: binary.ipynb is not a notebook")
    bad.metadata["kernelspec"] = {"name": "of-this-name-none", "display_name": "x"}
    nbformat.write(bad, tmp_path / "kernel.ipynb")
    assert run("kernel.ipynb")[1].startswith("planck-nb: kernel.ipynb could not be run: No such kernel")
