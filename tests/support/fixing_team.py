"""A team that fixes a small project, whose members are scripted llama.cpp servers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from support.llama import llama_server

TESTS = """\
import unittest
from calc import add

class Sums(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(add(2, 3), 5)

unittest.main()
"""

RUN = f"{sys.executable} tests.py"


def call(tool: str, **arguments: str) -> dict[str, object]:
    return {"name": tool, "arguments": arguments}


SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "lead": [
        {
            "thinking": "Three of us can work at once.",
            "calls": [
                call("delegate_task", agent_id="coder", task="Correct the sum in calc.py, please."),
                call("delegate_task", agent_id="writer", task="Describe the module in NOTES.md now."),
                call("delegate_task", agent_id="tester", task="Run all tests once before the change."),
            ],
        },
        {"text": "I wait for what the others will say."},
    ],
    "reporter": [
        {"calls": [call("ask_agent", agent_id="tester", question="Do the tests pass at last?")]},
        {"text": "Final report: the sum is right, and its tests pass."},
    ],
    "coder": [
        {"calls": [call("read", path="calc.py")]},
        {"calls": [call("edit", path="calc.py", old_string="a - b", new_string="a + b")]},
        {"calls": [call("send_response", response="The minus became a plus.")]},
        {"text": "Coder has nothing left."},
    ],
    "writer": [
        {"calls": [call("write", path="NOTES.md", content="calc adds two numbers.")]},
        {"text": "NOTES.md describes it."},
    ],
    "tester": [
        {"calls": [call("bash", command=RUN)]},
        {"text": "Tester ran the whole suite."},
    ],
}

MEMBERS = {
    "lead": ("orchestrator", ()),
    "coder": ("coder", ("read", "edit")),
    "writer": ("writer", ("write",)),
    "tester": ("tester", ("bash",)),
}


def write_project(folder: Path) -> None:
    """Write the module with a wrong sum, and its test."""
    folder.mkdir()
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "tests.py").write_text(TESTS)


@contextmanager
def model_servers(folder: Path, scripts: Mapping[str, list[dict[str, Any]]] = SCRIPTS) -> Iterator[dict[str, str]]:
    """Run a server for each script; their addresses by name."""
    with ExitStack() as stack:
        found: dict[str, str] = {}
        for name, script in scripts.items():
            (place := folder / name).mkdir()
            found[name] = stack.enter_context(llama_server(place, script, window=16_384))
        yield found


def run_tests(project: Path) -> int:
    """Run the project's tests and return their exit code."""
    return subprocess.run([sys.executable, "tests.py"], cwd=project, check=False, capture_output=True).returncode
