"""Run a benchmark with several revisions of the package, side by side.

    python tests/benchmarks/compare_versions.py bench_agent.py HEAD~20 HEAD~10 [--times 3] [--own]

Runs a script of this folder with the package of each revision and with the files here, in turns, and prints the
medians of the ratios ("1.23x") that each line has, or of its last figure. All use the installed versions of other
libraries. A script that uses more than the public names may fail with an old package: `--own` runs the script of the
revision itself, whose lines are compared if they have the same words.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = "now"

_RATIO = re.compile(r"(?<![\d.])\d+\.\d+x")
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*\.\d+(?![\w.])")


def check_out(revision: str, folder: Path) -> None:
    """Write the files of a revision to a folder."""
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def run(script: Path, package: Path) -> str:
    """What the script prints with the package in this folder."""
    environment = {**os.environ, "PYTHONPATH": str(package)}
    result = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False, cwd=package
    )
    if result.returncode:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        sys.exit(f"{script} failed with the package in {package}: {last}")
    return result.stdout


def lines(output: str) -> Iterator[tuple[str, str, list[float]]]:
    """The name of each line that has figures, the unit ("x" or empty), and its ratio or its other figures."""
    for line in output.splitlines():
        ratio = _RATIO.search(line)
        figures = [float(number.replace(",", "")) for number in _NUMBER.findall(line)]
        name = " ".join(re.split(r"[:(;]| {2,}", _RATIO.sub("", line).strip(), maxsplit=1)[0].split())
        if ratio:
            yield name, "x", [float(ratio[0][:-1])]
        elif figures:
            yield name, "", figures[-1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("script")
    parser.add_argument("revisions", nargs="+")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--own", action="store_true")
    options = parser.parse_args()
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        packages = {revision: Path(folder) / revision for revision in options.revisions}
        for revision, package in packages.items():
            check_out(revision, package)
        packages[HERE] = ROOT
        for _ in range(options.times):
            for revision, package in packages.items():
                script = (package if options.own else ROOT) / "tests" / "benchmarks" / options.script
                for name, unit, figures in lines(run(script, package)):
                    found.setdefault((name, unit), {}).setdefault(revision, []).extend(figures)
    print(f"| {options.script}, median of {options.times} | {' | '.join(packages)} |")
    print("|---" * (len(packages) + 1) + "|")
    for (name, unit), by_revision in found.items():
        cells = (
            f"{statistics.median(by_revision[each]):.2f}{unit}" if each in by_revision else "" for each in packages
        )
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
