"""The tools `run_python`, `list_variables`, `inspect_variable` and `last_error`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial

from IPython.core.interactiveshell import InteractiveShell

from planck_nb.agent.agent import Agent
from planck_nb.agent.calling.tool import Tool, ToolContext
from planck_nb.agent.calling.tool_output import ToolOutput
from planck_nb.agent.effect import Effect
from planck_nb.agent.run_group import RunGroup, current_group
from planck_nb.base.async_tasks import spawn
from planck_nb.base.errors import ToolError, did_you_mean
from planck_nb.base.json_types import JsonObject
from planck_nb.base.secrets import MAX_LENGTH, is_secret_name, known_secrets, looks_like_key, redact, remember_secret
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.kernel_tools.executed_cells import ExecutedCells
from planck_nb.jupyter.kernel_tools.executor import CellResult, Executor
from planck_nb.jupyter.kernel_tools.kernel_tool_names import (
    GROUP,
    INSPECT_VARIABLE,
    LAST_ERROR,
    LIST_VARIABLES,
    RUN_PYTHON,
)
from planck_nb.jupyter.kernel_tools.name_changes import NameChanges
from planck_nb.jupyter.kernel_tools.readable_names import ReadableNames, reader_id
from planck_nb.jupyter.values import describe_value, kind_of
from planck_nb.workspace import Workspace
from planck_nb.workspace.agent_names import named_agents

DEFAULT_MILLISECONDS = 300_000
MAX_MILLISECONDS = 3_600_000
"""How long a call of `run_python` may take, by default and at most."""

MAX_LISTED = 300
"""How many variables are listed at most."""

DESCRIBED_CHARACTERS = 8_000
"""How long the description of a variable may be."""

_LISTING_SECONDS = 5.0
_STOPPING = 5.0
"""Seconds that an agent has to stop after an interrupt, before its call ends by itself."""

NO_ERROR = "No cell has failed since the kernel was started."


class KernelTools:
    """The tools by which agents work in the kernel of a notebook.

    Args:
        shell: The shell of the notebook.
        workspace: The workspace of the notebook.
        readable: Which variables agents may list and inspect.
    """

    def __init__(self, shell: InteractiveShell, workspace: Workspace, readable: ReadableNames) -> None:
        self._shell = shell
        self._workspace = workspace
        self._readable = readable
        self._executor = Executor(shell)
        self.changes = NameChanges(shell.user_ns)
        """What the calls did to variables, to be undone."""
        self.cells = ExecutedCells(shell)
        """The cells that people executed."""

    def tools(self) -> Mapping[str, Tool]:
        """Return the tools by name."""
        return self._tools

    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Return the name that stands for all of them."""
        return {GROUP: tuple(self._tools)}

    @cached_property
    def _tools(self) -> dict[str, Tool]:
        tools = (
            Tool(
                name=RUN_PYTHON,
                description=(
                    "Run Python in the kernel of the user's notebook, with its variables, like a cell: `await` and "
                    "magics such as %timeit work. Returns what it prints, the value of the last expression, and the "
                    "figures that it draws. There is no input, and the cell that is running is not changed."
                ),
                parameters={
                    "type": "object",
                    "properties": {
                        "code": {"type": "string", "minLength": 1, "description": "The code."},
                        "timeout": {
                            "type": "integer",
                            "minimum": 1,
                            "maximum": MAX_MILLISECONDS,
                            "default": DEFAULT_MILLISECONDS,
                            "description": "The time limit in milliseconds.",
                        },
                    },
                    "required": ["code"],
                    "additionalProperties": False,
                },
                execute_fn=self._run_python,
                timeout=None,
                touches=lambda args: [Effect("execute", args["code"])],
                guidance=(
                    "Look at variables with `list_variables` and `inspect_variable` before you use them in "
                    "`run_python`. Show a small part of large data, and do not change the user's variables unless "
                    "you are asked to: assign results to new names."
                ),
                unrestricted=True,
            ),
            Tool(
                name=LIST_VARIABLES,
                description="List the variables of the user's notebook with their types and sizes.",
                execute_fn=self._list_variables,
            ),
            Tool(
                name=INSPECT_VARIABLE,
                description=(
                    "Describe a variable of the user's notebook: of a table its shape, columns with types, missing "
                    "values and first rows. Nothing lazy is computed."
                ),
                parameters={
                    "type": "object",
                    "properties": {"name": {"type": "string", "minLength": 1, "description": "The variable."}},
                    "required": ["name"],
                    "additionalProperties": False,
                },
                execute_fn=self._inspect_variable,
            ),
            Tool(
                name=LAST_ERROR,
                description="Return the traceback of the cell of the user's notebook that failed last.",
                execute_fn=self._last_error,
            ),
        )
        return {tool.name: tool for tool in tools}

    async def _run_python(self, args: JsonObject, context: ToolContext) -> ToolOutput:
        remember_secret_variables(self._shell.user_ns)
        stopping = self._stopper(context.agent_id)
        seconds = args.get("timeout", DEFAULT_MILLISECONDS) / 1_000
        try:
            done = await self._executor.run(
                args["code"], seconds=seconds, progress=context.progress, on_interrupt=stopping
            )
        except RuntimeError as error:
            raise ToolError(str(error)) from None
        remember_secret_variables(self._shell.user_ns)
        self._readable.add(self._reader(context.agent_id), done.created)
        if done.interrupted:
            # The agent is being stopped, which cancels this task: nothing more may be asked of the model.
            await asyncio.sleep(_STOPPING)
            raise ToolError("The user interrupted the code.")
        change = self.changes.add(done.before, context.agent_id)
        undo = "" if change is None else f"[{change}; the user can take that back with `%planck undo {change.label}`]"
        notes = [undo] if undo else []
        if done.late:
            raise ToolError(_failure(f"the code was stopped after {seconds:g} s", done, notes))
        if done.error:
            raise ToolError(_failure(done.error, done, notes))
        return ToolOutput("\n".join(filter(None, (done.text, *notes))) or "(no output)", done.images, done.previews)

    def _stopper(self, agent_id: str) -> Callable[[], None]:
        """Return what a signal handler calls to stop the run of a call."""
        loop = asyncio.get_running_loop()
        group = current_group()
        return lambda: _later(loop, partial(self._stop, agent_id, group))

    def _stop(self, agent_id: str, group: RunGroup | None) -> None:
        if group is not None:
            group.abort()
        elif (agent := self._agent(agent_id)) is not None:
            spawn(agent.abort(), name="planck interrupted run")

    async def _list_variables(self, _args: JsonObject, context: ToolContext) -> str:
        names = self._readable_names(context.agent_id)
        shown = names[:MAX_LISTED]
        values = {name: self._shell.user_ns.get(name) for name in shown}
        lines = await run_in_thread(lambda: list(_listed(values)))
        if len(names) > len(shown):
            lines.append(f"[… {len(names) - len(shown):,} more …]")
        return redact("\n".join(lines), formats=True) or "There are no variables that can be read."

    async def _inspect_variable(self, args: JsonObject, context: ToolContext) -> str:
        name = args["name"]
        names = self._readable_names(context.agent_id)
        if name not in names:
            if is_secret_name(name):
                raise ToolError(f"{name} looks like a secret by its name, so it is not shown.")
            raise ToolError(f"There is no variable {name} that can be read. {did_you_mean(name, names)}".rstrip())
        remember_secret_variables(self._shell.user_ns)
        value = self._shell.user_ns[name]
        text = await run_in_thread(lambda: describe_value(value, characters=DESCRIBED_CHARACTERS))
        return redact(f"{name}: {text}", formats=True)

    async def _last_error(self, _args: JsonObject) -> str:
        remember_secret_variables(self._shell.user_ns)
        error = getattr(sys, "last_value", None)
        if not isinstance(error, BaseException):
            return NO_ERROR
        return redact(await run_in_thread(lambda: self.cells.traceback_of(error)), formats=True)

    def _readable_names(self, agent_id: str) -> list[str]:
        """The variables that the agent may read, in the order in which they were assigned."""
        hidden, reader = self._shell.user_ns_hidden, self._reader(agent_id)
        return [
            name
            for name, value in tuple(self._shell.user_ns.items())
            if type(name) is str and hidden.get(name) is not value and self._readable.may_read(reader, name)
        ]

    def _reader(self, agent_id: str) -> str:
        agent = self._agent(agent_id)
        return reader_id(agent) if agent is not None else agent_id

    def _agent(self, agent_id: str) -> Agent | None:
        return next((agent for agent in named_agents(self._workspace).values() if agent.id == agent_id), None)


