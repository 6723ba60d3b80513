"""Code that an agent runs in a real kernel: what it returns, what it leaves alone, and what it cannot do."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.kernel import Cell, Kernel, running_kernel, touching, wait_until_blocked

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]

HARNESS = """
from IPython import get_ipython
from IPython.display import display
from planck_nb.jupyter.kernel_tools.executor import Executor

executor = Executor(get_ipython())

async def execute(code, seconds=30.0):
    interrupts, said = [], []
    done = await executor.run(
        code, seconds=seconds, progress=said.append, on_interrupt=lambda: interrupts.append(1))
    return {
        "text": done.text, "error": done.error, "traceback": done.traceback, "late": done.late,
        "interrupted": done.interrupted, "images": len(done.images), "progress": "".join(said)[-2000:],
        "tables": [[type(each).__name__, each.text, getattr(each, "types", ())] for each in done.previews],
        "before": sorted(done.before), "created": sorted(done.created), "interrupts": len(interrupts)}

def show(data):
    display({"application/json": data, "text/plain": ""}, raw=True)
"""
SETUP = """
%load_ext planck_nb
import asyncio, sys, signal, matplotlib, matplotlib.pyplot, pandas
from IPython.display import display
from harness import execute, show
"""


@dataclass
class Done:
    """The result of a call, and what else its cell has shown."""

    text: str
    error: str
    traceback: str
    late: bool
    interrupted: bool
    images: int
    progress: str
    before: list[str]
    created: list[str]
    interrupts: int
    tables: list[tuple[str, str, list[str]]]
    cell: Cell = field(default_factory=Cell, repr=False)


class Notebook:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def call(self, code: str, seconds: float = 30.0) -> Done:
        cell = self.kernel.run(f"show(await execute({code!r}, {seconds}))")
        assert cell.status == "ok", cell.error
        [data] = cell.data("application/json")
        assert len(cell.outputs) == 1, "something was shown below the cell"
        assert cell.text == "", "something was printed below the cell"
        return Done(**data, cell=cell)

    def value(self, expression: str) -> Any:
        cell = self.kernel.run(f"show({expression})")
        assert cell.status == "ok", cell.error
        return cell.data("application/json")[0]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "harness.py").write_text(HARNESS)
    with running_kernel(folder, PLANCK_NB_MODEL="demo", PLANCK_NB_DEMO_PACE="0") as kernel:
        cell = kernel.run(SETUP)
        assert cell.status == "ok", cell.error
        yield Notebook(kernel)


REDIRECTED = """
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()) as written:
    print('z')
    await asyncio.sleep(0.01)
    print('y')
