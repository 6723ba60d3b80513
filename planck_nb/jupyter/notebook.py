"""The notebook as verbs see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from planck_nb.jupyter.controller import Controller, Namespace
from planck_nb.jupyter.terminal.approval_prompt import LineReader
from planck_nb.workspace import Workspace


def _nobody_types() -> None:
    """Return nothing: no line can be read."""


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
    """

    controller: Controller
    names: Namespace = field(default_factory=dict)
    put: Callable[[str, object], None] = _discard
    line_reader: Callable[[], LineReader | None] = _nobody_types

    @property
    def workspace(self) -> Workspace:
        """The workspace of the notebook."""
        return self.controller.workspace
