"""`planck-nb ask`, `run` and `export`: output, standard error and exit status."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from support.sidecar_server import server_environment

from planck_nb.cli import main

REPORT = "`read` returned \n\n```\nhello\n\n```"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a text, the demo model, and an empty standard input."""
    (tmp_path / "notes.txt").write_text("hello\n")
    home = tmp_path_factory.mktemp("home")
    for name, value in {"HOME": str(home), "PLANCK_NB_MODEL": "demo", "PLANCK_NB_DEMO_PACE": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    type_in(monkeypatch, "")
    return tmp_path


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_only_the_answer_is_on_standard_output(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "please", "read", '"notes.txt"', "--tools", "read"]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == REPORT
    assert printed.out.endswith("\n")
    assert printed.err == "planck-nb: read is called\n"
    assert main(["ask", "-q", "read", '"notes.txt"', "-t", "read"]) == 0
    assert capsys.readouterr().err == ""
    assert sorted(path.name for path in project.iterdir()) == ["notes.txt"], "a folder without .planck stays as it is"


def test_standard_input_and_files_are_part_of_the_prompt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, 'please read "notes.txt"\n')
    assert main(["ask", "-t", "read"]) == 0
    assert capsys.readouterr().out.strip() == REPORT
    assert main(["ask", "what is in @notes.txt?"]) == 0
    assert "With: notes.txt (1 line)" in capsys.readouterr().err
    type_in(monkeypatch, "@nosuch.csv is no mention in a log\n")
    assert main(["ask", "what is this?"]) == 0


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["ask"], 2, "There is no prompt;"),
        (["ask", "hi", "-m", "nosuch:x"], 2, "There is no provider 'nosuch'."),
        (["ask", "hi", "-t", "nosuch"], 2, "There is no function or tool named nosuch."),
        (["ask", "hi", "--team", "nosuch"], 2, "There is no team named nosuch"),
        (["ask", "read @nosuch.csv"], 2, "There is no file nosuch.csv."),
        (["ask", f"keep sk-ant-api03-{'x' * 40}"], 2, "an Anthropic key"),
        (["ask", "hi", "-m", "llama_cpp:x", "--base-url", "http://127.0.0.1:1"], 1, "No server answers"),
        (["run", "nosuch.ipynb"], 2, "There is no notebook nosuch.ipynb;"),
        (["export"], 2, "There are no sessions in"),
        (["export", "calm-fox"], 2, "No session in"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_a_status(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, sentence: str
) -> None:
    assert main(arguments) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("planck-nb: ")
    assert sentence in line


def test_a_session_is_stored_in_a_project_and_exported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".planck").mkdir()
    assert main(["ask", "read", '"notes.txt"', "-t", "read"]) == 0
    capsys.readouterr()
    assert main(["export"]) == 0
    assert '## User\n\nread "notes.txt"' in capsys.readouterr().out
    assert main(["export", "-o", "talk.html"]) == 0
    assert "was exported to talk.html." in capsys.readouterr().err
    assert "notes.txt" in (project / "talk.html").read_text()
    assert main(["export", "-o", "talk.html"]) == 2
    assert "talk.html already exists; add --overwrite" in capsys.readouterr().err
    assert main(["export", "-o", "talk.html", "--overwrite"]) == 0
    assert main(["export", "-o", "talk.pdf"]) == 2


def test_a_team_answers(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "team", "helpers"]) == 0
    assert "planck-nb ask --team helpers" in capsys.readouterr().out
    task = 'delegate_task to "reader" the task "Please read \'notes.txt\'."'
    assert main(["ask", "-q", "--team", "helpers", task]) == 0
    assert "hello" in capsys.readouterr().out
    assert main(["new", "team", "helpers"]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.kernel
def test_a_notebook_fails_with_a_status(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [nbformat.v4.new_code_cell("print('first')"), nbformat.v4.new_code_cell("1 / 0")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), project / "bad.ipynb")
    assert main(["run", "bad.ipynb"]) == 1
    printed = capsys.readouterr()
    assert "first" in printed.out
    assert "A cell of bad.ipynb failed: ZeroDivisionError" in printed.err


@pytest.mark.process
def test_a_reader_which_ends_early_ends_the_command(project: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m planck_nb.cli ask hello there | head -c 4; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=project,
        env=server_environment(HOME=str(project), PLANCK_NB_MODEL="demo", PLANCK_NB_DEMO_PACE="0.01"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert (done.stdout, done.returncode, done.stderr) == ("I am", 141, "")
