"""JupyterLab in a process of its own, and a Chromium that shows it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    JSHandle,
    Locator,
    Page,
    expect,
    sync_playwright,
)
from support.forked_kernels import KernelTemplate
from support.node import labextension_script
from support.ports import free_port

SCREENSHOTS = Path(__file__).parent.parent / "screenshots"
_HERE = Path(__file__).parent
_START_SECONDS = 60
_START = """from planck_nb.base.iri_parser import without_iri_parser
with without_iri_parser():
    import jsonschema
from jupyterlab.labapp import main
main()"""
_DEADLINE_MS = 180_000
"""How long anything on a page may take: the cores are shared with other tests."""
expect.set_options(timeout=_DEADLINE_MS)
_REDRAWN = 20
"""How often an element may be replaced while it is scrolled to."""
_PANEL = "window.jupyterapp.shell.currentWidget"
_OPEN = "path => window.jupyterapp.commands.execute('docmanager:open', {path}).then(() => {})"
_CLEAR = """async () => {
    for (const panel of [...window.jupyterapp.shell.widgets('main')]) {
        await panel.sessionContext?.shutdown();
        panel.dispose();
    }
}"""
_STATE = f"""() => ({{
    kernel: {_PANEL}?.sessionContext?.session?.kernel?.status,
    active: {_PANEL}?.content?.activeCellIndex,
    cells: {_PANEL}?.content?.widgets?.map(({{ model, node }}) => [
        model.executionCount, model.executionState,
        node.querySelector('.jp-Cell-outputWrapper')?.innerText?.slice(0, 500),
    ]),
    messages: window.lastMessages,
    dialogs: [...document.querySelectorAll('.jp-Dialog')].map(dialog => dialog.innerText),
}})"""
_RECORD_MESSAGES = f"""() => {{
    const messages = window.lastMessages = [];
    const {{ kernel }} = {_PANEL}.sessionContext.session;
    const note = (direction, {{ header, channel, content, parent_header: parent }}) => {{
        const detail = content.execution_state ?? content.data?.content?.type ?? content.data?.method ?? '';
        const cause = parent.msg_type === undefined ? '' : `for ${{parent.msg_type}} ${{parent.msg_id.slice(-4)}}`;
        messages.push([direction, channel, header.msg_type, header.msg_id.slice(-4), detail, cause].join(' '));
        messages.splice(0, messages.length - 120);
    }};
    kernel.anyMessage.connect((_, {{ direction, msg }}) => note(direction, msg));
    kernel.iopubMessage.connect((_, msg) => note('handled', msg));
}}"""
"""Keeps a line for each of the last messages of the kernel of the notebook in front: sent, received and handled."""
READY = f"() => window.jupyterapp && {_PANEL}?.sessionContext?.session?.kernel?.info && true"
_READY_ALONE = f"""() => {{
    document.querySelector('.jp-Dialog .jp-mod-reject')?.click();
    const shell = window.jupyterapp?.shell;
    if (shell && shell.currentWidget === null) for (const {{ id }} of shell.widgets('main')) shell.activateById(id);
    return ({READY})();
}}"""
"""The same, without the late question of a notebook before it, and where a loaded page has not got the focus yet."""
_UNUSED_EXTENSIONS = """
    audio csvviewer debugger extensionmanager help htmlviewer hub imageviewer inspector launcher markdownviewer pdf
    pluginmanager running settingeditor terminal vega5 video workspaces
""".split()
_FLAGS = """
    --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync --disable-quic
    --no-first-run --disable-dev-shm-usage
