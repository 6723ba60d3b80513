"""Try the kernels and shells of other versions of IPython, ipykernel, ipywidgets and anywidget.

    python tests/project/try_versions.py [NAME …]

For each environment this makes a virtual environment in a temporary folder, installs the package with pip, which needs
a package index, and runs the tests of magics, approval and terminals in it. It takes a minute or two per environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]

ENVIRONMENTS = {
    "floors": "ipython==7.34.0 ipykernel==6.17.1 ipywidgets==7.7.1 anywidget==0.9.18 jupyter_client==7.4.9 "
    "tornado==6.5.1 traitlets==5.7.1 aiohttp==3.11.0",  # the Jupyter packages are those of Colab
    "spyder": "spyder-kernels==3.1.6 ipython==8.15.0 ipykernel==6.29.3 jupyter_client==8.6.0",
    "spyder-newest": "spyder-kernels==3.1.6 ipykernel==6.30.1",
    "ipykernel-7": "ipykernel==7.4.0 ipython==8.37.0",  # 7.1 to 7.3 lose requests, also without this package
    "newest": "--upgrade --upgrade-strategy eager ipython ipykernel ipywidgets anywidget",
}
"""What pip installs besides the package, by the name of the environment."""

NEEDED = "pytest pytest-asyncio pytest-timeout hypothesis psutil nbclient"

OPTIONS = ("-q", "-p", "no:cacheprovider", "-W", "ignore", "-o", "filterwarnings=", "-o", "addopts=")
"""Options of pytest in place of those of the project, which need further plugins."""

TESTS = (
    "tests/jupyter/test_typed_approval_in_kernels.py",
    "tests/jupyter/test_ipython_terminal.py",
    "tests/jupyter/test_completion.py",
    "tests/jupyter/test_magic.py",
)

IMPOSSIBLE = {
    "ipykernel": (7, "stop_button or goes_on_while_another_cell_awaits"),
    "IPython": (8, "tab_in_a_kernel or once_the_extension_is_gone"),
}
"""Tests of what older versions cannot do.

Before ipykernel 7 nothing clicked arrives while a cell runs, and `display` in the background shows in another cell.
Before IPython 8 completion in kernels always adds names of Python.
"""


def try_versions(name: str, folder: Path) -> bool:
    """Install an environment in a folder and run the tests in it; whether they pass."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", str(ROOT), *NEEDED.split()], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *ENVIRONMENTS[name].split()], check=True)
    subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", "planck-nb"], check=True)  # the tests use the source
    chosen = " and ".join(
        f"not ({tests})" for package, (least, tests) in IMPOSSIBLE.items() if major(python, package) < least
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [python, "-m", "pytest", *OPTIONS, "-k", chosen, *TESTS], cwd=ROOT, env=environment, check=False
    )
    return ran.returncode == 0


def major(python: Path, package: str) -> int:
    """The first number of a package's version."""
    code = f"import {package}; print({package}.version_info[0])"
    return int(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)


def main(names: list[str]) -> int:
    """Try the environments of these names, or all."""
    failed: list[str] = []
    for name in names or ENVIRONMENTS:
        print(f"== {name}: {ENVIRONMENTS[name]}", flush=True)
        with tempfile.TemporaryDirectory(prefix=f"planck-{name}-") as folder:
            if not try_versions(name, Path(folder)):
                failed.append(name)
    print(f"Failed: {', '.join(failed)}." if failed else "All passed.")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
