"""In JupyterLab with our extension: one setting turns all of it off, after a reload that the page asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from browser.lab_extension.test_proposals import SETUP
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook, Window

    Open = Callable[..., Notebook]

SET = """async (enabled) => {
    const plugins = [...window.jupyterapp.pluginRegistry._plugins.values()];
    const { service } = plugins.find(({ id }) => id === '@jupyterlab/apputils-extension:settings');
    await service.set('@planck-nb/lab:proposals', 'enabled', enabled);
}"""
COMMANDS = """() => window.jupyterapp.commands.listCommands()
    .filter(name => name.startsWith('planck:') && name !== 'planck:')"""


def test_the_whole_extension_is_off_after_a_reload(lab: Lab, open_notebook: Open, window: Window) -> None:
    notebook = open_notebook(lab.write("switch.ipynb", SETUP, "%%planck\nHi."), width=1400)
    page = notebook.page
    assert page.evaluate(COMMANDS) != []
    try:
        page.evaluate(SET, False)
        bell = page.locator(".jp-Notification-Status")
        bell.click()
        expect(page.locator(".jp-Notification-List")).to_contain_text("Reload the page to turn Planck off.")
        notebook.reload()
        assert page.evaluate(COMMANDS) == []
        page.locator(".jp-Notebook .jp-Cell").first.click()
        expect(page.locator(".jp-cell-toolbar")).to_be_visible()
        notebook.screenshot("switched-off")
        expect(page.locator("#planck-panel, .planck-connected, .planck-help")).to_have_count(0)
        expect(page.locator("[data-command^='planck:']:visible")).to_have_count(0)
    finally:
        page.evaluate(SET, True)
        notebook.reload()
    assert page.evaluate(COMMANDS) != []
    assert [line for line in window.said if "planck" in line.lower()] == []
