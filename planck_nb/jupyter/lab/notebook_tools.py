"""The notebook tools: agents propose changes to cells, and people decide."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any
from uuid import uuid4

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import publish_display_data

from planck_nb.agent.calling.tool import Tool, ToolContext
from planck_nb.agent.effect import Effect
from planck_nb.ai.cassettes.conversations import ConversationCassette, conversation_cassette
from planck_nb.base import markdown
from planck_nb.base.errors import ToolError, did_you_mean
from planck_nb.base.json_types import JsonObject
from planck_nb.base.line_diff import unified_diff
from planck_nb.base.secrets import around_secret, redact
from planck_nb.base.text import encodable, head_and_tail, one_line
from planck_nb.jupyter.ipython.compat import running_request
from planck_nb.jupyter.kernel_tools.executed_cells import ExecutedCells
from planck_nb.jupyter.lab.change_book import ChangeBook
from planck_nb.jupyter.lab.pages import Pages
from planck_nb.jupyter.lab.protocol import CellChange, Cells, ChangeSet, PageCell
from planck_nb.rendering import block_html
from planck_nb.rendering.diff_lines import diff_in
from planck_nb.workspace import Workspace
from planck_nb.workspace.agent_names import named_agents

GROUP = "notebook"
"""The group's name, as in `--tools notebook`."""

LIST_CELLS = "list_cells"
READ_CELL = "read_cell"
PROPOSE = "propose"
RUN_CELL = "run_cell"

SOURCE_CHARACTERS = 40_000
OUTPUT_CHARACTERS = 8_000
LISTED_CELLS = 400
"""An agent's limits for reading."""

_LINE_CHARACTERS = 100
_COPY = """<script>{
const box = document.currentScript.parentElement, button = document.createElement("button");
const say = (text) => () => { button.textContent = text; };
button.type = "button";
button.textContent = "Copy";
button.onclick = () => {
  const text = [...box.querySelectorAll("pre")].at(-1).textContent;
  navigator.clipboard.writeText(text).then(say("Copied"), say("Not allowed"));
};
document.currentScript.replaceWith(button);
}</script>"""
"""Script for a copy button, which trusted notebooks alone run."""
_NO_BLOCKING = (
    "The cell that is running blocks the kernel, so no page can answer before it ends. "
    "Use the tools of the notebook from `%planck --background`."
)


@dataclass(frozen=True, slots=True)
class CellEnd:
    """A cell's end.

    Args:
        source: Its text; None if it never began.
        error: Its error, None without one.
    """

    source: str | None
    error: BaseException | None = None


class CellRuns:
    """Running cells, and waits for their ends.

    Args:
        shell: The shell.
        on_end: Called after each cell.
    """

    def __init__(self, shell: InteractiveShell, on_end: Callable[[], None] = lambda: None) -> None:
        self._shell = shell
        self._on_end = on_end
        self._running = 0
        self._waiting: dict[str, list[asyncio.Future[CellEnd]]] = {}

    @property
    def is_busy(self) -> bool:
        """Return whether a cell runs."""
        return self._running > 0

    def install(self) -> None:
        """Follow the shell."""
        self._shell.events.register("pre_run_cell", self._begin)
        self._shell.events.register("post_run_cell", self._end)

    def remove(self) -> None:
        """Undo `install`."""
        self._shell.events.unregister("pre_run_cell", self._begin)
        self._shell.events.unregister("post_run_cell", self._end)

    @contextmanager
    def end_of(self, cell: str) -> Iterator[asyncio.Future[CellEnd]]:
        """Give a future for the end when a cell runs next.

        Args:
            cell: The frontend's id for the cell.
        """
        end: asyncio.Future[CellEnd] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(cell, []).append(end)
        try:
            yield end
        finally:
            if end in (waiting := self._waiting.get(cell, [])):
                waiting.remove(end)
            if not waiting:
                self._waiting.pop(cell, None)

    def give_up(self, cell: str) -> None:
        """End the waits for a cell that will not run.

        Args:
            cell: The frontend's id for the cell.
        """
        self._set_end(cell, CellEnd(None))

    def _begin(self, _info: object) -> None:
        self._running += 1

    def _end(self, result: Any) -> None:  # noqa: ANN401 - IPython's ExecutionResult; None for a cancelled cell
        self._running = max(0, self._running - 1)
        if (info := getattr(result, "info", None)) is not None:
            error = result.error_before_exec or result.error_in_exec
            cell = getattr(info, "cell_id", None) or ""
            self._set_end(cell, CellEnd(info.raw_cell, error))
        self._on_end()

    def _set_end(self, cell: str, run_end: CellEnd) -> None:
        for end in self._waiting.pop(cell, ()):
            if not end.done():
                end.set_result(run_end)


