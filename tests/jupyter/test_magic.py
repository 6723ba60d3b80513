"""The magics in a real kernel, as a notebook uses them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.kernel import Kernel, running_kernel
from support.ports import free_port

from planck_nb import get_workspace

ADD = "def add(a: int, b: int) -> int:\n    'Add two numbers.'\n    return a + b"
MESSAGES = "[one.message for one in __import__('planck_nb').get_workspace().agents['planck'].state.messages]"
NEWEST = "sessions.created = (SELECT max(created) FROM sessions)"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("notebook"), PLANCK_NB_MODEL="demo") as kernel:
        yield kernel


@pytest.fixture
def kernel(shared: Kernel) -> Kernel:
    """The kernel with a fresh conversation, whose model takes no time."""
    assert shared.run("%reset -f").status == "ok"
    at_pace(shared, 0)
    shared.run(ADD)
    return shared


@pytest.fixture
def slow(kernel: Kernel) -> Kernel:
    """The kernel at a pace that leaves time to interfere."""
    at_pace(kernel, 0.03)
    return kernel


def at_pace(kernel: Kernel, seconds: float) -> None:
    """Load the extension anew; its model takes this long for a word."""
    assert kernel.run(f"%unload_ext planck_nb\n%env PLANCK_NB_DEMO_PACE={seconds}\n%load_ext planck_nb").status == "ok"


def test_a_cell_shows_a_live_view_and_one_transcript(kernel: Kernel) -> None:
    cell = kernel.run("%%planck\nWhat is 20 and 22? Use @add.")
    live, transcript = cell.outputs
    assert "application/vnd.jupyter.widget-view+json" in live["data"]
    assert (live["data"]["text/plain"], live["data"]["text/html"]) == ("", "")
    assert set(transcript["data"]) == {"text/html", "text/markdown", "text/plain"}
    assert "`add` returned `42`." in transcript["data"]["text/plain"]
    assert "20" in transcript["data"]["text/html"]


def test_the_same_prompt_gives_the_same_bundle(kernel: Kernel) -> None:
    def bundle() -> list[dict[str, Any]]:
        cell = kernel.run("%%planck --new --tools add\nadd 1 and 2")
        return [{key: value for key, value in output["data"].items() if "widget" not in key} for output in cell.outputs]

    assert bundle() == bundle()


def test_the_answer_is_a_value(kernel: Kernel) -> None:
    kernel.run("%%planck\nadd 20 and 22 with @add")
    assert "returned `42`" in kernel.run("print(_.text, len(_.messages), _.usage.output_tokens > 0)").text
    assert len(kernel.run("_").data("text/html")) == 1  # a later cell shows it, the prompt's own showed it already
    kernel.run("kept = %planck add 1 and 2 with @add")
    assert "returned `3`" in kernel.run("print(kept)").text
    assert "returned `3`" in kernel.run("kept").data("text/plain")[0]
    assert "returned `42`" in kernel.run("list(Out.values())[0]").plain


def test_an_answer_knows_its_agent_and_its_run(kernel: Kernel) -> None:
    kernel.run("%%planck ann\nadd 20 and 22 with @add")
    assert kernel.run("_.agent.name, (await _.run).text == _.text").plain == "('ann', True)"


def test_the_workspace_of_the_notebook(kernel: Kernel) -> None:
    kernel.run("from planck_nb import get_workspace\n%planck -- hello")
    assert kernel.run("list(get_workspace().agents)").plain == "['planck']"
    assert kernel.run("%unload_ext planck_nb\nprint(get_workspace())").plain == "None\n"
    assert get_workspace() is None, "this process is not a notebook"


@pytest.mark.parametrize("prompt", ["what is this?", 'what\'s up with {braces} and $x "quoted"', "a = b? %timeit !ls"])
def test_a_prompt_is_taken_as_it_is_written(kernel: Kernel, prompt: str) -> None:
    kernel.run(f"%planck {prompt}")
    kernel.run(f"%%planck\n{prompt}\n")
    kernel.run(f"for i in range(2):\n    answer = %planck {prompt}")
    said = kernel.run(f"[each.text for each in {MESSAGES} if each.type == 'user']")
    assert ast.literal_eval(said.plain) == [prompt] * 4


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    answer = %planck add 4 and 5 with @add\n    return answer\nf().text",
        "async def f():\n    answer = %planck add 4 and 5 with @add\n    return answer\n(await f()).text",
        "%%capture out\nanswer = %planck add 4 and 5 with @add",
        "%%time\nanswer = %planck add 4 and 5 with @add",
        "get_ipython().run_cell('answer = %planck add 4 and 5 with @add').success",
        "class C:\n    answer = %planck add 4 and 5 with @add\nC.answer.text",
    ],
    ids=["def", "async-def", "capture", "time", "run_cell", "class"],
)
def test_it_works_where_no_await_is_possible(kernel: Kernel, code: str) -> None:
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    results = kernel.run(f"[part.text for each in {MESSAGES} if each.type == 'tool_result' for part in each.content]")
    assert results.plain == "['9']"


def test_tools_and_values_of_the_notebook(kernel: Kernel) -> None:
    kernel.run("answer = %planck --tools add add 2 and 3")
    assert kernel.run("answer.text").plain == "'`add` returned `5`.'"
    kernel.run("import pandas as pd\norders = pd.DataFrame({'price': [1, 2]})")
    kernel.run("%planck look at @orders and mail me@orders.org")
    said = kernel.run("rows = %planck sql SELECT text FROM messages WHERE text LIKE 'look at%'\nprint(rows['text'][0])")
    assert said.text.count("is a DataFrame") == 1
    assert "price" in said.text
    kernel.run("def local():\n    def double(x: int) -> int:\n        'Double a number.'\n        return 2 * x\n"
               "    answer = %planck double 21 with @double\n    return answer\nfound = local()")  # fmt: skip
    assert kernel.run("found.text").plain == "'`double` returned `42`.'"


def test_sql_joins_the_notebooks_tables(kernel: Kernel) -> None:
    kernel.run("%planck -- hello")
    kernel.run("import pandas as pd\nlabels = pd.DataFrame({'role': ['user'], 'who': ['me']})")
    cell = kernel.run(
        "%%planck sql\nSELECT who, count(*) > 0 AS some\nFROM messages JOIN labels USING (role)\nGROUP BY 1"
    )
    assert cell.plain.split() == ["who", "some", "0", "me", "True"]


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("%planck model antropic:x", "UnknownProviderError: There is no provider 'antropic'. Did you mean anthropic?"),
        ("%planck --modle x hi", "UsageError: %planck has no option --modle. Did you mean --model"),
        ("%%planck --with ordr\nhi", "UsageError: There is no variable named ordr."),
        ("%%planck --tools addd\nhi", "UsageError: There is no function or tool named addd. Did you mean add or"),
        ("%planck modle demo", "%planck has no verb modle. Did you mean `%planck model demo`?"),
        ("%%planck analyst do it\nhi", "write the prompt on the lines below"),
        ("%%planck\n  \n", "UsageError: There is no prompt"),
        ("%planck sql DROP TABLE messages", "QueryError: Sessions can only be read here"),
        ("%planck steer use euros", "To send it as a prompt write `%planck -- steer use euros`."),
        (
            "%planck hlep",
            "%planck has no verb hlep. Did you mean `%planck help`? As a prompt, write `%planck -- hlep`.",
        ),
        ("%planck help nothing", "UsageError: There is no topic nothing."),
        ("%planck --temperature hot hi", "UsageError: --temperature cannot be 'hot': how random the reply is: 0 to 2."),
    ],
)
def test_a_mistake_is_one_sentence(kernel: Kernel, code: str, sentence: str) -> None:
    cell = kernel.run(code)
    assert cell.status == "error"
    assert sentence in cell.error
    assert "\n" not in cell.error
    assert kernel.run("%planck add 1 and 1 with @add").status == "ok"


def test_what_ipython_itself_defines_is_not_offered(kernel: Kernel) -> None:
    kernel.run("nothing = None")
    tools = kernel.run("%planck --tools nothing_like_it hi").error
    assert "add" in tools
    assert "get_ipython" not in tools
    assert "quit" not in tools
    assert kernel.run("%planck --with nothing_like_it hi").error.endswith(" Did you mean nothing?")
    inside = kernel.run("def asked(inner):\n    kept = %planck -q hi @inner @nothing\nasked(1)").text
    assert inside.startswith("With: inner (int), nothing (NoneType)")


def test_debug_shows_the_traceback(kernel: Kernel) -> None:
    assert "Traceback" in kernel.run("%planck --debug --model nobody:x hi").error


SERVER = """
import asyncio
async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write({!r})
    await writer.drain()
    writer.close()
