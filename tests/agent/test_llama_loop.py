"""A real llama.cpp server drives read, edit and bash: through an agent and a workspace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.llama import llama_server

from planck_nb import Agent, BuiltinTools, Config, Workspace, ai
from planck_nb.agent.approval import Policy, Rule
from planck_nb.agent.approval.gate import Approvals
from planck_nb.ai.messages import Message

pytestmark = pytest.mark.timeout(180)

OLD, NEW = 'print("hello")\n', 'print("grüß dich 🎉")\n'
ANSWER = "The greeting is German now."
PROMPT = "Make the greeting German."


def _call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


SCRIPT: list[dict[str, object]] = [
    {
        "thinking": "I look at the file first.",
        "calls": [_call("read", path="greeting.py"), _call("bash", command="echo one; echo two >&2")],
    },
    {"calls": [_call("edit", path="greeting.py", old_string="hello", new_string="grüß dich 🎉")]},
    {"calls": [_call("bash", command="python3 greeting.py; touch ran; test -e go || sleep 100")]},
    {"text": ANSWER},
]
"""Its last command goes on for long unless there is a file named `go`."""

ROLES = ["user", *["assistant", "tool_result"] * 3, "assistant"]
RULES = ("read", "edit", "bash")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("server"), SCRIPT) as url:
        yield url


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "greeting.py").write_text(OLD)
    (tmp_path / "go").touch()
    return tmp_path


def _policy(root: Path) -> Policy:
    """Everything that is not allowed by name is denied."""
    rules = tuple(Rule.parse("allow", name) for name in RULES)
    return Policy(rules, root, default=dict.fromkeys(("read", "write", "execute", "network"), "deny"))


def _is_paired(messages: list[Message]) -> bool:
    """Whether every call has exactly one result, right behind it."""
    for place, message in enumerate(messages):
        if message.type == "assistant" and message.tool_calls:
            results = messages[place + 1]
            assert results.type == "tool_result"
            assert [call.id for call in message.tool_calls] == [part.id for part in results.content]
    return True


@pytest.mark.slow
async def test_through_an_agent(server: str, project: Path) -> None:
    model = ai.get_model("llama_cpp", base_url=server)
    approvals = Approvals(_policy(project))
    async with Agent(model=model, tools=BuiltinTools.all(cwd=project), approvals=approvals) as agent:
        run = agent.prompt(PROMPT)
        events = [event async for event in run]
        result = await run
        request = agent.request()
    assert result.text.strip() == ANSWER
    assert [message.type for message in result.messages] == ROLES
    assert (project / "greeting.py").read_text() == NEW
    decisions = [(event.name, event.allowed, event.by) for event in events if event.type == "approval_decision"]
    assert decisions == [("read", True, "rule"), ("bash", True, "rule"), ("edit", True, "rule"), ("bash", True, "rule")]
    assert _is_paired(list(request.messages))


@pytest.mark.slow
async def test_what_no_rule_allows_is_denied_and_the_loop_goes_on(server: str, project: Path) -> None:
    model = ai.get_model("llama_cpp", base_url=server)
    approvals = Approvals(Policy((Rule.parse("deny", "edit"),), project, default={"read": "allow", "execute": "allow"}))
    async with Agent(model=model, tools=BuiltinTools.all(cwd=project), approvals=approvals) as agent:
        result = await agent.prompt(PROMPT)
    assert [message.type for message in result.messages] == ROLES
    (edited,) = result.messages[4].content
    assert edited.type == "tool_result"
    assert edited.is_error
    assert "edit was denied" in edited.text
    assert (project / "greeting.py").read_text() == OLD


@pytest.mark.slow
async def test_through_a_workspace_and_on_after_an_abort(server: str, project: Path) -> None:
    (project / "go").unlink()
    config = Config.load(environment={}, directory=project, allow="read,edit,bash")
    async with Workspace(config) as workspace:
        tools = workspace.toolbox.named(["files", "bash"])
        agent = workspace.add_agent("ann", model=workspace.model("llama_cpp:default", base_url=server), tools=tools)
        run = agent.prompt(PROMPT)
        async for event in run:
            if event.type == "tool_progress" and "grüß dich" in event.text:
                run.abort()
        first = await run
        assert first.aborted
        assert [message.type for message in first.messages] == ROLES[:-1]
        (stopped,) = first.messages[-1].content
        assert stopped.type == "tool_result"
        assert "stopped" in stopped.text
        (project / "greeting.py").write_text(OLD)
        (project / "go").touch()
        second = await agent.prompt("Once more.")  # the server takes the history that the abort left
        assert not second.aborted
        assert second.text.strip() == ANSWER
        assert _is_paired(list(agent.request().messages))
        rows = await workspace.query_async("SELECT name, count(*) AS n FROM tool_calls GROUP BY name ORDER BY name")
        assert rows.to_numpy().tolist() == [["bash", 4], ["edit", 2], ["read", 2]]
        assert (project / "greeting.py").read_text() == NEW