""".split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker("browser")
            item.add_marker(pytest.mark.timeout(480))


class Notebook:
    """A notebook that is open in JupyterLab."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.path = path

    def run_all(self) -> None:
        """Start all cells without waiting for them."""
        self.page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells'), null")

    def run_first(self, count: int) -> None:
        """Start the first cells without waiting for them."""
        for cell in range(count):
            self.run_only(cell)

    def run_only(self, cell: int) -> None:
        """Start one cell without waiting for it."""
        # In one step, because JupyterLab itself may change the active cell in between.
        self.page.evaluate(
            f"""() => {{
                {_PANEL}.content.activeCellIndex = {cell};
                window.jupyterapp.commands.execute('notebook:run-cell');
            }}"""
        )

    def wait_idle(self, seconds: float = _DEADLINE_MS / 1000, *, cells: int | None = None) -> None:
        """Wait until every code cell, or the first `cells`, has run and the kernel is idle."""
        self.page.wait_for_function(
            f"""() => {{
                const panel = {_PANEL};
                const cells = panel.content.widgets.filter(cell => cell.model.type === 'code').slice(0, {cells or 999});
                return cells.every(cell => cell.model.executionCount !== null) &&
                    panel.sessionContext.session?.kernel?.status === 'idle';
            }}""",
            timeout=seconds * 1000,
        )

    def outputs(self, cell: int) -> list[dict[str, Any]]:
        """The outputs of a cell as they would be saved."""
        found = self.page.evaluate(f"{_PANEL}.content.widgets[{cell}].model.outputs.toJSON()")
        assert isinstance(found, list)
        return found

    def printed(self, cell: int) -> str:
        """What the cell wrote to its standard output."""
        return "".join(output["text"] for output in self.outputs(cell) if output["output_type"] == "stream")

    def reload(self, *, kernel: bool = True) -> None:
        """Load the page again; without `kernel`, as somebody who only reads the file."""
        if kernel:
            self.page.reload()
            self.page.wait_for_function(_READY_ALONE)
            return
        self.page.evaluate(f"{_PANEL}.sessionContext.shutdown()")
        saved = json.loads(self.path.read_text(encoding="utf-8"))
        saved["metadata"]["kernelspec"] = {"name": "none-of-this-name", "display_name": "None", "language": "python"}
        self.path.write_text(json.dumps(saved), encoding="utf-8")
        self.page.reload()
        self.page.wait_for_function(f"() => window.jupyterapp && {_PANEL}?.content?.widgets?.length > 0")

    def save(self) -> None:
        self.page.evaluate(f"{_PANEL}.context.save()")

    def theme(self, name: str) -> None:
        """Change to the JupyterLab theme `name`."""
        self.page.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: '{name}'}})")
        light = "true" if "Light" in name else "false"
        self.page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")

    def output(self, cell: int) -> Locator:
        """The output area of a cell."""
        return self.page.locator(".jp-Cell").nth(cell).locator(".jp-Cell-outputWrapper")

    def screenshot(self, name: str) -> None:
        """Save a picture for people to look at, if they ask for pictures."""
        if "PLANCK_NB_SCREENSHOTS" in os.environ:
            SCREENSHOTS.mkdir(exist_ok=True)
            self.page.screenshot(path=SCREENSHOTS / f"{name}.png", animations="disabled")


class Lab:
    """A running JupyterLab over an empty folder."""

    def __init__(self, url: str, token: str, root: Path, *, pages: str = "doc/tree") -> None:
        self.url = url
        self.token = token
        self.root = root
        self._pages = pages

    def write(self, name: str, *cells: str) -> Path:
        """Write a notebook of code cells into the folder."""
        code: list[dict[str, Any]] = [
            {
                "cell_type": "code",
                "id": f"c{at}",
                "metadata": {},
                "execution_count": None,
                "outputs": [],
                "source": source,
            }
            for at, source in enumerate(cells)
        ]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        path = self.root / name
        path.write_text(
            json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": code}),
            encoding="utf-8",
        )
        return path

    def address(self, path: Path) -> str:
        return f"{self.url}{self._pages}/{path.name}?token={self.token}"


