"""Findings about the installation: packages, the kernel, JupyterLab, modules."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from pathlib import Path
from typing import Literal, TypeAlias

from planck_nb.base.installed_packages import install_command
from planck_nb.base.text import counted
from planck_nb.base.version import __version__

State: TypeAlias = Literal["ok", "note", "problem"]
"""The states.

ok: works. note: works with a limit. problem: something fails before its fix.
"""

RESTART = "then restart the kernel"

_REQUIREMENT = re.compile(r"([\w.-]+?)\s*([<>=!~][^;]*)?")
_AT_LEAST = re.compile(r">=\s*([\d.]+)")
_OPTIONAL = ("jupyterlab", "matplotlib", "mcp")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination.

    Args:
        topic: The subject, such as "sandbox".
        state: "ok", "note" or "problem".
        text: A sentence about the state.
        fix: The remedy; empty where everything works.
    """

    topic: str
    state: State
    text: str
    fix: str = ""

    def __str__(self) -> str:
        """Return the finding as a line, and its fix as another."""
        line = f"{self.state:<9}{self.topic:<11}{self.text}"
        return f"{line}\n{'':<20}Fix: {self.fix}." if self.fix else line


def installation_findings(folder: Path) -> list[Finding]:
    """Examine the installation.

    Args:
        folder: The working folder, whose files may hide modules.
    """
    python = ".".join(map(str, sys.version_info[:3]))
    place = Path(__file__).parents[1]
    return [
        Finding("planck_nb", "ok", f"Version {__version__} in {place}, for Python {python} ({sys.executable})."),
        *_packages(),
        _kernel(),
        _lab(),
        *_shadows(folder),
    ]


def _packages() -> Iterator[Finding]:
    """Compare the required packages' versions with those installed."""
    count = 0
    for name, least in _requirements().items():
        present = version_of(name)
        if present is None:
            yield Finding("packages", "problem", f"{name} is missing.", f"{_pip(name)}, {RESTART}")
        elif _numbers(present) < _numbers(least):
            fix = _pip(f"-U '{name}>={least}'")
            yield Finding("packages", "problem", f"{name} {present} is older than {least}.", f"{fix}, {RESTART}")
        else:
            count += 1
    yield Finding("packages", "ok", f"{counted(count, 'required package')} in usable versions.")


def _requirements() -> dict[str, str]:
    """Return the required packages with their oldest usable versions."""
    requirements: dict[str, str] = {}
    for line in _own_requirements():
        requirement, _, condition = line.partition(";")
        if "extra" not in condition and (match := _REQUIREMENT.fullmatch(requirement.strip())):
            least = _AT_LEAST.search(match[2] or "")
            requirements[match[1]] = least[1] if least else "0"
    return requirements


def _own_requirements() -> list[str]:
    try:
        return distribution("planck-nb").requires or []
    except PackageNotFoundError:  # it runs from bare files
        return []


def version_of(package: str) -> str | None:
    """Return an installed package's version, None without it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _pip(arguments: str) -> str:
    """Return the command which installs packages for this Python."""
    return f"`{shlex.quote(sys.executable)} -m pip install {arguments}`"


def _numbers(text: str) -> tuple[int, ...]:
    """Return a version's leading numbers, without zeros at the end."""
    numbers = [int(part) for part in re.findall(r"\d+", re.match(r"[\d.]*", text)[0])]  # type: ignore[index]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _kernel() -> Finding:
    release = version_of("ipykernel") or ""
    fix = f"{_pip('-U ipykernel')}, {RESTART}"
    if fault := kernel_fault(release):
        return Finding("ipykernel", "problem", fault, fix)
    if _numbers(release) < (7,):
        text = f"ipykernel {release} handles no clicks while a cell runs, so approvals are typed."
        return Finding("ipykernel", "note", text, fix)
    return Finding("ipykernel", "ok", f"ipykernel {release}: buttons work while a cell runs.")


def kernel_fault(release: str) -> str:
    """Return a sentence about a release in which kernels fall silent.

    Args:
        release: The version of ipykernel.
    """
    if re.match(r"7\.[0-3](?!\d)", release) is None:
        return ""
    return f"ipykernel {release} can stop answering in the middle of a notebook."


def _lab() -> Finding:
    release, plots = version_of("jupyterlab"), version_of("matplotlib")
    if release is None:
        text = "JupyterLab is not in this environment; a notebook application elsewhere may use this kernel."
        return Finding("JupyterLab", "note", text, install_command("lab"))
    if plots is None:
        text = f"JupyterLab {release}; matplotlib, with which agents usually draw, is missing."
        return Finding("JupyterLab", "note", text, install_command("lab"))
    return Finding("JupyterLab", "ok", f"JupyterLab {release}, matplotlib {plots}.")


def _shadows(folder: Path) -> Iterator[Finding]:
    """Find the folder's files which hide modules.

    A kernel imports from its folder first.
    """
    modules = set(sys.stdlib_module_names) - {"__main__", "antigravity", "this"}
    packages = {name.lower().replace("_", "-") for name in (*_requirements(), *_OPTIONAL)}
    for module, distributions in packages_distributions().items():
        if any(name.lower().replace("_", "-") in packages for name in distributions):
            modules.add(module)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
        if is_module and path.stem in modules:
            text = f"{path} hides the module {path.stem}, so that imports of it fail or run this file."
            yield Finding("modules", "problem", text, f"rename {path.name}, {RESTART}")
