"""What Planck's own pages say, statement by statement: the same in Python, or the reason why not.

Each function is one statement, literal up to the language: a keyword list is keyword arguments, `{:ok, x}` is
`("ok", x)`, a process is an object, and a message to it is a call.
"""

from __future__ import annotations

import asyncio
import json
import sys
import types
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from support.teams import call, calls, results

from planck_nb import (
    Agent,
    AgentSpec,
    BuiltinTools,
    Compact,
    Compactor,
    ExternalTool,
    Session,
    Team,
    Tool,
    ToolError,
    ai,
    events,
    orchestrator_tools,
    worker_tools,
)
from planck_nb.ai.messages import Message, SummaryMessage
from planck_nb.base.errors import ConfigError
from planck_nb.resources import SkillPool, load_all, system_prompt_section
from planck_nb.sidecars import Sidecar, SidecarModule, discover, execute_tool, list_tools
from planck_nb.sidecars.author.entry_point import forget_discovered
from planck_nb.testing import Reply, scripted_model

Statement: TypeAlias = Callable[[Path], Awaitable[None] | None]

STATEMENTS: dict[str, Statement] = {}

DIFFERENT = {
    "Agent.start_child under a DynamicSupervisor": "An agent is an object; `async with Agent(…)` stops it.",
    "execute_tool returns {:error, reason}": "A failure is an exception, as everywhere in Python: `ToolError`.",
    "execute_tool/4 without an entry module returns {:error, …}": "As above, with the same words.",
    "from_file returns {:error, reason}": "As above: `ConfigError`, with the path and what is wrong.",
    "malformed TOOL.json files are silently skipped": "They are skipped, and `skipped` says why.",
    "names that may not be granted are silently ignored": "They are ignored, and the result says so to the model.",
    "unknown names of tools are silently ignored": "They are ignored, and `problems` says so.",
    "messages are stored in SQLite at <id>_<name>.db": "In a journal and a DuckDB file with the same beginning.",
    "events are sent on the topics agent:ID and session:ID": "`agent.subscribe()` and `workspace.subscribe()`.",
    "worker_exit has the keys pid and reason": "A worker has an id and a name instead of a process id.",
    "role is determined solely by the tool list": "In a team; outside of one, an agent has no role.",
    "planck_headless calls functions of the sidecar's node by :rpc.call/5": "A sidecar is an MCP server.",
    "one supervisor restarts registry and event bus together": "There are no processes to restart.",
}
"""Statements that are not literal, and why."""


def states(statement: str) -> Callable[[Statement], Statement]:
    def add(function: Statement) -> Statement:
        assert statement not in STATEMENTS
        STATEMENTS[statement] = function
        return function

    return add


# --- Sidecars --------------------------------------------------------------------------------------------------------


class MySidecar(SidecarModule):
    """The minimal example."""

    def tools(self) -> list[object]:
        def run(_agent_id: str, _id: str, args: dict[str, Any]) -> tuple[str, str]:
            timeout = args.get("timeout_ms", 120_000)
            return ("ok", f"passed within {timeout} ms") if timeout > 1 else ("error", "too late")

        timeout = {"type": "integer", "description": "Max milliseconds to wait (default 120000)"}
        parameters = {"type": "object", "properties": {"timeout_ms": timeout}}
        return [Tool(name="run_tests", description="Run the test suite.", parameters=parameters, execute_fn=run)]


@states("tools/0 returns tools with full execute_fn closures")
def _tools(_: Path) -> None:
    assert all(isinstance(tool, Tool) and callable(tool.execute_fn) for tool in MySidecar().tools())


@states("tools/0 is the only required callback, and a default returns []")
def _default_tools(_: Path) -> None:
    assert type("Empty", (SidecarModule,), {})().tools() == []
    assert list_tools(Sidecar("empty")) == []


@states("list_tools/1 takes an explicit module and returns tools without closures, serialisable")
def _list_tools(_: Path) -> None:
    [spec] = list_tools(MySidecar)
    assert json.loads(json.dumps(asdict(spec)))["name"] == "run_tests"
    assert not hasattr(spec, "execute_fn")