def _lean_pages(config: Path) -> None:
    """Load pages without extensions which no test looks at.

    With each page, JupyterLab would also start Node to see whether it has to be built.
    """
    folder = config / "labconfig"
    folder.mkdir()
    settings = {
        "buildCheck": False,
        "disabledExtensions": {f"@jupyterlab/{name}-extension": True for name in _UNUSED_EXTENSIONS},
    }
    (folder / "page_config.json").write_text(json.dumps(settings), encoding="utf-8")


def _no_news(settings: Path) -> None:
    folder = settings / "@jupyterlab" / "apputils-extension"
    folder.mkdir(parents=True)
    choices = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
    (folder / "notification.jupyterlab-settings").write_text(json.dumps(choices), encoding="utf-8")


def _fork_kernels(config: Path, address: str) -> None:
    """Have the server start its kernels as the tests do."""
    (config / "jupyter_server_config.py").write_text(
        f"import sys\nsys.path.append({str(_HERE.parent)!r})\n"
        f"from support.forked_kernels import start_from\nstart_from(lambda: {address!r})\n",
        encoding="utf-8",
    )


@pytest.fixture(scope="session", autouse=True)
def settled_clicks() -> Iterator[None]:
    """Scroll to what a test clicks on before it is clicked.

    Views out of sight are not laid out (`content-visibility` in the style sheet): one that comes into sight may grow,
    which moves what is below it. Playwright waits until an element no longer moves, but before it scrolls.

    A view may also be drawn anew between the moment in which Playwright finds an element and the scrolling, which then
    fails instead of looking again, as a click does.
    """
    click, scroll = Locator.click, Locator.scroll_into_view_if_needed

    def scroll_to_the_newest(self: Locator, *, timeout: float | None = None) -> None:
        for left in reversed(range(_REDRAWN)):
            try:
                scroll(self, timeout=timeout)
            except Error as error:
                if not left or "not attached" not in error.message:
                    raise
            else:
                return

    def scroll_and_click(self: Locator, **options: Any) -> None:
        scroll_to_the_newest(self, timeout=options.get("timeout"))
        click(self, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Locator, "scroll_into_view_if_needed", scroll_to_the_newest)
        patch.setattr(Locator, "click", scroll_and_click)
        yield


@pytest.fixture(scope="session", autouse=True)
def unhurried_waits() -> Iterator[None]:
    """Look 20 times a second for what a test waits for: Playwright would have the page draw 60 frames to look."""
    wait = Page.wait_for_function

    def wait_for_function(self: Page, expression: str, **options: Any) -> JSHandle:
        return wait(self, expression, **{"polling": 50, **options})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Page, "wait_for_function", wait_for_function)
        yield


def _extensions(folder: Path, *, ours: bool) -> Path:
    """A folder with the extensions that live views need, and with ours as this tree has it."""
    installed = Path(sys.prefix, "share", "jupyter", "labextensions")
    folder.mkdir()
    for name in ("@jupyter-widgets", "anywidget"):
        (folder / name).symlink_to(installed / name)
    if ours:
        hook = labextension_script("hatch_build")
        for file, path in hook.extension_files().items():
            copy = folder / hook.EXTENSION / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)  # the server gives out no files outside the folder
    return folder


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, kernel_template: KernelTemplate | None) -> Iterator[Lab]:
    """A JupyterLab without our extension; it ends with the tests."""
    with running_lab(tmp_path_factory.mktemp("jupyterlab"), kernel_template) as lab:
        yield lab


@contextmanager
def running_lab(
    home: Path, kernel_template: KernelTemplate | None, *, extension: bool = False, base: str = "/"
) -> Iterator[Lab]:
    """A JupyterLab with folders of its own."""
    (home / "config").mkdir()
    if kernel_template is not None:
        _fork_kernels(home / "config", kernel_template.address())
    extensions = _extensions(home / "labextensions", ours=extension)
    command = [sys.executable, "-c", _START, f"--LabApp.labextensions_path={extensions}"]
    with _running(home, command, {"PYTHONPATH": str(_HERE.parent.parent)}, base=base) as lab:
        yield lab


