"""In JupyterLab: answers look the same while they are written and in the saved notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from browser.conftest import Lab, Notebook

    Open = Callable[..., Notebook]


SETUP = r'''from IPython.display import display
from planck_nb.ai.messages import AssistantMessage, TextPart
from planck_nb.jupyter.transcript.transcript import Transcript
from scripted_run import ScriptedRun
TEXT = r"""It costs $5 and then $10, but $x^2 + y_i$ and \(a_b\) are formulas:

$$
\int_0^1 f(x)\,dx
- \begin{pmatrix} a & b \\[2pt] c & d \end{pmatrix}
$$

```python
def parse_date(series):  # till exports since 1 March
    return pd.to_datetime(series, format="%d/%m/%y", errors="coerce").fillna(series.map(str)).astype("datetime64[ns]")
```

- [x] the loader[^1]
- [ ] the tests, see https://docs.pytest.org/en/stable.

| month | orders | revenue |
|:--|--:|:-:|
| March | 9,980 | $5 |
| April | 16,570 | $10 |

> ~~Both~~ **one** of them is left: $\href{javascript:alert(1)}{x}$

[^1]: It reads *both* formats.
"""'''
LIVE = """run = ScriptedRun()
view = run.view()
display(view)
run.start()
run.text(TEXT)
run.reply(TEXT)
await run.stopped.wait()"""
SAVED = """messages = (AssistantMessage((TextPart(TEXT),)),)
transcript = Transcript("analyst", "demo:x", "done", messages, None, 0.063, None, 41.2)
display(transcript.bundle(), raw=True)"""
STYLES = """pre => {
    const style = getComputedStyle(pre);
    return [style.whiteSpace, style.wordBreak, style.overflowX];
}"""


def test_an_answer_is_typeset_live_and_saved_and_money_is_left_alone(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("answers.ipynb", SETUP, LIVE, SAVED), width=1000, height=1500)
    notebook.run_first(2)
    live = notebook.output(1)
    expect(live.locator(".pk-math math")).to_have_count(3)
    assert live.locator(".pk-prose > p").first.inner_text().startswith("It costs $5 and then $10, but ")
    assert live.locator(".pk-math[data-display] mtable").count() == 1
    assert live.locator("blockquote code").inner_text() == r"\href{javascript:alert(1)}{x}"
    expect(live.locator(".pk-code .hl-keyword").first).to_have_text("def")
    notebook.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    live.locator(".pk-code").hover()
    live.locator(".pk-code [data-does=copy]").click()
    expect(live.locator(".pk-code [data-does=copy]")).to_have_text("Copied")
    assert notebook.page.evaluate("navigator.clipboard.readText()").startswith("def parse_date(series):")
    code = live.locator(".pk-code pre")
    assert code.evaluate("pre => pre.scrollWidth > pre.clientWidth")
    live.locator(".pk-code [data-does=wrap]").click()
    assert code.evaluate("pre => pre.scrollWidth <= pre.clientWidth && getComputedStyle(pre).wordBreak === 'normal'")
    expect(live.locator(".pk-code [data-does=wrap]")).to_have_attribute("aria-pressed", "true")
    live.locator(".pk-stop").click()
    notebook.run_only(2)
    saved = notebook.output(2)
    expect(saved.locator("mjx-container")).to_have_count(3)
    assert "It costs $5 and then $10, but " in saved.inner_text()
    assert saved.locator("td").nth(5).inner_text() == "$10"
    assert saved.locator("pre").evaluate(STYLES) == ["pre", "normal", "auto"]
    widths = [output.locator("table").evaluate("table => table.offsetWidth") for output in (live, saved)]
    assert abs(widths[0] - widths[1]) < 40
    for theme in ("Light", "Dark"):
        notebook.theme(f"JupyterLab {theme}")
        notebook.screenshot(f"answers-{theme.lower()}")
    notebook.theme("JupyterLab Light")
    notebook.wait_idle()
    notebook.save()


def test_what_is_saved_survives_the_sanitizer_of_untrusted_notebooks(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("untrusted.ipynb", SETUP, SAVED), width=480, height=1500)
    notebook.run_all()
    expect(notebook.output(1).locator("mjx-container")).to_have_count(3)
    notebook.wait_idle()
    html = notebook.outputs(1)[0]["data"]["text/html"]
    kept = notebook.page.evaluate(
        """html => {
            const { rendermime } = window.jupyterapp.shell.currentWidget.content;
            const template = document.createElement('template');
            template.innerHTML = rendermime.sanitizer.sanitize(html);
            const original = document.createElement('template');
            original.innerHTML = html;
            const styles = node => [...node.content.querySelectorAll('[style]')].flatMap(
                element => [...element.style].map(name => `${element.tagName} ${name}: ${element.style[name]}`));
            const left = new Set(styles(template));
            return [
                [...new Set(styles(original))].filter(style => !left.has(style)),
                template.content.querySelectorAll('.mathjax_ignore').length,
                original.content.querySelectorAll('.mathjax_ignore').length,
            ];
        }""",
        html if isinstance(html, str) else "".join(html),
    )
    notebook.screenshot("answers-saved-480")
    assert kept[0] == []
    assert kept[1] == kept[2] > 0


FOLDED = """run = ScriptedRun()
view = run.view()
display(view)
run.start()
run.text("The **answer** is `42`.")
run.end()
view.finish(run.summary())"""


def test_the_bar_replies_runs_again_and_edits(lab: Lab, open_notebook: Open) -> None:
    notebook = open_notebook(lab.write("bar.ipynb", SETUP, FOLDED))
    notebook.run_all()
    notebook.wait_idle()
    bar = notebook.output(1).locator(".pk-bar")
    expect(bar.locator("button:visible")).to_have_text(["Reply", "Re-run", "Copy", ""])
    expect(notebook.output(1).locator(".pk > .pk-sr[aria-live]")).to_contain_text("The answer is 42.")
    notebook.screenshot("bar-light")
    notebook.page.wait_for_timeout(500)  # the buttons are inert at first
    count = "window.jupyterapp.shell.currentWidget.content.widgets[1].model.executionCount"
    before = notebook.page.evaluate(count)
    bar.get_by_role("button", name="Re-run", exact=True).click()
    notebook.page.wait_for_function(f"before => {count} > before", arg=before)
    notebook.wait_idle()
    bar = notebook.output(1).locator(".pk-bar")
    expect(bar).to_be_visible()
    notebook.page.wait_for_timeout(500)
    bar.get_by_role("button", name="More").click()
    bar.get_by_text("Edit the cell only").click()
    notebook.page.keyboard.type("  # edited")
    source = "window.jupyterapp.shell.currentWidget.content.widgets[{}].model.sharedModel.getSource()"
    assert notebook.page.evaluate(source.format(1)).endswith("  # edited")
    bar.get_by_role("button", name="Reply").click()
    expect(notebook.page.locator(".jp-Cell")).to_have_count(3)
    notebook.page.wait_for_function("document.activeElement.closest('.jp-Cell')?.dataset.windowedListIndex === '2'")
    notebook.page.keyboard.type("and now?")
    assert notebook.page.evaluate(source.format(2)) == "%%planck analyst\nand now?"
