"""Code of installed packages imports no module that lies in the working directory."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
import types
from pathlib import Path

import pytest

import planck_nb
from planck_nb.base.programs import PACKAGES, InstalledModules, hidden_sentence

CODE = "import colorsys, planted_helper; places = colorsys.__file__, planted_helper.__file__"


@pytest.mark.parametrize(
    ("importer", "is_installed"),
    [(planck_nb.__file__, True), (json.__file__, True), ("/env/lib/site-packages/duckdb/x.py", True), ("cell", False)],
)
def test_only_code_of_the_user_imports_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, importer: str, *, is_installed: bool
) -> None:
    for name in ("colorsys", "planted_helper"):
        (tmp_path / f"{name}.py").write_text("")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(sys, "meta_path", [InstalledModules(), *sys.meta_path])
    namespace: dict[str, tuple[str, str]] = {}
    exec(compile(CODE, importer, "exec"), namespace)
    installed, own = namespace["places"]
    assert Path(installed).is_relative_to(Path(os.__file__).parent) == is_installed
    assert own == str(tmp_path / "planted_helper.py"), "what is installed nowhere is found as usual"
    for name in ("colorsys", "planted_helper"):
        del sys.modules[name]


BESIDE: dict[str, tuple[dict[str, str], str]] = {
    "a server": ({"mcp.py": "raise SystemExit('a server runs')"}, "The package mcp is hidden by ./mcp.py; rename that"),
    "a folder": ({"mcp/__init__.py": ""}, "The package mcp is hidden by ./mcp; rename that file, and start again."),
    "a module of one's own": ({"pandas.py": "DATA = 1"}, "The package pandas is hidden by ./pandas.py; rename"),
    "an exercise": ({"duckdb.py": "import duckdb"}, "The package duckdb is hidden by ./duckdb.py; rename that file"),
    "settings": ({"yaml.py": "="}, "The package yaml is hidden by ./yaml.py; rename that file, and start again."),
    "several": (
        {"yaml.py": "", "certifi.py": ""},
        "The packages certifi and yaml are hidden by ./certifi.py and ./yaml.py; rename those files, and start again.",
    ),
    "another name": ({"mcp_server.py": "", "my_pandas.py": ""}, ""),
    "a folder without code": ({"mcp/notes.txt": ""}, ""),
    "a file in a folder": ({"lib/mcp.py": ""}, ""),
}
"""Files beside a notebook, and the sentence about packages which they hide."""


@pytest.mark.parametrize("case", BESIDE)
@pytest.mark.parametrize("is_imported", [False, True])
def test_a_package_hidden_by_a_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, *, is_imported: bool
) -> None:
    files, sentence = BESIDE[case]
    for name in PACKAGES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name, code in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
        module = name.partition("/")[0].removesuffix(".py")
        if is_imported and module in PACKAGES and name.endswith(".py"):
            imported = types.ModuleType(module)
            imported.__file__ = str(tmp_path / name)
            monkeypatch.setitem(sys.modules, module, imported)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert hidden_sentence().startswith(sentence)
    assert bool(hidden_sentence()) == bool(sentence)
    monkeypatch.setattr(sys, "meta_path", [InstalledModules(), *sys.meta_path])
    assert bool(hidden_sentence()) == (bool(sentence) and is_imported), "code of packages finds the installed one"


def test_the_packages_are_those_of_the_project() -> None:
    data = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    modules = {"markdown-it-py": "markdown_it", "nest-asyncio2": "nest_asyncio2", "pyyaml": "yaml"}
    required = [re.split(r"[<>=]", line)[0] for line in data["dependencies"] + data["optional-dependencies"]["mcp"]]
    named = {modules.get(name, name.replace("-", "_")) for name in required} - {"ipython", "ipykernel"}
    assert set(PACKAGES) == named | {"matplotlib", "polars", "pyarrow"}