server = await asyncio.start_server(answer, "127.0.0.1", 0)
port = server.sockets[0].getsockname()[1]
"""
HALF = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    b'data: {"choices":[{"index":0,"delta":{"content":"Half an ans"}}]}\n\n'
)


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (b"HTTP/1.1 429 Slow\r\nretry-after: 600\r\ncontent-length: 0\r\n\r\n", "RateLimitError"),
        (HALF, "StreamTruncated: the transcript above says what happened"),
    ],
    ids=["429", "cut"],
)
def test_a_failing_server_is_one_sentence_and_the_kernel_goes_on(kernel: Kernel, reply: bytes, sentence: str) -> None:
    assert kernel.run(SERVER.format(reply)).status == "ok"
    port = kernel.run("port").plain
    cell = kernel.run(f"%planck --model openai:m --base-url http://127.0.0.1:{port}/v1 hello")
    assert cell.status == "error"
    assert sentence in cell.error
    assert "\n" not in cell.error
    if reply == HALF:
        assert cell.plain.strip().startswith("Half an ans\n[")
        kept = kernel.run("rows = %planck sql SELECT text FROM messages WHERE text LIKE 'Half%'\nlen(rows) > 0")
        assert kept.plain == "True"
    else:
        _, beside = cell.data("text/html")
        shown = re.sub(r"<style>.*</style>|<[^>]*>", "", beside).strip()
        assert shown == "", "below the folded live view the sentence stands in the error alone"
    assert kernel.run("%planck --model demo hello").status == "ok"


def test_an_unreachable_server_is_one_sentence(kernel: Kernel) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    cell = kernel.run(f"%planck --model llama_cpp:any --base-url {url} hello")
    assert f"No server answers at {url}" in cell.error
    assert "\n" not in cell.error
    assert "OPENAI_API_KEY is not set" in kernel.run("%planck --model openai:gpt-5.4 hello").error
    assert kernel.run("%planck --model demo hello").status == "ok"


@pytest.mark.process
def test_a_bad_setting_is_one_sentence(tmp_path: Path) -> None:
    with running_kernel(tmp_path, PLANCK_NB_DEMO_PACE="slow") as kernel:
        cell = kernel.run("%load_ext planck_nb")
        assert cell.error == "ConfigError: PLANCK_NB_DEMO_PACE is 'slow'; it must be a number of seconds."
        kernel.run("import os; os.environ['PLANCK_NB_DEMO_PACE'] = '0'")
        assert kernel.run("%load_ext planck_nb\n%planck --model demo hello").status == "ok"


@pytest.mark.slow
def test_a_setting_that_was_left_out_is_said_once(tmp_path: Path) -> None:
    (tmp_path / ".planck").mkdir()
    (tmp_path / ".planck" / "models.json").write_text('{"models": [{"id": "mine"}]}')
    with running_kernel(tmp_path, PLANCK_NB_DEMO_PACE="0", PLANCK_NB_TRUST="1") as kernel:
        assert "left out: it has no provider" in kernel.run("%load_ext planck_nb").text
        assert "left out" not in kernel.run("%planck --model demo hello").text


def test_two_agents_keep_their_conversations_apart(kernel: Kernel) -> None:
    kernel.run("%%planck ann\nhello")
    kernel.run("%%planck bob\nhello")
    cell = kernel.run("t = %planck agents\nlist(zip(t['agent'], t['turns']))")
    assert cell.plain == "[('ann', 1), ('bob', 1)]"


def test_the_default_agent_is_always_the_same(kernel: Kernel) -> None:
    kernel.run("%planck -- hello")
    kernel.run("%%planck ann\nhello")
    kernel.run("%planck hello again")
    turns = "t = %planck agents\ndict(zip(t['agent'], t['turns']))"
    assert kernel.run(turns).plain == "{'planck': 2, 'ann': 1}"
    assert kernel.run("%planck use ann").plain == "ann gets the prompts that name no agent."
    kernel.run("%%planck planck\nhello")
    kernel.run("%%planck\nhello")
    assert kernel.run(turns).plain == "{'planck': 3, 'ann': 2}"
    assert "ann gets the prompts" in kernel.run("%planck use").plain
    table = kernel.run("t = %planck agents\ndict(zip(t['agent'], t['default']))")
    assert table.plain == "{'planck': '', 'ann': 'yes'}"
    kernel.run("%planck use @add to add 1 and 2")
    assert kernel.run(turns).plain == "{'planck': 3, 'ann': 3}", "a prompt may begin with the word"
    assert "There is no agent or team named annn. Did you mean ann?" in kernel.run("%planck use annn").error
    assert "ann has stopped, so prompts without a name go to planck" in kernel.run("%planck remove ann").plain
    kernel.run("%planck -- hello")
    assert kernel.run(turns).plain == "{'planck': 4}"


def test_a_fork_and_a_resume_say_that_the_default_agent_is_not_there(kernel: Kernel) -> None:
    kernel.run("%planck -- hello")
    newest = kernel.run("%planck sql SELECT max(id) + 1 FROM messages WHERE session_id = getvariable('session')")
    before = re.findall(r"\d+", newest.plain)[-1]
    kernel.run("%planck --agent bob hello\n%planck use bob")
    forked = kernel.run(f"%planck fork --before {before}").plain
    assert forked.endswith("\nbob has stopped, so prompts without a name go to planck again.")
    kernel.run("%planck --agent eve hello\n%planck use eve")
    original = forked.partition("; ")[2].partition(" ")[0]
    resumed = kernel.run(f"%planck resume {original}").plain
    assert resumed.startswith(f"This notebook continues {original} with ")
    assert resumed.endswith("\neve has stopped, so prompts without a name go to planck again.")


def test_a_new_default_agent_is_mentioned(kernel: Kernel) -> None:
    kernel.run("%%planck ann\nhello")
    cell = kernel.run("%%planck\nhello")
    assert "planck is a new agent; `%planck use ann` sends such prompts to ann." in cell.text


def test_a_structured_answer_is_a_value_and_is_shown(kernel: Kernel) -> None:
    kernel.run("from pydantic import BaseModel\nclass Sum(BaseModel):\n    total: int\n    why: str = 'added'")
    cell = kernel.run("answer = %planck --output Sum add 20 and 22 with @add")
    assert cell.status == "ok", cell.error
    assert kernel.run("type(answer.output).__name__, answer.output.total is not None").plain == "('Sum', True)"
    assert '```json\n{\n  "total": ' in cell.plain
    assert "<pre" in cell.data("text/html")[-1]
    assert "&quot;total&quot;" in cell.data("text/html")[-1]
    assert kernel.run("answer.text[:1]").plain == "'{'"
    plain = kernel.run("x = %planck -- hello\nx.output == x.text")
    assert plain.plain.endswith("True")
    error = kernel.run("%planck --output Summ add 1 and 2").error
    assert error.startswith("UsageError: There is no type named Summ. Did you mean Sum")


def shows_text(message: dict[str, Any]) -> bool:
    """Whether the message is the live view's, with text that the model has said."""
    return message["msg_type"] == "comm_msg" and "'text_delta'" in str(message["content"])


