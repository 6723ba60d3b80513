"""Kernels that are not ipykernel's: the extension loads, and does without what they lack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNELS = {
    "xeus-python": """
class Kernel:
    def get_parent(self):
        return {"header": {"msg_id": "1", "session": "2"}}
""",
    "with hooks of another kind": """
class Kernel:
    pre_handler_hook = post_handler_hook = None
    def get_parent(self):
        return None
""",
    "pyodide": """
class Kernel:
    comm_manager = object()
    _parent_header = {}
""",
    "an empty object": """
class Kernel:
    pass
""",
    "one which raises AttributeError": """
class Kernel:
    def __getattr__(self, name):
        raise AttributeError(name)
""",
}
"""Classes of kernels as their shells have them, without a base class in ipykernel."""

CELLS = [
    "%load_ext planck_nb",
    "%planck hello there",
    "%planck agents",
    "%%planck --tools bash\nbash 'echo hi'",
    "def ask():\n    return get_ipython().run_line_magic('planck', 'hello there')\nask()",
    "%unload_ext planck_nb",
]

PROGRAM = f"""
import asyncio
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
async def main():
    for name, code in {KERNELS}.items():
        exec(code, globals())
        shell.kernel = Kernel()
        for cell in {CELLS}:
            print("CELL", name, cell.splitlines()[0])
            result = await shell.run_cell_async(cell, transformed_cell=shell.transform_cell(cell), store_history=True)
            result.raise_error()
asyncio.run(main())
"""


@pytest.mark.process
def test_the_extension_works(tmp_path: Path) -> None:
    environment = dict(
        os.environ, PLANCK_NB_SESSIONS_DIR=str(tmp_path), PLANCK_NB_MODEL="demo", PLANCK_NB_DEMO_PACE="0"
    )
    command = [sys.executable, "-c", PROGRAM]
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-2_000:] + found.stderr
    assert found.stdout.count("bash needs approval and there is nobody to ask") >= len(KERNELS)
