"""What users of 0.1.0 have still works: their files, their settings, their programs, and what their models are told.

The files, and what 0.1.0 saw in them, are in `tests/fixtures/v0_1_0`; `record.py` there tells how they were made.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import duckdb
import httpx
import nbformat
import pytest
from fixtures.v0_1_0 import observing
from fixtures.v0_1_0.observing import notebook_function
from fixtures.v0_1_0.scenarios import (
    SCENARIOS,
    Stage,
    cassette,
    elsewhere,
    everything,
    model_of,
    run_cells,
    run_notebook,
    sent,
    told,
    write,
)

from planck_nb import Config, Limits, PlanckError, Rule, Session, Workspace, ai
from planck_nb.sessions import VIEWS, compact_store, import_session, list_sessions, query
from planck_nb.testing import Call, Reply, scripted_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
"""A name of then may say what it is called now."""

FIXTURES = Path(__file__).parents[1] / "fixtures/v0_1_0"
NOWHERE = "http://127.0.0.1:9/v1"


def golden(name: str) -> Any:
    """What 0.1.0 saw."""
    return json.loads((FIXTURES / f"golden/{name}.json").read_text(encoding="utf-8"))


SESSIONS = sorted(session["name"] for session in golden("sessions"))
OF_PROGRAMS = {"archive", "closed", "cut-off", "journal-only", "orders", "orders-copy"}
[OF_NOTEBOOK] = set(SESSIONS) - OF_PROGRAMS


def missing(before: Any, now: Any, where: str = "") -> Iterator[str]:
    """Where `now` is not as it was `before`. An object may have more keys than before."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name, value in before.items():
            if name in now:
                yield from missing(value, now[name], f"{where}/{name}")
            else:
                yield f"{where}/{name} is gone"
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from missing(one, other, f"{where}/{number}")
    elif before != now:
        yield f"{where}: {before!r} is {now!r}"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The sessions of 0.1.0."""
    return observing.unpack(FIXTURES, tmp_path / "sessions")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder for agents to work in."""
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    return folder


@asynccontextmanager
async def resumed(directory: Path, root: Path, name: str) -> AsyncIterator[Workspace]:
    """A workspace that goes on with a session."""
    async with observing.workspace(directory, root) as workspace:
        assert await workspace.resume(name, find=notebook_function, trust=True) == []
        yield workspace


def texts(directory: Path, name: str) -> list[str]:
    """What users and models said in a session."""
    with Session.read(directory, name) as session:
        return [row.message.text for row in session.messages() if row.message.type != "tool_result"]


# Sessions.


@pytest.mark.parametrize(
    "look",
    [
        observing.sessions,
        observing.conversations,
        observing.chapters,
        observing.events,
        observing.beside,
        observing.views,
        observing.hits,
    ],
    ids=lambda look: look.__name__,
)
def test_what_is_stored_is_read_as_it_was(look: Callable[[Path], Any], directory: Path) -> None:
    assert list(missing(golden(look.__name__), look(directory))) == []


def test_every_view_of_then_is_there_with_rows() -> None:
    assert set(observing.ORDERS) <= set(VIEWS)
    assert all(golden("views").values())


def test_every_kind_of_event_was_recorded() -> None:
    kinds = {event["type"] for events in golden("events").values() for event in events}
    assert kinds == set(
        "agent_started agent_changed agent_stopped queued unqueued steered turn_start usage_delta tool_start tool_end "
        "approval_request approval_decision compacting compacted limit_reached fallback rewound retry warning turn_end "
        "aborted error".split()
    )


def test_what_is_stored_is_read_from_journals_alone(directory: Path) -> None:
    for database in directory.glob("*.duckdb"):
        database.unlink()
    assert list(missing(golden("views"), observing.views(directory))) == []
    assert list(missing(golden("chapters"), observing.chapters(directory))) == []


def test_what_is_stored_is_read_after_compaction(directory: Path) -> None:
    compact_store(directory)
    assert list(missing(golden("conversations"), observing.conversations(directory))) == []
    assert list(missing(golden("views"), observing.views(directory))) == []


