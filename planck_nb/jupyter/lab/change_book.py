"""Proposed changes to cells, and the decisions about them.

The session stores both.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError

from planck_nb.base.errors import PlanckError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.lab.protocol import PROTOCOL, CellChange, ChangeSet, Decision
from planck_nb.sessions import Session

_KEY = "cell_changes:"
"""The keys' beginning in the session's metadata."""

_SETS = TypeAdapter(ChangeSet)
_KEPT_SETS = 200
"""Decided sets to keep for taking back."""

_OTHER_PAGE = "Another page with this notebook decides about it."
_DECIDED = "It was decided already."


@dataclass(slots=True)
class _Entry:
    changes: ChangeSet
    inverse: tuple[JsonObject, ...] = ()
    claims: dict[str, str] = field(default_factory=dict[str, str])
    """The deciding page by change."""
    reported: set[str] = field(default_factory=set[str])
    """Changes whose decisions the agent knows."""


class ChangeBook:
    """A notebook's change sets.

    A page's claims, decisions and questions may come from any thread, other calls from the kernel's event loop.

    Args:
        session: Returns the session, None before the first one.
    """

    def __init__(self, session: Callable[[], Session | None]) -> None:
        self._session = session
        self._entries: dict[str, _Entry] = {}
        self._loaded: set[str] = set()
        self._lock = threading.Lock()
        self._changed = asyncio.Event()
        self.on_change: Callable[[], None] = lambda: None
        """Called after each change."""
        self.run_on_loop: Callable[[Callable[[], None]], None] = lambda function: function()
        """Called with work for the event loop."""

    def sets(self) -> tuple[ChangeSet, ...]:
        """Return the sets."""
        with self._lock:
            return tuple(entry.changes for entry in self._entries.values())

    async def load(self) -> None:
        """Add the sets which a session stores.

        Unsigned ones stay out: nobody sees the outputs in an inverse before a notebook shows them.
        """
        session = self._session()
        if session is None or session.id in self._loaded:
            return
        self._loaded.add(session.id)
        values = await run_in_thread(partial(session.get_signed_values, _KEY))
        entries = [_of_stored(data) for data in values.values()]
        with self._lock:
            for entry in entries:
                if entry is not None:
                    self._entries.setdefault(entry.changes.id, entry)
        if any(entries):
            self.on_change()

    def put(self, changes: ChangeSet) -> None:
        """Add a set, or replace it by one with more changes.

        Args:
            changes: The set.
        """
        with self._lock:
            entry = self._entries.get(changes.id)
            if entry is None:
                self._entries[changes.id] = _Entry(changes)
            else:
                entry.changes = changes
            self._forget_old()
        self._publish(changes.id)

    def claim(self, set_id: str, changes: Iterable[str], client: str) -> str:
        """Let one page decide about open changes.

        Args:
            set_id: The set.
            changes: The changes in it.
            client: The page.

        Returns:
            The obstacle; empty without one.
        """
        with self._lock:
            entry = self._entries.get(set_id)
            if entry is None:
                return "The kernel does not know this proposal; it may be of another session."
            names = set(changes)
            open_ = {change.id for change in entry.changes.changes if change.state == "open"}
            if not names <= open_:
                return _DECIDED
            if any(entry.claims.get(change, client) != client for change in names):
                return _OTHER_PAGE
            entry.claims |= dict.fromkeys(names, client)
            return ""

    def release(self, client: str) -> None:
        """Forget a lost page's claims.

        Args:
            client: The page.
        """
        with self._lock:
            for entry in self._entries.values():
                entry.claims = {change: other for change, other in entry.claims.items() if other != client}

    def decide(
        self, set_id: str, decisions: Sequence[Decision], client: str, inverse: Sequence[JsonObject] = ()
    ) -> None:
        """Note decisions about open changes.

        Changes claimed by another page stay as they are. The deciding page's claims end.

        Args:
            set_id: The set.
            decisions: The decisions; empty for a page which could not apply the changes.
            client: The deciding page.
            inverse: The operations to take the applied changes back.
        """
        with self._lock:
            entry = self._entries.get(set_id)
            if entry is None:
                return
            choices = {
                decision.change: decision
                for decision in decisions
                if decision.state != "open" and entry.claims.get(decision.change, client) == client
            }
            entry.claims = {change: other for change, other in entry.claims.items() if other != client}
            changes = tuple(
                _decided(change, choices[change.id]) if change.state == "open" and change.id in choices else change
                for change in entry.changes.changes
            )
            if changes == entry.changes.changes:
                return
            entry.changes = replace(entry.changes, changes=changes, decided=time.time(), decided_by=client)
            entry.inverse = (*inverse, *entry.inverse)
        self.run_on_loop(partial(self._publish, set_id))

    def take_back(self, set_id: str) -> None:
        """Note a set as taken back.

        Args:
            set_id: The set.
        """
        with self._lock:
            entry = self._entries.get(set_id)
            if entry is None:
                return
            changes = tuple(
                replace(change, state="taken back") if change.state in ("accepted", "edited") else change
                for change in entry.changes.changes
            )
            later = self._later(entry)
            for other in later:
                other.inverse = _with_neighbours(other.inverse, entry.inverse)
            names = [other.changes.id for other in later]
            entry.changes, entry.inverse = replace(entry.changes, changes=changes, decided=time.time()), ()
            entry.reported -= {change.id for change in changes if change.state == "taken back"}
        self.run_on_loop(partial(self._publish, set_id, *names))

    def rename(self, before: str, path: str) -> None:
        """Let a notebook's sets follow it to another path.

        Args:
            before: The path until now.
            path: The new one.
        """
        with self._lock:
            for entry in self._entries.values():
                if entry.changes.path == before:
                    entry.changes = replace(entry.changes, path=path)

    def is_applied(self, set_id: str) -> bool:
        """Return whether changes in a set were accepted.

        Args:
            set_id: The set.
        """
        with self._lock:
            entry = self._entries.get(set_id)
            changes = () if entry is None else entry.changes.changes
            return any(change.state in ("accepted", "edited") for change in changes)

    def inverse(self, set_id: str) -> tuple[JsonObject, ...]:
        """Return the operations to take a set back.

        Cells moved by later sets are away from their places: other cells return behind their neighbours.

        Args:
            set_id: The set.
        """
        with self._lock:
            entry = self._entries.get(set_id)
            if entry is None:
                return ()
            operations = [operation for other in self._later(entry) for operation in other.inverse]
            away = {_subject(operation) for operation in operations if operation.get("kind") == "move"}
            return tuple(_without(operation, away) for operation in entry.inverse)

    def open_set(self, agent_id: str) -> ChangeSet | None:
        """Return an agent's newest open set.

        Args:
            agent_id: The agent.
        """
        sets = [changes for changes in self.sets() if changes.agent_id == agent_id]
        return next((changes for changes in reversed(sets) if changes.is_open and not changes.run), None)

    async def wait(self, set_id: str, changes: Collection[str], seconds: float | None) -> tuple[CellChange, ...]:
        """Wait for decisions, and note them as known to the agent.

        Args:
            set_id: The set.
            changes: The changes.
            seconds: How long, None for any time.

        Returns:
            The changes afterwards; some may be open.
        """
        try:
            async with asyncio.timeout(seconds):
                while any(change.state == "open" for change in self._named(set_id, changes)):
                    await self._changed.wait()
        except TimeoutError:
            pass
        result = self._named(set_id, changes)
        with self._lock:
            if (entry := self._entries.get(set_id)) is not None:
                entry.reported |= {change.id for change in result if change.state != "open"}
        return result

    def news(self, agent_id: str) -> tuple[CellChange, ...]:
        """Return and mark the decisions unknown to an agent.

        Args:
            agent_id: The agent.
        """
        news: list[CellChange] = []
        with self._lock:
            for entry in self._entries.values():
                if entry.changes.agent_id == agent_id:
                    changes = [change for change in entry.changes.changes if change.state != "open"]
                    news += [change for change in changes if change.id not in entry.reported]
                    entry.reported |= {change.id for change in changes}
        return tuple(news)

    def _named(self, set_id: str, names: Collection[str]) -> tuple[CellChange, ...]:
        with self._lock:
            entry = self._entries.get(set_id)
            return () if entry is None else tuple(change for change in entry.changes.changes if change.id in names)

    def _later(self, entry: _Entry) -> list[_Entry]:
        """Return the applied sets which were decided after one."""
        applied = (other for other in self._entries.values() if other.inverse)
        return [other for other in applied if (other.changes.decided or 0) > (entry.changes.decided or 0)]

    def _publish(self, *set_ids: str) -> None:
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()
        session = self._session()
        for set_id in set_ids if session is not None else ():
            entry = self._entries.get(set_id)
            if session is not None and entry is not None:
                data = {**asdict(entry.changes), "inverse": list(entry.inverse)}
                with suppress(PlanckError):  # the session is closed: the next one begins without
                    session.record_signed_metadata(f"{_KEY}{set_id}", data)
        self.on_change()

    def _forget_old(self) -> None:
        decisions = [name for name, entry in self._entries.items() if not entry.changes.is_open]
        for name in decisions[: max(0, len(decisions) - _KEPT_SETS)]:
            del self._entries[name]


def _decided(change: CellChange, decision: Decision) -> CellChange:
    source = change.source if decision.source is None else decision.source
    return replace(change, state=decision.state, reason=decision.reason, source=source)


def _without(operation: JsonObject, cells: Collection[str]) -> JsonObject:
    """Leave cells out of an operation's place."""
    if "after" not in operation:
        return operation
    return {**operation, "after": [cell for cell in operation["after"] if cell not in cells]}


