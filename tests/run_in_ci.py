"""Run the tests, and once more those which a busy machine may have disturbed.

    python3 tests/run_in_ci.py "python -m pytest -n auto"

The argument is a shell command, to which options for pytest can be added. Failed tests marked browser, kernel or
process are repeated by themselves, unless another test failed. Those which then pass are listed as unsteady. Anything
else ends with exit status 1 and a list of the failures. A missing or incomplete report counts as a failure.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_MOST = 5
"""More failures have a common cause."""
_LINES = 12
_WIDTH = 150
"""How much of a reason is shown."""


def main(command: str) -> int:
    """Run the command, repeat what may be repeated, and return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        status, first = _run(command, Path(folder, "first.json"))
        if first is None:
            print(f"\nfailed: the tests ended with exit status {status} and without a report")
            return 1
        failures = first["failures"]
        if status == 0 and not failures:
            return 0
        if status != 1 or not 0 < len(failures) <= _MOST or not all(failure["repeatable"] for failure in failures):
            _print_end(first, "failed", failures or [{"id": "pytest", "reason": f"it ended with exit status {status}"}])
            return 1
        print(f"\nOnce more, by themselves: {len(failures)} tests", flush=True)
        tests = [failure["id"] for failure in failures]
        repetition = shlex.join([first["python"], "-m", "pytest", "-q", "-n0", *tests])
        status, second = _run(repetition, Path(folder, "second.json"))
    if status == 0 and second is not None and second["passed"] == len(tests):
        _print_end(first, "unsteady", failures)
        return 0
    _print_end(first, "failed twice", (second and second["failures"]) or failures)
    return 1


def _run(command: str, path: Path) -> tuple[int, dict[str, Any] | None]:
    """Return the exit status and what pytest wrote, None if it did not come to its end."""
    status = subprocess.run(["bash", "-c", f"{command} --failures={shlex.quote(str(path))}"], check=False).returncode
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return status, None
    return status, report if report["status"] == status else None


def _print_end(first: dict[str, Any], word: str, failures: list[dict[str, Any]]) -> None:
    """Print the closing line of the first run again, and what failed and why."""
    print(f"\n{first['closing']}")
    for failure in failures[:_LINES]:
        print(f"{word}: {failure['id']} - {failure['reason'][:_WIDTH]}")
    if len(failures) > _LINES:
        print(f"{word}: {len(failures) - _LINES} more")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