@states("execute_tool/5 takes the module first: module, name, agent id, call id, args")
def _execute_module(_: Path) -> None:
    assert execute_tool(MySidecar, "run_tests", "agent-1", "call-1", {}) == ("ok", "passed within 120000 ms")


@states("execute_tool/4 is the same as execute_tool/3 but takes an explicit module")
def _execute_module_3(_: Path) -> None:
    assert execute_tool(MySidecar, "run_tests", "agent-1", {"timeout_ms": 9}) == ("ok", "passed within 9 ms")


@states("execute_tool of a tool that is not there: unknown tool: NAME")
def _unknown_tool(_: Path) -> None:
    with pytest.raises(ToolError, match=r"^unknown tool: ghost$"):
        execute_tool(MySidecar, "ghost", "agent-1", "call-1", {})


@states("execute_tool gives the reason of {:error, reason}")
def _failed_tool(_: Path) -> None:
    with pytest.raises(ToolError, match=r"^too late$"):
        execute_tool(MySidecar, "run_tests", "agent-1", "call-1", {"timeout_ms": 1})


def install(folder: Path) -> None:
    source = (
        "from planck_nb import Tool\n"
        "def tools():\n"
        "    return [Tool(name='echo', description='', execute_fn=lambda agent, call, args: (agent, call, args))]\n"
    )
    (folder / "stated_sidecar.py").write_text(source)
    info = folder / "stated_sidecar-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stated-sidecar\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[planck_nb.sidecars]\nmain = stated_sidecar\n")


@states("discover/0 returns nil if there is none, and nil is not cached")
def _discover_none(folder: Path) -> None:
    assert discover() is None
    install(folder)
    assert isinstance(discover(), types.ModuleType)


@states("discover/0 caches what it has found")
def _discover_cached(folder: Path) -> None:
    install(folder)
    found = discover()
    (folder / "stated_sidecar-1.0.dist-info" / "entry_points.txt").unlink()
    assert discover() is found


@states("list_tools/0 discovers the module; [] if there is none")
def _list_discovered(folder: Path) -> None:
    assert list_tools() == []
    install(folder)
    assert [spec.name for spec in list_tools()] == ["echo"]


@states("execute_tool(tool_name, agent_id, tool_call_id, args) discovers the module")
def _execute_discovered(folder: Path) -> None:
    install(folder)
    assert execute_tool("echo", "a", "c", {"x": 1}) == ("a", "c", {"x": 1})


@states("[tool_name, agent_id, args] are enough")
def _execute_discovered_3(folder: Path) -> None:
    install(folder)
    assert execute_tool("echo", "a", {"x": 1}) == ("a", "", {"x": 1})


@states("without an entry module: no sidecar entry module found")
def _no_entry(_: Path) -> None:
    with pytest.raises(ToolError, match=r"^no sidecar entry module found$"):
        execute_tool("echo", "a", "c", {})


# --- External tools --------------------------------------------------------------------------------------------------