def _with_neighbours(operations: tuple[JsonObject, ...], earlier: tuple[JsonObject, ...]) -> tuple[JsonObject, ...]:
    """Let cells return behind those which return before them.

    A cell's place is kept by the cells before it, nearest first. It misses a cell which an earlier set had removed, and
    has one which an earlier set had moved.
    """
    result = operations
    for neighbour in earlier:
        if "after" in neighbour:
            result = tuple(_behind(operation, _subject(neighbour), neighbour["after"]) for operation in result)
    return result


def _behind(operation: JsonObject, neighbour: str, before: Collection[str]) -> JsonObject:
    """Put a neighbour into an operation's place."""
    operation = _without(operation, (neighbour,))
    after = operation.get("after", [])
    at = next((at for at, cell in enumerate(after) if cell in before), None)
    if at is None or _subject(operation) in (neighbour, *before):
        return operation
    return {**operation, "after": [*after[:at], neighbour, *after[at:]]}


def _subject(operation: JsonObject) -> str:
    """Return the cell's id."""
    return str(operation.get("cell", operation).get("id"))


def _of_stored(data: Any) -> _Entry | None:  # noqa: ANN401 - JSON data
    """Read a stored set, None for an unreadable one."""
    if not isinstance(data, dict) or data.get("format") != PROTOCOL:
        return None
    inverse = data.get("inverse")
    try:
        changes = _SETS.validate_python({key: value for key, value in data.items() if key != "inverse"})
    except ValidationError:
        return None
    operations = tuple(item for item in inverse if isinstance(item, dict)) if isinstance(inverse, list) else ()
    return _Entry(changes, operations, reported={change.id for change in changes.changes if change.state != "open"})
