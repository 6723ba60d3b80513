"""What the first prompt needs is loaded in a thread after `%load_ext`, without a trace if that fails."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import certifi
import pytest
from IPython.core.interactiveshell import InteractiveShell
from support.kernel import Kernel, running_kernel

from planck_nb.ai import connections
from planck_nb.jupyter import extension
from planck_nb.jupyter.ipython.warm_up import WarmUp

THREAD = "planck-warm-up"
WARM = f"""
import sys, threading
for thread in threading.enumerate():
    if thread.name == "{THREAD}":
        thread.join()
before = set(sys.modules)
"""
LOADED = """
print(*sorted(name for name in set(sys.modules) - before if name.startswith(("httpx", "aiohttp", "planck_nb"))))
"""
REFUSED = "http://127.0.0.1:9"
"""An address at which no server listens."""


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    with running_kernel(tmp_path) as kernel:
        yield kernel


def test_the_first_prompt_imports_nothing_more(kernel: Kernel) -> None:
    assert kernel.run("%load_ext planck_nb").status == "ok"
    assert kernel.run(WARM).text == ""
    failed = kernel.run(f"%%planck --model openai:m --base-url {REFUSED}\nhello")
    assert "No server answers" in failed.error
    assert kernel.run(LOADED).text.split() in ([], ["planck_nb.ai.model_lookup.data"])


def test_a_kernel_that_ends_or_forks_during_the_warm_up(kernel: Kernel) -> None:
    """The imports of a cell, and those of a forked process, may be the very ones that the thread is busy with."""
    forked = """
import os, warnings
%load_ext planck_nb
warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 and later, about a fork beside threads
child = os.fork()
if not child:
    import aiohttp, httpx, pydantic, markdown_it
    os._exit(7)
import httpx, aiohttp, pydantic, markdown_it
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    cell = kernel.run(forked)
    assert (cell.status, cell.text) == ("ok", "7\n"), cell
    assert kernel.run("%unload_ext planck_nb\n%load_ext planck_nb\nprint('again')").text == "again\n"


@pytest.mark.slow
def test_a_process_may_end_during_the_warm_up() -> None:
    code = "from planck_nb.jupyter.ipython.warm_up import WarmUp; WarmUp().start()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_shell_without_a_kernel_loads_nothing_ahead() -> None:
    shell = InteractiveShell()
    extension.load(shell)
    try:
        assert THREAD not in {thread.name for thread in threading.enumerate()}
    finally:
        extension.unload(shell)


def warm_up(*steps: Callable[[], object]) -> WarmUp:
    def generate() -> Iterator[None]:
        for step in steps:
            step()
            yield

    warm_up = WarmUp(generate)
    warm_up.start()
    return warm_up


def test_a_failure_is_not_reported(capfd: pytest.CaptureFixture[str]) -> None:
    done: list[str] = []

    def fail() -> None:
        raise ImportError("there is no such module")

    warm_up(lambda: done.append("first"), fail, lambda: done.append("never")).close()
    assert done == ["first"]
    assert capfd.readouterr() == ("", "")


def test_no_step_begins_after_a_stop() -> None:
    begun, go_on = threading.Event(), threading.Event()
    later: list[str] = []

    def wait() -> None:
        begun.set()
        go_on.wait()

    running = warm_up(wait, lambda: later.append("step"))
    begun.wait()
    running.stop()
    go_on.set()
    running.close()
    assert later == []


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_waits_for_the_step_that_is_running() -> None:
    begun = threading.Event()
    ends: list[float] = []

    def work() -> None:
        begun.set()
        time.sleep(0.3)  # an import that takes long
        ends.append(time.monotonic())

    running = warm_up(work)
    begun.wait()
    child = os.fork()
    if not child:
        os._exit(0 if ends else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    running.close()


def test_certificates_are_read_again_only_when_they_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "certificates.pem"
    file.write_bytes(Path(certifi.where()).read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    first = connections.tls_context()
    assert connections.tls_context() is first
    os.utime(file, (1, 1))
    second = connections.tls_context()
    assert second is not first
    monkeypatch.delenv("SSL_CERT_FILE")
    assert connections.tls_context() is not second
