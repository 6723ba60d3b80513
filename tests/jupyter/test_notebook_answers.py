"""Answers that are shown again, and notebooks that a program executes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kernel import Kernel, running_kernel

pytestmark = pytest.mark.kernel

SETUP = """%load_ext planck_nb
from planck_nb import get_workspace
from planck_nb.testing import scripted_model
get_workspace().set_default_model(scripted_model(["first **answer**", "second", "third", "fourth", "fifth"]))"""
FIRST = "first **answer**"
BAR = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("answers")) as kernel:
        assert kernel.run(SETUP).status == "ok"
        kernel.run("%%planck\none")
        kernel.run("%%planck\ntwo")
        kernel.run("%%planck helper\none")
        yield kernel


@pytest.mark.parametrize(
    ("line", "text"),
    [("", FIRST), ("1", FIRST), ("2", "second"), ("3", FIRST), ("planck", "second"), ("helper", FIRST)],
)
def test_any_answer_is_shown_again_with_its_whole_bundle(kernel: Kernel, line: str, text: str) -> None:
    cell = kernel.run(f"%planck answer {line}")
    [output] = cell.outputs
    assert {"text/html", "text/markdown", "text/plain"} <= set(output["data"])
    assert output["data"]["text/plain"] == text
    assert "planck-run" not in output["data"]["text/html"]  # a view of this cell would take it for its own


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("0", "counted back from the newest"),
        ("99", "There are 3 answers; write a number up to 3."),
        ("9" * 30, "There are 3 answers; write a number up to 3."),
        ("helpr", "There is no agent helpr"),
    ],
)
def test_an_answer_that_is_not_there_is_one_sentence(kernel: Kernel, line: str, sentence: str) -> None:
    cell = kernel.run(f"%planck answer {line}")
    assert cell.status == "error"
    assert sentence in cell.error
    assert cell.error.count("\n") == 0


def test_a_run_in_the_background_leaves_how_to_get_its_answer(kernel: Kernel) -> None:
    cell = kernel.run("%%planck later --background\nthree")
    texts = [output["data"].get("text/plain", "") for output in cell.outputs]
    expected = "later works in the background; `%planck answer later` shows the answer when it is complete."
    assert expected in texts
    assert not any("<Run" in text for text in texts)
    kernel.run("await _.wait()")
    assert kernel.run("%planck answer later").outputs[0]["data"]["text/plain"] == FIRST


def test_a_program_that_executes_a_notebook_gets_no_widget(kernel: Kernel) -> None:
    """Its outputs are as many as in a notebook application, so that nbval can compare them."""
    opened: list[object] = []

    def note(message: dict[str, object]) -> None:
        if message["msg_type"] == "comm_open":
            opened.append(message)

    alone = kernel.finish(kernel.start("%%planck\nfour", attended=False), on_message=note)
    assert opened == []
    attended = kernel.finish(kernel.start("%%planck\nfive"), on_message=note)
    assert opened
    assert len(alone.outputs) == len(attended.outputs)
    assert [set(output["data"]) - {BAR} for output in alone.outputs] == [
        set(output["data"]) - {BAR} for output in attended.outputs
    ]
    assert 'class="planck-run-1"' in alone.outputs[1]["data"]["text/html"]


def test_answers_of_an_earlier_kernel_can_be_shown_after_resume(tmp_path: Path) -> None:
    for setup in (f"{SETUP}\n", f"{SETUP}\n%planck resume\n"):
        with running_kernel(tmp_path) as kernel:
            assert kernel.run(setup).status == "ok"
            if "resume" not in setup:
                kernel.run("%%planck\none")
                continue
            assert kernel.run("%planck answer").outputs[0]["data"]["text/plain"] == FIRST
