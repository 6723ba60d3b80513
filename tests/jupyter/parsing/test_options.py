from __future__ import annotations

from pathlib import Path

import pytest

from planck_nb import Config, tool
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.namespace import describe, tools_named
from planck_nb.jupyter.parsing.options import (
    OPTIONS,
    Prompt,
    late_options,
    read_header,
    read_line,
    read_prompt_arguments,
)
from planck_nb.jupyter.verbs.verb_registry import prompts
from planck_nb.tools.changes import Changes
from planck_nb.workspace.toolbox import Toolbox


def test_options_come_first_and_the_prompt_stays_as_written() -> None:
    read = read_line("--model demo -t f,@g --new what's {this} --model?")
    assert read.options == {"model": "demo", "tools": ("f", "g"), "new": True}
    assert read.text == "what's {this} --model?"
    assert read_line("-- --model x").text == "--model x"
    assert read_line("--system='be brief' hi").options == {"system": "be brief"}


AGENTS = ["ann", "data cruncher"]


@pytest.mark.parametrize(
    ("line", "options", "text"),
    [
        ("a0 --model demo hi", {"agent": "a0", "model": "demo"}, "hi"),
        ("a0 -q --new what's this?", {"agent": "a0", "quiet": True, "new": True}, "what's this?"),
        ("--new a0 --quiet hi", {"new": True, "agent": "a0", "quiet": True}, "hi"),
        ("'big one' --model=demo hi", {"agent": "big one", "model": "demo"}, "hi"),
        ("ann hi", {"agent": "ann"}, "hi"),
        ("--quiet ann hi", {"quiet": True, "agent": "ann"}, "hi"),
        ("'data cruncher' add  it", {"agent": "data cruncher"}, "add  it"),
        ("ann -- --model is what?", {"agent": "ann"}, "--model is what?"),
        ("what is this?", {}, "what is this?"),
        ("what's this? --model", {}, "what's this? --model"),
        ("ann", {}, "ann"),
        ("data cruncher add it", {}, "data cruncher add it"),
        ("'quoted' word", {}, "'quoted' word"),
        ("git --force does what?", {}, "git --force does what?"),
        ("explain - in words", {}, "explain - in words"),
        ("-- ann hi", {}, "ann hi"),
        ("-- a0 --model demo hi", {}, "a0 --model demo hi"),
        ("--agent bob ann hi", {"agent": "bob"}, "ann hi"),
        ("", {}, ""),
    ],
)
def test_the_first_word_names_an_agent_if_that_exists_or_options_follow(
    line: str, options: dict[str, object], text: str
) -> None:
    assert read_line(line, AGENTS) == Prompt(options, text)


@pytest.mark.parametrize("header", ["a0 --model demo", "--quiet a0 -m demo --new", "'big one' -t f,g", "ann", "ann -q"])
def test_a_line_is_read_as_a_cell_is(header: str) -> None:
    assert read_line(f"{header} hi there", AGENTS) == Prompt(read_header(header), "hi there")


def test_a_header_takes_a_name_and_options_in_any_order() -> None:
    assert read_header("ann --max-tokens 5") == {"agent": "ann", "max-tokens": 5}
    assert read_header("-q ann --temperature=0.5") == {"quiet": True, "agent": "ann", "temperature": 0.5}
    assert read_header("") == {}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--modle x", "no option --modle. Did you mean --model"),
        ("--model", "--model needs a value: --model PROVIDER:MODEL."),
        ("--max-tokens many", "--max-tokens cannot be 'many': how long a reply may be, in tokens: 1 or more."),
        ("--max-tokens -5", "--max-tokens cannot be '-5'"),
        ("--temperature nan", "--temperature cannot be 'nan'"),
        ("--thinking banana", "--thinking cannot be 'banana': how much the model thinks: off, minimal"),
        ("--new=yes", "--new takes no value."),
        ("--system 'open", "A quotation mark is not closed"),
        ("--model a --model b hi", "--model is written twice, with different values; write it once."),
        ("-m a ann --model b hi", "--model is written twice"),
        ("--agent a --agent b hi", "--agent is written twice"),
        ("ann --agent bob hi", "A prompt is sent to one agent; write either ann or --agent bob."),
        ("--with ' ' hi", "--with cannot be ' ': variables for the agent"),
        ("--tools @, hi", "--tools cannot be '@,': functions of the notebook"),
        ("--allow , hi", "--allow cannot be ',': calls that need no approval"),
        ("hi --model demo", "no prompt: hi counts as an agent's name, because options follow it."),
        ("hi --model demo", "Options stand before the prompt, as in `%planck --model demo hi`."),
    ],
)
def test_a_mistake_says_what_is_wrong(line: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace(".", r"\.")):
        read_line(line)


