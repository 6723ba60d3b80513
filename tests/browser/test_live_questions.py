"""Questions of a real sidecar in the live view: answered, corrected, declined, answered by one of two clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect
from support.asking_sidecar import describe

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = """import os
os.chdir({folder!r})
%load_ext planck_nb
%planck model demo
%planck trust --list
%planck trust
%planck sidecar start"""
ASK = '%%planck --new --allow execute:sidecar:asker/*\nPlease call deploy with "shop".'


def test_a_question_of_a_sidecar_is_answered_in_the_cell(lab: Lab, open_notebook: Open, tmp_path: Path) -> None:
    describe(tmp_path)
    notebook = open_notebook(lab.write("question.ipynb", SETUP.format(folder=str(tmp_path)), ASK, ASK))
    notebook.run_first(1)
    notebook.wait_idle(cells=1)
    notebook.run_only(1)
    output = notebook.output(1)
    ask = output.get_by_label("Question of asker")
    expect(ask.locator(".pk-question")).to_have_text("How is shop to be deployed⟨U+202E⟩?")
    expect(ask.locator(".pk-meta")).to_contain_text("declined in 1:5")
    expect(ask.get_by_label("Branch")).to_have_value("main")
    expect(ask.get_by_text("What to deploy")).to_be_visible()
    expect(ask.get_by_label("No⟨U+202E⟩te")).to_be_visible()
    notebook.screenshot("question-of-a-sidecar")
    ask.get_by_role("button", name="Accept").click(delay=50)
    expect(ask.get_by_label("Copies")).to_have_attribute("aria-invalid", "true")
    ask.get_by_label("Copies").fill("12")
    ask.get_by_label("place").select_option("United States")
    ask.get_by_label("Dry run").select_option("no")
    ask.get_by_role("button", name="Accept").click()
    expect(output.locator(".pk-dock .pk-note")).to_contain_text("12 is greater than the maximum of 9")
    notebook.screenshot("question-refused")
    ask.get_by_label("Copies").fill("3")
    ask.get_by_role("button", name="Accept").click()
    expect(output.locator(".pk-bar")).to_contain_text("Done")
    notebook.wait_idle(cells=2)
    said = 'accept {"branch": "main", "copies": 3, "dry": false, "place": "us"}'
    assert said in "".join(notebook.outputs(1)[-1]["data"]["text/plain"])

    notebook.run_only(2)
    again = notebook.output(2)
    expect(again.get_by_label("Copies")).to_be_visible()
    notebook.save()
    notebook.reload()
    again.get_by_role("button", name="Decline").click()  # the kernel has sent the question again
    expect(again.locator(".pk-bar")).to_contain_text("Done")
