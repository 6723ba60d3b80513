"""The notebook as verbs see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from planck_nb.jupyter.controller import Controller, Namespace
from planck_nb.jupyter.terminal.approval_prompt import LineReader
from planck_nb.workspace import Workspace


def _nobody_types() -> None:
    """Return nothing: no line can be read."""


class Confirm(Protocol):
    """Asks for a decision in the running cell."""

    async def __call__(self, question: str, *, accept: str, decline: str, seconds: float) -> bool | None:
        """Return the decision: False if it is late, None without a person."""
        ...


async def _nobody_decides(question: str, *, accept: str, decline: str, seconds: float) -> None:
    """Leave it open."""


def _discard(_name: str, _value: object) -> None:
    """Assign nothing: there is no notebook."""


@dataclass(frozen=True, slots=True)
class Notebook:
    """The notebook in which a verb was written.

    Args:
        controller: Starts runs, and knows which agent was prompted last.
        names: The variables of the notebook by name.
        put: Assigns a value to a variable of the notebook.
        line_reader: Returns what reads a line that a person types; None if no one types.
        confirm: Asks for a decision.
    """

    controller: Controller
    names: Namespace = field(default_factory=dict)
    put: Callable[[str, object], None] = _discard
    line_reader: Callable[[], LineReader | None] = _nobody_types
    confirm: Confirm = _nobody_decides

    @property
    def workspace(self) -> Workspace:
        """The workspace of the notebook."""
        return self.controller.workspace
