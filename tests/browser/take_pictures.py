"""Pictures of runs, live and ended, for people to look at.

They are taken by hand: ``PLANCK_NB_SCREENSHOTS=1 python -m pytest -q tests/browser/take_pictures.py`` writes them into
`tests/screenshots`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]

SCENES = r'''
from pathlib import Path
from planck_nb import get_workspace
from planck_nb.testing import scripted_model

Path("sales").mkdir(exist_ok=True)
Path("sales/load.py").write_text("import pandas as pd\n\n\ndef load(path):\n    df = pd.read_csv(path)\n"
    "    df['date'] = pd.to_datetime(df['date'])\n    return df\n")

def call(name, /, **args):
    return {"name": name, "arguments": args}

ANSWER = r"""Parse each format on its own and join the two. Then nothing is guessed row by row:

```python
iso = pd.to_datetime(orders.date, format="%Y-%m-%d", errors="coerce")
till = pd.to_datetime(orders.date, format="%d/%m/%y", errors="coerce")
orders["date"] = iso.fillna(till)   # the till exports since 1 March
```

The mean is $\bar{x} = \frac{1}{n}\sum x_i$, and 6,331 rows use the second format; see
[the manual](https://pandas.pydata.org).

| month | orders |
|---|---|
| January | 9,980 |
| March | 3,760 |"""
PLOT = """import matplotlib.pyplot as plt
months = ['Jan', 'Feb', 'Mar']
print('3 months')
plt.figure(figsize=(4, 2))
plt.bar(months, [2.2, 2.4, 1.5])
plt.show()"""
SERIES = "The series has a weekly cycle with a peak on Saturdays. What remains is a slow rise from"
REPLIES = {
    "text": [ANSWER],
    "calls": [{"thinking": "The dates come in two formats. So the parser guesses per row.", "calls": [
        call("read", path="sales/load.py"), call("edit", path="sales/load.py", old_string="df.date", new_string="x"),
        call("edit", path="sales/load.py", old_string="pd.to_datetime(df['date'])",
            new_string="parse_date(df['date'])"), call("bash", command="echo 96 passed")]},
        "The loader reads both formats, and all 96 tests pass."],
    "plot": [{"calls": [call("run_python", code=PLOT)]}, "March is lowest."],
    "cut": [{"text": SERIES, "stop_reason": "length"}],
    "failed": [{"error": "the server closed the connection"}],
}

def scene(name, pace=0.0):
    get_workspace().set_default_model(scripted_model(REPLIES[name], pace=pace))
'''
CELLS = [
    "scene('text', pace=0.03)",
    "%%planck analyst\nHow do I read both date formats?",
    "scene('calls')",
    "%%planck coder --tools files,bash --allow read,edit,bash\nFix the loader and run the tests.",
    "scene('plot')",
    "%%planck plotter --tools kernel --allow run_python\nPlot revenue by month.",
    "scene('cut')",
    "%%planck cutter\nExplain the seasonal pattern.",
    "scene('failed')",
    "%%planck failing\nSummarise the orders.",
]


@pytest.mark.parametrize("theme", ["Light", "Dark"])
@pytest.mark.parametrize("width", [1000, 480])
def test_ends(lab: Lab, open_notebook: Open, theme: str, width: int) -> None:
    (lab.root / "scenes.py").write_text(SCENES, encoding="utf-8")
    setup = "%load_ext planck_nb\nfrom scenes import scene"
    notebook = open_notebook(lab.write(f"ends-{theme}-{width}.ipynb", setup, *CELLS), width=width, height=2400)
    notebook.theme(f"JupyterLab {theme}")
    notebook.run_first(3)
    expect(notebook.output(2).locator(".pk-code")).to_be_visible()
    notebook.screenshot(f"text-live-{theme}-{width}")
    for cell in range(3, len(CELLS) + 1):
        notebook.run_only(cell)
    notebook.wait_idle()
    notebook.page.wait_for_timeout(1500)
    notebook.page.evaluate("window.jupyterapp.shell.currentWidget.content.scrollToItem(0)")
    notebook.screenshot(f"ends-{theme}-{width}")


TEAMS = Path(__file__).parents[2] / "notebooks" / "04_teams.ipynb"


@pytest.mark.parametrize("theme", ["Light", "Dark"])
@pytest.mark.parametrize("width", [1000, 480])
def test_team(lab: Lab, open_notebook: Open, theme: str, width: int) -> None:
    path = lab.root / f"team-{theme}-{width}.ipynb"
    saved = json.loads(TEAMS.read_text(encoding="utf-8"))
    saved["cells"] = [cell for cell in saved["cells"] if cell["cell_type"] == "code"][:8]
    path.write_text(json.dumps(saved), encoding="utf-8")
    notebook = open_notebook(path, width=width, height=2400)
    notebook.theme(f"JupyterLab {theme}")
    for cell in range(len(saved["cells"])):
        notebook.run_only(cell)
    expect(notebook.output(7).locator(".pk-bar")).to_be_visible()
    notebook.page.wait_for_timeout(1500)
    notebook.output(6).locator("summary", has_text="How it was made").click()
    notebook.screenshot(f"team-{theme}-{width}")
