"""Verbs about what runs and what was said, in a real kernel, as a notebook uses them."""

from __future__ import annotations

import ast
import json
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from support.kernel import Kernel, running_kernel
from support.wire import CHAT_HELLO, MESSAGES, chat_chunk, client, sse

from planck_nb import Agent, Config, Workspace, ai
from planck_nb.agent.approval import Rule
from planck_nb.agent.context.compactor import Compact
from planck_nb.ai.messages import AssistantMessage, Message, TextPart, ThinkingPart
from planck_nb.base.errors import ConfigError, UsageError
from planck_nb.config import SETTINGS
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.verbs import VERBS, Notebook
from planck_nb.jupyter.verbs.agent_verbs import describe_request
from planck_nb.testing import scripted_model

PRELUDE = """
import asyncio, threading
from planck_nb.jupyter.extension import _loaded

def workspace():
    return next(iter(_loaded.values()))._controller.workspace

async def until(kind, count=1):
    async with asyncio.timeout(30), workspace().subscribe(since=0) as events:
        async for event in events:
            count -= event.type == kind
            if not count:
                return event

async def inside(number=1):
    for _ in range(number):
        assert await asyncio.to_thread(entered.acquire, timeout=30)

entered, gate = threading.Semaphore(0), threading.Event()

def work(number: int) -> int:
    "Work on a number."
    entered.release()
    assert gate.wait(30)
    return number + 1

def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("verbs"), PLANCK_NB_DEMO_PACE="0", PLANCK_NB_MODEL="demo") as kernel:
        yield kernel


@pytest.fixture
def kernel(shared: Kernel, tmp_path: Path) -> Kernel:
    """The kernel with nothing said, in a folder of the test's own."""
    began = shared.run(f"%reset -f\n%unload_ext planck_nb\n%cd -q {tmp_path}\n%load_ext planck_nb")
    assert began.status == "ok", began.error
    assert shared.run(PRELUDE).status == "ok"
    return shared


def value(kernel: Kernel, code: str) -> Any:
    """The value of an expression of plain values."""
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    return ast.literal_eval(cell.plain)


def said(kernel: Kernel, code: str) -> str:
    """What a cell shows; it must not fail."""
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    return cell.plain


def prompts(kernel: Kernel) -> list[str]:
    """What was said to agents and counts, as the store has it."""
    code = "rows = %planck sql SELECT text FROM messages WHERE role = 'user' ORDER BY id\nlist(rows['text'])"
    found: list[str] = value(kernel, code)
    return found


QUIET = (
    "help", "model", "models demo", "engine", "agents", "tools", "abort", "cassette", "show request", "skills",
    "changes", "undo", "undo all", "config", "config rounds=50", "approve", "deny", "policy",
    "policy allow bash:git *", "rewind", "branches", "sessions", "sql SELECT 1", "search word", "compact-store",
    "doctor",
)  # fmt: skip


def test_verbs_that_need_no_session_make_none(kernel: Kernel, tmp_path: Path) -> None:
    for verb in QUIET:
        assert said(kernel, f"%planck {verb}").strip(), verb
    assert not (tmp_path / ".planck").exists()
    said(kernel, "%planck -- hello")
    assert len(list((tmp_path / ".planck/sessions").glob("*.journal.jsonl"))) == 1


