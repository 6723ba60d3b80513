"""A new sidecar: a package with a tool, compactor and test."""

from __future__ import annotations

import keyword
import os
import re
from pathlib import Path
from string import Template

from planck_nb.base.errors import UsageError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([_-][A-Za-z0-9]+)*")

_PROJECT = Template("""\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "$name"
version = "0.1.0"
description = "A sidecar for planck_nb."
requires-python = ">=3.11"
dependencies = ["mcp>=2.3,<3"]   # planck_nb itself is added by the kernel, in the kernel's version

[project.optional-dependencies]
test = ["planck-nb", "pytest>=8"]

[project.entry-points."planck_nb.sidecars"]
$module = "$module:sidecar"

[tool.hatch.build.targets.wheel]
packages = ["$module"]

[tool.uv.workspace]   # uv follows no settings of the folders above

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
""")

_MODULE = Template('''\
"""The sidecar $name: tools that agents in a notebook can call."""

from __future__ import annotations

from planck_nb.sidecars import Sidecar, ToolError, run

sidecar = Sidecar("$name", version="0.1.0")


@sidecar.tool(read_only=True)
def count_words(text: str) -> int:
    """Count the words of a text.

    Args:
        text: The text.
    """
    return len(text.split())


@sidecar.tool(timeout_ms=300_000)
async def run_tests(path: str = ".") -> str:
    """Run the tests of a project and return what pytest prints.

    Args:
        path: The folder of the project.
    """
    code, output = await run("python", "-m", "pytest", "-q", path)
    if code:
        raise ToolError(output)
    return output


@sidecar.compactor(timeout_ms=60_000)
def newest(messages, model):
    """Keep the five newest messages."""
    return f"{len(messages)} messages so far.", messages[-5:]
''')

_TEST = Template('''\
"""Tests of the sidecar, without a server."""

from $module import sidecar

from planck_nb.sidecars import execute_tool, list_tools


def test_tools_are_listed():
    assert [tool.name for tool in list_tools(sidecar)] == ["count_words", "run_tests"]


def test_words_are_counted():
    assert execute_tool("count_words", "agent", "call", {"text": "one two three"}, module=sidecar) == 3
''')

_README = Template("""\
# $name

A sidecar for planck_nb: an MCP server with tools and a compactor.

- Use it in a notebook: `%planck sidecar add $folder`, or put this folder at `.planck/sidecar` of a project.
- Test it: `python -m pytest`.
- Serve it to another MCP client: `python -m planck_nb.sidecars $module:sidecar` in this folder.
""")


def new_sidecar(name: str, path: str | os.PathLike[str] | None = None) -> Path:
    """Write a new sidecar's files.

    Args:
        name: The sidecar's name, such as "my-sidecar": letters, digits, `-` and `_`.
        path: The folder to write to, which must be empty or missing; by default a folder with this name in the working
            directory.

    Returns:
        The folder.

    Raises:
        UsageError: If the name is invalid, or the folder has files in it or cannot be written.

    Example:
        >>> import tempfile
        >>> folder = new_sidecar("my-sidecar", tempfile.mkdtemp())
        >>> sorted(item.name for item in folder.iterdir())
        ['README.md', 'my_sidecar', 'pyproject.toml', 'tests']
    """
    module = _module_of(name)
    folder = Path(path if path is not None else name).expanduser()
    values = {"name": name, "module": module, "folder": folder}
    files = {
        "pyproject.toml": _PROJECT,
        f"{module}/__init__.py": _MODULE,
        f"tests/test_{module}.py": _TEST,
        "README.md": _README,
    }
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} exists and is not an empty folder; choose another path.")
        for relative, template in files.items():
            file = folder / relative
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(template.substitute(values), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}; choose another path.") from error
    return folder


def _module_of(name: str) -> str:
    """Return the module name for a sidecar's name, or raise `UsageError`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a sidecar: use letters, digits, - and _, such as my-sidecar.")
    module = name.replace("-", "_").lower()
    if keyword.iskeyword(module) or module in {"planck_nb", "mcp", "tests", "test"}:
        raise UsageError(f"{name} is a word of Python or the name of another package; choose another name.")
    return module
