"""Takes the README's picture: a run in JupyterLab which has drawn a figure and waits for approval.

python tests/browser/save_picture.py              writes notebooks/view.png
python tests/browser/save_picture.py other.png
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import nbformat
from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "notebooks" / "view.png"
PORT = 18_888
WIDTH, HEIGHT = 760, 1700
READY = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.info && true"
_START_SECONDS = 60
_WAIT_MS = 120_000

PLOT = """orders.plot.bar(x="region", figsize=(5, 1.6), rot=0, xlabel="", ylabel="EUR");"""

SETUP = f"""
%load_ext planck_nb
%config InlineBackend.figure_formats = ['retina']
from planck_nb import get_workspace
from planck_nb.testing import Call, Reply, scripted_model
report = '''# Orders

- West sends back 3,080 of 9,450 EUR, a third of what it sells.
- North and South stay below a tenth.
'''
get_workspace().add_agent("planck", model=scripted_model([
    Reply(
        thinking="Totals by region show where returns matter; a bar chart compares them.",
        text="I compare what each region sells with what comes back.",
        calls=[Call("run_python", {{"code": {PLOT!r}}})],
    ),
    Reply(
        text="**West** sends back a third of what it sells; the others stay below a tenth. I note that in `report.md`.",
        calls=[Call("write", {{"path": "report.md", "content": report}})],
    ),
    "Done.",
]));
"""

DATA = """import pandas as pd
regions = ["West", "North", "South"]
orders = pd.DataFrame({"region": regions, "sold": [9450, 8200, 7650], "returned": [3080, 610, 480]})"""

PROMPT = """%%planck --tools kernel,write --allow run_python
Where do returns in @orders matter? Draw it, and write a short report."""


@contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """JupyterLab over a folder; gives its address."""
    token = secrets.token_hex()
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    environment = {
        **os.environ,
        "HOME": str(folder),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "PLANCK_NB_DEMO_PACE": "0",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={PORT}", "--ip=127.0.0.1"]
    command += ["--LabApp.expose_app_in_browser=True", "--ServerApp.port_retries=0"]
    command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}"]
    with subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(f"http://127.0.0.1:{PORT}/api?token={token}")
            yield f"http://127.0.0.1:{PORT}/doc/tree/orders.ipynb?token={token}"
        finally:
            server.terminate()


def _wait_for(url: str) -> None:
    limit = time.monotonic() + _START_SECONDS
    while time.monotonic() < limit:
        try:
            urlopen(url, timeout=5).close()
        except URLError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"JupyterLab did not start on port {PORT} in {_START_SECONDS} s.")


def save_picture(picture: Path) -> None:
    """Run the notebook until the agent asks for approval, and save what its cell shows."""
    cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, DATA, PROMPT)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), folder / "orders.ipynb")
        chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        with jupyterlab(folder) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=2)
            page.set_default_timeout(_WAIT_MS)
            page.goto(address)
            page.wait_for_selector(".jp-Notebook .jp-Cell >> nth=2")
            page.wait_for_function(READY)
            page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells'), null")
            page.get_by_role("button", name="Allow once").wait_for()
            page.wait_for_timeout(1500)  # until figures are painted and animations have ended
            page.add_style_tag(content=".jp-cell-toolbar { display: none !important }")
            page.locator(".jp-Cell").nth(2).screenshot(path=picture, animations="disabled")
            browser.close()
    with Image.open(picture) as image:  # a third of the bytes, and the same to the eye
        image.convert("RGB").quantize(128).save(picture, optimize=True)


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    save_picture(file)
    print(file, f"{file.stat().st_size / 1000:.0f} kB")