NONSENSE = [
    ("steer", "UsageError: `%planck steer` needs TEXT; write `%planck steer TEXT`."),
    ("steer faster please", "No agent is running that could be steered; prompt one first."),
    ("approve call_9", "AgentError: No call call_9 waits for approval; `%planck approve` lists those that do."),
    ("deny call_9 too risky", "No call call_9 waits for approval"),
    ("policy allow", "UsageError: `%planck permissions allow` needs RULES, such as"),
    ("policy deny write:src/**, a b:c", "UsageError: 'a b' cannot be a tool's name"),
    ("compact plank", "No agent is named plank. Did you mean planck?"),
    ("stop plank", "No agent is named plank. Did you mean planck?"),
    ("show request plank", "No agent is named plank. Did you mean planck?"),
    ("undo -1", "UsageError: `%planck undo` does not accept '-1'; write `%planck undo [NUMBER|all]`."),
    ("cassette off x.jsonl", "UsageError: `%planck cassette off` needs no file."),
    ("cassette auto", "UsageError: `%planck cassette auto` needs FILE"),
    ("config rounds --user", "UsageError: rounds is a limit: write `%planck config rounds=NUMBER` for this session"),
    ("config sandbox --user", "UsageError: `%planck config sandbox --user` needs VALUE"),
    ("config sandbx", "UsageError: There is no setting sandbx. Did you mean sandbox?"),
    ("config rounds=3 --user", "UsageError: `%planck config --user` needs NAME VALUE"),
    (
        "config rounds=inf",
        "UsageError: `%planck config rounds=inf`: it must be a whole number above 0 for rounds, or none.",
    ),
    ("config rounds=0.5", "it must be a whole number above 0 for rounds, or none."),
    ("config cost=-1", "it must be a number above 0 for cost, or none."),
    ("config size=3", "it takes NAME=NUMBER for cost, repeated_calls, rounds"),
    ("rewind 99", "UsageError: There is no prompt 99 to go back to; `%planck rewind` lists them with their ids."),
    ("rewind -1", "UsageError: There is no prompt -1 to go back to"),
    ("rewind --return last", "UsageError: Nothing was undone in this session"),
    ("branches --return 7", "UsageError: There is no branch 7 in this session"),
    ("rewind --return x", "UsageError: --return cannot be 'x'"),
    ("fork ..", "SessionError: This cannot name a session"),
    ("fork --before x", "UsageError: --before cannot be 'x': the id of the first message to leave out"),
    ("resume calm-fox", "SessionNotFoundError: No session in"),
    ("resume", "SessionNotFoundError: There is no other session to resume"),
    ("fork copy --before 99999", "UsageError: There is no message 99999 to leave out; the newest one has the id "),
    ("trust --list --remove", "UsageError: `%planck trust` needs either --list or --remove."),
    ("model --base-url http://127.0.0.1:1", "UsageError: --base-url needs a model: it is the address"),
    ("policy allow ,", "UsageError: `%planck permissions allow` needs RULES, such as"),
    ("config sandbox ''", "UsageError: `%planck config sandbox` needs VALUE; write `%planck config sandbox VALUE`."),
    ("config default_model=demo", "UsageError: Write `%planck config default_model demo`, without the sign =."),
    ("config sandbox = off --user", "UsageError: Write `%planck config sandbox off`, without the sign =."),
    ("config rounds = 3", "UsageError: Write `%planck config rounds=3`, without blanks."),
    ("sql --limit 99999999999999999999 SELECT 1", "UsageError: 99999999999999999999 is too large; the largest number"),
    ("search --limit 99999999999999999999 x", "the largest number is 9,223,372,036,854,775,807."),
    ("config default_model nobody:x", "UnknownProviderError: There is no provider 'nobody'."),
    ("config fallbacks demo,nobody:x --user", "UnknownProviderError: There is no provider 'nobody'."),
    ("answer 0", "UsageError: Answers are counted back from the newest, which is 1."),
    ("answer 99999999999999999999", "UsageError: There is 1 answer"),
    ("continue", "AgentError: planck has answered completely, so there is nothing to continue"),
    ("planck", "UsageError: There is no prompt: write it after the name planck"),
    ('""', "UsageError: There is no prompt; write it after %planck"),
    ("--with nosuch hi", "UsageError: There is no variable named nosuch."),
    ("nosuch:prompt k=v", "UsageError: There is no sidecar nosuch."),
    ("sql -n 3 -n 4 SELECT 1", "UsageError: --limit is written twice, with different values; write it once."),
    ("remove", "UsageError: `%planck remove` needs AGENT; write `%planck remove AGENT`."),
    ("remove plank", "No agent is named plank. Did you mean planck?"),
]


def test_nonsense_is_one_sentence_and_loses_nothing(kernel: Kernel) -> None:
    said(kernel, "%planck -- hello")
    known = (
        "(workspace().session_id, len(workspace().agents['planck'].state.messages), workspace().agents['planck'].id)"
    )
    before = value(kernel, known), value(kernel, "list(map(str, workspace().approvals.policy.rules))")
    for verb, sentence in NONSENSE:
        cell = kernel.run(f"%planck {verb}")
        assert sentence in cell.error, (verb, cell)
        assert "\n" not in cell.error
        assert not cell.outputs
        assert not cell.text
    assert (value(kernel, known), value(kernel, "list(map(str, workspace().approvals.policy.rules))")) == before
    assert said(kernel, "%planck agents")


@pytest.mark.parametrize(
    ("verb", "sentence"),
    [
        ("rewind last", "UsageError: There is no prompt to go back to yet."),
        ("rewind 3", "UsageError: There is no prompt to go back to yet."),
        ("sidecar stop", "Stopped: nothing, as there is no sidecar."),
    ],
)
def test_where_there_is_nothing_a_verb_says_so(kernel: Kernel, verb: str, sentence: str) -> None:
    cell = kernel.run(f"%planck {verb}")
    assert cell.error + cell.plain == sentence


def test_without_agents_an_earlier_session_is_mentioned(kernel: Kernel) -> None:
    said(kernel, "%planck -- hello\n%unload_ext planck_nb\n%load_ext planck_nb")
    for verb in ("continue", "compact planck", "tools planck"):
        assert kernel.run(f"%planck {verb}").error == (
            "AgentError: There is no agent yet; the first prompt makes one, and `%planck resume` continues an earlier "
            "session."
        )


@pytest.mark.parametrize("verb", ["resume --model", "--model"])
def test_a_very_long_word_does_not_hide_the_sentence(kernel: Kernel, verb: str) -> None:
    said(kernel, "%planck -- hello")
    error = kernel.run(f"%planck {verb} {'x' * 50_000}:y hi").error
    assert "…xxx" in error
    assert len(error) < 1_000


def test_a_session_that_is_left_while_agents_run_says_which_it_stopped(kernel: Kernel) -> None:
    for verb in ("rewind last", "branches --return last", "fork copy", "resume", "resume"):
        said(kernel, "%planck --background work 1 with @work\nawait inside()")
        assert "\nThis stopped planck, with what was written so far." in said(kernel, f"%planck {verb}"), verb
    said(kernel, "gate.set()")
    assert "This stopped" not in said(kernel, "%planck fork another")


def test_a_conversation_that_is_not_compacted_says_why(kernel: Kernel) -> None:
    said(kernel, "def broken(messages): raise ValueError('no ink')\ndef lazy(messages): return None")
    said(kernel, "%planck --agent ann --compactor broken hello\n%planck --agent bob --compactor lazy hello")
    said(kernel, "workspace().add_agent('new', model='demo') and None")
    assert said(kernel, "%planck compact ann") == (
        "The conversation of ann stays as it was. The compactor failed: ValueError: no ink. Run the command again, or "
        "choose another compactor by `--compactor` in a prompt."
    )
    assert said(kernel, "%planck compact bob") == (
        "The compactor of bob left the conversation as it is; `--compactor` in a prompt chooses another."
    )
    said(kernel, "%planck -- hello")
    assert said(kernel, "%planck compact planck") == (
        "planck has nothing to shorten: the newest messages are kept as they are, and there are too few older ones. "
        "`--new` in a prompt begins an empty conversation."
    )