def test_interrupt_ends_the_run_and_keeps_the_text(slow: Kernel) -> None:
    pressed: list[str] = []

    def press(message: dict[str, Any]) -> None:
        if shows_text(message) and not pressed:
            pressed.append("■")
            slow.interrupt()

    cell = slow.finish(slow.start("%planck -- hello"), on_message=press)
    assert cell.error == "KeyboardInterrupt: the cell was interrupted; what was said so far is kept"
    assert cell.plain.strip().startswith("I am")
    assert cell.plain.endswith("[Stopped.]")
    assert "claude-sonnet" not in cell.plain  # the answer's end was never said
    last = slow.run(
        "t = %planck sql SELECT stop_reason, text FROM messages JOIN sessions USING (session_id) "
        f"WHERE {NEWEST} ORDER BY id DESC LIMIT 1\nt.iloc[0].tolist()"
    )
    stop_reason, text = ast.literal_eval(last.plain)
    assert stop_reason == "aborted"
    assert text.startswith("I am")
    assert slow.run("%planck --new add 1 and 1 with @add").status == "ok"


def test_interrupt_reaches_a_run_inside_a_function(slow: Kernel) -> None:
    slow.run("def ask():\n    x = %planck -- hello\n    return x")
    sent = slow.start("ask()")
    seen: list[str] = []

    def press(message: dict[str, Any]) -> None:
        if message["msg_type"] == "display_data" and not seen:
            seen.append("shown")
            slow.interrupt()

    cell = slow.finish(sent, on_message=press)
    assert "KeyboardInterrupt" in cell.error
    idle = slow.run("t = %planck agents\nt['status'][0]")
    assert idle.plain == "'idle'"


