"""Misspelt verbs, agents and options are refused with what was meant; prompts that resemble them are sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planck_nb import Config, Workspace
from planck_nb.ai.models import Model
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.interpretation import VerbLine, interpret
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.options import Prompt
from planck_nb.jupyter.verbs import VERBS

AGENTS = ("analyst", "planner", "critic", "coder", "writer", "worker1", "ann", "data cruncher")


@pytest.fixture
async def notebook(tmp_path: Path) -> AsyncIterator[Notebook]:
    async with Workspace(Config(tmp_path, root=tmp_path)) as workspace:
        for name in AGENTS:
            workspace.add_agent(name, model=workspace.model("demo"))
        yield Notebook(Controller(workspace), {"orders": [1], "rates": {"a": 1}})


# What was typed, and what the message offers.
LINES = {
    # verbs alone
    **dict.fromkeys(("hlep", "hepl", "halp", "helpp", "Help", "HELP"), "%planck help"),
    **dict.fromkeys(("agnets", "agnts", "aegnts", "agentss", "Agents"), "%planck agents"),
    **dict.fromkeys(("modle", "mdoel", "moddel", "modell"), "%planck model"),
    **dict.fromkeys(("modesl", "mdoels"), "%planck model"),
    **dict.fromkeys(("toosl", "tolls", "toools"), "%planck tools"),
    **dict.fromkeys(("skils", "skillls", "sklils"), "%planck skills"),
    **dict.fromkeys(("sesions", "sessoins", "sesssions", "seessions", "sessins"), "%planck sessions"),
    **dict.fromkeys(("stopp", "sotp", "aborrt", "abotr"), "%planck stop"),
    **dict.fromkeys(("contnue", "contineu", "continu", "conitnue"), "%planck continue"),
    **dict.fromkeys(("csot", "usgae", "usaeg"), "%planck cost"),
    **dict.fromkeys(("tiemline", "timelien", "timline"), "%planck timeline"),
    **dict.fromkeys(("chagnes", "chnages", "changess"), "%planck changes"),
    **dict.fromkeys(("branchs", "brnaches"), "%planck rewind --list"),
    **dict.fromkeys(("pendign", "penidng"), "%planck approve --list"),
    **dict.fromkeys(("configg", "cofnig", "confg"), "%planck config"),
    **dict.fromkeys(("permisions", "polciy", "plicy"), "%planck permissions"),
    **dict.fromkeys(("casette", "cassete", "cassettte"), "%planck cassette"),
    **dict.fromkeys(("resmue", "reusme"), "%planck resume"),
    **dict.fromkeys(("undoo", "udno"), "%planck undo"),
    "compact_store": "%planck sessions compact",
    "compactstore": "%planck sessions compact",
    "sidcar": "%planck sidecar",
    "trsut": "%planck trust",
    # verbs with arguments
    "modle demo": "%planck model demo",
    "mdoel anthropic:claude-sonnet-4-6": "%planck model anthropic:claude-sonnet-4-6",
    "modesl google": "%planck models google",
    "Model demo:demo": "%planck model demo:demo",
    "hepl export": "%planck help export",
    "tolos analyst": "%planck tools analyst",
    "shwo request": "%planck request",
    "hsow request analyst": "%planck request analyst",
    "remvoe ann": "%planck remove ann",
    "reomve data cruncher": "%planck remove data cruncher",
    "abrot ann": "%planck stop ann",
    "aprove ann": "%planck approve ann",
    "approev analyst": "%planck approve analyst",
    "dney ann": "%planck deny ann",
    "serach pump": "%planck search pump",
    "seach pump in oslo": "%planck search pump in oslo",
    "slq SELECT * FROM messages": "%planck sql SELECT * FROM messages",
    "compcat analyst": "%planck compact analyst",
    "rewidn last": "%planck rewind last",
    "rewnd 12": "%planck rewind 12",
    "resmue calm-fox": "%planck resume calm-fox",
    "exprot report.html": "%planck export report.html",
    "epxort calm-fox report.md": "%planck export calm-fox report.md",
    "imprt session.zip": "%planck import session.zip",
    "delte calm-fox --yes": "%planck delete calm-fox --yes",
    "deleet calm-fox": "%planck delete calm-fox",
    "polcy allow bash": "%planck permissions allow bash",
    "poilcy ask write": "%planck permissions ask write",
    "casette auto orders.jsonl": "%planck cassette auto orders.jsonl",
    "cassete record a.jsonl": "%planck cassette record a.jsonl",
    "confg default_model demo": "%planck config default_model demo",
    "quuee analyst --send": "%planck queue analyst --send",
    "brances --return last": "%planck rewind --list --return last",
    "usgae --table": "%planck cost --table",
    "taem start review": "%planck team start review",
    "sidecr start": "%planck sidecar start",
    # agents
    "anaylst sum the prices": "%planck analyst sum the prices",
    "analist sum the prices": "%planck analyst sum the prices",
    "planer make a plan": "%planck planner make a plan",
    "plannner make a plan": "%planck planner make a plan",
    "crtiic look at this": "%planck critic look at this",
    "critiic look at this": "%planck critic look at this",
    "wirter write a poem": "%planck writer write a poem",
    "coer": "",
    # new agents with options
    "anaylst --model demo hi": "%planck analyst",
    "plannr -q hi": "%planck planner",
    "modle --new hi": "%planck model",
    "crtic --quiet hi": "%planck critic",
    # options
    "--modle demo hi": "--model",
    "--mdoel demo hi": "--model",
    "--Model demo hi": "--model",
    "-model demo hi": "--model",
    "\u2014model demo hi": "--model",
    "\u2013new hi": "--new",
    "\u2013\u2013quiet hi": "--quiet",
    "--max_tokens 5 hi": "--max-tokens",
    "--maxtokens 5 hi": "--max-tokens",
    "--max-token 5 hi": "--max-tokens",
    "--temprature 1 hi": "--temperature",
    "--temperatur=1 hi": "--temperature",
    "--thikning high hi": "--thinking",
    "--imgae a.png hi": "--image",
    "--images a.png hi": "--image",
    "--ouput Invoice hi": "--output",
    "--exapnd hi {x}": "--expand",
    "--bakground hi": "--background",
    "--tool add hi": "--tools",
    "--sytem brief hi": "--system",
    "--agnet bob hi": "--agent",
    "--taem review hi": "--team",
    "--comapctor f hi": "--compactor",
    "--alow bash hi": "--allow",
    "--dney bash hi": "--deny",
    "--base_url http://x hi": "--base-url",
    "analyst --modle demo hi": "--model",
    "newcomer --modle demo hi": "--model",
    "newcomer --qiuet hi": "--quiet",
}
LINES = {line: meant for line, meant in LINES.items() if meant}


@pytest.mark.slow
async def test_misspelt_lines_are_refused_with_what_was_meant(notebook: Notebook) -> None:
    assert len(LINES) >= 130
    wrong = {}
    for line, meant in LINES.items():
        try:
            wrong[line] = interpret(line, None, notebook)
        except UsageError as error:
            if meant not in str(error) or "\n" in str(error):
                wrong[line] = str(error)  # type: ignore[assignment]
    assert wrong == {}


CELLS = {
    "anaylst": "`%%planck analyst`",
    "Analyst": "`%%planck analyst`",
    "analsyt -m demo": "`%%planck analyst`",
    "plannr": "`%%planck planner`",
    "'data crunchr'": "`%%planck data cruncher`",
    "data_cruncher": "`%%planck data cruncher`",
    "critics": "`%%planck critic`",
    "coderr": "`%%planck coder`",
    "slq": "`%%planck sql`",
    "serach": "`%planck search`",
    "serach pump": "`%planck search pump`",
    "modle demo": "`%planck model demo`",
    "agents": "agents is a verb that has no text on the lines below; write `%planck agents`.",
    "--modle demo": "--model",
    "\u2014new": "--new",
    "ann --qiuet": "--quiet",
    "ann do it": "write the prompt on the lines below",
}


async def test_a_misspelt_name_makes_no_agent(notebook: Notebook) -> None:
    for header, meant in CELLS.items():
        with pytest.raises(UsageError) as raised:
            interpret(header, "hello\n", notebook)
        assert meant in str(raised.value), header
        assert "\n" not in str(raised.value)
    with pytest.raises(UsageError, match="`%%planck --agent anaylst` makes an agent of that name"):
        interpret("anaylst", "hello\n", notebook)


MODELS = {
    "anthropic:claude-sonnet-4-6": "--model anthropic:claude-sonnet-4-6",
    "anthropic:claude-of-tomorrow": "--model anthropic:claude-of-tomorrow",
    "openai:gpt-4o": "--model openai:gpt-4o",
    "ollama:llama3.2": "--model ollama:llama3.2",
    "demo:demo": "--model demo:demo",
    "claude-sonnet-4-6": "--model anthropic:claude-sonnet-4-6",
    "gpt-4o": "--model openai:gpt-4o",
    "openai": "--model openai:MODEL",
    "fast": "--model fast",
    "house:large/2": "--model house:large/2",
}
"""Names of models, the user's own among them, and what the message offers."""


