"""A live table with all agents in the kernel.

It is updated until the kernel ends or a newer table exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import traitlets

from planck_nb.base.async_tasks import spawn
from planck_nb.jupyter.agent_rows import agent_rows, columns_of
from planck_nb.jupyter.live.frame_throttle import kernel_frame_throttle
from planck_nb.jupyter.live.widget import Widget
from planck_nb.rendering.formatting import dollars
from planck_nb.workspace import Workspace

INTERVAL = 0.5
"""Shortest time between two updates, in seconds."""

MAX_ROWS = 200
"""Agents to show; working ones come first."""


class AgentsTable(Widget):
    """Live table with the agents in a workspace, until `finish`.

    Create it on the agents' event loop.

    Args:
        workspace: The workspace.
        interval: Shortest time between two updates, in seconds.
    """

    script = _esm = Path(__file__).with_name("agents_table.js")
    columns = traitlets.List(traitlets.Unicode()).tag(sync=True)
    rows: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    hidden = traitlets.Int(0).tag(sync=True)

    def __init__(self, workspace: Workspace, *, interval: float = INTERVAL) -> None:
        self._workspace: Workspace | None = workspace
        self._interval = interval
        columns = columns_of(workspace, teams=True)
        rows, hidden_count = _shown(workspace, columns)
        super().__init__(columns=columns, rows=rows, hidden=hidden_count)
        self._follower = spawn(self._follow(workspace), name="planck agents table")

    def finish(self) -> None:
        """Stop following the agents; the table stays."""
        self._follower.cancel()
        self._workspace = None

    async def _follow(self, workspace: Workspace) -> None:
        while True:
            events = workspace.subscribe()
            try:
                await anext(events)
            except StopAsyncIteration:  # the workspace is closed
                return
            finally:
                events.close()
            await asyncio.sleep(self._interval)
            await kernel_frame_throttle().turn()
            rows, self.hidden = _shown(workspace, self.columns)
            self.rows = rows


def _shown(workspace: Workspace, columns: Sequence[str]) -> tuple[list[list[str]], int]:
    """Return the rows as texts, and the number of hidden agents."""
    rows = agent_rows(workspace)
    if len(rows) > MAX_ROWS:
        rows.sort(key=lambda row: row["status"] == "idle" and not row["waits_for"])
    return [_texts(row, columns) for row in rows[:MAX_ROWS]], max(0, len(rows) - MAX_ROWS)


def _texts(row: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    values = {**row, "cost_usd": "" if row["cost_usd"] is None else dollars(row["cost_usd"])}
    return [f"{values[name]:,}" if isinstance(values[name], int) else str(values[name]) for name in columns]
