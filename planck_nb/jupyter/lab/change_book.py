"""The proposed changes to cells: who decides about them, and what was decided. The session stores all of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from planck_nb.base.async_tasks import spawn
from planck_nb.base.errors import PlanckError
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.lab.protocol import PROTOCOL, CellChange, ChangeSet, Decision

_KEY = "cell_changes:"
"""How the keys of the session's metadata begin."""

_SETS = TypeAdapter(ChangeSet)
_KEPT_SETS = 200
"""Decided sets that pages can take back."""

_OTHER_PAGE = "Another page with this notebook decides about it."
_DECIDED = "It was decided already."


class SessionStore(Protocol):
    """What stores the sets: a session."""

    @property
    def id(self) -> str:
        """The session's id."""
        ...

    async def save_metadata(self, metadata: JsonObject) -> None:
        """Set keys of the metadata."""
        ...

    def get_metadata(self) -> JsonObject:
        """Return the metadata."""
        ...


@dataclass(slots=True)
class _Entry:
    changes: ChangeSet
    inverse: tuple[JsonObject, ...] = ()
    claims: dict[str, str] = field(default_factory=dict[str, str])
    """The page that decides about a change, by the change."""
    reported: set[str] = field(default_factory=set[str])
    """The changes whose decisions the agent knows."""


