"""The prompts that are waiting to be answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planck_nb.agent.run import Run


class PromptQueue:
    """The runs that have not started, in order of arrival."""

    def __init__(self) -> None:
        self._runs: dict[Run[Any], None] = {}

    def __iter__(self) -> Iterator[Run[Any]]:
        return iter(tuple(self._runs))

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __contains__(self, run: object) -> bool:
        return run in self._runs

    def put(self, run: Run[Any]) -> None:
        """Add a run at the end."""
        self._runs[run] = None

    def remove(self, run: Run[Any]) -> None:
        """Remove a waiting run."""
        del self._runs[run]

    def clear(self) -> list[Run[Any]]:
        """Remove and return all runs."""
        taken, self._runs = self._runs, {}
        return list(taken)

    def find(self, prompt_id: str) -> Run[Any] | None:
        """The waiting run with this id, None if there is none."""
        return next((run for run in self._runs if run.id == prompt_id), None)

    def take_turn(self) -> list[Run[Any]]:
        """Remove and return the runs that the next turn answers.

        Each prompt has a turn of its own, except those that join: they are answered together, up to the next prompt
        that does not join, if they are of one group and batch. Prompts that could not steer the last turn go first, so
        that they steer no other. A prompt with an `output` never joins, because an answer has one schema.
        """
        runs = list(self._runs)
        first = next((index for index, run in enumerate(runs) if not _joins(run)), len(runs))
        lead = next((run for run in runs if run.steer), runs[0])
        taken = [run for index, run in enumerate(runs) if run.steer or (index < first and _belong(run, lead))]
        return self._take(taken or runs[:1])

    def take_steering(self) -> list[Run[Any]]:
        """Remove and return the runs that enter the running turn."""
        return self._take([run for run in self._runs if run.steer])

    def _take(self, taken: list[Run[Any]]) -> list[Run[Any]]:
        for run in taken:
            del self._runs[run]
        return taken


def _joins(run: Run[Any]) -> bool:
    return (run.join or run.steer) and run.output_spec is None


def _belong(run: Run[Any], other: Run[Any]) -> bool:
    return run.group is other.group and run.batch is other.batch
