"""The variables that calls have rebound or deleted, and how to undo that."""

from __future__ import annotations

import builtins
import re
import time
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from planck_nb.base.errors import ToolError

KEPT_CALLS = 20
"""The number of calls whose earlier values are kept, and so stay in memory."""

PREFIX = "py"
"""The prefix of the numbers of these changes, because changes to files are numbered, too."""

_MISSING: Final = object()
"""Stands for the value of a name that does not exist."""

_OF_IPYTHON = re.compile(r"In|Out|get_ipython|exit|quit|_+|_[iod]?h|_i+|_i?\d+|_exit_code|__\w+__")


def is_of_ipython(name: str) -> bool:
    """Whether IPython itself assigns this name, such as `_` and `Out`."""
    return _OF_IPYTHON.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class NameChange:
    """What a call did to variables that existed before.

    Args:
        number: Its number.
        agent_id: The agent that made the call.
        before: The earlier values by name. A name of Python's own, such as `print`, may have had none.
        after: The values that the call has left; those that it deleted are missing.
        time: When the call ended, in seconds since the epoch.
    """

    number: int
    agent_id: str
    before: Mapping[str, object] = field(repr=False)
    after: Mapping[str, object] = field(repr=False)
    time: float = 0.0

    @property
    def label(self) -> str:
        """The number as people write it."""
        return f"{PREFIX}{self.number}"

    @property
    def rebound(self) -> tuple[str, ...]:
        """The names that have another value."""
        return tuple(name for name in self.before if name in self.after)

    @property
    def deleted(self) -> tuple[str, ...]:
        """The names that are gone."""
        return tuple(name for name in self.before if name not in self.after)

    def __str__(self) -> str:
        parts = (("rebound", self.rebound), ("deleted", self.deleted))
        return "; ".join(f"{verb} {', '.join(names)}" for verb, names in parts if names)


class NameChanges:
    """The changes that can be undone, oldest first.

    Args:
        namespace: The variables of the notebook.
    """

    def __init__(self, namespace: MutableMapping[str, object]) -> None:
        self._namespace = namespace
        self._changes: dict[int, NameChange] = {}
        self._last = 0

    def __iter__(self) -> Iterator[NameChange]:
        return iter(tuple(self._changes.values()))

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, before: Mapping[str, object], agent_id: str) -> NameChange | None:
        """Note what a call that has ended did to variables.

        Args:
            before: The earlier values of the names that it changed.
            agent_id: The agent that made the call.

        Returns:
            The change, None if the variables are as before.
        """
        changed = {name: value for name, value in before.items() if self._namespace.get(name, _MISSING) is not value}
        if not changed:
            return None
        after = {name: self._namespace[name] for name in changed if name in self._namespace}
        self._last += 1
        change = self._changes[self._last] = NameChange(self._last, agent_id, changed, after, time.time())
        while len(self._changes) > KEPT_CALLS:
            del self._changes[next(iter(self._changes))]
        return change

    def undo(self, number: int | None = None) -> str:
        """Restore the variables of a change; one that has changed since stays as it is.

        Args:
            number: The number of the change; by default the newest.

        Returns:
            A sentence on what was restored, and one on what was not.

        Raises:
            ToolError: There is no such change.
        """
        change = self._changes.pop(max(self._changes, default=0) if number is None else number, None)
        if change is None:
            raise ToolError("There is no such change to undo; `%planck changes` lists those that are kept.")
        restored, kept = [], []
        for name, value in change.before.items():
            if self._namespace.get(name, _MISSING) is change.after.get(name, _MISSING):
                if value is _MISSING:
                    del self._namespace[name]
                else:
                    self._namespace[name] = value
                restored.append(name)
            else:
                kept.append(name)
        sentences = []
        if restored:
            verb = "has its value" if len(restored) == 1 else "have their values"
            sentences.append(f"{', '.join(restored)} {verb} from before the run_python.")
        if kept:
            verb = "was changed since and stays" if len(kept) == 1 else "were changed since and stay"
            sentences.append(f"{', '.join(kept)} {verb} as it is." if len(kept) == 1 else f"{', '.join(kept)} {verb}.")
        return " ".join(sentences)


class NameTracker:
    """Finds out which variables the code of one call changes, step by step: other code runs between its steps.

    Args:
        namespace: The variables of the notebook.
    """

    def __init__(self, namespace: MutableMapping[str, object]) -> None:
        self._namespace = namespace
        self.before: dict[str, object] = {}
        """The earlier values of the names that it rebound or deleted."""
        self.created: set[str] = set()
        """The names that did not exist before."""

    def snapshot(self) -> dict[str, object]:
        """The variables at the start of a step."""
        return dict(self._namespace)

    def compare(self, snapshot: Mapping[str, object]) -> None:
        """Note what has changed at the end of a step. Names of IPython get back what they had."""
        namespace = self._namespace
        for name, value in snapshot.items():
            if namespace.get(name, _MISSING) is value:
                continue
            if is_of_ipython(name):
                namespace[name] = value
            elif name not in self.created:
                self.before.setdefault(name, value)
        for name in [name for name in namespace if name not in snapshot]:
            if type(name) is not str or is_of_ipython(name):
                del namespace[name]
            elif getattr(builtins, name, namespace[name]) is not namespace[name]:  # it hides Python's own
                self.before.setdefault(name, _MISSING)
            else:
                self.created.add(name)
