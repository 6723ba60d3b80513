"""Tools that yield while they work, and tools that want to know their call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Annotated

import pytest

from planck_nb import Effect, Tool, ToolContext, ToolError, tool
from planck_nb.base.errors import UsageError


async def run(made: Tool, **args: object) -> tuple[str, str]:
    """The result, and what was shown on the way."""
    shown: list[str] = []
    output = await made.run(args, agent_id="agent", call_id="call", progress=shown.append)
    return output.text, "".join(shown)


async def test_what_a_generator_yields_is_shown_and_what_it_returns_is_the_result() -> None:
    @tool
    def count(to: int) -> Generator[object, None, list[int]]:
        yield "begin"
        yield {"n": to}
        return [to]

    @tool
    def silent(to: int) -> Iterator[int]:
        yield from range(to)

    @tool
    async def later(to: int) -> AsyncIterator[int]:
        for number in range(to):
            await asyncio.sleep(0)
            yield number

    raw = Tool(name="raw", description="", execute_fn=lambda args: (letter for letter in args["text"]))
    assert await run(count, to=2) == ("[2]", 'begin\n{"n":2}\n')
    assert await run(silent, to=3) == ("2", "0\n1\n2\n")
    assert await run(silent, to=0) == ("(no result)", "")
    assert await run(later, to=2) == ("1", "0\n1\n")
    assert await run(later, to=0) == ("(no result)", "")
    assert await run(raw, text="ab") == ("b", "a\nb\n")


async def test_a_generator_that_fails_says_how() -> None:
    @tool
    def half() -> Iterator[str]:
        yield "one"
        raise KeyError("two")

    @tool
    async def half_later() -> AsyncIterator[str]:
        yield "one"
        raise KeyError("two")

    for made in (half, half_later):
        with pytest.raises(ToolError, match="KeyError: 'two'"):
            await run(made)


async def test_a_stopped_call_closes_its_generator_at_the_next_yield() -> None:
    begun, closed, go_on = asyncio.Event(), threading.Event(), threading.Event()
    past: list[str] = []
    loop = asyncio.get_running_loop()

    @tool
    def endless() -> Iterator[int]:
        try:
            yield 0
            loop.call_soon_threadsafe(begun.set)
            go_on.wait()
            yield 1
            past.append("the yield")
        finally:
            closed.set()

    call = asyncio.create_task(run(endless))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go_on.set()
    assert await asyncio.to_thread(closed.wait, 60)
    assert past == []


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_stopped_call_closes_its_async_generator_before_it_ends(stubborn: bool) -> None:
    said: list[str] = []
    begun = asyncio.Event()

    @tool(timeout=5)
    async def endless() -> AsyncIterator[int]:
        try:
            yield 0
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not stubborn:
                    raise
            yield 1
            said.append("went on")
        finally:
            await asyncio.sleep(0)
            said.append("closed")

    call = asyncio.create_task(run(endless))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert said == ["closed"]


async def test_a_generator_that_takes_too_long_is_stopped() -> None:
    closed = threading.Event()

    @tool(timeout=0.5)  # in which the thread of the generator begins
    def endless() -> Iterator[str]:
        try:
            while True:
                yield "on"
        finally:
            closed.set()

    with pytest.raises(ToolError, match=r"did not return within 0\.5 s"):
        await run(endless)
    assert await asyncio.to_thread(closed.wait, 60)


async def test_the_model_cannot_pass_the_context() -> None:
    @tool
    def sync(x: int, who: ToolContext) -> str:
        """Add.

        Args:
            x: A number.
            who: Not shown.
        """
        who.progress("at work")
        return f"{x} {who.agent_id} {who.call_id}"

    @tool
    async def optional(who: ToolContext | None = None, x: int = 1) -> str:
        return f"{x} {who.call_id if who else None}"

    @tool
    def annotated(*, who: Annotated[ToolContext, "the call"]) -> str:
        return who.agent_id

    assert list(sync.parameters["properties"]) == ["x"]
    assert list(optional.parameters["properties"]) == ["x"]
    assert annotated.parameters["properties"] == {}
    assert await run(sync, x=2) == ("2 agent call", "at work")
    assert await run(optional) == ("1 call", "")
    assert await run(annotated) == ("agent", "")
    with pytest.raises(ToolError, match="who: Extra inputs"):
        await run(sync, x=2, who={})
    assert sync(2, ToolContext("a", "b")) == "2 a b"
    with pytest.raises(UsageError, match="two cannot be a tool: a model cannot write"):

        @tool
        def two(first: ToolContext, second: Callable[[], ToolContext]) -> None: ...


async def test_effects_are_declared_as_kinds_or_by_a_function() -> None:
    @tool(touches=["read", "network"], guidance="Use it sparingly.")
    def fixed(x: int) -> int:
        return x

    @tool(touches=lambda args: [Effect("write", args["path"])])
    def varying(path: str) -> str:
        return path

    @tool
    def unsaid() -> None: ...

    assert fixed.touched({"x": 1}) == (Effect("read"), Effect("network"))
    assert fixed.guidance == "Use it sparingly."
    assert await run(fixed, x=1) == ("1", "")
    assert varying.touched({"path": "/a"}) == (Effect("write", "/a"),)
    assert unsaid.touched({}) == ()
    assert unsaid.guidance == ""


def test_a_declaration_that_fails_counts_as_touching_anything() -> None:
    anything = (Effect("execute"),)
    wrong: list[Callable[..., object]] = [
        lambda args: [Effect("write", args["path"])],
        lambda _args: None,
        lambda _args: "read",
    ]
    for touches in wrong:
        made = Tool(name="t", description="", execute_fn=str, touches=touches)  # type: ignore[arg-type]
        assert made.touched({}) == anything
    for kinds in (["reed"], "writes", [1]):
        with pytest.raises(UsageError, match="touches is a function, or a list of read, write, execute, network"):
            tool(touches=kinds)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("way", "said"), [(SystemExit(3), "SystemExit: 3"), (KeyboardInterrupt(), "KeyboardInterrupt")]
)
async def test_an_async_tool_that_exits_does_not_end_the_kernel(way: BaseException, said: str) -> None:
    @tool
    async def leave() -> None:
        raise way

    with pytest.raises(ToolError, match=said):
        await run(leave)


async def test_a_slow_result_of_an_async_tool_does_not_block_the_loop() -> None:
    drawing, drawn = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class Slow:
        def __str__(self) -> str:
            loop.call_soon_threadsafe(drawing.set)
            assert drawn.wait(60)
            return "drawn"

    @tool
    async def draw() -> object:
        return Slow()

    call = asyncio.create_task(run(draw))
    await drawing.wait()
    drawn.set()
    assert await call == ("[Slow] drawn", "")