@pytest.mark.parametrize("name", SESSIONS)
async def test_a_session_is_resumed_with_its_agents_rules_and_changes(name: str, directory: Path, root: Path) -> None:
    info = next(info for info in list_sessions(directory) if info.name == name)
    found = await observing.resumed(directory, root, info, trust=True)
    allowed = [text for action, text in found["rules"] if action == "allow"]
    assert all(text.startswith("agent_id=") for text in allowed)
    found["rules"] = list(map(list, dict.fromkeys((action, without_agent(text)) for action, text in found["rules"])))
    assert list(missing(golden("resumed")[name], found)) == []


@pytest.mark.parametrize("name", SESSIONS)
async def test_a_session_is_resumed_without_what_it_was_given_unless_it_is_trusted(
    name: str, directory: Path, root: Path
) -> None:
    """0.1.0 signed nothing, so its sessions may be of any hand."""
    async with observing.workspace(directory, root) as workspace:
        configured = workspace.policy().rules
        problems = await workspace.resume(name, find=notebook_function)
        agents = list(workspace.agents.values())
        assert set(golden("resumed")[name]["agents"]) == {agent.name for agent in agents}
        added = [rule for rule in workspace.approvals.policy.rules if rule not in configured]
        assert [rule for rule in added if rule.action == "allow"] == []
        assert not any(agent.options.extra for agent in agents)
        assert {tool.name for agent in agents for tool in agent.tools} <= set(workspace.toolbox.tools())
        assert all("not written by you" in problem for problem in problems)


@pytest.mark.parametrize("name", SESSIONS)
async def test_a_session_goes_on(name: str, directory: Path, root: Path) -> None:
    before = texts(directory, name)
    async with resumed(directory, root, name) as workspace:
        agents = list(workspace.agents.values())
        for agent in agents:
            agent.model = ai.get_model("demo")
            able = "convert" in {tool.name for tool in agent.tools}
            turn = agent.state.turn
            result = await agent.prompt("convert 100 dollars" if able else "Who are you?")
            assert ("`convert` returned `92.0`" if able else "I am the demo model") in result.text
            assert agent.state.turn == turn + 1
    after = texts(directory, name)
    assert after[: len(before)] == before
    assert len(after) >= len(before) + 2 * len(agents)
    frame = query(directory, f"SELECT outcome FROM turns WHERE session_name = '{name}' ORDER BY started DESC LIMIT 1")
    assert list(frame.outcome) == ["turn_end"]


async def test_a_session_that_was_killed_tells_its_agent_once(directory: Path, root: Path) -> None:
    for _ in range(2):
        async with resumed(directory, root, "cut-off") as workspace:
            said = [
                entry.message.text for entry in workspace.agent("ann").state.messages if entry.message.type == "user"
            ]
        assert [text.startswith("Session resumed after interruption.") for text in said] == [False, False, True]


async def test_rules_that_were_remembered_count(directory: Path, root: Path) -> None:
    async with resumed(directory, root, "orders") as workspace:
        workspace.approvals.patience = 0.01
        agent = workspace.agent("ann")
        calls = [
            Call("write", {"path": "src/new.py", "content": "units = 1\n"}),
            Call("bash", {"command": "ls src"}),
            Call("bash", {"command": "echo hello"}),
            Call("bash", {"command": "rm src/new.py"}),
            Call("write", {"path": "elsewhere.py", "content": ""}),
            Call("bash", {"command": "ls -l src"}),
        ]
        spoken = sum(message.type == "assistant" for message in agent.request().messages)
        agent.model = scripted_model([*["…"] * spoken, *(Reply(calls=[call]) for call in calls), "done"])
        run = agent.prompt("Go on.")
        events = [event async for event in run if event.type == "approval_decision"]
        decided = [(event.allowed, event.by, without_agent(event.rule)) for event in events]
        await run
    assert decided == [
        (True, "rule", "write:./src/**"),
        (True, "rule", "execute@bash:ls src"),
        (True, "rule", "bash:echo *"),
        (False, "rule", "bash:rm *"),
        (False, "nobody", ""),
        (False, "nobody", ""),
    ]
    assert (root / "src/new.py").exists()


