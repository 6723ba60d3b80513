"""`%planck fix` and its siblings: which cell they are about, and what is sent with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from planck_nb import Agent, AgentSpec, Config, Workspace
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.extension import Extension
from planck_nb.teams.template import TeamTemplate
from planck_nb.testing import scripted_model

ANSWER = "The key is missing.\n\n```python\nrates['USD'] = 1\n```\n\nNow it is there."
KEY = "sk-ant-" + "a1B2c3D4e5F6" * 3
FUNCTION = "rates = {'EUR': 0.9}\ndef convert(price, currency):\n    return price / rates[currency]\n"


@dataclass
class Notebook:
    """A shell with the magics, whose agent says the same thing each time."""

    shell: InteractiveShell
    workspace: Workspace
    agent: Agent
    shown: list[str] = field(default_factory=list)

    async def run(self, code: str, cell_id: str | None = None) -> Any:
        """Execute a cell as ipykernel does."""
        with redirect_stdout(StringIO()) as output:
            result = await self.shell.run_cell_async(
                code,
                store_history=True,
                transformed_cell=self._transformed(code),
                cell_id=cell_id,
            )
            self.shell.events.trigger("post_execute")
            self.shell.events.trigger("post_run_cell", result)
        self.shown.append(output.getvalue())
        return result

    def _transformed(self, code: str) -> str:
        try:
            return str(self.shell.transform_cell(code))
        except SyntaxError:
            return code

    @property
    def prompts(self) -> list[str]:
        """What the agent was sent."""
        return [entry.message.text for entry in self.agent.state.messages if entry.message.type == "user"]


def kernel_shell() -> InteractiveShell:
    """Return a shell which awaits magics, as a terminal's does not: that would patch asyncio in this process."""
    shell = InteractiveShell()
    shell.kernel = SimpleNamespace()
    return shell


@pytest.fixture
async def notebook(tmp_path: Path) -> AsyncIterator[Notebook]:
    workspace = Workspace(Config.load(environment={}, directory=tmp_path, home=tmp_path))
    controller = Controller(workspace)
    shell = kernel_shell()
    Extension(shell, controller).install()
    agent = workspace.add_agent("planck", model=scripted_model([ANSWER] * 5))
    yield Notebook(shell, workspace, agent)
    assert controller.cells is not None
    controller.cells.remove()
    await controller.close()
    shell.history_manager.end_session()


SENT: list[tuple[str, Sequence[str], Sequence[str], Sequence[str]]] = [
    (
        "an error",
        ["count = 3", "count / 0"],
        ["The notebook's cell In [2], which failed:", "count / 0", "ZeroDivisionError", "count: 3"],
        ["ipykernel_", "run_cell_magic"],
    ),
    ("a syntax error", ["count = 3", "if count\n    1"], ['File "Cell In[2]"', "SyntaxError", "count: 3"], []),
    ("wrong indentation", ["  x = 1\n y = 2"], ["IndentationError"], []),
    (
        "a prompt",
        ["%%planck ann --modl demo\nhello"],
        ["%%planck ann --modl demo\nhello", "Did you mean --model or --models?"],
        [],
    ),
    (
        "an error in a function of the notebook",
        [FUNCTION, "convert(1, 'USD')"],
        ["def convert(price, currency):\n    return price / rates[currency]", "rates: {'EUR': 0.9}", "KeyError: 'USD'"],
        [],
    ),
    ("modules", ["import json", "json.loads('{')"], ["JSONDecodeError"], ["<module 'json'"]),
    (
        "a password in the error",
        ["password = 'correct-horse-7'", "raise ValueError(f'cannot log in with {password}')"],
        ["cannot log in with"],
        ["correct-horse-7"],
    ),
    ("a password in a cell that cannot run", ["join(password='battery-staple')\n)"], ["join"], ["battery-staple"]),
    ("a key in a value", [f"settings = {{'model': 'x', 'value': '{KEY}'}}", "settings.x"], ["settings"], [KEY]),
    ("a key in a comment", [f"1 / 0  # {KEY}"], ["ZeroDivisionError"], [KEY]),
    ("a private name", ["_hidden = 12345", "_hidden / 0"], ["_hidden / 0"], ["12345"]),
]


@pytest.mark.parametrize(("cells", "sent", "not_sent"), [row[1:] for row in SENT], ids=[row[0] for row in SENT])
async def test_the_failed_cell_is_sent_with_its_error_and_variables_but_without_secrets(
    notebook: Notebook, cells: Sequence[str], sent: Sequence[str], not_sent: Sequence[str]
) -> None:
    for cell in cells:
        await notebook.run(cell)
    assert (await notebook.run("%planck fix")).success
    [prompt] = notebook.prompts
    assert [text for text in sent if text not in prompt] == []
    assert [text for text in not_sent if text in prompt] == []


async def test_the_agent_gets_the_kernel_tools_and_the_answer_has_the_cell(notebook: Notebook) -> None:
    await notebook.run("1 / 0")
    result = await notebook.run("%planck fix")
    assert result.result.code == "rates['USD'] = 1"
    assert {tool.name for tool in notebook.agent.tools} >= {"run_python", "inspect_variable", "last_error"}
    assert "Sent with it: In [1], its error." in notebook.shown[-1]


