"""What cells become before they run."""

from __future__ import annotations

import ast
import asyncio

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from planck_nb.jupyter.parsing.syntax import await_magics, take_line_magics


def transformed(cell: str) -> str:
    """The cell as IPython would run it with the extension loaded."""
    manager = TransformerManager()
    manager.cleanup_transforms.append(take_line_magics)
    return "".join(await_magics(manager.transform_cell(cell).splitlines(keepends=True)))


def call(text: str) -> str:
    return f"await get_ipython().run_line_magic('planck_awaited', {text!r})"


def blocking(text: str) -> str:
    return f"get_ipython().run_line_magic('planck', {text!r})"


WHATS = "what's {here} and $there"


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%planck what is this?", call("what is this?")),
        ("%planck", call("")),
        (f"x = %planck {WHATS}", f"x = {call(WHATS)}"),
        ("a = b = %planck hi", f"a = b = {call('hi')}"),
        ("d['k=v'] = %planck hi", f"d['k=v'] = {call('hi')}"),
        ("for i in r:\n    %planck go {i}?", f"for i in r:\n    {call('go {i}?')}"),
        ("%planck one \\\n  two", call("one    two")),
        ("é = %planck näh; ß", f"é = {call('näh; ß')}"),
        ('%planck open ( and "\nx = 1', f"{call('open ( and ' + chr(34))}\nx = 1"),
        ("async def f():\n    return_ = %planck hi", f"async def f():\n    return_ = {call('hi')}"),
        ("def f():\n    y = %planck hi", f"def f():\n    y = {blocking('hi')}"),
        ("class C:\n    y = %planck hi", f"class C:\n    y = {blocking('hi')}"),
        ("f(x=%planck)", "f(x=%planck)"),
        ("5 %planck", "5 %planck"),
        ("s = '''\n%planck no\n'''", "s = '''\n%planck no\n'''"),
        ("%planckton x", "get_ipython().run_line_magic('planckton', 'x')"),
        ("print('get_ipython().run_line_magic')", "print('get_ipython().run_line_magic')"),
    ],
)
def test_line_magics(cell: str, expected: str) -> None:
    assert transformed(cell).rstrip("\n") == expected


def test_the_cell_magic_keeps_its_body() -> None:
    body = 'what is this? {x} $y "quoted"\n%planck not a magic\n'
    assert transformed(f"%%planck ann --new\n{body}") == (
        f"await get_ipython().run_cell_magic('planck_awaited', 'ann --new', {body!r})\n"
    )


def test_an_empty_cell_is_refused_by_the_name_that_was_written() -> None:
    assert transformed("%%planck\n") == "get_ipython().run_cell_magic('planck', '', '')\n"


def test_other_cell_magics_are_left_alone() -> None:
    assert "planck_awaited" not in transformed("%%time\n%planck hi\n")


def test_every_result_is_python() -> None:
    for cell in ("%planck it's", "x = %planck a\ny = 2", "if True:\n    %planck hi\nelse:\n    pass"):
        compile(transformed(cell), "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_waiting_without_a_running_loop() -> None:
    from planck_nb.jupyter.ipython.bridge import wait_for

    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    loop = asyncio.new_event_loop()
    try:
        assert wait_for(answer(), lambda: loop) == 42
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%planck hi", blocking("hi")),
        ("x = %planck hi", f"x = {blocking('hi')}"),
        ("await nothing()\n%planck hi", f"await nothing()\n{call('hi')}"),
        ("async def f():\n    %planck hi", f"async def f():\n    {call('hi')}"),
        ("def f():\n    %planck hi", f"def f():\n    {blocking('hi')}"),
    ],
)
def test_in_a_terminal_only_async_code_awaits(cell: str, expected: str) -> None:
    lines = take_line_magics(cell.splitlines(keepends=True))
    assert "".join(await_magics(lines, only_in_async_code=True)).strip() == expected
