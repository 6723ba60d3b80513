"""Prompts that wait for their turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planck_nb.agent.run import Run


class PromptQueue:
    """The runs that have not begun, in the order they came."""

    def __init__(self) -> None:
        self._runs: list[Run[Any]] = []

    def __iter__(self) -> Iterator[Run[Any]]:
        return iter(tuple(self._runs))

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __contains__(self, run: object) -> bool:
        return run in self._runs

    def put(self, run: Run[Any]) -> None:
        """Add a run at the end."""
        self._runs.append(run)

    def remove(self, run: Run[Any]) -> None:
        """Take out one that waits."""
        self._runs.remove(run)

    def find(self, prompt_id: str) -> Run[Any] | None:
        """The run of this id, None where it does not wait."""
        return next((run for run in self._runs if run.id == prompt_id), None)

    def take_turn(self) -> list[Run[Any]]:
        """What the next turn answers: all up to one whose answer is to have a form, or that one alone."""
        alone = next((place for place, run in enumerate(self._runs) if run.output_spec), len(self._runs))
        count = alone or 1
        taken, self._runs = self._runs[:count], self._runs[count:]
        return taken

    def take_steering(self) -> list[Run[Any]]:
        """What enters the running turn."""
        taken = [run for run in self._runs if run.steer]
        self._runs = [run for run in self._runs if not run.steer]
        return taken
