from __future__ import annotations

from pathlib import Path

import pytest

from planck_nb import Config
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.namespace import describe, mentioned, tools_named
from planck_nb.jupyter.options import OPTIONS, parse, parse_header
from planck_nb.jupyter.verbs import VERBS
from planck_nb.tools.changes import Changes
from planck_nb.workspace.toolbox import Toolbox


def test_options_come_first_and_the_prompt_stays_as_written() -> None:
    parsed = parse("--model demo -t f,@g --new what's {this} --model?")
    assert parsed.options == {"model": "demo", "tools": ("f", "g"), "new": True}
    assert parsed.rest == "what's {this} --model?"
    assert parse("-- --model x").rest == "--model x"
    assert parse("--system='be brief' hi").options == {"system": "be brief"}


def test_a_header_takes_a_name_and_options_in_any_order() -> None:
    assert parse_header("ann --max-tokens 5") == {"agent": "ann", "max-tokens": 5}
    assert parse_header("-q ann --temperature=0.5") == {"quiet": True, "agent": "ann", "temperature": 0.5}
    assert parse_header("") == {}


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
    ],
)
def test_a_mistake_says_what_is_wrong(line: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace(".", r"\.")):
        parse(line)


def test_help_names_every_option_and_every_verb_has_a_help_line() -> None:
    assert len({option.name for option in OPTIONS}) == len(OPTIONS)
    assert all(verb.usage.split()[0] == name and verb.help for name, verb in VERBS.items())


def test_mentions_are_names_of_the_notebook() -> None:
    names = {"add": len, "orders": 1, "org": 2}
    assert mentioned("use @add on @orders, mail me@org or @nobody, @add", names) == ["add", "orders"]


def test_a_value_is_described_within_bounds() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert describe("x", [1]) == "`x` is a list:\n\n```\n[1]\n```"
    assert "cannot be shown: RuntimeError: no text" in describe("b", Broken())
    assert len(describe("long", "y" * 100_000)) < 5_000


def test_only_functions_can_be_tools(tmp_path: Path) -> None:
    def add(a: int) -> int:
        return a

    toolbox = Toolbox(Config(tmp_path, root=tmp_path), Changes())
    assert [tool.name for tool in tools_named(["add"], {"add": add}, toolbox)] == ["add"]
    assert [tool.name for tool in tools_named(["read"], {"read": add}, toolbox)] == ["add"]
    assert [tool.name for tool in tools_named(["files"], {}, toolbox)] == ["read", "write", "edit"]
    with pytest.raises(UsageError, match="orders is a int, not a function"):
        tools_named(["orders"], {"orders": 1}, toolbox)
    with pytest.raises(UsageError, match=r"no function or tool named ad\. Did you mean add"):
        tools_named(["ad"], {"add": add, "_hidden": add}, toolbox)