async def test_a_model_is_no_name_of_an_agent(tmp_path: Path) -> None:
    own = [Model("openai", "gpt-4o", "chat", alias=alias) for alias in ("fast", "house:large/2")]
    async with Workspace(Config(tmp_path, root=tmp_path, models=tuple(own))) as workspace:
        notebook = Notebook(Controller(workspace), {})
        for name, offered in MODELS.items():
            for line, cell in ((name, "hello\n"), (f"{name} --quiet hello", None)):
                with pytest.raises(UsageError) as raised:
                    interpret(line, cell, notebook)
                assert offered in str(raised.value)
            assert interpret(f"--agent {name}", "hello\n", notebook) == Prompt({"agent": name}, "hello\n")
        workspace.add_agent("gpt-4o", model=workspace.model("demo"))
        assert interpret("gpt-4o", "hello\n", notebook) == Prompt({"agent": "gpt-4o"}, "hello\n")


NEW_AGENTS = (
    *("reviewer", "bob", "anna", "a0", "worker2", "worker10", "expert", "researcher", "editor", "remote", "branch"),
    *("police", "translator", "tester", "qa", "summariser", "Bob", "writer-2", "writer_b", "sender", "report"),
)


async def test_a_name_of_its_own_makes_an_agent(notebook: Notebook) -> None:
    for name in NEW_AGENTS:
        assert interpret(name, "hello\n", notebook) == Prompt({"agent": name}, "hello\n")
        assert interpret(f"{name} --quiet hello", None, notebook) == Prompt({"agent": name, "quiet": True}, "hello")
    for name in ("anaylst", "slq", "agents"):
        assert interpret(f"--agent {name}", "hello\n", notebook) == Prompt({"agent": name}, "hello\n")
        assert interpret(f"--agent {name} hello", None, notebook) == Prompt({"agent": name}, "hello")


