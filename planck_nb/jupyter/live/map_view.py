"""A map's progress in the cell: a bar, figures, and buttons."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

import traitlets

from planck_nb.base.async_tasks import spawn
from planck_nb.base.errors import PlanckError
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.display.approval_text import pending_text
from planck_nb.jupyter.display.run_facts import model_name
from planck_nb.jupyter.live.frame_throttle import kernel_frame_throttle
from planck_nb.jupyter.live.widget import Widget
from planck_nb.rendering.formatting import dollars, elapsed
from planck_nb.workspace import MapProgress, MapRun
from planck_nb.workspace.map_progress import counted_items

INTERVAL = 0.25
"""Seconds between two updates."""

_WITH_ERROR = frozenset({"failed", "changed"})
"""States in which the cell shows the error itself."""

_SHOWN_CALLS = 3
_DECISIONS = {"preview": "Ask the rest", "changed": "Ask them again"}
"""Labels for the button by the state."""

_SENTENCES = {
    "running": "Stop keeps all answers; the same cell again asks only the rest.",
    "stopped": "Stopped. All answers are kept; the same cell again asks only the rest.",
}


class MapView(Widget):
    """A map's live view.

    Create it on the run's event loop.

    Args:
        run: The map.
        attend: Called when a page shows the view, so that a person can be asked.
        marker: A class for the saved summary in the same cell, which the view hides.
        interval: Seconds between two updates.
    """

    script = _esm = Path(__file__).with_name("map_view.js")
    facts = traitlets.Dict().tag(sync=True)
    marker = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, run: MapRun, *, attend: Callable[[], None], marker: str = "", interval: float = INTERVAL
    ) -> None:
        self._run = run
        self._attend = attend
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        super().__init__(facts=shown_facts(run), marker=marker)
        self._follower = spawn(self._follow(), name="planck map view")
        self.on_msg(self._receive)

    def update(self) -> None:
        """Show the run as it is now."""
        self.facts = shown_facts(self._run)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[JsonObject, JsonObject]:  # noqa: ANN401 - IPython's
        """Return the widget, and empty text for frontends without widgets."""
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        return {**data, "text/plain": "", "text/html": ""}, metadata

    async def _follow(self) -> None:
        while not self._run.done:
            await self._run.wait(self._interval)
            await kernel_frame_throttle().turn()
            self.update()

    def _receive(self, _widget: object, content: object, _buffers: object) -> None:
        """Handle a message from the browser, perhaps on a foreign kernel thread."""
        with suppress(RuntimeError):  # the loop is closed: the kernel is about to end
            self._loop.call_soon_threadsafe(self._handle, content)

    def _handle(self, message: object) -> None:
        with suppress(PlanckError):  # a second click, or a call that was decided elsewhere
            match message:
                case {"type": "shown"}:
                    self._attend()
                case {"type": "stop"}:
                    self._run.stop()
                case {"type": "go on"}:
                    self._run.go_on()
                    self._follower = spawn(self._follow(), name="planck map view")
                case {"type": "decide", "agent": str(agent_id), "call": str(call_id), "decision": str(decision)}:
                    self._decide(agent_id, call_id, decision)
        self.update()

    def _decide(self, agent_id: str, call_id: str, decision: str) -> None:
        for agent, call in self._run.waiting_calls():
            if (agent.id, call.id) == (agent_id, call_id):
                always = decision == "always"
                agent.decide(call_id, allow=always or decision == "allow", remember=always, scope="all")


def shown_facts(run: MapRun) -> JsonObject:
    """Return a map as the page shows it."""
    progress = run.progress
    runs = progress.state == "running"
    # Beside the button, a preview needs no way on.
    sentence = progress.sentence if run.estimate is None else run.estimate.forecast
    return {
        "state": progress.state,
        "headline": progress.headline,
        "time": elapsed(progress.seconds),
        "model": _model(run),
        "total": progress.total,
        "finished": progress.finished,
        "failed": progress.failed,
        "failures_title": failures_title(progress),
        "failures": failure_lines(progress),
        "figures": _figures(progress),
        "calls": [
            {
                "agent": agent.id,
                "id": call.id,
                "always": bool(call.rule),
                "text": pending_text(f"item {agent.description}", call, always="Allow such calls"),
            }
            for agent, call in run.waiting_calls()[:_SHOWN_CALLS]
        ],
        "sentence": _plain(sentence) or _SENTENCES.get(progress.state, ""),
        "actions": ["stop"] if runs else ["go on"] if progress.state in _DECISIONS else [],
        "go_on": _DECISIONS.get(progress.state, ""),
    }


def failures_title(progress: MapProgress) -> str:
    """Return how many items failed."""
    return f"{counted_items(progress.failed)} failed"


def failure_lines(progress: MapProgress) -> list[str]:
    """Return the most frequent reasons, each with its number."""
    return [f"{counted_items(count)}: {reason}" for reason, count in progress.reasons]


def _plain(sentence: str) -> str:
    return sentence.replace("`", "")


def _model(run: MapRun) -> str:
    return "" if run.model is None else model_name(run.model)


def _figures(progress: MapProgress) -> list[tuple[str, str, str]]:
    """Return labels with values and what is less important."""
    cost = "" if progress.cost_limit is None else f"of {dollars(progress.cost_limit)}"
    if progress.state != "running":
        return [("Cost", dollars(progress.cost), cost)]
    flight = f"{progress.in_flight:,} in flight"
    if progress.waiting:
        flight = f"{flight}, {progress.waiting:,} waiting for approval"
    left, end_cost = progress.left, progress.expected_cost
    return [
        ("Rate", f"{progress.rate:.1f} items/s", flight),
        *([] if left is None else [("Left", f"about {elapsed(left)}", "")]),
        ("Cost so far", dollars(progress.cost), cost if end_cost is None else ""),
        *([] if end_cost is None else [("In the end", f"about {dollars(end_cost)}", cost)]),
    ]


def saved_summary(run: MapRun) -> tuple[str, str]:
    """Return a finished map as HTML and as text, without times."""
    progress = run.progress
    facts = [_model(run), dollars(progress.cost)]
    if progress.failed:
        facts.insert(0, failures_title(progress))
    if progress.state in {"stopped", *_WITH_ERROR}:
        facts.insert(0, "stopped" if progress.state == "stopped" else "failed")
    html = [f"<p><strong>{escape(progress.headline)}</strong> · {escape(' · '.join(facts))}</p>"]
    text = [" · ".join([progress.headline, *facts])]
    for line in failure_lines(progress):
        html.append(f"<p>{escape(line)}</p>")
        text.append(f"  {line}")
    if progress.sentence and progress.state not in _WITH_ERROR:
        sentence = _plain(progress.sentence)
        html.append(f"<p>{escape(sentence)}</p>")
        text.append(sentence)
    return f"<div>{''.join(html)}</div>", "\n".join(text)
