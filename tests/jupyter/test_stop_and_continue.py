"""Stop gives waiting prompts back to the person, and answers that are cut off say so in the cell and can go on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.kernel import Cell, Kernel, running_kernel

LATER = "Call the tool add with 1 and 1."


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("notebook"), PLANCK_NB_MODEL="demo") as kernel:
        assert kernel.run("%load_ext planck_nb").status == "ok"
        yield kernel


def scripted(kernel: Kernel, *replies: str, pace: float = 0.0) -> None:
    """Give the next prompt to a new agent with these replies."""
    code = (
        "from planck_nb import get_workspace\n"
        "from planck_nb.testing import Reply, scripted_model\n"
        "place = get_workspace()\n"
        "if 'planck' in place.agents:\n"
        "    await place.remove_agent('planck')\n"
        f"agent = place.add_agent('planck', model=scripted_model([{', '.join(replies)}], pace={pace}))"
    )
    assert kernel.run(code).status == "ok"


def prompts(kernel: Kernel) -> list[str]:
    code = "[entry.message.text for entry in agent.state.messages if entry.message.type == 'user']"
    found: list[str] = ast.literal_eval(kernel.run(code).plain)
    return found


def commands(kernel: Kernel, *contents: dict[str, Any], then: Callable[[], None] | None = None) -> Cell:
    """Run a cell; once its view shows text, send these commands as a browser would, and do what follows."""
    sent: list[str] = []

    def press(message: dict[str, Any]) -> None:
        if message["msg_type"] != "comm_msg" or "'text_delta'" not in str(message["content"]) or sent:
            return
        comm_id = message["content"]["comm_id"]
        sent.append(comm_id)
        for content in contents:
            data = {"comm_id": comm_id, "data": {"method": "custom", "content": content}}
            kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", data))
        if then is not None:
            then()

    return kernel.finish(kernel.start("answer = %planck -- hello\nprint(answer.outcome)"), on_message=press)


@pytest.mark.parametrize("kind", ["queue", "steer"])
def test_the_stop_button_gives_back_what_waits(kernel: Kernel, kind: str) -> None:
    scripted(kernel, "'word ' * 200", "'later'", pace=0.03)
    cell = commands(kernel, {"type": kind, "text": LATER}, {"type": "stop"})
    assert cell.text == "stopped\n"
    assert cell.plain.endswith(f"[Stopped.]\n[Not sent: {LATER}]")
    assert cell.data("text/markdown")[-1].rstrip().endswith(f"> Not sent: {LATER}")
    assert f"Not sent: {LATER}" in cell.data("text/html")[-1]
    assert prompts(kernel) == ["hello"]
    assert kernel.run("agent.status, agent.state.queue").plain == "('idle', ())"
    assert "later" in kernel.run("%planck -- again").plain


def test_the_interrupt_button_leaves_no_unanswered_prompt_behind(kernel: Kernel) -> None:
    scripted(kernel, "'word ' * 200", "'later'", pace=0.03)

    def interrupt_once_it_is_queued() -> None:
        kernel.interrupt()

    cell = commands(kernel, {"type": "queue", "text": LATER}, then=interrupt_once_it_is_queued)
    assert cell.error.startswith("KeyboardInterrupt")
    assert prompts(kernel) == ["hello"]
    assert "later" in kernel.run("%planck -- again").plain
    assert prompts(kernel) == ["hello", "again"]


def test_prompts_from_the_box_are_answered_together_and_those_of_the_api_apart(kernel: Kernel) -> None:
    scripted(kernel, "'word ' * 60", "'both'", pace=0.05)  # it must go on until both have arrived
    cell = commands(kernel, {"type": "queue", "text": "one"}, {"type": "queue", "text": "two"})
    assert cell.plain.endswith("both")
    assert prompts(kernel) == ["hello", "one", "two"]
    scripted(kernel, "'1'", "'2'", "'3'")
    code = "import asyncio\n[r.text for r in await asyncio.gather(*(agent.prompt(str(n)) for n in range(3)))]"
    assert kernel.run(code).plain == "['1', '2', '3']"


@pytest.mark.parametrize(
    ("reply", "word", "sentence"),
    [
        ("Reply('one two', stop_reason='length')", "cut off", "was cut off after 2 tokens, at its token limit"),
        ("Reply('No.', stop_reason='refusal')", "refused", "demo:script refused to answer; rephrase the prompt"),
        ("Reply(thinking='hm')", "no answer", "demo:script thought but wrote no answer"),
    ],
)
def test_how_an_answer_ended_is_shown_everywhere(kernel: Kernel, reply: str, word: str, sentence: str) -> None:
    scripted(kernel, reply)
    cell = kernel.run("answer = %planck -- count\nprint(answer.outcome, '|', answer.stop_reason, '|', answer.warning)")
    assert cell.status == "ok"
    assert cell.text.startswith(f"{word} | ")
    assert sentence in cell.text
    for mime in ("text/plain", "text/html", "text/markdown"):
        shown = cell.data(mime)[-1].replace("\\", "")
        assert sentence in shown, mime
        assert sentence in shown, mime
    assert f"{word} ·" in cell.data("text/markdown")[-1]
    assert cell.outputs[-1]["metadata"]["planck_nb"]["outcome"] == word


def test_continue_lets_the_model_go_on(kernel: Kernel) -> None:
    scripted(kernel, "Reply('one two', stop_reason='length')", "'three'")
    kernel.run("%planck -- count")
    for verb in ("continue", "continue planck"):
        scripted(kernel, "Reply('one two', stop_reason='length')", "'three'")
        kernel.run("%planck -- count")
        cell = kernel.run(f"%planck {verb}")
        assert cell.plain.endswith("three")
        assert prompts(kernel)[-1].startswith("Your reply was cut off. Go on exactly where it ended")


def test_a_complete_answer_is_not_continued(kernel: Kernel) -> None:
    scripted(kernel, "'all'", "'more'")
    kernel.run("%planck -- hello")
    for verb in ("continue", "continue planck"):
        assert kernel.run(f"%planck {verb}").error == (
            "AgentError: planck has answered completely, so there is nothing to continue; ask for more with a prompt."
        )
    assert prompts(kernel) == ["hello"]
    assert "more" in kernel.run("%planck -- more").plain


CALLS_ADD = "{'calls': [{'name': 'add', 'arguments': {'a': 1, 'b': 1}}]}"


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        ("{'text': 'one', 'error': 'The line is dead.'}", "%planck -- hello"),
        ("Reply(thinking='hm')", "%planck -- hello"),
        (CALLS_ADD, "%planck config rounds=1\n%planck --tools add hello"),
    ],
    ids=["failed", "only thinking", "limit"],
)
def test_what_ended_early_is_continued(kernel: Kernel, first: str, asked: str) -> None:
    kernel.run("def add(a: int, b: int) -> int:\n    'Add.'\n    return a + b")
    scripted(kernel, first, "'done'")
    kernel.run(asked)
    continued = kernel.run("%planck config rounds=none\n%planck continue")
    assert continued.plain.endswith("done"), continued


def test_what_was_stopped_is_continued(kernel: Kernel) -> None:
    scripted(kernel, "'word ' * 200", "'done'", pace=0.03)
    assert "[Stopped.]" in commands(kernel, {"type": "stop"}).plain
    assert kernel.run("%planck continue").plain.endswith("done")


def test_nothing_is_continued_without_a_conversation_or_while_the_agent_runs(kernel: Kernel) -> None:
    scripted(kernel, "'word ' * 200", pace=0.03)
    assert kernel.run("%planck continue").error == (
        "AgentError: planck has nothing to continue yet; send a prompt first."
    )
    kernel.run("run = %planck --background hello")
    assert "planck is running; wait until it has ended" in kernel.run("%planck continue").error
    stopped = kernel.run("late = agent.prompt('late')\n%planck stop")
    assert stopped.plain.endswith("Stopped planck. What was written so far is kept.\nNot sent to planck: late")
    assert kernel.run("late.status, run.status").plain == "('aborted', 'aborted')"