PROMPTS = (
    "about the data in @orders: what is odd?",
    "for each row compute the mean",
    "form a sentence with these words",
    "work out the sum of 1 and 2",
    "folk tales of Norway, please",
    "force a refresh of the cache: how?",
    "mode of transport in Oslo?",
    "modes of a distribution",
    "modern art in one line",
    "modeling the data with a tree",
    "modelo de datos para ventas",
    "Modell der Daten in @orders",
    "Model the data in @orders with a tree",
    "motel prices in Oslo",
    "tool use in language models: what is it?",
    "tool belts compared",
    "skill trees explained",
    "shows how to fit a line",
    "shot noise explained",
    "snow depth in Oslo?",
    "how do I read a csv?",
    "Show me the first rows of @orders",
    "Show the mean",
    "removed rows: why?",
    "remote work in numbers",
    "teams of agents: how do they work?",
    "team's budget in words",
    "steam engines in two lines",
    "steel beams: how strong?",
    "Steuer auf Bier erkl\u00e4ren",
    "queues in Python, briefly",
    "queued jobs: why?",
    "aborted runs: what happens to the text?",
    "continued fractions of pi",
    "continuous functions, defined",
    "Continue the story of the fox",
    "spending by month in @orders",
    "sending mail from Python",
    "approved drugs for malaria",
    "any idea why this fails?",
    "compare @orders with @rates",
    "company names in @orders",
    "starch in potatoes?",
    "research the history of pumps",
    "Search for pumps in @orders",
    "searching a sorted list: how?",
    "sage advice on naming, please",
    "timelines of the war, briefly",
    "change the title to Sales",
    "chances of rain in May?",
    "under which licence is pandas?",
    "und was ist der Mittelwert?",
    "unto others: who said it?",
    "remind me what a monad is",
    "branch and bound, explained",
    "trenches of the Pacific",
    "forks of the project: which are alive?",
    "fort names in France",
    "resumes: what makes a good one?",
    "resumen de los datos",
    "missions to Mars so far",
    "versions of Python that still get fixes",
    "expert opinion on @rates",
    "exports of Norway in 2020",
    "imports in Python: how do they work?",
    "important rows of @orders?",
    "deleted rows: can they come back?",
    "configure logging for me",
    "police stations in Oslo",
    "politics of Norway in short",
    "truth tables for XOR",
    "trusted types: what are they?",
    "must I normalise the data?",
    "helper functions for dates",
    "held-out data: how much?",
    "hello there",
    "Help me plan a trip",
    "use @orders to compute the mean",
    "user stories for a shop",
    "used memory of @orders?",
    "using polars, read a csv",
    "agent Smith is who?",
    "agent-based models, explained",
    "writes to disk: how many?",
    "write a poem about rain",
    "critics say the film is bad; why?",
    "criticise this text",
    "coding style: tabs or spaces?",
    "code review of f",
    "analysts agree that rates rise: why?",
    "analyse @orders",
    "planned maintenance: write a notice",
    "plane tickets: when to buy?",
    "git --force does what?",
    "ls --almost-all explained",
    "pip --no-deps does what?",
    "what is --model for?",
    "-5 + 3 is what?",
    "Note: do this",
    "note:this is x=1",
    "http://example.com?a=b c=d",
    "localhost:8080 a=b",
    "assert:equality a==b",
    "12:30 x=y",
    "sum:all x=1 and y=2",
    "- is this a dash?",
    "\u2014 is this a dash?",
    "what's up?",
    "1 + 1",
    "\u043f\u0440\u0438\u0432\u0435\u0442 \u043a\u0430\u043a \u0434\u0435\u043b\u0430",
)


