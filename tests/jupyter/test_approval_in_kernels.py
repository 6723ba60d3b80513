"""Who decides about a call in a kernel: options, settings, another cell, and nobody where there is no frontend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support.kernel import Kernel, running_kernel
from support.stubborn import until

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(120)]

ASK = "Use bash with `echo touched > mark; echo done`"


@pytest.fixture(autouse=True)
def demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANCK_NB_MODEL", "demo")
    monkeypatch.setenv("PLANCK_NB_DEMO_PACE", "0")


def execute(folder: Path, *cells: str) -> list[str]:
    """What the cells leave behind as text when they are executed without a frontend."""
    sources = ["%load_ext planck_nb", *cells]
    notebook: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}).execute()
    texts = [
        "\n".join(output.get("text") or output.get("data", {}).get("text/markdown", "") for output in cell.outputs)
        for cell in notebook.cells
    ]
    return texts[1:]


def test_nobody_to_ask_denies_soon_and_names_the_option(tmp_path: Path) -> None:
    [said] = execute(tmp_path, f"%%planck --tools bash\n{ASK}")
    assert "nobody to ask" in said
    assert "`--allow bash`" in said
    assert not (tmp_path / "mark").exists()


def test_allowed_up_front_it_runs(tmp_path: Path) -> None:
    [said] = execute(tmp_path, f"%%planck --tools bash --allow bash\n{ASK}")
    assert "`bash` returned" in said
    assert (tmp_path / "mark").read_text() == "touched\n"


def test_denied_it_does_not_run_though_it_is_allowed(tmp_path: Path) -> None:
    said = execute(
        tmp_path,
        f"%%planck --tools bash --allow bash --deny bash\n{ASK}",
        f"%%planck --tools bash --allow bash\n{ASK}",  # a denial holds for the session
    )
    assert all("bash was denied" in text for text in said)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("setting", "rules", "told"),
    [
        ("PLANCK_NB_ALLOW", "read, bash", "`bash` returned"),
        ("PLANCK_NB_ALLOW", "bash:git status", "nobody to ask"),
        ("PLANCK_NB_DENY", "bash", "bash was denied"),
    ],
)
def test_decided_by_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, rules: str, told: str
) -> None:
    monkeypatch.setenv(setting, rules)
    [said] = execute(tmp_path, f"%%planck --tools bash\n{ASK}")
    assert told in said
    assert (tmp_path / "mark").exists() == ("returned" in told)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    with running_kernel(tmp_path) as kernel:
        kernel.run("%load_ext planck_nb")
        yield kernel


def _ask_in_background(kernel: Kernel) -> None:
    """A background run that asks, with somebody there: the view's frontend has made itself heard."""
    views: list[str] = []

    def look(message: dict[str, Any]) -> None:
        if message["msg_type"] == "comm_open" and "_esm" in message["content"]["data"].get("state", {}):
            views.append(message["content"]["comm_id"])

    cell = kernel.finish(kernel.start(f"%%planck --background --tools bash\n{ASK}"), on_message=look)
    assert cell.status == "ok"
    content = {"comm_id": views[-1], "data": {"method": "custom", "content": {"type": "resync"}}}
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", content))
    kernel.run("run = _")
    asked = "print(any(event.type == 'approval_request' for event in run.events.since(0)))"
    until(lambda: kernel.run(asked).text == "True\n", "it asks")


@pytest.mark.parametrize("allowed", [True, False])
def test_answered_from_another_cell(kernel: Kernel, tmp_path: Path, *, allowed: bool) -> None:
    _ask_in_background(kernel)
    assert "  command: echo touched > mark; echo done" in kernel.run("%planck approve --list").plain
    cell = kernel.run("%planck approve" if allowed else "%planck deny call_1_1 not today")
    assert cell.plain.strip() == ("bash runs." if allowed else "bash does not run.")
    told = kernel.run("print((await run).text)").text
    assert ("`bash` returned" if allowed else "call: not today") in told
    assert (tmp_path / "mark").exists() == allowed