@pytest.mark.parametrize("verb", ["compact", "compact planck", "remove planck", "fork", "fork copy"])
def test_before_the_first_prompt_there_is_nothing_to_act_on(kernel: Kernel, tmp_path: Path, verb: str) -> None:
    assert kernel.run(f"%planck {verb}").error.endswith("yet; the first prompt makes one.")
    assert not (tmp_path / ".planck").exists()


@pytest.mark.parametrize(
    ("verb", "sentence"),
    [
        ("agents", "There is no agent yet; the first prompt makes one."),
        (
            "tools",
            "No tools; `--tools` and `@name` in a prompt give some, and `%planck tools --all` lists what there is.",
        ),
        ("queue", "No prompt waits."),
        ("rewind", "There is no prompt to go back to yet."),
        ("branches", "Nothing was undone in this session."),
        ("changes", "No changes in this session."),
        ("sessions", "There are no sessions in this folder yet."),
    ],
)
def test_a_table_without_rows_is_a_sentence(kernel: Kernel, verb: str, sentence: str) -> None:
    cell = kernel.run(f"%planck {verb}")
    assert cell.plain == sentence
    assert not cell.data("text/html")
    assert value(kernel, f"shown = %planck {verb}\nlen(shown), len(shown.columns) > 2") == (0, True)


def test_steering_enters_the_run_after_its_tool(kernel: Kernel) -> None:
    said(kernel, "run = %planck --background work 1 with @work\nawait inside()")
    assert said(kernel, "%planck steer and add 20 and 22 with @add") == ("planck reads it before its next step.")
    said(kernel, "gate.set()\nresult = await run")
    assert prompts(kernel) == ["work 1 with @work", "and add 20 and 22 with @add"]
    assert value(kernel, "[type(message).__name__ for message in result.messages][:4]") == [
        "UserMessage", "AssistantMessage", "ToolResultMessage", "UserMessage",
    ]  # fmt: skip
    assert "No agent is running" in kernel.run("%planck steer once more").error


def test_it_is_the_one_that_runs_that_is_steered(kernel: Kernel) -> None:
    said(kernel, "one = %planck --agent 'slow one' --background work 1 with @work\nawait inside()")
    said(kernel, "%planck --agent quick hello")
    assert said(kernel, "%planck steer hurry") == "slow one reads it before its next step."
    said(kernel, "two = %planck --agent other --background work 2 with @work\nawait inside()")
    said(kernel, "%planck --agent quick hello")
    error = kernel.run("%planck steer hurry").error
    assert error == "AgentError: slow one, other are running; prompt one of them first, or steer it in its live view."
    said(kernel, "gate.set()\nawait one\nawait two")


ASKING = 'run = %planck --background --tools write write "a.txt" with content "hello"\n(await until(\'{}\')).id'


RULE = "The rule allows every tool to write every file directly in the working directory (the rule `write:./*`)."


def test_a_waiting_call_is_approved(kernel: Kernel, tmp_path: Path) -> None:
    said(kernel, "workspace().attend()")
    call = value(kernel, ASKING.format("approval_request"))
    assert not (tmp_path / "a.txt").exists()
    shown = said(kernel, "%planck approve")
    assert shown.splitlines()[0].startswith(f"write of planck waits for approval, call {call}.")
    assert "  path: a.txt\n  content: hello" in shown
    assert shown.endswith("Nothing runs yet: look at the call, then run this command again to allow it.")
    assert not (tmp_path / "a.txt").exists()
    assert said(kernel, "%planck approve") == "write runs."
    said(kernel, "await run")
    assert (tmp_path / "a.txt").read_text() == "hello"
    assert f"No call {call} waits" in kernel.run(f"%planck approve {call}").error
    assert said(kernel, "%planck approve") == said(kernel, "%planck deny") == "Nothing waits for approval."


def test_an_approval_is_remembered_for_the_agent_or_for_all(kernel: Kernel, tmp_path: Path) -> None:
    said(kernel, "workspace().attend()")
    prompt = '{0} = %planck --agent {0} --background --tools write write "a.txt" with content "{0}"'
    said(kernel, prompt.format("ann") + "\nawait until('approval_request')")
    said(kernel, "%planck approve --list")
    no_team = "A rule cannot be remembered for 'role'; use 'agent', 'all', or 'role' in a team."
    assert no_team in kernel.run("%planck approve --always role").error
    assert "--always cannot be 'bob'" in kernel.run("%planck approve --always bob").error
    shown = said(kernel, "%planck approve --always agent ann")
    assert shown == f"write runs. Such calls of ann need no approval for the rest of this session. {RULE}"
    said(kernel, "await ann\n" + prompt.format("ann") + "\nawait ann")
    rule = ["agent=ann write:./*", "allow", "session"]
    assert rule in value(kernel, "shown = %planck permissions\nshown.values.tolist()")
    said(kernel, prompt.format("bob") + "\nawait until('approval_request', 2)")
    shown = said(kernel, "%planck approve --always=all")
    assert "write of bob waits for approval" in shown
    shown = said(kernel, "%planck approve --always=all")
    assert shown == f"write runs. Such calls of all agents need no approval for the rest of this session. {RULE}"
    said(kernel, "await bob\n" + prompt.format("cid") + "\nawait cid")
    assert (tmp_path / "a.txt").read_text() == "cid"