@contextmanager
def installed_lab(home: Path, environment: Path, *options: str) -> Iterator[Lab]:
    """JupyterLab, or Jupyter Notebook if it is there, from an environment which has our wheel and no Node."""
    programs = environment / "bin"
    has_notebook = (programs / "jupyter-notebook").exists()
    command = [str(programs / ("jupyter-notebook" if has_notebook else "jupyter-lab")), *options]
    assert shutil.which("node", path=str(programs)) is None
    with _running(home, command, {"PATH": str(programs), "PYTHONPATH": ""}, has_notebook=has_notebook) as lab:
        yield lab


@contextmanager
def _running(
    home: Path, command: list[str], variables: dict[str, str], *, has_notebook: bool = False, base: str = "/"
) -> Iterator[Lab]:
    root = home / "notebooks"
    root.mkdir()
    (home / "config").mkdir(exist_ok=True)
    _lean_pages(home / "config")
    _no_news(home / "settings")
    shutil.copy(_HERE / "scripted_run.py", root)
    token, port = "planck", free_port()
    environment = {
        **os.environ,
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "PLANCK_NB_DEMO_PACE": "0.002",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        **variables,
    }
    app = "JupyterNotebookApp" if has_notebook else "LabApp"
    command = [
        *(*command, "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1"),
        *(
            f"--ServerApp.base_url={base}",
            "--ServerApp.port_retries=0",
            f"--IdentityProvider.token={token}",
            f"--ServerApp.root_dir={root}",
        ),
        *(f"--{app}.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"),
    ]
    with subprocess.Popen(command, env=environment, cwd=root, stderr=subprocess.PIPE, text=True) as server:
        started = threading.Event()
        said: list[str] = []
        listener = threading.Thread(target=_listen, args=(server, said, started), daemon=True)
        listener.start()
        try:
            assert started.wait(_START_SECONDS), "JupyterLab did not start:\n" + "".join(said)
            url, pages = f"http://127.0.0.1:{port}{base}", "notebooks" if has_notebook else "doc/tree"
            yield Lab(url, token, root, pages=pages)
        finally:
            server.terminate()  # it ends its kernels first
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
            listener.join(10)


def _listen(server: subprocess.Popen[str], said: list[str], started: threading.Event) -> None:
    assert server.stderr is not None
    for line in server.stderr:
        said.append(line)
        if "is running at" in line:
            started.set()


class Window:
    """One page that opens notebook after notebook, because loading JupyterLab takes longer than most tests."""

    def __init__(self, lab: Lab, chromium: Browser) -> None:
        self.lab = lab
        self._chromium = chromium
        self._context: BrowserContext | None = None
        self._page: Page | None = None
        self._said: deque[str] = deque(maxlen=20)

    def open(self, path: Path, *, width: int = 1000, height: int = 900) -> Notebook:
        """Open a notebook file and wait for its kernel."""
        if self._page is None:
            if self._context is None:
                self._context = self._chromium.new_context()
                self._context.set_default_timeout(_DEADLINE_MS)
            self._page = self._context.new_page()
            self._page.on("console", self._note)
            self._page.on("pageerror", self._note)
            self._page.set_viewport_size({"width": width, "height": height})
            self._page.goto(self.lab.address(path))
        else:
            self._page.set_viewport_size({"width": width, "height": height})
            self._page.evaluate(_OPEN, path.name)
        self._page.wait_for_function(_READY_ALONE)
        self._page.evaluate(_RECORD_MESSAGES)
        return Notebook(self._page, path)

    @property
    def said(self) -> list[str]:
        """The last errors and warnings in the console."""
        return list(self._said)

    def _note(self, said: ConsoleMessage | Error) -> None:
        if isinstance(said, Error) or said.type in ("error", "warning"):
            self._said.append(str((said.stack or said) if isinstance(said, Error) else said.text)[:1500])

    def tell(self, name: str) -> None:
        """Print the state of the notebook of a test that has failed, and save what the page shows."""
        if self._page is not None:
            with suppress(Error):
                print(f"the notebook: {json.dumps(self._page.evaluate(_STATE), indent=1)}")
                print(f"the console: {json.dumps(list(self._said), indent=1)}")
                SCREENSHOTS.mkdir(exist_ok=True)
                self._page.screenshot(path=SCREENSHOTS / f"failed-{name}.png")

    def clear(self) -> None:
        """Shut the kernels down and take the notebooks away."""
        if self._page is not None:
            self._page.evaluate(_CLEAR)
            self._page.context.clear_permissions()

    def leave(self) -> None:
        """Close the page. The next one has the code of JupyterLab in its cache."""
        if self._page is not None and self._context is not None:
            self._page.evaluate(f"{_PANEL}?.sessionContext?.shutdown()")
            self._page = None
            for page in self._context.pages:
                page.close()
            self._context.clear_permissions()

    def close(self) -> None:
        """Close the page, and forget all that the browser has kept."""
        context, self._context = self._context, None
        try:
            if self._page is not None:
                page, self._page = self._page, None
                page.evaluate(f"{_PANEL}?.sessionContext?.shutdown()")
        finally:
            if context is not None:
                context.close()