async def test_a_session_is_rewound_and_returned_to(directory: Path, root: Path) -> None:
    async with resumed(directory, root, "orders") as workspace:
        told_before = [entry.id for entry in workspace.agent("ann").state.messages]
        old = workspace.session.branches()
        assert [branch.last_text for branch in old] == ["By ship, 30 euros.", "By train, 40 euros."]
        await workspace.return_to(old[1].id, find=notebook_function)
        assert told([workspace.agent("ann").state.messages[-1].message])[0]["text"] == "By train, 40 euros."
        newest = workspace.session.branches()[-1]
        await workspace.return_to(newest.id, find=notebook_function)
        assert [entry.id for entry in workspace.agent("ann").state.messages] == told_before
        await workspace.rewind(told_before[0], find=notebook_function)
        assert workspace.agent("ann").state.messages[-1].id < told_before[0]
        assert workspace.session.branches()[-1].messages > 0


async def test_a_session_is_forked(directory: Path, root: Path) -> None:
    async with resumed(directory, root, "orders") as workspace:
        state = workspace.agent("ann").state
        parent = workspace.session.id
        assert await workspace.fork("again", find=notebook_function) == []
        agent = workspace.agent("ann")
        assert (agent.state.messages, agent.state.usage, agent.state.turn) == (state.messages, state.usage, state.turn)
        rules = {without_agent(str(rule)) for rule in workspace.approvals.policy.rules if rule.agent_ids}
        assert "write:./src/**" in rules
        await agent.prompt("Who are you?")
    frame = query(directory, "SELECT parent FROM sessions WHERE session_name = 'again'")
    assert list(frame.parent) == [parent]


def move_changes(directory: Path, root: Path) -> None:
    """Have the files that the agents of then changed in another folder."""
    [index] = directory.glob("*_orders.changes/changes.jsonl")
    index.write_text(index.read_text(encoding="utf-8").replace("/home/ada/orders", str(root)), encoding="utf-8")


async def test_changes_of_files_are_still_known_and_undone(directory: Path, root: Path) -> None:
    move_changes(directory, root)
    write(root / "src/report.py", "units = 49\n")
    write(root / "src/other.py", "units = 7\n")
    async with resumed(directory, root, "orders") as workspace:
        known = {(change.tool, change.path.name): change for change in workspace.changes}
        assert set(known) == {("write", "report.py"), ("edit", "report.py"), ("write", "other.py")}
        workspace.changes.undo(known["edit", "report.py"])
        assert (root / "src/report.py").read_text(encoding="utf-8") == "units = 42\n"
        workspace.changes.undo(known["write", "report.py"].number)
        assert not (root / "src/report.py").exists()


def test_other_tools_find_the_columns_of_then(directory: Path, tmp_path: Path) -> None:
    def columns(file: Path) -> dict[str, dict[str, str]]:
        with duckdb.connect(str(file), read_only=True) as connection:
            rows = connection.execute(
                "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
            ).fetchall()
        found: dict[str, dict[str, str]] = {}
        for table, column, kind in rows:
            found.setdefault(table, {})[column] = kind
        return found

    [then] = directory.glob("*_closed.duckdb")
    Session.create(tmp_path / "fresh", name="now").close()
    [now] = (tmp_path / "fresh").glob("*.duckdb")
    assert list(missing(columns(then), columns(now))) == []


CONVERT = "def convert(amount: float, rate: float = 0.92) -> float:\n    'Convert dollars.'\n    return amount * rate"


def test_the_magics_go_on_with_a_session(directory: Path, root: Path) -> None:
    environment = {**os.environ, "PLANCK_NB_SESSIONS_DIR": str(directory), "PLANCK_NB_MODEL": "demo"}
    cells = [
        "%load_ext planck_nb",
        CONVERT,
        f"%planck resume {OF_NOTEBOOK} --trust",
        "sessions = %planck sessions\nprint(*sorted(sessions.session))",
        "hits = %planck search euros\nprint(len(hits) > 0)",
        "answer = %planck -q -a planck convert 100 dollars\nprint(answer.text)",
        "agents = %planck agents\nprint(*agents.agent)",
    ]
    shown = run_cells(root, environment, cells)
    printed = [output["text"].strip() for output in shown if "stream" in output]
    assert printed == [" ".join(SESSIONS), "True", "`convert` returned `92.0`.", "planck writer"]


# Exports.