def test_a_waiting_call_is_denied_with_a_reason_that_the_model_reads(kernel: Kernel, tmp_path: Path) -> None:
    said(kernel, "workspace().attend()")
    call = value(kernel, ASKING.format("approval_request"))
    assert said(kernel, f"%planck deny {call} not in this folder, please") == "write does not run."
    assert "denied this call: not in this folder, please" in said(kernel, "print((await run).text)")
    assert not (tmp_path / "a.txt").exists()
    decided = said(kernel, "rows = %planck sql SELECT allowed, decided_by, reason FROM approvals\nrows.values.tolist()")
    [[allowed, decided_by, reason]] = ast.literal_eval(decided)
    assert (allowed, decided_by) == (False, "user")
    assert reason.endswith(" call: not in this folder, please")


def test_no_call_is_approved_before_it_was_shown(kernel: Kernel, tmp_path: Path) -> None:
    """By whatever name; and one that was shown does not allow the next one of the same agent."""
    said(kernel, "workspace().attend()")
    prompt = 'run = %planck --agent ann --background --tools write write "a.txt" with content "{}"\n'
    for number, naming in enumerate(("", " ann", " {}", " ann {}"), start=1):
        asked = value(kernel, f"{prompt.format(number)}(await until('approval_request', {number})).id")
        shown = said(kernel, "%planck approve" + naming.format(asked))
        assert f"  content: {number}" in shown
        assert shown.endswith("run this command again to allow it.")
        said(kernel, "%planck deny\nawait run")
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("verb", ["approve", "pending"])
def test_a_call_equal_to_one_that_was_shown_is_shown_as_well(kernel: Kernel, tmp_path: Path, verb: str) -> None:
    said(kernel, "workspace().attend()\nshown = next(iter(_loaded.values()))._controller.shown_calls")
    prompt = 'run = %planck --agent ann --background --tools write write "a.txt" with content "same"\n'
    texts = []
    for number in (1, 2):
        said(kernel, f"{prompt}await until('approval_request', {number})")
        texts.append(said(kernel, "%planck approve"))
        assert texts[-1].endswith("run this command again to allow it.")
        if verb == "pending":
            said(kernel, "%planck approve --list")
        said(kernel, "%planck deny\nawait run\n%planck rewind last")
    assert texts[0] == texts[1]
    assert not (tmp_path / "a.txt").exists()
    assert said(kernel, f"%planck {verb}") == "Nothing waits for approval."
    assert value(kernel, "len(shown)") == 0


def test_where_several_calls_wait_they_are_listed_and_named(kernel: Kernel, tmp_path: Path) -> None:
    said(kernel, "workspace().attend()")
    for name in ("ann", "bob"):
        said(kernel, f'{name} = %planck --agent {name} --background --tools write write "{name}.txt" with "hi"')
    said(kernel, "await until('approval_request', 2)")
    whole = said(kernel, "%planck approve --list")
    for name in ("ann", "bob"):
        assert f"write of {name} waits for approval, call " in whole
        assert f"  path: {name}.txt" in whole
    assert "`--always` allows every tool to write every file directly in the working directory" in whole
    assert "bob" not in said(kernel, "%planck approve --list ann")
    listed = said(kernel, "waiting = %planck approve\nprint(waiting.to_string())")
    assert "write" in listed
    assert "ann.txt" in listed
    assert "bob.txt" in listed
    (call,) = set(value(kernel, "list(waiting['call'])"))
    error = kernel.run(f"%planck approve {call}").error
    assert error == f"AgentError: 2 waiting calls are called {call}; write the agent and the id of one."
    assert "No call bob now waits for approval" in kernel.run("%planck approve bob now").error
    assert said(kernel, f"%planck approve bob {call}") == "write runs."
    said(kernel, "await bob")
    assert (tmp_path / "bob.txt").exists()
    assert said(kernel, "%planck deny ann not there") == "write does not run."
    said(kernel, "await ann")
    assert not (tmp_path / "ann.txt").exists()


def test_with_nobody_there_a_call_is_denied_and_says_how_to_allow_it(kernel: Kernel, tmp_path: Path) -> None:
    answer = said(kernel, 'answer = %planck --quiet --tools write write "a.txt" with "hello"\nprint(answer.text)')
    assert "the user can allow it up front with `--allow write`" in answer
    said(kernel, '%planck --quiet --allow write write "a.txt" with "hello"')
    assert (tmp_path / "a.txt").read_text() == "hello"


def test_the_policy_is_shown_and_changed(kernel: Kernel) -> None:
    rows = "shown = %planck permissions\nshown.values.tolist()"
    before = value(kernel, rows)
    assert ["write", "ask", "default"] in before
    after = value(kernel, "shown = %planck permissions allow write:src/**, bash:git *\nshown.values.tolist()")
    assert ["write:src/**", "allow", "session"] in after
    assert ["bash:git *", "allow", "session"] in after
    assert len(after) == len(before) + 2
    assert value(kernel, "shown = %planck permissions deny write\nshown.values.tolist()") == value(kernel, rows)
    quoted = value(kernel, "shown = %planck permissions deny \"bash:rm -r *\", 'bash:dd *'\nshown.values.tolist()")
    assert ["bash:rm -r *", "deny", "session"] in quoted
    assert ["bash:dd *", "deny", "session"] in quoted