def test_cancelling_a_task_of_the_users_own_leaves_the_kernel_alone(slow: Kernel) -> None:
    code = (
        "import asyncio\nasync def ask():\n    x = %planck -- hello\n    return x\n"
        "task = asyncio.create_task(ask())\nwhile not get_ipython().user_ns.get('_') and not task.done():\n"
        "    await asyncio.sleep(0.3)\n    task.cancel()\nprint(task.cancelled())"
    )
    cell = slow.run(code)
    assert cell.text == "True\n", cell
    assert "[Stopped.]" in cell.plain
    assert slow.run("1 + 1").plain == "2"


def test_the_stop_button_ends_the_run_at_once(slow: Kernel) -> None:
    pressed: list[str] = []

    def press(message: dict[str, Any]) -> None:
        if shows_text(message) and not pressed:
            pressed.append(message["content"]["comm_id"])
            content = {
                "comm_id": pressed[0],
                "data": {"method": "custom", "content": {"type": "stop"}},
            }
            slow.client.shell_channel.send(slow.client.session.msg("comm_msg", content))

    cell = slow.finish(
        slow.start("answer = %planck -- hello\nprint(answer.outcome, answer.text[:4], 'sonnet' in answer.text)"),
        on_message=press,
    )
    assert cell.status == "ok"
    assert cell.text == "stopped I am False\n", "the answer, which takes two seconds, names a model at its end"
    assert slow.run("%planck --new add 1 and 1 with @add").status == "ok"