async def test_variables_that_are_not_shared_stay_in_the_notebook(notebook: Notebook) -> None:
    await notebook.run("income, age = 71234, 39")
    await notebook.run("%planck --tools kernel --with age hello there")
    await notebook.run("income / age / 0")
    await notebook.run("%planck fix")
    assert "age: 39" in notebook.prompts[-1]
    assert "71234" not in notebook.prompts[-1]


async def test_a_cell_that_runs_through_needs_no_more_help(notebook: Notebook) -> None:
    await notebook.run("1 / 0", "a")
    await notebook.run("print('other')", "b")
    await notebook.run("%planck fix")
    assert "1 / 0" in notebook.prompts[-1]
    await notebook.run("1 / 1", "a")
    error = (await notebook.run("%planck fix")).error_in_exec
    assert isinstance(error, UsageError)
    assert "No cell has failed" in str(error)
    assert len(notebook.prompts) == 1


async def test_without_ids_the_same_text_is_the_same_cell(notebook: Notebook) -> None:
    for code in ("1 / zero", "zero = 1", "1 / zero", "%planck fix"):
        await notebook.run(code)
    assert notebook.prompts == []


async def test_an_interrupt_is_no_failure(notebook: Notebook) -> None:
    await notebook.run("1 / 0")
    await notebook.run("raise KeyboardInterrupt")
    await notebook.run("%planck fix")
    assert "1 / 0" in notebook.prompts[-1]


async def test_requests_about_cells_are_not_the_cell(notebook: Notebook) -> None:
    await notebook.run("width = 3")
    for line in ("x = %planck fix --cell 9", "%planck explain", "%%planck improve\nit"):
        await notebook.run(line)
    assert [("width = 3" in prompt) for prompt in notebook.prompts] == [True, True]


async def test_words_are_the_request(notebook: Notebook) -> None:
    await notebook.run("width = 3")
    await notebook.run("%planck fix make it wider")
    assert notebook.prompts[-1].startswith("fix make it wider\n\nThe notebook's cell In [1]:")
    await notebook.run("%%planck test\nwith a width\nbelow zero")
    assert notebook.prompts[-1].startswith("test with a width\nbelow zero\n\n")


async def test_words_without_a_cell_are_a_prompt(notebook: Notebook) -> None:
    await notebook.run("%planck explain what a monad is")
    assert notebook.prompts == ["explain what a monad is"]


async def test_another_cell_by_its_number(notebook: Notebook) -> None:
    await notebook.run("first = 1")
    await notebook.run("1 / 0")
    await notebook.run("%planck explain --cell 1")
    assert "first = 1" in notebook.prompts[-1]
    assert "ZeroDivisionError" not in notebook.prompts[-1]
    error = (await notebook.run("%planck explain --cell 99")).error_in_exec
    assert "There is no executed cell In [99]" in str(error)


async def test_a_cell_that_failed_before_the_extension_was_loaded(tmp_path: Path) -> None:
    shell = kernel_shell()
    controller = Controller(Workspace(Config.load(environment={}, directory=tmp_path, home=tmp_path)))
    extension = Extension(shell, controller)
    agent = controller.workspace.add_agent("planck", model=scripted_model([ANSWER]))
    notebook = Notebook(shell, controller.workspace, agent)
    await notebook.run("if True\n    1")
    extension.install()
    await notebook.run("%planck fix")
    assert "if True\n    1" in notebook.prompts[-1]
    await controller.close()
    shell.history_manager.end_session()


async def test_a_team_is_not_asked(notebook: Notebook) -> None:
    """It has the tools of its members, and gets none."""
    leader = AgentSpec(type="orchestrator", provider="demo", model_id="demo")
    await notebook.workspace.start_team(TeamTemplate.dynamic(leader), name="pair")
    for code in ("%planck use pair", "1 / 0", "%planck fix"):
        assert (await notebook.run(code)).success is (code != "1 / 0")
    assert len(notebook.prompts) == 1


CODE = [
    ("Nothing.", ""),
    ("```python\nx = 1\n```", "x = 1"),
    ("```python\nx = 1\n```\nor\n```py\nx = 2\n\n```", "x = 2\n"),
    ("```\nx = 1\n```\nwhich prints\n```text\n1\n```", "x = 1"),
    ("```python\nx = 1\n```\nwhich prints\n```\n1\n```", "x = 1"),
    ('````Python\nx = "```"\n````', 'x = "```"'),
    ("- like this:\n\n  ```ipython\n  %time x\n  ```", "%time x"),
    ("```bash\nls\n```", ""),
    ("```python\nx = 1", "x = 1"),
]


@pytest.mark.parametrize(("text", "code"), CODE)
async def test_the_code_of_an_answer(notebook: Notebook, text: str, code: str) -> None:
    notebook.workspace.add_agent("coder", model=scripted_model([text]))
    result = await notebook.run("%planck coder --new hello")
    assert result.result.code == code.rstrip("\n")
