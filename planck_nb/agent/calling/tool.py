"""A tool: what the model sees of it, and how it is run."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from planck_nb.agent.calling.generators import adrain, drain
from planck_nb.agent.calling.json_schema import errors_of, validator
from planck_nb.agent.calling.tool_output import ToolOutput, as_output
from planck_nb.agent.effect import Effect
from planck_nb.ai.request import ToolSpec
from planck_nb.base.aio import run_in_thread
from planck_nb.base.errors import ToolError, UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import one_line

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

DEFAULT_TIMEOUT = 300.0
"""Seconds that a tool may take unless it says otherwise."""

_PROBLEM_CHARACTERS = 500

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names that every vendor takes."""


def _unseen(_text: str) -> None:
    """Where nobody watches, progress goes nowhere."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who calls, for an `execute_fn` that asks for it; `progress(text)` shows work under way, in any thread."""

    agent_id: str = ""
    call_id: str = ""
    progress: Callable[[str], None] = _unseen


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Something a model can call.

    `parameters` is the JSON Schema of the arguments object. `execute_fn` takes `(args)`, `(call_id, args)` or
    `(agent_id, call_id, args)` and may be async; a sync one runs in a thread, so it never blocks the event loop. A
    parameter annotated `ToolContext`, in addition to these, gets the call's context. What it returns is shown to the
    model as `as_output` says; a generator's yields are shown while it runs, and what it returns, or else yielded last,
    is the result. `ToolError` is how a tool says that it failed. `timeout` is in seconds, None for no limit. `touches`
    tells what a call with these arguments would touch, for whoever decides whether it may run. `guidance` is a sentence
    or two for the system prompt on how to use the tool well. `at` gives the same tool with another working directory,
    for tools that have one and were not told which. `function` is the Python function that `@tool` made the tool from:
    calling the tool calls it. Raises `UsageError` for what no model could call: another name than vendors take,
    parameters that are no object, a timeout that is over before the call.
    """

    name: str
    description: str
    parameters: JsonObject = field(default_factory=lambda: {"type": "object", "properties": {}})
    execute_fn: Callable[..., object]
    timeout: float | None = DEFAULT_TIMEOUT
    touches: Callable[[JsonObject], Iterable[Effect]] | None = field(default=None, repr=False)
    guidance: str = field(default="", repr=False)
    at: Callable[[Path], Tool] | None = field(default=None, repr=False)
    function: Callable[..., Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise UsageError(
                f"{self.name!r} cannot be the name of a tool: models take letters from a to z, digits, _ and -, "
                "64 at most; give another `name`."
            )
        if not isinstance(self.parameters, dict):
            raise UsageError(f"The parameters of {self.name} must be a JSON Schema, a dictionary.")
        if not callable(self.execute_fn):
            raise UsageError(f"The execute_fn of {self.name} must be a function, not {self.execute_fn!r}.")
        if self.timeout is not None and not self.timeout > 0:
            raise UsageError(f"The timeout of {self.name} must be above 0 seconds, or None for no limit.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, D102 - as the function
        if self.function is None:
            message = f"{self.name} is not made from a Python function; an agent calls it with an arguments object."
            raise TypeError(message)
        return self.function(*args, **kwargs)

    @cached_property
    def spec(self) -> ToolSpec:
        """What the model sees."""
        return ToolSpec(self.name, self.description, self.parameters)

    @cached_property
    def _signature(self) -> list[inspect.Parameter]:
        try:
            return list(inspect.signature(self.execute_fn).parameters.values())
        except (TypeError, ValueError):  # a builtin without a signature
            return [inspect.Parameter("args", inspect.Parameter.POSITIONAL_ONLY)]

    @cached_property
    def _takes(self) -> int:
        positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
        return sum(
            item.kind in positional and item.default is inspect.Parameter.empty and item.name != self._context_name
            for item in self._signature
        )

    @cached_property
    def _context_name(self) -> str | None:
        return next((item.name for item in self._signature if is_context(item.annotation)), None)

    @cached_property
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.execute_fn) or inspect.isasyncgenfunction(self.execute_fn)

    @cached_property
    def _validator(self) -> Draft202012Validator:
        return validator(self.parameters)

    def check(self, args: JsonObject) -> None:
        """Raise `ToolError` unless `args` fits `parameters`; the model reads the message and can mend its call."""
        if self.function is not None:
            return  # the function's own signature validates, and converts as well
        problems = [_problem(error) for error in errors_of(self._validator, args)]
        if problems:
            raise ToolError(f"Invalid arguments for {self.name}: {'; '.join(problems)}.")

    async def run(
        self,
        args: JsonObject,
        *,
        agent_id: str = "",
        call_id: str = "",
        progress: Callable[[str], None] = _unseen,
    ) -> ToolOutput:
        """Run the tool and give its result as the model reads it. Raises `ToolError` where it failed."""
        self.check(args)
        operands = (agent_id, call_id, args)[-self._takes :] if self._takes in {1, 2, 3} else (args,)
        call = partial(self.execute_fn, *operands)
        if self._context_name is not None:
            call = partial(call, **{self._context_name: ToolContext(agent_id, call_id, progress)})
        stopped = threading.Event()
        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                value = call() if self._is_async else await run_in_thread(lambda: _finished(call(), progress, stopped))
                return await _settled(value, progress, stopped)
        except (ToolError, asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # SystemExit or KeyboardInterrupt from a task would end the kernel
            if limit.expired():
                raise ToolError(
                    f"{self.name} did not return within {self.timeout:g} s and was given up; ask for less at once."
                ) from error
            raise ToolError(_failure(error)) from error
        finally:
            stopped.set()

    def touched(self, args: JsonObject) -> tuple[Effect, ...]:
        """What a call with these arguments would touch; nothing where the tool does not declare it.

        Never raises. A declaration that fails, as it may for arguments that nobody checked, counts as touching
        anything: one `execute` without a target.
        """
        if self.touches is None:
            return ()
        try:
            found = tuple(self.touches(args))
        except Exception:  # noqa: BLE001 - whatever a declaration raises, the call is still to be decided about
            return _ANYTHING
        return found if all(isinstance(item, Effect) for item in found) else _ANYTHING


_ANYTHING = (Effect("execute"),)

_QUICK = (str, ToolOutput, type(None), int, float)
"""Results that become an output at once; others, such as a figure, may take their time and do so in a thread."""


def _finished(value: object, progress: Callable[[str], None], stopped: threading.Event) -> object:
    """In a thread: the output of what a sync function returned, unless only the event loop can finish it."""
    if inspect.isgenerator(value):
        value = drain(value, progress, stopped)
    return value if inspect.isawaitable(value) or inspect.isasyncgen(value) else as_output(value)


async def _settled(value: object, progress: Callable[[str], None], stopped: threading.Event) -> ToolOutput:
    """On the event loop: the output of what is there, or comes."""
    if inspect.isawaitable(value):
        value = await value
    if inspect.isasyncgen(value):
        value = await adrain(value, progress)
    if isinstance(value, _QUICK):
        return as_output(value)
    return as_output(await run_in_thread(lambda: _finished(value, progress, stopped)))


def is_context(annotation: object) -> bool:
    """Whether a parameter's annotation, perhaps still a string, asks for the `ToolContext`."""
    if isinstance(annotation, str):
        return any(name.strip().rpartition(".")[2] == ToolContext.__name__ for name in annotation.split("|"))
    wraps = get_origin(annotation) in {Union, UnionType, Annotated}
    return annotation is ToolContext or (wraps and ToolContext in get_args(annotation))


def _failure(error: BaseException) -> str:
    said = str(error).strip()
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _problem(error: ValidationError) -> str:
    where = ".".join(str(step) for step in error.absolute_path)
    said = one_line(error.message, _PROBLEM_CHARACTERS)  # it quotes the value, however long
    return f"{where}: {said}" if where else said


def tool_specs(tools: Mapping[str, Tool]) -> tuple[ToolSpec, ...]:
    """What a model sees of the tools."""
    return tuple(tool.spec for tool in tools.values())
