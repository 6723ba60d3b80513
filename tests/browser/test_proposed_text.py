"""Without our extension: a proposed change is a text in the output, with a button to copy it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]

SETUP = """%load_ext planck_nb
import planck_nb
from planck_nb.testing import Call, Reply, scripted_model
change = Call("propose", {"kind": "change", "cell": "c1", "source": "a = 2\\na"})
planck_nb.get_workspace().add_agent("one", model=scripted_model([Reply(calls=[change]), "done"]))"""


def test_a_change_is_copied_and_runs_nothing_in_an_untrusted_notebook(lab: Lab, open_notebook: Open) -> None:
    prompt = "%%planck one --tools notebook\nMake it two."
    notebook = open_notebook(lab.write("copied.ipynb", SETUP, "a = 1\na", prompt), width=1400)
    page = notebook.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    notebook.run_first(3)
    notebook.wait_idle()
    copy = notebook.output(2).locator("button", has_text="Copy").last
    expect(notebook.output(2)).to_contain_text("Proposed change of In [2]:")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        notebook.screenshot(f"lab-copied-{theme[11:].lower()}")
    copy.click()
    expect(notebook.output(2)).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "a = 2\na"
    html = next(output["data"]["text/html"] for output in notebook.outputs(2) if "<script>" in str(output))
    safe = page.evaluate(
        """html => {
            const { rendermime } = window.jupyterapp.shell.currentWidget.content;
            const box = document.createElement('div');
            box.innerHTML = rendermime.sanitizer.sanitize(Array.isArray(html) ? html.join('') : html);
            return [box.textContent.includes('a = 2'), box.querySelectorAll('script, button').length];
        }""",
        html,
    )
    assert safe == [True, 0]