class ChangeBook:
    """The sets of one notebook. Claims may come from any thread, everything else from the kernel's event loop.

    Args:
        store: Returns the session, None until there is one.
    """

    def __init__(self, store: Callable[[], SessionStore | None]) -> None:
        self._store = store
        self._entries: dict[str, _Entry] = {}
        self._loaded: set[str] = set()
        self._lock = threading.Lock()
        self._changed = asyncio.Event()
        self.on_change: Callable[[], None] = lambda: None
        """Called after each change."""

    def sets(self) -> tuple[ChangeSet, ...]:
        """Return the sets, those of an earlier kernel in the same session included."""
        self._load()
        with self._lock:
            return tuple(entry.changes for entry in self._entries.values())

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
            Why it may not decide; empty if it may.
        """
        with self._lock:
            entry = self._entries.get(set_id)
            if entry is None:
                return "The kernel does not know this proposal; it may be of another session."
            wanted = set(changes)
            open_ = {change.id for change in entry.changes.changes if change.state == "open"}
            if not wanted <= open_:
                return _DECIDED
            if any(entry.claims.get(change, client) != client for change in wanted):
                return _OTHER_PAGE
            entry.claims |= dict.fromkeys(wanted, client)
            return ""

    def release(self, client: str) -> None:
        """Forget what a page has claimed: it is gone.

        Args:
            client: The page.
        """
        with self._lock:
            for entry in self._entries.values():
                entry.claims = {change: other for change, other in entry.claims.items() if other != client}

    def decide(
        self, set_id: str, decisions: Sequence[Decision], client: str, inverse: Sequence[JsonObject] = ()
    ) -> None:
        """Note what was decided; about a change that is not open, or that another page decides about, nothing is.

        Args:
            set_id: The set.
            decisions: The decisions.
            client: The page on which they were made.
            inverse: What takes back what was applied.
        """
        with self._lock:
            entry = self._entries.get(set_id)
            if entry is None:
                return
            made = {decision.change: decision for decision in decisions if decision.state != "open"}
            made = {name: one for name, one in made.items() if entry.claims.get(name, client) == client}
            changes = tuple(
                _decided(change, made[change.id]) if change.state == "open" and change.id in made else change
                for change in entry.changes.changes
            )
            if changes == entry.changes.changes:
                return
            entry.changes = replace(entry.changes, changes=changes, decided=time.time(), decided_by=client)
            entry.inverse = (*inverse, *entry.inverse)
            entry.claims = {}
        self._publish(set_id)

    def take_back(self, set_id: str) -> None:
        """Note that what was applied of a set was taken back.

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
            entry.changes, entry.inverse = replace(entry.changes, changes=changes, decided=time.time()), ()
            entry.reported -= {change.id for change in changes if change.state == "taken back"}
        self._publish(set_id)

    def rename(self, before: str, path: str) -> None:
        """Let the sets of a notebook follow it to another path.

        Args:
            before: The path until now.
            path: The new one.
        """
        with self._lock:
            for entry in self._entries.values():
                if entry.changes.path == before:
                    entry.changes = replace(entry.changes, path=path)

    def inverse(self, set_id: str) -> tuple[JsonObject, ...]:
        """Return what takes a set back, empty for nothing.

        Args:
            set_id: The set.
        """
        with self._lock:
            entry = self._entries.get(set_id)
            return () if entry is None else entry.inverse

    def open_set(self, agent_id: str) -> ChangeSet | None:
        """Return the newest set of an agent about which a decision is missing.

        Args:
            agent_id: The agent.
        """
        found = [each for each in self.sets() if each.agent_id == agent_id and each.is_open and not each.run]
        return found[-1] if found else None

    async def wait(self, set_id: str, changes: Collection[str], seconds: float | None) -> tuple[CellChange, ...]:
        """Wait until it was decided about changes, and note that the agent learns what.

        Args:
            set_id: The set.
            changes: The changes.
            seconds: How long, None for any time.

        Returns:
            The changes as they are then; some may be open.
        """
        try:
            async with asyncio.timeout(seconds):
                while any(change.state == "open" for change in self._chosen(set_id, changes)):
                    await self._changed.wait()
        except TimeoutError:
            pass
        chosen = self._chosen(set_id, changes)
        with self._lock:
            if (entry := self._entries.get(set_id)) is not None:
                entry.reported |= {change.id for change in chosen if change.state != "open"}
        return chosen

    def news(self, agent_id: str) -> tuple[CellChange, ...]:
        """Return the decisions that an agent does not know yet; from now on it does.

        Args:
            agent_id: The agent.
        """
        found: list[CellChange] = []
        with self._lock:
            for entry in self._entries.values():
                if entry.changes.agent_id == agent_id:
                    fresh = [
                        one for one in entry.changes.changes if one.state != "open" and one.id not in entry.reported
                    ]
                    found += fresh
                    entry.reported |= {change.id for change in fresh}
        return tuple(found)

    def _chosen(self, set_id: str, changes: Collection[str]) -> tuple[CellChange, ...]:
        with self._lock:
            entry = self._entries.get(set_id)
            return () if entry is None else tuple(one for one in entry.changes.changes if one.id in changes)

    def _publish(self, set_id: str) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        store = self._store()
        entry = self._entries.get(set_id)
        if store is not None and entry is not None:
            stored = {**asdict(entry.changes), "inverse": list(entry.inverse)}
            spawn(_save(store, {f"{_KEY}{set_id}": stored}), name="planck cell changes")
        self.on_change()

    def _load(self) -> None:
        """Add the sets in the session, if it is one that was not read yet."""
        store = self._store()
        if store is None or store.id in self._loaded:
            return
        self._loaded.add(store.id)
        stored = [value for key, value in store.get_metadata().items() if key.startswith(_KEY)]
        for data in stored:
            found = _of_stored(data)
            if found is not None:
                with self._lock:
                    self._entries.setdefault(found.changes.id, found)

    def _forget_old(self) -> None:
        decided = [name for name, entry in self._entries.items() if not entry.changes.is_open]
        for name in decided[: max(0, len(decided) - _KEPT_SETS)]:
            del self._entries[name]


def _decided(change: CellChange, decision: Decision) -> CellChange:
    source = change.source if decision.source is None else decision.source
    return replace(change, state=decision.state, reason=decision.reason, source=source)


def _of_stored(data: Any) -> _Entry | None:  # noqa: ANN401 - JSON data
    """A set as a session stores it, None for one that this version cannot read."""
    if not isinstance(data, dict) or data.get("format") != PROTOCOL:
        return None
    inverse = data.get("inverse")
    try:
        found = _SETS.validate_python({key: value for key, value in data.items() if key != "inverse"})
    except ValidationError:
        return None
    operations = tuple(each for each in inverse if isinstance(each, dict)) if isinstance(inverse, list) else ()
    return _Entry(found, operations, reported={change.id for change in found.changes if change.state != "open"})


async def _save(store: SessionStore, metadata: JsonObject) -> None:
    try:
        await store.save_metadata(metadata)
    except PlanckError:
        return  # the session is closed: the next one begins without
