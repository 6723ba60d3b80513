"""With `--failures=FILE`, pytest writes a file of JSON that says what failed, and whether it may run once more."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from support.own_processes import needs_processes

_REPEATABLE = "repeatable"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--failures", metavar="FILE", type=Path, help="write what failed to a file of JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Write in the process that has the reports of all others."""
    path = config.getoption("failures")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailureReport(path.absolute()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Send the marker along: the process that writes has no items."""
    report = yield
    if report.failed and needs_processes(item):
        report.user_properties.append((_REPEATABLE, True))
    return report


class FailureReport:
    """Collects failures, and writes them at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = time.monotonic()
        self._failures: dict[str, tuple[str, bool]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failed test, setup or teardown; of a crashed worker, xdist reports the test without its marker."""
        if report.failed:
            self._note(report.nodeid, _reason(report), repeatable=_REPEATABLE in dict(report.user_properties))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be imported."""
        if report.failed:
            self._note(report.nodeid, _reason(report))

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note an error outside of tests."""
        self._note("internal error", excinfo.exconly())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        """Note a process that ended early."""
        if error:
            self._note(str(node), str(error))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the file."""
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        assert terminal is not None
        counts = ", ".join(text for text, _ in terminal.build_summary_stats_line()[0])
        report = {
            "python": sys.executable,
            "status": exitstatus,
            "passed": len(terminal.stats.get("passed", ())),
            "closing": f"{counts} in {time.monotonic() - self._begun:.2f}s",
            "failures": [
                {"id": test, "reason": reason, "repeatable": repeatable}
                for test, (reason, repeatable) in self._failures.items()
            ],
        }
        self._path.write_text(json.dumps(report), encoding="utf-8")

    def _note(self, test: str, reason: str, *, repeatable: bool = False) -> None:
        first, was_repeatable = self._failures.get(test, (reason, True))
        self._failures[test] = (first, repeatable and was_repeatable)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the first line of an exception's message, or the last of what stands for one."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = [line for line in (crash.message if crash else report.longreprtext).splitlines() if line.strip()]
    return (lines[0] if crash else lines[-1]) if lines else report.outcome
