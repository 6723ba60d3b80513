"""Code of installed packages imports no module that lies in the working directory."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import planck_nb
from planck_nb.base.programs import InstalledModules

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