class NotebookTools:
    """Tools to read the notebook and propose changes.

    Args:
        shell: The notebook's shell.
        workspace: Its workspace.
        pages: Its pages.
        book: The proposed changes.
        runs: Its running cells.
        executed_cells: Returns the executed cells, as far as they are noted.
        hears: Returns whether pages are heard while a cell runs.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        workspace: Workspace,
        pages: Pages,
        book: ChangeBook,
        runs: CellRuns,
        *,
        executed_cells: Callable[[], ExecutedCells | None],
        hears: Callable[[], bool],
    ) -> None:
        self._executed_cells = executed_cells
        self._shell = shell
        self._workspace = workspace
        self._pages = pages
        self._book = book
        self._runs = runs
        self._hears = hears
        self._read: dict[tuple[str, str], str] = {}
        """An agent's last reading by agent and cell."""
        # By cell and version, so that the text which a person approves is the text which runs.
        self._versions: dict[tuple[str, str], str] = {}

    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Return the group."""
        return {GROUP: tuple(self.tools)}

    @cached_property
    def tools(self) -> dict[str, Tool]:
        """The tools by name."""
        cell = {"type": "string", "minLength": 1, "description": "The id of the cell, as `list_cells` returns it."}
        tools = (
            Tool(
                name=LIST_CELLS,
                description=(
                    "List the cells of the user's notebook: place, id, type, execution count and first line. "
                    "'edited' means that a cell was changed since it ran."
                ),
                execute_fn=self._list_cells,
            ),
            Tool(
                name=READ_CELL,
                description="Return the source of a cell of the user's notebook and its outputs as text.",
                parameters=_parameters({"cell": cell}, "cell"),
                execute_fn=self._read_cell,
            ),
            Tool(
                name=PROPOSE,
                description=(
                    "Propose one change to the user's notebook: insert a cell, or change, move or delete one that you "
                    "have read. The user sees a diff, and accepts, edits or refuses it; nothing changes before. "
                    "Calls in one reply are reviewed together; make them in the order in which they are applied."
                ),
                parameters=_parameters(
                    {
                        "kind": {"enum": ["insert", "change", "move", "delete"], "description": "What to do."},
                        "cell": {**cell, "description": "The id of the cell; for insert, none or a new id of yours."},
                        "source": {"type": "string", "description": "The whole new source, for insert and change."},
                        "after": {
                            "type": "string",
                            "description": "For insert and move: the id of the cell before the new place, or 'start'.",
                        },
                        "cell_type": {"enum": ["code", "markdown", "raw"], "default": "code"},
                        "why": {"type": "string", "description": "The reason in a sentence, for the user."},
                    },
                    "kind",
                ),
                execute_fn=self._propose,
                timeout=None,
                waits=True,
                guidance=(
                    "Change the notebook by `propose` only, and read a cell with `read_cell` before you change it. "
                    "Make all changes that belong together in one reply."
                ),
            ),
            Tool(
                name=RUN_CELL,
                description="Run a code cell of the user's notebook that you have read, and return how it ended.",
                parameters=_parameters(
                    {"cell": cell, "version": {"type": "string", "description": "As `read_cell` returned it."}},
                    "cell",
                    "version",
                ),
                execute_fn=self._run_cell,
                timeout=None,
                touches=lambda args: [Effect("execute", self._versions[args["cell"], args["version"]])],
                unrestricted=True,
            ),
        )
        if (answers := conversation_cassette()) is not None:  # pages do not show the copy
            return {tool.name: _with_stored_results(tool, answers) for tool in tools}
        return {tool.name: tool for tool in tools}

    async def _list_cells(self, _args: JsonObject) -> str:
        cells = (await self._cells()).cells
        lines = [f"{at}. {cell.id} {_kind(cell)}: {_first_line(cell)}" for at, cell in enumerate(cells, 1)]
        more = len(lines) - LISTED_CELLS
        listing = [*lines[:LISTED_CELLS], *([f"[… {more:,} more …]"] if more > 0 else [])]
        return redact("\n".join(listing), formats=True) or "The notebook has no cells."

    async def _read_cell(self, args: JsonObject, context: ToolContext) -> str:
        cell = _named(await self._cells(outputs_of=args["cell"]), args["cell"])
        version = _version(cell.source)
        self._read[context.agent_id, cell.id] = self._versions[cell.id, version] = cell.source
        source = head_and_tail(cell.source, characters=SOURCE_CHARACTERS, around=around_secret)
        parts = [f"{_kind(cell)}, version {version}:", source]
        if cell.output:
            stale = " of an earlier text of the cell" if cell.is_stale else ""
            output = head_and_tail(cell.output, characters=OUTPUT_CHARACTERS, around=around_secret)
            parts.append(f"Its output{stale}:\n{output}")
        return redact("\n\n".join(parts), formats=True)

    async def _propose(self, args: JsonObject, context: ToolContext) -> str:
        change = _asked(args)
        if self._pages.acting() is None:
            return self._show_diff(change)
        client = self._client
        change = self._checked(change, await self._cells(), context.agent_id)
        set_id = self._add(change, context.agent_id, self._pages.path(client))
        if self._runs.is_busy and not self._hears():
            return "Proposed, still open: the user decides after this cell; you will be told with the next prompt."
        seconds = self._workspace.approvals.deadline
        [result] = await self._book.wait(set_id, {change.id}, seconds)
        return outcome(result)

    def _add(self, change: CellChange, agent_id: str, path: str) -> str:
        """Add a change to its agent's set; return the set's id."""
        changes = self._book.open_set(agent_id)
        if changes is None:
            names = {agent.id: name for name, agent in named_agents(self._workspace).items()}
            name = names.get(agent_id, "agent")
            changes = ChangeSet(uuid4().hex[:12], name, agent_id, path, time.time(), ())
        self._book.put(replace(changes, changes=(*changes.changes, change)))
        return changes.id

    def _checked(self, change: CellChange, notebook: Cells, agent_id: str) -> CellChange:
        """Return the change with its original source.

        Raises ToolError for an impossible one.
        """
        if not notebook.writable:
            raise ToolError("The notebook is read-only, so nothing can be changed.")
        changes = self._book.open_set(agent_id)
        new = {other.cell for other in (changes.changes if changes else ()) if other.kind == "insert"}
        names = {cell.id for cell in notebook.cells} | new
        if change.after is not None and change.after not in names:
            raise ToolError(f"There is no cell {change.after}. {did_you_mean(change.after, names)}".rstrip())
        if change.kind == "insert":
            if change.cell in names:
                raise ToolError(f"There is a cell {change.cell} already; leave the id out.")
            return change
        if change.cell in new:
            raise ToolError(f"The cell {change.cell} is only proposed so far; wait for the decision.")
        cell = _named(notebook, change.cell)
        before = self._read.get((agent_id, cell.id))
        if before is None:
            raise ToolError(f"Read the cell first: `{READ_CELL}` with {cell.id}.")
        if before != cell.source:
            raise ToolError("The user has changed the cell since you read it; read it again.")
        if change.kind == "change" and not cell.editable:
            raise ToolError("The cell is not editable.")
        if change.kind == "delete" and not cell.deletable:
            raise ToolError("The cell cannot be deleted.")
        return replace(change, before=before, cell_type=cell.cell_type)

    def _show_diff(self, change: CellChange) -> str:
        """Show a change in the output; return words for the agent."""
        if change.source is None:
            raise ToolError(f"{self._pages.problem} Say in your answer what to move or delete.")
        cells = self._executed_cells()
        ran = None if change.kind == "insert" or cells is None else cells.named(change.cell)
        heading = change.why or ("Proposed cell:" if ran is None else f"Proposed change of {ran.label}:")
        source, old = redact(change.source), "" if ran is None else redact(ran.source)
        diff = "".join(unified_diff(_lines(old), _lines(source), "cell"))
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", source)), 3)
        language = "python" if change.cell_type == "code" else ""
        # An HTML parser leaves out the first line's end in `pre`.
        body = f'<pre style="{markdown.CODE_BOX}">\n{escape(encodable(source))}</pre>'
        if ran is not None and (change_lines := diff_in(encodable(diff))) is not None:
            body = f"{block_html.diff_box(change_lines)}{block_html.opens('The whole new text', body)}"
        publish_display_data(
            {
                "text/html": f"<div>{block_html.notice(heading)}{body}{_COPY}</div>",
                "text/markdown": f"{one_line(change.why)}\n\n{fence}{language}\n{source}\n{fence}".lstrip(),
                "text/plain": f"{heading}\n{diff}",
            }
        )
        return (
            f"{self._pages.problem} The user sees the difference below the cell and may copy your text; "
            "you will not be told what they do."
        )

    async def _run_cell(self, args: JsonObject) -> str:
        client = self._client
        source = self._versions.get((args["cell"], args["version"]))
        if source is None:
            raise ToolError(f"Read the cell first: `{READ_CELL}` with {args['cell']} returns its version.")
        busy = self._runs.is_busy
        self._require_page()
        with self._runs.end_of(args["cell"]) as end:
            problem = await self._pages.run(args["cell"], source, client)
            if problem:
                raise ToolError(problem)
            if busy:
                return "It runs after the cell that is running now; read it later."
            run_end = await end
        if run_end.source is None:
            raise ToolError("The cell was not run: the user stopped the kernel's work or removed the cell.")
        if run_end.error is not None:
            raise ToolError(f"The cell failed: {type(run_end.error).__name__}. `{READ_CELL}` returns its outputs.")
        return f"The cell has run. `{READ_CELL}` returns its outputs."

    async def _cells(self, *, outputs_of: str = "") -> Cells:
        self._require_page()
        cells = await self._pages.cells(self._client, outputs_of=outputs_of)
        if cells is None:
            raise ToolError(self._pages.problem)
        return cells

    def _require_page(self) -> None:
        if self._pages.acting() is None:
            raise ToolError(
                f"{self._pages.problem} Cells cannot be listed or run; "
                f"`{PROPOSE}` shows the user a new cell, or the change of one that ran, such as `In [3]`."
            )
        if self._runs.is_busy and not self._hears():
            raise ToolError(_NO_BLOCKING)

    @property
    def _client(self) -> str:
        return str(running_request(self._shell.kernel).get("header", {}).get("session", ""))


def _with_stored_results(tool: Tool, answers: ConversationCassette) -> Tool:
    """Return a tool which has no effects and repeats the stored results."""

    def execute(call_id: str, _args: JsonObject) -> str:
        result = answers.take_result(call_id, tool.name)
        if result is None:
            raise ToolError("The session has no result for this call.")
        if result.is_error:
            raise ToolError(result.text)
        return result.text

    return replace(tool, execute_fn=execute, touches=None, unrestricted=False)


def outcome(change: CellChange) -> str:
    """Describe a decision to the agent.

    Args:
        change: The change.
    """
    subject = f"{change.kind} of cell {change.cell}"
    reason = f" ({change.reason})" if change.reason else ""
    match change.state:
        case "open":
            return (
                f"Proposed, still open: {subject}. The user has not decided yet; you will be told with the next prompt."
            )
        case "accepted":
            return f"Accepted: {subject}."
        case "edited":
            return f"Accepted with another text: {subject}. It is now:\n{change.source}"
        case "refused":
            return f"Refused: {subject}{reason}."
        case "outdated":
            return f"Outdated: {subject}{reason}. Read the notebook again before you propose more."
        case "taken back":
            return f"Taken back by the user: {subject}."


def _lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.splitlines()]


def _parameters(properties: JsonObject, *names: str) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(names), "additionalProperties": False}


def _asked(args: JsonObject) -> CellChange:
    """Return the change in a call. Raises ToolError for an incomplete one."""
    kind, cell, source, after = args["kind"], args.get("cell", ""), args.get("source"), args.get("after")
    if kind != "insert" and not cell:
        raise ToolError(f"Give the id of the cell to {kind}.")
    if kind in ("insert", "change") and source is None:
        raise ToolError("Give the whole new source of the cell.")
    if kind in ("insert", "move") and not after:
        raise ToolError("Give in `after` the id of the cell before the new place, or 'start'.")
    return CellChange(
        id=uuid4().hex[:8],
        kind=kind,
        cell=cell or uuid4().hex[:8],
        cell_type=args.get("cell_type", "code"),
        source=source if kind in ("insert", "change") else None,
        after=None if kind in ("change", "delete") or after == "start" else after,
        why=args.get("why", ""),
    )


def _named(notebook: Cells, name: str) -> PageCell:
    cells = [cell for cell in notebook.cells if cell.id == name]
    if not cells:
        hint = did_you_mean(name, [cell.id for cell in notebook.cells])
        raise ToolError(f"There is no cell {name}; `{LIST_CELLS}` lists all. {hint}".rstrip())
    if len(cells) > 1:
        raise ToolError(f"Several cells have the id {name}; the user has to save and open the notebook again.")
    return cells[0]


def _version(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _kind(cell: PageCell) -> str:
    if cell.cell_type != "code":
        return cell.cell_type
    run = "not run" if cell.count is None else f"In [{cell.count}]"
    return f"code, {run}, edited since" if cell.is_stale else f"code, {run}"


def _first_line(cell: PageCell) -> str:
    return one_line(cell.source.strip().partition("\n")[0])[:_LINE_CHARACTERS]