def test_a_background_run_goes_on_while_another_cell_awaits(slow: Kernel) -> None:
    sent = slow.start("%%planck --background ann\nhello")
    slow.finish(sent)
    during = slow.run("t = %planck agents\ndict(zip(t['agent'], t['status']))")
    assert during.plain == "{'ann': 'streaming'}"
    late: list[dict[str, Any]] = []
    bob = slow.start("%%planck bob\nhello")
    while True:
        message = slow.client.get_iopub_msg(timeout=30)
        parent = message["parent_header"].get("msg_id")
        if parent == sent and message["msg_type"] == "display_data":
            late.append(message["content"])
        if parent == bob and message["content"].get("execution_state") == "idle":
            break
    assert "I am the demo model" in late[-1]["data"]["text/plain"]  # under the cell that asked
    cell = slow.run("t = %planck agents\ndict(zip(t['agent'], t['status']))")
    assert cell.plain == "{'ann': 'idle', 'bob': 'idle'}"


def test_two_prompts_at_once_share_the_agent_they_make(kernel: Kernel) -> None:
    at_pace(kernel, 0.005)
    code = (
        "import asyncio\nasync def ask(q):\n    x = %planck -- hello\n    return x.text[:4]\n"
        "await asyncio.gather(ask('a'), ask('b'))"
    )
    assert kernel.run(code).data("text/plain")[-1] == "['I am', 'I am']"