@pytest.mark.slow
async def test_prompts_that_resemble_verbs_are_sent(notebook: Notebook) -> None:
    assert len(PROMPTS) >= 100
    wrong = {}
    for line in PROMPTS:
        try:
            read = interpret(line, None, notebook)
        except UsageError as error:
            wrong[line] = str(error)
        else:
            if read != Prompt({}, line):
                wrong[line] = repr(read)
    assert wrong == {}


async def test_a_prompt_of_a_sidecar_that_does_not_exist_is_refused(notebook: Notebook, tmp_path: Path) -> None:
    for line in ("nosuch:prompt k=v", "nosuch:prompt key='two words' other=", "nosuch:pro-mpt --quiet k-2=v"):
        with pytest.raises(UsageError) as raised:
            interpret(line, None, notebook)
        assert str(raised.value) == (
            f"There is no sidecar nosuch. `%planck sidecar add FILE` adds one. As a prompt, write `%planck -- {line}`."
        )
        assert interpret(f"-- {line}", None, notebook) == Prompt({}, line)
    (tmp_path / ".planck").mkdir()
    (tmp_path / ".planck/mcp.json").write_text('{"mcpServers": {"weather": {"command": "x"}}}')
    for line in ("wether:report city=Rome", "wether:report"):
        with pytest.raises(UsageError, match=r"^There is no sidecar wether\. Did you mean weather\?"):
            interpret(line, None, notebook)
    notebook.workspace.add_agent("nosuch:prompt", model=notebook.workspace.model("demo"))
    assert interpret("nosuch:prompt k=v", None, notebook) == Prompt({"agent": "nosuch:prompt"}, "k=v")


@pytest.mark.parametrize(
    ("line", "verb", "prompt"),
    [
        ("--debug compact ann", "compact --debug ann", "--debug -- compact ann"),
        ("--debug agents", "agents --debug", "--debug -- agents"),
        ("--help compact", "compact --help", "-- --help compact"),
    ],
)
async def test_an_option_before_a_verb_belongs_after_it(notebook: Notebook, line: str, verb: str, prompt: str) -> None:
    with pytest.raises(UsageError) as raised:
        interpret(line, None, notebook)
    option = line.partition(" ")[0]
    assert str(raised.value) == (
        f"Write {option} after the verb, as in `%planck {verb}`. As a prompt, write `%planck {prompt}`."
    )
    assert isinstance(interpret(verb, None, notebook), VerbLine)
    assert isinstance(interpret(prompt, None, notebook), Prompt)
    assert interpret("--debug use the table", None, notebook) == Prompt({"debug": True}, "use the table")


@pytest.mark.parametrize("line", ["ann", "data cruncher", "  ann "])
async def test_a_name_alone_is_no_prompt(notebook: Notebook, line: str) -> None:
    with pytest.raises(UsageError, match=f"^There is no prompt: write it after the name {line.strip()}, or send"):
        interpret(line, None, notebook)


@pytest.mark.parametrize("line", ['""', "''", "--quiet ''", 'ann ""'])
async def test_empty_quotes_are_no_prompt(notebook: Notebook, line: str) -> None:
    assert not interpret(line, None, notebook).text  # type: ignore[union-attr]  # it is no verb


async def test_two_dashes_always_begin_a_prompt(notebook: Notebook) -> None:
    for line in (*LINES, *PROMPTS, *VERBS):
        assert interpret(f"-- {line}", None, notebook) == Prompt({}, line)


async def test_an_option_that_resembles_a_verb_is_an_option(notebook: Notebook) -> None:
    for line in ("--model", "--team"):
        with pytest.raises(UsageError, match=f"^{line} needs a value: {line} "):
            interpret(line, None, notebook)


async def test_every_verb_is_itself(notebook: Notebook) -> None:
    for name, verb in VERBS.items():
        assert interpret(name, None, notebook) == VerbLine(verb, "", None, name)
