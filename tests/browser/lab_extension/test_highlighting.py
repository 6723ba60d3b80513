"""In JupyterLab with our extension: it loads from the server alone, and `%%planck` cells have colours."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]

LANGUAGES = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.mimeType)"
PLUGINS = "() => window.jupyterapp.listPlugins().filter(name => name.startsWith('@planck-nb/'))"
LOADED = "() => performance.getEntriesByType('resource').map(({ name }) => name)"
SET_BACK = """() => {
    const { model } = window.jupyterapp.shell.currentWidget.content;
    model.setMetadata('language_info', { name: 'python', mimetype: 'text/x-python' });
}"""
CELLS = (
    "%%planck analyst\n**Plot** @sales by month, \\@not and me@example.com",
    "%%planck sql\nSELECT 1",
    "print('a')",
)


@pytest.mark.own_page
def test_everything_is_loaded_from_the_server_without_a_word_in_the_console(
    lab: Lab, open_notebook: Open, window: Window
) -> None:
    notebook = open_notebook(lab.write("loaded.ipynb", "%load_ext planck_nb", "%planck --model demo hello"))
    notebook.run_all()
    notebook.wait_idle()
    expect(notebook.output(1).locator(".pk-folded")).to_be_visible()
    page = notebook.page
    assert page.evaluate(PLUGINS)
    loaded = page.evaluate(LOADED)
    assert [address for address in loaded if not address.startswith((lab.url, "blob:", "data:"))] == []
    assert len([address for address in loaded if "/@planck-nb/lab/static/live-" in address]) == 1
    assert [line for line in window.said if "planck" in line] == []


def test_cells_for_agents_are_markdown_or_sql(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("colours.ipynb", *CELLS))
    page = notebook.page
    page.wait_for_function(_languages("text/x-ipython"))
    names = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .cm-planck-name")
    expect(names).to_have_text("@sales")
    page.evaluate(SET_BACK)
    page.wait_for_function(_languages("text/x-python"))
    notebook.screenshot("lab-highlighting")
    page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets[0].model.sharedModel.setSource('print(1)')")
    page.wait_for_function(f"() => ({LANGUAGES})()[0] === 'text/x-python'")


def _languages(python: str) -> str:
    """Whether the cells have the languages, the last one this."""
    return f"() => String(({LANGUAGES})()) === 'text/x-ipythongfm,text/x-sql,{python}'"
