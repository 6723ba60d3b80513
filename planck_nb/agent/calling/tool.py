"""`Tool`: what the model sees of a tool, and how it is run."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from planck_nb.agent.calling.approved_call import ApprovedCall, FileVersion
from planck_nb.agent.calling.json_schema import errors_of, validator
from planck_nb.agent.calling.tool_output import ToolOutput, as_output
from planck_nb.agent.calling.user_code import STOPPED, UserInterrupt, calls_user_code
from planck_nb.agent.effect import Effect
from planck_nb.agent.tokens import estimate_tool
from planck_nb.ai.request import ToolSpec
from planck_nb.ai.server_tools import ServerTool
from planck_nb.base.errors import CallStoppedError, ToolError, UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import one_line
from planck_nb.base.threads import run_in_thread
from planck_nb.base.timeouts import within

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

DEFAULT_TIMEOUT = 300.0
"""Seconds that a tool may take by default."""

_PROBLEM_CHARACTERS = 500

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names that every vendor accepts."""


def _ignore_progress(_text: str) -> None:
    """The default `progress`: shows nothing."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The context of a call, for functions with a parameter annotated `ToolContext`.

    Args:
        agent_id: The id of the agent that calls the tool.
        call_id: The id of the call.
        progress: Shows text while the tool runs; can be called from any thread.
        touches: The effects that were approved, with the paths resolved; None if nothing was checked. A tool that opens
            these paths without following links opens what was approved.
        versions: The files that the call changes, as they were when a person was asked: modification time in
            nanoseconds, size in bytes and inode, by resolved path, None for a file that did not exist. Empty if no
            person was asked.
    """

    agent_id: str = ""
    call_id: str = ""
    progress: Callable[[str], None] = _ignore_progress
    touches: tuple[Effect, ...] | None = None
    versions: Mapping[str, FileVersion | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A function that a model can call; usually made by `@tool`.

    Args:
        name: 1 to 64 letters from a to z or A to Z, digits, `_` and `-`.
        description: What the tool does, for the model.
        parameters: The JSON Schema of the arguments object.
        execute_fn: Called with `(args)`, `(call_id, args)` or `(agent_id, call_id, args)`, as many as it requires, and
            with a `ToolContext` for a parameter annotated as one. It may be async; a sync function runs in a thread, so
            that it does not block the event loop. `as_output` converts what it returns to text and images. If it is a
            generator, what it yields is shown while it runs, and its result is its return value or else the last value
            that it yielded. It raises `ToolError` to report a failure to the model. As in Planck, it may also return
            `("ok", result)` or `("error", reason)`.
        timeout: Seconds that a call may take, None for no limit.
        touches: Returns the effects that a call with these arguments would have, for the approval policy. None
            declares nothing.
        guidance: A sentence or two for the system prompt on how to use the tool well.
        guide: Returns a section of the system prompt on how to use a group of tools well, given the names of all tools
            of the agent. Tools with the same `guide` have one section together.
        at: Returns the same tool in another working directory, for tools that have one but were not given one.
        function: The Python function that `@tool` made the tool from; calling the tool calls it.
        server: The tool of the model's server that this one stands for; nothing runs here.
        aliases: Other names that a model may call it by, such as former ones.
        accept: Converts the arguments of calls that use other names, such as former ones, to those that `parameters`
            describes. It is called before they are checked.
        sandboxed: Returns whether the commands that the tool runs are in a sandbox, which lets them write only below
            their working directory and has no network, except for what `touches` declares. It may block. None if the
            tool runs no commands or this is not known.
        waits: Whether a call only waits, for example for another agent. Such calls do not count towards the limit on
            how many calls of a reply run at the same time.
        unrestricted: Whether a call can do everything that the user can, so that what it affects is not known in
            advance. Each such call needs approval, and no rule can allow it; see `allow` of `Agent.prompt`.

    Raises:
        UsageError: If `name`, `parameters` or `timeout` is not valid, or `execute_fn` is not a function.

    Example:
        >>> echo = Tool(name="echo", description="Return the text.", execute_fn=lambda args: args["text"])
        >>> echo.spec.name
        'echo'
    """

    name: str
    description: str
    parameters: JsonObject = field(default_factory=lambda: {"type": "object", "properties": {}})
    execute_fn: Callable[..., object]
    timeout: float | None = DEFAULT_TIMEOUT
    touches: Callable[[JsonObject], Iterable[Effect]] | None = field(default=None, repr=False)
    guidance: str = field(default="", repr=False)
    guide: Callable[[Collection[str]], str] | None = field(default=None, repr=False)
    at: Callable[[Path], Tool] | None = field(default=None, repr=False)
    function: Callable[..., Any] | None = field(default=None, repr=False)
    server: ServerTool | None = field(default=None, repr=False)
    aliases: tuple[str, ...] = field(default=(), repr=False)
    accept: Callable[[JsonObject], JsonObject] | None = field(default=None, repr=False)
    sandboxed: Callable[[], bool] | None = field(default=None, repr=False)
    waits: bool = field(default=False, repr=False)
    unrestricted: bool = field(default=False, repr=False)

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
    def estimated_tokens(self) -> int:
        """The estimated tokens of `spec`."""
        return estimate_tool(self.spec)

    @cached_property
    def _signature(self) -> list[inspect.Parameter]:
        try:
            return list(inspect.signature(self.execute_fn).parameters.values())
        except (TypeError, ValueError):  # a builtin without a signature
            return [inspect.Parameter("args", inspect.Parameter.POSITIONAL_ONLY)]

    @cached_property
    def _required_count(self) -> int:
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
        """Check arguments against the schema.

        Args:
            args: The arguments object. Those of a function tool are validated when it runs, not here.

        Raises:
            ToolError: If the arguments do not match `parameters`. The model reads the message and can correct the call.
        """
        self._require_valid(args if self.accept is None else self.accept(args))

    def _require_valid(self, args: JsonObject) -> None:
        """Raise `ToolError` unless the schema allows the arguments, which `accept` has returned."""
        if self.function is not None:
            return  # pydantic validates and converts them just before the function is called
        problems = [_problem(error) for error in errors_of(self._validator, args)]
        if problems:
            raise ToolError(f"Invalid arguments for {self.name}: {'; '.join(problems)}.")

    async def run(
        self,
        args: JsonObject,
        *,
        agent_id: str = "",
        call_id: str = "",
        progress: Callable[[str], None] = _ignore_progress,
        approved: ApprovedCall | None = None,
    ) -> ToolOutput:
        """Run the tool.

        Args:
            args: The arguments object.
            agent_id: The id of the agent that calls it.
            call_id: The id of the call.
            progress: Called with text to show while the tool runs, from any thread.
            approved: The call as it was approved; None if nothing was checked.

        Returns:
            The result as the model reads it.

        Raises:
            ToolError: If the arguments are not valid, the tool failed, or it took longer than `timeout`.
            CallStoppedError: If it blocked the event loop and the user stopped it.
        """
        touches, versions = (approved.touches, approved.versions) if approved else (None, {})
        context = ToolContext(agent_id, call_id, progress, touches, versions)
        stopped = threading.Event()
        limit = asyncio.timeout(self.timeout)
        try:
            return await within(limit, self._execute(args, context, stopped))
        except (ToolError, asyncio.CancelledError, GeneratorExit):
            raise
        except UserInterrupt as error:
            raise CallStoppedError(STOPPED) from error
        except BaseException as error:  # SystemExit or KeyboardInterrupt from a task would end the kernel
            if limit.expired():
                raise ToolError(
                    f"{self.name} did not return within {self.timeout:g} s and was given up; ask for less at once."
                ) from error
            raise ToolError(failure_text(error)) from error
        finally:
            stopped.set()

    @calls_user_code
    async def _execute(self, args: JsonObject, context: ToolContext, stopped: threading.Event) -> ToolOutput:
        """Check the arguments, call the function and convert what it returns; `run` handles whatever this raises."""
        args = args if self.accept is None else self.accept(args)
        self._require_valid(args)
        count = self._required_count
        positional = (context.agent_id, context.call_id, args)[-count:] if count in {1, 2, 3} else (args,)
        call = partial(self.execute_fn, *positional)
        if self._context_name is not None:
            call = partial(call, **{self._context_name: context})
        progress = context.progress
        # Tools of the package are not interrupted: they note what they have changed, and end soon.
        in_thread = partial(run_in_thread, interruptible=self.function is not None)
        value = call() if self._is_async else await in_thread(lambda: _finished(call(), progress, stopped))
        if isinstance(value, ToolOutput) and not self._is_async:  # converted in the thread
            return value
        return await _output(value, progress, stopped)

    def touched(self, args: JsonObject) -> tuple[Effect, ...]:
        """Return the effects that a call would have. Never raises.

        Args:
            args: The arguments object, which may be invalid.

        Returns:
            The effects; none if the tool declares nothing. If the declaration fails the call might do anything: that
            is one effect of kind "execute" without a target.
        """
        if self.touches is None:
            return ()
        try:
            found = tuple(self.touches(args))
        except Exception:  # noqa: BLE001 - whatever a declaration raises, the policy still has to decide on the call
            return _ANYTHING
        return found if all(isinstance(item, Effect) for item in found) else _ANYTHING


_OK, _FAILED = "ok", "error"
"""The first items of the pairs `("ok", result)` and `("error", reason)`, which tools of Planck return."""

_ANYTHING = (Effect("execute"),)

_CONVERTED_ON_LOOP = (str, ToolOutput, type(None), int, float)
"""Results that are converted on the event loop; others, such as a figure, may take long and are converted in a thread.
"""


def _finished(value: object, progress: Callable[[str], None], stopped: threading.Event) -> object:
    """In a thread: the output for what a sync function returned, or an awaitable or async generator as it is."""
    if inspect.isgenerator(value):
        value = drain(value, progress, stopped)
    value = _without_word(value)
    return value if inspect.isawaitable(value) or inspect.isasyncgen(value) else as_output(value)


async def _output(value: object, progress: Callable[[str], None], stopped: threading.Event) -> ToolOutput:
    """On the event loop: the output for a value, once it is awaited or iterated over if necessary."""
    if inspect.isawaitable(value):
        value = await value
    if inspect.isasyncgen(value):
        value = await adrain(value, progress)
    if isinstance(value, _CONVERTED_ON_LOOP):
        return as_output(value)
    return as_output(await run_in_thread(lambda: _finished(value, progress, stopped)))


def drain(generator: Generator[Any, Any, Any], show: Callable[[str], None], stopped: threading.Event) -> object:
    """Run a generator to its end and return its value, or the last one that it yielded if it returns nothing.

    Blocks; once `stopped` is set, closes the generator at its next yield.
    """
    last: object = None
    with closing(generator):
        while not stopped.is_set():
            try:
                last = next(generator)
            except StopIteration as end:
                return last if end.value is None else end.value
            show(as_output(last).text + "\n")
    return last


async def adrain(generator: AsyncGenerator[Any, Any], show: Callable[[str], None]) -> object:
    """Run an async generator to its end and return the last value that it yielded.

    A cancellation closes the generator before this returns; one that swallows the cancellation is closed at its next
    yield.
    """
    last: object = None
    cancelled = _cancellations()
    async with aclosing(generator):
        async for last in generator:
            show(as_output(last).text + "\n")
            if _cancellations() > cancelled:
                raise asyncio.CancelledError
    return last


def _cancellations() -> int:
    """How many times the task was cancelled."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def _without_word(value: object) -> object:
    """Return the result in a pair `("ok", result)`; raise `ToolError` for `("error", reason)`."""
    match value:
        case (str(word), result) if type(value) is tuple and word == _OK:
            return result
        case (str(word), reason) if type(value) is tuple and word == _FAILED:
            raise ToolError(as_output(reason).text)
        case _:
            return value


def is_context(annotation: object) -> bool:
    """Whether a parameter's annotation, which may still be a string, is `ToolContext`."""
    if isinstance(annotation, str):
        return any(name.strip().rpartition(".")[2] == ToolContext.__name__ for name in annotation.split("|"))
    wraps = get_origin(annotation) in {Union, UnionType, Annotated}
    return annotation is ToolContext or (wraps and ToolContext in get_args(annotation))


def failure_text(error: BaseException) -> str:
    """Return a function's exception in words for the model."""
    if isinstance(error, BaseExceptionGroup):  # such as a task group's, whose own message says nothing
        return "; ".join(dict.fromkeys(map(failure_text, error.exceptions)))
    message = str(error).strip()
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _problem(error: ValidationError) -> str:
    where = ".".join(str(step) for step in error.absolute_path)
    message = one_line(error.message, _PROBLEM_CHARACTERS)  # it quotes the value, however long that is
    return f"{where}: {message}" if where else message


def tool_specs(tools: Mapping[str, Tool]) -> tuple[ToolSpec, ...]:
    """The specifications of the tools, as a model is sent them."""
    return tuple(tool.spec for tool in tools.values() if tool.server is None)


def server_tools(tools: Mapping[str, Tool]) -> tuple[ServerTool, ...]:
    """The tools that the model's server runs."""
    return tuple(tool.server for tool in tools.values() if tool.server is not None)


def stored_names(tools: Mapping[str, Tool]) -> tuple[str, ...]:
    """The names by which a session finds the tools again; that of a server tool has its settings."""
    return tuple(name if tool.server is None else str(tool.server) for name, tool in tools.items())
