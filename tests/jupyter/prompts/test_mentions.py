"""What counts as a mention, and what the agent gets for it."""

from __future__ import annotations

import functools
import os
import shutil
import time
from contextlib import ContextDecorator
from pathlib import Path
from typing import Any

import pytest

from planck_nb import tool
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.prompts.mentions import mentioned, mentions

CELL = "/tmp/ipykernel_1/123.py"
REMOVE = functools.partial(shutil.rmtree, ignore_errors=True)


def cell(source: str, **names: Any) -> dict[str, Any]:
    """The variables after a cell with this source has run in a notebook."""
    namespace: dict[str, Any] = {"__name__": "__main__", **names}
    exec(compile(source, CELL, "exec"), namespace)
    return namespace


TYPED = {
    "Use @name.": ["name"],
    "@name": ["name"],
    "Compare @a, @b and (@c); then @a again": ["a", "b", "c"],
    "# Plot @name": ["name"],
    "- use @a\n- and @b": ["a", "b"],
    "1. first\n\n   with @name": ["name"],
    "| what |\n|---|\n| @name |": ["name"],
    "*@name* and **@other**": ["name", "other"],
    "Use\n@name\nnow": ["name"],
    "@name.head() of @other's rows": ["name", "other"],
    "the users' @name and the others' rows": ["name"],
    "I don't know @name and can't say": ["name"],
    "mean:@name": ["name"],
    "[see @name](https://x.test)": ["name"],
    "Use @_private and @été": ["_private"],
    "If a < b use @name > 3": ["name"],
    "@media": ["media"],
    "Show @media as a table": ["media"],
    "@one\n@two": ["one", "two"],
    "<b>@name</b> is <i>larger</i> than <div>@other</div>": ["name", "other"],
    "x <y @name": ["name"],
    "if a<b: @name > c": ["name"],
    "why is <pre> so wide in @name?": ["name"],
    "between `<pre>` and @name, `</pre>`": ["name"],
    "<pre>a</pre> @name <pre>b</pre>": ["name"],
    "<!-- a --> @name <!-- b -->": ["name"],
    "« a » @name « b », »a« @other »b«": ["name", "other"],
    "「a」@name「b」": ["name"],
    "@use has two columns; plot them": ["use"],
    "Plot @scope; then @page": ["scope", "page"],
}
NOT_TYPED = [
    "mail me@name.org",
    "mail first.last+tag@name",
    "`@name`",
    "``a ` @name``",
    "```\n@name\n```",
    "~~~python\n@name\n~~~",
    "```\n@name",
    "Look:\n\n    @name\n",
    "> @name",
    "> he wrote\n> use @name",
    "> > @name",
    "- > @name",
    '"use @name"',
    'They said "use\n@name now" to me',
    "“use @name”",
    "„use @name“",
    "«use @name»",
    "\u2018use @name\u2019",
    "'use @name'",
    "('use @name')",
    "'it's @name'",
    "@name/package",
    "npm i @name/ui-kit",
    "pip install 'x' @name/y",
    "@@name",
    "\\@name",
    "git@name:repo",
    "a/@name",
    "@name\ndef f(): pass",
    "@name(1, 2)\nasync def f(): pass",
    "@name.route('/')\n@name\nclass A: pass",
    "@media (max-width: 600px) { a { b: c } }",
    "@media screen and (x) {",
    "@import url(x)",
    "@keyframes slide { }",
    "[x](@name)",
    "[x](https://x.test/@name)",
    "https://x.test/@name",
    "50%@name",
    "a <!-- @name --> b",
    "<!--\n\n@name\n\n-->",
    "<!-- @name",
    *(f"x <{tag}>@name</{tag.upper()}>" for tag in "blockquote code kbd pre q samp script style textarea var".split()),
    "<pre class='x'>\n\n@name\n\n</pre>",
    "<code><b>@name</b></code>",
    "<a title=@name>x</a>",
    "<a title='@name' b>x</a>",
    '<img alt="@name"/>',
    "<img alt=@name />",
    "<x-y\n@name>",
    *(
        f"{quotes[0]}use @name{quotes[1]}"
        for quotes in "\u2039\u203a »« \u203a\u2039 「」 『』 《》 〈〉 〝〞 〝〟 \uff02\uff02".split()
    ),
    "\u201ause @name\u2018",
    "\u201buse @name\u2019",
    "@name-style x {}",
    "@font-feature-values x {",
    "@starting-style {\n}",
    "@page :first {",
    "@scope (.a) {",
    "@viewport { }",
    "@tailwind base;",
    ".a { @apply px-4 py-2; }",
    "@include x($y);",
    "@mixin x($y) {",
    '@use "x";',
    "@if $a == b {",
]