def test_a_long_conversation_becomes_a_summary(kernel: Kernel) -> None:
    said(kernel, "%planck -- hello")
    assert said(kernel, "%planck compact").startswith("planck has nothing to shorten")
    said(kernel, "%planck --tools add hello")
    said(kernel, "for n in range(9):\n    await workspace().agents['planck'].prompt(f'add {n} and 1 with add')")
    shortened = re.fullmatch(
        r"planck continues from a summary that is not shorter: about (\d+) tokens instead of (\d+); this helps .*",
        said(kernel, "%planck compact"),
    )
    assert shortened is not None
    assert int(shortened[1]) >= int(shortened[2])
    kinds = value(kernel, "[entry.message.type for entry in workspace().agents['planck'].state.messages]")
    assert kinds.count("summary") == 1
    summary = value(
        kernel,
        "[e.message.text for e in workspace().agents['planck'].state.messages if e.message.type == 'summary'][0]",
    )
    request = said(kernel, "%planck request")
    assert json.dumps(summary)[1:-1] in json.dumps(yaml.safe_load(request.split("\n\n", 2)[2]))
    assert "add 0 and 1" not in request
    assert "add 8 and 1" in request


def test_changes_are_listed_and_undone(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("before\n")
    for name in ("old.txt", "new.txt", "third.txt"):
        said(kernel, f'%planck --quiet --tools files --allow write,read write "{name}" with "after"')
        said(kernel, "%planck --quiet --agent second hello")
        said(kernel, "%planck --quiet --agent planck hello")
    assert value(kernel, "shown = %planck changes\nshown[['change', 'tool', 'agent']].values.tolist()") == [
        [1, "write", "planck"], [2, "write", "planck"], [3, "write", "planck"],
    ]  # fmt: skip
    assert said(kernel, "%planck undo") == f"{tmp_path}/third.txt was removed, because the write had created it."
    assert "ToolError: There is no such change to undo" in kernel.run("%planck undo 9").error
    (tmp_path / "new.txt").write_text("by hand")
    assert said(kernel, "%planck undo all").splitlines() == [
        f"{tmp_path}/new.txt is no longer as the write left it; restore it by hand.",
        f"{tmp_path}/old.txt is back to what it was before the write.",
    ]
    assert (tmp_path / "old.txt").read_text() == "before\n"
    assert (tmp_path / "new.txt").read_text() == "by hand"


def test_limits_are_shown_changed_and_kept(kernel: Kernel) -> None:
    said(kernel, "%planck -- hello")
    shown = "shown = %planck config\ndict(zip(shown['setting'], shown['value']))['rounds']"
    said(kernel, "%planck config rounds=1, cost=none")
    assert value(kernel, shown) == "1"
    answer = said(kernel, "answer = %planck --quiet add 1 and 2 with @add\nprint(workspace().agents['planck'].limits)")
    assert "rounds=1" in answer
    assert "cost=None" in answer
    said(kernel, "%planck --agent later hello")
    assert value(kernel, "workspace().agents['later'].limits.rounds") == 1


def test_skills_are_listed_with_those_that_cannot_be_used(kernel: Kernel, tmp_path: Path) -> None:
    assert said(kernel, "%planck skills").startswith("No skills. They are looked for in ")
    for name, text in (("charts", "---\nname: charts\ndescription: Draws charts.\n---\nDraw."), ("bad", "nothing")):
        (tmp_path / f".planck/skills/{name}").mkdir(parents=True)
        (tmp_path / f".planck/skills/{name}/SKILL.md").write_text(text)
    listed = said(kernel, "%planck skills")
    assert "Draws charts." in listed
    assert "Not used:" in listed
    assert "bad/SKILL.md: " in listed
    assert "Draws charts." in said(kernel, "%planck request")


@pytest.mark.parametrize("name", ["Zoë 🦊", "it's 'quoted'"])
def test_agents_with_unusual_names(kernel: Kernel, name: str) -> None:
    assert kernel.run(f'%%planck --agent "{name}"\nadd 1 and 2 with @add').status == "ok"
    assert name in said(kernel, f"%planck request {name}")
    assert said(kernel, f'%planck compact "{name}"').startswith(f"{name} has nothing to shorten")
    assert said(kernel, "rows = %planck rewind\nprint(rows['agent'][0])") == f"{name}\n"
    assert said(kernel, "%planck rewind last").startswith("Back to before prompt ")
    assert said(kernel, f'%planck remove "{name}"').startswith(f"{name} stopped for good.")
    assert value(kernel, "list(workspace().agents)") == []


def test_verbs_inside_a_function(kernel: Kernel) -> None:
    said(kernel, "%planck -- hello")
    code = (
        "def look():\n    shown = %planck rewind\n    %planck rewind last add 2 and 3 with @add\n"
        "    request = %planck request\n    return len(shown), str(request)\nfound = look()"
    )
    said(kernel, code)
    assert value(kernel, "found[0]") == 1
    assert "add 2 and 3 with @add" in said(kernel, "print(found[1])")
    assert "UsageError: There is no prompt 77" in kernel.run("def look():\n    %planck rewind 77\nlook()").error


def test_going_back_drops_what_came_later_and_says_something_else(kernel: Kernel) -> None:
    for text in ("one", "two", "three"):
        said(kernel, f"%planck -- {text}")
    cell = kernel.run("%planck rewind last add 20 and 22 with @add")
    assert "`add` returned `42`." in cell.data("text/plain")[-1]
    assert prompts(kernel) == ["one", "two", "add 20 and 22 with @add"]
    second = value(kernel, "rows = %planck rewind\nint(rows['id'][1])")
    assert said(kernel, f"%planck rewind {second}") == (
        f"Back to before prompt {second}. `%planck rewind --list` lists what was undone."
    )
    assert prompts(kernel) == ["one"]
    assert value(kernel, "[entry.message.text for entry in workspace().agents['planck'].state.messages][0]") == "one"
    assert value(kernel, "len(workspace().agents['planck'].state.messages)") == 2
    assert said(kernel, "%planck rewind --return last").startswith("Back on branch ")
    assert prompts(kernel) == ["one", "two", "add 20 and 22 with @add"]
    first = value(kernel, "rows = %planck rewind --list\nint(rows['branch'].min())")
    said(kernel, f"%planck rewind --return {first}")
    assert prompts(kernel) == ["one", "two", "three"]


def test_branches_are_not_read_on_the_event_loop(kernel: Kernel) -> None:
    for text in ("one", "two"):
        said(kernel, f"%planck -- {text}")
    said(kernel, "%planck rewind last")
    kernel.run(
        "from planck_nb import Session\nfrom planck_nb.base.event_loops import has_running_loop\non_loop = []\n"
        "def branches(self):\n    on_loop.append(has_running_loop())\n    return super(Session, self).branches()\n"
        "Session.branches = branches"
    )
    kernel.run("%planck rewind --list")
    said(kernel, "%planck rewind --return last")
    assert value(kernel, "on_loop") == [False] * 3
    kernel.run("del Session.branches")


def test_abort_gives_back_what_waited(kernel: Kernel) -> None:
    said(kernel, "slow = %planck --background work 1 with @work\nawait inside(1)")
    assert said(kernel, "%planck steer hello again").startswith("planck reads it")
    assert said(kernel, "%planck stop") == (
        "Stopped planck. What was written so far is kept.\nNot sent to planck: hello again"
    )
    assert prompts(kernel) == ["work 1 with @work"]


def test_going_back_while_it_streams_leaves_only_the_new_turn(kernel: Kernel) -> None:
    said(kernel, "%planck -- one")
    said(kernel, "%planck --agent helper hello")
    said(kernel, "%planck config seconds=none\nslow = %planck --agent planck --background work 1 with @work")
    said(kernel, "other = %planck --agent helper --background work 2 with @work\nawait inside(2)")
    third = value(kernel, "rows = %planck rewind\nint(rows['id'][2])")
    cell = kernel.run(f"%planck rewind {third} add 20 and 22 with @add")
    assert "`add` returned `42`." in cell.data("text/plain")[-1]
    assert value(kernel, "(slow.status, other.status)") == ("aborted", "aborted")
    said(kernel, "gate.set()")
    assert prompts(kernel) == ["one", "hello", "add 20 and 22 with @add"]
    code = (
        "from planck_nb.sessions import Session\n"
        "def same(agent):\n"
        "    stored = [(row.db_id, row.message) for row in workspace().session.messages(agent.id)]\n"
        "    return stored == [(entry.id, entry.message) for entry in agent.state.messages]\n"
        "[same(agent) for agent in workspace().agents.values()]"
    )
    assert value(kernel, code) == [True, True]


def test_agents_come_and_go_with_the_past(kernel: Kernel) -> None:
    said(kernel, "%planck -- one")
    said(kernel, "%planck --agent later hello")
    said(kernel, "%planck --agent planck two")
    said(kernel, "%planck rewind last\n%planck rewind last")
    gone = kernel.run("%planck rewind last")
    assert "later does not belong to this conversation and was stopped." in gone.plain
    assert value(kernel, "list(workspace().agents)") == ["planck"]
    said(kernel, "%planck rewind --return last")
    said(kernel, "%planck one again")
    assert said(kernel, "%planck remove planck").startswith("planck stopped for good.")
    assert value(kernel, "list(workspace().agents)") == ["later"]
    assert said(kernel, "%planck rewind last").startswith("Back to before prompt ")
    assert value(kernel, "sorted(workspace().agents)") == ["later", "planck"]


def test_an_empty_conversation_is_left_again(kernel: Kernel) -> None:
    said(kernel, "%planck --system Brief. one")
    said(kernel, "%planck --new two")
    answer = kernel.run("%planck rewind last three")
    assert answer.status == "ok", answer.error
    assert prompts(kernel) == ["one", "three"]


def test_a_fork_goes_on_elsewhere(kernel: Kernel) -> None:
    for text in ("one", "two"):
        said(kernel, f"%planck -- {text}")
    said(kernel, "%planck --agent later add 1 and 2 with @add")
    second = value(kernel, "rows = %planck rewind\nint(rows['id'][1])")
    before = value(kernel, "workspace().session.name")
    assert said(kernel, f"%planck fork trial --before {second}") == (
        f"This notebook continues in trial; {before} stays as it is."
    )
    assert value(kernel, "list(workspace().agents)") == ["planck"]
    said(kernel, "%planck -- other")
    texts = "rows = %planck sql SELECT session_name, text FROM messages WHERE role = 'user' ORDER BY session_name, id\n"
    assert sorted(value(kernel, f"{texts}rows.values.tolist()")) == sorted(
        [[before, "one"], [before, "two"], [before, "add 1 and 2 with @add"], ["trial", "one"], ["trial", "other"]]
    )
    assert said(kernel, f"%planck resume {before}") == (
        f"This notebook continues {before} with planck (4 messages), later (4 messages)."
    )
    assert said(kernel, "%planck fork --before 1 empty").startswith("This notebook continues in empty;")
    assert value(kernel, "list(workspace().agents)") == []
    said(kernel, "%planck -- hello")


def test_hundreds_of_agents(kernel: Kernel) -> None:
    said(kernel, "%planck -- hello\nmodel = workspace().agents['planck'].model")
    said(kernel, "for number in range(400):\n    workspace().add_agent(f'agent {number}', model=model)")
    for verb in ("agents", "approve", "abort", "changes"):
        assert said(kernel, f"%planck {verb}")
    assert "No agent is named agent 100x. Did you mean agent 10" in kernel.run("%planck remove agent 100x").error
    assert said(kernel, "%planck request agent 399")
    name = value(kernel, "workspace().session.name")
    said(kernel, "%unload_ext planck_nb\n%load_ext planck_nb")
    shown = said(kernel, "%planck resume")
    assert shown.startswith(f"This notebook continues {name} with planck (2 messages), agent 0 (0 messages), ")
    assert shown.endswith(" and 381 other agents.")


def test_help_reads_well(kernel: Kernel) -> None:
    lines = said(kernel, "%planck help all").splitlines()
    assert all(len(line) <= 120 for line in lines), max(lines, key=len)
    assert "Running agents:" in lines
    for name, verb in VERBS.items():
        assert f"  {name:<{len('%planck AGENT --option … PROMPT')}}  {verb.summary}" in lines
    short = said(kernel, "%planck help")
    assert len(short.splitlines()) <= 25
    assert short == said(kernel, "%planck") == said(kernel, "%planck --help")
    assert "--max-tokens N" in said(kernel, "%planck help prompt")


def test_each_verb_explains_itself(kernel: Kernel) -> None:
    for name, verb in VERBS.items():
        page = said(kernel, f"%planck help {name}")
        assert page.startswith(f"%planck {name}")
        assert page == said(kernel, f"%planck {name} --help")
        assert verb.example.startswith(name) or not (verb.parameters or verb.options)
        assert all(len(line) <= 120 for line in page.splitlines())


REPLIES = (
    sse(
        chat_chunk({"role": "assistant", "content": "Let me add."}),
        chat_chunk({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "add", "arguments": ""}}]}),
        chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1, "b": 2}'}}]}),
        chat_chunk({}, "tool_calls"),
        "[DONE]",
    ),
    CHAT_HELLO,
    CHAT_HELLO,
)