COMPLEXITY = {
    "name": "check_complexity",
    "description": "Check cyclomatic complexity of a file using radon.",
    "command": "printf '<%s>' {{path}} {{other}} -s",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


def external(folder: Path, data: object = COMPLEXITY, name: str = "check_complexity") -> Path:
    file = folder / "tools" / name / "TOOL.json"
    file.parent.mkdir(parents=True)
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    return file


@states("each subdirectory with a TOOL.json is loaded as a tool")
def _load_all(folder: Path) -> None:
    external(folder)
    (folder / "tools" / "empty").mkdir()
    [tool] = ExternalTool.load_all([folder / "tools"])
    assert (tool.name, tool.description) == (COMPLEXITY["name"], COMPLEXITY["description"])


@states("missing directories and malformed entries are skipped")
def _skipped(folder: Path) -> None:
    external(folder, "{", "broken")
    assert list(ExternalTool.load_all([folder / "tools", folder / "nowhere"])) == []


@states("{{key}} is replaced with the argument, an unknown one with an empty string")
async def _placeholders(folder: Path) -> None:
    [tool] = ExternalTool.load_all([external(folder).parents[1]])
    assert (await tool.run({"path": "a b.py"})).text == "<a b.py><-s>"


@states("cwd and timeout can always be passed as runtime arguments")
async def _cwd(folder: Path) -> None:
    (folder / "inner").mkdir()
    tool = ExternalTool.from_file(external(folder, {**COMPLEXITY, "command": "pwd"}))
    assert (await tool.run({"path": "", "cwd": str(folder / "inner")})).text.strip() == str(folder / "inner")
    slow = ExternalTool.from_file(external(folder, {**COMPLEXITY, "command": "sleep 60"}, "slow"))
    with pytest.raises(ToolError, match=r"timed out|killed|200"):
        await slow.run({"path": "", "timeout": 200})


@states("from_file/1 names missing required fields")
def _missing(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing required fields?: .*command"):
        ExternalTool.from_file(external(folder, {"name": "x"}))


@states("from_file/1 names invalid JSON and unreadable files")
def _invalid(folder: Path) -> None:
    with pytest.raises(ConfigError, match="JSON"):
        ExternalTool.from_file(external(folder, "{"))
    with pytest.raises(ConfigError, match="cannot read"):
        ExternalTool.from_file(folder / "none" / "TOOL.json")


@states("the loaded tools go beside inter-agent tools, or into grantable_tools")
def _beside(folder: Path) -> None:
    tools = ExternalTool.load_all([external(folder).parents[1]])
    names = [tool.name for tool in [*orchestrator_tools(grantable_tools=tools), *tools]]
    assert {"spawn_agent", "check_complexity"} <= set(names)


# --- Quick start -----------------------------------------------------------------------------------------------------


@states("get_model(:anthropic, id)")
def _get_model(_: Path) -> None:
    model = ai.get_model("anthropic", "claude-sonnet-4-6")
    assert (model.provider, model.id) == ("anthropic", "claude-sonnet-4-6")


def read_file() -> Tool:
    def execute(_id: str, args: dict[str, Any]) -> tuple[str, str]:
        try:
            return ("ok", Path(args["path"]).read_text())
        except OSError as reason:
            return ("error", f"could not read {args['path']}: {reason.strerror}")

    parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return Tool(name="read_file", description="Read a file from disk", parameters=parameters, execute_fn=execute)


@states("a tool returns {:ok, content}")
async def _ok(folder: Path) -> None:
    (folder / "a").write_text("hello")
    assert (await read_file().run({"path": str(folder / "a")})).text == "hello"


@states("a tool returns {:error, reason}")
async def _error(folder: Path) -> None:
    with pytest.raises(ToolError, match=r"^could not read .*: No such file or directory$"):
        await read_file().run({"path": str(folder / "none")})


@states("{:ok, term} may have any value, also of an async function")
async def _ok_terms(_: Path) -> None:
    async def execute(args: dict[str, Any]) -> tuple[str, object]:
        return ("ok", args["value"])

    tool = Tool(name="give", description="", execute_fn=execute)
    for value, text in (("x", "x"), (3, "3"), ({"a": 1}, '{"a":1}'), ("", "")):
        assert (await tool.run({"value": value})).text == text


@states("execute_fn takes (agent_id, id, args) or (id, args)")
async def _arities(_: Path) -> None:
    three = Tool(
        name="three", description="", execute_fn=lambda agent_id, call_id, args: f"{agent_id} {call_id} {args}"
    )
    two = Tool(name="two", description="", execute_fn=lambda call_id, args: f"{call_id} {args}")
    assert (await three.run({}, agent_id="a", call_id="c")).text == "a c {}"
    assert (await two.run({}, agent_id="a", call_id="c")).text == "c {}"


def agent(*script: Any, **options: Any) -> Agent:
    return Agent(model=scripted_model(list(script) or ["Hello."]), **options)


@states("Agent: id, model, system_prompt, tools; subscribe, prompt, and turn_end has message and usage")
async def _quick_start(folder: Path) -> None:
    (folder / "a").write_text("hello")
    script = [call("read_file", path=str(folder / "a")), "It says {result}."]
    async with agent(*script, id="agent-1", system_prompt="You help.", tools=[read_file()]) as one:
        subscription = one.subscribe()
        one.prompt("What does it do?")
        async for event in subscription:
            if event.type == "turn_end":
                assert event.message.text == "It says hello."
                assert event.usage.total_tokens > 0
                break
        assert one.id == "agent-1"


# --- Events ----------------------------------------------------------------------------------------------------------

PAYLOADS = {
    "turn_start": ("index",),
    "turn_end": ("message", "usage"),
    "text_delta": ("text",),
    "thinking_delta": ("text",),
    "usage_delta": ("delta", "total"),
    "tool_start": ("id", "name", "args"),
    "tool_end": ("id", "name", "result", "error"),
    "error": ("reason",),
}


@states("each event has its payload keys")
async def _payloads(_: Path) -> None:
    script = [Reply(thinking="Hm.", calls=call("read_file", path="/none").calls), "Done.", Reply(error="It broke.")]
    async with agent(*script, tools=[read_file()]) as one:
        await one.prompt("go")
        with pytest.raises(Exception, match="broke"):
            await one.prompt("again")
        seen = {event.type: event for event in one.events.since(0)}
    for kind, keys in PAYLOADS.items():
        assert all(hasattr(seen[kind], key) for key in keys), kind  # type: ignore[index]


@states("after an error the agent returns to idle")
async def _idle_after_error(_: Path) -> None:
    async with agent(Reply("So", error="It broke."), "Better.") as one:
        with pytest.raises(Exception, match="broke"):
            await one.prompt("go")
        assert one.status == "idle"
        assert (await one.prompt("again")).text == "Better."


@states("worker_exit goes to the orchestrator only, with a reason")
async def _worker_exit(_: Path) -> None:
    lead, worker = team()
    await worker.stop()
    [event] = [event for event in lead.events.since(0) if event.type == "worker_exit"]
    assert (event.worker_id, bool(event.reason)) == (worker.id, True)
    assert not [event for event in worker.events.since(0) if event.type == "worker_exit"]
    await lead.stop()


# --- Lifecycle -------------------------------------------------------------------------------------------------------


@states("idle, streaming, executing_tools, idle")
async def _lifecycle(_: Path) -> None:
    states_seen: list[str] = []

    async def look() -> str:
        """Look at the agent."""
        states_seen.append(one.status)
        return "seen"

    model = scripted_model([Reply("One two three.", calls=call("look").calls), "Done."], pace=0.01)
    async with Agent(model=model, tools=[look]) as one:
        states_seen.append(one.status)
        async for event in one.prompt("go"):
            states_seen += [one.status] if event.type == "text_delta" else []
        states_seen.append(one.status)
    assert list(dict.fromkeys(states_seen)) == ["idle", "streaming", "executing_tools"]
    assert states_seen[-1] == "idle"


@states("tools of a reply are executed concurrently")
async def _concurrently(_: Path) -> None:
    both = asyncio.Barrier(2)

    async def meet() -> str:
        """Wait for the other call."""
        await both.wait()
        return "met"

    async with agent(calls(("meet", {}), ("meet", {})), "Done.", tools=[meet]) as one, asyncio.timeout(30):
        await one.prompt("go")
        assert results(one) == ["met", "met"]


@states("abort/1 returns the agent to idle, also while tools run")
async def _abort(_: Path) -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        """Wait."""
        begun.set()
        await asyncio.sleep(600)

    async with agent(call("wait"), "Later.", tools=[wait]) as one:
        run = one.prompt("go")
        await begun.wait()
        await one.abort()
        assert (await run.wait()).aborted
        assert one.status == "idle"


@states("stop/1 shuts it down")
async def _stop(_: Path) -> None:
    one = agent()
    await one.stop()
    with pytest.raises(Exception, match="stopped"):
        await one.prompt("go")


# --- Roles and teams -------------------------------------------------------------------------------------------------


def team(*script: Any, worker: Any = (), **options: Any) -> tuple[Agent, Agent]:
    lead = agent(*script, name="Lead", team_id="t", tools=orchestrator_tools(**options))
    return lead, agent(*worker, name="Ben", type="builder", team_id="t", tools=worker_tools())


@states("an agent with a tool named spawn_agent is the orchestrator, one without is a worker")
async def _roles(_: Path) -> None:
    lead, worker = team()
    assert (lead.role, worker.role) == ("orchestrator", "worker")
    await lead.stop()


@states("the entire team is terminated when the orchestrator exits")
async def _terminated(_: Path) -> None:
    lead, worker = team()
    await lead.stop()
    with pytest.raises(Exception, match="stopped"):
        await worker.prompt("go")


@states("all agents have ask_agent, delegate_task, send_response and list_team")
def _worker_tools(_: Path) -> None:
    assert [tool.name for tool in worker_tools()] == ["ask_agent", "delegate_task", "send_response", "list_team"]


@states("the orchestrator also has spawn_agent, destroy_agent, interrupt_agent and list_models")
def _orchestrator_tools(_: Path) -> None:
    names = [tool.name for tool in orchestrator_tools()]
    assert names[4:] == ["spawn_agent", "destroy_agent", "interrupt_agent", "list_models"]


@states("ask_agent waits for turn_end and gives the answer")
async def _ask(_: Path) -> None:
    lead, _worker = team(call("ask_agent", agent_id="Ben", question="?"), "{result}", worker=["42"])
    assert (await lead.prompt("go")).text == "42"
    await lead.stop()


@states("delegate_task returns immediately, and send_response routes the result back to the delegator")
async def _delegate(_: Path) -> None:
    script = [call("delegate_task", agent_id="Ben", task="Build."), "I wait.", "Thanks."]
    lead, _worker = team(*script, worker=[call("send_response", response="Built."), "Done."])
    await lead.prompt("go")
    async with asyncio.timeout(30):
        async for event in lead.subscribe(since=0):
            if event.type == "turn_end" and event.message.text == "Thanks.":
                break
    assert "Task sent" in results(lead)[0]
    assert any("Built." in entry.message.text for entry in lead.state.messages if entry.message.type == "user")
    await lead.stop()


@states("list_team returns type, name, status and turn index")
async def _list_team(_: Path) -> None:
    lead, _worker = team(call("list_team"), "Done.")
    await lead.prompt("go")
    [_, ben] = json.loads(results(lead)[0])
    assert (ben["type"], ben["name"], ben["status"]) == ("builder", "Ben", "idle")
    assert isinstance(ben["turn_index"], int)
    await lead.stop()


async def spawned(folder: Path, tools: list[str]) -> tuple[list[Tool], str]:
    """The tools of a worker that is spawned with these names, and what the model was told."""
    spawn = call("spawn_agent", type="reviewer", name="Reviewer", system_prompt="Review.", tools=tools)
    session = Session.create(folder / "sessions")
    tools_of_lead = orchestrator_tools(grantable_tools=[BuiltinTools.read()])
    async with agent(spawn, "Done.", name="Lead", team_id="t", tools=tools_of_lead, session=session) as lead:
        await lead.prompt("go")
        [worker] = [member for member in lead._team or () if member is not lead]
        assert (worker.team_id, worker._session) == ("t", session)
        found = list(worker.tools)
    session.close()
    return found, results(lead)[0]


@states("spawn_agent makes a worker under the same team_id and session_id, with the granted tools on top")
async def _spawn(folder: Path) -> None:
    tools, _ = await spawned(folder, ["read"])
    assert {tool.name for tool in tools} == {"ask_agent", "delegate_task", "send_response", "list_team", "read"}


@states("workers cannot escalate beyond what the orchestrator was given")
async def _no_escalation(folder: Path) -> None:
    tools, _ = await spawned(folder, ["read", "bash"])
    assert "bash" not in {tool.name for tool in tools}


@states("destroy_agent terminates a worker, interrupt_agent aborts its turn and it stays alive")
async def _destroy(_: Path) -> None:
    script = [
        call("interrupt_agent", agent_id="Ben"),
        call("destroy_agent", agent_id="Ben"),
        call("list_team"),
        "Done.",
    ]
    lead, _worker = team(*script)
    await lead.prompt("go")
    assert results(lead)[:2] == ["Agent interrupted.", "Agent destroyed."]
    assert [member["name"] for member in json.loads(results(lead)[2])] == ["Lead"]
    await lead.stop()


@states("list_models returns the available_models passed at start time")
async def _list_models(_: Path) -> None:
    lead, _worker = team(call("list_models"), "Done.", available_models=[ai.get_model("anthropic", "claude-haiku-4-5")])
    await lead.prompt("go")
    assert "claude-haiku-4-5" in results(lead)[0]
    await lead.stop()


# --- Built-in tools --------------------------------------------------------------------------------------------------


@states("read: offset skips lines, limit is the most lines")
async def _read(folder: Path) -> None:
    (folder / "a").write_text("1\n2\n3\n")
    assert (await BuiltinTools.read(cwd=folder).run({"path": "a", "offset": 1, "limit": 1})).text == "2\n"


@states("write creates missing parent directories")
async def _write(folder: Path) -> None:
    await BuiltinTools.write(cwd=folder).run({"path": "new/a", "content": "x"})
    assert (folder / "new/a").read_text() == "x"


@states("edit replaces an exact unique string, and fails if it is not found or ambiguous")
async def _edit(folder: Path) -> None:
    (folder / "a").write_text("one two two")
    edit = BuiltinTools.edit(cwd=folder)
    await edit.run({"path": "a", "old_string": "one", "new_string": "1"})
    for old in ("none", "two"):
        with pytest.raises(ToolError, match=r"not found|more than once"):
            await edit.run({"path": "a", "old_string": old, "new_string": "x"})
    assert (folder / "a").read_text() == "1 two two"


@states("bash: cwd and timeout (ms), and stderr under STDERR:")
async def _bash(folder: Path) -> None:
    (folder / "inner").mkdir()
    output = await BuiltinTools.bash(cwd=folder).run({"command": "pwd; echo no >&2", "cwd": "inner", "timeout": 20_000})
    assert output.text.splitlines()[0] == str(folder / "inner")
    assert "STDERR:\nno" in output.text


# --- Sessions --------------------------------------------------------------------------------------------------------

SESSION = "00ff00ff00ff00ff"


def said(message: Message) -> str:
    """The text of a message that is not a result."""
    assert message.type != "tool_result"
    return message.text


async def stored(folder: Path) -> Session:
    """A session with two agents that have answered a prompt each."""
    session = Session.start(SESSION, name="my-session", directory=folder)
    for name in ("a", "b"):
        async with agent(f"I am {name}.", id=name, session=session) as one:
            await one.prompt(f"Who are you, {name}?")
    return session


@states("Session.start(session_id, name:, dir:); files begin with <id>_<name>")
async def _session(folder: Path) -> None:
    with await stored(folder) as session:
        assert (session.id, session.path.name) == (SESSION, f"{SESSION}_my-session.journal.jsonl")
    assert (folder / f"{SESSION}_my-session.duckdb").exists()


@states("agents append every message automatically, and the row id is the id of the message")
async def _append(folder: Path) -> None:
    with await stored(folder) as session:
        async with agent("Again.", id="c", session=session) as one:
            await one.prompt("go")
            ids = [entry.id for entry in one.state.messages]
        assert [row.db_id for row in session.messages("c")] == ids


@states("messages/1 in insertion order, also of one agent")
async def _messages(folder: Path) -> None:
    with await stored(folder) as session:
        texts = [said(row.message) for row in session.messages()]
        assert texts == ["Who are you, a?", "I am a.", "Who are you, b?", "I am b."]
        [first, _] = session.messages(agent_id="b")
        assert (first.agent_id, said(first.message)) == ("b", "Who are you, b?")


@states("messages_from_latest_checkpoint and messages_before_checkpoint page by summaries")
async def _pages(folder: Path) -> None:
    with await stored(folder) as session:
        await session.append("a", SummaryMessage("Two said who they are.", []))
        async with agent("More.", id="a", session=session) as one:
            await one.prompt("And?")
        latest = session.messages_from_latest_checkpoint()
        assert said(latest.rows[0].message) == "Two said who they are."
        assert latest.checkpoint_id is not None
        before = session.messages_before_checkpoint(latest.checkpoint_id)
        assert (len(before.rows), before.checkpoint_id) == (4, None)


@states("rewind_to_message truncates to strictly before the message; a no-op for ephemeral agents")
async def _rewind(folder: Path) -> None:
    with Session.create(folder) as session:
        async with agent("One.", "Two.", session=session) as one:
            await one.prompt("1")
            await one.prompt("2")
            third = one.state.messages[2].id
            await one.rewind_to_message(third)
            assert [said(row.message) for row in session.messages()] == ["1", "One."]
            assert len(one.state.messages) == 2
    async with agent() as other:
        await other.rewind_to_message(1)


# --- Compaction ------------------------------------------------------------------------------------------------------


@states("Compactor.build(model, ratio: 0.8, keep_recent: 10)")
def _compactor(_: Path) -> None:
    assert isinstance(Compactor.build("demo:demo", ratio=0.8, keep_recent=10), Compactor)


@states("on_compact gets the messages since the last summary, and returns a summary with the kept messages or skips")
async def _hook(_: Path) -> None:
    given: list[list[str]] = []

    def on_compact(messages: list[Any]) -> Compact | None:
        given.append([message.text for message in messages])
        return Compact("So far.", messages[-1:]) if len(messages) == 3 else None

    async with agent("One.", "Two.", "Three.", on_compact=on_compact) as one:
        for text in "123":
            await one.prompt(text)
        kinds = [entry.message.type for entry in one.state.messages]
    assert given[:2] == [["1"], ["1", "One.", "2"]]
    assert given[2][:2] == ["So far.", "2"]
    assert "summary" in kinds
    assert kinds.count("user") == 3, "the full history stays"


@states("a compactor of a sidecar falls back to the built-in one")
def _fallback(_: Path) -> None:
    async def remote(_messages: list[Any]) -> Compact | None:
        raise ConnectionError

    assert Compactor.build(first=remote).compacts_ahead


# --- Templates -------------------------------------------------------------------------------------------------------

MEMBERS = [
    {
        "type": "planner",
        "name": "Planner",
        "description": "Breaks tasks into steps",
        "provider": "anthropic",
        "model_id": "claude-sonnet-4-6",
        "system_prompt": "You are an expert planner.",
        "opts": {"temperature": 0.5},
    },
    {
        "type": "coder",
        "name": "Coder",
        "description": "Writes and edits code",
        "provider": "ollama",
        "model_id": "llama3.2",
        "system_prompt": "prompts/coder.md",
    },
]


def template(folder: Path) -> Path:
    (folder / "my-team" / "prompts").mkdir(parents=True)
    (folder / "my-team" / "prompts" / "coder.md").write_text("You code.")
    (folder / "my-team" / "TEAM.json").write_text(json.dumps(MEMBERS))
    return folder / "my-team"


@states("a template is a list of members, whose system_prompt may be a path beside it")
def _template(folder: Path) -> None:
    planner, coder = AgentSpec.from_list(MEMBERS, template(folder))
    assert (planner.type, planner.name, planner.opts) == ("planner", "Planner", {"temperature": 0.5})
    assert (coder.provider, coder.model_id, coder.system_prompt) == ("ollama", "llama3.2", "You code.")


@states("valid providers are anthropic, openai, google, ollama and llama_cpp")
def _providers(_: Path) -> None:
    assert {"anthropic", "openai", "google", "ollama", "llama_cpp"} <= set(ai.list_providers())


@states("names of tools are resolved from tool_pool, unknown ones are ignored")
def _pool(folder: Path) -> None:
    pool = BuiltinTools.all() + ExternalTool.load_all([external(folder).parents[1]])
    spec = AgentSpec("coder", "demo", "demo", tools=["read", "write", "bash", "check_complexity", "none"])
    options = spec.to_start_opts(tool_pool=pool, team_id="t", session=None)
    assert [tool.name for tool in options["tools"]] == ["read", "write", "bash", "check_complexity"]


@states("without names in the description, to_start_opts uses the keyword tools:")
def _tools_keyword(_: Path) -> None:
    assert AgentSpec("coder", "demo", "demo").to_start_opts(tools=[read_file()])["tools"][0].name == "read_file"


@states("the last listing: Team.load, tools by type, to_start_opts, and the planner owns its team")
async def _listing(folder: Path) -> None:
    loaded = Team.load(template(folder))
    given = {tool.name: tool for tool in orchestrator_tools()}
    tools_by_type = {
        "planner": [given["list_team"], given["delegate_task"], given["spawn_agent"]],
        "coder": [read_file(), *BuiltinTools.all(), given["send_response"]],
    }
    started: list[Agent] = []
    with Session.start(SESSION, name="listing", directory=folder / "sessions") as session:
        for spec in loaded.members:
            model = scripted_model([call("spawn_agent", type="tester", system_prompt="Test."), "Done."])
            options = spec.to_start_opts(
                tools=tools_by_type[spec.type],
                team_id="t",
                session=session,
                on_compact=Compactor.build(model),
            )
            started.append(Agent(**{**options, "model": model}))
        planner, coder = started
        assert (planner.role, coder.role) == ("orchestrator", "worker")
        await planner.prompt("Plan.")
        assert "Error" not in results(planner)[0]
        await planner.stop()
        with pytest.raises(Exception, match="stopped"):
            await coder.prompt("go")


# --- Skills and tools ------------------------------------------------------------------------------------------------


def skill(folder: Path) -> Path:
    place = folder / "skills" / "code_review"
    (place / "resources").mkdir(parents=True)
    (place / "resources" / "rubric.md").write_text("Be kind.")
    front = "---\nname: code_review\ndescription: Reviews code for correctness, style, and performance.\n---\n"
    (place / "SKILL.md").write_text(f"{front}Review the provided code…")
    return place


@states("Skill.load_all(dirs) reads SKILL.md with its front matter")
def _skills(folder: Path) -> None:
    [found] = load_all([skill(folder).parent]).skills.values()
    assert (found.name, found.description.split()[0]) == ("code_review", "Reviews")


@states("a skill's entry has the path of its SKILL.md and its resources")
def _skill_entry(folder: Path) -> None:
    place = skill(folder)
    text = system_prompt_section(load_all([place.parent]).skills)
    assert str(place / "SKILL.md") in text
    assert str(place) in text


@states("skills are scoped to an agent by spec.skills and skill_pool:")
def _skill_pool(folder: Path) -> None:
    pool = SkillPool([skill(folder).parent])
    options = AgentSpec("coder", "demo", "demo", skills=["code_review"]).to_start_opts(skill_pool=pool)
    assert "code_review" in options["prompt_parts"]().skills
    assert "code_review" not in AgentSpec("a", "demo", "demo").to_start_opts(skill_pool=pool)["prompt_parts"]().skills


@states("add_tool and remove_tool work without a restart")
async def _dynamic(_: Path) -> None:
    async with agent(call("read_file", path="/none"), "Done.", call("read_file", path="/none"), "Done.") as one:
        one.add_tool(read_file())
        await one.prompt("go")
        one.remove_tool("read_file")
        await one.prompt("go")
        assert results(one)[0].startswith("Error: could not read")
        assert "could not read" not in results(one)[1]


@states("there is no runtime configuration: functions get their paths")
def _no_configuration(folder: Path) -> None:
    assert not list(ExternalTool.load_all([folder / "none"]))
    assert not load_all([folder / "none"]).skills
    assert events.TRANSIENT


# --- The tests -------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is also one of installed packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    forget_discovered()
    yield tmp_path
    forget_discovered()
    sys.modules.pop("stated_sidecar", None)


@pytest.mark.process
@pytest.mark.parametrize("statement", STATEMENTS)
async def test_it_is_as_stated(statement: str, folder: Path) -> None:
    outcome = STATEMENTS[statement](folder)
    if outcome is not None:
        await outcome


def test_the_others_have_a_reason() -> None:
    assert all(reason.endswith(".") for reason in DIFFERENT.values())
    assert not DIFFERENT.keys() & STATEMENTS.keys()
    assert len(STATEMENTS) + len(DIFFERENT) > 61