@pytest.mark.parametrize(("prompt", "names"), TYPED.items())
def test_typed_names_count(prompt: str, names: list[str]) -> None:
    assert mentioned(prompt) == names


@pytest.mark.parametrize("prompt", NOT_TYPED)
def test_quoted_names_code_and_addresses_do_not_count(prompt: str) -> None:
    assert mentioned(prompt) == []


def test_functions_of_cells_become_tools_and_values_are_shown() -> None:
    found = mentions("Use @add on @rows and @text.", cell("def add(a): ...\nrows = [1, 2]\ntext = 'abc'"))
    assert found.functions == ("add",)
    assert found.values == ("rows", "text")
    assert found.notices == ("With: rows (list of 2), text (str, 3 characters), add()",)


def test_a_decorated_function_and_a_tool_of_a_cell_are_handed_over() -> None:
    source = "@functools.cache\ndef a(x): ...\n@tool\ndef b(x: int): ...\n@tool(name='c')\ndef c_(x: int): ...\n"
    found = mentions("@a @b @c_ @d", cell(f"{source}d = lambda: 1", functools=functools, tool=tool))
    assert found.functions == ("a", "b", "c_", "d")


def test_methods_partials_and_callable_objects_of_cells_are_handed_over() -> None:
    source = """
class Search:
    def __call__(self, text): ...
    def newest(self): ...
class Row:
    pass
def scale(value, factor): ...
double, search, row = partial(scale, factor=2), Search(), Row()
twice, made, newest = partial(double), partial(tool(name='made')(scale)), search.newest
inherited = type('Part', (partial,), {'func': None})(scale)
"""
    found = mentions(
        "@double @twice @made @search @newest @inherited @Search @row",
        cell(source, partial=functools.partial, tool=tool),
    )
    assert found.functions == ("double", "twice", "made", "search", "newest", "inherited")
    assert found.values == ("Search", "row")


def test_objects_that_a_library_makes_callable_are_values() -> None:
    found = mentions("@get", cell("class Get(ContextDecorator): ...\nget = Get()", ContextDecorator=ContextDecorator))
    assert (found.functions, found.values) == ((), ("get",))


@pytest.mark.parametrize(
    "value",
    [os.system, print, shutil.rmtree, [].append, os.environ.get, functools.wraps, str.upper, Path.unlink, REMOVE],
)
def test_what_was_imported_is_not_handed_over(value: Any) -> None:
    found = mentions("Use @it.", {"it": value})
    assert (found.functions, found.values) == ((), ())
    assert found.notices == (
        "@it was not defined in a cell and is not passed to the agent; add --tools it if it should be.",
    )