def test_an_export_is_imported(tmp_path: Path) -> None:
    info = import_session(tmp_path / "sessions", FIXTURES / "exports/orders.jsonl")
    assert info.name == "orders"
    found = observing.conversations(tmp_path / "sessions")["orders"]
    assert list(missing(golden("conversations")["orders"], found)) == []
    events = observing.events(tmp_path / "sessions")["orders"]
    assert [event["type"] for event in events] == [event["type"] for event in golden("events")["orders"]]


async def test_what_was_imported_goes_on(tmp_path: Path, root: Path) -> None:
    import_session(tmp_path / "sessions", FIXTURES / "exports/orders.jsonl", name="imported")
    async with resumed(tmp_path / "sessions", root, "imported") as workspace:
        before = golden("resumed")["orders"]["agents"]["ann"]
        agent = workspace.agent("ann")
        assert [entry.id for entry in agent.state.messages] == [row_id for row_id, _ in before["messages"]]
        result = await agent.prompt("convert 100 dollars")
        assert "`92.0`" in result.text


@pytest.mark.parametrize(
    ("form", "file"),
    [("markdown", "exports/orders.md"), ("html", "exports/orders.html"), ("ipynb", "notebooks/orders.ipynb")],
)
def test_an_export_for_readers_is_the_same(form: Any, file: str, directory: Path) -> None:
    with Session.read(directory, "orders") as session:
        exported = session.export(form)
    assert _without_additions(form, exported) == (FIXTURES / file).read_text(encoding="utf-8")


def _without_additions(form: str, exported: str) -> str:
    """The export without what later versions add: a content security policy, and outputs in more formats."""
    if form != "ipynb":
        return re.sub(r"<meta http-equiv=[^>]*>", "", exported)
    notebook = json.loads(exported)
    for output in (output for cell in notebook["cells"] for output in cell.get("outputs", ())):
        del output["data"]["text/html"], output["data"]["text/plain"]
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def test_a_whole_export_has_the_same_rows(directory: Path) -> None:
    with Session.read(directory, "orders") as session:
        now = [json.loads(line) for line in session.export("jsonl").splitlines()]
    then = [json.loads(line) for line in (FIXTURES / "exports/orders.jsonl").read_text(encoding="utf-8").splitlines()]
    assert list(missing(then, now)) == []


# Notebooks.


@pytest.mark.parametrize("name", ["units", "orders"])
def test_a_saved_notebook_is_valid(name: str) -> None:
    notebook = nbformat.read(FIXTURES / f"notebooks/{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert any(cell.get("outputs") for cell in notebook.cells)


@pytest.mark.timeout(180)
def test_a_saved_notebook_shows_the_same_again(tmp_path: Path) -> None:
    """The same texts: the HTML has changed since, and arguments that the difference to a file shows are left out."""
    copy = shutil.copy(FIXTURES / "notebooks/units.ipynb", tmp_path)
    notebook = nbformat.read(copy, as_version=4)
    for cell in notebook.cells:  # what an agent gets is printed now
        if cell.cell_type == "code" and "@convert" in cell.source:
            cell.outputs.insert(0, nbformat.v4.new_output("stream", name="stdout", text="With: convert()\n"))
    # A prompt without a name went to the agent that was prompted last; now it goes to the default agent.
    place = next(index for index, cell in enumerate(notebook.cells) if cell.source.startswith("%%planck writer"))
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell("%%capture\n%planck use writer"))
    place = next(index for index, cell in enumerate(notebook.cells) if cell.source.startswith("%planck agents"))
    notebook.cells.insert(place, nbformat.v4.new_code_cell("%%capture\n%planck use planck"))
    nbformat.write(notebook, copy)
    look = tmp_path / "look.cfg"
    look.write_text(
        "[html]\nregex: (?s)<div .*</div>\nreplace: HTML\n\n"
        "[edited]\nregex: (?s)`(?:old|new)_string`\\s*```text\\n.*?\\n\\s*```\\s*\nreplace: \n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--nbval", str(copy)]
    command += ["--nbval-sanitize-with", str(look)]
    environment = {**os.environ, "PLANCK_NB_DEMO_PACE": "0"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5_000:]