async def test_every_variable_is_shown_with_its_value(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{}")
    config = Config.load(environment={"PLANCK_NB_MODELS_FILE": "mine.json"}, directory=tmp_path)
    async with Workspace(config) as place:
        shown: Any = await VERBS["config"].run(Notebook(Controller(place)))
    values = dict(zip(shown["variable"], shown["value"], strict=True))
    assert set(values) == {setting.variable for setting in SETTINGS}
    assert values["PLANCK_NB_MODELS_FILE"] == str(tmp_path / "mine.json")


async def test_a_setting_is_shown_with_its_source_and_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    config = Config.load(environment={"PLANCK_NB_DEMO_PACE": "0"}, directory=tmp_path)

    async def ask(place: Workspace, argument: str) -> Any:
        return await VERBS["config"].run(Notebook(Controller(place)), argument)

    async with Workspace(config) as place:
        written = str(await ask(place, "compact_ratio 0.5"))
        assert str(tmp_path / ".planck/config.toml") in written
        assert "takes precedence" in str(await ask(place, "demo_pace 1"))
        assert "default_model was written to" in str(await ask(place, "default_model demo --user"))
        assert 'default_model = "demo"' in (home / ".planck/config.toml").read_text()
        assert "limits was written to" in str(await ask(place, "limits rounds=3"))
        with pytest.raises(UsageError, match="needs VALUE; write"):
            await ask(place, "compact_ratio --user")
        with pytest.raises(ConfigError, match="Did you mean compact_ratio"):
            await ask(place, "compact_ration 0.5")
        await ask(place, "rounds=7")
        assert (await ask(place, "rounds")).to_dict("list")["value"] == ["7"]
        assert len(await ask(place, "limits")) == len(place.limits.as_dict())
        place.approvals.policy = place.policy().with_rule(Rule.parse("allow", "bash"))
        sources = dict(zip((shown := await ask(place, ""))["setting"], shown["source"], strict=True))
    assert sources["rounds"] == sources["allow"] == "this session"
    assert sources["demo_pace"] == "environment PLANCK_NB_DEMO_PACE"
    assert sources["compact_ratio"] == sources["deny"] == "default"
    loaded = Config.load(environment={}, directory=tmp_path)
    assert loaded.settings()[8][1:] == (0.5, ".planck/config.toml")
    assert loaded.limits.rounds == 3


async def test_the_request_that_is_shown_is_the_one_that_is_sent(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Be kind.\n\n── user · about 3 tokens\nNot a message.")
    (tmp_path / "skills/charts").mkdir(parents=True)
    (tmp_path / "skills/charts/SKILL.md").write_text("---\nname: charts\ndescription: Draws.\n---\nDraw.")
    config = Config.load(environment={"PLANCK_NB_SKILLS_DIRS": "skills"}, directory=tmp_path)
    replies, seen = iter(REPLIES), list[dict[str, Any]]()

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(next(replies)))

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async with client(httpx.MockTransport(answer)) as asking, Workspace(config, client=asking) as place:
        controller = Controller(place)
        notebook = Notebook(controller, {"add": add})
        model = {"model": "openai:tested", "base-url": "http://127.0.0.1:9/v1"}
        empty = str(await VERBS["request"].run(notebook))
        await (await controller.start("add 1 and 2 with @add", model, notebook.names)).run
        shown = str(await VERBS["request"].run(notebook))
        await (await controller.start("and now?", {}, notebook.names)).run
    sent = seen[2]
    assert sent["messages"].pop() == {"role": "user", "content": "and now?"}
    estimates, head, body = shown.split("\n\n", 2)
    assert yaml.safe_load(body) == sent
    assert head.splitlines()[0] == "POST http://127.0.0.1:9/v1/chat/completions"
    assert [line.split(" · about ")[0] for line in estimates.splitlines()[1:]] == [
        "── system", *(f"── tool {tool['function']['name']}" for tool in sent["tools"]), "── user", "── assistant",
        "── tool_result", "── assistant",
    ]  # fmt: skip
    assert yaml.safe_load(empty.split("\n\n", 2)[2])["system"] == sent["messages"][0]["content"]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


LARGE_IMAGE = b"".join(
    (
        b"\x89PNG\r\n\x1a\n",
        _chunk(b"IHDR", struct.pack(">IIBBBBB", 90, 90, 8, 0, 0, 0, 0)),
        _chunk(b"IDAT", zlib.compress(bytes(91 * 90), 0)),
        _chunk(b"IEND", b""),
    )
)


async def test_the_request_is_shown_with_its_options_and_without_what_is_left_out() -> None:
    model = ai.get_model("openai:gpt-5")
    image = ai.ImagePart(LARGE_IMAGE)
    async with (
        ai.Client(credentials={"OPENAI_API_KEY": "sk-0123456789"}) as asking,
        Agent(model=model, client=asking, options=ai.Options(max_tokens=77, temperature=0.5)) as agent,
    ):
        await agent._recorder.append(ai.UserMessage([ai.TextPart("one\ntwo"), image]))
        shown = await describe_request(agent)
    assert "max_output_tokens: 77" in shown
    assert "openai:gpt-5 does not accept temperature, so it was not sent." in shown
    assert "temperature: 0.5" not in shown
    assert "authorization: Bearer [key]" in shown
    assert "sk-0123456789" not in shown
    assert "characters)" in shown
    assert len(shown) < 2_000


THOUGHTFUL: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 7}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Yes."}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 30}},
    {"type": "message_stop"},
]