def test_functions_of_scripts_and_imported_tools_are_not_handed_over(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("def run(): ...", encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(script.read_text(encoding="utf-8"), script, "exec"), namespace)
    assert mentions("@run", namespace).functions == ()
    assert mentions("@imported", {"imported": imported}).functions == ()
    assert mentions("@alias", {"alias": imported}).functions == ()


@tool
def imported() -> None:
    """A tool of this module."""


@pytest.mark.parametrize("name", ["password", "api_key", "DB_PASSWORD", "token", "client_secret"])
def test_a_secret_needs_an_option(name: str) -> None:
    namespace = {name: "hunter2"}
    found = mentions(f"Log in with @{name}.", namespace)
    assert found.values == ()
    assert "hunter2" not in "".join(found.notices)
    assert found.notices == (
        f"@{name} looks like a secret and is not passed to the agent; add --with {name} if it should be.",
    )
    assert mentions(f"Log in with @{name}.", namespace, [name]).values == (name,)


def test_a_function_with_a_secret_name_needs_it_too() -> None:
    assert mentions("@get_password", cell("def get_password(): ...")).functions == ()


def test_an_unknown_name_is_explained_with_the_nearest() -> None:
    found = mentions("Plot @dff and @zzz.", {"df": 1})
    assert found.notices == ("There is no variable @dff; did you mean @df?", "There is no variable @zzz.")


@pytest.mark.parametrize(
    ("written", "known"),
    [("order", "orders"), ("Orders", "orders"), ("ordres", "orders"), ("custmer_tabel", "customer_table")],
)
def test_a_misspelt_name_is_refused(written: str, known: str) -> None:
    with pytest.raises(UsageError) as refused:
        mentions(f"Plot @{written}.", {"other": 1, known: 2})
    assert str(refused.value) == (
        f"There is no variable @{written}. Did you mean @{known}? Nothing was sent; "
        f"write \\@{written} if it is no variable."
    )
    assert mentions(f"Plot \\@{written}.", {known: 2}).notices == ()


@pytest.mark.parametrize(
    ("written", "known"),
    [("alice", "orders"), ("df2", "df1"), ("df", "pf"), ("worker3", "worker1"), ("orders", "_orders")],
)
def test_a_name_of_its_own_is_not_refused(written: str, known: str) -> None:
    [notice] = mentions(f"Tell @{written}.", {known: 1}).notices
    assert notice.startswith(f"There is no variable @{written}")


def test_many_unknown_names_are_counted_at_once() -> None:
    namespace: dict[str, object] = {f"variable_{number}": number for number in range(500)}
    prompt = " ".join(f"@handle_{number}" for number in range(2_000))
    before = time.thread_time()
    notices = mentions(f"{prompt} @variable_7", namespace).notices
    assert time.thread_time() - before < 1
    assert notices[0] == "With: variable_7 (int)"
    assert [notice.split("@")[0] for notice in notices[1:6]] == ["There is no variable "] * 5
    assert notices[6:] == ("There are no variables for 1,995 other names with @ either.",)
    assert mentions(" ".join(f"@h{number}" for number in range(6)), {}).notices[5:] == (
        "There are no variables for 1 other name with @ either.",
    )


def test_an_unknown_name_that_is_to_be_handed_over_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"^There is no variable named order\. Did you mean orders\?$"):
        mentions("Plot it.", {"orders": 1}, ["order"])


def test_the_size_of_unknown_types_is_not_computed() -> None:
    class Hostile:
        @property
        def shape(self) -> None:
            raise AssertionError

        def __len__(self) -> int:
            raise AssertionError

    assert mentions("@it", {"it": Hostile()}).notices == ("With: it (Hostile)",)


def test_tables_are_described_by_their_shape() -> None:
    import pandas as pd

    assert mentions("@df", {"df": pd.DataFrame({"a": [1, 2, 3], "b": 0})}).notices == (
        "With: df (DataFrame 3 \u00d7 2)",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "mark",
    [
        "@a",
        "@a/",
        "@",
        "'@a ",
        '"',
        "“",
        "@media ",
        "@a\n",
        "a",
        "@a-",
        "'a",
        "<a ",
        "<!--",
        "<pre>",
        "</q>",
        "»",
        "<a '",
    ],
)
def test_finding_mentions_is_linear(mark: str) -> None:
    def seconds(length: int) -> float:
        text = "@" + mark * (length // len(mark)) + "/x"
        before = time.thread_time()
        mentioned(text)
        return time.thread_time() - before

    for _ in range(3):
        long = seconds(80_000)
        if long < 0.1 or long < 9 * seconds(20_000):
            return
    pytest.fail(f"{long:.2f} s")