# What models are told. A replay is strict, so each of these says that no word of it has changed.


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_recorded_program_is_replayed(name: str, root: Path) -> None:
    scenario = SCENARIOS[name]
    tape = cassette(FIXTURES / f"cassettes/{name}.jsonl", "replay", scenario, root)
    async with ai.Client(credentials={}, cassette=tape) as client:
        found = told(await scenario.play(Stage(root, client, model_of(scenario.provider, NOWHERE))))
    assert list(missing(golden("cassettes")[name], elsewhere(root)({"said": found})["said"])) == []


def test_a_recorded_notebook_is_replayed(root: Path) -> None:
    tape = {"PLANCK_NB_CASSETTE": str(FIXTURES / "cassettes/notebook.jsonl"), "PLANCK_NB_CASSETTE_MODE": "replay"}
    shown = run_notebook(root, {**os.environ, **tape}, NOWHERE)
    assert shown.pop(0) == {"stream": "stdout", "text": "With: rates (dict of 2), convert()\n"}
    assert shown == golden("notebook_cassette")


async def test_an_agent_is_told_the_same_as_then(root: Path) -> None:
    workspace, agent = everything(root)
    found = elsewhere(root)(sent(agent.request()))
    await workspace.close()
    before = golden("request")
    assert found["system"] == before["system"]
    assert found["tools"] == before["tools"]


# Settings.

SETTINGS: Mapping[str, tuple[str, Callable[[Config, Path], object]]] = {
    "PLANCK_NB_SESSIONS_DIR": ("kept", lambda config, folder: config.sessions_dir == folder / "kept"),
    "PLANCK_NB_MODEL": ("demo:demo", lambda config, _: config.default_model == "demo:demo"),
    "PLANCK_NB_FALLBACKS": (
        "demo, anthropic:claude-sonnet-4-6",
        lambda config, _: config.fallbacks == ("demo", "anthropic:claude-sonnet-4-6"),
    ),
    "PLANCK_NB_LIMITS": (
        "rounds=3, tokens=10 cost=0.5,seconds=none,session_tokens=9,session_cost=none",
        lambda config, _: (
            config.limits == Limits(rounds=3, tokens=10, cost=0.5, seconds=None, session_tokens=9, session_cost=None)
        ),
    ),
    "PLANCK_NB_ALLOW": (
        "read, bash:git status",
        lambda config, _: config.rules == (Rule("allow", kind="read"), Rule("allow", "bash", pattern="git status")),
    ),
    "PLANCK_NB_ASK": ("edit", lambda config, _: config.rules == (Rule("ask", "edit"),)),
    "PLANCK_NB_DENY": (
        "network:*.example.com",
        lambda config, _: config.rules == (Rule("deny", kind="network", pattern="*.example.com"),),
    ),
    "PLANCK_NB_APPROVAL_DEADLINE": ("2.5", lambda config, _: config.approval_deadline == 2.5),
    "PLANCK_NB_COMPACT_RATIO": ("0.5", lambda config, _: config.compact_ratio == 0.5),
    "PLANCK_NB_SKILLS_DIRS": (
        f"one{os.pathsep}two",
        lambda config, folder: config.skills_dirs == (folder / "one", folder / "two"),
    ),
    "PLANCK_NB_TOOLS_DIRS": ("three", lambda config, folder: config.tools_dirs == (folder / "three",)),
    "PLANCK_NB_DEMO_PACE": ("0.1", lambda config, _: config.demo_pace == 0.1),
    "PLANCK_NB_CASSETTE": ("tape.jsonl", lambda config, folder: config.cassette == folder / "tape.jsonl"),
    "PLANCK_NB_CASSETTE_MODE": ("replay", lambda config, _: config.cassette_mode == "replay"),
    "PLANCK_NB_MODELS_FILE": ("mine.json", lambda config, folder: config.models_file == folder / "mine.json"),
}


@pytest.mark.parametrize("variable", SETTINGS)
def test_a_variable_of_the_environment_sets_what_it_set(variable: str, tmp_path: Path) -> None:
    text, holds = SETTINGS[variable]
    assert holds(Config.load(environment={variable: text}, directory=tmp_path), tmp_path)
    assert not holds(Config.load(environment={}, directory=tmp_path), tmp_path)


def test_the_table_of_settings_has_every_variable(root: Path) -> None:
    cells = ["%load_ext planck_nb", "config = %planck config\nprint(*config.variable)"]
    [shown] = run_cells(root, os.environ, cells)
    assert set(SETTINGS) - {"PLANCK_NB_LIMITS"} <= set(shown["text"].split())