written.getvalue()
"""


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("print('hello')", "hello"),
        ("2 + 3", "5"),
        ("2 + 3;", ""),
        ("2 + 3  # not ; hidden", "5"),
        ("'a;'", "'a;'"),
        ("x_1 = 4", ""),
        ("None", ""),
        ("", ""),
        ("# only a comment", ""),
        ("print('out'); print('err', file=sys.stderr); 7", "out\nerr\n7"),
        ("import asyncio\nawait asyncio.sleep(0)\nprint('later')\n8", "later\n8"),
        ("await asyncio.sleep(0, 'awaited')", "'awaited'"),
        ("[await asyncio.sleep(0, n) for n in range(3)]", "[0, 1, 2]"),
        ("async def f():\n    print('in a task')\nawait asyncio.create_task(f())", "in a task"),
        ("await asyncio.to_thread(print, 'in a thread')", "in a thread"),
        (REDIRECTED, "'z\\ny\\n'"),
        ("%timeit -n1 -r1 pass", r"~per loop"),
        ("!echo from the shell", "from the shell"),
        ("found = !echo caught\nfound[0]", "'caught'"),
        ("len?", "~Return the number of items"),
        ("from IPython.display import Markdown\ndisplay(Markdown('**bold**'))", "**bold**"),
        ("from IPython.display import HTML\ndisplay(HTML('<b>bold</b>'))", "<b>bold</b>"),
        ("h = display('first', display_id=True)\nprint('x')\nh.update('second')", "'second'\nx"),
        ("from IPython.display import clear_output\nprint('gone')\nclear_output()\nprint('kept')", "kept"),
        ("print('\\x1b[31mred\\x1b[0m')", "red"),
        ("def f():\n    return __name__\nf()", "'__main__'"),
        ("import inspect\ndef g():\n    return 1\nprint(inspect.getsource(g))", "def g():\n    return 1"),
        ("class Silent:\n    def __repr__(self): return ''\nSilent()", ""),
        ("class Bad:\n    def __repr__(self): raise ValueError('no repr')\nBad()", "~ValueError: no repr"),
        ("from __future__ import annotations\nimport pandas as pd\npd.DataFrame({'a': [1, None]})",
         "~[DataFrame, 2 rows x 1 columns: a: float64]"),
    ],
)  # fmt: skip
def test_what_it_returns(notebook: Notebook, code: str, text: str) -> None:
    done = notebook.call(code)
    assert done.error == "", done.traceback
    if text.startswith("~"):
        assert text[1:] in done.text
    else:
        assert done.text == text


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("sys.exit()", "SystemExit"),
        ("exit()", "SystemExit: exit() does nothing in run_python"),
        ("quit", ""),
        ("quit()", "SystemExit: exit() does nothing"),
        ("get_ipython().ask_exit()", "SystemExit"),
        ("raise asyncio.CancelledError", "CancelledError"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise StopIteration(5)", "RuntimeError: coroutine raised StopIteration"),
        ("await asyncio.sleep(0)\nraise StopIteration", "RuntimeError: coroutine raised StopIteration"),
        ("async def end():\n    sys.exit()\nawait asyncio.gather(end(), end())", "SystemExit was raised in a task"),
        ("async def end():\n    raise KeyboardInterrupt\nawait asyncio.create_task(end())", "KeyboardInterrupt was"),
        ("input('name?')", "RuntimeError: input() cannot be used in run_python"),
        ("import getpass\ngetpass.getpass('key?')", "getpass() cannot be used in run_python"),
        ("breakpoint()", "cannot be used in run_python"),
        ("%planck -- hello", "%planck cannot be used in run_python"),
        ("%%planck\nhello", "%planck cannot be used in run_python"),
        ("get_ipython().run_line_magic('planck', 'agents')", "%planck cannot be used in run_python"),
        ("%%capture out\n1", "A cell cannot be run inside of run_python"),
        ("get_ipython().run_cell('1')", "A cell cannot be run inside of run_python"),
        ("%reset -f", "The namespace cannot be reset in run_python"),
        ("def deep():\n    deep()\ndeep()", "RecursionError"),
        ("class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd", "Odd: <exception str() failed>"),
    ],
)  # fmt: skip
def test_what_fails(notebook: Notebook, code: str, error: str) -> None:
    done = notebook.call(code)
    assert error in done.error
    assert not done.interrupted
    assert not done.late
    assert notebook.call("1 + 1").text == "2"


def test_the_traceback_has_the_lines_of_the_code_and_no_frames_of_ours(notebook: Notebook) -> None:
    done = notebook.call(
        "def inner(n):\n    return 1 / n\n\ntry:\n    inner(0)\nexcept ZeroDivisionError:\n    {}['key']"
    )
    for line in ("return 1 / n", "inner(0)", "{}['key']", "KeyError: 'key'", "During handling of the above exception"):
        assert line in done.traceback
    assert not re.search(r"planck_nb|IPython|\x1b", done.traceback)
    assert len(notebook.call("def deep(n):\n    deep(n + 1)\ndeep(0)").traceback) < 10_000


REBINDING = [
    "5",
    "_ = 1; __ = 2; ___ = 3; Out = {}; In = []; _i = 4; _5 = 5",
    "for _ in range(3): pass",
    "del _, Out",
    "get_ipython().execution_count = 99",
    "get_ipython = exit = quit = None",
    "%reset -f",
    "1/0",
]


def test_nothing_of_the_cell_changes(notebook: Notebook) -> None:
    notebook.kernel.run("'shown before'")
    count = "get_ipython().execution_count, len(get_ipython().history_manager.input_hist_raw)"
    state = f"[_, __, len(In), sorted(map(str, Out)), {count}]"
    before = notebook.value(state)
    for code in REBINDING:
        notebook.call(code)
    after = notebook.value(state)
    cells = len(REBINDING) + 1
    assert after[0] == before[0] == "shown before"
    assert [after[2], after[4], after[5]] == [number + cells for number in (before[2], before[4], before[5])]
    assert after[3] == before[3]
    assert notebook.call("get_ipython().execution_count").error == ""


def test_the_frontend_is_told_nothing(notebook: Notebook) -> None:
    code = "get_ipython().set_next_input('rm -rf', replace=True)\nlen?\n%load -y nothing"
    message = notebook.kernel.client.execute(f"show(await execute({code!r}))", reply=True, timeout=60)
    assert message["content"]["payload"] == []


HARM = [
    "import builtins\nbuiltins.print = builtins.len = builtins.isinstance = None",
    "import builtins\nnames = vars(builtins)\nfor name in list(names):\n    if name[0] != '_': del names[name]",
    "print = len = type = 3",
    "import sys\nsys.stdout = None\nsys.stderr = open('/dev/null', 'w')",
    "import sys\nsys.stdout.write = sys.stdout.flush = None",
    "get_ipython().showtraceback = get_ipython().run_cell = None",
    "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    "import sys\nsys.displayhook = sys.excepthook = None",
    "import matplotlib.pyplot as plt\nplt.close('all')",
    "get_ipython().display_pub.publish = None",
    "get_ipython().display_formatter = get_ipython().display_pub = None",
    "import linecache, asyncio\nlinecache.cache.clear()\nasyncio.get_running_loop().set_task_factory(None)",
]


@pytest.mark.parametrize("code", HARM)
def test_what_it_redefines_does_no_lasting_harm(notebook: Notebook, code: str) -> None:
    handler = notebook.value("repr(signal.getsignal(signal.SIGINT))[:20]")
    done = notebook.call(code)
    if hidden := [name for name in done.before if name in ("print", "len", "type")]:
        notebook.kernel.run(f"del {', '.join(hidden)}")
    assert notebook.call("print(len('abc'), type(1), isinstance(1, int))\n%timeit -n1 -r1 pass").text.startswith(
        "3 <class"
    )
    cell = notebook.kernel.run("print('still'); print('here', file=sys.stderr); 7")
    assert (cell.text, cell.data("text/plain")) == ("still\nhere\n", ["7"])
    assert notebook.value("repr(signal.getsignal(signal.SIGINT))[:20]") == handler


def test_figures_of_the_code_are_images_and_others_stay(notebook: Notebook) -> None:
    before = "import matplotlib.pyplot as plt\nmine = plt.figure(7); plt.plot([3, 1])\n"
    code = (
        "import matplotlib.pyplot as plt\nassert not plt.get_fignums()\nplt.figure(7)\nplt.plot([1, 2])\nplt.figure()"
    )
    after = "show([done['images'], done['text'], done['error'], plt.get_fignums(), plt.gcf() is mine])"
    cell = notebook.kernel.run(f"{before}done = await execute({code!r})\n{after}")
    images, text, error, numbers, is_mine = cell.data("application/json")[0]
    assert error == ""
    assert images == text.count("[image") == 2
    assert (numbers, is_mine) == ([7], True)
    assert len(cell.data("image/png")) == 1  # the user's own, at the end of the cell


SHOW_PNG = """
import base64
from IPython.display import Image
Image(base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="))
"""


@pytest.mark.parametrize(
    ("code", "images"),
    [
        ("plt.plot([1, 2]);", 1),
        ("plt.plot([1, 2])\nplt.show()", 1),
        ("fig, ax = plt.subplots()\nax.plot([1])\nfig", 1),
        ("for n in range(3):\n    plt.figure()\n    plt.plot([n])", 3),
        ("fig = plt.figure()\nplt.close(fig)\nfig", 1),
        ("plt.plot([1])\nawait asyncio.sleep(0.01)\nplt.plot([2]);", 1),
        ("pandas.DataFrame({'a': [1, 2]}).plot();", 1),
        ("for n in range(25):\n    plt.figure(figsize=(1, 1))", 20),
        (SHOW_PNG, 1),
        ("plt.plot([1])\n1 / 0", 0),
    ],
)  # fmt: skip
def test_images(notebook: Notebook, code: str, images: int) -> None:
    done = notebook.call(f"import matplotlib.pyplot as plt\nplt.rcParams['figure.max_open_warning'] = 0\n{code}")
    assert done.images == images
    assert notebook.value("matplotlib.pyplot.get_fignums()") == []


def test_output_is_bounded_with_its_beginning_and_end(notebook: Notebook) -> None:
    done = notebook.call("print('first')\nfor n in range(200_000):\n    print('x' * 50)\nprint('last')")
    assert done.text.startswith("first\nxxx")
    assert done.text.endswith("last")
    assert "characters left out" in done.text
    assert len(done.text) < 50_000
    assert len(notebook.call("print('y' * 5_000_000)").text) < 50_000


def test_a_secret_at_the_cut_of_a_long_output_is_not_shown_in_part(notebook: Notebook) -> None:
    secret = "sk-test-" + "A1b2C3d4" * 8
    notebook.kernel.run(f"from planck_nb.base.secrets import remember_secret\nremember_secret({secret!r})")
    for shift in range(0, 72, 8):
        done = notebook.call(f"print('-' * {23_990 - shift} + 'sk-test-' + 'A1b2C3d4' * 8 + '=' * 100_000)")
        assert "A1b2C3d4" not in done.text.replace(secret, "")


def test_only_output_of_the_call_is_caught(notebook: Notebook) -> None:
    """Another task of the cell prints and displays all the time."""
    cell = notebook.kernel.run(
        """
async def chatter():
    for n in range(20):
        print(f"chatter {n}"); display(f"shown {n}")
        await asyncio.sleep(0.005)
other = asyncio.create_task(chatter())
code = "for n in range(20):\\n    print(f'mine {n}'); display(f'own {n}')\\n    await asyncio.sleep(0.005)"
done = await execute(code)
await other
show(done["text"])
"""
    )
    [text] = cell.data("application/json")
    assert "chatter" not in text
    assert text.count("mine") == text.count("own") == 20
    assert "mine" not in cell.text
    assert cell.text.count("chatter") == 20
    assert sum("shown" in each for each in cell.data("text/plain")) == 20


def test_what_a_task_prints_after_its_call_is_shown_below_the_cell(notebook: Notebook) -> None:
    later = "async def later():\n    await ended.wait()\n    print('late words')\n"
    code = f"{later}task = asyncio.create_task(later())\nprint('now')"
    cell = notebook.kernel.run(
        f"ended = asyncio.Event()\ndone = await execute({code!r})\nended.set()\nawait task\nshow(done['text'])"
    )
    assert cell.data("application/json") == ["now"]
    assert cell.text == "late words\n"


def test_calls_that_are_made_at_once_run_in_order_and_mix_nothing(notebook: Notebook) -> None:
    cell = notebook.kernel.run(
        """
code = '''
import asyncio
print("begin", NUMBER); mine = NUMBER
await asyncio.sleep(0.01)
import matplotlib.pyplot as plt
plt.plot([1])
await asyncio.sleep(0.01)
assert mine == NUMBER
print("end", NUMBER)
NUMBER
'''
results = await asyncio.gather(*(execute(code.replace("NUMBER", str(n))) for n in range(8)))
show([[each["text"], each["images"], each["error"]] for each in results])
"""
    )
    [results] = cell.data("application/json")
    for number, (text, images, error) in enumerate(results):
        assert text.splitlines()[:3] == [f"begin {number}", f"end {number}", str(number)]
        assert (images, error) == (1, "")


def test_code_may_run_an_agent_that_runs_code(notebook: Notebook) -> None:
    done = notebook.call("inner = await execute('6 * 7')\ninner['text']")
    assert (done.text, done.error) == ("'42'", "")


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "def forever():\n    while True: pass\nforever()",
        "import time\ntime.sleep(60)",
        "await asyncio.sleep(60)",
        "await asyncio.sleep(0)\nwhile True: pass",
        "async def forever():\n    while True: pass\nawait asyncio.gather(forever(), asyncio.sleep(60))",
        "class Slow:\n    def __repr__(self):\n        while True: pass\nSlow()",
        "class Slow(Exception):\n    def __str__(self):\n        while True: pass\nraise Slow",
        "while True: print('x' * 1000)",
        "sum(n for n in iter(int, 1))",
    ],
)
def test_a_time_limit_stops_it(notebook: Notebook, code: str) -> None:
    done = notebook.call(code, seconds=0.5)
    assert done.late or "Slow" in done.error
    assert not done.interrupted
    assert notebook.call("1 + 1").text == "2"


@pytest.mark.parametrize(
    "code",
    [
        "BEGIN\nwhile True: pass",
        "BEGIN\ndef forever():\n    while True: pass\nforever()",
        "BEGIN\nimport time\ntime.sleep(60)",
        "BEGIN\nawait asyncio.sleep(0.01)\nwhile True: pass",
        "async def forever():\n    BEGIN\n    while True: pass\nawait asyncio.create_task(forever())",
        "BEGIN\ntry:\n    while True: pass\nfinally:\n    print('cleaned up')",
    ],
)
def test_an_interrupt_stops_it_at_once(notebook: Notebook, tmp_path: Path, code: str) -> None:
    kernel, begun = notebook.kernel, tmp_path / "begun"
    code = f"print(123)\n{code.replace('BEGIN', touching(begun))}"
    running = kernel.start(f"done = await execute({code!r})")
    wait_until_blocked(kernel, begun, code)
    kernel.interrupt()
    cell = kernel.finish(running)
    assert cell.status == "error" or notebook.value("done")["interrupted"]
    assert notebook.call("1 + 1").text == "2"
    assert notebook.kernel.run("print('alive')").text == "alive\n"


@pytest.mark.parametrize("code", ["while True: pass", "import time\ntime.sleep(60)"])
def test_a_signal_to_an_idle_kernel_stops_it_in_the_background(notebook: Notebook, tmp_path: Path, code: str) -> None:
    kernel, begun = notebook.kernel, tmp_path / "begun"
    code = f"{touching(begun)}\n{code}"
    handler = notebook.value("repr(signal.getsignal(signal.SIGINT))[:20]")
    kernel.run(f"task = asyncio.create_task(asyncio.sleep(0.2)); task.add_done_callback(lambda _: None)\n"
               f"async def background():\n    await task\n    return await execute({code!r})\n"
               "running = asyncio.create_task(background())")  # fmt: skip
    wait_until_blocked(kernel, begun, code)  # the kernel is idle for its clients, and its loop is blocked
    pid = kernel.manager.provisioner.pid
    os.kill(pid, signal.SIGINT)
    done = notebook.value("await running")
    assert done["interrupted"]
    assert done["interrupts"] == 1
    assert notebook.value("repr(signal.getsignal(signal.SIGINT))[:20]") == handler


def test_variables_that_it_rebinds_and_deletes_are_noted(notebook: Notebook) -> None:
    notebook.kernel.run("a_1 = a_2 = a_3 = 1")
    done = notebook.call("a_1 = 2\ndel a_2\na_3 += 0\nb_1 = 5\nb_1 = 6\nprint = None")
    assert done.before == ["a_1", "a_2", "print"]
    assert done.created == ["b_1"]
    notebook.kernel.run("del print")


def test_what_others_rebind_meanwhile_is_not_noted(notebook: Notebook) -> None:
    cell = notebook.kernel.run(
        "c_1 = c_2 = 1\nother = asyncio.create_task(execute('c_1 = 2\\nawait asyncio.sleep(0.05)\\nc_1 = 3'))\n"
        "await asyncio.sleep(0.02)\nc_2 = 7\nshow(await other)"
    )
    assert json.loads(json.dumps(cell.data("application/json")[0]))["before"] == ["c_1"]


@pytest.mark.parametrize(
    "code",
    [
        "display(frame)",
        "handle = display('', display_id=True)\nhandle.update(frame)",
        "display(1, frame)",
        "import asyncio\nawait asyncio.to_thread(display, frame)",
    ],
)
def test_a_displayed_data_frame_is_a_table(notebook: Notebook, code: str) -> None:
    notebook.kernel.run("frame = pandas.DataFrame({'city': ['Rome'], 'warm': [30.5]})")
    done = notebook.call(code)
    [(kind, text, types)] = done.tables
    assert kind == "TablePreview"
    assert types[-1] == "float64"
    assert text.strip() in done.text
    assert "Rome" in text
    assert notebook.kernel.run("frame").data("text/html"), "the formatter is the notebook's own again"


def test_html_that_is_displayed_after_a_table_was_only_formatted_is_no_table(notebook: Notebook) -> None:
    notebook.kernel.run("frame = pandas.DataFrame({'city': ['Rome']})")
    code = (
        "from IPython.display import HTML\nget_ipython().display_formatter.format(frame)\ndisplay(HTML('<b>bold</b>'))"
    )
    assert [kind for kind, _, _ in notebook.call(code).tables] == ["HtmlPreview"]


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        (
            {"data": [{"type": "bar"}, {"type": "bar"}, {}], "layout": {}},
            "plotly figure with 3 traces (bar, scatter): no",
        ),
        ({"data": [{"type": "pie"}]}, "plotly figure with 1 trace (pie): no"),
        ({"data": 3}, "plotly figure: no"),
        ([], "plotly figure: no"),
    ],
)
def test_a_figure_that_only_scripts_can_draw_is_described(notebook: Notebook, figure: object, said: str) -> None:
    """What plotly displays in a notebook."""
    done = notebook.call(f"display({{'application/vnd.plotly.v1+json': {figure!r}}}, raw=True)")
    assert done.text.startswith(f"[{said}body sees it here.")
