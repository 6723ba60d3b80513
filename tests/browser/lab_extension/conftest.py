"""JupyterLab with our extension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from browser.conftest import running_lab
from playwright.sync_api import Locator, Page, expect
from support.forked_kernels import KernelTemplate

if TYPE_CHECKING:
    from browser.conftest import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, kernel_template: KernelTemplate | None) -> Iterator[Lab]:
    """A JupyterLab with our extension, at an address as on a hub; it ends with the tests."""
    home = tmp_path_factory.mktemp("jupyterlab")
    with running_lab(home, kernel_template, extension=True, base="/user/me@example.org/") as lab:
        yield lab


@pytest.fixture
def show() -> Iterator[Callable[[Page], Locator]]:
    """Show the panel of a page; it is hidden again after the test."""
    shown: list[Page] = []

    def show(page: Page) -> Locator:
        shown.append(page)
        # Restoring its layout, JupyterLab would close the panel again.
        page.evaluate("window.jupyterapp.restored.then(() => window.jupyterapp.commands.execute('planck:show-panel'))")
        panel = page.locator(".pk-panel")
        expect(panel).to_be_visible()
        return panel

    yield show
    for page in shown:
        page.evaluate("window.jupyterapp.shell.collapseRight()")
