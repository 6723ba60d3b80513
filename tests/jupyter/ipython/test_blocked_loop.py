"""Where an interrupt may raise an exception: below a caller that is marked, in code of the user's."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from planck_nb.agent.calling.user_code import UserInterrupt, calls_user_code
from planck_nb.jupyter.ipython.blocked_loop import BlockedLoop, interruption

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@calls_user_code
def marked(function: Callable[[], Any]) -> Any:
    return function()


def here(*, is_ours: bool = True) -> str:
    """What would be raised in the caller."""
    error = interruption(sys._getframe(1), is_ours=is_ours)
    return type(error).__name__


def function_of(module: str, inner: Callable[[], Any], file: str = "cell") -> Callable[[], Any]:
    """A function of a module, which calls another one."""
    namespace: dict[str, Any] = {"__name__": module, "inner": inner}
    exec(compile("def function():\n    return inner()", file, "exec"), namespace)
    function: Callable[[], Any] = namespace["function"]
    return function


def innermost(module: str) -> Callable[[], str]:
    namespace: dict[str, Any] = {"__name__": module, "here": here}
    exec("def function():\n    return here()", namespace)
    function: Callable[[], str] = namespace["function"]
    return function


STACKS = {
    "a function of the user's": (["__main__"], UserInterrupt),
    "a function in a module": (["analysis.tools"], UserInterrupt),
    "a library that it calls": (["__main__", "requests.api", "socket"], UserInterrupt),
    "one that was made a tool": (["planck_nb.agent.calling.functions", "__main__"], UserInterrupt),
    "a compactor with a fallback": (["planck_nb.agent.context.compactor", "__main__"], UserInterrupt),
    "our own call": (["planck_nb.agent.calling.functions"], None),
    "our own code below the user's": (["__main__", "planck_nb.sessions.session"], None),
    "a library below our own code": (["__main__", "planck_nb.sessions.session", "duckdb"], None),
    "a print in a call": (["__main__", "planck_nb.jupyter.routed_stream"], None),
    "progress": (["__main__", "planck_nb.agent.calling.progress", "threading"], None),
    "a print in a cell": (["__main__", "ipykernel.iostream", "threading"], None),
    "a message": (["__main__", "zmq.sugar.socket"], None),
    "asyncio": (["__main__", "asyncio.base_events"], None),
    "tornado": (["__main__", "tornado.ioloop"], None),
}
"""Modules of functions below a marked caller, the innermost last, and what is raised."""


@pytest.mark.parametrize("case", STACKS)
def test_only_code_of_the_users_is_interrupted(case: str) -> None:
    modules, expected = STACKS[case]
    *outer, last = modules
    function = innermost(last)
    for module in reversed(outer):
        function = function_of(module, function)
    assert marked(function) == (expected or type(None)).__name__
    assert function() == "NoneType", "without a marked caller"


COROUTINE = "async def function():\n    return here(is_ours=is_ours)"


@pytest.mark.parametrize(
    ("file", "is_ours", "expected"),
    [
        ("/tmp/ipykernel_1/2.py", True, "CancelledError"),
        ("cell", False, "NoneType"),
        (asyncio.__file__, True, "NoneType"),
    ],
)
async def test_a_task_of_the_users_is_cancelled(file: str, is_ours: bool, expected: str) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__", "here": here, "is_ours": is_ours}
    exec(compile(COROUTINE, file, "exec"), namespace)
    assert await asyncio.create_task(namespace["function"]()) == expected


async def test_a_callback_is_not_interrupted() -> None:
    raised: list[str] = []
    asyncio.get_running_loop().call_soon(function_of("__main__", lambda: raised.append(here())))
    await asyncio.sleep(0)
    assert raised == ["NoneType"]


class Kernel(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(pre_handler_hook=self.nothing, post_handler_hook=self.nothing)

    def nothing(self) -> None:
        """As ipykernel's own hooks."""


def test_everything_is_restored() -> None:
    kernel = Kernel()
    hooks = kernel.pre_handler_hook, kernel.post_handler_hook
    before = signal.getsignal(signal.SIGURG)
    blocked = BlockedLoop(kernel)
    blocked.install()
    assert kernel.post_handler_hook != hooks[1]
    assert signal.set_wakeup_fd(-1) != -1
    blocked.remove()
    blocked.remove()
    assert (kernel.pre_handler_hook, kernel.post_handler_hook) == hooks
    assert signal.getsignal(signal.SIGURG) == before
    assert signal.set_wakeup_fd(-1) == -1


def test_a_wakeup_file_of_other_code_stays() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    try:
        kernel = Kernel()
        hook = kernel.post_handler_hook
        BlockedLoop(kernel).install()
        assert kernel.post_handler_hook == hook
    finally:
        assert signal.set_wakeup_fd(-1) == writer
        os.close(reader)
        os.close(writer)


def test_between_cells_an_interrupt_is_heard() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel = Kernel()
    blocked = BlockedLoop(kernel)
    blocked.install()
    try:
        kernel.post_handler_hook()
        assert callable(signal.getsignal(signal.SIGINT))
        signal.raise_signal(signal.SIGINT)  # which does nothing
    finally:
        blocked.remove()
        signal.signal(signal.SIGINT, before)