async def test_thinking_that_is_not_sent_back_is_not_shown() -> None:
    seen: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(sse(*THOUGHTFUL)))

    def sent_thoughts() -> list[str]:
        blocks = [block for message in seen[-1]["messages"] for block in message["content"]]
        return [block["thinking"] for block in blocks if block["type"] == "thinking"]

    async with client(httpx.MockTransport(answer)) as asking, Agent(model=MESSAGES, client=asking) as agent:
        await agent.prompt("one")
        assert "thinking: Hm." in await describe_request(agent)
        await agent.prompt("two")
        assert sent_thoughts() == ["Hm."]
        cut = AssistantMessage(
            (ThinkingPart("Cut."), TextPart("So")), "aborted", provider="anthropic", model="some-model"
        )
        await agent._recorder.append(cut)
        assert (await describe_request(agent)).count("type: thinking") == 2  # not of what was cut
        agent.system_prompt = "Be brief."  # for which no thinking was signed
        shown = await describe_request(agent)
        await agent.prompt("three")
    assert "type: thinking" not in shown
    assert sent_thoughts() == []


async def test_compacting_tells_a_summary_from_texts_that_were_only_cut() -> None:
    def summarize(messages: Sequence[Message], _usage: object) -> Compact | None:
        return Compact("So far: nothing.", messages[-1:]) if can_summarize else None

    can_summarize = False
    model = replace(scripted_model(["First.", "Second."]), context_window=1_000)
    compact = VERBS["compact"].function
    async with Agent(model=model, name="reader", on_compact=summarize) as agent:
        await agent.prompt("many words " * 4_000)
        await agent.prompt("Again.")
        cut = str(await compact(None, agent=agent))
        assert cut.startswith(
            "reader could not be summarised enough, so its longest texts are cut in what is sent: about"
        )
        can_summarize = True
        assert str(await compact(None, agent=agent)).startswith("reader continues from a summary: about ")


