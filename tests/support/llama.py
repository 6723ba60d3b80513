"""The real llama.cpp server with a scripted model."""

from __future__ import annotations

import json
import lzma
import pathlib
import platform
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from support.evidence import evidence, missing
from support.ports import free_port

_STARTS_WITHIN = 60.0


@contextmanager
def llama_server(
    folder: pathlib.Path,
    script: Sequence[dict[str, object]] | None = None,
    *,
    window: int = 8192,
    guard: str | None = None,
) -> Iterator[str]:
    """The address of a running server, unpacked into `folder`. Skips where it cannot run.

    Its model says `script`, one round after another, or without one what the recorded model says.
    `guard` is put before the chat template: what it raises is how the server refuses a conversation.
    """
    packed = evidence("llama", "llama")
    if sys.platform != "linux" or platform.machine() != "x86_64":
        missing("The recorded llama-server runs on x86-64 Linux only; run this test there.", "llama")
    for name in ("llama-server", "script.gguf"):
        (folder / name).write_bytes(lzma.decompress((packed / f"{name}.xz").read_bytes()))
    if script is not None:
        (folder / "script.json").write_text(json.dumps(script))
        maker = str(packed / "make_script_gguf.py")
        subprocess.run([sys.executable, maker, "script.json", "script.gguf"], cwd=folder, check=True)
    (folder / "llama-server").chmod(0o755)
    port = free_port()
    command = [
        *(str(folder / "llama-server"), "-m", str(folder / "script.gguf"), "--jinja", "--host", "127.0.0.1"),
        *("--port", str(port), "--ctx-size", str(window), "--temp", "0"),
        *("--threads", "1"),  # several threads wait for one another in loops, which takes the CPU of other tests
    ]
    if guard is not None:
        (folder / "template.jinja").write_text(guard + (packed / "chat_template.jinja").read_text())
        command += ["--chat-template-file", str(folder / "template.jinja")]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _wait_for(f"http://127.0.0.1:{port}/health", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _STARTS_WITHIN
    while time.monotonic() < deadline:
        assert process.poll() is None, f"llama-server ended with {process.returncode}"
        try:
            with opener.open(url, timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)  # polls another process, which has no other way to say that it is ready
    raise AssertionError(f"llama-server did not answer within {_STARTS_WITHIN} seconds")
