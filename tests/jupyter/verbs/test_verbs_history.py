"""The verbs about history in a real kernel, over a store with several sessions."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import shutil
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import nbformat
import pytest
from support.kernel import Kernel, running_kernel
from support.stored import converse, with_updates

from planck_nb.ai.messages import AssistantMessage, TextPart, Usage, UserMessage
from planck_nb.base.errors import SessionError
from planck_nb.jupyter import extension
from planck_nb.jupyter.verbs import session_verbs
from planck_nb.jupyter.verbs.query_verbs import EXAMPLES
from planck_nb.sessions import VIEWS, Session, SessionInfo, delete_session, find_session, list_sessions, query


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("notebook")
    with running_kernel(folder, PLANCK_NB_DEMO_PACE="0", PLANCK_NB_MODEL="demo") as kernel:
        yield kernel


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions, to be copied: `ada` with one turn of an agent Ada, `bob` with a remark."""
    directory = tmp_path_factory.mktemp("stored")

    async def fill() -> None:
        with Session.create(directory, name="ada") as ada:
            await converse(ada)
        with Session.create(directory, name="bob") as bob:
            await bob.append("b1", UserMessage("it's <b>Łódź</b> again, said O'Hara"))

    asyncio.run(fill())
    return directory


@pytest.fixture
def store(stored: Path, tmp_path: Path) -> Path:
    """A copy of the two sessions."""
    shutil.copytree(stored, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def kernel(shared: Kernel, store: Path) -> Kernel:
    """A notebook over the store that has not made a session of its own yet."""
    cell = shared.run(
        "%reset -f\n%unload_ext planck_nb\nimport os\n"
        f"os.environ['PLANCK_NB_SESSIONS_DIR'] = {str(store)!r}\nos.chdir({str(store)!r})\n%load_ext planck_nb"
    )
    assert cell.status == "ok", cell.error
    return shared


def test_sql_alone_shows_the_views_and_what_to_ask(kernel: Kernel) -> None:
    said = kernel.run("%planck sql").plain
    assert all(f"\n  {view}\n    session_id, session_name, " in said for view in VIEWS)
    assert all(f"%planck sql {example}" in said for example in EXAMPLES)
    assert kernel.run("%%planck sql\n  ").plain == said


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_runs(kernel: Kernel, example: str) -> None:
    kernel.run("%planck add 20 and 22 with @len")
    cell = kernel.run(f"frame = %planck sql {example}\nprint(len(spent if frame is None else frame) > 0)")
    assert cell.status == "ok", cell.error
    assert cell.text == "True\n" or "tool_calls" in example or "delegations" in example


def test_a_result_goes_into_a_name_and_is_not_shown(kernel: Kernel) -> None:
    cell = kernel.run("%planck sql -o rows SELECT count(*) AS n FROM sessions")
    assert (cell.outputs, cell.text) == ([], "")
    assert kernel.run("int(rows.n[0])").plain == "2"
    kernel.run("def f():\n    %planck sql --output=inner SELECT 7 AS n\nf()")
    assert kernel.run("%planck sql SELECT n + 1 AS n FROM inner_").error, "only what the notebook has is a table"
    assert kernel.run("joined = %planck sql SELECT rows.n + b.n AS n FROM rows, inner AS b\nprint(joined.n[0])").error
    assert kernel.run("%%planck sql -o kept\n-- a comment\nSELECT n FROM rows").status == "ok"
    assert kernel.run("print(kept.n[0], inner.n[0])").text == "2 7\n"


def test_a_limit_bounds_the_rows(kernel: Kernel) -> None:
    assert kernel.run("rows = %planck sql --limit 3 SELECT * FROM messages\nlen(rows)").plain == "3"
    assert kernel.run("rows = %planck sql -n 2 SELECT * FROM range(9)\nlen(rows)").plain == "2"


@pytest.mark.parametrize("options", ["", "--limit 3 -o rows"])
def test_a_query_that_never_ends_is_interrupted(kernel: Kernel, options: str) -> None:
    kernel.run("import threading\nbefore = threading.active_count()")

    def press(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            kernel.interrupt()

    endless = "SELECT sum(a.range * b.range) FROM range(1000000000) a, range(1000000000) b"
    cell = kernel.finish(kernel.start(f"print('go')\n%planck sql {options} {endless}"), on_message=press)
    assert cell.error.startswith("KeyboardInterrupt"), cell
    ended = "import time\nwhile threading.active_count() > before:\n    time.sleep(0.01)"
    assert kernel.run(ended).status == "ok"


@pytest.mark.parametrize(("kind", "package", "made"), [("pl", "polars", "DataFrame"), ("arrow", "pyarrow", "Table")])
def test_a_result_of_another_kind(kernel: Kernel, kind: str, package: str, made: str) -> None:
    cell = kernel.run(
        f"rows = %planck sql --as {kind} SELECT id, input_tokens FROM messages ORDER BY ALL\n"
        "print(type(rows).__name__, rows)"
    )
    if find_spec(package) is None:
        assert cell.error == f"UsageError: --as {kind} needs {package}; run `%pip install {package}`."
        return
    assert cell.text.startswith(made)
    assert "i64" in cell.text or "int64" in cell.text, "whole numbers stay whole where some are null"


def test_sessions_say_what_they_hold_and_where_they_are_open(kernel: Kernel, store: Path) -> None:
    kernel.run("%planck -- hello")
    with Session.open(store, "bob", owner="other.ipynb"):
        kernel.run("t = %planck sessions")
        columns = kernel.run("list(t)").plain
        rows = ast.literal_eval(
            kernel.run("t[['session', 'agents', 'messages', 'tokens', 'open_in']].values.tolist()").plain
        )
    assert ast.literal_eval(columns) == [
        "session", "agents", "messages", "tokens", "cost_usd", "created", "last", "session_id", "open_in",
    ]  # fmt: skip
    by_name = {row[0]: row[1:] for row in rows}
    assert by_name["ada"] == [1, 4, 25, ""]
    assert by_name["bob"][:3] == [1, 1, 0]
    assert by_name["bob"][3].endswith("(other.ipynb)")
    assert rows[0][4] == "this notebook", "the one used last comes first"
    again = kernel.run("t = %planck sessions\nlist(t.open_in)").plain
    assert ast.literal_eval(again) == ["this notebook", "", ""]
    journal = find_session(store, "bob").path
    sound = journal.read_bytes()
    journal.write_bytes(sound + b"nonsense\n" + sound.splitlines(keepends=True)[-1])
    sentence = "The journal of bob is damaged: 1 line that cannot be read and 1 row"
    for times in (1, 0):  # a query says it once, the list always
        plain = kernel.run("t = %planck sessions\nlist(t.damage)").plain
        damage = ast.literal_eval(plain[plain.index("[") :])
        assert damage[0] == damage[2] == ""
        assert damage[1].startswith(sentence)
        assert plain[: plain.index("[")].count(sentence) == times
    journal.write_bytes(sound)
    assert "damage" not in kernel.run("t = %planck sessions\nlist(t)").plain


def test_search_finds_words_in_all_sessions(kernel: Kernel) -> None:
    cell = kernel.run("%planck search łódź")
    assert "łódź: one message." in cell.plain or "łódź: 2 messages" in cell.plain
    assert "it's <b>Łódź</b> again, said O'Hara" in cell.plain
    html = cell.data("text/html")[0]
    assert "it&#x27;s &lt;b&gt;<mark>Łódź</mark>&lt;/b&gt; again" in html
    assert "bob · b1 · user · 20" in html
    assert "<mark>&lt;b&gt;Łódź&lt;/b&gt;</mark>" in kernel.run("%planck search <b>łódź</b>").data("text/html")[0]
    assert "ada · Ada · user" in kernel.run("%planck search question").plain
    assert kernel.run("found = %planck search question 0 --limit 1\nlen(found), len(found.frame)").plain == "(1, 1)"
    assert kernel.run("%planck search it's O'Hara").plain.startswith("it's O'Hara: one message.")
    assert kernel.run('%planck search "O\'Hara said"').plain == 'No message contains "O\'Hara said".'
    assert kernel.run("%planck search --session ada again").plain == "No message contains again."
    assert kernel.run("%planck search a --agent Ada -s bob").plain == "No message contains a."


def test_a_session_goes_out_and_comes_back(kernel: Kernel, store: Path) -> None:
    for ending in ("jsonl", "md", "html", "ipynb"):
        cell = kernel.run(f"%planck export ada 'my history.{ending}'")
        assert cell.plain.startswith(f"ada was exported to my history.{ending} ("), cell
        assert "question 0" in (store / f"my history.{ending}").read_text("utf-8")
    nbformat.validate(nbformat.read(store / "my history.ipynb", 4))
    assert kernel.run("%planck import 'my history.jsonl' --name back").plain.startswith(
        "Imported my history.jsonl as session back, with the id "
    )
    texts = "SELECT id, role, text FROM messages WHERE session_name = {} ORDER BY id"
    assert query(store, texts.format("'back'")).equals(query(store, texts.format("'ada'")))


def test_a_session_that_is_imported_under_a_path_has_the_last_part_as_its_name(kernel: Kernel, store: Path) -> None:
    kernel.run("%planck export ada good.jsonl")
    assert kernel.run("%planck import good.jsonl --name ../up").status == "ok"
    assert sorted(session.name for session in list_sessions(store)) == ["ada", "bob", "up"]
    assert not list(store.parent.glob("up*"))


def test_an_import_says_what_waits_for_trust(kernel: Kernel, store: Path) -> None:
    kernel.run("%planck export ada plain.jsonl")
    plain = (store / "plain.jsonl").read_text("utf-8")
    assert "trust" not in kernel.run("%planck import plain.jsonl --name plain").plain
    lines = [json.loads(line) for line in plain.splitlines()]
    started = next(line for line in lines if line.get("type") == "agent_started")
    started["data"]["model_source"] = {"api": "chat", "base_url": "http://x.test/v1"}
    choices = {"choices": {"rules": [["allow", "bash"]], "readable": {}}}
    row = {"v": 1, "id": 10**6, "kind": "metadata", "agent_id": None, "turn": None, "data": choices}
    rows = [*lines, row | {"ts": lines[-1]["ts"]}]
    (store / "rules.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows), "utf-8")
    assert kernel.run("%planck import rules.jsonl --name rules").plain.endswith(
        "without the remembered approval rule `bash` and the model server http://x.test/v1 until you trust it: "
        "look at it, then `%planck resume rules --trust` restores everything."
    )


def test_the_notebooks_own_session_is_exported_with_all_its_events(kernel: Kernel, store: Path) -> None:
    kernel.run("%planck -- hello")
    assert kernel.run("%planck export now.jsonl").status == "ok"
    lines = [json.loads(line) for line in (store / "now.jsonl").read_text("utf-8").splitlines()]
    assert "turn_end" in {line.get("type") for line in lines}
    (store / "now.md").write_text("mine")
    assert kernel.run("%planck export now.md").error == (
        "SessionError: now.md already exists; add --overwrite to replace it."
    )
    assert (store / "now.md").read_text() == "mine"
    assert kernel.run("%planck export --overwrite now.md").status == "ok"
    assert "hello" in (store / "now.md").read_text("utf-8")
    assert not list(store.glob(".*.part"))


FULL = """
import resource, time
from planck_nb.agent.events import Aborted
from planck_nb.jupyter.extension import _loaded
session = next(iter(_loaded.values()))._controller.workspace.session
before = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
session.log("a").record(Aborted("a", session.id, 0, 0, time.time()))
said = %planck export full.md
resource.setrlimit(resource.RLIMIT_FSIZE, before)
said
"""


@pytest.mark.skipif(sys.platform == "win32", reason="bounds the size of files")
def test_a_full_disk_does_not_keep_a_session_from_being_exported(kernel: Kernel, store: Path) -> None:
    kernel.run("%planck -- hello")
    kernel.run("%planck hello again")
    cell = kernel.run(FULL)
    assert cell.status == "ok", cell
    assert "Rows that are not on disk yet are missing: The session's journal" in cell.plain
    assert "hello again" in (store / "full.md").read_text("utf-8")


def test_a_session_is_deleted_once_that_was_confirmed(kernel: Kernel, store: Path) -> None:
    said = kernel.run("%planck delete ada").plain
    assert said.startswith("ada has 4 messages of 1 agent, was created 20")
    assert said.endswith("Nothing was deleted yet: `%planck delete ada --yes` deletes it for good.")
    assert find_session(store, "ada")
    assert kernel.run("%planck delete ada --yes").plain.startswith("Deleted ada, which freed ")
    assert [session.name for session in list_sessions(store)] == ["bob"]
    assert not list(store.glob("*_ada.*"))


def test_an_open_session_is_not_deleted(kernel: Kernel, store: Path) -> None:
    kernel.run("%planck -- hello")
    own = list_sessions(store)[-1]
    assert kernel.run(f"%planck delete {own.name} --yes").error == (
        f"SessionLockedError: {own.name} is the session of this notebook, which cannot be deleted while it is open."
    )
    with Session.open(store, "bob", owner="other.ipynb"):
        said = kernel.run("%planck delete bob --yes").error
    assert said.startswith("SessionLockedError: bob is open in process ")
    assert said.endswith("(other.ipynb); close it there before you delete it.")
    assert len(list_sessions(store)) == 3


def test_of_two_sessions_with_one_name_none_is_deleted_by_it(kernel: Kernel, store: Path) -> None:
    with Session.create(store, name="ada") as second:
        pass
    said = kernel.run("%planck delete ada --yes").error
    assert said.startswith("SessionError: 2 sessions are called ada; give the id of one: ")
    assert kernel.run(f"%planck delete {second.id} --yes").status == "ok"
    assert [session.name for session in list_sessions(store)] == ["ada", "bob"]


def test_compacting_the_store_says_what_it_freed(kernel: Kernel, store: Path) -> None:
    (store / f"{find_session(store, 'bob').database.name}.bad").write_bytes(b"x" * 2_500_000)
    kernel.run("%planck -- hello")
    own = list_sessions(store)[-1]
    assert kernel.run("%planck sessions compact").plain == (
        f"This frees about 2.5 MB.\nFreed 2.5 MB. {own.name} is open and stayed as before."
    )
    assert kernel.run("%planck sessions compact").plain.startswith("There was nothing to free.")
    assert len(query(store, "SELECT * FROM messages WHERE session_name = 'ada'")) == 4


def test_a_frame_that_is_still_to_be_computed_is_left_alone(kernel: Kernel) -> None:
    pytest.importorskip("polars")
    cell = kernel.run("import polars\nlazy = polars.LazyFrame({'x': [1]})\n%planck sql SELECT 1 AS one")
    assert (cell.status, cell.text) == ("ok", "")
    assert "There is no table 'lazy'." in kernel.run("%planck sql FROM lazy").error


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("%planck sql --limit 0 SELECT 1", "UsageError: --limit cannot be '0': the maximum number of rows: 1 or more."),
        ("%planck sql --as csv SELECT 1", "UsageError: --as cannot be 'csv': df, pl or arrow"),
        ("%planck sql -o 2x SELECT 1", "UsageError: -o cannot be '2x': a variable to store the table in"),
        ("%planck sql -o class SELECT 1", "UsageError: -o cannot be 'class'"),
        ("%planck sql -o rows", "UsageError: `%planck sql` has options but no query"),
        ("%planck sql --limt 3 SELECT 1", "UsageError: %planck sql has no option --limt. Did you mean --limit"),
        ("%planck sql SELECT 1 --limit 3", "UsageError: Write --limit before QUERY, which is kept as it was written."),
        ("%planck sql SELEC 1", "QueryError: "),
        ("%planck sql SELECT 1; SELECT 2", "QueryError: A query is one SELECT statement; this has 2 statements."),
        ("%planck sql SELECT * FROM mesages", "QueryError: There is no table 'mesages'. Did you mean messages"),
        ("%planck sql ATTACH 'x.db'", "QueryError: Sessions can only be read here"),
        ("%planck sql COPY messages TO 'x.csv'", "QueryError: Sessions can only be read here"),
        ("%planck search", "UsageError: `%planck search` needs WORD; write `%planck search WORD …`."),
        ('%planck search "  "', "UsageError: `%planck search` needs words to look for"),
        ('%planck search "open', "UsageError: A quotation mark is not closed"),
        ("%planck delete --older-than -3", "UsageError: --older-than cannot be '-3': all sessions without a message"),
        ("%planck delete --older-than x", "this many days, 1 or more, instead of one."),
        ("%planck delete --keep-mb 0", "this many MB, 1 or more."),
        ("%planck search x --limit -1", "UsageError: --limit cannot be '-1'"),
        ("%planck search x --agnt y", "UsageError: %planck search has no option --agnt. Did you mean --agent?"),
        (
            "%planck search question -s adda",
            "UsageError: The stored history has no session called 'adda'. Did",
        ),
        ("%planck search question -a Bob", "UsageError: The stored history has no agent called 'Bob'. Known are: Ada."),
        ("%planck export", "UsageError: `%planck export` needs FILE; write `%planck export [SESSION] FILE`."),
        ("%planck export ada", "ends in .jsonl, .md, .html or .ipynb."),
        ("%planck export ada x.pdf", "ends in .jsonl, .md, .html or .ipynb."),
        ("%planck export own.md", "UsageError: This notebook has no session yet"),
        ("%planck export adda x.md", "SessionNotFoundError: No session in"),
        ("%planck export ada no/such/folder/x.md", "SessionError: no/such/folder/x.md cannot be written (No such file"),
        ("%planck export ada ~nobody-at-all/x.md", "UsageError: There is no home folder for ~nobody-at-all/x.md"),
        ("%planck import", "UsageError: `%planck import` needs FILE; write `%planck import FILE`."),
        ("%planck import nothing.jsonl", "SessionError: nothing.jsonl cannot be read (No such file"),
        ("%planck import .", "SessionError: . cannot be read (Is a directory); check the path."),
        ("%planck import junk", "SessionFormatError: junk does not begin like an exported session"),
        ("%planck import good.jsonl --name ..", "SessionError: This cannot name a session"),
        ("%planck delete", "UsageError: Name one session that `%planck sessions` lists, or give --older-than with"),
        ("%planck delete ../ada --yes", "SessionNotFoundError: No session in"),
        ("%planck delete * --yes", "SessionNotFoundError: No session in"),
        (f"%planck delete {'x' * 300} --yes", "SessionNotFoundError: No session in"),
        ("%planck delete ada bob --yes", "UsageError: `%planck delete` does not accept 'bob'"),
        ("%planck help sq", "UsageError: There is no topic sq. Nearest is `%planck help sql`."),
    ],
)
def test_an_invalid_setting_is_one_sentence(kernel: Kernel, store: Path, code: str, sentence: str) -> None:
    (store / "junk").write_bytes(b"\xff\xfe\x00junk\n")
    kernel.run("%planck export ada good.jsonl")
    cell = kernel.run(code)
    assert cell.status == "error", cell
    assert sentence in cell.error
    assert "\n" not in cell.error
    assert [session.name for session in list_sessions(store)] == ["ada", "bob"]


def test_help_of_a_verb_has_its_options(kernel: Kernel) -> None:
    said = kernel.run("%planck help sql").plain
    assert "-o, --output NAME" in said
    assert "--as df|pl|arrow" in said


PAGE = Path(inspect.getfile(extension)).with_name("README.md")


def documented() -> tuple[str, str]:
    """The Python of the page about other tools, and the query in its `%sql` line."""
    code = "".join(
        re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8").partition("## From other tools")[2], re.DOTALL)
    )
    queries = re.findall(r"^%sql (SELECT .*)$", code, re.MULTILINE)
    assert len(queries) == 1
    return re.sub(r"^%.*$", "", code, flags=re.MULTILINE), queries[0]


@pytest.mark.slow
async def test_other_tools_read_sessions_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, sql = documented()
    with with_updates(Session.create(tmp_path / ".planck" / "sessions", name="open"), pause=600) as session:
        await converse(session)
        session.materialize()
        names: dict[str, Any] = {}
        exec(code, names)
        said = ast.literal_eval(capsys.readouterr().out)
        assert said[0] == ("user", "question 0")
        assert [role for role, _ in said] == ["user", "assistant", "tool_result", "assistant"]
        with names["store"] as store:
            assert store.execute(sql).fetchall() == [(session.info.database.stem, 4)]
            await converse(session, turn=1)
            session.materialize()  # nothing is in its way between two queries
            assert store.execute(sql).fetchall() == [(session.info.database.stem, 8)]


@pytest.mark.slow
async def test_a_connection_only_delays_the_file(tmp_path: Path) -> None:
    with with_updates(Session.create(tmp_path), pause=600) as session:
        await converse(session)
        session.materialize()
        with duckdb.connect(session.info.database, read_only=True) as connection:
            await converse(session, turn=1)
            with pytest.raises(SessionError, match="its journal is complete"):
                session.materialize()
            assert connection.execute("SELECT count(*) FROM messages").fetchall() == [(4,)]
            assert len(query(tmp_path, "SELECT * FROM messages")) == 8
        session.materialize()
        with duckdb.connect(session.info.database, read_only=True) as connection:
            assert connection.execute("SELECT count(*) FROM messages").fetchall() == [(8,)]


def test_the_history_of_today_and_this_week(kernel: Kernel, store: Path) -> None:
    async def fill() -> None:
        now = time.time()
        with Session.create(store, name="eva") as eva:
            log = eva.log("e1")
            await log.append(UserMessage("how much <b>now</b>?"), turn=1, time=now)
            for cost, model in ((0.25, "priced"), (None, "unpriced")):
                reply = AssistantMessage((TextPart("x"),), "stop", Usage(1000, 200), cost, "openai", model)
                await log.append(reply, turn=1, time=now)
            await log.append(UserMessage("how much long ago?"), turn=2, time=now - 400 * 86_400)

    asyncio.run(fill())
    shown = kernel.run("%planck history").plain
    assert "2 prompts in 2 sessions, 2.4k tokens, ≥ $0.250." in shown
    assert shown.startswith("Today: ")
    assert "\nThis week: " in shown
    assert "how much <b>now</b>?" in shown
    assert "long ago" not in shown
    assert "&lt;b&gt;now" in str(kernel.run("%planck history").data("text/html"))
    assert "long ago" in kernel.run("%planck history --days 500").plain
    assert kernel.run("h = %planck history -d 99999999\nlen(h), list(h.frame)[:3]").plain.endswith(
        "['day', 'session', 'prompts'])"
    )
    (store / "empty").mkdir()
    kernel.run(
        "%reset -f\n%unload_ext planck_nb\nimport os\n"
        "os.environ['PLANCK_NB_SESSIONS_DIR'] += '/empty'\n%load_ext planck_nb"
    )
    assert kernel.run("%planck history").plain == "Today: nothing.\nThis week: nothing."


def test_tables_are_shown_without_nan_and_fractions_of_a_second(kernel: Kernel) -> None:
    for line in ("sessions", "usage ada --table", "branches", "rewind"):
        cell = kernel.run(f"%planck {line}")
        assert cell.status == "ok", cell.error
        for shown in (cell.plain, str(cell.data("text/html"))):
            assert "NaN" not in shown
            assert "NaT" not in shown
            assert not re.search(r":\d\d\.\d", shown), line
    assert (
        kernel.run("found = %planck sessions\nfound['created'].dtype.kind, bool(found.isna().any().any())").plain
        == "('M', True)"
    )
    assert "bob" in kernel.run("%planck sql SELECT session FROM found WHERE session = 'bob'").plain


def test_deleting_sessions_that_have_not_been_used_for_some_days(kernel: Kernel, store: Path) -> None:
    with Session.create(store, name="new") as new:
        asyncio.run(new.append("a", UserMessage("hello")))
    with Session.create(store, name="old") as old:
        log = old.log("a")
        asyncio.run(log.append(UserMessage("hello"), turn=0, time=time.time()))
    # Times of messages count, not those of files; a session that has just been created is in use, however old they are.
    assert "has been used in the last 3 days" in kernel.run("%planck delete --older-than 3").plain
    journal = find_session(store, "old").path
    now = f"{time.gmtime().tm_year}-"
    journal.write_text(journal.read_text().replace(f'"ts":"{now}', '"ts":"2019-'))
    shown = kernel.run("%planck delete --older-than 3").plain
    assert shown.startswith("1 session without a message for 3 days: old. They take ")
    assert {session.name for session in list_sessions(store)} == {"ada", "bob", "new", "old"}
    assert kernel.run("%planck delete --older-than 3 --yes").plain.startswith("Deleted 1 session without")
    assert {session.name for session in list_sessions(store)} == {"ada", "bob", "new"}
    for line in ("delete", "delete ada --older-than 3", "delete --older-than 3 --keep-mb 1"):
        assert "--older-than with a number of days" in kernel.run(f"%planck {line}").error


@pytest.mark.slow
async def test_only_what_was_deleted_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "open", "last"):
        Session.create(tmp_path, name=name).close()

    def delete(session: SessionInfo, *, confirm: str) -> None:
        if confirm == "open":
            raise SessionError("open is in use.")
        delete_session(session, confirm=confirm)

    monkeypatch.setattr(session_verbs, "delete_session", delete)
    sizes = {find_session(tmp_path, name): 1_000_000 for name in ("first", "open", "last")}
    said = await session_verbs._delete_several(sizes, "of old", "", yes=True)
    assert str(said) == "Deleted 2 sessions of old: first, last. This freed 2.0 MB. open is in use."
    assert [session.name for session in list_sessions(tmp_path)] == ["open"]
    sizes = dict.fromkeys(list_sessions(tmp_path), 1_000_000)
    assert str(await session_verbs._delete_several(sizes, "", "", yes=True)) == "Nothing was deleted. open is in use."


def test_deleting_the_sessions_used_before_those_that_take_a_size(kernel: Kernel, store: Path) -> None:
    names = {session.name for session in list_sessions(store)}
    for number in range(4):
        with Session.create(store, name=f"large{number}") as session:
            asyncio.run(session.append("a", UserMessage("hello")))
        path = session.path.with_name(session.path.name.replace(".journal.jsonl", ".note"))
        path.write_bytes(b"x" * 900_000)
    open_now = Session.open(store, "large0")
    assert "no more than 100 MB, so there is nothing to delete" in kernel.run("%planck delete --keep-mb 100").plain
    shown = kernel.run("%planck delete --keep-mb 3").plain
    assert "used longest ago, beyond 3 MB: large1" in shown, "and those used before it"
    assert "Nothing was deleted yet: `%planck delete --keep-mb 3 --yes`" in shown
    assert len(list_sessions(store)) == len(names) + 4
    assert "This freed " in kernel.run("%planck delete --keep-mb 3 --yes").plain
    open_now.close()
    left = {session.name for session in list_sessions(store)}
    assert left >= {"large0", "large2", "large3"}
    assert not left & (names | {"large1"})
