"""The examples in docstrings and in the README run."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from planck_nb import ai
from planck_nb.ai.registry import REGISTRY

ROOT = Path(__file__).parents[2]
MODULES = [
    file for file in sorted((ROOT / "planck_nb").rglob("*.py")) if re.search(r"^ *>>> ", file.read_text(), re.MULTILINE)
]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.relative_to(ROOT / "planck_nb").as_posix())
def test_examples_in_docstrings(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    before = set(ai.list_providers())
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    for provider in set(ai.list_providers()) - before:
        REGISTRY.unregister(provider)
    assert tried, "the docstring with the example is not reached"
    assert failed == 0


@pytest.mark.parametrize("code", BLOCKS, ids=range(1, len(BLOCKS) + 1))
def test_python_blocks_of_the_readme_run_as_files(code: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(code)
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