class SharedBrowser:
    """Chromium and the page of JupyterLab in it: both stay open from file to file."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._chromium: Browser | None = None
        self._window: Window | None = None

    def chromium(self, path: str) -> Browser:
        """Chromium, which is started if none runs."""
        if self._chromium is not None and not self._chromium.is_connected():  # it has crashed
            with suppress(Error):
                self.close()
        if self._chromium is None:
            playwright = self._opened.enter_context(sync_playwright())
            self._chromium = playwright.chromium.launch(executable_path=path, args=_FLAGS)
            self._opened.callback(self._chromium.close)
        return self._chromium

    def window(self, lab: Lab, chromium: Browser) -> Window:
        """The page, which is loaded when it opens its first notebook."""
        if self._window is None or self._window.lab is not lab:
            if self._window is not None:
                self._window.leave()
            self._window = Window(lab, chromium)
            self._opened.callback(self._window.close)
        return self._window

    def close(self) -> None:
        """End Chromium."""
        self._chromium = self._window = None
        self._opened.close()


_SHARED = pytest.StashKey[SharedBrowser]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """End Chromium before a test of another folder: Playwright's loop must be gone before asynchronous tests run."""
    try:
        return (yield)
    finally:
        if nextitem is None or _HERE not in nextitem.path.parents:
            _shared(item.config).close()


def _shared(config: pytest.Config) -> SharedBrowser:
    return config.stash.setdefault(_SHARED, SharedBrowser())


@pytest.fixture(scope="module")
def chromium(pytestconfig: pytest.Config) -> Browser:
    """The system's Chromium; the build without windows where it is installed, which needs less CPU."""
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if path is None:
        reason = "chromium is not on PATH; install it, for example with apt-get install chromium"
        if "chromium" in os.environ.get("PLANCK_NB_REQUIRE", "").split(","):
            pytest.fail(reason)
        pytest.skip(reason)
    return _shared(pytestconfig).chromium(path)


@pytest.fixture(scope="module")
def window(pytestconfig: pytest.Config, lab: Lab, chromium: Browser) -> Window:
    return _shared(pytestconfig).window(lab, chromium)


@pytest.fixture
def open_notebook(window: Window, request: pytest.FixtureRequest) -> Iterator[Callable[..., Notebook]]:
    """Opens a notebook file, with a kernel of its own that ends with the test.

    The page is the one that the tests before had, unless one is marked with `own_page` or has failed.
    """
    failed = request.session.testsfailed
    own = request.node.get_closest_marker("own_page") is not None
    if own:
        window.leave()
    yield window.open
    if request.session.testsfailed > failed:
        window.tell(request.node.originalname)
        window.close()
    elif own:
        window.leave()
    else:
        window.clear()