def test_options_before_a_name_count_together_with_those_after_it() -> None:
    assert read_line("--tools f ann -t g --model a hi", AGENTS).options["tools"] == ("f", "g")
    assert read_header("--tools f ann --tools g")["tools"] == ("f", "g")
    assert read_line("--model a ann --model a --new --new hi", AGENTS).options == {
        "model": "a", "new": True, "agent": "ann",
    }  # fmt: skip
    with pytest.raises(UsageError, match="--model is written twice"):
        read_header("--model a ann --model b")
    with pytest.raises(UsageError, match="write either ann or --agent bob"):
        read_header("--agent bob ann")
    with pytest.raises(UsageError, match="--model is written twice"):
        read_prompt_arguments("--model a city=Rome --model b", "weather:report")
    with pytest.raises(UsageError, match="The argument city of the prompt weather:report is written twice"):
        read_prompt_arguments("city=Rome city=Oslo", "weather:report")


@pytest.mark.parametrize(
    ("prompt", "late"),
    [
        ("hi there --model demo", "--model demo"),
        ("hi there --new --system 'be brief'", "--new --system 'be brief'"),
        ("tidy up --tools=read", "--tools=read"),
        ("what is --model for?", ""),
        ("what does git --force do", ""),
        ("a --model", ""),
        ("one -m demo", ""),
        ("", ""),
    ],
)
def test_options_at_the_end_of_a_line_are_mentioned(prompt: str, late: str) -> None:
    assert late_options(prompt) == (
        f"{late} at the end is sent as text; options stand before the prompt." if late else ""
    )


def test_help_explains_every_option_of_a_prompt() -> None:
    assert len({option.name for option in OPTIONS}) == len(OPTIONS)
    assert all(f"--{option.name}" in prompts() and option.help in prompts() for option in OPTIONS)
    assert all(len(line) <= 120 for line in prompts().splitlines())


def test_a_value_is_described_within_bounds() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    assert describe("x", [1]) == "`x` is a list:\n\n```\n[1]\n```"
    assert "cannot be shown: RuntimeError: no text" in describe("b", Broken())
    assert len(describe("long", "y" * 100_000)) < 5_000


def test_only_functions_can_be_tools(tmp_path: Path) -> None:
    def add(a: int) -> int:
        return a

    toolbox = Toolbox(Config(tmp_path, root=tmp_path), Changes())
    assert [tool.name for tool in tools_named(["add"], {"add": add}, toolbox)] == ["add"]
    assert [tool.name for tool in tools_named(["read"], {"read": tool(add)}, toolbox)] == ["add"]
    assert [tool.name for tool in tools_named(["files"], {}, toolbox)] == ["read", "write", "edit"]
    with pytest.raises(UsageError, match="orders is of type int; only functions"):
        tools_named(["orders"], {"orders": 1}, toolbox)
    with pytest.raises(UsageError, match=r"no function or tool named ad\. Did you mean add"):
        tools_named(["ad"], {"add": add, "_hidden": add}, toolbox)