def _listed(values: Mapping[str, object]) -> Iterator[str]:
    """The names with the kinds of their values, as long as there is time to find out."""
    end = time.monotonic() + _LISTING_SECONDS
    for name, value in values.items():
        yield f"{name}: {kind_of(value)}" if time.monotonic() < end else name


def _later(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(function)


def _failure(reason: str, done: CellResult, notes: list[str]) -> str:
    output = f"Output before that:\n{done.text}" if done.text else ""
    drawn = len(done.images)
    figures = f"[{drawn} {'image' if drawn == 1 else 'images'} drawn before that, not shown]" if drawn else ""
    where = "" if done.traceback == reason else done.traceback
    return "\n\n".join(filter(None, (reason, where, output, figures, *notes)))


def remember_secret_variables(namespace: Mapping[str, object]) -> None:
    """Treat texts that look like secrets by their names or values as secrets of the process from now on.

    They are then filtered from all that leaves the process. A text such as the one in `key = "customer_id"` is not a
    secret: it has neither digits nor the form of a key.

    Args:
        namespace: The variables.
    """
    texts = {
        name: value
        for name, value in tuple(namespace.items())
        if type(name) is str and type(value) is str and len(value) <= MAX_LENGTH
    }
    for value, what in known_secrets(texts).items():
        if looks_like_key(value) or any(map(str.isdigit, value)):
            remember_secret(value, what)
