"""Tests that failed by chance run once more, and only they."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

TESTS = Path(__file__).parents[1]
SETTINGS = """\
[pytest]
addopts = -p xdist --max-worker-restart=1
markers =
    browser
    kernel
    process
    slow
"""
BEGIN = '''\
"""Tests that count how often they have run."""
import os, pathlib, subprocess, pytest

def count(name):
    with pathlib.Path(name).open("a") as file:
        file.write(".")
    return len(pathlib.Path(name).read_text())

def test_that_passes():
    pass

'''


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text(SETTINGS)
        (folder / "conftest.py").write_text('pytest_plugins = ("support.own_processes", "support.failure_report")\n')

    def run(self, body: str, *options: str) -> tuple[int, str]:
        """The exit status and the last 20 lines."""
        (self.folder / "test_it.py").write_text(BEGIN + body)
        pytest_command = shlex.join([sys.executable, "-m", "pytest", "-q", *options])
        done = subprocess.run(
            [sys.executable, str(TESTS / "run_in_ci.py"), pytest_command],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, "\n".join(done.stdout.splitlines()[-20:])

    def runs(self, name: str) -> int:
        """How often a test has run."""
        return len((self.folder / name).read_text())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


ONCE = """
@pytest.mark.browser
def test_window():
    assert count("window") == 2, "the window moved"
"""


def test_a_browser_test_that_passes_the_second_time_is_listed_as_unsteady(project: Project) -> None:
    status, end = project.run(ONCE, "-n1")
    assert status == 0, end
    assert "1 failed, 1 passed in" in end.splitlines()[-2]
    assert end.splitlines()[-1].startswith("unsteady: test_it.py::test_window - AssertionError: the window moved")
    assert project.runs("window") == 2


def test_a_fixture_that_fails_once_is_run_again(project: Project) -> None:
    status, end = project.run("""
@pytest.fixture
def kernel():
    assert count("start") == 2
    yield
    assert count("end") == 1

@pytest.mark.kernel
def test_cell(kernel):
    pass
""")
    assert status == 0, end
    assert "unsteady: test_it.py::test_cell" in end
    assert project.runs("end") == 1


def test_a_browser_test_that_fails_twice_refuses(project: Project) -> None:
    status, end = project.run(ONCE.replace("== 2", "== 3"))
    assert status == 1
    assert "failed twice: test_it.py::test_window - AssertionError: the window moved" in end
    assert project.runs("window") == 2


def test_a_unit_test_that_fails_once_refuses(project: Project) -> None:
    status, end = project.run(ONCE + '\ndef test_sum():\n    assert count("sum") == 2\n')
    assert status == 1
    assert "failed: test_it.py::test_sum - AssertionError: assert 1 == 2" in end
    assert "failed: test_it.py::test_window - AssertionError" in end
    assert "2 failed, 1 passed in" in end
    assert project.runs("sum") == project.runs("window") == 1


def test_a_worker_that_crashes_refuses(project: Project) -> None:
    status, end = project.run('\n@pytest.mark.process\ndef test_end():\n    count("end")\n    os._exit(3)\n', "-n1")
    assert status == 1
    assert "failed: test_it.py::test_end - worker 'gw0' crashed" in end
    assert project.runs("end") == 1


def test_six_failures_refuse(project: Project) -> None:
    one = '\n@pytest.mark.browser\n@pytest.mark.parametrize("name", "abcdef")\ndef test_many(name):\n'
    status, end = project.run(one + "    assert count(name) == 2\n")
    assert status == 1
    assert end.count("failed: test_it.py::test_many[") == 6
    assert project.runs("a") == 1


def test_a_file_that_cannot_be_imported_refuses(project: Project) -> None:
    (project.folder / "test_other.py").write_text("import absent_module")
    status, end = project.run(ONCE, "--continue-on-collection-errors")
    assert status == 1
    assert "failed: test_other.py - E   ModuleNotFoundError" in end
    assert project.runs("window") == 1


def test_a_pytest_that_ends_without_a_report_refuses(project: Project) -> None:
    status, end = project.run("\ndef test_end():\n    os._exit(0)\n")
    assert status == 1
    assert "without a report" in end


def test_a_test_without_a_marker_may_not_start_a_process(project: Project) -> None:
    status, end = project.run('\ndef test_shell():\n    subprocess.run(["true"])\n')
    assert status == 1
    assert "failed: test_it.py::test_shell" in end
    assert "mark it" in end
