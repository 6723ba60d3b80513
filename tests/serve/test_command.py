"""The command `planck-nb`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.sidecar_server import server_environment

from planck_nb.base.installed_packages import install_command
from planck_nb.cli import main

pytestmark = pytest.mark.process


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=server_environment(HOME=str(folder)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


def test_without_the_extra_a_sentence_names_it(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['mcp'] = None; from planck_nb.cli import main; sys.exit(main(['mcp']))"

    result = run(hidden, tmp_path)

    assert result.returncode == 2
    assert result.stderr == f"planck-nb: `planck-nb mcp` needs the package mcp; run {install_command('mcp')}.\n"
    assert result.stdout == ""


def test_nothing_is_printed_but_the_protocol(tmp_path: Path) -> None:
    result = run("from planck_nb.cli import main; main(['mcp'])", tmp_path)

    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_a_new_sidecar_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "made"

    assert main(["new", "sidecar", "my-sidecar", "--path", str(folder)]) == 0
    assert (folder / "my_sidecar" / "__init__.py").is_file()
    assert str(folder) in capsys.readouterr().out
    assert main(["new", "sidecar", "my-sidecar", "--path", str(folder)]) == 2
    assert capsys.readouterr().err.startswith("planck-nb: ")
    assert main(["new", "sidecar", "../x", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--folder", str(tmp_path / "none")]) == 2
    assert "--folder" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["mcp", "--help"], ["new", "sidecar", "--help"], ["--version"]])
def test_help_is_shown(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 0
    assert "planck-nb" in capsys.readouterr().out


def test_help_loads_no_mcp(tmp_path: Path) -> None:
    code = (
        "import sys; from planck_nb.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "assert not {'mcp', 'mcp_types', 'duckdb', 'pydantic'} & set(sys.modules)"
    )

    assert run(code, tmp_path).returncode == 0


def test_kernels_need_no_mcp(tmp_path: Path) -> None:
    code = "import sys; import planck_nb.serve.kernel_socket; assert 'mcp' not in sys.modules"

    assert run(code, tmp_path).returncode == 0