@pytest.mark.parametrize("cell", ["1 / 0", "for x in [1]\n    x", "%%planck --modl demo\nhello"])
def test_fix_sends_the_failed_cell(kernel: Kernel, cell: str) -> None:
    assert kernel.run(cell).status == "error"
    assert "its error" in said(kernel, "corrected = %planck fix")
    assert said(kernel, "print(corrected.code)").strip() == cell


def test_the_doctor_shows_a_table_and_lines(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("")
    cell = kernel.run("%planck doctor")
    assert cell.plain.splitlines()[0].startswith("problem  modules ")
    assert "                    Fix: rename random.py" in cell.plain
    assert "<td>modules</td>" in cell.data("text/html")[0]


@pytest.mark.parametrize("line", ["config cost=2", "config cost 2", "config cost $2", "budget 2", "limit 2"])
def test_a_limit_is_answered_with_a_sentence(kernel: Kernel, line: str) -> None:
    assert said(kernel, f"%planck {line}") == "Limits for this session: cost 2."
    assert value(kernel, "workspace().limits.cost") == 2
    assert said(kernel, "%planck config cost=none rounds=7") == "Limits for this session: rounds 7, cost none."


def test_everything_for_tools_is_listed(kernel: Kernel) -> None:
    names = value(kernel, "shown = %planck tools --all\nlist(shown.tool)")
    assert {"read", "bash", "files", "kernel", "run_python", "web_search", "add"} <= set(names)
    assert value(kernel, "all(shown.description)")