def test_an_interrupted_gather_is_one_line(slow: Kernel) -> None:
    code = (
        "import asyncio\nasync def ask(q):\n    x = %planck --agent $q hello\n    return x.text[:4]\n"
        "await asyncio.gather(ask('a'), ask('b'))"
    )
    pressed: list[str] = []

    def press(message: dict[str, Any]) -> None:
        if shows_text(message) and not pressed:
            pressed.append("■")
            slow.interrupt()

    cell = slow.finish(slow.start(code), on_message=press)
    assert cell.status == "error"
    assert cell.error.endswith("what was said so far is kept")
    assert "\n" not in cell.error
    assert slow.run("1 + 1").plain == "2"


def test_a_model_without_a_key_is_refused_at_once(kernel: Kernel) -> None:
    kernel.run("%planck -- hello")
    cell = kernel.run("%planck model anthropic:claude-sonnet-4-6")
    assert cell.error.startswith("MissingCredentialError: ANTHROPIC_API_KEY is not set, so anthropic:claude-sonnet-4-6")
    assert "os.environ['ANTHROPIC_API_KEY'] = getpass.getpass()" in cell.error
    assert "\n" not in cell.error
    assert kernel.run("%planck model").plain == "demo:demo answers."
    kernel.run("import os\nos.environ['ANTHROPIC_API_KEY'] = 'abc'")
    assert "answers from now on" in kernel.run("%planck model anthropic:claude-sonnet-4-6").plain
    kernel.run("del os.environ['ANTHROPIC_API_KEY']")
    assert "demo:demo answers from now on." in kernel.run("%planck model demo").plain


def test_a_thread_is_told_where_agents_live(kernel: Kernel) -> None:
    code = (
        "import asyncio\ndef ask():\n    x = %planck -- hello\n    return x.text\n"
        "(await asyncio.gather(*[asyncio.to_thread(ask) for _ in range(3)], return_exceptions=True))[0]"
    )
    assert "Agents live on the notebook's own event loop" in kernel.run(code).plain
    assert kernel.run("%planck -- hello").status == "ok"


def test_run_all_over_ten_cells_finishes(kernel: Kernel) -> None:
    at_pace(kernel, 0.002)
    ids = [kernel.start(f"%%planck\nhello number {number}") for number in range(10)]
    cells = [kernel.finish(sent) for sent in ids]
    assert [cell.status for cell in cells] == ["ok"] * 10