@pytest.mark.parametrize("form", ["json", "toml"])
def test_a_file_of_models_means_the_same(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANCK_NB_TRUST", "1")
    found = observing.own_models(FIXTURES / f"settings/models.{form}", str(tmp_path))
    assert list(missing(without_known(golden(f"models_{form}")), without_known(found))) == []


def without_known(value: Any) -> Any:
    """The value with its texts cut before the list of known names, to which new providers and keys are added."""
    if isinstance(value, str):
        return value.partition("Known are:")[0]
    if isinstance(value, dict):
        return {key: without_known(item) for key, item in value.items()}
    return [without_known(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize(
    ("variable", "model"),
    [
        ("ANTHROPIC_API_KEY", ai.get_model("anthropic", "claude-sonnet-4-6")),
        ("OPENAI_API_KEY", ai.get_model("openai", "gpt-5.4")),
        ("GOOGLE_API_KEY", ai.get_model("google", "gemini-3.8-flash")),
        ("GEMINI_API_KEY", ai.get_model("google", "gemini-3.8-flash")),
        ("OLLAMA_API_KEY", ai.get_model("ollama", "some-model")),
        ("LLAMA_CPP_API_KEY", ai.get_model("llama_cpp", "default")),
        ("MYSERVER_API_KEY", ai.get_model("openai", "some-model", base_url=NOWHERE, identifier="MYSERVER")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_key_is_found_in_its_variable(variable: str, model: ai.Model) -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.extend(request.headers.values())
        return httpx.Response(401, json={"error": {"message": "no"}})

    client = ai.Client(credentials={variable: "the-key-of-ada"}, transport=httpx.MockTransport(answer))
    with pytest.raises(PlanckError):
        await client.complete(model, ai.Context(messages=[ai.UserMessage("hi")]))
    assert any("the-key-of-ada" in value for value in seen)


# Names.


def test_every_public_name_is_where_it_was() -> None:
    gone = []
    for module, names in golden("names").items():
        places = ("planck_nb.errors", "planck_nb.base.errors") if module == "errors" else (module,)
        gone += [f"{module}.{name}" for name in names if not any(has(place, name) for place in places)]
    assert gone == []


def has(module: str, name: str) -> bool:
    """Whether a module exists and has the name."""
    try:
        return hasattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("name", golden("signatures"))
def test_a_public_name_takes_what_it_took(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    before, now = golden("signatures")[name], observing.interface(getattr(importlib.import_module(module), attribute))
    problems = list(changed_parameters(name, before["parameters"], now["parameters"]))
    for method, parameters in before.get("methods", {}).items():
        if method in now["methods"]:
            problems += changed_parameters(f"{name}.{method}", parameters, now["methods"][method])
        elif name not in OF_OBJECTS:
            problems.append(f"{name}.{method} is gone")
    assert problems == []


OF_OBJECTS = {f"planck_nb.{name}" for name in ("Agent", "Run", "RunResult", "Session", "Workspace", "ai.Client")}
"""Classes whose attributes are looked at where programs do so: at an object."""


async def test_objects_have_the_attributes_they_had(tmp_path: Path) -> None:
    async with observing.objects(tmp_path) as found:
        gone = [
            f"{what}.{name}"
            for what, names in golden("attributes").items()
            for name in names
            if not hasattr(found[what], RENAMED.get(name, name))
        ]
    assert gone == []


RENAMED = {"briefing": "prompt_parts", "ledger": "session_spend", "situation": "context_usage", "wanted": "output_spec"}
"""Parameters that no page of 0.1.0 named: a workspace passed the first two, an agent the others, by position."""


def without_agent(rule: str) -> str:
    """The text of a rule as 0.1.0 wrote it. It is for the agents that the session has."""
    return re.sub(r"^agent_id=\S+ ", "", rule)


def changed_parameters(name: str, before: list[str] | None, now: list[str] | None) -> Iterator[str]:
    """What callers of then would miss: a parameter that is gone, or stands elsewhere."""
    before = None if before is None else [RENAMED.get(parameter, parameter) for parameter in before]
    if before is not None and [parameter for parameter in now or () if parameter in before] != before:
        yield f"{name} took {before} and takes {now}"