@pytest.mark.slow
def test_a_killed_kernel_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with running_kernel(tmp_path, PLANCK_NB_DEMO_PACE="0.02", PLANCK_NB_MODEL="demo") as first:
        first.run("%load_ext planck_nb")
        first.run("%planck -- hello")
        sent = first.start("%planck add something very long to say")

        class Seen(Exception):
            pass

        def kill(message: dict[str, Any]) -> None:
            if message["msg_type"] == "comm_msg" and "snapshot" in str(message["content"]):
                first.kill()
                raise Seen

        with pytest.raises(Seen):
            first.finish(sent, on_message=kill)
    with running_kernel(tmp_path) as second:
        second.run("%load_ext planck_nb")
        cell = second.run(
            "rows = %planck sql SELECT role, text FROM messages ORDER BY id\n[tuple(r) for r in rows.values]"
        )
    assert "('user', 'hello')" in cell.plain
    assert "'I am the demo model: a small script" in cell.plain
    assert "('user', 'add something very long to say')" in cell.plain


def test_loading_twice_and_unloading(kernel: Kernel) -> None:
    kernel.run("%load_ext planck_nb\n%reload_ext planck_nb")
    assert len(kernel.run("%planck -- hello").outputs) == 2
    kernel.run("%unload_ext planck_nb")
    assert "not found" in kernel.run("%planck -- hello").text
    assert kernel.run("%load_ext planck_nb\n").status == "ok"
    assert kernel.run("%planck -- hello").status == "ok"


def test_a_large_answer_is_rendered_beside_the_loop(kernel: Kernel) -> None:
    kernel.run(
        "import threading\nfrom planck_nb.jupyter.transcript import transcript\nfrom planck_nb.base import markdown\n"
        "places = set()\noriginal = markdown.to_html\n"
        "def noted(text):\n    places.add(threading.current_thread() is threading.main_thread())\n"
        "    return original(text)\nmarkdown.to_html = noted"
    )
    kernel.run("def text() -> str:\n    'A long text.'\n    return 'word ' * 10_000")
    cell = kernel.run("%%planck -q --new --tools text\nCall text.")
    kernel.run("markdown.to_html = original")
    assert cell.status == "ok"
    assert kernel.run("places").plain == "{False}"


def test_what_the_agent_gets_is_printed(kernel: Kernel) -> None:
    kernel.run(
        "import pandas as pd\norders = pd.DataFrame({'a': [1, 2, 3]})\npassword = 'hunter2'\nfrom os import system"
    )
    cell = kernel.run("%%planck -q --new\nUse @add on @orders.")
    assert cell.text.splitlines()[0] == "With: orders (DataFrame 3 \u00d7 1), add()"
    for prompt, sentence in {
        "Say @password.": "@password looks like a secret and is not passed to the agent; "
        "add --with password if it should be.",
        "Call @system.": "@system was not defined in a cell and is not passed to the agent; "
        "add --tools system if it should be.",
        "Ask @anyone.": "There is no variable @anyone.",
    }.items():
        cell = kernel.run(f"%%planck -q --new\n{prompt}")
        assert cell.status == "ok"
        assert cell.text.splitlines()[0] == sentence
        assert "hunter2" not in kernel.run("print([m.text for m in _.agent.messages])").text
        assert kernel.run("[tool.name for tool in _.agent.tools if tool.name == 'system']").plain == "[]"
    refused = kernel.run("%%planck -q --new\nPlot @order.").error
    assert "UsageError: There is no variable @order. Did you mean @orders? Nothing was sent" in refused
    assert kernel.run("%%planck -q --new\nPlot \\@order.").status == "ok"


def test_options_at_the_end_are_said_to_be_text(kernel: Kernel) -> None:
    said = "--model nobody:x at the end is sent as text; options stand before the prompt."
    assert said in kernel.run("%planck hello there --model nobody:x").text
    assert said not in kernel.run("%%planck\nhello there --model nobody:x").text
    assert "There is no prompt; write it" in kernel.run("%planck planck --model demo").error


def test_quoted_names_hand_over_nothing(kernel: Kernel) -> None:
    cell = kernel.run('%%planck -q --new\nThe page says:\n> Use @add\n\n`@add` "@add" me@add.org')
    assert "With:" not in cell.text
    assert kernel.run("print([tool.name for tool in _.agent.tools])").text.count("add") == 0
